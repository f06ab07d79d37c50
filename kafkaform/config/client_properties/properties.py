"""Client properties as written, checked against the allow-list and for conflicts.

Their secrets are still references: `${env:NAME}` or `${file:PATH}`; `$$` is a dollar sign.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.config.client_properties.table import (
    ALIASES,
    ALLOW_HTTP,
    PROPERTIES,
    REGISTRY_URL,
    Choice,
    describe_refusal,
    explain_refusal,
)
from kafkaform.core.errors import Problem
from kafkaform.core.schema_files import load_schema
from kafkaform.core.secrets import HIDDEN, MalformedReference, Reference, parse_reference
from kafkaform.core.values import Value, field, replace
from kafkaform.core.wording import nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkaform.core.model import Location


_TOKEN = re.compile(r"\$\$|\$\{([^}]*)(\}?)")

Part: TypeAlias = str | Reference


class Template(Value):
    """A value in parts: literal text and references."""

    parts: tuple[Part, ...]

    def __repr__(self) -> str:
        return "Template(<hidden>)"

    @property
    def references(self) -> tuple[Reference, ...]:
        """The references, in order."""
        return tuple(part for part in self.parts if isinstance(part, Reference))

    @property
    def literal(self) -> str | None:
        """The value, if it has no references."""
        return None if self.references else "".join(str(part) for part in self.parts)

    def fill(self, read: Callable[[Reference], str]) -> str:
        """Return the value with each reference replaced by the result of `read`."""
        return "".join(part if isinstance(part, str) else read(part) for part in self.parts)

    def resolve_files(self, folder: Path) -> Template:
        """Return a copy whose references to files are resolved against a folder."""
        return Template(
            tuple(
                replace(part, name=_join_path(folder, part.name))
                if isinstance(part, Reference) and part.source == "file"
                else part
                for part in self.parts
            )
        )


def parse_template(text: str) -> Template:
    """Split a value into text and references; a single dollar sign is literal.

    Raises:
        MalformedReference: A `${…}` has another form.
    """
    parts: list[Part] = []
    position = 0
    for token in _TOKEN.finditer(text):
        parts.append(text[position : token.start()])
        position = token.end()
        body, closed = token.groups()
        if token.group() == "$$":
            parts.append("$")
        elif closed:
            parts.append(parse_reference(body))
        else:
            raise MalformedReference("a ${ without its closing }")
    parts.append(text[position:])
    return Template(tuple(part for part in parts if part != ""))


def escape(text: str) -> str:
    """Escape text so that `parse_template` returns it unchanged."""
    return text.replace("$", "$$")


_EXCLUSIVE = (
    ("ssl.ca.location", "ssl.ca.pem"),
    ("ssl.certificate.location", "ssl.certificate.pem"),
    ("ssl.key.location", "ssl.key.pem"),
    ("https.ca.location", "https.ca.pem"),
    ("ssl.keystore.location", "ssl.certificate.location"),
    ("ssl.keystore.location", "ssl.certificate.pem"),
    ("basic.auth.user.info", "bearer.auth.token"),
)
_CERTIFICATE = ("ssl.certificate.location", "ssl.certificate.pem")
_KEY = ("ssl.key.location", "ssl.key.pem")
_NEEDS = (
    (_CERTIFICATE, _KEY),
    (_KEY, _CERTIFICATE),
    (("ssl.keystore.location",), ("ssl.keystore.password",)),
    (("schema.registry.ssl.certificate.location",), ("schema.registry.ssl.key.location",)),
    (("schema.registry.ssl.key.location",), ("schema.registry.ssl.certificate.location",)),
)
"""Properties, and those of which they need one."""
_ACCOUNT = ("sasl.username", "sasl.password")
_LOGINS: Mapping[str, tuple[str, ...]] = {
    "PLAIN": _ACCOUNT,
    "SCRAM-SHA-256": _ACCOUNT,
    "SCRAM-SHA-512": _ACCOUNT,
    "OAUTHBEARER": ("sasl.oauthbearer.method",),
}
"""The properties that each mechanism needs."""
_TLS = ("ssl.ca.location", "ssl.ca.pem", "ssl.crl.location", *_CERTIFICATE, *_KEY, "ssl.keystore.location")
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"


def find_conflicts(
    values: Mapping[str, str | None], locate: Callable[[str], Location | None]
) -> Iterator[Problem]:
    """Find properties that conflict; a value of None is set, but not known before its references are read."""
    for first, second in _EXCLUSIVE:
        if first in values and second in values:
            yield Problem(f"{second} and {first} exclude each other", locate(second), "keep one of the two")
    for names, needed in _NEEDS:
        name = next((name for name in names if name in values), None)
        if name is not None and not any(alternative in values for alternative in needed):
            yield Problem(f"{name} needs {needed[0]}", locate(name), f"set {_suggest_line(needed[0])}")
    yield from _check_registry(values, locate)
    protocol = values.get("security.protocol", "PLAINTEXT")
    # It is a reference, and checked when it is resolved.
    if protocol is None:
        return
    if "SSL" not in protocol:
        yield from _find_ineffective(values, _TLS, protocol, "SSL or SASL_SSL", locate)
    if protocol.startswith("SASL_"):
        yield from _check_login(values, protocol, locate)
    else:
        login = [name for name in values if name.startswith("sasl.")]
        yield from _find_ineffective(values, login, protocol, "SASL_SSL", locate)


def _check_registry(
    values: Mapping[str, str | None], locate: Callable[[str], Location | None]
) -> Iterator[Problem]:
    """Find properties of a schema registry without its address, and a login that others could read."""
    names = [name for name in values if name.startswith(("schema.registry.", "basic.auth.", "bearer.auth."))]
    if names and REGISTRY_URL not in values:
        yield Problem(f"{names[0]} needs {REGISTRY_URL}", locate(names[0]), f"set {REGISTRY_URL}")
    url = values.get(REGISTRY_URL)
    login = next((name for name in ("basic.auth.user.info", "bearer.auth.token") if name in values), None)
    if login is not None and url and is_plain_http(url):
        message = f"{REGISTRY_URL} is plain http: others on the network could read {login}"
        yield Problem(message, locate(REGISTRY_URL), "use https")


def _find_ineffective(
    values: Mapping[str, str | None],
    names: Sequence[str],
    protocol: str,
    wanted: str,
    locate: Callable[[str], Location | None],
) -> Iterator[Problem]:
    # An error, not a warning: an authority without TLS suggests a protection that the connection does not
    # have.
    name = next((name for name in names if name in values), None)
    if name is not None:
        verb = "is" if "security.protocol" in values else "is by default"
        message = f"{name} has no effect: security.protocol {verb} {protocol}"
        yield Problem(message, locate(name), f"set security.protocol to {wanted}")


def _check_login(
    values: Mapping[str, str | None], protocol: str, locate: Callable[[str], Location | None]
) -> Iterator[Problem]:
    setting, mechanism = "sasl.mechanism", values.get("sasl.mechanism")
    if setting not in values:
        hint = PROPERTIES[setting].type.description
        at = locate("security.protocol")
        yield Problem(f"security.protocol {protocol} needs {setting}", at, f"one of {hint}")
        return
    needed = [*_LOGINS.get(mechanism or "", ())]
    # The other grants need other properties, which kafkaform refuses.
    grant = values.get("sasl.oauthbearer.grant.type", "client_credentials")
    metadata = values.get("sasl.oauthbearer.metadata.authentication.type", "none")
    if mechanism == "OAUTHBEARER" and (grant, metadata) == ("client_credentials", "none"):
        needed.append(_ENDPOINT)
        endpoint = values.get(_ENDPOINT, "")
        # A token file needs no client; a reference may resolve to the URL of one.
        if endpoint is not None and not endpoint.startswith("file:"):
            needed += ["sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"]
    for name in needed:
        if name not in values:
            hint = f"set {_suggest_line(name)}"
            yield Problem(f"{setting} {mechanism} needs {name}", locate(setting), hint)
    endpoint, allowed = values.get(_ENDPOINT), values.get(ALLOW_HTTP, "false")
    # It would receive the client's secret in plain text.
    if mechanism == "OAUTHBEARER" and endpoint and allowed == "false" and is_plain_http(endpoint):
        yield Problem(
            f"{_ENDPOINT} is plain http: others on the network could read the client's secret and its tokens",
            locate(_ENDPOINT),
            f"use https, or set {ALLOW_HTTP}: true if the network is private",
        )


def _suggest_line(name: str) -> str:
    """Return the line of a property that is missing, as far as it is known."""
    property_ = PROPERTIES[name]
    if property_.sensitive or name == "sasl.username":
        return f"{name}: ${{env:NAME}}"
    is_fixed = isinstance(property_.type, Choice) and len(property_.type.values) == 1
    return f"{name}: {property_.type.description}" if is_fixed else name


def is_plain_http(url: str) -> bool:
    """Return whether a URL is plain http to another machine (not `localhost`, 127.0.0.0/8 or ::1)."""
    if not url.lower().startswith("http://"):
        return False
    from urllib.parse import urlsplit  # imported here: few clients have such a URL

    try:
        return not is_loopback(urlsplit(url).hostname or "")
    except ValueError:  # not a URL
        return True


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine by name or address: `localhost`, 127.0.0.0/8, ::1."""
    import ipaddress  # imported here: few commands need it

    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:  # a name
        return host == "localhost"


_PATHS = re.compile(r"\.(location|keytab|file)$")
"""The properties whose value is the path of a file or folder."""
_JAVA_STORE = "probe"
"""The value of `ssl.ca.location` that is not a path."""


class ClientProperties(Value):
    """The properties of one cluster's clients, with unresolved references; its repr shows no secret.

    Attributes:
        templates: Normalised values by librdkafka's name.
        locations: The place of each property in its file.
    """

    templates: Mapping[str, Template] = field(default_factory=dict)
    locations: Mapping[str, Location] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ClientProperties({self.describe()!r})"

    def describe(self) -> dict[str, str]:
        """Return every property with a value that may be printed."""
        return {name: _display(name, template) for name, template in sorted(self.templates.items())}

    def resolve_paths(self, folder: Path) -> ClientProperties:
        """Return these properties with all relative paths, also in references, resolved against a folder."""
        # Relative to the file that has the properties: the working directory differs from run to run.
        return ClientProperties(
            {name: _resolve_paths(name, value, folder) for name, value in self.templates.items()},
            self.locations,
        )

    def merge(self, over: ClientProperties) -> ClientProperties:
        """Return these properties overridden by those of `over`, such as flags of the command line."""
        return ClientProperties({**self.templates, **over.templates}, {**self.locations, **over.locations})


def parse(
    raw: Mapping[str, object], locate: Callable[[str], Location | None]
) -> tuple[ClientProperties, list[Problem]]:
    """Parse a `client:` mapping into its valid properties and the problems of the others.

    Args:
        raw: Values (text, whole numbers, booleans) by the name as written.
        locate: Returns the place of a name in its file.
    """
    problems: list[Problem] = []
    templates: dict[str, Template] = {}
    written: dict[str, str] = {}
    for spelled, value in raw.items():
        name = ALIASES.get(spelled, spelled)
        if name not in PROPERTIES:
            problems.append(_refuse_name(spelled, raw, locate(spelled)))
        elif name in written:
            message = f"{spelled} and {written[name]} are two names of one property"
            problems.append(Problem(message, locate(spelled), f"keep {name}"))
        else:
            written[name] = spelled
            try:
                templates[name] = _parse_value(name, value)
            except ValueError as error:
                problems.append(Problem(f"{spelled}: {error}", locate(spelled)))
    locations = {name: at for name, spelled in written.items() if (at := locate(spelled)) is not None}
    # An invalid property counts as set, so that one mistake is reported once.
    known: dict[str, str | None] = {name: t.literal for name, t in templates.items()}
    known |= {name: None for name in written if name not in templates}
    problems += find_conflicts(known, locations.get)
    return ClientProperties(templates, locations), problems


def _refuse_name(name: str, raw: Mapping[str, object], location: Location | None) -> Problem:
    if (why := explain_refusal(name)) is not None:
        from kafkaform.config.client_properties.java_file import suggest_property  # imports this module

        return Problem(describe_refusal(name, why), location, suggest_property(name, raw))
    if name in load_schema("config")["$defs"]["cluster"]["properties"]:
        return Problem(f"{name} is not a client property", location, "write it beside client: indent it less")
    return explain_unknown(name, (*PROPERTIES, *ALIASES), location)


def explain_unknown(name: str, known: Iterable[str], location: Location | None) -> Problem:
    """Explain that there is no property of this name."""
    close = nearest(name, known)
    hint = f"did you mean {close}?" if close else "docs/clients.md lists every property"
    return Problem(f"unknown client property {quoted(name)}", location, hint)


def _parse_value(name: str, value: object) -> Template:
    """Parse a value into its normal form; raises ValueError if it is invalid, with what must be changed."""
    # Before int: in Python, a bool is one.
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, int):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError("must be text, a whole number, true or false: write lists as one text, with commas")  # noqa: TRY004
    try:
        template = parse_template(value)
    except MalformedReference as error:
        raise ValueError(f"contains {error}; write $$ for a dollar sign") from None
    # A reference is valid in every property: its text is checked when it is read.
    if (literal := template.literal) is None:
        return template
    return Template((PROPERTIES[name].type.parse(literal),))


def _resolve_paths(name: str, template: Template, folder: Path) -> Template:
    parts = template.resolve_files(folder).parts
    first = parts[0] if parts else ""
    # A value that begins with a reference is only known at use: its path is taken as it is.
    if _PATHS.search(name) and isinstance(first, str) and first and first != _JAVA_STORE:
        parts = (_join_path(folder, first), *parts[1:])
    return Template(parts)


def _join_path(folder: Path, path: str) -> str:
    # Path would drop the slash of `certs/`, which may be followed by a reference.
    return path if path.startswith("~") or folder == Path() else os.path.join(folder, path)  # noqa: PTH118


def _display(name: str, template: Template) -> str:
    literal = template.literal
    # A value with references is hidden whole: what was worth keeping out of the file is not for output.
    return HIDDEN if literal is None or PROPERTIES[name].sensitive else literal

"""Client properties as written, checked against the allow-list and for conflicts.

Their secrets are still references: `${env:NAME}` or `${file:PATH}`; `$$` is a dollar sign.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.config.client_properties.catalogue import ALIASES, ALLOW_HTTP, PROPERTIES
from kafkaform.config.client_properties.other_names import explain_refusal
from kafkaform.core.errors import Problem
from kafkaform.core.schema_files import load_schema
from kafkaform.core.secrets import HIDDEN, MalformedReference, Reference, parse_reference
from kafkaform.core.values import Value, field, replace
from kafkaform.core.wording import nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

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
        parts.append("$" if token.group() == "$$" else _parse_reference(token))
        position = token.end()
    parts.append(text[position:])
    return Template(tuple(part for part in parts if part != ""))


def escape(text: str) -> str:
    """Escape text so that `parse_template` returns it unchanged."""
    return text.replace("$", "$$")


def _parse_reference(token: re.Match[str]) -> Reference:
    body, closed = token.group(1), token.group(2)
    if not closed:
        raise MalformedReference("a ${ without its closing }")
    return parse_reference(body)


_EXCLUSIVE = (
    ("ssl.ca.location", "ssl.ca.pem"),
    ("ssl.certificate.location", "ssl.certificate.pem"),
    ("ssl.key.location", "ssl.key.pem"),
    ("https.ca.location", "https.ca.pem"),
    ("ssl.keystore.location", "ssl.certificate.location"),
    ("ssl.keystore.location", "ssl.certificate.pem"),
)
_CERTIFICATE = ("ssl.certificate.location", "ssl.certificate.pem")
_KEY = ("ssl.key.location", "ssl.key.pem")
_AUTHORITIES = ("ssl.ca.location", "ssl.ca.pem", "ssl.crl.location")
_TLS_PROPERTIES = (*_AUTHORITIES, *_CERTIFICATE, *_KEY, "ssl.keystore.location")


def find_conflicts(
    values: Mapping[str, str | None], locate: Callable[[str], Location | None]
) -> Iterator[Problem]:
    """Find properties that conflict; a value of None is set, but not known before its references are read."""
    for first, second in _EXCLUSIVE:
        if first in values and second in values:
            yield Problem(f"{second} and {first} exclude each other", locate(second), "keep one of the two")
    yield from _check_pairs(values, locate)
    protocol = values.get("security.protocol", "PLAINTEXT")
    # It is a reference, and checked when it is resolved.
    if protocol is None:
        return
    if "SSL" not in protocol:
        yield from _check_ineffective(values, _TLS_PROPERTIES, protocol, "SSL or SASL_SSL", locate)
    if protocol.startswith("SASL_"):
        yield from _check_sasl(values, protocol, locate)
    else:
        sasl = tuple(name for name in values if name.startswith("sasl."))
        yield from _check_ineffective(values, sasl, protocol, "SASL_SSL", locate)


def _check_pairs(
    values: Mapping[str, str | None], locate: Callable[[str], Location | None]
) -> Iterator[Problem]:
    certificate = next((name for name in _CERTIFICATE if name in values), None)
    key = next((name for name in _KEY if name in values), None)
    if certificate and not key:
        yield Problem(f"{certificate} needs its private key", locate(certificate), "set ssl.key.location too")
    if key and not certificate:
        yield Problem(f"{key} needs its certificate", locate(key), "set ssl.certificate.location too")
    if "ssl.keystore.location" in values and "ssl.keystore.password" not in values:
        yield Problem(
            "ssl.keystore.location needs ssl.keystore.password",
            locate("ssl.keystore.location"),
            "set ssl.keystore.password: ${env:NAME} or ${file:PATH}",
        )


def _check_ineffective(
    values: Mapping[str, str | None],
    names: tuple[str, ...],
    protocol: str,
    wanted: str,
    locate: Callable[[str], Location | None],
) -> Iterator[Problem]:
    # An error, not a warning: an authority without TLS suggests a protection that the connection does not
    # have.
    name = next((name for name in names if name in values), None)
    if name is not None:
        verb = "is" if "security.protocol" in values else "is by default"
        yield Problem(
            f"{name} has no effect: security.protocol {verb} {protocol}",
            locate(name),
            f"set security.protocol to {wanted}",
        )


def _check_sasl(
    values: Mapping[str, str | None], protocol: str, locate: Callable[[str], Location | None]
) -> Iterator[Problem]:
    at = locate("security.protocol")
    if "sasl.mechanism" not in values:
        hint = "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM, GSSAPI"
        yield Problem(f"security.protocol {protocol} needs sasl.mechanism", at, hint)
        return
    mechanism = values["sasl.mechanism"]
    at = locate("sasl.mechanism")
    if mechanism == "PLAIN" or (mechanism or "").startswith("SCRAM-"):
        for name in ("sasl.username", "sasl.password"):
            if name not in values:
                yield Problem(f"sasl.mechanism {mechanism} needs {name}", at, f"set {name}: ${{env:NAME}}")
    if mechanism == "OAUTHBEARER":
        yield from _check_oauthbearer(values, at)
        yield from _find_clear_text_endpoints(values, locate)


def _check_oauthbearer(values: Mapping[str, str | None], at: Location | None) -> Iterator[Problem]:
    prefix = "sasl.oauthbearer."
    needed = [f"{prefix}method"]
    # The other grants need other properties, which librdkafka checks.
    other_grant = f"{prefix}grant.type" in values and values[f"{prefix}grant.type"] != "client_credentials"
    metadata = values.get(f"{prefix}metadata.authentication.type", "none") != "none"
    if not other_grant and not metadata:
        needed.append(f"{prefix}token.endpoint.url")
        endpoint = values.get(needed[-1], "")
        # A token file needs no client; a reference may resolve to the URL of one.
        if endpoint is not None and not endpoint.startswith("file:"):
            needed += [f"{prefix}client.id", f"{prefix}client.secret"]
    for name in needed:
        if name not in values:
            hint = f"set {name}: oidc" if name.endswith("method") else f"set {name}"
            yield Problem(f"sasl.mechanism OAUTHBEARER needs {name}", at, hint)


def _find_clear_text_endpoints(
    values: Mapping[str, str | None], locate: Callable[[str], Location | None]
) -> Iterator[Problem]:
    """Find a token endpoint that would receive the client's secret in plain text without permission."""
    name = "sasl.oauthbearer.token.endpoint.url"
    endpoint, allowed = values.get(name), values.get(ALLOW_HTTP, "false")
    if endpoint is None or allowed != "false" or not is_plain_http(endpoint):
        return
    yield Problem(
        f"{name} is plain http: others on the network could read the client's secret and its tokens",
        locate(name),
        f"use https, or set {ALLOW_HTTP}: true if the network is private",
    )


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


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class PropertyValues(Mapping[str, str]):
    """A mapping of librdkafka's names to values, which may be secret and are not in its repr."""

    values_by_name: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(sorted(self.values_by_name))}: {HIDDEN})"


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
            problems.append(_explain_unknown(spelled, raw, locate(spelled)))
        elif name in written:
            message = f"{spelled} and {written[name]} are two names of one property"
            problems.append(Problem(message, locate(spelled), f"keep {name}"))
        else:
            written[name] = spelled
            parsed = _parse_value(name, value)
            if isinstance(parsed, Template):
                templates[name] = parsed
            else:
                problems.append(Problem(f"{spelled}: {parsed[0]}", locate(spelled), parsed[1]))
    locations = {name: at for name, spelled in written.items() if (at := locate(spelled)) is not None}
    # An invalid property counts as set, so that one mistake is reported once.
    known: dict[str, str | None] = {name: t.literal for name, t in templates.items()}
    known |= {name: None for name in written if name not in templates}
    problems += find_conflicts(known, locations.get)
    return ClientProperties(templates, locations), problems


def _explain_unknown(name: str, raw: Mapping[str, object], location: Location | None) -> Problem:
    if (why := explain_refusal(name)) is not None:
        from kafkaform.config.client_properties.java_file import suggest_property  # imports this module

        hint = suggest_property(name, raw) or "remove it"
        return Problem(f"client property {name} is not allowed: {why}", location, hint)
    if name in load_schema("config")["$defs"]["cluster"]["properties"]:
        return Problem(f"{name} is not a client property", location, "write it beside client: indent it less")
    close = nearest(name, (*PROPERTIES, *ALIASES))
    hint = f"did you mean {close}?" if close else "docs/clients.md lists every property"
    return Problem(f"unknown client property {quoted(name)}", location, hint)


def _parse_value(name: str, value: object) -> Template | tuple[str, str | None]:
    """Return the normalised value, or the problem and a hint."""
    # Before int: in Python, a bool is one.
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, int):
        value = str(value)
    if not isinstance(value, str):
        return "must be text, a whole number, true or false", "write lists as one text, with commas"
    try:
        # Values are checked after references are found: a reference is valid in every property.
        template = parse_template(value)
    except MalformedReference as error:
        return f"contains {error}", "write $$ for a dollar sign"
    if (literal := template.literal) is None:
        return template
    kind = PROPERTIES[name].kind
    if (flaw := kind.find_flaw(literal)) is not None:
        return flaw, None
    return Template((kind.normalise(literal),))


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

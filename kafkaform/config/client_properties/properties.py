"""Client properties as written.

They are checked against the allow-list and with each other; their secrets are still references:
`${env:NAME}` or `${file:PATH}`, and `$$` is a dollar.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from kafkaform.config.client_properties.catalogue import ALIASES, ALLOW_HTTP, PROPERTIES
from kafkaform.config.client_properties.other_names import reason
from kafkaform.core.errors import Problem
from kafkaform.core.wording import nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkaform.core.model import Location


_TOKEN = re.compile(r"\$\$|\$\{([^}]*)(\}?)")
_ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_FILE = re.compile(r"file:(\S.*)", re.DOTALL)


class MalformedReference(ValueError):  # noqa: N818 - names what is in the text
    """A `${…}` that is neither of the two forms; its text says which, and holds nothing of the rest."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A place outside the configuration where text is read at use."""

    source: Literal["env", "file"]
    name: str

    def __str__(self) -> str:
        return f"${{{self.source}:{self.name}}}"


Part: TypeAlias = str | Reference


@dataclass(frozen=True, slots=True, repr=False)
class Template:
    """A value in parts: text as written, and references."""

    parts: tuple[Part, ...]

    def __repr__(self) -> str:
        return "Template(<hidden>)"

    @property
    def references(self) -> tuple[Reference, ...]:
        """Its references, in order."""
        return tuple(part for part in self.parts if isinstance(part, Reference))

    @property
    def literal(self) -> str | None:
        """The value, where it needs nothing from outside."""
        return None if self.references else "".join(str(part) for part in self.parts)

    def fill(self, read: Callable[[Reference], str]) -> str:
        """The value, with what `read` finds for each reference."""
        return "".join(part if isinstance(part, str) else read(part) for part in self.parts)


def parse_template(text: str) -> Template:
    """Split a value into text and references; a lone dollar is a dollar.

    Raises:
        MalformedReference: A `${…}` of another form.
    """
    parts: list[Part] = []
    position = 0
    for token in _TOKEN.finditer(text):
        parts.append(text[position : token.start()])
        parts.append("$" if token.group() == "$$" else _reference(token))
        position = token.end()
    parts.append(text[position:])
    return Template(tuple(part for part in parts if part != ""))


def escape(text: str) -> str:
    """Text that `parse_template` reads back as it is, whatever it holds."""
    return text.replace("$", "$$")


def _reference(token: re.Match[str]) -> Reference:
    body, closed = token.group(1), token.group(2)
    if not closed:
        raise MalformedReference("a ${ without its closing }")
    if match := _ENV.fullmatch(body):
        return Reference("env", match.group(1))
    if match := _FILE.fullmatch(body):
        return Reference("file", match.group(1))
    # The body may be a piece of a password, so it is not repeated.
    raise MalformedReference("a ${…} that is neither ${env:NAME} nor ${file:PATH}")


_EITHER = (
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
_MEANS_TLS = (*_AUTHORITIES, *_CERTIFICATE, *_KEY, "ssl.keystore.location")


def incoherences(
    values: Mapping[str, str | None], locate: Callable[[str], Location | None]
) -> Iterator[Problem]:
    """Everything that cannot be meant together; a value of None is set, but not known yet."""
    for first, second in _EITHER:
        if first in values and second in values:
            yield Problem(f"{second} and {first} exclude each other", locate(second), "keep one of the two")
    yield from _pairs(values, locate)
    protocol = values.get("security.protocol", "PLAINTEXT")
    if protocol is None:
        return
    if "SSL" not in protocol:
        yield from _without_effect(values, _MEANS_TLS, protocol, "SSL or SASL_SSL", locate)
    if protocol.startswith("SASL_"):
        yield from _sasl(values, protocol, locate)
    else:
        sasl = tuple(name for name in values if name.startswith("sasl."))
        yield from _without_effect(values, sasl, protocol, "SASL_SSL", locate)


def _pairs(values: Mapping[str, str | None], locate: Callable[[str], Location | None]) -> Iterator[Problem]:
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


def _without_effect(
    values: Mapping[str, str | None],
    names: tuple[str, ...],
    protocol: str,
    wanted: str,
    locate: Callable[[str], Location | None],
) -> Iterator[Problem]:
    name = next((name for name in names if name in values), None)
    if name is not None:
        said = "is" if "security.protocol" in values else "is by default"
        yield Problem(
            f"{name} has no effect: security.protocol {said} {protocol}",
            locate(name),
            f"set security.protocol to {wanted}",
        )


def _sasl(
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
        yield from _oauthbearer(values, at)
        yield from _find_clear_text_endpoints(values, locate)


def _oauthbearer(values: Mapping[str, str | None], at: Location | None) -> Iterator[Problem]:
    prefix = "sasl.oauthbearer."
    needed = [f"{prefix}method"]
    # Both other ways to a token need their own properties, which librdkafka checks itself.
    other_grant = f"{prefix}grant.type" in values and values[f"{prefix}grant.type"] != "client_credentials"
    metadata = values.get(f"{prefix}metadata.authentication.type", "none") != "none"
    if not other_grant and not metadata:
        needed.append(f"{prefix}token.endpoint.url")
        endpoint = values.get(needed[-1], "")
        # A file holds a token already; a reference may turn out to be the URL of one.
        if endpoint is not None and not endpoint.startswith("file:"):
            needed += [f"{prefix}client.id", f"{prefix}client.secret"]
    for name in needed:
        if name not in values:
            hint = f"set {name}: oidc" if name.endswith("method") else f"set {name}"
            yield Problem(f"sasl.mechanism OAUTHBEARER needs {name}", at, hint)


def _find_clear_text_endpoints(
    values: Mapping[str, str | None], locate: Callable[[str], Location | None]
) -> Iterator[Problem]:
    """Find a token endpoint that a client's secret would go to in plain text, without being allowed."""
    name = "sasl.oauthbearer.token.endpoint.url"
    endpoint, allowed = values.get(name), values.get(ALLOW_HTTP, "false")
    if endpoint is None or allowed != "false" or not is_plain_http(endpoint):
        return
    yield Problem(
        f"{name} is plain http: the client's secret and its tokens could be read on the way",
        locate(name),
        f"use https, or set {ALLOW_HTTP}: true if nobody else can read this network",
    )


def is_plain_http(url: str) -> bool:
    """Return whether a URL is of plain http and not of this machine (`localhost`, 127.0.0.0/8, ::1)."""
    if not url.lower().startswith("http://"):
        return False
    from urllib.parse import urlsplit  # imported here: few clients have such a URL

    try:
        return not is_loopback(urlsplit(url).hostname or "")
    except ValueError:  # no URL
        return True


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine by name or address: `localhost`, 127.0.0.0/8, ::1."""
    import ipaddress  # imported here: few commands ask

    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:  # a name, or nothing that could be one
        return host == "localhost"


_PATHS = re.compile(r"\.(location|keytab|file)$")
"""The properties that name a file, or a folder of them."""
_JAVA_STORE = "probe"
"""The value of `ssl.ca.location` that is no file."""
HIDDEN = "<hidden>"
"""The text in the place of a secret."""


@dataclass(frozen=True, slots=True, repr=False)
class ClientProperties:
    """The properties of one cluster's clients; never shows a secret, and does not know any yet.

    Attributes:
        templates: Values by librdkafka's name, canonical spelling, references unresolved.
        locations: Where each was written.
    """

    templates: Mapping[str, Template] = field(default_factory=dict)
    locations: Mapping[str, Location] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ClientProperties({self.shown()!r})"

    def shown(self) -> dict[str, str]:
        """Every property in a form that may be printed."""
        return {name: _shown(name, template) for name, template in sorted(self.templates.items())}

    def located(self, folder: Path) -> ClientProperties:
        """These properties with relative paths of files, also those of references, started at a folder."""
        return ClientProperties(
            {name: _located(name, value, folder) for name, value in self.templates.items()}, self.locations
        )

    def merged(self, over: ClientProperties) -> ClientProperties:
        """These properties with those of `over` in front, as for a flag on the command line."""
        return ClientProperties({**self.templates, **over.templates}, {**self.locations, **over.locations})


def parse(
    raw: Mapping[str, object], locate: Callable[[str], Location | None]
) -> tuple[ClientProperties, list[Problem]]:
    """Check a `client:` mapping; the properties hold what is right in it, the problems what is not.

    Args:
        raw: Values (text, whole numbers, booleans) by the name as written.
        locate: Where a name was written.
    """
    problems: list[Problem] = []
    templates: dict[str, Template] = {}
    written: dict[str, str] = {}
    for spelled, value in raw.items():
        name = ALIASES.get(spelled, spelled)
        if name not in PROPERTIES:
            problems.append(_unknown(spelled, locate(spelled)))
        elif name in written:
            said = f"{spelled} and {written[name]} are two names of one property"
            problems.append(Problem(said, locate(spelled), f"keep {name}"))
        else:
            written[name] = spelled
            parsed = _value(name, value)
            if isinstance(parsed, Template):
                templates[name] = parsed
            else:
                problems.append(Problem(f"{spelled}: {parsed[0]}", locate(spelled), parsed[1]))
    locations = {name: at for name, spelled in written.items() if (at := locate(spelled)) is not None}
    # A property that is wrong is still meant: it counts as set, so that one slip is one problem.
    known: dict[str, str | None] = {name: t.literal for name, t in templates.items()}
    known |= {name: None for name in written if name not in templates}
    problems += incoherences(known, locations.get)
    return ClientProperties(templates, locations), problems


def _unknown(name: str, location: Location | None) -> Problem:
    if (why := reason(name)) is not None:
        return Problem(f"client property {name} is not allowed: {why}", location, "remove it")
    close = nearest(name, (*PROPERTIES, *ALIASES))
    hint = f"did you mean {close}?" if close else "docs/clients.md lists every property"
    return Problem(f"unknown client property {quoted(name)}", location, hint)


def _value(name: str, value: object) -> Template | tuple[str, str | None]:
    """The value in its canonical form, or what is wrong with it and what to do."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, int):
        value = str(value)
    if not isinstance(value, str):
        return "must be text, a whole number, true or false", "write lists as one text, with commas"
    try:
        template = parse_template(value)
    except MalformedReference as error:
        return f"holds {error}", "write $$ for a dollar sign"
    if (literal := template.literal) is None:
        return template
    kind = PROPERTIES[name].kind
    if (flaw := kind.flaw(literal)) is not None:
        return flaw, None
    return Template((kind.canonical(literal),))


def _located(name: str, template: Template, folder: Path) -> Template:
    parts: tuple[Part, ...] = tuple(
        replace(part, name=_below(folder, part.name))
        if isinstance(part, Reference) and part.source == "file"
        else part
        for part in template.parts
    )
    first = parts[0] if parts else ""
    if _PATHS.search(name) and isinstance(first, str) and first and first != _JAVA_STORE:
        parts = (_below(folder, first), *parts[1:])
    return Template(parts)


def _below(folder: Path, path: str) -> str:
    # Not as Path joins them: `certs/` may be the start of a name whose rest is a reference.
    return path if path.startswith("~") or folder == Path() else os.path.join(folder, path)  # noqa: PTH118


def _shown(name: str, template: Template) -> str:
    literal = template.literal
    return HIDDEN if literal is None or PROPERTIES[name].sensitive else literal

"""Kafka's own `--command-config` properties file, its TLS stores and its login included.

Everything is translated into librdkafka's names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.config.client_properties import other_names
from kafkaform.config.client_properties.jaas import LoginModule, MalformedJaas, parse_jaas
from kafkaform.config.client_properties.other_names import LOADS_CODE_OR_RUNS_COMMANDS, reason
from kafkaform.config.client_properties.properties import escape
from kafkaform.core.errors import Problem
from kafkaform.core.model import Location
from kafkaform.core.wording import nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable


_SECURITY = "org.apache.kafka.common.security"
_PLAIN_MODULE = f"{_SECURITY}.plain.PlainLoginModule"
_SCRAM_MODULE = f"{_SECURITY}.scram.ScramLoginModule"
_OAUTH_MODULE = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule"
_KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
_OAUTH_HANDLER = f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"

_JKS = "JKS"
_PEM = "PEM"
_PKCS12 = "PKCS12"


@dataclass(frozen=True, slots=True)
class Flaw:
    """A problem of one Java property."""

    name: str
    message: str
    hint: str


@dataclass(slots=True)
class JavaTranslation:
    """The result of a translation: values under our names, each with the Java name it came from."""

    values: dict[str, tuple[str, str]] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)

    def add(self, name: str, value: str | None, source: str) -> None:
        """Take a value, where there is one."""
        if value is not None:
            self.values[name] = (value, source)

    def refuse(self, name: str, message: str, hint: str) -> None:
        """Take a flaw."""
        self.flaws.append(Flaw(name, message, hint))


def tls(written: Mapping[str, str]) -> JavaTranslation:
    """Translate everything about TLS; without TLS in `security.protocol` Java reads none of it."""
    outcome = JavaTranslation()
    if "SSL" not in written.get("security.protocol", "").upper():
        return outcome
    truststore(written, outcome, "ssl.ca")
    _keystore(written, outcome)
    name = "ssl.endpoint.identification.algorithm"
    if name in written:
        outcome.add(name, written[name].strip() or "none", name)
    protocols = {word.strip() for word in written.get("ssl.enabled.protocols", "").split(",") if word.strip()}
    if protocols and not protocols & {"TLSv1.2", "TLSv1.1", "TLSv1"}:
        outcome.refuse(
            "ssl.enabled.protocols",
            "ssl.enabled.protocols: librdkafka cannot be kept from using TLS 1.2",
            "restrict the protocols on the broker, and leave it out here",
        )
    if written.get("ssl.cipher.suites", "").strip():
        outcome.refuse(
            "ssl.cipher.suites",
            "ssl.cipher.suites: Java and OpenSSL name these differently",
            "set ssl.cipher.suites in kafkaform.yaml, with OpenSSL's names",
        )
    return outcome


def truststore(
    written: Mapping[str, str], outcome: JavaTranslation, prefix: str, source: str | None = None
) -> None:
    """Translate a trust store into `PREFIX.location` or `PREFIX.pem`; `source` is where it was written."""
    location, certificates = "ssl.truststore.location", "ssl.truststore.certificates"
    kind = written.get("ssl.truststore.type", _JKS).strip().upper()
    if certificates in written:
        outcome.add(f"{prefix}.pem", written[certificates], source or certificates)
    if location not in written:
        return
    store = written[location]
    if kind == _PEM:
        outcome.add(f"{prefix}.location", store, source or location)
        return
    line = f"keytool -exportcert -rfc -alias ALIAS -keystore {store} -file ca.pem"
    if kind == _PKCS12:
        line = f"openssl pkcs12 -in {store} -nokeys -out ca.pem"
    outcome.refuse(
        source or location,
        f"{location}: a {kind} trust store can only be read by Java",
        f"convert it: {line}; then set ssl.truststore.type=PEM and {location}=ca.pem",
    )


def _keystore(written: Mapping[str, str], outcome: JavaTranslation) -> None:
    location, chain, key = "ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key"
    kind = written.get("ssl.keystore.type", _JKS).strip().upper()
    if chain in written or key in written:
        outcome.add("ssl.certificate.pem", written.get(chain), chain)
        outcome.add("ssl.key.pem", written.get(key), key)
        outcome.add("ssl.key.password", written.get("ssl.key.password"), "ssl.key.password")
    if location not in written:
        return
    store = written[location]
    if kind == _PEM:
        outcome.add("ssl.certificate.location", store, location)
        outcome.add("ssl.key.location", store, location)
        outcome.add("ssl.key.password", written.get("ssl.key.password"), "ssl.key.password")
    elif kind == _PKCS12:
        outcome.add(location, store, location)
        outcome.add("ssl.keystore.password", written.get("ssl.keystore.password"), "ssl.keystore.password")
    else:
        line = f"keytool -importkeystore -srckeystore {store} -destkeystore client.p12 -deststoretype PKCS12"
        outcome.refuse(
            location,
            f"{location}: a {kind} key store can only be read by Java",
            f"convert it: {line}; then set ssl.keystore.type=PKCS12, ssl.keystore.location=client.p12 and "
            "ssl.keystore.password",
        )


_OLD_OAUTH_HANDLER = _OAUTH_HANDLER.replace("oauthbearer.", "oauthbearer.secured.")
_IAM = "software.amazon.msk.auth.iam"
_IAM_MODULE = f"{_IAM}.IAMLoginModule"
_IAM_OAUTH_HANDLER = f"{_IAM}.IAMOAuthBearerLoginCallbackHandler"
_HANDLERS: Mapping[str, tuple[str, ...]] = {
    "sasl.login.callback.handler.class": (_OAUTH_HANDLER, _OLD_OAUTH_HANDLER, _IAM_OAUTH_HANDLER),
    "sasl.client.callback.handler.class": (f"{_IAM}.IAMClientCallbackHandler", _IAM_OAUTH_HANDLER),
    "sasl.oauthbearer.jwt.retriever.class": tuple(
        _OAUTH_HANDLER.replace("OAuthBearerLoginCallbackHandler", f"{kind}JwtRetriever")
        for kind in ("Default", "ClientCredentials", "File")
    ),
}
"""The classes whose work kafkaform does itself."""


def login(written: Mapping[str, str]) -> JavaTranslation:
    """Translate `sasl.jaas.config` and what belongs to it."""
    outcome = JavaTranslation()
    for name, known in _HANDLERS.items():
        handler = written.get(name, "").strip()
        if handler and handler not in known:
            said = f"{name} {handler} is Java code that kafkaform cannot run"
            outcome.refuse(name, said, "use SCRAM, or OAUTHBEARER with client credentials")
    if not written.get("security.protocol", "").strip().upper().startswith("SASL_"):
        return outcome
    mechanism = written.get("sasl.mechanism", "").strip().upper()
    if not mechanism:
        outcome.add("sasl.mechanism", "GSSAPI", "security.protocol")  # Java's default
    elif mechanism == "OAUTHBEARER" and _IAM_OAUTH_HANDLER in map(str.strip, written.values()):
        outcome.add("sasl.mechanism", "AWS_MSK_IAM", "sasl.mechanism")
    elif mechanism == "OAUTHBEARER":
        outcome.add("sasl.oauthbearer.method", "oidc", "sasl.mechanism")
    jaas = written.get("sasl.jaas.config")
    if jaas is None:
        return outcome
    try:
        module = parse_jaas(jaas)
    except MalformedJaas as error:
        hint = 'one module: org.apache.kafka.… required username="…" password="…";'
        outcome.refuse("sasl.jaas.config", f"sasl.jaas.config cannot be read: {error}", hint)
        return outcome
    _login_module(module, outcome)
    return outcome


def _login_module(module: LoginModule, outcome: JavaTranslation) -> None:
    source = "sasl.jaas.config"
    options = module.options
    taken: dict[str, str]
    match module.name:
        case _ if module.name in (_PLAIN_MODULE, _SCRAM_MODULE):
            taken = {"username": "sasl.username", "password": "sasl.password"}
            if options.get("tokenauth", "false").strip().lower() == "true":
                said = "sasl.jaas.config: tokenauth (delegation tokens) is not supported by librdkafka"
                outcome.refuse(source, said, "use a SCRAM account of its own")
            options = {name: value for name, value in options.items() if name != "tokenauth"}
        case _ if module.name == _OAUTH_MODULE:
            taken = {
                "clientId": "sasl.oauthbearer.client.id",
                "clientSecret": "sasl.oauthbearer.client.secret",
                "scope": "sasl.oauthbearer.scope",
            }
            options = _oauth_options(options, outcome)
        case _ if module.name == _KERBEROS_MODULE:
            taken = {
                "keyTab": "sasl.kerberos.keytab",
                "principal": "sasl.kerberos.principal",
                "serviceName": "sasl.kerberos.service.name",
            }
            harmless = (
                "useKeyTab",
                "storeKey",
                "useTicketCache",
                "renewTicket",
                "doNotPrompt",
                "refreshKrb5Config",
            )
            options = {name: value for name, value in options.items() if name not in harmless}
        case _ if module.name == _IAM_MODULE:
            taken = {}
        case _:
            said = f"sasl.jaas.config: the login module {module.name} is Java code that kafkaform cannot run"
            outcome.refuse(source, said, "use PLAIN, SCRAM, OAUTHBEARER, AWS_MSK_IAM or Kerberos")
            return
    for name, value in options.items():
        if name in taken:
            outcome.add(taken[name], value, source)
        else:
            said = f"sasl.jaas.config: the option {name} has no counterpart here"
            known_options = f"known options: {', '.join(taken)}"
            of_aws = name.startswith("aws")
            outcome.refuse(
                source, said, "set AWS_PROFILE, or AWS's other variables" if of_aws else known_options
            )


def _oauth_options(options: Mapping[str, str], outcome: JavaTranslation) -> dict[str, str]:
    """Take the options that are not one property each; give back the rest."""
    rest: dict[str, str] = {}
    extensions: list[str] = []
    tls_options: dict[str, str] = {}
    for name, value in options.items():
        if name.startswith("extension_"):
            extensions.append(f"{name.removeprefix('extension_')}={value}")
        elif name.startswith("ssl.truststore."):
            tls_options[name] = value
        else:
            rest[name] = value
    if extensions:
        outcome.add("sasl.oauthbearer.extensions", ",".join(extensions), "sasl.jaas.config")
    truststore(tls_options, outcome, "https.ca", source="sasl.jaas.config")
    return rest


@dataclass(frozen=True, slots=True, repr=False)
class JavaProperties(Mapping[str, str]):
    """The properties of a Java properties file, under librdkafka's names; goes into `parse` as it is.

    Dollars are escaped: a Java file holds no references of kafkaform's.
    """

    values_by_name: Mapping[str, str] = field(default_factory=dict)
    locations: Mapping[str, Location] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __repr__(self) -> str:
        return f"JavaProperties({', '.join(sorted(self.values_by_name))})"

    def locate(self, name: str) -> Location | None:
        """The place in the file."""
        return self.locations.get(name)


def from_java_properties(text: str, file: str) -> tuple[JavaProperties, list[Problem]]:
    """Translate a Java client properties file.

    Args:
        text: The file's text. Java itself reads such files as ISO 8859-1.
        file: Its name, for the problems.
    """
    entries, problems = _read(text, file)
    written = {name: value for name, (value, _) in entries.items()}
    lines = {name: location for name, (_, location) in entries.items()}
    for name in written:
        if (problem := _unusable(name, lines[name])) is not None:
            problems.append(problem)
    found = [(ours, written[java], java) for java, ours in other_names.RENAMED.items() if java in written]
    values = {ours: _adapted(ours, value) for ours, value, _ in found}
    sources = {ours: java for ours, _, java in found}
    for translate in (login, tls):
        outcome = translate(written)
        problems += [Problem(f.message, lines.get(f.name), f.hint) for f in outcome.flaws]
        for ours, (value, java) in outcome.values.items():
            values[ours], sources[ours] = value, java
    places = {ours: lines[java] for ours, java in sources.items() if java in lines}
    problems.sort(key=lambda problem: problem.location.line if problem.location else 0)
    return JavaProperties({ours: escape(value) for ours, value in values.items()}, places), problems


def _read(text: str, file: str) -> tuple[dict[str, tuple[str, Location]], list[Problem]]:
    # Imported here: it costs more than all the rest of the package, and few runs read such a file.
    import javaproperties

    entries: dict[str, tuple[str, Location]] = {}
    problems: list[Problem] = []
    line = 1
    try:
        for element in javaproperties.parse(text):
            location = Location(file, line)
            line += element.source.count("\n")
            if not isinstance(element, javaproperties.KeyValue):
                continue
            if element.key in entries and entries[element.key][0] != element.value:
                first = entries[element.key][1].line
                said = f"{element.key} is set twice, differently (first in line {first})"
                problems.append(Problem(said, location, "keep one of the two"))
            entries[element.key] = (element.value, location)
    except javaproperties.InvalidUEscapeError:
        hint = "write \\uXXXX with four hexadecimal digits, or \\\\u for a backslash and a u"
        problems.append(Problem("an invalid \\u escape", Location(file, line), hint))
    return entries, problems


def _unusable(name: str, location: Location) -> Problem | None:
    known: Iterable[str] = (*other_names.RENAMED, *other_names.JAAS_AND_STORES, *other_names.IGNORED)
    if name in known:
        return None
    if name in LOADS_CODE_OR_RUNS_COMMANDS or name.startswith("config.providers."):
        return Problem(f"client property {name} is not allowed: {reason(name)}", location, "remove it")
    if name == "bootstrap.controllers":
        return Problem(
            "bootstrap.controllers: kafkaform speaks with brokers, not with controllers",
            location,
            "give bootstrap.servers, or --bootstrap-server",
        )
    close = nearest(name, known)
    hint = f"did you mean {close}?" if close else "docs/clients.md lists every property"
    return Problem(f"unknown client property {quoted(name)}", location, hint)


def _adapted(name: str, value: str) -> str:
    """Java's -1, for "as the system has it", is librdkafka's 0."""
    defaults_to_zero = ("socket.send.buffer.bytes", "socket.receive.buffer.bytes", "connections.max.idle.ms")
    return "0" if name in defaults_to_zero and value.strip() == "-1" else value

"""The translation of Kafka's `--command-config` properties file into librdkafka's names and values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.config.client_properties import other_names
from kafkaform.config.client_properties.catalogue import PROPERTIES
from kafkaform.config.client_properties.jaas import LoginModule, MalformedJaas, parse_jaas
from kafkaform.config.client_properties.other_names import LOADS_CODE_OR_RUNS_COMMANDS, explain_refusal
from kafkaform.config.client_properties.properties import PropertyValues, escape
from kafkaform.core.errors import Problem
from kafkaform.core.model import Location
from kafkaform.core.values import Value
from kafkaform.core.wording import nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_SECURITY = "org.apache.kafka.common.security"
_PLAIN_MODULE = f"{_SECURITY}.plain.PlainLoginModule"
_SCRAM_MODULE = f"{_SECURITY}.scram.ScramLoginModule"
_OAUTH_MODULE = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule"
_KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
_OAUTH_HANDLER = f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"

_JKS = "JKS"
_PEM = "PEM"
_PKCS12 = "PKCS12"


class Flaw(Value):
    """A problem of one Java property."""

    name: str
    message: str
    hint: str


@dataclass(slots=True)
class JavaTranslation:
    """The result of a translation: values by librdkafka's name, each with the Java name that it came from."""

    values: dict[str, tuple[str, str]] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)

    def add(self, name: str, value: str | None, source: str) -> None:
        """Add a value, unless it is None."""
        if value is not None:
            self.values[name] = (value, source)

    def refuse(self, name: str, message: str, hint: str) -> None:
        """Add a flaw of a Java property."""
        self.flaws.append(Flaw(name, message, hint))


def translate_tls(written: Mapping[str, str]) -> JavaTranslation:
    """Translate the properties of TLS, which Java ignores without TLS in `security.protocol`."""
    outcome = JavaTranslation()
    # Files that are shared between listeners often have the properties of both.
    if "SSL" not in written.get("security.protocol", "").upper():
        return outcome
    translate_truststore(written, outcome, "ssl.ca")
    _translate_keystore(written, outcome)
    name = "ssl.endpoint.identification.algorithm"
    if name in written:
        outcome.add(name, written[name].strip() or "none", name)
    protocols = {word.strip() for word in written.get("ssl.enabled.protocols", "").split(",") if word.strip()}
    if protocols and not protocols & {"TLSv1.2", "TLSv1.1", "TLSv1"}:
        outcome.refuse(
            "ssl.enabled.protocols",
            "ssl.enabled.protocols: librdkafka cannot disable TLS 1.2",
            "restrict the protocols on the broker, and leave it out here",
        )
    if written.get("ssl.cipher.suites", "").strip():
        outcome.refuse(
            "ssl.cipher.suites",
            "ssl.cipher.suites: Java and OpenSSL name these differently",
            "set ssl.cipher.suites in kafkaform.yaml, with OpenSSL's names",
        )
    return outcome


def translate_truststore(
    written: Mapping[str, str], outcome: JavaTranslation, prefix: str, source: str | None = None
) -> None:
    """Translate a trust store into `PREFIX.location` or `PREFIX.pem`; `source` is its Java property."""
    location, certificates = "ssl.truststore.location", "ssl.truststore.certificates"
    # JKS is Java's default.
    kind = written.get("ssl.truststore.type", _JKS).strip().upper()
    if certificates in written:
        outcome.add(f"{prefix}.pem", written[certificates], source or certificates)
    if location not in written:
        return
    store = written[location]
    if kind == _PEM:
        outcome.add(f"{prefix}.location", store, source or location)
        return
    outcome.refuse(
        source or location,
        f"{location}: a {kind} trust store can only be read by Java",
        f"{_convert_truststore(store, kind)}; then set ssl.truststore.type=PEM and {location}=ca.pem",
    )


def _convert_truststore(store: str, kind: str) -> str:
    if kind == _PKCS12:
        return f"convert it: openssl pkcs12 -in {store} -nokeys -out ca.pem"
    return f"convert it: keytool -exportcert -rfc -alias ALIAS -keystore {store} -file ca.pem"


def _translate_keystore(written: Mapping[str, str], outcome: JavaTranslation) -> None:
    location, chain, key = "ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key"
    kind = written.get("ssl.keystore.type", _JKS).strip().upper()
    if chain in written or key in written:
        outcome.add("ssl.certificate.pem", written.get(chain), chain)
        outcome.add("ssl.key.pem", written.get(key), key)
        outcome.add("ssl.key.password", written.get("ssl.key.password"), "ssl.key.password")
    if location not in written:
        return
    store = written[location]
    # A PEM key store is one file with the key and the certificate chain (KIP-651).
    if kind == _PEM:
        outcome.add("ssl.certificate.location", store, location)
        outcome.add("ssl.key.location", store, location)
        outcome.add("ssl.key.password", written.get("ssl.key.password"), "ssl.key.password")
    elif kind == _PKCS12:
        outcome.add(location, store, location)
        outcome.add("ssl.keystore.password", written.get("ssl.keystore.password"), "ssl.keystore.password")
    else:
        outcome.refuse(
            location,
            f"{location}: a {kind} key store can only be read by Java",
            f"{_convert_keystore(store)}; then set ssl.keystore.type=PKCS12, "
            "ssl.keystore.location=client.p12 and ssl.keystore.password",
        )


def _convert_keystore(store: str) -> str:
    target = "-destkeystore client.p12 -deststoretype PKCS12"
    return f"convert it: keytool -importkeystore -srckeystore {store} {target}"


# The package of this class in the versions of KIP-768.
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
"""The Java classes that kafkaform replaces by its own code."""


def translate_login(written: Mapping[str, str]) -> JavaTranslation:
    """Translate `sasl.jaas.config` and the other properties of the login."""
    outcome = JavaTranslation()
    for name, known in _HANDLERS.items():
        handler = written.get(name, "").strip()
        if handler and handler not in known:
            message = f"{name} {handler} is Java code that kafkaform cannot run"
            outcome.refuse(name, message, "use SCRAM, or OAUTHBEARER with client credentials")
    if not written.get("security.protocol", "").strip().upper().startswith("SASL_"):
        return outcome
    mechanism = written.get("sasl.mechanism", "").strip().upper()
    if not mechanism:
        outcome.add("sasl.mechanism", "GSSAPI", "security.protocol")  # Java's default
    # AWS's library has a handler for OAUTHBEARER too, which logs in with IAM.
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
    _translate_login_module(module, outcome)
    return outcome


def _translate_login_module(module: LoginModule, outcome: JavaTranslation) -> None:
    source = "sasl.jaas.config"
    options = module.options
    translated: dict[str, str]
    match module.name:
        case _ if module.name in (_PLAIN_MODULE, _SCRAM_MODULE):
            translated = {"username": "sasl.username", "password": "sasl.password"}
            if options.get("tokenauth", "false").strip().lower() == "true":
                message = "sasl.jaas.config: tokenauth (delegation tokens) is not supported by librdkafka"
                outcome.refuse(source, message, "use a separate SCRAM account")
            options = {name: value for name, value in options.items() if name != "tokenauth"}
        case _ if module.name == _OAUTH_MODULE:
            translated = {
                "clientId": "sasl.oauthbearer.client.id",
                "clientSecret": "sasl.oauthbearer.client.secret",
                "scope": "sasl.oauthbearer.scope",
            }
            options = _translate_oauth_options(options, outcome)
        case _ if module.name == _KERBEROS_MODULE:
            translated = {
                "keyTab": "sasl.kerberos.keytab",
                "principal": "sasl.kerberos.principal",
                "serviceName": "sasl.kerberos.service.name",
            }
            # How Java finds a ticket. kafkaform always uses the ticket cache.
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
            translated = {}
        case _:
            message = (
                f"sasl.jaas.config: the login module {module.name} is Java code that kafkaform cannot run"
            )
            outcome.refuse(source, message, "use PLAIN, SCRAM, OAUTHBEARER, AWS_MSK_IAM or Kerberos")
            return
    for name, value in options.items():
        if name in translated:
            outcome.add(translated[name], value, source)
        else:
            message = f"sasl.jaas.config: the option {name} is not supported"
            known_options = f"supported options: {', '.join(translated)}"
            is_aws = name.startswith("aws")
            outcome.refuse(
                source, message, "set AWS_PROFILE, or AWS's other variables" if is_aws else known_options
            )


def _translate_oauth_options(options: Mapping[str, str], outcome: JavaTranslation) -> dict[str, str]:
    """Translate the options that do not correspond to one property each; return the others."""
    remaining: dict[str, str] = {}
    extensions: list[str] = []
    tls_options: dict[str, str] = {}
    for name, value in options.items():
        if name.startswith("extension_"):
            extensions.append(f"{name.removeprefix('extension_')}={value}")
        elif name.startswith("ssl.truststore."):
            tls_options[name] = value
        else:
            remaining[name] = value
    if extensions:
        outcome.add("sasl.oauthbearer.extensions", ",".join(extensions), "sasl.jaas.config")
    translate_truststore(tls_options, outcome, "https.ca", source="sasl.jaas.config")
    return remaining


@dataclass(frozen=True, slots=True, repr=False)
class JavaProperties(PropertyValues):
    """The properties of a Java properties file, by librdkafka's names, as `parse` takes them.

    Dollar signs are escaped, as a Java file contains no references of kafkaform.
    """

    locations: Mapping[str, Location] = field(default_factory=dict)

    def locate(self, name: str) -> Location | None:
        """Return the location of a property in the file."""
        return self.locations.get(name)


def translate_java_properties(text: str, file: str) -> tuple[JavaProperties, list[Problem]]:
    """Translate a Java client properties file.

    Args:
        text: The file's text. Java decodes such files as ISO 8859-1.
        file: Its name, for the problems.
    """
    entries, problems = _read_properties(text, file)
    written = {name: value for name, (value, _) in entries.items()}
    lines = {name: location for name, (_, location) in entries.items()}
    for name in written:
        if (problem := _check_property(name, lines[name])) is not None:
            problems.append(problem)
    renamed = [(ours, written[java], java) for java, ours in other_names.RENAMED.items() if java in written]
    values = {ours: _translate_value(ours, value) for ours, value, _ in renamed}
    sources = {ours: java for ours, _, java in renamed}
    for translate in (translate_login, translate_tls):
        outcome = translate(written)
        problems += [Problem(f.message, lines.get(f.name), f.hint) for f in outcome.flaws]
        for ours, (value, java) in outcome.values.items():
            values[ours], sources[ours] = value, java
    places = {ours: lines[java] for ours, java in sources.items() if java in lines}
    # The translations run by subject; a reader works through the file from the top.
    problems.sort(key=lambda problem: problem.location.line if problem.location else 0)
    return JavaProperties({ours: escape(value) for ours, value in values.items()}, places), problems


_SHORT = 60
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_MECHANISMS = {
    _PLAIN_MODULE: "PLAIN",
    _SCRAM_MODULE: "SCRAM-SHA-256 or SCRAM-SHA-512",
    _OAUTH_MODULE: "OAUTHBEARER",
    _KERBEROS_MODULE: "GSSAPI",
    _IAM_MODULE: "AWS_MSK_IAM",
}
_REPLACED: Mapping[str, str] = {
    "ssl.truststore.password": "remove it: ssl.ca.location is a PEM file, which needs no password",
    "ssl.truststore.type": "remove it: ssl.ca.location is a PEM file",
    "ssl.keystore.type": "remove it: ssl.keystore.location is a PKCS#12 file",
    "ssl.enabled.protocols": "remove it: the brokers choose the versions of TLS",
    "ssl.protocol": "remove it: the brokers choose the versions of TLS",
    "default.api.timeout.ms": "write socket.timeout.ms, for each request",
}


def suggest_property(name: str, raw: Mapping[str, object]) -> str | None:
    """Return what to write in `client:` instead of a Java property; None if there is no counterpart.

    Args:
        name: The Java property.
        raw: All properties of the mapping, of either client.
    """
    if name in other_names.RENAMED:
        return f"write {other_names.RENAMED[name]}"
    if name == "ssl.keystore.type" and str(raw[name]).strip().upper() == _JKS:
        store = str(raw.get("ssl.keystore.location", "FILE"))
        return f"{_convert_keystore(store)}; then write ssl.keystore.location: client.p12"
    if name in _REPLACED:
        return _REPLACED[name]
    # Java ignores the properties of TLS and of logins unless the protocol has them.
    written = {key: str(value) for key, value in raw.items()} | {"security.protocol": "SASL_SSL"}
    if name == "ssl.truststore.location" and written.get("ssl.truststore.type", _JKS).upper() != _PEM:
        kind = written.get("ssl.truststore.type", _JKS).strip().upper()
        return f"{_convert_truststore(written[name], kind)}; then write ssl.ca.location: ca.pem"
    outcomes = (translate_login(written), translate_tls(written))
    mechanism = _find_mechanism(raw) if name == "sasl.jaas.config" else None
    values = [] if mechanism is None else [f"sasl.mechanism: {mechanism}"]
    values += [
        _write_property(ours, value)
        for outcome in outcomes
        for ours, (value, java) in outcome.values.items()
        if java == name
    ]
    if values:
        return f"write {', '.join(values)}"
    return next((flaw.hint for outcome in outcomes for flaw in outcome.flaws if flaw.name == name), None)


def _find_mechanism(raw: Mapping[str, object]) -> str | None:
    """Return the mechanism of a login configuration, if no property names it."""
    if "sasl.mechanism" in raw or "sasl.mechanisms" in raw:
        return None
    text = str(raw["sasl.jaas.config"])
    return next((mechanism for module, mechanism in _MECHANISMS.items() if module in text), None)


def _write_property(name: str, value: str) -> str:
    """Return the line of a property, without its value if that may be secret or is long."""
    if PROPERTIES[name].sensitive and not _REFERENCE.fullmatch(value):
        return f"{name}: ${{env:NAME}}"
    return f"{name}: {value}" if len(value) <= _SHORT and value.isprintable() else name


def _read_properties(text: str, file: str) -> tuple[dict[str, tuple[str, Location]], list[Problem]]:
    # Imported here: it takes longer than the rest of the package, and few runs read such a file.
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
            # Java would take the last one silently.
            if element.key in entries and entries[element.key][0] != element.value:
                first = entries[element.key][1].line
                message = f"{element.key} is set twice to different values (first in line {first})"
                problems.append(Problem(message, location, "keep one of the two"))
            entries[element.key] = (element.value, location)
    except javaproperties.InvalidUEscapeError:
        hint = "write \\uXXXX with four hexadecimal digits, or \\\\u for a backslash and a u"
        problems.append(Problem("an invalid \\u escape", Location(file, line), hint))
    return entries, problems


def _check_property(name: str, location: Location) -> Problem | None:
    known: Iterable[str] = (*other_names.RENAMED, *other_names.JAAS_AND_STORES, *other_names.IGNORED)
    if name in known:
        return None
    if name in LOADS_CODE_OR_RUNS_COMMANDS or name.startswith("config.providers."):
        return Problem(
            f"client property {name} is not allowed: {explain_refusal(name)}", location, "remove it"
        )
    # Kafka's tools take it instead of bootstrap.servers since 3.7 (KIP-919).
    if name == "bootstrap.controllers":
        return Problem(
            "bootstrap.controllers: connections are made to brokers, not to controllers",
            location,
            "give bootstrap.servers, or --bootstrap-server",
        )
    close = nearest(name, known)
    hint = f"did you mean {close}?" if close else "docs/clients.md lists every property"
    return Problem(f"unknown client property {quoted(name)}", location, hint)


def _translate_value(name: str, value: str) -> str:
    # The system's default is -1 in Java and 0 in librdkafka.
    defaults_to_zero = ("socket.send.buffer.bytes", "socket.receive.buffer.bytes", "connections.max.idle.ms")
    return "0" if name in defaults_to_zero and value.strip() == "-1" else value

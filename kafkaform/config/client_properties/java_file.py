"""The translation of Kafka's `--command-config` properties file into client properties."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.config.client_properties.jaas import LoginModule, MalformedJaas, parse_jaas
from kafkaform.config.client_properties.properties import ClientProperties, escape, explain_unknown, parse
from kafkaform.config.client_properties.table import (
    JAVA,
    PROPERTIES,
    describe_refusal,
    explain_refusal,
    is_left_out,
    translate_name,
)
from kafkaform.core.errors import Problem
from kafkaform.core.kafka_configs import consumer_configs
from kafkaform.core.model import Location
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import code

if TYPE_CHECKING:
    from collections.abc import Mapping

_JKS, _PEM, _PKCS12 = "JKS", "PEM", "PKCS12"


@dataclass(slots=True)
class Translation:
    """The translation of Java properties.

    Attributes:
        in_client: Whether they are in `client:`, not in a Java file.
        values: The values by the name here, each with the Java name that it came from.
        problems: The Java names that cannot be translated.
    """

    in_client: bool
    values: dict[str, tuple[str, str]] = field(default_factory=dict)
    problems: list[tuple[str, Problem]] = field(default_factory=list)

    def add(self, name: str, value: str | None, java: str) -> None:
        """Add a value, unless it is None."""
        if value is not None:
            self.values[name] = (value, java)

    def refuse(self, java: str, message: str, hint: str) -> None:
        """Add a problem of a Java property."""
        self.problems.append((java, Problem(message, None, hint)))


def _translate(written: Mapping[str, str], *, in_client: bool) -> Translation:
    outcome = Translation(in_client)
    for java, value in written.items():
        name = translate_name(java)
        if name is not None and not java.startswith("ssl."):
            # The system's default is -1 in Java and 0 in librdkafka.
            unset = value.strip() == "-1" and name in _DEFAULT_IS_ZERO
            outcome.add(name, "0" if unset else value, java)
    _translate_login(written, outcome)
    # Java ignores them without TLS, and files that are shared between listeners often have them.
    if "SSL" in written.get("security.protocol", "").upper():
        _translate_tls(written, outcome)
    return outcome


_DEFAULT_IS_ZERO = ("socket.send.buffer.bytes", "socket.receive.buffer.bytes", "connections.max.idle.ms")


def _translate_tls(written: Mapping[str, str], outcome: Translation) -> None:
    _translate_truststore(written, outcome, "ssl.ca")
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


def _translate_truststore(
    written: Mapping[str, str], outcome: Translation, prefix: str, source: str | None = None
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
    convert = f"keytool -exportcert -rfc -alias ALIAS -keystore {store} -file ca.pem"
    if kind == _PKCS12:
        convert = f"openssl pkcs12 -in {store} -nokeys -out ca.pem"
    then = JAVA[location] if outcome.in_client else f"set ssl.truststore.type=PEM and {location}=ca.pem"
    message = f"{location}: a {kind} trust store can only be read by Java"
    outcome.refuse(source or location, message, f"convert it: {code(convert)}; then {then}")


def _translate_keystore(written: Mapping[str, str], outcome: Translation) -> None:
    location, chain, key = "ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key"
    type_, password = "ssl.keystore.type", "ssl.key.password"
    kind = written.get(type_, _JKS).strip().upper()
    if chain in written or key in written:
        outcome.add("ssl.certificate.pem", written.get(chain), chain)
        outcome.add("ssl.key.pem", written.get(key), key)
        outcome.add(password, written.get(password), password)
    if location not in written:
        return
    store = written[location]
    # A PEM key store is one file with the key and the certificate chain (KIP-651).
    if kind == _PEM:
        outcome.add("ssl.certificate.location", store, location)
        outcome.add("ssl.key.location", store, location)
        outcome.add(password, written.get(password), password)
    elif kind == _PKCS12:
        outcome.add(location, store, location)
        outcome.add("ssl.keystore.password", written.get("ssl.keystore.password"), "ssl.keystore.password")
    else:
        convert = (
            f"keytool -importkeystore -srckeystore {store} -destkeystore client.p12 -deststoretype PKCS12"
        )
        in_file = f"set {type_}=PKCS12, {location}=client.p12 and ssl.keystore.password"
        then = f"write `{location}: client.p12`" if outcome.in_client else in_file
        message = f"{location}: a {kind} key store can only be read by Java"
        name = type_ if type_ in written else location
        outcome.refuse(name, message, f"convert it: {code(convert)}; then {then}")


_SECURITY = "org.apache.kafka.common.security"
_OAUTH_HANDLER = f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
# The package of this class in the versions of KIP-768.
_OLD_OAUTH_HANDLER = _OAUTH_HANDLER.replace("oauthbearer.", "oauthbearer.secured.")
_IAM = "software.amazon.msk.auth.iam"
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


class _Login(Value):
    """A login module of Java: its mechanism, the properties of its options, and the options left out."""

    mechanism: str
    options: Mapping[str, str]
    left_out: tuple[str, ...] = ()


_ACCOUNT = {"username": "sasl.username", "password": "sasl.password"}
_LOGINS: Mapping[str, _Login] = {
    f"{_SECURITY}.plain.PlainLoginModule": _Login("PLAIN", _ACCOUNT, ("tokenauth",)),
    f"{_SECURITY}.scram.ScramLoginModule": _Login("SCRAM-SHA-256 or SCRAM-SHA-512", _ACCOUNT, ("tokenauth",)),
    f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule": _Login(
        "OAUTHBEARER",
        {
            "clientId": "sasl.oauthbearer.client.id",
            "clientSecret": "sasl.oauthbearer.client.secret",
            "scope": "sasl.oauthbearer.scope",
        },
    ),
    "com.sun.security.auth.module.Krb5LoginModule": _Login(
        "GSSAPI",
        {
            "keyTab": "sasl.kerberos.keytab",
            "principal": "sasl.kerberos.principal",
            "serviceName": "sasl.kerberos.service.name",
        },
        # How Java finds a ticket; kafkaform always uses the ticket cache.
        ("useKeyTab", "storeKey", "useTicketCache", "renewTicket", "doNotPrompt", "refreshKrb5Config"),
    ),
    f"{_IAM}.IAMLoginModule": _Login("AWS_MSK_IAM", {}),
}
_JAAS = "sasl.jaas.config"


def _translate_login(written: Mapping[str, str], outcome: Translation) -> None:
    for name, known in _HANDLERS.items():
        handler = written.get(name, "").strip()
        if handler and handler not in known:
            message = f"{name} {handler} is Java code that kafkaform cannot run"
            outcome.refuse(name, message, "use SCRAM, or OAUTHBEARER with client credentials")
    if not written.get("security.protocol", "").strip().upper().startswith("SASL_"):
        return
    mechanism = written.get("sasl.mechanism", "").strip().upper()
    if not mechanism:
        outcome.add("sasl.mechanism", "GSSAPI", "security.protocol")  # Java's default
    # AWS's library has a handler for OAUTHBEARER too, which logs in with IAM.
    elif mechanism == "OAUTHBEARER" and _IAM_OAUTH_HANDLER in map(str.strip, written.values()):
        outcome.add("sasl.mechanism", "AWS_MSK_IAM", "sasl.mechanism")
    elif mechanism == "OAUTHBEARER":
        outcome.add("sasl.oauthbearer.method", "oidc", "sasl.mechanism")
    if _JAAS not in written:
        return
    try:
        module = parse_jaas(written[_JAAS])
    except MalformedJaas as error:
        hint = 'one module: org.apache.kafka.… required username="…" password="…";'
        outcome.refuse(_JAAS, f"{_JAAS} cannot be read: {error}", hint)
        return
    if (login := _LOGINS.get(module.name)) is None:
        message = f"{_JAAS}: the login module {module.name} is Java code that kafkaform cannot run"
        outcome.refuse(_JAAS, message, "use PLAIN, SCRAM, OAUTHBEARER, AWS_MSK_IAM or Kerberos")
        return
    if outcome.in_client and not mechanism:
        outcome.add("sasl.mechanism", login.mechanism, _JAAS)
    _translate_options(module, login, outcome)


def _translate_options(module: LoginModule, login: _Login, outcome: Translation) -> None:
    extensions: list[str] = []
    tls: dict[str, str] = {}
    for name, value in module.options.items():
        if name == "tokenauth" and name in login.left_out and value.strip().lower() == "true":
            message = f"{_JAAS}: tokenauth (delegation tokens) is not supported by librdkafka"
            outcome.refuse(_JAAS, message, "use a separate SCRAM account")
        elif name in login.options:
            outcome.add(login.options[name], value, _JAAS)
        elif login.mechanism == "OAUTHBEARER" and name.startswith("extension_"):
            extensions.append(f"{name.removeprefix('extension_')}={value}")
        elif login.mechanism == "OAUTHBEARER" and name.startswith("ssl.truststore."):
            tls[name] = value
        elif name not in login.left_out:
            is_aws = name.startswith("aws")
            hint = f"supported options: {', '.join(login.options)}"
            hint = "set AWS_PROFILE, or AWS's other variables" if is_aws else hint
            outcome.refuse(_JAAS, f"{_JAAS}: the option {name} is not supported", hint)
    if extensions:
        outcome.add("sasl.oauthbearer.extensions", ",".join(extensions), _JAAS)
    _translate_truststore(tls, outcome, "https.ca", source=_JAAS)


def read_java_properties(text: str, file: str) -> tuple[ClientProperties, list[Problem]]:
    """Parse a properties file of Java's clients; a `$` in it is a dollar sign, as it has no references.

    Args:
        text: The file's text. Java decodes such files as ISO 8859-1.
        file: Its name, for the problems.
    """
    entries, problems = _read_entries(text, file)
    lines = {name: location for name, (_, location) in entries.items()}
    problems += [problem for name in entries if (problem := _check_name(name, lines[name])) is not None]
    outcome = _translate({name: value for name, (value, _) in entries.items()}, in_client=False)
    problems += [replace(problem, location=lines.get(java)) for java, problem in outcome.problems]
    # The translations run by subject; a reader works through the file from the top.
    problems.sort(key=lambda problem: problem.location.line if problem.location else 0)
    source_lines = {name: lines.get(java) for name, (_, java) in outcome.values.items()}
    properties, flaws = parse(
        {name: escape(value) for name, (value, _) in outcome.values.items()}, source_lines.get
    )
    # Both, so that one run shows every line to correct.
    return properties, [*problems, *flaws]


def _read_entries(text: str, file: str) -> tuple[dict[str, tuple[str, Location]], list[Problem]]:
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


def _check_name(name: str, location: Location) -> Problem | None:
    if _is_known(name):
        return None
    if (reason := explain_refusal(name)) is not None:
        return Problem(describe_refusal(name, reason), location, "remove it")
    return explain_unknown(name, filter(_is_known, consumer_configs()), location)


def _is_known(name: str) -> bool:
    return bool(translate_name(name)) or name in JAVA or name in _HANDLERS or is_left_out(name)


_MAX_SHOWN_VALUE = 60
_REFERENCE = re.compile(r"\$\{[^}]*\}")


def suggest_property(java: str, raw: Mapping[str, object]) -> str:
    """Return what to write in `client:` instead of a property that is not allowed there.

    Args:
        raw: All properties of the mapping, of either client.
    """
    written = {name: str(value) for name, value in raw.items()}
    # Java ignores the properties of TLS and of logins unless the protocol has them.
    outcome = _translate(written | {"security.protocol": "SASL_SSL"}, in_client=True)
    lines = [_write_line(name, value) for name, (value, source) in outcome.values.items() if source == java]
    if lines:
        return f"write {', '.join(map(code, lines))}"
    instead = JAVA.get(java, "remove it")
    return next((problem.hint or instead for name, problem in outcome.problems if name == java), instead)


def _write_line(name: str, value: str) -> str:
    """Return the line of a property, without its value if that may be secret or is long."""
    if PROPERTIES[name].sensitive and not _REFERENCE.fullmatch(value):
        return f"{name}: ${{env:NAME}}"
    return f"{name}: {value}" if len(value) <= _MAX_SHOWN_VALUE and value.isprintable() else name

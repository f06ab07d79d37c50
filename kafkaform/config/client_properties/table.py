"""The table of client properties: their types, their use, and what to write instead of other names.

The ranges and names are those of librdkafka's CONFIGURATION.md. Java's properties files are translated by the
same rows.
"""

from __future__ import annotations

import re
from enum import Enum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkaform.core.kafka_configs import consumer_configs
from kafkaform.core.values import Value
from kafkaform.core.wording import join_alternatives

if TYPE_CHECKING:
    from collections.abc import Mapping


class Text(Value):
    """Text without NUL; `pattern` matches it, and `description` says what it must be."""

    pattern: str | None = None
    description: str = ""

    def parse(self, text: str) -> str:
        """Return a value in the form that every client accepts.

        Raises:
            ValueError: The value is invalid; the message does not quote it.
        """
        if "\0" in text:
            raise ValueError("must not contain a NUL character")
        if not text.strip():
            raise ValueError("must not be empty")
        if self.pattern is not None and not re.fullmatch(self.pattern, text):
            raise ValueError(f"must be {self.description}")
        return text


_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\])(?::(?P<port>[0-9]+))?")
_LAST_PORT = 65_535


class Addresses(Value):
    """A comma-separated list of `HOST:PORT`, each optionally prefixed with the name of a listener."""

    description = "HOST:PORT, or several of them separated by commas"

    def parse(self, text: str) -> str:
        """Return the value unchanged; raise ValueError if it is invalid."""
        if not text.strip():
            raise ValueError("must not be empty")
        for address in map(str.strip, text.removesuffix(",").split(",")):
            parts = _ADDRESS.fullmatch(address)
            if address.lower().startswith(("http://", "https://")):
                raise ValueError("must be HOST:PORT without http://: brokers speak Kafka's own protocol")
            if parts is None:
                raise ValueError(f"must be {self.description}")
            if parts["port"] is not None and not 0 < int(parts["port"]) <= _LAST_PORT:
                raise ValueError(f"has a port that is not between 1 and {_LAST_PORT}")
        return text


class Number(Value):
    """A whole number in an inclusive range."""

    low: int
    high: int

    @property
    def description(self) -> str:
        """The range, as in `1 to 5`."""
        return f"{self.low} to {self.high}"

    def parse(self, text: str) -> str:
        """Return the value without surrounding blanks; raise ValueError if it is invalid."""
        # Twelve digits suffice for every range, and keep `int` from parsing a text of any length.
        if re.fullmatch(r"-?[0-9]{1,12}", text.strip()) and self.low <= int(text) <= self.high:
            return text.strip()
        raise ValueError(f"must be a whole number from {self.description}")


class Choice(Value):
    """One of a few words, in any case."""

    values: tuple[str, ...]

    @property
    def description(self) -> str:
        """The words, separated by commas."""
        return ", ".join(self.values)

    def parse(self, text: str) -> str:
        """Return the value in the listed case; raise ValueError if it is invalid."""
        folded = {choice.casefold(): choice for choice in self.values}
        if (value := folded.get(text.strip().casefold())) is None:
            raise ValueError(f"must be {join_alternatives(self.values)}")
        return value


class Use(Enum):
    """The use of a property in kafkaform's own connections; librdkafka gets all that are not refused."""

    USED = "used"
    # It tunes a client, and affects neither where it connects nor whom it trusts.
    IGNORED = "not used"
    # To ignore it would do something else than the user asked for.
    REFUSED = "**refused**"


class Property(Value):
    """A property of `client:`.

    Attributes:
        type: The type of its value.
        use: Its use in kafkaform's own connections.
        note: How or why, for the documentation and errors.
        instead: What to do instead, if it is refused.
        unless: The one value that is not refused: the behaviour without the property.
        alias: Another name of librdkafka; Java's files may have it as well.
        java: Java's name, if it differs.
        sensitive: Whether its value is never printed.
        shown: Whether its value may be printed even if it was read from the environment or a file.
    """

    name: str
    type: Text | Addresses | Number | Choice = Text()
    use: Use = Use.USED
    note: str = ""
    instead: str = ""
    unless: str = ""
    alias: str = ""
    java: str = ""
    sensitive: bool = False
    shown: bool = False


ALLOW_HTTP = "sasl.oauthbearer.token.endpoint.allow.http"
"""Permits a token endpoint without TLS, which receives the client's secret in plain text."""

_MAX = 2_147_483_647
FLAG = Choice(("true", "false"))
_OAUTH = "sasl.oauthbearer."
_ON_BROKER = "leave it out, or restrict it on the broker"
_OTHER_TOKENS = "use client credentials, or a file with a token that another program renews"
_NO_ASSERTION = "logins by assertion are not supported"
_NO_KEYTAB = (
    Use.REFUSED,
    "logins by keytab are not supported",
    "use a listener with SCRAM or TLS certificates, or run kinit -kt KEYTAB PRINCIPAL first and leave it out",
)

# Signed assertions (RFC 7523).
_ASSERTION: Mapping[str, Text | Number | Choice] = {
    "algorithm": Choice(("RS256", "ES256")),
    "file": Text(),
    "private.key.file": Text(),
    "private.key.pem": Text(),
    "private.key.passphrase": Text(),
    "jwt.template.file": Text(),
    "claim.aud": Text(),
    "claim.iss": Text(),
    "claim.sub": Text(),
    "claim.exp.seconds": Number(1, _MAX),
    "claim.nbf.seconds": Number(0, _MAX),
    "claim.jti.include": FLAG,
}

REGISTRY_URL = "schema.registry.url"
_REGISTRY_NOTE = "schema registry"
_REGISTRY_ROWS = (
    Property(
        REGISTRY_URL, Text(r"https?://\S+", "an http:// or https:// URL"), note=_REGISTRY_NOTE, shown=True
    ),
    Property("basic.auth.credentials.source", Choice(("USER_INFO",)), note=_REGISTRY_NOTE),
    Property("basic.auth.user.info", Text(r"[^:]+:.*", "NAME:PASSWORD"), note=_REGISTRY_NOTE, sensitive=True),
    Property("bearer.auth.credentials.source", Choice(("STATIC_TOKEN",)), note=_REGISTRY_NOTE),
    Property("bearer.auth.token", note=_REGISTRY_NOTE, sensitive=True),
    Property("schema.registry.ssl.ca.location", note=_REGISTRY_NOTE),
    Property("schema.registry.ssl.certificate.location", note=_REGISTRY_NOTE),
    Property("schema.registry.ssl.key.location", note=_REGISTRY_NOTE),
    Property("schema.registry.ssl.key.password", note=_REGISTRY_NOTE, sensitive=True),
)
"""The properties of a schema registry, by the names of Confluent's clients."""

_ROWS = (
    # Shown even if they are read from the environment: they are no secret, and every connection error names
    # them.
    Property("bootstrap.servers", Addresses(), alias="metadata.broker.list", shown=True),
    Property("client.id", shown=True),
    Property(
        "client.dns.lookup",
        Choice(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
        Use.REFUSED,
        "kafkaform's own connections use the names as they are",
        "list the brokers' own names in bootstrap.servers",
        unless="use_all_dns_ips",
    ),
    Property("broker.address.family", Choice(("any", "v4", "v6"))),
    Property(
        "socket.timeout.ms", Number(10, 300_000), Use.IGNORED, "its own deadlines", java="request.timeout.ms"
    ),
    Property("socket.connection.setup.timeout.ms", Number(1000, _MAX), Use.IGNORED),
    Property("socket.keepalive.enable", FLAG),
    Property("socket.nagle.disable", FLAG, Use.IGNORED, "always disabled"),
    Property("socket.send.buffer.bytes", Number(0, 100_000_000), java="send.buffer.bytes"),
    Property("socket.receive.buffer.bytes", Number(0, 100_000_000), java="receive.buffer.bytes"),
    Property("receive.message.max.bytes", Number(1000, _MAX), Use.IGNORED, "its own limits"),
    Property("connections.max.idle.ms", Number(0, _MAX), Use.IGNORED),
    Property("reconnect.backoff.ms", Number(0, 3_600_000), Use.IGNORED),
    Property("reconnect.backoff.max.ms", Number(0, 3_600_000), Use.IGNORED),
    Property("retry.backoff.ms", Number(1, 300_000), Use.IGNORED),
    Property("retry.backoff.max.ms", Number(1, 300_000), Use.IGNORED),
    Property("metadata.max.age.ms", Number(1, 86_400_000), Use.IGNORED),
    Property("topic.metadata.refresh.interval.ms", Number(-1, 3_600_000), Use.IGNORED),
    Property("metadata.recovery.strategy", Choice(("none", "rebootstrap")), Use.IGNORED),
    Property("metadata.recovery.rebootstrap.trigger.ms", Number(0, _MAX), Use.IGNORED),
    Property("api.version.request.timeout.ms", Number(1, 300_000), Use.IGNORED),
    Property("enable.metrics.push", FLAG, Use.IGNORED, "never pushes"),
    Property("security.protocol", Choice(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))),
    Property("enable.ssl.certificate.verification", FLAG),
    Property("ssl.endpoint.identification.algorithm", Choice(("https", "none"))),
    Property("ssl.ca.location", note="file, directory or `probe`"),
    Property("ssl.ca.pem"),
    Property("ssl.crl.location"),
    Property("ssl.certificate.location"),
    Property("ssl.certificate.pem"),
    Property("ssl.key.location"),
    Property("ssl.key.pem", note="never on disk", sensitive=True),
    Property("ssl.key.password", sensitive=True),
    Property("ssl.keystore.location", note="its key never on disk"),
    Property("ssl.keystore.password", sensitive=True),
    Property("ssl.cipher.suites"),
    Property(
        "ssl.curves.list", Text(), Use.REFUSED, "Python's TLS takes no list of curves", instead=_ON_BROKER
    ),
    Property(
        "ssl.sigalgs.list",
        Text(),
        Use.REFUSED,
        "Python's TLS takes no list of signature algorithms",
        instead=_ON_BROKER,
    ),
    Property(
        "sasl.mechanism",
        Choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")),
        alias="sasl.mechanisms",
    ),
    Property("sasl.username"),
    Property("sasl.password", sensitive=True),
    Property("sasl.kerberos.service.name", Text(r"[A-Za-z0-9._-]+", "a service name such as kafka")),
    # librdkafka inserts these two into a shell command (kinit), so they must have no special characters of
    # the shell.
    Property(
        "sasl.kerberos.principal",
        Text(r"[A-Za-z0-9._/@-]+", "a Kerberos principal such as client/host@REALM"),
        *_NO_KEYTAB,
    ),
    Property(
        "sasl.kerberos.keytab",
        Text(r"[A-Za-z0-9._/+@:=-]+", "a path without blanks, quotes and other characters of the shell"),
        *_NO_KEYTAB,
    ),
    Property("sasl.kerberos.min.time.before.relogin", Number(0, 86_400_000), Use.IGNORED),
    Property(f"{_OAUTH}method", Choice(("oidc",))),
    # file:// as in Java's client (KIP-768): the token is in a file that another program renews.
    Property(
        f"{_OAUTH}token.endpoint.url",
        Text(r"https?://\S+|file:///\S+", "an http:// or https:// URL, or file:///PATH of a token"),
    ),
    Property(ALLOW_HTTP, FLAG),
    Property(f"{_OAUTH}client.id", alias=f"{_OAUTH}client.credentials.client.id"),
    Property(f"{_OAUTH}client.secret", alias=f"{_OAUTH}client.credentials.client.secret", sensitive=True),
    Property(f"{_OAUTH}scope"),
    Property(f"{_OAUTH}extensions"),
    Property(f"{_OAUTH}sub.claim.name", Text(), Use.IGNORED, "brokers read the name in the token"),
    Property(f"{_OAUTH}config", Text(), Use.REFUSED, "it is not used", _OTHER_TOKENS, sensitive=True),
    Property(
        f"{_OAUTH}metadata.authentication.type",
        Choice(("none", "azure_imds")),
        Use.REFUSED,
        "logins by Azure's metadata service are not supported",
        _OTHER_TOKENS,
        unless="none",
    ),
    Property(
        f"{_OAUTH}grant.type",
        Choice(("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")),
        Use.REFUSED,
        _NO_ASSERTION,
        _OTHER_TOKENS,
        unless="client_credentials",
    ),
    *(
        Property(
            f"{_OAUTH}assertion.{name}",
            type_,
            Use.REFUSED,
            _NO_ASSERTION,
            _OTHER_TOKENS,
            sensitive=name in {"private.key.pem", "private.key.passphrase"},
        )
        for name, type_ in _ASSERTION.items()
    ),
    Property("https.ca.location"),
    Property("https.ca.pem"),
    *_REGISTRY_ROWS,
)

PROPERTIES: Mapping[str, Property] = MappingProxyType({row.name: row for row in _ROWS})
"""Every property that `client:` may have."""

ALIASES: Mapping[str, str] = MappingProxyType({row.alias: row.name for row in _ROWS if row.alias})
"""librdkafka's alternative names."""

RENAMED: Mapping[str, str] = MappingProxyType({row.java: row.name for row in _ROWS if row.java})
"""Java's names of properties with the same value, where they differ."""

SENSITIVE: frozenset[str] = frozenset(row.name for row in _ROWS if row.sensitive)
"""The properties whose value is never printed."""

# Removed before librdkafka sees the properties.
OWN: frozenset[str] = frozenset({ALLOW_HTTP, *(row.name for row in _REGISTRY_ROWS)})
"""The properties that librdkafka does not have: it rejects unknown names."""

JAVA: Mapping[str, str] = MappingProxyType(
    {
        **{java: f"write {name}" for java, name in RENAMED.items()},
        "default.api.timeout.ms": "write socket.timeout.ms, for each request",
        "sasl.jaas.config": "write sasl.mechanism, sasl.username and sasl.password",
        "ssl.truststore.type": "remove it: ssl.ca.location is a PEM file",
        "ssl.truststore.location": "write `ssl.ca.location: ca.pem`",
        "ssl.truststore.password": "remove it: ssl.ca.location is a PEM file, which needs no password",
        "ssl.truststore.certificates": "write ssl.ca.pem",
        "ssl.keystore.type": "remove it: ssl.keystore.location is a PKCS#12 file",
        "ssl.keystore.key": "write ssl.key.pem",
        "ssl.keystore.certificate.chain": "write ssl.certificate.pem",
        "ssl.protocol": "remove it: the brokers choose the versions of TLS",
        "ssl.enabled.protocols": "remove it: the brokers choose the versions of TLS",
    }
)
"""Names that only Java's clients have, and what to write in `client:` instead."""

_NO_EFFECT = "it tunes producers, consumers or Java's client, and has no effect here"

LEFT_OUT = (
    # Java's login and TLS.
    *("ssl.keymanager.algorithm", "ssl.protocol", "ssl.secure.random.implementation"),
    *("ssl.trustmanager.algorithm", "sasl.kerberos.ticket.*", "sasl.login.connect.timeout.ms"),
    *("sasl.login.read.timeout.ms", "sasl.login.refresh.*", "sasl.login.retry.*"),
    # Brokers validate tokens.
    *(f"{_OAUTH}clock.skew.seconds", f"{_OAUTH}expected.*", f"{_OAUTH}jwks.*", f"{_OAUTH}scope.claim.name"),
    # Settings of producers.
    *("acks", "batch.size", "buffer.memory", "compression.type", "delivery.timeout.ms", "enable.idempotence"),
    *("key.serializer", "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection"),
    *("max.request.size", "metadata.max.idle.ms", "partitioner.class"),
    *("transaction.timeout.ms", "transactional.id", "value.serializer"),
    # Settings of admin clients, and of earlier versions.
    *("auto.include.jmx.reporter", "default.api.timeout.ms", "retries"),
)
"""Names without an effect here, besides those of Kafka's consumer; a Java file may have them."""

NOT_ALLOWED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "it loads code into the process": (
            *("plugin.library.paths", "interceptors", "interceptor.classes", "metric.reporters"),
            *("ssl.engine.*", "ssl_engine_callback_data", "ssl.providers", "security.providers"),
            *("config.providers", "config.providers.*", "sasl.login.class"),
            *("sasl.client.callback.handler.class", "sasl.login.callback.handler.class"),
        ),
        "it runs a command": ("sasl.kerberos.kinit.cmd",),
        "the client's log is not shown, and debug output can contain credentials": (
            *("debug", "log_level", "log.queue", "log.thread.name", "log.connection.close"),
            *("statistics.interval.ms", "enabled_events"),
        ),
        "it is set by a program, not by a file": (
            "*_cb",
            "opaque",
            "ssl_key",
            "ssl_certificate",
            "ssl_ca",
            "default_topic_conf",
        ),
        "reading must never create a topic": ("allow.auto.create.topics",),
        "it creates unsigned tokens, which prove nothing": ("enable.sasl.oauthbearer.unsecure.jwt",),
        "it works on Windows only": ("ssl.ca.certificate.stores",),
        # Kafka's tools take it instead of bootstrap.servers since 3.7 (KIP-919).
        "connections are made to brokers, not to controllers: give bootstrap.servers": (
            "bootstrap.controllers",
        ),
        "it is a name of the Java client; `client:` uses librdkafka's names": tuple(JAVA),
        _NO_EFFECT: ("message.max.bytes",),
    }
)
"""The names that `client:` refuses, by the reason."""

_NEVER_LEFT_OUT = ("ssl.", "sasl.", "security.", "config.", "internal.")
"""The prefixes of names that may affect access or trust."""


def translate_name(java: str) -> str | None:
    """Return the name here of a property of Java's clients with the same values; None if there is none."""
    name = RENAMED.get(java) or ALIASES.get(java, java)
    return name if name in PROPERTIES and (java in OWN or java in consumer_configs()) else None


def is_left_out(name: str) -> bool:
    """Return whether a name of Java's clients has no effect here."""
    if any(fnmatchcase(name, pattern) for pattern in LEFT_OUT):
        return True
    return name in consumer_configs() and name not in PROPERTIES and not name.startswith(_NEVER_LEFT_OUT)


def describe_refusal(name: str, reason: str) -> str:
    """Return the sentence by which a property is refused."""
    return f"client property {name} is not allowed: {reason}"


def explain_refusal(name: str) -> str | None:
    """Return the reason why `client:` refuses a name; None for an unknown name."""
    for reason, patterns in NOT_ALLOWED.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return reason
    return _NO_EFFECT if is_left_out(name) else None

"""The closed list of client properties, under librdkafka's names, and what becomes of each elsewhere.

The ranges and names are those of librdkafka's CONFIGURATION.md; kafka-python's are the keyword
arguments of its KafkaAdminClient, Java's those of AdminClientConfig.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkaform.config.client_properties.treatment import (
    Choice,
    Flag,
    Handled,
    Kind,
    Number,
    Property,
    Refused,
    Renamed,
    Text,
    Treatment,
    Unused,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


_INT_MAX = 2_147_483_647
_ADDRESS = r"\s*([A-Za-z_]+://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\])(:[0-9]{1,5})?\s*"
_ADDRESSES = Text(rf"{_ADDRESS}(,{_ADDRESS})*,?\s*", "HOST:PORT, or several of them with commas between")

CONNECTION = (
    Property(
        "bootstrap.servers",
        _ADDRESSES,
        Handled("`bootstrap_servers`"),
        Renamed("bootstrap.servers"),
        shown=True,
    ),
    Property("client.id", Text(), Renamed("client_id"), Renamed("client.id"), shown=True),
    Property(
        "client.dns.lookup",
        Choice(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
        Renamed("client_dns_lookup"),
        Renamed("client.dns.lookup"),
    ),
    Property("broker.address.family", Choice(("any", "v4", "v6")), Unused(), Unused()),
    Property(
        "socket.timeout.ms", Number(10, 300_000), Renamed("request_timeout_ms"), Renamed("request.timeout.ms")
    ),
    Property(
        "socket.connection.setup.timeout.ms",
        Number(1000, _INT_MAX),
        Unused(),
        Renamed("socket.connection.setup.timeout.ms"),
    ),
    Property("socket.keepalive.enable", Flag(), Handled("`socket_options`"), Unused("always on")),
    Property("socket.nagle.disable", Flag(), Handled("`socket_options`"), Unused("always disabled")),
    Property(
        "socket.send.buffer.bytes",
        Number(0, 100_000_000),
        Renamed("send_buffer_bytes", default="0"),
        Renamed("send.buffer.bytes", default="0"),
    ),
    Property(
        "socket.receive.buffer.bytes",
        Number(0, 100_000_000),
        Renamed("receive_buffer_bytes", default="0"),
        Renamed("receive.buffer.bytes", default="0"),
    ),
    Property(
        "receive.message.max.bytes", Number(1000, _INT_MAX), Renamed("receive_message_max_bytes"), Unused()
    ),
    Property(
        "connections.max.idle.ms",
        Number(0, _INT_MAX),
        Renamed("connections_max_idle_ms", default="0"),
        Renamed("connections.max.idle.ms", default="0"),
    ),
    Property(
        "reconnect.backoff.ms",
        Number(0, 3_600_000),
        Renamed("reconnect_backoff_ms"),
        Renamed("reconnect.backoff.ms"),
    ),
    Property(
        "reconnect.backoff.max.ms",
        Number(0, 3_600_000),
        Renamed("reconnect_backoff_max_ms"),
        Renamed("reconnect.backoff.max.ms"),
    ),
    Property(
        "retry.backoff.ms", Number(1, 300_000), Renamed("retry_backoff_ms"), Renamed("retry.backoff.ms")
    ),
    Property("retry.backoff.max.ms", Number(1, 300_000), Unused(), Renamed("retry.backoff.max.ms")),
    Property(
        "metadata.max.age.ms",
        Number(1, 86_400_000),
        Renamed("metadata_max_age_ms"),
        Renamed("metadata.max.age.ms"),
    ),
    Property("topic.metadata.refresh.interval.ms", Number(-1, 3_600_000), Unused(), Unused()),
    Property(
        "metadata.recovery.strategy",
        Choice(("none", "rebootstrap")),
        Unused(),
        Renamed("metadata.recovery.strategy"),
    ),
    Property(
        "metadata.recovery.rebootstrap.trigger.ms",
        Number(0, _INT_MAX),
        Unused(),
        Renamed("metadata.recovery.rebootstrap.trigger.ms"),
    ),
    Property("api.version.request.timeout.ms", Number(1, 300_000), Unused(), Unused()),
    Property("enable.metrics.push", Flag(), Unused("never pushes"), Renamed("enable.metrics.push")),
)
_URL = Text(r"https?://[^\s]+", "an http:// or https:// URL")


# librdkafka puts these into a shell command (kinit), so nothing a shell understands may be in them.
_PRINCIPAL = Text(r"[A-Za-z0-9._/@-]+", "a Kerberos principal such as client/host@REALM")
_KEYTAB = Text(r"[A-Za-z0-9._/+@:=-]+", "a path without blanks, quotes and other characters of the shell")
_SERVICE = Text(r"[A-Za-z0-9._-]+", "a service name such as kafka")

_NO_OAUTH = Refused(
    "kafka-python cannot fetch OAuth tokens",
    "use a SASL/SCRAM or TLS client certificate account for this cluster",
)


def _client_credentials_only(unless: str | None = None) -> Refused:
    return Refused(
        "the Java client of Spark cannot do this",
        "use the client credentials grant: sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret",
        unless,
    )


_OPENSSL_NAMES = Refused(
    "Java and OpenSSL name these differently", "leave it out, or restrict it on the broker"
)


def _oauth(
    name: str, kind: Kind | None = None, java: Treatment | None = None, *, sensitive: bool = False
) -> Property:
    return Property(
        f"sasl.oauthbearer.{name}",
        kind or Text(),
        _NO_OAUTH,
        java or _client_credentials_only(),
        sensitive=sensitive,
    )


SECURITY = (
    Property(
        "security.protocol",
        Choice(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        Renamed("security_protocol"),
        Renamed("security.protocol"),
    ),
    Property(
        "enable.ssl.certificate.verification",
        Flag(),
        Handled("in `ssl_context`"),
        Handled("`true` only: Java always verifies"),
    ),
    Property(
        "ssl.endpoint.identification.algorithm",
        Choice(("https", "none")),
        Handled("in `ssl_context`, `ssl_check_hostname`"),
        Handled("`ssl.endpoint.identification.algorithm`; `none` is the empty value"),
    ),
    Property(
        "ssl.ca.location",
        Text(),
        Handled("in `ssl_context`: file, directory or `probe`"),
        Handled("`ssl.truststore.location`, type PEM; a directory is refused, `probe` is Java's own store"),
    ),
    Property(
        "ssl.ca.pem", Text(), Handled("in `ssl_context`"), Handled("`ssl.truststore.certificates`, type PEM")
    ),
    Property(
        "ssl.crl.location",
        Text(),
        Handled("in `ssl_context`"),
        Refused("Java has no client property for revocation lists", "leave it out for this cluster"),
    ),
    Property(
        "ssl.certificate.location",
        Text(),
        Handled("in `ssl_context`"),
        Handled("`ssl.keystore.certificate.chain`; `ssl.keystore.location` if the key is in the same file"),
    ),
    Property(
        "ssl.certificate.pem",
        Text(),
        Handled("in `ssl_context`"),
        Handled("`ssl.keystore.certificate.chain`"),
    ),
    Property(
        "ssl.key.location",
        Text(),
        Handled("in `ssl_context`"),
        Handled("`ssl.keystore.key` (PKCS#8 only), or `ssl.keystore.location`"),
    ),
    Property(
        "ssl.key.pem",
        Text(),
        Handled("in `ssl_context`, by a pipe: never on disk"),
        Handled("`ssl.keystore.key` (PKCS#8 only)"),
        sensitive=True,
    ),
    Property(
        "ssl.key.password", Text(), Handled("in `ssl_context`"), Handled("`ssl.key.password`"), sensitive=True
    ),
    Property(
        "ssl.keystore.location",
        Text(),
        Refused(
            "kafka-python reads PEM, not PKCS#12",
            "convert it: openssl pkcs12 -in STORE.p12 -out client.pem, then set ssl.certificate.location and "
            "ssl.key.location to client.pem, and ssl.key.password",
        ),
        Handled("`ssl.keystore.location`, type PKCS12"),
    ),
    Property(
        "ssl.keystore.password",
        Text(),
        Refused("kafka-python reads PEM, not PKCS#12", "use ssl.key.password with ssl.key.location"),
        Handled("`ssl.keystore.password` and `ssl.key.password`"),
        sensitive=True,
    ),
    Property("ssl.cipher.suites", Text(), Handled("in `ssl_context`"), _OPENSSL_NAMES),
    Property(
        "ssl.curves.list",
        Text(),
        Refused("Python's TLS takes no list of curves", "leave it out, or restrict it on the broker"),
        _OPENSSL_NAMES,
    ),
    Property(
        "ssl.sigalgs.list",
        Text(),
        Refused(
            "Python's TLS takes no list of signature algorithms", "leave it out, or restrict it on the broker"
        ),
        _OPENSSL_NAMES,
    ),
    Property(
        "sasl.mechanism",
        Choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")),
        Handled("`sasl_mechanism`; OAUTHBEARER is refused"),
        Renamed("sasl.mechanism"),
    ),
    Property("sasl.username", Text(), Renamed("sasl_plain_username"), Handled("in `sasl.jaas.config`")),
    Property(
        "sasl.password",
        Text(),
        Renamed("sasl_plain_password"),
        Handled("in `sasl.jaas.config`"),
        sensitive=True,
    ),
    Property(
        "sasl.kerberos.service.name",
        _SERVICE,
        Renamed("sasl_kerberos_service_name"),
        Renamed("sasl.kerberos.service.name"),
    ),
    Property(
        "sasl.kerberos.principal",
        _PRINCIPAL,
        Refused("kafka-python takes the ticket cache as it is", "run kinit first, and leave it out"),
        Handled("in `sasl.jaas.config`"),
    ),
    Property(
        "sasl.kerberos.keytab",
        _KEYTAB,
        Refused(
            "kafka-python takes the ticket cache as it is",
            "run kinit -kt KEYTAB PRINCIPAL first, and leave it out",
        ),
        Handled("in `sasl.jaas.config`; without it, the ticket cache"),
    ),
    Property(
        "sasl.kerberos.min.time.before.relogin",
        Number(0, 86_400_000),
        Unused(),
        Renamed("sasl.kerberos.min.time.before.relogin", default="0"),
    ),
)

_HTTPS_CA = Handled("option of `sasl.jaas.config`")
OAUTHBEARER = (
    _oauth("method", Choice(("oidc",)), Handled("`sasl.login.callback.handler.class`")),
    _oauth("token.endpoint.url", _URL, Renamed("sasl.oauthbearer.token.endpoint.url")),
    _oauth("client.id", None, Handled("in `sasl.jaas.config`")),
    _oauth("client.secret", None, Handled("in `sasl.jaas.config`"), sensitive=True),
    _oauth("scope", None, Handled("in `sasl.jaas.config`")),
    _oauth("extensions", None, Handled("in `sasl.jaas.config`")),
    _oauth("sub.claim.name", None, Renamed("sasl.oauthbearer.sub.claim.name")),
    _oauth("config", None, sensitive=True),
    _oauth("metadata.authentication.type", Choice(("none", "azure_imds")), _client_credentials_only("none")),
    _oauth(
        "grant.type",
        Choice(("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")),
        _client_credentials_only("client_credentials"),
    ),
    _oauth("assertion.algorithm", Choice(("RS256", "ES256"))),
    _oauth("assertion.file"),
    _oauth("assertion.private.key.file"),
    _oauth("assertion.private.key.pem", sensitive=True),
    _oauth("assertion.private.key.passphrase", sensitive=True),
    _oauth("assertion.jwt.template.file"),
    _oauth("assertion.claim.aud"),
    _oauth("assertion.claim.iss"),
    _oauth("assertion.claim.sub"),
    _oauth("assertion.claim.exp.seconds", Number(1, _INT_MAX)),
    _oauth("assertion.claim.nbf.seconds", Number(0, _INT_MAX)),
    _oauth("assertion.claim.jti.include", Flag()),
    Property("https.ca.location", Text(), _NO_OAUTH, _HTTPS_CA),
    Property("https.ca.pem", Text(), _NO_OAUTH, _HTTPS_CA),
)


PROPERTIES: Mapping[str, Property] = MappingProxyType(
    {p.name: p for p in (*CONNECTION, *SECURITY, *OAUTHBEARER)}
)
"""Every property that `client:` may hold."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "metadata.broker.list": "bootstrap.servers",
        "sasl.mechanisms": "sasl.mechanism",
        "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    }
)
"""librdkafka's second names."""

SENSITIVE: frozenset[str] = frozenset(p.name for p in PROPERTIES.values() if p.sensitive)
"""The properties whose value is never shown."""

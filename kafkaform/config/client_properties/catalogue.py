"""The closed list of client properties, under librdkafka's names, and what becomes of each elsewhere.

The ranges and names are those of librdkafka's CONFIGURATION.md, Java's those of AdminClientConfig.
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
        Handled(),
        Renamed("bootstrap.servers"),
        shown=True,
    ),
    Property("client.id", Text(), Handled(), Renamed("client.id"), shown=True),
    Property(
        "client.dns.lookup",
        Choice(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
        Refused(
            "kafkaform's own connections use the names as they are",
            "list the brokers' own names in bootstrap.servers",
            "use_all_dns_ips",
        ),
        Renamed("client.dns.lookup"),
    ),
    Property("broker.address.family", Choice(("any", "v4", "v6")), Handled(), Unused()),
    Property(
        "socket.timeout.ms", Number(10, 300_000), Unused("its own deadlines"), Renamed("request.timeout.ms")
    ),
    Property(
        "socket.connection.setup.timeout.ms",
        Number(1000, _INT_MAX),
        Unused(),
        Renamed("socket.connection.setup.timeout.ms"),
    ),
    Property("socket.keepalive.enable", Flag(), Handled(), Unused("always on")),
    Property("socket.nagle.disable", Flag(), Unused("always disabled"), Unused("always disabled")),
    Property(
        "socket.send.buffer.bytes",
        Number(0, 100_000_000),
        Handled(),
        Renamed("send.buffer.bytes", default="0"),
    ),
    Property(
        "socket.receive.buffer.bytes",
        Number(0, 100_000_000),
        Handled(),
        Renamed("receive.buffer.bytes", default="0"),
    ),
    Property("receive.message.max.bytes", Number(1000, _INT_MAX), Unused("its own limits"), Unused()),
    Property(
        "connections.max.idle.ms",
        Number(0, _INT_MAX),
        Unused(),
        Renamed("connections.max.idle.ms", default="0"),
    ),
    Property(
        "reconnect.backoff.ms",
        Number(0, 3_600_000),
        Unused(),
        Renamed("reconnect.backoff.ms"),
    ),
    Property(
        "reconnect.backoff.max.ms",
        Number(0, 3_600_000),
        Unused(),
        Renamed("reconnect.backoff.max.ms"),
    ),
    Property("retry.backoff.ms", Number(1, 300_000), Unused(), Renamed("retry.backoff.ms")),
    Property("retry.backoff.max.ms", Number(1, 300_000), Unused(), Renamed("retry.backoff.max.ms")),
    Property(
        "metadata.max.age.ms",
        Number(1, 86_400_000),
        Unused(),
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
_URL = Text(r"https?://\S+|file:///\S+", "an http:// or https:// URL, or file:///PATH of a token")


# librdkafka puts these into a shell command (kinit), so nothing a shell understands may be in them.
_PRINCIPAL = Text(r"[A-Za-z0-9._/@-]+", "a Kerberos principal such as client/host@REALM")
_KEYTAB = Text(r"[A-Za-z0-9._/+@:=-]+", "a path without blanks, quotes and other characters of the shell")
_SERVICE = Text(r"[A-Za-z0-9._-]+", "a service name such as kafka")


def _client_credentials_only(client: str, unless: str | None = None) -> Refused:
    return Refused(
        f"{client} cannot do this",
        "use the client credentials grant: sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret",
        unless,
    )


_OPENSSL_NAMES = Refused(
    "Java and OpenSSL name these differently", "leave it out, or restrict it on the broker"
)


_OUR = "kafkaform's own connections"
_SPARK = "the Java client of Spark"


def _oauth(
    name: str, kind: Kind | None = None, java: Treatment | None = None, *, sensitive: bool = False
) -> Property:
    """A property of OAUTHBEARER; one without a treatment for Java is librdkafka's alone."""
    transport = Handled() if java else _client_credentials_only(_OUR)
    java = java or _client_credentials_only(_SPARK)
    return Property(f"sasl.oauthbearer.{name}", kind or Text(), transport, java, sensitive=sensitive)


def _only(name: str, kind: Kind, value: str) -> Property:
    """A property of OAUTHBEARER of which only librdkafka takes more than one value."""
    ours, java = (_client_credentials_only(client, value) for client in (_OUR, _SPARK))
    return Property(f"sasl.oauthbearer.{name}", kind, ours, java)


SECURITY = (
    Property(
        "security.protocol",
        Choice(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        Handled(),
        Renamed("security.protocol"),
    ),
    Property(
        "enable.ssl.certificate.verification",
        Flag(),
        Handled(),
        Handled("`true` only: Java always verifies"),
    ),
    Property(
        "ssl.endpoint.identification.algorithm",
        Choice(("https", "none")),
        Handled(),
        Handled("`ssl.endpoint.identification.algorithm`; `none` is the empty value"),
    ),
    Property(
        "ssl.ca.location",
        Text(),
        Handled("used: file, directory or `probe`"),
        Handled("`ssl.truststore.location`, type PEM; a directory is refused, `probe` is Java's own store"),
    ),
    Property("ssl.ca.pem", Text(), Handled(), Handled("`ssl.truststore.certificates`, type PEM")),
    Property(
        "ssl.crl.location",
        Text(),
        Handled(),
        Refused("Java has no client property for revocation lists", "leave it out for this cluster"),
    ),
    Property(
        "ssl.certificate.location",
        Text(),
        Handled(),
        Handled("`ssl.keystore.certificate.chain`; `ssl.keystore.location` if the key is in the same file"),
    ),
    Property(
        "ssl.certificate.pem",
        Text(),
        Handled(),
        Handled("`ssl.keystore.certificate.chain`"),
    ),
    Property(
        "ssl.key.location",
        Text(),
        Handled(),
        Handled("`ssl.keystore.key` (PKCS#8 only), or `ssl.keystore.location`"),
    ),
    Property(
        "ssl.key.pem",
        Text(),
        Handled("used; never on disk"),
        Handled("`ssl.keystore.key` (PKCS#8 only)"),
        sensitive=True,
    ),
    Property("ssl.key.password", Text(), Handled(), Handled("`ssl.key.password`"), sensitive=True),
    Property(
        "ssl.keystore.location",
        Text(),
        Handled("used; its key never on disk"),
        Handled("`ssl.keystore.location`, type PKCS12"),
    ),
    Property(
        "ssl.keystore.password",
        Text(),
        Handled(),
        Handled("`ssl.keystore.password` and `ssl.key.password`"),
        sensitive=True,
    ),
    Property("ssl.cipher.suites", Text(), Handled(), _OPENSSL_NAMES),
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
        Choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")),
        Handled(),
        Handled("`sasl.mechanism`; AWS_MSK_IAM is refused"),
    ),
    Property("sasl.username", Text(), Handled(), Handled("in `sasl.jaas.config`")),
    Property(
        "sasl.password",
        Text(),
        Handled(),
        Handled("in `sasl.jaas.config`"),
        sensitive=True,
    ),
    Property(
        "sasl.kerberos.service.name",
        _SERVICE,
        Handled(),
        Renamed("sasl.kerberos.service.name"),
    ),
    Property(
        "sasl.kerberos.principal",
        _PRINCIPAL,
        Refused(
            "kafkaform's own connections take the ticket cache as it is", "run kinit first, and leave it out"
        ),
        Handled("in `sasl.jaas.config`"),
    ),
    Property(
        "sasl.kerberos.keytab",
        _KEYTAB,
        Refused(
            "kafkaform's own connections take the ticket cache as it is",
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
    Property(
        "sasl.oauthbearer.sub.claim.name",
        Text(),
        Unused("brokers read the name in the token"),
        Renamed("sasl.oauthbearer.sub.claim.name"),
    ),
    _oauth("config", None, sensitive=True),
    _only("metadata.authentication.type", Choice(("none", "azure_imds")), "none"),
    _only(
        "grant.type",
        Choice(("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")),
        "client_credentials",
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
    Property("https.ca.location", Text(), Handled(), _HTTPS_CA),
    Property("https.ca.pem", Text(), Handled(), _HTTPS_CA),
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

"""The closed list of client properties, under librdkafka's names, and what becomes of each elsewhere.

The ranges and names are those of librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkaform.config.client_properties.treatment import (
    Addresses,
    Choice,
    Flag,
    Handled,
    Kind,
    Number,
    Property,
    Refused,
    Text,
    Unused,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


_INT_MAX = 2_147_483_647

CONNECTION = (
    Property("bootstrap.servers", Addresses(), Handled(), shown=True),
    Property("client.id", Text(), Handled(), shown=True),
    Property(
        "client.dns.lookup",
        Choice(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
        Refused(
            "kafkaform's own connections use the names as they are",
            "list the brokers' own names in bootstrap.servers",
            "use_all_dns_ips",
        ),
    ),
    Property("broker.address.family", Choice(("any", "v4", "v6")), Handled()),
    Property("socket.timeout.ms", Number(10, 300_000), Unused("its own deadlines")),
    Property("socket.connection.setup.timeout.ms", Number(1000, _INT_MAX), Unused()),
    Property("socket.keepalive.enable", Flag(), Handled()),
    Property("socket.nagle.disable", Flag(), Unused("always disabled")),
    Property("socket.send.buffer.bytes", Number(0, 100_000_000), Handled()),
    Property("socket.receive.buffer.bytes", Number(0, 100_000_000), Handled()),
    Property("receive.message.max.bytes", Number(1000, _INT_MAX), Unused("its own limits")),
    Property("connections.max.idle.ms", Number(0, _INT_MAX), Unused()),
    Property("reconnect.backoff.ms", Number(0, 3_600_000), Unused()),
    Property("reconnect.backoff.max.ms", Number(0, 3_600_000), Unused()),
    Property("retry.backoff.ms", Number(1, 300_000), Unused()),
    Property("retry.backoff.max.ms", Number(1, 300_000), Unused()),
    Property("metadata.max.age.ms", Number(1, 86_400_000), Unused()),
    Property("topic.metadata.refresh.interval.ms", Number(-1, 3_600_000), Unused()),
    Property("metadata.recovery.strategy", Choice(("none", "rebootstrap")), Unused()),
    Property("metadata.recovery.rebootstrap.trigger.ms", Number(0, _INT_MAX), Unused()),
    Property("api.version.request.timeout.ms", Number(1, 300_000), Unused()),
    Property("enable.metrics.push", Flag(), Unused("never pushes")),
)
_URL = Text(r"https?://\S+|file:///\S+", "an http:// or https:// URL, or file:///PATH of a token")


# librdkafka puts these into a shell command (kinit), so nothing a shell understands may be in them.
_PRINCIPAL = Text(r"[A-Za-z0-9._/@-]+", "a Kerberos principal such as client/host@REALM")
_KEYTAB = Text(r"[A-Za-z0-9._/+@:=-]+", "a path without blanks, quotes and other characters of the shell")
_SERVICE = Text(r"[A-Za-z0-9._-]+", "a service name such as kafka")


_CLIENT_CREDENTIALS_ONLY = Refused(
    "kafkaform's own connections cannot do this",
    "use the client credentials grant: sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret",
)


def _oauth(name: str, kind: Kind | None = None, *, sensitive: bool = False) -> Property:
    """A property of OAUTHBEARER."""
    return Property(f"sasl.oauthbearer.{name}", kind or Text(), Handled(), sensitive=sensitive)


def _only(
    name: str, kind: Kind | None = None, value: str | None = None, *, sensitive: bool = False
) -> Property:
    """A property of OAUTHBEARER that librdkafka alone has, or of which it alone takes more than one value."""
    treatment = replace(_CLIENT_CREDENTIALS_ONLY, unless=value)
    return Property(f"sasl.oauthbearer.{name}", kind or Text(), treatment, sensitive=sensitive)


SECURITY = (
    Property("security.protocol", Choice(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")), Handled()),
    Property("enable.ssl.certificate.verification", Flag(), Handled()),
    Property("ssl.endpoint.identification.algorithm", Choice(("https", "none")), Handled()),
    Property("ssl.ca.location", Text(), Handled("used: file, directory or `probe`")),
    Property("ssl.ca.pem", Text(), Handled()),
    Property("ssl.crl.location", Text(), Handled()),
    Property("ssl.certificate.location", Text(), Handled()),
    Property("ssl.certificate.pem", Text(), Handled()),
    Property("ssl.key.location", Text(), Handled()),
    Property("ssl.key.pem", Text(), Handled("used; never on disk"), sensitive=True),
    Property("ssl.key.password", Text(), Handled(), sensitive=True),
    Property("ssl.keystore.location", Text(), Handled("used; its key never on disk")),
    Property("ssl.keystore.password", Text(), Handled(), sensitive=True),
    Property("ssl.cipher.suites", Text(), Handled()),
    Property(
        "ssl.curves.list",
        Text(),
        Refused("Python's TLS takes no list of curves", "leave it out, or restrict it on the broker"),
    ),
    Property(
        "ssl.sigalgs.list",
        Text(),
        Refused(
            "Python's TLS takes no list of signature algorithms", "leave it out, or restrict it on the broker"
        ),
    ),
    Property(
        "sasl.mechanism",
        Choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")),
        Handled(),
    ),
    Property("sasl.username", Text(), Handled()),
    Property("sasl.password", Text(), Handled(), sensitive=True),
    Property("sasl.kerberos.service.name", _SERVICE, Handled()),
    Property(
        "sasl.kerberos.principal",
        _PRINCIPAL,
        Refused(
            "kafkaform's own connections take the ticket cache as it is", "run kinit first, and leave it out"
        ),
    ),
    Property(
        "sasl.kerberos.keytab",
        _KEYTAB,
        Refused(
            "kafkaform's own connections take the ticket cache as it is",
            "run kinit -kt KEYTAB PRINCIPAL first, and leave it out",
        ),
    ),
    Property("sasl.kerberos.min.time.before.relogin", Number(0, 86_400_000), Unused()),
)

ALLOW_HTTP = "sasl.oauthbearer.token.endpoint.allow.http"
"""Lets a client's secret go in the clear to a token endpoint; see `properties.incoherences`."""

OAUTHBEARER = (
    _oauth("method", Choice(("oidc",))),
    _oauth("token.endpoint.url", _URL),
    _oauth("token.endpoint.allow.http", Flag()),
    _oauth("client.id"),
    _oauth("client.secret", sensitive=True),
    _oauth("scope"),
    _oauth("extensions"),
    Property("sasl.oauthbearer.sub.claim.name", Text(), Unused("brokers read the name in the token")),
    _only("config", sensitive=True),
    _only("metadata.authentication.type", Choice(("none", "azure_imds")), "none"),
    _only(
        "grant.type",
        Choice(("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")),
        "client_credentials",
    ),
    _only("assertion.algorithm", Choice(("RS256", "ES256"))),
    _only("assertion.file"),
    _only("assertion.private.key.file"),
    _only("assertion.private.key.pem", sensitive=True),
    _only("assertion.private.key.passphrase", sensitive=True),
    _only("assertion.jwt.template.file"),
    _only("assertion.claim.aud"),
    _only("assertion.claim.iss"),
    _only("assertion.claim.sub"),
    _only("assertion.claim.exp.seconds", Number(1, _INT_MAX)),
    _only("assertion.claim.nbf.seconds", Number(0, _INT_MAX)),
    _only("assertion.claim.jti.include", Flag()),
    Property("https.ca.location", Text(), Handled()),
    Property("https.ca.pem", Text(), Handled()),
)


PROPERTIES: Mapping[str, Property] = MappingProxyType(
    {p.name: p for p in (*CONNECTION, *SECURITY, *OAUTHBEARER)}
)
"""Every property that `client:` may hold."""

OWN: frozenset[str] = frozenset({ALLOW_HTTP})
"""The properties that are kafkaform's alone: librdkafka refuses a name that it does not have."""

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

"""The allow-list of client properties, by librdkafka's names, with their use in kafkaform's own connections.

The ranges and names are those of librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

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
from kafkaform.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Mapping


_INT_MAX = 2_147_483_647

CONNECTION = (
    # Shown even if they are read from the environment: they are no secret, and every connection error names
    # them.
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
    # Ignored, not refused: `Unused` properties tune a client, and affect neither where it connects nor whom
    # it trusts.
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
# file:// as in Java's client (KIP-768): the token is in a file that another program renews.
_URL = Text(r"https?://\S+|file:///\S+", "an http:// or https:// URL, or file:///PATH of a token")


# librdkafka inserts these into a shell command (kinit), so they must have no special characters of the shell.
_PRINCIPAL = Text(r"[A-Za-z0-9._/@-]+", "a Kerberos principal such as client/host@REALM")
_KEYTAB = Text(r"[A-Za-z0-9._/+@:=-]+", "a path without blanks, quotes and other characters of the shell")
_SERVICE = Text(r"[A-Za-z0-9._-]+", "a service name such as kafka")


_OTHER_TOKENS = "use client credentials, or a file with a token that another program renews"
_NO_ASSERTION = Refused("kafkaform does not log in by assertion", _OTHER_TOKENS)


def _define_oauth(name: str, kind: Kind | None = None, *, sensitive: bool = False) -> Property:
    """Define a property of OAUTHBEARER."""
    return Property(f"sasl.oauthbearer.{name}", kind or Text(), Handled(), sensitive=sensitive)


def _define_assertion(name: str, kind: Kind | None = None, *, sensitive: bool = False) -> Property:
    """Define a property of OAUTHBEARER with a signed assertion (RFC 7523), which only librdkafka supports."""
    return Property(f"sasl.oauthbearer.{name}", kind or Text(), _NO_ASSERTION, sensitive=sensitive)


_NO_KEYTAB = Refused(
    "kafkaform does not log in by keytab",
    "use a listener with SCRAM or TLS certificates, or run kinit -kt KEYTAB PRINCIPAL first and leave it out",
)

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
    Property("sasl.kerberos.principal", _PRINCIPAL, _NO_KEYTAB),
    Property("sasl.kerberos.keytab", _KEYTAB, _NO_KEYTAB),
    Property("sasl.kerberos.min.time.before.relogin", Number(0, 86_400_000), Unused()),
)

ALLOW_HTTP = "sasl.oauthbearer.token.endpoint.allow.http"
"""Permits a token endpoint without TLS, which receives the client's secret in plain text."""

OAUTHBEARER = (
    _define_oauth("method", Choice(("oidc",))),
    _define_oauth("token.endpoint.url", _URL),
    _define_oauth("token.endpoint.allow.http", Flag()),
    _define_oauth("client.id"),
    _define_oauth("client.secret", sensitive=True),
    _define_oauth("scope"),
    _define_oauth("extensions"),
    Property("sasl.oauthbearer.sub.claim.name", Text(), Unused("brokers read the name in the token")),
    Property(
        "sasl.oauthbearer.config", Text(), Refused("kafkaform does not use it", _OTHER_TOKENS), sensitive=True
    ),
    Property(
        "sasl.oauthbearer.metadata.authentication.type",
        Choice(("none", "azure_imds")),
        Refused("kafkaform does not log in by Azure's metadata service", _OTHER_TOKENS, "none"),
    ),
    Property(
        "sasl.oauthbearer.grant.type",
        Choice(("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")),
        replace(_NO_ASSERTION, unless="client_credentials"),
    ),
    _define_assertion("assertion.algorithm", Choice(("RS256", "ES256"))),
    _define_assertion("assertion.file"),
    _define_assertion("assertion.private.key.file"),
    _define_assertion("assertion.private.key.pem", sensitive=True),
    _define_assertion("assertion.private.key.passphrase", sensitive=True),
    _define_assertion("assertion.jwt.template.file"),
    _define_assertion("assertion.claim.aud"),
    _define_assertion("assertion.claim.iss"),
    _define_assertion("assertion.claim.sub"),
    _define_assertion("assertion.claim.exp.seconds", Number(1, _INT_MAX)),
    _define_assertion("assertion.claim.nbf.seconds", Number(0, _INT_MAX)),
    _define_assertion("assertion.claim.jti.include", Flag()),
    Property("https.ca.location", Text(), Handled()),
    Property("https.ca.pem", Text(), Handled()),
)


PROPERTIES: Mapping[str, Property] = MappingProxyType(
    {p.name: p for p in (*CONNECTION, *SECURITY, *OAUTHBEARER)}
)
"""Every property that `client:` may have."""

# Removed before librdkafka sees the properties.
OWN: frozenset[str] = frozenset({ALLOW_HTTP})
"""The properties that only kafkaform has: librdkafka rejects unknown names."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "metadata.broker.list": "bootstrap.servers",
        "sasl.mechanisms": "sasl.mechanism",
        "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    }
)
"""librdkafka's alternative names."""

SENSITIVE: frozenset[str] = frozenset(p.name for p in PROPERTIES.values() if p.sensitive)
"""The properties whose value is never printed."""

"""Other names of librdkafka and Java: their counterparts here, or the reasons why `client:` refuses them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


_SAME = (
    "bootstrap.servers",
    "client.dns.lookup",
    "client.id",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.allow.http",
    "sasl.oauthbearer.token.endpoint.url",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
)
RENAMED: Mapping[str, str] = MappingProxyType(
    {name: name for name in _SAME}
    | {
        "receive.buffer.bytes": "socket.receive.buffer.bytes",
        "request.timeout.ms": "socket.timeout.ms",
        "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
        "send.buffer.bytes": "socket.send.buffer.bytes",
    }
)
"""The counterparts of Java's names, where the value is the same."""

JAAS_AND_STORES: frozenset[str] = frozenset(
    {
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.client.callback.handler.class",
        "sasl.oauthbearer.jwt.retriever.class",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
    }
)
"""Java names that are translated by code."""

IGNORED: frozenset[str] = frozenset(
    {
        "default.api.timeout.ms",
        "retries",
        # These name Java classes, which kafkaform never loads: a shared Java file may have them, `client:`
        # may not.
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "auto.include.jmx.reporter",
        "socket.connection.setup.timeout.max.ms",
        "ssl.protocol",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.scope.claim.name",
        # Settings of producers and consumers in a file that is shared with the command-line tools.
        "acks",
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "batch.size",
        "buffer.memory",
        "check.crcs",
        "client.rack",
        "compression.type",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "enable.idempotence",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "interceptor.classes",
        "isolation.level",
        "key.deserializer",
        "key.serializer",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "max.request.size",
        "metadata.max.idle.ms",
        "partition.assignment.strategy",
        "partitioner.class",
        "session.timeout.ms",
        "transaction.timeout.ms",
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    }
)
"""Java names without an effect here: tuning of the JVM, of metrics, of consumers and producers."""


_CODE = "it loads code into the process"
_COMMAND = "it runs a command"
_LOG = "kafkaform keeps the client's log to itself, and debug output can show credentials"
_CALLBACK = "it is set by a program, not by a file"
_CREATES = "reading must never create a topic"
_ROLE = "it is a setting of producers and consumers, and kafkaform is neither"
_JAVA = "it is a name of the Java client; `client:` uses librdkafka's names"
_UNSIGNED = "it creates unsigned tokens, which prove nothing"
_WINDOWS = "it works on Windows only"

_REASONS: Mapping[str, tuple[str, ...]] = {
    _CODE: (
        "plugin.library.paths",
        "interceptors",
        "ssl.engine.location",
        "ssl.engine.id",
        "ssl_engine_callback_data",
        "ssl.providers",
        "config.providers",
        "interceptor.classes",
        "metric.reporters",
        "security.providers",
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "ssl.engine.factory.class",
    ),
    _COMMAND: ("sasl.kerberos.kinit.cmd",),
    _LOG: (
        "debug",
        "log_level",
        "log.queue",
        "log.thread.name",
        "log.connection.close",
        "statistics.interval.ms",
        "enabled_events",
    ),
    _CALLBACK: ("opaque", "ssl_key", "ssl_certificate", "ssl_ca", "default_topic_conf"),
    _CREATES: ("allow.auto.create.topics",),
    _UNSIGNED: ("enable.sasl.oauthbearer.unsecure.jwt",),
    _WINDOWS: ("ssl.ca.certificate.stores",),
    _ROLE: (
        "acks",
        "auto.offset.reset",
        "batch.size",
        "client.rack",
        "compression.type",
        "enable.auto.commit",
        "enable.idempotence",
        "fetch.max.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "isolation.level",
        "linger.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "message.max.bytes",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "transactional.id",
    ),
    _JAVA: (
        "request.timeout.ms",
        "default.api.timeout.ms",
        "receive.buffer.bytes",
        "send.buffer.bytes",
        "sasl.jaas.config",
        "ssl.keystore.type",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.protocol",
        "ssl.enabled.protocols",
    ),
}

UNAVAILABLE: Mapping[str, str] = MappingProxyType(
    {name: reason for reason, names in _REASONS.items() for name in names}
)
"""The reasons why known names are refused."""

LOADS_CODE_OR_RUNS_COMMANDS: frozenset[str] = frozenset((*_REASONS[_CODE], *_REASONS[_COMMAND]))
"""The names that are refused because of what they execute."""


def explain_refusal(name: str) -> str | None:
    """Return the reason why a name is refused; None for an unknown name."""
    # librdkafka's callbacks; its names of them all have this suffix.
    if name.endswith("_cb"):
        return _CALLBACK
    if name.startswith(("config.providers.", "ssl.engine.")):
        return _CODE
    return UNAVAILABLE.get(name)

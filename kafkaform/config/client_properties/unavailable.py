"""Names that librdkafka or Java knows and `client:` does not take, with the reason of each."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_CODE = "it loads code into the process"
_COMMAND = "it runs a command"
_LOG = "kafkaform keeps the client's log to itself, and debug output can show credentials"
_CALLBACK = "it is set by a program, not by a file"
_CREATES = "reading must never create a topic"
_ROLE = "it is a setting of producers and consumers, and kafkaform only administers"
_JAVA = "it is a name of the Java client; `client:` uses librdkafka's names (docs/clients.md has both)"
_UNSIGNED = "it makes unsigned tokens, which prove nothing"
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
"""Why a known name is not taken."""

LOADS_CODE_OR_RUNS_COMMANDS: frozenset[str] = frozenset((*_REASONS[_CODE], *_REASONS[_COMMAND]))
"""The names that are refused because of what they execute."""


def reason(name: str) -> str | None:
    """Why this name is not taken; None for a name nobody knows."""
    if name.endswith("_cb"):
        return _CALLBACK
    if name.startswith(("config.providers.", "ssl.engine.")):
        return _CODE
    return UNAVAILABLE.get(name)

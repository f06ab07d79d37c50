"""The client properties of connections and their timing."""

from __future__ import annotations

from kafkaform.config.client_properties.kinds import Choice, Flag, Number, Text
from kafkaform.config.client_properties.treatment import Handled, Property, Renamed, Unused

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

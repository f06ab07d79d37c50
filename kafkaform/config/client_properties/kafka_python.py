"""Resolved client properties as keyword arguments of kafka-python's clients."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from kafkaform.config.client_properties.catalogue import PROPERTIES
from kafkaform.config.client_properties.dialects import renamed
from kafkaform.config.client_properties.kinds import Number
from kafkaform.config.client_properties.tls_context import tls_context
from kafkaform.config.client_properties.treatment import Renamed
from kafkaform.core.errors import KafkaformError

if TYPE_CHECKING:
    from collections.abc import Mapping

_NUMBERS = frozenset(
    p.kafka_python.name
    for p in PROPERTIES.values()
    if isinstance(p.kafka_python, Renamed) and isinstance(p.kind, Number)
)


def to_kafka_python(resolved: Mapping[str, str]) -> dict[str, object]:
    """Keyword arguments for KafkaAdminClient, secrets included: never log them.

    TLS always comes as a ready SSLContext, which is the only way to give PEM text, a directory of
    authorities, or to turn verification off.

    Raises:
        KafkaformError: kafka-python cannot do what a property asks for, or a certificate cannot be read.
    """
    mechanism = resolved.get("sasl.mechanism")
    if mechanism == "OAUTHBEARER":
        raise KafkaformError(
            "client property sasl.mechanism: kafka-python cannot fetch OAuth tokens",
            hint="use a SASL/SCRAM or TLS client certificate account for this cluster",
        )
    result: dict[str, object] = {
        name: int(value) if name in _NUMBERS else value
        for name, value in renamed(resolved, lambda property_: property_.kafka_python).items()
    }
    if mechanism is not None:
        result["sasl_mechanism"] = mechanism
    if servers := resolved.get("bootstrap.servers"):
        result["bootstrap_servers"] = [server.strip() for server in servers.split(",") if server.strip()]
    if options := _socket_options(resolved):
        result["socket_options"] = options
    if "SSL" in resolved.get("security.protocol", ""):
        context = tls_context(resolved)
        result["ssl_context"] = context
        # kafka-python goes by the context; this keeps its own record of it true.
        result["ssl_check_hostname"] = context.check_hostname
    return result


def _socket_options(resolved: Mapping[str, str]) -> list[tuple[int, int, int]]:
    options: list[tuple[int, int, int]] = []
    named = {"socket.keepalive.enable", "socket.nagle.disable"} & resolved.keys()
    if named and resolved.get("socket.nagle.disable", "true") == "true":
        options.append((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1))
    if resolved.get("socket.keepalive.enable") == "true":
        options.append((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
    return options

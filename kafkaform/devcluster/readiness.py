"""The readiness of nodes: they are asked for the brokers of their cluster until all expected ones are in.

A broker logs that it has started before it serves requests. The request is DescribeCluster (api key 60,
KIP-700) version 0, which brokers support from 2.8 on and which needs no permission under an authorizer.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING

from kafkaform.core.errors import DevClusterError
from kafkaform.core.values import Value
from kafkaform.devcluster import processes
from kafkaform.devcluster.ports import HOST
from kafkaform.devcluster.processes import find_failure_line

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    import psutil

    from kafkaform.devcluster.state import DevBroker


_API_KEY = 60
_MAX_RESPONSE_BYTES = 1 << 20


class InvalidResponse(ValueError):  # noqa: N818
    """The response is not one of Kafka's protocol, or reports an error."""


class BrokersInService(Value):
    """The cluster's id, and the ids of the brokers that are in service."""

    cluster_id: str
    broker_ids: frozenset[int]


def read_membership(host: str, port: int, *, timeout_s: float) -> BrokersInService:
    """Read from a broker's plaintext listener which brokers are in its cluster.

    Raises:
        OSError: Nothing listens there, or the broker did not respond in time.
        InvalidResponse: The response is not that of a healthy broker.
    """
    client = b"kafkaform"
    header = struct.pack(">hhih", _API_KEY, 0, 1, len(client)) + client + b"\0"
    body = b"\0\0"  # no authorized operations, no tagged fields
    message = header + body
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(message)) + message)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        if not 0 < size <= _MAX_RESPONSE_BYTES:
            raise InvalidResponse(f"invalid response size: {size} bytes")
        return _parse(_Reader(_receive(connection, size)))


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise InvalidResponse("the connection was closed before the response was complete")
        received += part
    return received


def _parse(response: _Reader) -> BrokersInService:
    response.read_number("i")  # correlation id
    response.skip_tags()
    response.read_number("i")  # throttle time
    error = response.read_number("h")
    message = response.read_text()
    if error != 0:
        raise InvalidResponse(f"error {error}: {message}")
    cluster_id = response.read_text() or ""
    response.read_number("i")  # controller
    brokers = set()
    for _ in range(response.read_varint() - 1):
        brokers.add(response.read_number("i"))
        response.read_text()  # host
        response.read_number("i")  # port
        response.read_text()  # rack
        response.skip_tags()
    return BrokersInService(cluster_id, frozenset(brokers))


class _Reader:
    """A reader of the compact encodings of Kafka's flexible message versions (KIP-482)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read_number(self, code: str) -> int:
        packed = self._take(struct.calcsize(f">{code}"))
        (value,) = struct.unpack(f">{code}", packed)
        return int(value)

    def read_varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def read_text(self) -> str | None:
        length = self.read_varint() - 1
        return None if length < 0 else self._take(length).decode(errors="replace")

    def skip_tags(self) -> None:
        for _ in range(self.read_varint()):
            self.read_varint()
            self._take(self.read_varint())

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise InvalidResponse("the response is incomplete")
        self._at += size
        return taken


_POLL_S = 0.1
_RESPONSE_TIMEOUT_S = 2.0


def responds(node: DevBroker, cluster_id: str, *, expected: Collection[int]) -> bool:
    """Return whether a node responds as a member of this cluster and reports all expected brokers.

    An empty `cluster_id` matches any cluster.
    """
    try:
        membership = read_membership(HOST, node.port, timeout_s=_RESPONSE_TIMEOUT_S)
    except (OSError, InvalidResponse):
        return False
    return (not cluster_id or membership.cluster_id == cluster_id) and membership.broker_ids.issuperset(
        expected
    )


def wait_for_nodes(
    started: Mapping[DevBroker, psutil.Process],
    *,
    cluster_id: str,
    expected: Collection[int],
    log_files: Mapping[DevBroker, Path],
    timeout_s: float,
) -> None:
    """Wait until each started node responds and reports all expected brokers.

    Raises:
        DevClusterError: The process of a node ended, or the timeout was reached.
    """
    deadline = time.monotonic() + timeout_s
    waiting = list(started)
    while waiting:
        # First: a node that has exited will never answer, and its log says why.
        for node in waiting:
            if processes.has_ended(started[node]):
                log = log_files[node]
                raise DevClusterError(
                    f"node {node.id} exited while it was starting: {find_failure_line(log)}",
                    hint=f"see {log}",
                )
        waiting = [node for node in waiting if not responds(node, cluster_id, expected=expected)]
        if waiting and time.monotonic() > deadline:
            log = log_files[waiting[0]]
            raise DevClusterError(
                f"node {waiting[0].id} did not answer within {timeout_s:g} s: {find_failure_line(log)}",
                hint=f"see {log}",
            )
        if waiting:
            time.sleep(_POLL_S)

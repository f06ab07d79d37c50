"""Waiting until started nodes really serve requests.

Asking a broker who is in its cluster, with one request of Kafka's own protocol.

A log line says that a broker believes it has started; an answer shows it. The request is DescribeCluster
(api key 60) version 0, which brokers know since 2.8 and which needs no right under an authorizer.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.errors import DevClusterError
from kafkaform.devcluster import processes
from kafkaform.devcluster.processes import last_words
from kafkaform.devcluster.state import HOST

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    import psutil

    from kafkaform.devcluster.state import DevBroker


_API_KEY = 60
_LARGEST_ANSWER = 1 << 20


class BadAnswer(ValueError):  # noqa: N818
    """What answered does not speak Kafka's protocol, or reports an error."""


@dataclass(frozen=True, slots=True)
class BrokersInService:
    """The cluster's id, and the ids of the brokers that are in service."""

    cluster_id: str
    broker_ids: frozenset[int]


def membership(host: str, port: int, *, timeout_s: float) -> BrokersInService:
    """What the broker behind this plaintext listener says about its cluster.

    Raises:
        OSError: Nobody listens, or no answer came in time.
        BadAnswer: Something else than a healthy broker answered.
    """
    client = b"kafkaform"
    header = struct.pack(">hhih", _API_KEY, 0, 1, len(client)) + client + b"\0"
    body = b"\0\0"  # no authorized operations, no tagged fields
    message = header + body
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(message)) + message)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        if not 0 < size <= _LARGEST_ANSWER:
            raise BadAnswer(f"an answer of {size} bytes")
        return _parse(_Reader(_receive(connection, size)))


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise BadAnswer("the connection was closed before the response was complete")
        received += part
    return received


def _parse(answer: _Reader) -> BrokersInService:
    answer.number("i")  # correlation id
    answer.tags()
    answer.number("i")  # throttle time
    error = answer.number("h")
    message = answer.text()
    if error != 0:
        raise BadAnswer(f"error {error}: {message}")
    cluster_id = answer.text() or ""
    answer.number("i")  # controller
    brokers = set()
    for _ in range(answer.varint() - 1):
        brokers.add(answer.number("i"))
        answer.text()  # host
        answer.number("i")  # port
        answer.text()  # rack
        answer.tags()
    return BrokersInService(cluster_id, frozenset(brokers))


class _Reader:
    """Reads the compact encodings of Kafka's flexible message versions in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, code: str) -> int:
        packed = self._take(struct.calcsize(f">{code}"))
        (value,) = struct.unpack(f">{code}", packed)
        return int(value)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str | None:
        length = self.varint() - 1
        return None if length < 0 else self._take(length).decode(errors="replace")

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self._take(self.varint())

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise BadAnswer("the response is incomplete")
        self._at += size
        return taken


_POLL_S = 0.1
_ANSWER_S = 2.0


def answers(node: DevBroker, cluster_id: str, *, expected: Collection[int]) -> bool:
    """Whether a node answers as a member of this cluster, and sees all the expected brokers in service.

    A cluster without an id yet may have any.
    """
    try:
        found = membership(HOST, node.port, timeout_s=_ANSWER_S)
    except (OSError, BadAnswer):
        return False
    return (not cluster_id or found.cluster_id == cluster_id) and found.broker_ids.issuperset(expected)


def await_nodes(
    started: Mapping[DevBroker, psutil.Process],
    *,
    cluster_id: str,
    expected: Collection[int],
    log_files: Mapping[DevBroker, Path],
    timeout_s: float,
) -> None:
    """Wait until each node that was started answers and sees all the expected brokers.

    Raises:
        DevClusterError: A node's process ended, or the time is over.
    """
    deadline = time.monotonic() + timeout_s
    waiting = list(started)
    while waiting:
        for node in waiting:
            if processes.has_ended(started[node]):
                log = log_files[node]
                raise DevClusterError(
                    f"node {node.id} exited while it was starting: {last_words(log)}", hint=f"see {log}"
                )
        waiting = [node for node in waiting if not answers(node, cluster_id, expected=expected)]
        if waiting and time.monotonic() > deadline:
            log = log_files[waiting[0]]
            raise DevClusterError(
                f"node {waiting[0].id} did not answer within {timeout_s:g} s: {last_words(log)}",
                hint=f"see {log}",
            )
        if waiting:
            time.sleep(_POLL_S)

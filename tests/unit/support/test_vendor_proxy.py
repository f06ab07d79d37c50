"""Tests of the proxy before a broker: it passes on, hides and refuses; the broker here is a few lines."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from struct import pack, unpack
from threading import Thread
from typing import Any

import pytest

from kafkaform.cluster.wire.message_schema import FieldType
from tests.support.clusters.vendor_profiles import EVENT_HUBS, MSK_SERVERLESS, REDPANDA
from tests.support.clusters.vendor_proxy import (
    API_VERSIONS,
    APIS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DESCRIBE_LOG_DIRS,
    EVERYTHING,
    HOST,
    Profile,
    Refusal,
    VendorProxy,
)

OFFERED = [(3, 0, 13), (18, 0, 4), (20, 1, 6), (55, 0, 2), (68, 0, 1)]

Answer = Callable[[int, int, bytes], bytes]


def read_response(stream: socket.socket) -> bytes:
    size = stream.recv(4, socket.MSG_WAITALL)
    return stream.recv(unpack(">i", size)[0], socket.MSG_WAITALL) if size else b""


def send(stream: socket.socket, message: bytes) -> None:
    stream.sendall(pack(">i", len(message)) + message)


def versions(version: int) -> bytes:
    tags = b"\0" if version >= 3 else b""
    count = pack(">b", len(OFFERED) + 1) if tags else pack(">i", len(OFFERED))
    each = b"".join(pack(">hhh", *entry) + tags for entry in OFFERED)
    return pack(">h", 0) + count + each + (pack(">i", 0) if version else b"") + tags


@contextmanager
def open_connection(
    profile: Profile, answer: Answer | None = None
) -> Iterator[tuple[socket.socket, VendorProxy]]:
    """A connection through a proxy to a broker that answers so."""
    with socket.create_server((HOST, 0)) as broker, socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
        free.close()

        def serve() -> None:
            client, _ = broker.accept()
            with client:
                while message := read_response(client):
                    key, version, correlation = unpack(">hhi", message[:8])
                    body = versions(version) if answer is None else answer(key, version, message[8:])
                    send(client, pack(">i", correlation) + body)

        Thread(target=serve, daemon=True).start()
        with (
            VendorProxy({port: broker.getsockname()[1]}, "", profile) as proxy,
            closing(socket.create_connection((HOST, port), 5)) as client,
        ):
            yield client, proxy


def ask(client: socket.socket, key: int, version: int, body: bytes = b"", correlation: int = 7) -> bytes:
    send(client, pack(">hhih", key, version, correlation, -1) + body)
    message = read_response(client)
    if message:
        assert unpack(">i", message[:4]) == (correlation,)
    return message[4:]


def read_versions(body: bytes, version: int) -> dict[int, tuple[int, int]]:
    at, step = (3, 7) if version >= 3 else (6, 6)
    count = body[2] - 1 if version >= 3 else unpack(">i", body[2:6])[0]
    entries = (unpack(">hhh", body[at + n * step : at + n * step + 6]) for n in range(count))
    return {key: (least, most) for key, least, most in entries}


@pytest.mark.parametrize("version", [0, 2, 3])
def test_versions_are_hidden_and_capped(version: int) -> None:
    capped = Profile("x", hidden=frozenset({55}), capped={3: 8, 68: -1})
    with open_connection(capped) as (client, _):
        body = ask(client, API_VERSIONS, version)
        assert read_versions(body, version) == {3: (0, 8), 18: (0, 4), 20: (1, 6)}
        tail = 0 if version == 0 else 4 if version < 3 else 5
        assert len(body) == (3 if version >= 3 else 6) + 3 * (7 if version >= 3 else 6) + tail
    with open_connection(EVERYTHING) as (client, _):
        assert ask(client, API_VERSIONS, version) == versions(version)


def test_requests_that_are_not_there_close_the_connection() -> None:
    with open_connection(REDPANDA) as (client, proxy):
        assert read_versions(ask(client, API_VERSIONS, 2), 2) == {3: (0, 8), 18: (0, 3), 20: (1, 5)}
        assert ask(client, 3, 8)
        assert ask(client, 3, 9) == b""
        assert proxy.closed == {(3, 9): 1}


def test_unsupported_api_versions_are_answered_or_closed() -> None:
    with open_connection(MSK_SERVERLESS) as (client, _):
        assert ask(client, API_VERSIONS, 0) == pack(">hihhh", 35, 1, API_VERSIONS, 2, 3)
    with open_connection(EVENT_HUBS) as (client, proxy):
        assert ask(client, API_VERSIONS, 4) == b""
        assert proxy.closed == {(API_VERSIONS, 4): 1}


def body_of(of: FieldType, version: int, flexible: int, value: dict[str, Any]) -> bytes:
    return of(version, version >= flexible).write(value)


def test_part_of_a_request_is_refused_and_the_rest_passed_on() -> None:
    api = APIS[CREATE_TOPICS]
    seen: list[Any] = []

    def answer(_key: int, version: int, rest: bytes) -> bytes:
        request, _ = api.request(version, True).read(rest, 3)  # a null client id, and no tags
        seen.append(request)
        filler = {"topic_id": bytes(16), "partitions": 1, "replicas": 3, "configs": ()}
        made = [
            {"name": t["name"], "error_code": 0, "error_message": None, **filler} for t in request["topics"]
        ]
        return b"\0" + body_of(api.response, version, 5, {"throttle_ms": 0, "topics": made})

    def topic(name: str, replicas: int) -> dict[str, Any]:
        configs = [{"name": "min.insync.replicas", "value": "2"}, {"name": "retention.ms", "value": "1"}]
        given = {"name": name, "partitions": 1, "replicas": replicas}
        return {**given, "assignments": (), "configs": configs}

    request = {"topics": [topic("odd", 3), topic("even", 2)], "timeout_ms": 1, "validate_only": False}
    with open_connection(REDPANDA, answer) as (client, proxy):
        body = b"\0" + body_of(api.request, 6, 5, request)
        result, _ = api.response(6, True).read(ask(client, CREATE_TOPICS, 6, body), 1)
    assert [(t["name"], t["error_code"]) for t in result["topics"]] == [("odd", 0), ("even", 38)]
    assert "odd number" in result["topics"][1]["error_message"]
    (passed,) = seen[0]["topics"]
    assert (passed["name"], [c["name"] for c in passed["configs"]]) == ("odd", ["retention.ms"])
    assert proxy.refused == {CREATE_TOPICS: 1}


def test_refused_request_is_answered_by_the_proxy() -> None:
    denied = Profile("x", denied={DESCRIBE_LOG_DIRS: Refusal(31, "no")})
    with open_connection(denied) as (client, _):
        assert ask(client, DESCRIBE_LOG_DIRS, 4, b"\0" * 3) == b"\0" + pack(">ih", 0, 31) + b"\1\0"
    api = APIS[CREATE_PARTITIONS]
    given = {"name": "t", "count": 4, "assignments": [{"brokers": [1]}]}
    with open_connection(REDPANDA) as (client, _):
        request = {"topics": [given], "timeout_ms": 1, "validate_only": True}
        body = ask(client, CREATE_PARTITIONS, 1, body_of(api.request, 1, 2, request))
        result, _ = api.response(1, False).read(body, 0)
    (refused,) = result["results"]
    assert (refused["name"], refused["error_code"]) == ("t", 42)

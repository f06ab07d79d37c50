"""Tests of brokers whose answers are damaged, or untrue."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from struct import pack, unpack
from threading import Thread

import pytest

from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project

API_VERSIONS, METADATA, DESCRIBE_CONFIGS, REASSIGNMENTS, ALTER_CONFIGS = 18, 3, 32, 46, 44
GARBAGE = bytes(range(255, 55, -1))


def spoken(connection: socket.socket) -> bytes | None:
    """The next message, without its length; None at the end."""
    with connection.makefile("rb", buffering=0) as stream:

        def exactly(size: int) -> bytes:
            got = b""
            while len(got) < size and (chunk := stream.read(size - len(got))):
                got += chunk
            return got

        head = exactly(4)
        return exactly(*unpack(">i", head)) if len(head) == 4 else None


@contextmanager
def between(kafka: DevCluster, spoiled: int | None = None) -> Iterator[str]:
    """A proxy before the broker, which answers one request of our own connections with garbage.

    Those connections are told by their first request: librdkafka asks for the versions in another way.
    Without that request, it makes every change of configs a dry run: the broker answers as if it did it.
    """
    host, _, port = kafka.bootstrap_servers.rpartition(":")

    def serve(client: socket.socket) -> None:
        mine, ours = client.getsockname()[1], None
        with suppress(OSError), client, socket.create_connection((host, int(port))) as broker:
            while message := spoken(client):
                asked, version = unpack(">hh", message[:4])
                ours = (asked, version) == (API_VERSIONS, 2) if ours is None else ours
                if ours and asked == spoiled:
                    client.sendall(pack(">i", 4 + len(GARBAGE)) + message[4:8] + GARBAGE)
                    continue
                if spoiled is None and asked == ALTER_CONFIGS:
                    # validate_only is the last field, before the empty tagged fields.
                    message = message[:-2] + b"\x01" + message[-1:]
                broker.sendall(pack(">i", len(message)) + message)
                answer = spoken(broker)
                if answer is None:
                    return
                if spoiled is None and asked == METADATA:  # the other connections have to come here, too
                    answer = answer.replace(pack(">i", int(port)), pack(">i", mine))
                client.sendall(pack(">i", len(answer)) + answer)

    with listening(serve) as address:
        yield address


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that serves each connection in a thread; gives its address."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                Thread(target=serve, args=(client,), daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        Thread(target=accept, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("key", "request_type"), [(METADATA, "Metadata v12"), (DESCRIBE_CONFIGS, "DescribeConfigs v1")]
)
def test_malformed_response_names_broker_and_request(
    kafka: DevCluster, prefix: str, tmp_path: Path, key: int, request_type: str
) -> None:
    """tests/unit/cluster/test_brokers.py has other answers, and none at all."""
    with between(kafka, key) as address:
        project = Project(tmp_path, address, prefix)
        project.topic("a")
        call = project.run("plan", "topics").needs(1)
    assert call.out == ""
    # A long wait is announced, on a busy machine.
    error, hint = [line for line in call.err.splitlines() if not line.startswith("waiting for ")]
    assert error.startswith(f"Error: {address}: ")
    assert "malformed answer" in error
    assert request_type in error
    assert hint.startswith("hint: ")


def test_unreadable_reassignments_are_noted(kafka: DevCluster, prefix: str, tmp_path: Path) -> None:
    with between(kafka, REASSIGNMENTS) as address:
        project = Project(tmp_path, address, prefix)
        project.topic("a")
        project.apply().needs(0)
        call = project.run("plan", "topics", "--format", "json").needs(0)
    (note,) = [
        diagnostic["message"] for diagnostic in call.json["diagnostics"] if diagnostic["code"] == "KF413"
    ]
    assert f"{address}: malformed answer to ListPartitionReassignments v0" in note


def test_acknowledged_but_invisible_change_is_in_doubt(
    kafka: DevCluster, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/unit/apply/test_acknowledged.py has the other changes."""
    monkeypatch.setattr("kafkaform.apply.executor.VERIFY_TIMEOUT_S", 2.0)
    honest = Project(tmp_path, kafka.bootstrap_servers, prefix)

    def configure(servers: str) -> None:
        audit = {"topic": False, "file": "record.jsonl"}
        honest.config(clusters={"dev": {"client": {"bootstrap.servers": servers}, "audit": audit}})

    honest.topic("a", retention="7d")
    configure(kafka.bootstrap_servers)
    honest.apply("--audit").needs(0)
    before = honest.live()
    honest.topic("a", retention="9d")
    with between(kafka) as address:
        configure(address)
        call = honest.apply("--audit").needs(1)
    assert "accepted, not visible" in call.words
    assert " done:" not in call.out.replace("may be done:", "")
    assert honest.live() == before

    configure(kafka.bootstrap_servers)
    drift = honest.run("drift").needs(2)
    assert "no reading has shown it" in drift.words
    assert "not by a recorded apply" not in drift.words
    history = honest.run("history", "--format", "json").needs(0).json["changes"]
    (in_doubt,) = [change for change in history if "accepted, not visible" in (change["message"] or "")]
    assert [field["in_doubt"] for field in in_doubt["fields"]] == [True]
    honest.run("apply", "--auto-approve").needs(0)
    honest.run("drift").needs(0)

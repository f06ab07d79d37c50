"""Our own connections to brokers: frames, what goes wrong, and who is asked."""

import logging
import os
import re
import signal
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import pack, unpack
from threading import Thread
from typing import Any

import pytest

from kafkaform.cluster.kafka.reassignments import elect_leaders, read_running
from kafkaform.cluster.transport.broker_socket import IN_FLIGHT, BrokerSocket, HungUpError
from kafkaform.cluster.transport.brokers import Brokers
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.large_responses import METADATA_SCHEMA
from kafkaform.cluster.wire.message_schema import RequestType
from kafkaform.cluster.wire.messages import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafkaform.config.client_properties import to_transport
from kafkaform.config.client_properties.transport import SaslSettings, TransportSettings
from kafkaform.core import errors
from kafkaform.core.lock import unguarded
from kafkaform.core.values import replace
from kafkaform.resources.replicas.layout import Reassignment
from tests.support.clusters.certificates import self_signed
from tests.support.clusters.responses import encode
from tests.support.plans.scenes import read_log_lines


def return_body(body: bytes, _version: int) -> bytes:
    return bytes(body)


ECHO = RequestType(1_000, "Echo", (3, 3), 4, return_body, return_body, largest=10_000_000)
TAGGED = RequestType(1_001, "Tagged", (0, 0), 0, return_body, return_body)
CHANGE = RequestType(1_002, "Change", (0, 0), 1, return_body, return_body, changes=True)
FLEXIBLE = (TAGGED.key, 3, 43, 46)
VERSIONS = {18: (0, 4), 3: (0, 12), 46: (0, 0), 1_000: (0, 3), 1_001: (0, 1), 1_002: (0, 0)}


def told_versions(offered: Mapping[int, tuple[int, int]] = VERSIONS) -> bytes:
    keys = [{"key": key, "least": least, "most": most} for key, (least, most) in offered.items()]
    return encode(API_VERSIONS, api_keys=keys)


class Broker:
    """A server that answers as it is told; what it was sent stays in `heard`: API, client, body.

    Args:
        answer: Makes the answer to a request: the body, None to hang up, or `...` for silence.
        versions: Makes the answer to the first one.
        answers_each: The answers on one connection before the server hangs up; None for any number.
    """

    def __init__(
        self,
        answer: Callable[[int, bytes], object],
        versions: Callable[[], object] = told_versions,
        answers_each: int | None = None,
    ) -> None:
        self._versions = versions
        self._answers_each = answers_each
        self.heard: list[tuple[int, int, bytes, bytes]] = []
        self.connections = 0
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = self._server.getsockname()
        Thread(target=self._accept, daemon=True).start()

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.address[1]}"

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)  # which ends the waiting for others, too
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(ConnectionError), client, client.makefile("rb") as stream:
            left = self._answers_each or -1
            while head := stream.read(4):
                message = stream.read(*unpack(">i", head))
                key, version, number, length = unpack(">hhih", message[:10])
                tags = b"\x00" if key in FLEXIBLE else b""
                assert message[10 + length :].startswith(tags)
                body = message[10 + length + len(tags) :]
                if key == 18:
                    answer: object = self._versions()
                else:
                    self.heard.append((key, version, message[10 : 10 + length], body))
                    answer = self._answer(key, body)
                if answer is None:
                    return
                if isinstance(answer, bytes):
                    client.sendall(pack(">ii", 4 + len(tags + answer), number) + tags + answer)
                    left -= key != 18
                    if not left:
                        return
                elif isinstance(answer, Raw):
                    client.sendall(answer.octets)
                elif isinstance(answer, Drip):
                    answer.to(client, number)
                    return


class Raw:
    """An answer without a frame of its own."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets


class Drip:
    """An answer whose bytes come one at a time for five seconds."""

    def __init__(self, head: bytes = b"") -> None:
        self.head = head

    def to(self, client: socket.socket, number: int) -> None:
        with client, suppress(OSError):
            client.sendall(self.head or pack(">ii", 60_000, number))
            for _ in range(100):
                client.sendall(b"\x00")
                time.sleep(0.05)


@contextmanager
def broker(answer: Callable[[int, bytes], object], **options: Any) -> Iterator[Broker]:
    made = Broker(answer, **options)
    try:
        yield made
    finally:
        made.close()


def settings(*servers: Broker | str) -> TransportSettings:
    names = [server if isinstance(server, str) else server.name for server in servers]
    return TransportSettings(tuple((host, int(port)) for host, port in (name.split(":") for name in names)))


NOBODY = TransportSettings(())


def open_socket(server: Broker) -> BrokerSocket:
    return BrokerSocket(server.address, NOBODY)


def stopped_broker() -> Broker:
    with broker(lambda *_: b"") as gone:
        return gone


def brokers(*servers: Broker | str) -> Brokers:
    return Brokers(settings(*servers))


@contextmanager
def socket_to(
    answer: Callable[[int, bytes], object], **options: Any
) -> Iterator[tuple[Broker, BrokerSocket]]:
    with broker(answer, **options) as server:
        item = open_socket(server)
        yield server, item
        item.close()


@contextmanager
def start_cluster(answer: Callable[[int, bytes], object], **options: Any) -> Iterator[tuple[Broker, Brokers]]:
    with broker(answer, **options) as server:
        cluster = brokers(server)
        yield server, cluster
        cluster.close()


def test_requests_have_header_and_responses_are_in_order() -> None:
    with socket_to(lambda _, body: body.upper()) as (server, first):
        bodies = [f"request {number}".encode() for number in range(3 * IN_FLIGHT)]
        assert first.offered == VERSIONS
        assert first.send(ECHO, bodies) == [body.upper() for body in bodies]
        assert first.send(TAGGED, [b"\x00", b"a"]) == [b"\x00", b"A"]
        assert first.send(ECHO, []) == []
    assert server.heard[0] == (1_000, 3, b"kafkaform", b"request 0")
    assert server.heard[-1] == (1_001, 0, b"kafkaform", b"a")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "the broker closed the connection"),
        (Raw(pack(">i", 100) + b"half"), "timed out"),
        (Raw(pack(">ii", 4, 77)), "answer 77 came where 1 was expected"),
        (Raw(b"HTTP/1.1 400 Bad Request\r\n"), "this is not Kafka's protocol"),
        (Raw(pack(">i", -1)), "a length of -1 bytes: this is not Kafka's protocol"),
        (Raw(pack(">i", 1 << 30) + b"half"), "1,073,741,824 bytes, more than the limit of 10,000,000"),
        (Raw(pack(">i", 3)), "a length of 3 bytes: this is not"),
        (..., "timed out"),
        (Drip(), "timed out"),
    ],
)
def test_failed_request_has_the_address(answer: object, said: str) -> None:
    with socket_to(lambda *_: answer) as (server, first), pytest.raises(errors.ClusterError) as caught:
        first.send(ECHO, [b""], timeout_s=0.2 if said == "timed out" else 60)
    assert caught.value.message.startswith(f"{server.name}: ")
    assert "Echo v3" in caught.value.message
    assert said in caught.value.message
    assert isinstance(caught.value, HungUpError) == (answer is None)


def test_closed_connection_hints_at_security_protocol() -> None:
    answers: list[object] = [b"A", None, None]
    with broker(lambda *_: answers.pop(0)) as server:
        accepted, second = open_socket(server), open_socket(server)
        assert accepted.send(ECHO, [b"a"]) == [b"A"]
        # Later, it has another reason.
        for value, hinted in ((accepted, False), (second, True)):
            with pytest.raises(HungUpError) as caught:
                value.send(ECHO, [b"a"])
            assert ("security.protocol" in (caught.value.hint or "")) is hinted
            value.close()
    with broker(lambda *_: b"", versions=lambda: None) as server, pytest.raises(HungUpError) as caught:
        open_socket(server)
    assert "security.protocol" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "told",
    [
        Raw(pack(">ii", 1 << 30, 0)),
        b"",
        pack(">hii", 35, 0, 0),
        pack(">hihhhi", 0, 2, 18, 0, 4, 0),
        told_versions()[:-1],
    ],
)
def test_invalid_version_response_is_refused(told: object) -> None:
    refused = pytest.raises(errors.MalformedResponse, match="malformed answer to ApiVersions v2")
    with broker(lambda *_: b"", versions=lambda: told) as server, refused:
        open_socket(server)


def test_slow_tls_handshake_times_out() -> None:
    head = Drip(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xf0\x03\x03")
    tls = replace(NOBODY, tls=ssl.create_default_context())
    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=lambda: head.to(server.accept()[0], 0), daemon=True).start()
        with pytest.raises(errors.ClusterError, match="timed out"):
            BrokerSocket(server.getsockname(), tls, connect_s=0.2)


def test_memory_grows_with_received_bytes() -> None:
    with broker(lambda *_: Raw(pack(">ii", ECHO.largest, 1) + bytes(100_000))) as server:
        item = open_socket(server)
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        try:
            with pytest.raises(errors.OutcomeUnknown):
                item.send(ECHO, [b""], timeout_s=0.3)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            item.close()
    assert peak - before < ECHO.largest / 3


def test_undefined_tagged_field_in_header_is_refused() -> None:
    damaged = Raw(pack(">ii", 6, 1) + b"\x01\x00")
    with (
        socket_to(lambda *_: damaged) as (_, first),
        pytest.raises(errors.MalformedResponse, match="tagged fields"),
    ):
        first.send(TAGGED, [b""])


def test_blocked_request_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_once() -> None:
            client, _ = server.accept()
            taken.append(client)
            client.recv(1_000)
            versions = told_versions()
            client.sendall(pack(">ii", 4 + len(versions), 0) + versions)

        taken: list[socket.socket] = []
        Thread(target=answer_once, daemon=True).start()
        brokersocket = BrokerSocket(server.getsockname(), NOBODY)
        with pytest.raises(errors.OutcomeUnknown, match=r"Echo v3 timed out after 0\.2 s"):
            brokersocket.send(ECHO, [bytes(20_000_000)], timeout_s=0.2)
        brokersocket.close()
        taken[0].close()


@pytest.mark.parametrize(
    "place", [("127.0.0.1", 70_000), ("127.0.0.1", -1), ("a\0b", 1), ("\udcff", 1), ("", 1)]
)
def test_invalid_addresses_are_refused(place: tuple[str, int]) -> None:
    """As brokers may tell them."""
    with pytest.raises(errors.ClusterError):
        BrokerSocket(place, NOBODY, connect_s=0.5)


def test_requests_are_logged_without_content(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kafkaform.cluster.transport.broker_socket")
    answers: list[object] = [b"a secret", b"another", ..., ...]
    with socket_to(lambda *_: answers.pop(0)) as (server, first):
        assert first.send(ECHO, [b"it is secret", b""]) == [b"a secret", b"another"]
        with pytest.raises(errors.OutcomeUnknown):
            first.send(ECHO, [b"secret", b"secret"], timeout_s=0.2)
    with pytest.raises(errors.ClusterError):
        open_socket(server)
    # Threads of earlier tests may still try to connect elsewhere.
    lines = [line for line in read_log_lines(caplog, "kafkaform.cluster") if line.startswith(server.name)]
    assert [re.sub(r"[\d.]+ ms", "N ms", line.removeprefix(f"{server.name}: ")) for line in lines] == [
        "connected in N ms",
        "ApiVersions v2, sent 23 bytes, received 54 bytes, N ms",
        "Echo v3, sent 35 bytes, received 16 bytes, N ms",
        "Echo v3, sent 23 bytes, received 15 bytes, N ms",
        *["Echo v3, sent 29 bytes, no answer: timed out, N ms"] * 2,
        "not connected after N ms: [Errno 111] Connection refused",
    ]


def test_closed_connection_is_opened_again() -> None:
    answers: list[object] = [b"first", None, b"second", *[None] * 6]
    with start_cluster(lambda *_: answers.pop(0)) as (server, cluster):
        assert cluster.send(ECHO, [b""]) == [b"first"]
        assert cluster.send(ECHO, [b""]) == [b"second"]
        assert server.connections == 2
        with pytest.raises(HungUpError):
            cluster.send(ECHO, [b""])  # again and again is no idle connection
        assert (server.connections, answers) == (7, [])


def test_silent_broker_is_not_sent_repeated_requests() -> None:
    answers: list[object] = [b"first", ..., b"late"]
    with start_cluster(lambda *_: answers.pop(0)) as (server, cluster):
        assert cluster.send(ECHO, [b""]) == [b"first"]
        with pytest.raises(errors.OutcomeUnknown, match="timed out"):
            cluster.send(ECHO, [b""], timeout_s=0.2)
        assert len(server.heard) == 2
        assert cluster.send(ECHO, [b""]) == [b"late"]  # on a new connection: the old one owes an answer
        assert server.connections == 2


def test_silent_bootstrap_server_leaves_time_for_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaform.cluster.transport.brokers._MIN_CONNECT_S", 0.1)
    patience: list[float | None] = []

    this_thread = threading.current_thread()

    class Dialling(socket.socket):
        def connect(self, where: tuple[str, int]) -> None:  # type: ignore[override]
            # A thread that an earlier test has left may connect meanwhile, even to the same address.
            if threading.current_thread() is this_thread:
                patience.append(self.gettimeout())
                if where[1] == 1:
                    raise TimeoutError("timed out")
            super().connect(where)

    monkeypatch.setattr("kafkaform.cluster.transport.broker_socket.socket.socket", Dialling)
    with broker(lambda *_: b"here") as server:
        cluster = Brokers(settings("127.0.0.1:1", server), connect_s=0.4)
        assert cluster.send(ECHO, [b""]) == [b"here"]
        cluster.close()
    assert patience == [pytest.approx(0.2, abs=0.05)] * 2


def metadata(*brokers: tuple[int, Broker], controller: int = -1) -> bytes:
    places = [
        {"id": number, "host": "127.0.0.1", "port": each.address[1], "rack": None} for number, each in brokers
    ]
    return encode(METADATA_SCHEMA, brokers=places, controller=controller, topics=())


@contextmanager
def two_brokers(
    first: Callable[[int, bytes], object],
    second: Callable[[int, bytes], object],
    *,
    gone: Broker | None = None,
    controller: int = -1,
    **options: Any,
) -> Iterator[tuple[Broker, Broker, Brokers]]:
    """Brokers 1 and 2, 3 if it is named in metadata, and the connections; options are of the second one."""

    def answer(key: int, body: bytes) -> object:
        down = () if gone is None else ((3, gone),)
        named = metadata((1, broker_1), (2, broker_2), *down, controller=controller)
        return named if key == 3 else first(key, body)

    with broker(second, **options) as broker_2, broker(answer) as broker_1:
        cluster = brokers(broker_1)
        yield broker_1, broker_2, cluster
        cluster.close()


def test_stopped_broker_is_named() -> None:
    gone = stopped_broker()
    with two_brokers(lambda *_: b"one", lambda *_: b"two", gone=gone) as (_, _, cluster):
        responses = cluster.send_to_each(ECHO, b"", 1.0)
        assert (responses[1], responses[2]) == (b"one", b"two")
        assert isinstance(responses[3], errors.Unreachable)
        assert responses[3].message.startswith(f"broker 3 does not answer: {gone.name}: ")
        assert cluster.send(ECHO, [b""], 2) == [b"two"]
        with pytest.raises(errors.Unreachable, match="broker 4 is down"):
            cluster.send(ECHO, [b""], 4)


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_requests_are_spread_over_brokers_in_order(count: int) -> None:
    """A broker that is named and is not there leaves its share to the first, and costs nobody an answer."""
    bodies = [f"{number}".encode() for number in range(count)]
    answers = [lambda _, body, name=name: name + body for name in (b"first ", b"second ")]
    with two_brokers(*answers, gone=stopped_broker()) as (first, _, cluster):
        responses = cluster.send(ECHO, bodies)
        assert [response.split()[1] for response in responses] == bodies
        share = sum(response.startswith(b"second") for response in responses)
        assert share == {1: 0, 3: 0, 4: 2, 9: 3}[count], "two requests are worth a connection"
        cluster.send(CHANGE, bodies)  # changes are asked for one after the other
        assert sum(key == CHANGE.key for key, *_ in first.heard) == count


def test_controller_is_requested_directly() -> None:
    """ZooKeeper elects the leader."""
    tags = b"\x00"
    refused = pack(">ih", 0, 41) + b"\x00\x01" + tags
    moving = b"\x02t" + b"\x02" + pack(">i", 0)
    moving += (
        b"\x04" + pack(">iii", 1, 2, 3) + b"\x02" + pack(">i", 3) + b"\x02" + pack(">i", 1) + tags + tags
    )
    answers = [pack(">ih", 0, 0) + b"\x00\x02" + moving + tags]
    elected = two_brokers(lambda *_: refused, lambda *_: answers[-1], controller=2)
    with elected as (first, _, _):
        connection = Connection({}, lambda: settings(first))
        moved = Reassignment((2, 3), frozenset({3}), frozenset({1}))
        assert read_running(connection, 0.2) == {("t", 0): moved}
        assert first.heard[0] == (46, 0, b"kafkaform", pack(">i", 200) + b"\x00\x00")
        answers.append(refused)
        with pytest.raises(errors.RequestRejected) as caught:
            read_running(connection, 0.2)
        assert caught.value.code == "NOT_CONTROLLER"
        connection.close()


def test_empty_cluster_and_malformed_response_are_errors() -> None:
    # A cluster that names no broker.
    empty = pytest.raises(errors.ClusterError, match="empty list of brokers")
    with start_cluster(lambda *_: metadata()) as (_, cluster), empty:
        cluster.send_to_each(ECHO, b"", 1.0)
    # A broker that gives a malformed answer is told beside the others.
    request_type = RequestType(1_000, "Echo", (3, 3), 4, return_body, lambda body, _: body.decode("ascii"))
    with two_brokers(lambda *_: b"one", lambda *_: b"\xff") as (_, second, cluster):
        responses = cluster.send_to_each(request_type, b"", 1.0)
        assert responses[1] == "one"
        assert isinstance(responses[2], errors.MalformedResponse)
        assert responses[2].message.startswith(f"{second.name}: malformed answer to Echo v3: ")


def test_response_of_interrupted_request_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    with start_cluster(lambda _, body: body) as (_, cluster):
        cluster.read_api_versions()
        with monkeypatch.context() as patched:
            patched.setattr(BrokerSocket, "_receive", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                cluster.send(ECHO, [b"first"])
        assert cluster.send(ECHO, [b"second"]) == [b"second"]


def test_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
    with socket.create_server(("127.0.0.2", 0)) as server:

        def shake() -> None:
            client, _ = server.accept()
            with client, pytest.raises(ssl.SSLError), context.wrap_socket(client, server_side=True):
                raise AssertionError("the client trusted it")

        thread = Thread(target=shake, daemon=True)
        thread.start()
        settings = to_transport(
            {
                "bootstrap.servers": f"127.0.0.2:{server.getsockname()[1]}",
                "security.protocol": "SSL",
                "ssl.ca.location": str(tmp_path / "certificate.pem"),
            }
        )
        with pytest.raises(errors.ClusterError, match="certificate is not trusted: IP address mismatch"):
            Brokers(settings).read_api_versions()
        thread.join(60)


def test_connection_opened_after_close_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread that reads ahead, when wrong manifests end the plan."""
    monkeypatch.setattr("kafkaform.cluster.transport.connection.CONNECT_TIMEOUT_S", 1.0)
    with broker(lambda *_: b"") as server:
        cluster = brokers(server)
        cluster.close()
        with pytest.raises(errors.ClusterError, match="was closed"):
            cluster.send(ECHO, [b""])
        connection = Connection({}, lambda: settings(server))
        connection.close()
        with pytest.raises(errors.ClusterError, match="was closed"):
            connection.send(ECHO, [b""])


def test_unsupported_request_is_not_sent() -> None:
    unknown = replace(ECHO, key=2_000, name="Unknown")
    newer = replace(ECHO, versions=(4, 5))
    with start_cluster(lambda *_: b"here") as (server, cluster):
        with pytest.raises(errors.NotOffered, match="not support Unknown"):
            cluster.send(unknown, [b""])
        with pytest.raises(errors.NotOffered, match="in version 4 to 5, only in 0 to 3"):
            cluster.send(newer, [b""])
        assert server.heard == []
        assert cluster.send(ECHO, [b""]) == [b"here"]
        assert server.connections == 1


def test_versions_are_chosen_for_each_broker() -> None:
    """As in a rolling upgrade."""
    old = {3: (0, 12), 1_001: (0, 0)}
    both = RequestType(
        1_001, "Both", (0, 1), 0, return_body, lambda body, version: f"{version}{bytes(body).decode()}"
    )
    mixed = two_brokers(lambda *_: b"one", lambda *_: b"two", versions=lambda: told_versions(old))
    with mixed as (_, _, cluster):
        assert cluster.send_to_each(both, b"", 1.0) == {1: "1one", 2: "0two"}
        assert (cluster.read_api_versions(1)[1_001], cluster.read_api_versions(2)[1_001]) == ((0, 1), (0, 0))
        assert isinstance(cluster.send_to_each(ECHO, b"", 1.0)[2], errors.NotOffered)


def test_change_with_lost_response_is_not_repeated() -> None:
    answers: list[object] = [b"first", None]
    with start_cluster(lambda *_: answers.pop(0)) as (server, cluster):
        assert cluster.send(CHANGE, [b""]) == [b"first"]
        with pytest.raises(errors.OutcomeUnknown, match="closed the connection"):
            cluster.send(CHANGE, [b""])
        assert len(server.heard) == 2


def test_lost_response_of_a_named_broker_is_unknown() -> None:
    with start_cluster(lambda key, _: metadata((1, server)) if key == 3 else None) as (server, cluster):
        cluster.read_api_versions(1)
        assert isinstance(cluster.send_to_nodes(CHANGE, {1: [b""]}, 1.0)[1], errors.OutcomeUnknown)
        assert isinstance(cluster.send_to_nodes(ECHO, {1: [b""]}, 1.0)[1], errors.Unreachable)


def test_change_is_sent_on_a_new_connection() -> None:
    answers: list[object] = [b"first", b"second"]
    with start_cluster(lambda *_: answers.pop(0), answers_each=1) as (server, cluster):
        assert cluster.send(CHANGE, [b""]) == [b"first"]
        while cluster._open[None].is_open():  # until the end of the connection is here
            time.sleep(0.01)
        # The server hangs up after each answer, so the second one came on another connection. Connections
        # are not counted: a test beside this one may look for a server whose port this one was given.
        assert cluster.send(CHANGE, [b""]) == [b"second"]
        assert len(server.heard) == 2


def handshake(error: int, *mechanisms: str) -> bytes:
    return encode(SASL_HANDSHAKE, error_code=error, mechanisms=mechanisms)


def encode_authentication(lifetime_ms: int = 0, error: int = 0, told: str | None = None) -> bytes:
    values = {"auth_bytes": b"", "session_lifetime_ms": lifetime_ms}
    return encode(SASL_AUTHENTICATE, 1, error_code=error, error_message=told, **values)


def logging_in(server: Broker) -> Brokers:
    return Brokers(replace(settings(server), sasl=SaslSettings("PLAIN", "me", "secret")))


@contextmanager
def asking_for_logins(answer: Callable[[int, bytes], object]) -> Iterator[Broker]:
    offered = {17: (0, 1), 36: (0, 1), 3: (0, 12), 1_000: (0, 3)}
    with broker(answer, versions=lambda: told_versions(offered)) as server:
        yield server


@contextmanager
def logged_in(answer: Callable[[int, bytes], object]) -> Iterator[tuple[Broker, Brokers]]:
    with asking_for_logins(answer) as server:
        cluster = logging_in(server)
        yield server, cluster
        cluster.close()


def test_login_precedes_requests() -> None:
    answers = [handshake(0), encode_authentication(), b"here"]
    with logged_in(lambda *_: answers.pop(0)) as (server, cluster):
        assert cluster.send(ECHO, [b"x"]) == [b"here"]
    assert [(key, version, body) for key, version, _, body in server.heard] == [
        (17, 1, pack(">h", 5) + b"PLAIN"),
        (36, 1, pack(">i", 10) + b"\0me\0secret"),
        (1_000, 3, b"x"),
    ]


@pytest.mark.parametrize(
    ("answers", "said", "hint"),
    [
        ([handshake(33, "X", "Y")], "does not support PLAIN, only: X, Y", ""),
        ([handshake(34)], "has no SASL login", "security.protocol: PLAINTEXT"),
        (
            [handshake(0), encode_authentication(error=58, told="Failed\nlogin: no such user")],
            "refused: Failed login: no such user",
            "",
        ),
    ],
)
def test_refused_login_is_not_repeated(answers: list[bytes], said: str, hint: str) -> None:
    remaining = [*answers]
    with asking_for_logins(lambda *_: remaining.pop(0)) as server:
        with pytest.raises(errors.AuthenticationFailed, match=said) as caught:
            logging_in(server).send(ECHO, [b""])
        assert hint in (caught.value.hint or "")
        assert (server.connections, remaining) == (1, [])


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """By how many seconds the clock is ahead of the real one."""
    seconds, monotonic = [0.0], time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + seconds[0])
    return seconds


def test_login_is_renewed_before_session_ends(ahead: list[float]) -> None:
    """KIP-368: a broker closes a connection whose session has ended, unless the login begins anew."""

    def answer(key: int, _: bytes) -> bytes:
        return {17: handshake(0), 36: encode_authentication(lifetime_ms=1_000_000), 1_000: b"here"}[key]

    with logged_in(answer) as (server, cluster):
        for ahead[0] in (0.0, 100.0, 750.0):
            assert cluster.send(ECHO, [b""]) == [b"here"]
        assert [key for key, *_ in server.heard] == [17, 36, 1_000, 1_000, 1_000]
        ahead[0] = 851.0
        assert cluster.send(ECHO, [b""]) == [b"here"]
        assert [key for key, *_ in server.heard[5:]] == [17, 36, 1_000]
        assert server.connections == 1


def test_bootstrap_connection_is_reused_for_own_broker() -> None:
    with start_cluster(lambda key, _: metadata((1, server)) if key == 3 else b"one") as (server, cluster):
        assert cluster.send(ECHO, [b""]) == [b"one"]
        assert cluster.send_to_each(ECHO, b"", 1.0) == {1: b"one"}
        assert server.connections == 1
        with pytest.raises(errors.MalformedResponse):
            cluster.send(RequestType(1_000, "Echo", (3, 3), 4, return_body, lambda *_: [][0]), [b""], 1)
        assert cluster.send(ECHO, [b""]) == [b"one"]
        assert server.connections == 2, "the connection that was given up was used again"


def test_large_requests_and_responses_do_not_deadlock() -> None:
    """A broker takes up no further request before its answer is read."""
    with socket_to(lambda _, body: body * 3) as (_, first):
        bodies = [bytes([number]) * 3_000_000 for number in range(IN_FLIGHT)]
        assert first.send(ECHO, bodies, timeout_s=60) == [body * 3 for body in bodies]


def test_abandoned_connection_is_opened_again() -> None:
    with start_cluster(lambda *_: b"here") as (_, cluster):
        assert cluster.send(ECHO, [b""]) == [b"here"]
        used = cluster._open[None]
        used.close()
        with pytest.raises(HungUpError, match="was closed"):
            used.send(ECHO, [b""])
        assert cluster.send(ECHO, [b""]) == [b"here"]


def test_election_follows_the_controller() -> None:
    """ZooKeeper elects it, each partition is refused, and metadata names no controller at first."""

    def encode_election(error: bytes) -> bytes:
        return bytes(6) + b"\x02\x02t\x02" + bytes(4) + error + b"\x00" + bytes(3)

    controllers = [-1, 9, 3, 3, 1, 2]
    offered = {3: (0, 12), 43: (0, 2)}

    def first_answer(key: int, _: bytes) -> bytes:
        if key == 3:  # none, one that is down, one that has just died, one that was it, and the new one
            controller = controllers.pop(0) if len(controllers) > 1 else controllers[0]
            return metadata((1, first), (2, second), (3, gone), controller=controller)
        return encode_election(pack(">h", 41))

    gone = stopped_broker()
    with (
        broker(lambda *_: encode_election(bytes(2)), versions=lambda: told_versions(offered)) as second,
        broker(first_answer, versions=lambda: told_versions(offered)) as first,
    ):
        connection = Connection({}, lambda: settings(first))
        assert elect_leaders(connection, [("t", 0)], unguarded) == {("t", 0): None}
        assert len(second.heard) == 1
        connection.close()


def test_missing_controller_is_refused_within_timeout() -> None:
    answer = pack(">ih", 0, 41) + b"\x00\x01\x00"
    with broker(lambda key, _: metadata((1, server)) if key == 3 else answer) as server:
        connection = Connection({}, lambda: settings(server))
        begun = time.monotonic()
        with pytest.raises(errors.RequestRejected) as caught:
            read_running(connection, 0.5)
        assert caught.value.code == "NOT_CONTROLLER"
        assert 0.5 < time.monotonic() - begun < 10, "an election may take 20 s, the caller has 0.5 s"
        connection.close()


def test_ctrl_c_does_not_wait_for_silent_broker() -> None:
    def interrupt() -> None:
        while not any(key == ECHO.key for key, *_ in server.heard):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with start_cluster(lambda key, _: metadata((1, server)) if key == 3 else ...) as (server, cluster):
        Thread(target=interrupt, daemon=True).start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            cluster.send_to_each(ECHO, b"", 120.0)
        assert time.monotonic() - begun < 60


def test_login_has_single_deadline(ahead: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaform.cluster.transport.broker_socket.CONNECT_TIMEOUT_S", 60.0)

    def answer(key: int, _: bytes) -> object:
        if key != 17:
            return ...
        ahead[0] += 59.5
        return handshake(0)

    late = pytest.raises(errors.OutcomeUnknown, match=r"SaslAuthenticate v1 timed out after 0\.[1-5] s")
    with asking_for_logins(answer) as server, late:
        BrokerSocket(server.address, replace(NOBODY, sasl=SaslSettings("PLAIN", "me", "secret")))

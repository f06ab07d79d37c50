"""One connection to one broker, for requests of our own bytes.

kafka-python needs 0.15 s to be imported, and more to connect: a third of what a plan of 1,000 topics takes.
The frames are those of Kafka's protocol guide (kafka.apache.org/protocol, "Protocol Primitive Types").
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections import deque
from struct import Struct, pack
from threading import Lock
from typing import TYPE_CHECKING, Any

from kafkaform.cluster.transport.api import (
    CONNECT_TIMEOUT_S,
    IN_FLIGHT,
    READ_TIMEOUT_S,
    Api,
    RequestType,
    malformed,
    read_answers,
)
from kafkaform.cluster.transport.translation import one_line
from kafkaform.core.errors import ClusterError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaform.cluster.transport.api import T


_log = logging.getLogger(__name__)

_AT_ONCE = 1 << 20
"""The bytes that are held ready for an answer at first: its length is believed only as its bytes arrive."""
_INT = Struct(">i").unpack
_COUNT = Struct(">hi")
_VERSIONS = Struct(">hhh")


class HungUpError(ClusterError):
    """The broker closed the connection."""


class _MalformedError(Exception):
    """The frame of an answer is not what Kafka's protocol says."""


def _read_versions(body: bytes) -> Mapping[int, tuple[int, int]]:
    error_code, count = _COUNT.unpack_from(body)
    if error_code:
        raise ValueError(f"error {error_code}")
    if len(body) != _COUNT.size + count * _VERSIONS.size:
        raise ValueError(f"{count} entries in {len(body)} bytes")
    return {key: (least, most) for key, least, most in _VERSIONS.iter_unpack(body[_COUNT.size :])}


_API_VERSIONS = RequestType(Api(18, 0, flexible=False, name="ApiVersions", largest=1 << 16), _read_versions)


class BrokerSocket:
    """A connection; answers come in the order of the requests, as brokers promise.

    Args:
        address: Host and port of the broker.
        client_id: What it knows this client by.
        tls: With what to speak TLS; None for plain text.
        options: Options of sockets: level, name, value.
        connect_s: How long connecting may take, the TLS handshake included.

    Raises:
        ClusterError: Nobody is there, or it is not the broker that TLS expects.
    """

    def __init__(
        self,
        address: tuple[str, int],
        client_id: str,
        tls: ssl.SSLContext | None = None,
        options: Iterable[tuple[int, int, int]] = (),
        connect_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self._name = f"{address[0]}:{address[1]}"
        self._client = client_id.encode()
        self._sent = 0
        self._waiting: deque[_Sent] = deque()
        self._one_at_a_time = Lock()
        begun = time.monotonic()
        try:
            self._socket = _connected(address, tls, options, begun + connect_s)
        except (OSError, ValueError, OverflowError) as error:  # brokers tell addresses, which may be none
            _log.debug("%s: not connected after %.1f ms: %s", self._name, _ms_since(begun), error)
            raise self._failure(error) from error
        _log.debug("%s: connected in %.1f ms", self._name, _ms_since(begun))
        try:
            (self.versions,) = self.ask(_API_VERSIONS, [b""], CONNECT_TIMEOUT_S)
        except BaseException:
            self.close()
            raise

    def ask(
        self, request_type: RequestType[T], bodies: Sequence[bytes], timeout_s: float = READ_TIMEOUT_S
    ) -> list[T]:
        """Send requests, IN_FLIGHT at a time; returns the answers, in order.

        Args:
            request_type: Which request.
            bodies: What to send.
            timeout_s: How long each answer may take, once those before it have come: all of it.

        Raises:
            OutcomeUnknown: An answer did not come in time: the connection is of no more use.
            MalformedAnswer: It is not what Kafka's protocol says; nor is it.
            ClusterError: The connection failed; nor is it.
        """
        api = request_type.api
        try:
            answers = self._exchanged(api, bodies, timeout_s)
        except TimeoutError as error:
            raise OutcomeUnknown(
                f"{self._name}: {api} timed out after {timeout_s:g} s",
                hint="check whether this broker is overloaded or the network is slow, then try again",
            ) from error
        except _MalformedError as error:
            raise malformed(self._name, api, str(error)) from error
        except OSError as error:
            raise self._failure(error, f" ({api})") from error
        return read_answers(request_type, answers, self._name)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _exchanged(self, api: Api, bodies: Sequence[bytes], timeout_s: float) -> list[bytes]:
        answers: list[bytes] = []
        with self._one_at_a_time:
            try:
                for number, body in enumerate(bodies):
                    if number >= IN_FLIGHT:
                        answers.append(self._receive(api, time.monotonic() + timeout_s))
                    self._send(api, body, time.monotonic() + timeout_s)
                while len(answers) < len(bodies):
                    answers.append(self._receive(api, time.monotonic() + timeout_s))
            except BaseException as error:
                for sent in self._waiting:
                    sent.log(self._name, api, f"no answer: {str(error) or type(error).__name__}")
                raise
        return answers

    def _send(self, api: Api, body: bytes, deadline: float) -> None:
        head = pack(">hhih", api.key, api.version, self._sent, len(self._client)) + self._client
        message = head + (b"\x00" if api.flexible else b"") + body
        self._waiting.append(_Sent(self._sent, 4 + len(message)))
        self._sent += 1
        rest = memoryview(pack(">i", len(message)) + message)
        while rest:
            self._socket.settimeout(_left(deadline))
            rest = rest[self._socket.send(rest) :]

    def _receive(self, api: Api, deadline: float) -> bytes:
        (size,) = _INT(self._exactly(4, deadline))
        least = 5 if api.flexible else 4
        if not least <= size <= api.largest:
            raise _MalformedError(
                f"{size:,} bytes, more than the limit of {api.largest:,}: this is not Kafka's protocol"
            )
        message = self._exactly(size, deadline)
        (correlation,) = _INT(message[:4])
        if correlation != self._waiting[0].number:
            raise _MalformedError(f"answer {correlation} came where {self._waiting[0].number} was expected")
        if api.flexible and message[4]:
            raise _MalformedError("its header has tagged fields, and none are defined")
        self._waiting.popleft().log(self._name, api, size + 4)
        return bytes(message[least:])

    def _exactly(self, size: int, deadline: float) -> memoryview:
        buffer = bytearray(min(size, _AT_ONCE))
        done = 0
        while done < size:
            if done == len(buffer):
                buffer.extend(bytes(min(done, size - done)))
            with memoryview(buffer) as room:
                self._socket.settimeout(_left(deadline))
                read = self._socket.recv_into(room[done:])
            if read == 0:
                raise ConnectionResetError("the broker closed the connection")
            done += read
        return memoryview(buffer)

    def _failure(self, error: Exception, during: str = "") -> ClusterError:
        kind = HungUpError if isinstance(error, ConnectionError | ssl.SSLEOFError) else ClusterError
        return kind(f"{self._name}: {one_line(str(error))}{during}")


class _Sent:
    """A request that waits for its answer."""

    __slots__ = ("begun", "number", "size")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.begun = time.monotonic()

    def log(self, broker: str, api: Api, received: int | str) -> None:
        """Log the bytes that came, or why none did."""
        if _log.isEnabledFor(logging.DEBUG):
            result = f"received {received:,} bytes" if isinstance(received, int) else received
            took_ms = _ms_since(self.begun)
            _log.debug("%s: %s, sent %s bytes, %s, %.1f ms", broker, api, f"{self.size:,}", result, took_ms)


def _ms_since(begun: float) -> float:
    return (time.monotonic() - begun) * 1000


def _left(deadline: float) -> float:
    """The seconds until a deadline, of which there are some."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _connected(
    address: tuple[str, int],
    tls: ssl.SSLContext | None,
    options: Iterable[tuple[int, int, int]],
    deadline: float,
) -> Any:
    plain = _dialled(address, deadline)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in options:
            plain.setsockopt(*option)
        if tls is None:
            return plain
        plain.settimeout(_left(deadline))  # which holds for the handshake as a whole
        return tls.wrap_socket(plain, server_hostname=address[0])
    except BaseException:
        plain.close()
        raise


def _dialled(address: tuple[str, int], deadline: float) -> socket.socket:
    """Connect to the first of a host's addresses where somebody is."""
    host, port = address
    # Python takes the name as bytes too; of a str it imports the tables of all alphabets first (0.01 s).
    named: Any = host.encode() if host.isascii() else host
    found = socket.getaddrinfo(named, port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, place) in enumerate(found, 1):
        plain = socket.socket(family, kind, protocol)
        try:
            # Where nobody is, all may stay silent: the other addresses are to have their turn.
            plain.settimeout(_left(deadline) / (len(found) - number + 1))
            plain.connect(place)
        except BaseException as error:
            plain.close()
            if number == len(found) or not isinstance(error, OSError):
                raise
        else:
            return plain
    raise OSError("this name has no address")

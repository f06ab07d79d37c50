"""One connection to one broker, for requests of our own bytes.

kafka-python needs 0.15 s to be imported, and more to connect: a third of what a plan of 1,000 topics takes.
The frames are those of Kafka's protocol guide (kafka.apache.org/protocol, "Protocol Primitive Types").
"""

from __future__ import annotations

import socket
import ssl
from struct import Struct, pack
from threading import Lock
from typing import TYPE_CHECKING, Any

from kafkaform.cluster.api import CONNECT_TIMEOUT_S, IN_FLIGHT, READ_TIMEOUT_S, Api
from kafkaform.cluster.translation import one_line
from kafkaform.errors import ClusterError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_API_VERSIONS = Api(18, 0, flexible=False)
_LONGEST = 1 << 30
"""The bytes of an answer above which whoever is there does not speak Kafka's protocol."""
_INT = Struct(">i").unpack
_VERSIONS = Struct(">hhh")


class HungUpError(ClusterError):
    """The broker closed the connection."""


class BrokerSocket:
    """A connection; answers come in the order of the requests, as brokers promise.

    Args:
        address: Host and port of the broker.
        client_id: What it knows this client by.
        tls: With what to speak TLS; None for plain text.
        options: Options of sockets: level, name, value.
        connect_s: How long nobody may answer.

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
        self._one_at_a_time = Lock()
        try:
            self._socket = _connected(address, tls, options, connect_s)
        except OSError as error:
            raise self._failure(error) from error
        try:
            self.versions = self._versions()
        except ClusterError:
            self.close()
            raise

    def ask(self, api: Api, bodies: Sequence[bytes], timeout_s: float = READ_TIMEOUT_S) -> list[bytes]:
        """Send requests, IN_FLIGHT at a time; returns the bodies of the answers, in order.

        Raises:
            OutcomeUnknown: An answer did not come in time: the connection is of no more use.
            ClusterError: The connection failed; nor is it.
        """
        answers: list[bytes] = []
        with self._one_at_a_time:
            try:
                self._socket.settimeout(timeout_s)
                first = self._sent
                for number, body in enumerate(bodies):
                    if number >= IN_FLIGHT:
                        answers.append(self._receive(first + len(answers), api))
                    self._send(api, body)
                while len(answers) < len(bodies):
                    answers.append(self._receive(first + len(answers), api))
            except TimeoutError as error:
                raise OutcomeUnknown(f"{self._name}: {error}") from error
            except OSError as error:
                raise self._failure(error) from error
        return answers

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _versions(self) -> Mapping[int, tuple[int, int]]:
        (told,) = self.ask(_API_VERSIONS, [b""], CONNECT_TIMEOUT_S)
        each = (_VERSIONS.unpack_from(told, at) for at in range(6, len(told), _VERSIONS.size))
        return {key: (least, most) for key, least, most in each}

    def _send(self, api: Api, body: bytes) -> None:
        head = pack(">hhih", api.key, api.version, self._sent, len(self._client)) + self._client
        message = head + (b"\x00" if api.flexible else b"") + body
        self._socket.sendall(pack(">i", len(message)) + message)
        self._sent += 1

    def _receive(self, number: int, api: Api) -> bytes:
        (size,) = _INT(self._exactly(4))
        if not 4 <= size <= _LONGEST:
            raise OSError(f"an answer of {size} bytes: this is not Kafka's protocol")
        message = self._exactly(size)
        (correlation,) = _INT(message[:4])
        if correlation != number:
            raise OSError(f"answer {correlation} came where {number} was due")
        # No tagged fields are defined for the headers of answers: there is only their count.
        return bytes(message[5 if api.flexible else 4 :])

    def _exactly(self, size: int) -> memoryview:
        buffer = memoryview(bytearray(size))
        done = 0
        while done < size:
            read = self._socket.recv_into(buffer[done:])
            if read == 0:
                raise ConnectionResetError("the broker hung up")
            done += read
        return buffer

    def _failure(self, error: OSError) -> ClusterError:
        kind = HungUpError if isinstance(error, ConnectionError | ssl.SSLEOFError) else ClusterError
        return kind(f"{self._name}: {one_line(str(error))}")


def _connected(
    address: tuple[str, int],
    tls: ssl.SSLContext | None,
    options: Iterable[tuple[int, int, int]],
    timeout_s: float,
) -> Any:
    host, port = address
    # Python takes the name as bytes too; of a str it imports the tables of all alphabets first (0.01 s).
    named: Any = host.encode() if host.isascii() else host
    plain = socket.create_connection((named, port), timeout_s)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in options:
            plain.setsockopt(*option)
        return plain if tls is None else tls.wrap_socket(plain, server_hostname=address[0])
    except BaseException:
        plain.close()
        raise

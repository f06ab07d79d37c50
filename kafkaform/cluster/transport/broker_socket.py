"""One connection to one broker, logged in, which knows what its broker offers.

The frames are those of Kafka's protocol guide (kafka.apache.org/protocol); the login is KIP-152, and KIP-368
where it does not hold for ever.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections import deque
from itertools import islice
from struct import Struct, pack
from threading import RLock
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from kafkaform.cluster.transport.translation import one_line, refusal
from kafkaform.cluster.wire.message_schema import malformed, read_answer
from kafkaform.cluster.wire.messages import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafkaform.core.errors import AuthenticationFailed, ClusterError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.cluster.transport.tokens import TokenSource
    from kafkaform.cluster.wire.message_schema import Offered, RequestType, T
    from kafkaform.config.client_properties.transport import TransportSettings


_log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 8.0
"""The time that the first answer may take; an unreachable cluster is reported within 10 s."""
READ_TIMEOUT_S = 30.0
"""The time that one reading request may take once the cluster has answered."""
IN_FLIGHT = 4
"""The requests that wait for an answer at a time on one connection; Kafka's own clients send five at most."""
HELD = 200_000
"""The bytes that may be sent behind a request that has no answer yet.

A broker takes up no further request before its answer is read. What the sockets do not hold meanwhile
(socket.receive.buffer.bytes is 100 KiB) would wait for the broker, and the broker for us.
"""

_AT_ONCE = 1 << 20
"""The bytes that are held ready for an answer at first: its length is believed only as its bytes arrive."""
_RENEWED_AFTER = 0.85
"""The share of a login's lifetime after which it is renewed, as Kafka's Java client does at the earliest."""
_INT = Struct(">i").unpack


class HungUpError(ClusterError):
    """The broker closed the connection."""


class _MalformedError(Exception):
    """The frame of an answer is not what Kafka's protocol says."""


class BrokerSocket:
    """A connection; answers come in the order of the requests, as brokers promise.

    Args:
        address: Host and port of the broker.
        settings: How to connect.
        tokens: Where the tokens of OAUTHBEARER come from.
        connect_s: How long it may take until the broker has answered, the TLS handshake included; the
            login takes CONNECT_TIMEOUT_S more at most.

    Attributes:
        address: Its host and port.
        offered: The versions of each request that the broker offers.
        closed: Whether it was closed on this side.

    Raises:
        AuthenticationFailed: The broker does not accept the login.
        ClusterError: Nobody is there, or it is not the broker that TLS expects.
    """

    offered: Offered

    def __init__(
        self,
        address: tuple[str, int],
        settings: TransportSettings,
        tokens: TokenSource | None = None,
        connect_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self._name = f"{address[0]}:{address[1]}"
        self.address = address
        self.closed = False
        self._settings = settings
        self._tokens = tokens
        self._client = settings.client_id.encode()
        self._renew_at: float | None = None
        self._sent = 0
        self._waiting: deque[_Sent] = deque()
        self._one_at_a_time = RLock()
        self.offered = {API_VERSIONS.key: API_VERSIONS.versions}
        begun = time.monotonic()
        try:
            self._socket = _connected(address, settings, begun + connect_s)
        except (OSError, ValueError, OverflowError) as error:  # brokers tell addresses, which may be none
            _log.debug("%s: not connected after %.1f ms: %s", self._name, _ms_since(begun), error)
            raise self._failure(error) from error
        _log.debug("%s: connected in %.1f ms", self._name, _ms_since(begun))
        try:
            self.offered = self._versions(begun + connect_s)
            self._log_in()
        except BaseException:
            self.close()
            raise

    def ask(
        self, request_type: RequestType[T], requests: Sequence[Any], timeout_s: float = READ_TIMEOUT_S
    ) -> list[T]:
        """Send requests, IN_FLIGHT at a time; returns the answers, in order.

        Args:
            request_type: Which request.
            requests: What to ask.
            timeout_s: How long each answer may take, once those before it have come: all of it.

        Raises:
            NotOffered: The broker does not offer it; nothing was sent.
            OutcomeUnknown: An answer did not come in time: the connection is of no more use.
            MalformedAnswer: It is not what Kafka's protocol says; nor is it.
            ClusterError: The connection failed; nor is it.
        """
        version = request_type.version(self.offered)
        bodies = [request_type.write(request, version) for request in requests]
        what = f"{request_type.name} v{version}"
        try:
            with self._one_at_a_time:
                if self.closed:  # by another thread, whose request failed
                    raise ConnectionResetError("the connection was closed")
                if self._renew_at is not None and time.monotonic() > self._renew_at:
                    self._log_in()
                return self._exchanged(request_type, version, bodies, timeout_s)
        except TimeoutError as error:
            raise OutcomeUnknown(
                f"{self._name}: {what} timed out after {round(timeout_s, 1):g} s",
                hint="check whether this broker is overloaded or the network is slow, then try again",
            ) from error
        except _MalformedError as error:
            raise malformed(self._name, what, str(error)) from error
        except OSError as error:
            raise self._failure(error, f" ({what})") from error

    def is_open(self) -> bool:
        """Return whether the broker has not closed the connection, as far as is known here."""
        try:
            with self._one_at_a_time:
                self._socket.settimeout(0)
                self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        return False  # it was closed, or something came that nobody had asked for

    def close(self) -> None:
        """Hang up."""
        self.closed = True
        self._socket.close()

    def _versions(self, deadline: float) -> Offered:
        (answer,) = self.ask(API_VERSIONS, [{}], deadline - time.monotonic())
        if answer["error_code"]:
            raise malformed(self._name, f"{API_VERSIONS.name} v2", f"error {answer['error_code']}")
        return {api["key"]: (api["least"], api["most"]) for api in answer["api_keys"]}

    def _log_in(self) -> None:
        """Authenticate by SASL, or do so again before the session ends; nothing else is under way."""
        sasl = self._settings.sasl
        if sasl is None:
            return
        from kafkaform.cluster.transport.sasl import RejectedError, log_in, mechanism_refused

        begun, self._renew_at = time.monotonic(), None
        patience_s = CONNECT_TIMEOUT_S  # for all answers; getting a token has a limit of its own

        def ask(request_type: RequestType[Any], request: Any) -> Any:
            nonlocal patience_s
            asked = time.monotonic()
            (answer,) = self.ask(request_type, [request], patience_s)
            patience_s -= time.monotonic() - asked
            return answer

        handshake = ask(SASL_HANDSHAKE, {"mechanism": sasl.mechanism})
        if handshake["error_code"]:
            raise mechanism_refused(sasl, self.address, handshake["mechanisms"])

        def send(message: bytes) -> bytes:
            answer = ask(SASL_AUTHENTICATE, {"auth_bytes": message})
            if answer["error_code"] == KafkaError.SASL_AUTHENTICATION_FAILED:
                raise RejectedError(answer["error_message"] or "the broker does not say why")
            if answer["error_code"]:
                raise refusal(answer)
            if answer["session_lifetime_ms"] > 0:
                self._renew_at = begun + answer["session_lifetime_ms"] / 1000 * _RENEWED_AFTER
            words: bytes = answer["auth_bytes"]
            return words

        log_in(sasl, self.address, self._tokens, send)

    def _exchanged(
        self, request_type: RequestType[T], version: int, bodies: Sequence[bytes], timeout_s: float
    ) -> list[T]:
        answers: list[T] = []
        what = f"{request_type.name} v{version}"

        def receive() -> None:  # and read at once: the bytes of all answers together are a hundred megabytes
            answer = self._receive(request_type, version, time.monotonic() + timeout_s)
            answers.append(read_answer(request_type, answer, version, self._name))

        try:
            for body in bodies:
                while not self._has_room(len(body)):
                    receive()
                self._send(request_type, version, body, time.monotonic() + timeout_s)
            while len(answers) < len(bodies):
                receive()
        except BaseException as error:
            for sent in self._waiting:
                sent.log(self._name, what, f"no answer: {str(error) or type(error).__name__}")
            raise
        return answers

    def _has_room(self, size: int) -> bool:
        """Return whether a request can be sent before the answers to others have been read."""
        behind = sum(sent.size for sent in islice(self._waiting, 1, None))
        return not self._waiting or (len(self._waiting) < IN_FLIGHT and behind + size <= HELD)

    def _send(self, request_type: RequestType[Any], version: int, body: bytes, deadline: float) -> None:
        head = pack(">hhih", request_type.key, version, self._sent, len(self._client)) + self._client
        message = head + (b"\x00" if version >= request_type.flexible else b"") + body
        self._waiting.append(_Sent(self._sent, 4 + len(message)))
        self._sent += 1
        rest = memoryview(pack(">i", len(message)) + message)
        while rest:
            self._socket.settimeout(_left(deadline))
            rest = rest[self._socket.send(rest) :]

    def _receive(self, request_type: RequestType[Any], version: int, deadline: float) -> bytes:
        (size,) = _INT(self._exactly(4, deadline))
        tagged = version >= request_type.flexible
        least = 5 if tagged else 4
        if not least <= size <= request_type.largest:
            limit = f"{request_type.largest:,}"
            raise _MalformedError(
                f"{size:,} bytes, more than the limit of {limit}: this is not Kafka's protocol"
            )
        message = self._exactly(size, deadline)
        (correlation,) = _INT(message[:4])
        if correlation != self._waiting[0].number:
            raise _MalformedError(f"answer {correlation} came where {self._waiting[0].number} was expected")
        if tagged and message[4]:
            raise _MalformedError("its header has tagged fields, and none are defined")
        self._waiting.popleft().log(self._name, f"{request_type.name} v{version}", size + 4)
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
        text = f"{self._name}: {one_line(str(error))}{during}"
        hung_up = isinstance(error, ConnectionError | ssl.SSLEOFError | ssl.SSLZeroReturnError)
        if hung_up and (alert := self._pending_alert()) is not None:
            error, hung_up = alert, False
        if isinstance(error, ssl.SSLError) and not hung_up:
            return tls_failure(self._name, error, self._settings)
        return (HungUpError if hung_up else ClusterError)(text)

    def _pending_alert(self) -> ssl.SSLError | None:
        """The alert by which a broker ended TLS, if it has come before the connection broke.

        By TLS 1.3, a client's handshake is over before the broker has looked at its certificate: the alert
        comes in the place of the first answer, or has come where the first request could not be sent.
        """
        if self._settings.tls is None or not hasattr(self, "_socket"):
            return None
        try:
            self._socket.settimeout(0)
            self._socket.recv(1)
        except (ssl.SSLWantReadError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return None
        except ssl.SSLError as error:
            return error
        except (OSError, ValueError):
            return None
        return None


_NO_CERTIFICATE = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "HANDSHAKE_FAILURE")
"""The ends of OpenSSL's names of alerts by which brokers refuse a client without a certificate."""
_OF_CERTIFICATE = (
    *_NO_CERTIFICATE,
    "UNKNOWN_CA",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_REVOKED",
    "UNSUPPORTED_CERTIFICATE",
    "ACCESS_DENIED",
)
"""The same of those by which they refuse a client's certificate."""
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"})
"""OpenSSL's reasons where what answers is not TLS."""


def tls_failure(broker: str, error: ssl.SSLError, settings: TransportSettings) -> AuthenticationFailed:
    """Return what an error of TLS means, with the client property that it is about."""
    reason = str(getattr(error, "reason", None) or "").upper()
    words = reason.lower().replace("_", " ")
    if isinstance(error, ssl.SSLCertVerificationError):
        why = one_line(error.verify_message).rstrip(".")
        if "ostname mismatch" in why or "IP address mismatch" in why:
            hint = "use a name that is in it, in bootstrap.servers and the brokers' advertised.listeners"
        elif "expired" in why or "not yet valid" in why:
            hint = "renew the broker's certificate, and check the clock of this machine"
        else:
            now = f"now {settings.authorities}" if settings.authorities else "now those of this machine"
            hint = f"set ssl.ca.location to the authorities that signed it, in PEM ({now})"
        return AuthenticationFailed(f"{broker}: the broker's certificate is not trusted: {why}", hint=hint)
    if "ALERT" in reason and not settings.certificate and reason.endswith(_NO_CERTIFICATE):
        return AuthenticationFailed(
            f"{broker}: the broker requires a client certificate, and none is set ({words})",
            hint="set ssl.certificate.location and ssl.key.location, or ssl.keystore.location",
        )
    if "ALERT" in reason and settings.certificate and reason.endswith(_OF_CERTIFICATE):
        return AuthenticationFailed(
            f"{broker}: the broker does not accept the client certificate of {settings.certificate}: {words}",
            hint="use a certificate that the broker's trust store covers, and that has not expired",
        )
    if reason in _NO_TLS:
        return AuthenticationFailed(
            f"{broker}: what answers there does not speak TLS ({words})",
            hint="check the port, and security.protocol",
        )
    return AuthenticationFailed(
        f"{broker}: TLS failed: {words or one_line(str(error))}",
        hint="check security.protocol and the properties ssl.*",
    )


class _Sent:
    """A request that waits for its answer."""

    __slots__ = ("begun", "number", "size")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.begun = time.monotonic()

    def log(self, broker: str, what: str, received: int | str) -> None:
        """Log the bytes that came, or why none did."""
        if _log.isEnabledFor(logging.DEBUG):
            result = f"received {received:,} bytes" if isinstance(received, int) else received
            took_ms = _ms_since(self.begun)
            _log.debug("%s: %s, sent %s bytes, %s, %.1f ms", broker, what, f"{self.size:,}", result, took_ms)


def _ms_since(begun: float) -> float:
    return (time.monotonic() - begun) * 1000


def _left(deadline: float) -> float:
    """The seconds until a deadline, of which there are some."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _connected(address: tuple[str, int], settings: TransportSettings, deadline: float) -> Any:
    plain = _dialled(address, settings.address_family, deadline)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in settings.socket_options:
            plain.setsockopt(*option)
        if settings.tls is None:
            return plain
        plain.settimeout(_left(deadline))  # which holds for the handshake as a whole
        return settings.tls.wrap_socket(plain, server_hostname=address[0])
    except BaseException:
        plain.close()
        raise


def _dialled(address: tuple[str, int], family: socket.AddressFamily, deadline: float) -> socket.socket:
    """Connect to the first of a host's addresses where somebody is."""
    host, port = address
    # Python takes the name as bytes too; of a str it imports the tables of all alphabets first (0.01 s).
    named: Any = host.encode() if host.isascii() else host
    found = socket.getaddrinfo(named, port, family, socket.SOCK_STREAM)
    for number, (version, kind, protocol, _, place) in enumerate(found, 1):
        plain = socket.socket(version, kind, protocol)
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

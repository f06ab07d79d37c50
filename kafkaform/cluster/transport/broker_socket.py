"""An authenticated connection to one broker, with the API versions of the broker.

Framing follows Kafka's protocol guide (kafka.apache.org/protocol); the login follows KIP-152, and its renewal
KIP-368.
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

from kafkaform.cluster.transport.translation import one_line, translate_response
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.message_schema import Offered, RequestType, T, make_malformed_error, read_response
from kafkaform.cluster.wire.messages import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafkaform.core.errors import AuthenticationFailed, ClusterError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.cluster.transport.tokens import TokenSource
    from kafkaform.config.client_properties.transport import TransportSettings

_log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 8.0
"""The time for the first response; an unreachable cluster is reported within 10 s."""
READ_TIMEOUT_S = 30.0
"""The time for one reading request once the cluster has answered."""
IN_FLIGHT = 4
"""The most unanswered requests on one connection; Kafka's own clients send at most five."""
MAX_QUEUED_BYTES = 200_000
"""The most bytes sent behind an unanswered request.

A broker reads no further request before its response is read. If the socket buffers are full
(socket.receive.buffer.bytes is 100 KiB), both sides would wait for each other.
"""

_AT_ONCE = 1 << 20
"""The initial size of the buffer for a response: it grows as bytes arrive, whatever length is claimed."""
_RENEWED_AFTER = 0.85
"""The share of a login's lifetime after which it is renewed: the earliest of Kafka's Java client."""
_INT = Struct(">i").unpack


class HungUpError(ClusterError):
    """The broker closed the connection."""


class _MalformedError(Exception):
    """The frame of a response violates Kafka's protocol."""


class BrokerSocket:
    """A connection to a broker. Brokers answer requests in order.

    Args:
        address: Host and port of the broker.
        settings: How to connect.
        tokens: The source of OAUTHBEARER tokens.
        connect_s: How long the broker may take to response, including the TLS handshake; the login may take
            CONNECT_TIMEOUT_S more.

    Attributes:
        address: Host and port.
        offered: The versions of each request that the broker offers.
        closed: Whether this side has closed the connection.

    Raises:
        AuthenticationFailed: The broker refused the login, or TLS failed.
        ClusterError: The broker cannot be reached.
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
        self._ended_by = ""
        self._settings = settings
        self._tokens = tokens
        self._client = settings.client_id.encode()
        self._renew_at: float | None = None
        self._sent = 0
        self._is_accepted = False
        self._waiting: deque[_PendingRequest] = deque()
        self._lock = RLock()
        # Until the broker has answered this request, no other one may be sent.
        self.offered = {API_VERSIONS.key: API_VERSIONS.versions}
        started = time.monotonic()
        try:
            self._socket = _connect(address, settings, started + connect_s)
        except (OSError, ValueError, OverflowError) as error:  # advertised addresses may be invalid
            _log.debug("%s: not connected after %.1f ms: %s", self._name, ms_since(started), error)
            raise self._translate(error) from error
        _log.debug("%s: connected in %.1f ms", self._name, ms_since(started))
        try:
            self.offered = self._read_versions(started + connect_s)
            self._log_in()
        except BaseException:
            self.close()
            raise

    def send(
        self, request_type: RequestType[T], requests: Sequence[Any], timeout_s: float = READ_TIMEOUT_S
    ) -> list[T]:
        """Send requests, IN_FLIGHT at a time; returns the responses, in order.

        Args:
            timeout_s: How long each whole response may take after the one before it.

        Raises:
            NotOffered: The broker does not offer the request; nothing was sent.
            OutcomeUnknown: A response did not come in time. After this and all later errors, the connection
                is unusable.
            MalformedResponse: A response violates Kafka's protocol.
            ClusterError: The connection failed.
        """
        version = request_type.version(self.offered)
        bodies = [request_type.write(request, version) for request in requests]
        request_name = f"{request_type.name} v{version}"
        try:
            with self._lock:
                # Another thread closed it, because its request failed while this one waited for the lock.
                if self.closed:
                    raise ConnectionResetError(self._ended_by or "the connection was closed")
                if self._renew_at is not None and time.monotonic() > self._renew_at:
                    self._log_in()
                responses = self._exchange(request_type, version, bodies, timeout_s)
                self._is_accepted |= request_type is not API_VERSIONS
                return responses
        except TimeoutError as error:
            raise OutcomeUnknown(
                f"{self._name}: {request_name} timed out after {round(timeout_s, 1):g} s",
                hint="check whether this broker is overloaded or the network is slow, then try again",
            ) from error
        except _MalformedError as error:
            raise make_malformed_error(self._name, request_name, str(error)) from error
        except OSError as error:
            self._ended_by = one_line(str(error))
            raise self._translate(error, f" ({request_name})") from error

    def is_open(self) -> bool:
        """Return whether the broker has not closed the connection, as far as is known here."""
        try:
            with self._lock:
                self._socket.settimeout(0)
                self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        return False  # it was closed, or sent data unasked

    def close(self) -> None:
        """Close the connection; requests in flight fail."""
        self.closed = True
        self._socket.close()

    def _read_versions(self, deadline: float) -> Offered:
        (response,) = self.send(API_VERSIONS, [{}], deadline - time.monotonic())
        if response["error_code"]:
            raise make_malformed_error(
                self._name, f"{API_VERSIONS.name} v2", f"error {response['error_code']}"
            )
        return {api["key"]: (api["least"], api["most"]) for api in response["api_keys"]}

    def _log_in(self) -> None:
        """Authenticate by SASL, or again before the session ends; no request may be in flight."""
        sasl = self._settings.sasl
        if sasl is None:
            return
        from kafkaform.cluster.transport.sasl import RejectedError, log_in, make_mechanism_error

        started, self._renew_at = time.monotonic(), None
        remaining_s = CONNECT_TIMEOUT_S  # for all responses; getting a token has its own limit

        def exchange(request_type: RequestType[Any], request: Any) -> Any:
            nonlocal remaining_s
            sent_at = time.monotonic()
            (response,) = self.send(request_type, [request], remaining_s)
            remaining_s -= time.monotonic() - sent_at
            return response

        handshake = exchange(SASL_HANDSHAKE, {"mechanism": sasl.mechanism})
        if handshake["error_code"] == ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationFailed(
                f"{self._name}: this listener of the broker has no SASL login",
                hint=f"set `security.protocol: {'PLAINTEXT' if self._settings.tls is None else 'SSL'}`, or "
                "use the port of a listener with SASL",
            )
        if handshake["error_code"]:
            raise make_mechanism_error(sasl, self.address, handshake["mechanisms"])

        def send(message: bytes) -> bytes:
            response = exchange(SASL_AUTHENTICATE, {"auth_bytes": message})
            if response["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise RejectedError(response["error_message"] or "the broker gives no reason")
            if response["error_code"]:
                raise translate_response(response)
            if response["session_lifetime_ms"] > 0:
                self._renew_at = started + response["session_lifetime_ms"] / 1000 * _RENEWED_AFTER
            auth_bytes: bytes = response["auth_bytes"]
            return auth_bytes

        log_in(sasl, self.address, self._tokens, send)

    def _exchange(
        self, request_type: RequestType[T], version: int, bodies: Sequence[bytes], timeout_s: float
    ) -> list[T]:
        responses: list[T] = []
        request_name = f"{request_type.name} v{version}"

        def receive() -> None:  # and parse at once: raw, all responses together may take a hundred megabytes
            response = self._receive(request_type, version, time.monotonic() + timeout_s)
            responses.append(read_response(request_type, response, version, self._name))

        try:
            for body in bodies:
                while not self._has_room(len(body)):
                    receive()
                self._send(request_type, version, body, time.monotonic() + timeout_s)
            while len(responses) < len(bodies):
                receive()
        except BaseException as error:
            for pending in self._waiting:
                pending.log(self._name, request_name, f"no answer: {str(error) or type(error).__name__}")
            raise
        return responses

    def _has_room(self, size: int) -> bool:
        """Return whether a request can be sent before the responses to others have been read."""
        # The first unanswered request is being worked on, and is out of the buffers.
        behind = sum(pending.size for pending in islice(self._waiting, 1, None))
        return not self._waiting or (len(self._waiting) < IN_FLIGHT and behind + size <= MAX_QUEUED_BYTES)

    def _send(self, request_type: RequestType[Any], version: int, body: bytes, deadline: float) -> None:
        # Key, version and correlation id, then the client id, which is not compact in any version (KIP-482).
        head = pack(">hhih", request_type.key, version, self._sent, len(self._client)) + self._client
        message = head + (b"\x00" if version >= request_type.flexible else b"") + body
        # Before the first byte is sent: a request that is sent in part has no response either, and is logged
        # so.
        self._waiting.append(_PendingRequest(self._sent, 4 + len(message)))
        self._sent += 1
        unsent = memoryview(pack(">i", len(message)) + message)
        while unsent:
            self._socket.settimeout(_remaining_s(deadline))
            unsent = unsent[self._socket.send(unsent) :]

    def _receive(self, request_type: RequestType[Any], version: int, deadline: float) -> bytes:
        (size,) = _INT(self._read_exactly(4, deadline))
        tagged = version >= request_type.flexible
        # The header of a response is the correlation id, and in flexible versions a count of tagged fields
        # (KIP-482).
        least = 5 if tagged else 4
        if size < least:
            raise _MalformedError(f"a length of {size:,} bytes: this is not Kafka's protocol")
        if size > request_type.largest:
            limit = f"{request_type.largest:,}"
            raise _MalformedError(
                f"{size:,} bytes, more than the limit of {limit}: this is not Kafka's protocol"
            )
        message = self._read_exactly(size, deadline)
        (correlation,) = _INT(message[:4])
        if correlation != self._waiting[0].number:
            raise _MalformedError(f"answer {correlation} came where {self._waiting[0].number} was expected")
        if tagged and message[4]:
            raise _MalformedError("its header has tagged fields, and none are defined")
        self._waiting.popleft().log(self._name, f"{request_type.name} v{version}", size + 4)
        return bytes(message[least:])

    def _read_exactly(self, size: int, deadline: float) -> memoryview:
        buffer = bytearray(min(size, _AT_ONCE))
        done = 0
        while done < size:
            if done == len(buffer):
                buffer.extend(bytes(min(done, size - done)))
            with memoryview(buffer) as room:
                self._socket.settimeout(_remaining_s(deadline))
                read = self._socket.recv_into(room[done:])
            if read == 0:
                raise ConnectionResetError("the broker closed the connection")
            done += read
        return memoryview(buffer)

    def _translate(self, error: Exception, during: str = "") -> ClusterError:
        # Without the number of the error: its meaning follows.
        reason = getattr(error, "strerror", None) or str(error)
        text = f"{self._name}: {one_line(reason)}{during}"
        hung_up = isinstance(error, ConnectionError | ssl.SSLEOFError | ssl.SSLZeroReturnError)
        if hung_up and (alert := self._pending_alert()) is not None:
            error, hung_up = alert, False
        if isinstance(error, ssl.SSLError) and not hung_up:
            return explain_tls_failure(self._name, error, self._settings)
        return HungUpError(text, hint=self._explain_hang_up()) if hung_up else ClusterError(text)

    def _explain_hang_up(self) -> str | None:
        """Return a hint if the broker has closed the connection before it answered anything of use.

        A TLS listener closes a plain connection at once. One with SASL answers ApiVersions, and closes the
        connection at any other request of a client that does not log in.
        """
        # A refused connection was never there.
        if self._is_accepted or self._settings.sasl is not None or not hasattr(self, "_socket"):
            return None
        if self._settings.tls is not None:
            return "if this listener requires a login, set `security.protocol: SASL_SSL`, and sasl.mechanism"
        return (
            "set security.protocol to that of this listener: SASL_PLAINTEXT or SASL_SSL if it requires a "
            "login, SSL if it has TLS"
        )

    def _pending_alert(self) -> ssl.SSLError | None:
        """Return the TLS alert that a broker sent before it closed the connection, if any.

        In TLS 1.3, the client's handshake is over before the broker checks the client certificate: the alert
        comes instead of the first response, or before the first request can be sent.
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
"""The suffixes of OpenSSL's names of alerts that refuse a client without a certificate."""
_BAD_CERTIFICATE = (
    *_NO_CERTIFICATE,
    "UNKNOWN_CA",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_REVOKED",
    "UNSUPPORTED_CERTIFICATE",
    "ACCESS_DENIED",
)
"""The suffixes of those that refuse a client's certificate."""
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"})
"""OpenSSL's reasons if the other side does not speak TLS."""


def explain_tls_failure(
    broker: str, error: ssl.SSLError, settings: TransportSettings
) -> AuthenticationFailed:
    """Return the error for a TLS failure, with the client property to check."""
    reason = str(getattr(error, "reason", None) or "").upper()
    # `reason` is OpenSSL's name of the error, such as TLSV13_ALERT_CERTIFICATE_REQUIRED.
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
    if "ALERT" in reason and settings.certificate and reason.endswith(_BAD_CERTIFICATE):
        return AuthenticationFailed(
            f"{broker}: the broker does not accept the client certificate of {settings.certificate}: {words}",
            hint="use a certificate that the broker's trust store covers, and that has not expired",
        )
    if reason in _NO_TLS:
        return AuthenticationFailed(
            f"{broker}: the server at this address does not speak TLS ({words})",
            hint="check the port, and security.protocol",
        )
    return AuthenticationFailed(
        f"{broker}: TLS failed: {words or one_line(str(error))}",
        hint="check security.protocol and the properties ssl.*",
    )


class _PendingRequest:
    """An unanswered request."""

    __slots__ = ("begun", "number", "size")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.begun = time.monotonic()

    def log(self, broker: str, request_name: str, received: int | str) -> None:
        """Log the number of bytes received, or why there are none."""
        if _log.isEnabledFor(logging.DEBUG):
            result = f"received {received:,} bytes" if isinstance(received, int) else received
            took_ms = ms_since(self.begun)
            _log.debug(
                "%s: %s, sent %s bytes, %s, %.1f ms", broker, request_name, f"{self.size:,}", result, took_ms
            )


def ms_since(started: float) -> float:
    """Return the milliseconds since a time of the monotonic clock."""
    return (time.monotonic() - started) * 1000


def _remaining_s(deadline: float) -> float:
    """Return the seconds until a deadline; raises TimeoutError once it has passed."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("timed out")
    return remaining


def _connect(address: tuple[str, int], settings: TransportSettings, deadline: float) -> Any:
    plain = _dial(address, settings.address_family, deadline)
    try:
        # Nagle's algorithm would hold a small request back until the broker acknowledges the one before.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in settings.socket_options:
            plain.setsockopt(*option)
        if settings.tls is None:
            return plain
        plain.settimeout(_remaining_s(deadline))  # applies to the whole handshake
        return settings.tls.wrap_socket(plain, server_hostname=address[0])
    except BaseException:
        plain.close()
        raise


def _dial(address: tuple[str, int], family: socket.AddressFamily, deadline: float) -> socket.socket:
    """Connect to the first of a host's addresses that accepts."""
    host, port = address
    # For a name as str, Python would import its Unicode tables first (0.01 s).
    name: Any = host.encode() if host.isascii() else host
    addresses = socket.getaddrinfo(name, port, family, socket.SOCK_STREAM)
    for number, (version, kind, protocol, _, target) in enumerate(addresses, 1):
        plain = socket.socket(version, kind, protocol)
        try:
            # An address may stay silent: share the time among all addresses.
            plain.settimeout(_remaining_s(deadline) / (len(addresses) - number + 1))
            plain.connect(target)
        except BaseException as error:
            plain.close()
            if number == len(addresses) or not isinstance(error, OSError):
                raise
        else:
            return plain
    raise OSError("this name has no address")

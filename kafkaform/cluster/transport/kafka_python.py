"""Requests on kafka-python's connections: in its own classes, or in our own bytes.

They go to any broker, to the controller, or to each broker. A broker may go down in the midst of it: whoever
is still there is asked then. kafka-python has done TLS, SASL and versions for our own bytes, too; it does the
same for its raw SASL exchange: a request brings the class that reads its response.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from struct import pack
from typing import (
    TYPE_CHECKING,
    Any,
    BinaryIO,
    Protocol,
)

from confluent_kafka import KafkaError

from kafkaform.cluster.transport.api import (
    CONNECT_TIMEOUT_S,
    IN_FLIGHT,
    READ_TIMEOUT_S,
    Api,
    malformed,
    read_answers,
)
from kafkaform.cluster.transport.translation import one_line, translate_code, translated
from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    KafkaformError,
    MalformedAnswer,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from kafkaform.cluster.transport.api import RequestType, T


_log = logging.getLogger(__name__)

_TRIES = 5
_PAUSE_S = 0.1


class Runner(Protocol):
    """The owner of kafka-python's connections."""

    def run(self, ask: Callable[[Any], Awaitable[T]], timeout_s: float) -> T:
        """Run a coroutine on them; see `Connection.run`."""


def retried(ask: Callable[[], T]) -> T:
    """Ask again where a connection failed at once: any broker is asked, one that has just died too."""
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    for _ in range(_TRIES - 1):
        try:
            return ask()
        except (PermissionDenied, RequestRejected, OutcomeUnknown, MalformedAnswer):
            raise
        except ClusterError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
    return ask()


def ask_any(connection: Runner, request: Callable[[], Any], timeout_s: float) -> Any:
    """Ask any broker, in a way that may be asked for twice; returns its answer.

    Args:
        connection: The cluster.
        request: Makes the request, anew for each try.
        timeout_s: How long the broker may take.
    """

    async def send(manager: Any) -> Any:
        return await sent(manager, request(), timeout_s)

    return retried(lambda: connection.run(send, timeout_s))


def sent(manager: Any, request: Any, timeout_s: float, node: int | None = None) -> Awaitable[Any]:
    """Send a request on kafka-python's connections, whose manager it takes; returns its future."""
    timeout_ms = int(timeout_s * 1000)
    answer: Any
    if not _log.isEnabledFor(logging.DEBUG):
        answer = manager.send(request, node_id=node, request_timeout_ms=timeout_ms)
        return answer  # type: ignore[no-any-return]
    begun = time.monotonic()
    node = manager.least_loaded_node() if node is None else node  # as the manager itself does
    answer = manager.send(request, node_id=node, request_timeout_ms=timeout_ms)

    def log(response: Any) -> None:
        # Of our own bytes it is known how many came; those of kafka-python's classes have been read by now.
        size = getattr(request, "size", None)
        what = f"{type(request).__name__} v{request.API_VERSION}"
        if size is not None:
            what = f"{request.api}, sent {size:,} bytes"
        if isinstance(response, BaseException):
            result = f"no answer: {one_line(str(response)) or type(response).__name__}"
        else:
            result = "answered" if size is None else f"received {response.size:,} bytes"
        _log.debug("broker %s: %s, %s, %.1f ms", node, what, result, (time.monotonic() - begun) * 1000)

    answer.add_both(log)
    return answer  # type: ignore[no-any-return]


def ask_controller(connection: Runner, request: Callable[[], Any], timeout_s: float) -> Any:
    """Ask for what is the controller's, in a way that may be asked for twice; raises what it answers.

    Any broker passes it on (KIP-590), but where ZooKeeper elects the controller: it is asked itself then.

    Args:
        connection: The cluster.
        request: Makes the request, anew for each try.
        timeout_s: How long a broker may take.
    """
    from kafka.protocol.metadata import MetadataRequest

    async def send(manager: Any) -> Any:
        answer = await sent(manager, request(), timeout_s)
        if answer.error_code == KafkaError.NOT_CONTROLLER:
            metadata = await sent(manager, MetadataRequest(topics=[]), timeout_s)
            answer = await sent(manager, request(), timeout_s, metadata.controller_id)
        return answer

    answer = retried(lambda: connection.run(send, 3 * timeout_s))
    if answer.error_code:
        raise refusal(answer)
    return answer


def ask_each(
    connection: Runner, request: Callable[[int], Any], timeout_s: float
) -> dict[int, Any | ClusterError]:
    """Ask every live broker at a time; returns the answers by broker, or why one gave none.

    Args:
        connection: The cluster.
        request: Makes the request for a broker, or None where there is nothing to ask of it.
        timeout_s: How long a broker may take.
    """
    return retried(
        lambda: connection.run(lambda manager: sent_to_each(manager, request, timeout_s), 2 * timeout_s)
    )


async def sent_to_each(
    manager: Any, request: Callable[[int], Any], timeout_s: float
) -> dict[int, Any | ClusterError]:
    """See `ask_each`; on kafka-python's connections, whose manager it takes."""
    await manager.cluster.refresh_metadata()
    requests = {node.node_id: request(node.node_id) for node in manager.cluster.brokers()}
    asked = {
        node: sent(manager, message, timeout_s, node)
        for node, message in sorted(requests.items())
        if message is not None
    }
    answers: dict[int, Any | ClusterError] = {}
    for node, answer in asked.items():
        try:
            with translated():
                answers[node] = await answer
        except (PermissionDenied, RequestRejected, OutcomeUnknown, AuthenticationFailed) as error:
            answers[node] = error
        except ClusterError as error:
            answers[node] = Unreachable(f"broker {node} does not answer: {error.message}")
    return answers


def refusal(answer: Any) -> ClusterError:
    """The error that an answer, or a part of it, tells of."""
    text = getattr(answer, "error_message", None) or ""  # some answers have only the code
    return translate_code(answer.error_code, one_line(text))


def with_hint(error: KafkaformError, right: str) -> ClusterError:
    """The same error, which names the right that is missing if it is one of rights."""
    if isinstance(error, PermissionDenied):
        return PermissionDenied(error.message, hint=right)
    return error if isinstance(error, ClusterError) else ClusterError(error.message, hint=error.hint)


class KafkaPythonTransport:
    """See `Transport`.

    kafka-python holds the deadline of a request for its answer as a whole, and takes no answer of more than
    100 MB (receive.message.max.bytes), for which it makes room when it is told the length.

    Args:
        connection: Has kafka-python's connections.
        servers: What to call a broker that kafka-python chooses.
    """

    def __init__(self, connection: Runner, servers: str) -> None:
        self._run = connection.run
        self._servers = servers

    def versions(self) -> Mapping[int, tuple[int, int]]:
        """See `Transport.versions`."""

        async def read(manager: Any) -> Mapping[int, tuple[int, int]]:
            versions: Mapping[int, tuple[int, int]] = manager.broker_version_data.api_versions
            return versions

        versions: Mapping[int, tuple[int, int]] = self._run(read, READ_TIMEOUT_S)
        return versions

    def ask(
        self,
        request_type: RequestType[T],
        bodies: Sequence[bytes],
        node: int | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> list[T]:
        """See `Transport.ask`."""

        async def send(manager: Any) -> list[RawResponse]:
            answers, waiting = [], deque[Any]()
            for body in bodies:
                if len(waiting) == IN_FLIGHT:
                    answers.append(await waiting.popleft())
                waiting.append(sent(manager, RawRequest(request_type.api, body), timeout_s, node))
            return [*answers, *[await future for future in waiting]]

        answers = self._run(send, timeout_s * len(bodies))
        return self._read(request_type, answers, self._servers if node is None else f"broker {node}")

    def ask_each(
        self, request_type: RequestType[T], body: bytes, timeout_s: float
    ) -> dict[int, T | ClusterError]:
        """See `Transport.ask_each`."""
        answers = self._run(
            lambda manager: sent_to_each(manager, lambda _: RawRequest(request_type.api, body), timeout_s),
            2 * timeout_s,
        )
        results: dict[int, T | ClusterError] = {}
        for node, answer in answers.items():
            if isinstance(answer, ClusterError):
                results[node] = answer
                continue
            try:
                (results[node],) = self._read(request_type, [answer], f"broker {node}")
            except MalformedAnswer as error:
                results[node] = error
        return results

    def _read(self, request_type: RequestType[T], answers: Sequence[RawResponse], broker: str) -> list[T]:
        for answer in answers:
            if len(answer.body) > request_type.api.largest:
                raise malformed(broker, request_type.api, f"{len(answer.body):,} bytes")
        return read_answers(request_type, [answer.body for answer in answers], broker)

    def close(self) -> None:
        """See `Transport.close`; the connections are not its own."""


class RawRequest:
    """A request whose body is bytes, and whose response is too.

    Args:
        api: Which request.
        body: Its body.
    """

    def __init__(self, api: Api, body: bytes) -> None:
        self.api = api
        self.API_KEY = api.key
        self.API_VERSION = api.version
        self.header: RawResponse | None = None
        self._body = body
        self._flexible = api.flexible
        self._prefix = b""

    def with_header(self, correlation_id: int = 0, client_id: str = "") -> None:
        """Take the number and the name that the connection gives."""
        name = client_id.encode()
        tags = b"\x00" if self._flexible else b""
        self._prefix = pack(">hhih", self.API_KEY, self.API_VERSION, correlation_id, len(name)) + name + tags
        self.header = RawResponse(correlation_id, flexible=self._flexible)

    def encode(self, *, framed: bool = True, header: bool = True) -> bytes:  # noqa: ARG002
        """The bytes to send."""
        message = self._prefix + self._body
        return pack(">i", len(message)) + message

    @property
    def size(self) -> int:
        """The bytes that are sent."""
        return 4 + len(self._prefix) + len(self._body)

    def expect_response(self) -> bool:
        """Every request here is answered."""
        return True


class RawResponse:
    """The response to a `RawRequest`: its body as bytes."""

    error_code = 0
    API_VERSION = 0

    def __init__(self, correlation_id: int, *, flexible: bool) -> None:
        self.correlation_id = correlation_id
        self.body = b""
        self._flexible = flexible

    def get_response_class(self) -> RawResponse:
        """The class that reads the response: this object."""
        return self

    def parse_header(self, stream: BinaryIO) -> RawResponse:
        """Take the header off."""
        self.correlation_id = int.from_bytes(stream.read(4))
        if self._flexible:
            stream.read(1)  # no tagged fields are defined for response headers
        return self

    @property
    def size(self) -> int:
        """The bytes that came."""
        return 8 + self._flexible + len(self.body)

    def decode(self, stream: BinaryIO) -> RawResponse:
        """Take the rest as it is."""
        self.body = stream.read()
        return self

"""Requests in kafka-python's own classes: to any broker, to the controller, or to each broker.

A broker may go down in the midst of it: whoever is still there is asked then.
"""

from __future__ import annotations

import logging
import time
from typing import (
    TYPE_CHECKING,
    Any,
    Protocol,
    TypeVar,
)

from confluent_kafka import KafkaError

from kafkaform.cluster.transport.api import CONNECT_TIMEOUT_S
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
    from collections.abc import Awaitable, Callable

    from kafkaform.cluster.transport.connection import Connection


_log = logging.getLogger(__name__)

_TRIES = 5
_PAUSE_S = 0.1

T = TypeVar("T")


class Run(Protocol):
    """See `Connection.run`."""

    def __call__(self, ask: Callable[[Any], Awaitable[T]], timeout_s: float, /) -> T:
        """Run a coroutine."""


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


def ask_any(connection: Connection, request: Callable[[], Any], timeout_s: float) -> Any:
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

    def log(told: Any) -> None:
        # Requests of our own bytes are told with what came; those of kafka-python's classes have been read.
        size = getattr(request, "size", None)
        what = f"{type(request).__name__} v{request.API_VERSION}"
        if size is not None:
            what = f"{request.api}, sent {size:,} bytes"
        if isinstance(told, BaseException):
            result = f"no answer: {one_line(str(told)) or type(told).__name__}"
        else:
            result = "answered" if size is None else f"received {told.size:,} bytes"
        _log.debug("broker %s: %s, %s, %.1f ms", node, what, result, (time.monotonic() - begun) * 1000)

    answer.add_both(log)
    return answer  # type: ignore[no-any-return]


def ask_controller(connection: Connection, request: Callable[[], Any], timeout_s: float) -> Any:
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
            told = await sent(manager, MetadataRequest(topics=[]), timeout_s)
            answer = await sent(manager, request(), timeout_s, told.controller_id)
        return answer

    answer = retried(lambda: connection.run(send, 3 * timeout_s))
    if answer.error_code:
        raise refusal(answer)
    return answer


def ask_each(
    connection: Connection, request: Callable[[int], Any], timeout_s: float
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
    made = {node.node_id: request(node.node_id) for node in manager.cluster.brokers()}
    asked = {
        node: sent(manager, one, timeout_s, node) for node, one in sorted(made.items()) if one is not None
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

"""Connections to all brokers of a cluster, each opened by the first request for its broker."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError

from kafkaform.cluster.transport.broker_socket import (
    CONNECT_TIMEOUT_S,
    READ_TIMEOUT_S,
    BrokerSocket,
    HungUpError,
)
from kafkaform.cluster.wire.large_answers import METADATA
from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    MalformedAnswer,
    NotOffered,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaform.cluster.transport.tokens import TokenSource
    from kafkaform.cluster.wire.message_schema import Offered, RequestType
    from kafkaform.config.client_properties.transport import TransportSettings


K = TypeVar("K")
T = TypeVar("T")

_log = logging.getLogger(__name__)

_AT_A_TIME = 32
"""The most brokers that are asked at a time."""
_LEAST_PATIENCE_S = 2.0
"""The time that a bootstrap server may take to answer, however many there are; one that helps out, too."""
_LANES = 4
"""The most brokers that share the readings of one call."""
_PER_LANE = 2
"""The readings that are worth a connection of their own: a login takes as long as one or two of them."""
_ELECTION_S = 20.0
"""The time that the election of a controller may take: ZooKeeper misses one that died after 18 s."""
_TRIES = 5
_PAUSE_S = 0.1
_FINAL = (
    AuthenticationFailed,
    MalformedAnswer,
    NotOffered,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
)
"""What asking again does not change."""


def retried(ask: Callable[[], T]) -> T:
    """Ask again where a connection failed at once: any broker is asked, one that has just died too."""
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    for _ in range(_TRIES - 1):
        try:
            return ask()
        except _FINAL:
            raise
        except ClusterError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
    return ask()


class Brokers:
    """The brokers of a cluster. What fails is raised as a ClusterError.

    Args:
        settings: How to connect.
        tokens: Where the tokens of OAUTHBEARER come from.
    """

    def __init__(self, settings: TransportSettings, tokens: TokenSource | None = None) -> None:
        self._settings = settings
        self._tokens = tokens
        self._open: dict[int | None, BrokerSocket] = {}
        self._known: Mapping[int, tuple[str, int]] = {}
        self._opening = Lock()
        self._closed = False

    def offered(self, node: int | None = None) -> Offered:
        """The lowest and the highest version of each request that a broker offers; None asks any."""
        return retried(lambda: self._socket(node)).offered

    def ask(
        self,
        request_type: RequestType[T],
        requests: Sequence[Any],
        node: int | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> list[T]:
        """The answers to some requests, in order.

        Args:
            request_type: Which request.
            requests: What to ask.
            node: The broker to ask; None for any, for several at a time where there is much to read, and for
                another one where a connection fails.
            timeout_s: How long a broker may take for a whole answer.

        Raises:
            NotOffered: The broker does not offer the request; nothing was sent.
            OutcomeUnknown: An answer was not there in time, or was lost of a request that changes something.
            MalformedAnswer: An answer is not what Kafka's protocol says.
            ClusterError: The connection failed.
        """
        if request_type.changes:
            return self._asked_once(request_type, requests, node, timeout_s)
        if node is not None:
            return self._asked(request_type, requests, node, timeout_s)
        if len(requests) >= 2 * _PER_LANE:
            return self._shared_out(request_type, requests, timeout_s)
        return retried(lambda: self._asked(request_type, requests, None, timeout_s))

    def ask_controller(self, request_type: RequestType[Any], request: Any, timeout_s: float) -> Any:
        """Ask for what is the controller's; returns its answer.

        Any broker passes it on (KIP-590), but where ZooKeeper elects the controller: it is asked itself then.
        While it moves, brokers know none, or the one that was: they refuse, and nothing was done.
        """
        deadline = time.monotonic() + min(timeout_s, _ELECTION_S)
        (answer,) = self.ask(request_type, [request], timeout_s=timeout_s)
        while _is_of_no_controller(answer):
            (metadata,) = self.ask(METADATA, [()], timeout_s=timeout_s)
            if metadata.controller in metadata.brokers:
                try:
                    (answer,) = self.ask(request_type, [request], metadata.controller, timeout_s)
                except _FINAL:
                    raise
                except ClusterError:  # it has just died, and is named until ZooKeeper misses it
                    if time.monotonic() > deadline:
                        raise
            if time.monotonic() > deadline:
                break
            if _is_of_no_controller(answer):
                time.sleep(_PAUSE_S)
        return answer

    def ask_each(
        self, request_type: RequestType[T], request: Any, timeout_s: float
    ) -> dict[int, T | ClusterError]:
        """Ask all live brokers the same at a time; returns what each answers, or why it does not."""
        nodes = sorted(self._nodes(timeout_s))
        if not nodes:
            raise ClusterError("the brokers returned an empty list of brokers")
        answers = self.ask_nodes(request_type, {node: [request] for node in nodes}, timeout_s)
        return {
            node: answer if isinstance(answer, ClusterError) else answer[0]
            for node, answer in answers.items()
        }

    def ask_nodes(
        self, request_type: RequestType[T], requests: Mapping[int, Sequence[Any]], timeout_s: float
    ) -> dict[int, list[T] | ClusterError]:
        """Ask some brokers at a time; returns what each answers, in order, or why it does not."""

        def ask_node(node: int) -> list[T] | ClusterError:
            try:
                return self.ask(request_type, requests[node], node, timeout_s)
            except (AuthenticationFailed, MalformedAnswer, NotOffered) as error:
                return error
            except ClusterError as error:
                if request_type.changes and isinstance(error, OutcomeUnknown):
                    return error
                return Unreachable(f"broker {node} does not answer: {error.message}")

        return _at_a_time({node: partial(ask_node, node) for node in requests})

    def close(self) -> None:
        """Close what was opened."""
        self._closed = True  # a thread that prefetches may be connecting just now
        while self._open:
            _, opened = self._open.popitem()
            opened.close()

    def _shared_out(self, request_type: RequestType[T], requests: Sequence[Any], timeout_s: float) -> list[T]:
        """Ask several brokers at a time for what any of them can answer.

        A broker takes up one request of a connection at a time: four of them describe 20,000 topics in a
        third of the time that one needs.
        """
        nodes = self._nodes(timeout_s)
        first = self._socket(None, timeout_s).address
        others = [node for node, address in sorted(nodes.items()) if address != first]
        lanes: list[int | None] = [None, *others][: min(_LANES, len(requests) // _PER_LANE)]

        def ask_lane(lane: int) -> list[T]:
            part, node = requests[lane :: len(lanes)], lanes[lane]
            if node is not None:
                try:
                    if self._current(node) is None:
                        self._keep(node, self._connected(nodes[node], _LEAST_PATIENCE_S))
                    return self._asked(request_type, part, node, timeout_s)
                except ClusterError as error:  # nothing is lost but speed: the first one has answered before
                    _log.debug("broker %s does not help out: %s", node, error)
            return retried(lambda: self._asked(request_type, part, None, timeout_s))

        parts = _at_a_time({lane: partial(ask_lane, lane) for lane in range(len(lanes))})
        return [parts[number % len(lanes)][number // len(lanes)] for number in range(len(requests))]

    def _asked(
        self, request_type: RequestType[T], requests: Sequence[Any], node: int | None, timeout_s: float
    ) -> list[T]:
        used = self._current(node)
        if used is not None:
            try:
                return self._asked_of(used, node, request_type, requests, timeout_s)
            except HungUpError:  # as brokers do on who is silent for long (connections.max.idle.ms)
                pass
        return self._asked_of(self._socket(node, timeout_s), node, request_type, requests, timeout_s)

    def _asked_once(
        self, request_type: RequestType[T], requests: Sequence[Any], node: int | None, timeout_s: float
    ) -> list[T]:
        """Ask on a connection that is known to be open: after it broke, nobody knows what was done."""
        used = self._current(node)
        if used is not None and not used.is_open():
            self._open.pop(node, None)
            used.close()
        opened = retried(lambda: self._socket(node, timeout_s))
        try:
            return self._asked_of(opened, node, request_type, requests, timeout_s)
        except (AuthenticationFailed, NotOffered, OutcomeUnknown):
            raise
        except ClusterError as error:  # an answer that cannot be read is lost, too
            raise OutcomeUnknown(f"no answer: {error.message}") from error

    def _asked_of(
        self,
        opened: BrokerSocket,
        node: int | None,
        request_type: RequestType[T],
        requests: Sequence[Any],
        timeout_s: float,
    ) -> list[T]:
        try:
            return opened.ask(request_type, requests, timeout_s)
        except NotOffered:
            raise
        except BaseException:  # Ctrl-C too: the answer would be taken for the next request's
            self._open.pop(node, None)
            opened.close()
            raise

    def _current(self, node: int | None) -> BrokerSocket | None:
        """The connection in use; None if there is none, or it was closed under another name."""
        found = self._open.get(node)
        if found is not None and found.closed:
            self._open.pop(node, None)
            return None
        return found

    def _socket(self, node: int | None, timeout_s: float = READ_TIMEOUT_S) -> BrokerSocket:
        found = self._current(node)
        if found is None and node is None:
            with self._opening:  # one connection is enough for threads that begin at a time
                found = self._current(None)
                if found is None:
                    found = self._open[None] = self._opened(None, timeout_s)
        elif found is None:
            found = self._keep(node, self._opened(node, timeout_s))
        if self._closed:
            found.close()
            raise ClusterError("the connection to the cluster was closed")
        return found

    def _keep(self, node: int | None, opened: BrokerSocket) -> BrokerSocket:
        """The connection to a broker from now on: this one, unless another thread was first."""
        found = self._open.setdefault(node, opened)
        if found is not opened:
            opened.close()
        return found

    def _opened(self, node: int | None, timeout_s: float) -> BrokerSocket:
        if node is not None:
            nodes = self._nodes(timeout_s)
            if node not in nodes:
                raise Unreachable(f"broker {node} is down")
            shared = self._current(None)
            if shared is not None and shared.address == nodes[node]:
                return shared  # the connection that any broker is asked on: a login less
            return self._connected(nodes[node])
        failures = []
        servers = [*dict.fromkeys([*self._settings.bootstrap, *self._known.values()])]
        # One that is not there may be silent about it: the others are to have their turn.
        patience_s = max(CONNECT_TIMEOUT_S / len(servers), _LEAST_PATIENCE_S)
        for server in servers:
            try:
                return self._connected(server, patience_s)
            except AuthenticationFailed:
                raise
            except ClusterError as error:
                failures.append(error)
        raise failures[0]

    def _connected(self, server: tuple[str, int], patience_s: float = CONNECT_TIMEOUT_S) -> BrokerSocket:
        return BrokerSocket(server, self._settings, self._tokens, patience_s)

    def _nodes(self, timeout_s: float) -> Mapping[int, tuple[str, int]]:
        """The addresses of the live brokers."""
        (metadata,) = self.ask(METADATA, [()], timeout_s=timeout_s)
        self._known = {node: (broker.host, broker.port) for node, broker in metadata.brokers.items()}
        return self._known


def settle(future: Future[T], work: Callable[[], T]) -> None:
    """Keep what some work gives, or what it raises."""
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
        future.set_exception(error)


def _at_a_time(tasks: Mapping[K, Callable[[], T]]) -> dict[K, T]:
    """Do things that wait for brokers at a time; returns what each gives, and raises what one raises."""
    if len(tasks) == 1:  # a thread would only cost time: there is nobody to wait for besides
        return {name: task() for name, task in tasks.items()}
    waiting: SimpleQueue[K] = SimpleQueue()
    done: dict[K, Future[T]] = {}
    for name in tasks:
        done[name] = Future()
        waiting.put(name)

    def work() -> None:
        with suppress(Empty):
            while True:
                name = waiting.get_nowait()
                settle(done[name], tasks[name])

    # No pool of threads, which waits for all of them at the end: Ctrl-C must not wait for a deaf broker.
    for _ in range(min(_AT_A_TIME, len(tasks))):
        Thread(target=work, name="kafkaform-ask", daemon=True).start()
    return {name: future.result() for name, future in done.items()}


def _is_of_no_controller(answer: Any) -> bool:
    """Return whether a broker says that it is not the controller, of the whole request or of each part."""
    topics = answer.get("topics", ())
    # The answer to CreateTopics gives their number.
    counts_or_parts = (topic.get("partitions", ()) for topic in topics)
    partitions = (partition for some in counts_or_parts if not isinstance(some, int) for partition in some)
    parts = (answer, *topics, *partitions)
    return any(part.get("error_code") == KafkaError.NOT_CONTROLLER for part in parts)

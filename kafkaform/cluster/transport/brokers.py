"""Connections to all brokers of a cluster, each opened on first use."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from kafkaform.cluster.transport.broker_socket import (
    CONNECT_TIMEOUT_S,
    READ_TIMEOUT_S,
    BrokerSocket,
    HungUpError,
)
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.large_responses import METADATA
from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    MalformedResponse,
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

_MAX_CONCURRENT = 32
"""The most brokers that are asked concurrently."""
_MIN_CONNECT_S = 2.0
"""The least time for a bootstrap server to respond, however many there are; also for a further broker."""
_MAX_BROKERS_PER_CALL = 4
"""The most brokers that share the readings of one call."""
_MIN_READINGS_PER_BROKER = 2
"""The least readings per connection: a login takes as long as one or two of them."""
_ELECTION_S = 20.0
"""The time for a controller election: ZooKeeper notices a dead controller after 18 s."""
_TRIES = 5
_PAUSE_S = 0.1
# OutcomeUnknown too: after a timeout, a second attempt would double the wait for a broker that is overloaded.
_FINAL = (
    AuthenticationFailed,
    MalformedResponse,
    NotOffered,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
)
"""The errors that a retry does not change."""


def retry(send: Callable[[], T]) -> T:
    """Retry failed connections, for up to CONNECT_TIMEOUT_S: any broker is tried, even a dead one."""
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    for _ in range(_TRIES - 1):
        try:
            return send()
        except _FINAL:
            raise
        except ClusterError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
    return send()


class Brokers:
    """The brokers of a cluster. Failures are raised as ClusterError.

    Args:
        settings: How to connect.
        tokens: The source of OAUTHBEARER tokens.
        connect_s: How long all bootstrap servers together may take until one responses.
    """

    def __init__(
        self,
        settings: TransportSettings,
        tokens: TokenSource | None = None,
        connect_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self._settings = settings
        self._tokens = tokens
        self._connect_s = connect_s
        self._open: dict[int | None, BrokerSocket] = {}
        self._known: Mapping[int, tuple[str, int]] = {}
        self._opening = Lock()
        self._closed = False

    def read_api_versions(self, node: int | None = None) -> Offered:
        """Return the lowest and highest version of each request that a broker offers; None asks any one."""
        return retry(lambda: self._socket(node)).offered

    def send(
        self,
        request_type: RequestType[T],
        requests: Sequence[Any],
        node: int | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> list[T]:
        """Return the responses to requests, in order.

        Args:
            node: The broker to ask; None for any: several concurrently if there are many requests, and
                another one if a connection fails.
            timeout_s: How long a broker may take for a whole response.

        Raises:
            NotOffered: The broker does not offer the request; nothing was sent.
            OutcomeUnknown: A response did not come in time, or the response to a change was lost.
            MalformedResponse: A response violates Kafka's protocol.
            ClusterError: The connection failed.
        """
        if request_type.changes:
            return self._send_once(request_type, requests, node, timeout_s)
        if node is not None:
            return self._send_to_broker(request_type, requests, node, timeout_s)
        if len(requests) >= 2 * _MIN_READINGS_PER_BROKER:
            return self._fan_out(request_type, requests, timeout_s)
        return retry(lambda: self._send_to_broker(request_type, requests, None, timeout_s))

    def send_to_controller(self, request_type: RequestType[Any], request: Any, timeout_s: float) -> Any:
        """Send a request for the controller; returns its response.

        Any broker forwards it (KIP-590), except with ZooKeeper: then the controller itself is asked. During
        an election, brokers know no controller, or the old one: they refuse, and nothing has changed.
        """
        deadline = time.monotonic() + min(timeout_s, _ELECTION_S)
        (response,) = self.send(request_type, [request], timeout_s=timeout_s)
        while _is_not_controller(response):
            (metadata,) = self.send(METADATA, [()], timeout_s=timeout_s)
            if metadata.controller in metadata.brokers:
                try:
                    (response,) = self.send(request_type, [request], metadata.controller, timeout_s)
                except _FINAL:
                    raise
                except ClusterError:  # a dead controller is named until ZooKeeper notices
                    if time.monotonic() > deadline:
                        raise
            if time.monotonic() > deadline:
                break
            if _is_not_controller(response):
                time.sleep(_PAUSE_S)
        return response

    def send_to_each(
        self, request_type: RequestType[T], request: Any, timeout_s: float
    ) -> dict[int, T | ClusterError]:
        """Send one request to all live brokers concurrently; returns the response or error of each."""
        nodes = sorted(self._read_nodes(timeout_s))
        if not nodes:
            raise ClusterError("the brokers returned an empty list of brokers")
        responses = self.send_to_nodes(request_type, {node: [request] for node in nodes}, timeout_s)
        return {
            node: response if isinstance(response, ClusterError) else response[0]
            for node, response in responses.items()
        }

    def send_to_nodes(
        self, request_type: RequestType[T], requests: Mapping[int, Sequence[Any]], timeout_s: float
    ) -> dict[int, list[T] | ClusterError]:
        """Ask brokers concurrently; returns the responses of each, in order, or its error."""

        def send_to_node(node: int) -> list[T] | ClusterError:
            try:
                return self.send(request_type, requests[node], node, timeout_s)
            # These have causes other than a broker that is down, and say so; all other errors are reported as
            # its silence.
            except (AuthenticationFailed, MalformedResponse, NotOffered) as error:
                return error
            except ClusterError as error:
                if request_type.changes and isinstance(error, OutcomeUnknown):
                    return error
                return Unreachable(f"broker {node} does not answer: {error.message}")

        return _run_concurrently({node: partial(send_to_node, node) for node in requests})

    def close(self) -> None:
        """Close the connections to all brokers."""
        self._closed = True  # the prefetching thread may be connecting just now
        while self._open:
            _, opened = self._open.popitem()
            opened.close()

    def _fan_out(self, request_type: RequestType[T], requests: Sequence[Any], timeout_s: float) -> list[T]:
        """Spread requests that any broker can answer over several brokers.

        A broker handles one request of a connection at a time: four brokers describe 20,000 topics in a third
        of the time that one takes.
        """
        addresses = self._read_nodes(timeout_s)
        first = self._socket(None, timeout_s).address
        other_nodes = [node for node, address in sorted(addresses.items()) if address != first]
        count = min(_MAX_BROKERS_PER_CALL, len(requests) // _MIN_READINGS_PER_BROKER)
        # None is the connection that exists already; it takes a part too.
        nodes: list[int | None] = [None, *other_nodes][:count]

        def send_part(number: int) -> list[T]:
            part, node = requests[number :: len(nodes)], nodes[number]
            if node is not None:
                try:
                    if self._current(node) is None:
                        self._keep(node, self._connect(addresses[node], _MIN_CONNECT_S))
                    return self._send_to_broker(request_type, part, node, timeout_s)
                except ClusterError as error:  # only speed is lost: the first broker takes over
                    _log.debug("broker %s does not help out: %s", node, error)
            return retry(lambda: self._send_to_broker(request_type, part, None, timeout_s))

        parts = _run_concurrently({number: partial(send_part, number) for number in range(len(nodes))})
        return [parts[number % len(nodes)][number // len(nodes)] for number in range(len(requests))]

    def _send_to_broker(
        self, request_type: RequestType[T], requests: Sequence[Any], node: int | None, timeout_s: float
    ) -> list[T]:
        used = self._current(node)
        if used is not None:
            try:
                return self._send_on_socket(used, node, request_type, requests, timeout_s)
            except HungUpError:  # brokers close idle connections (connections.max.idle.ms)
                pass
        return self._send_on_socket(self._socket(node, timeout_s), node, request_type, requests, timeout_s)

    def _send_once(
        self, request_type: RequestType[T], requests: Sequence[Any], node: int | None, timeout_s: float
    ) -> list[T]:
        """Ask on a connection that is known to be open: if it breaks, the outcome is unknown."""
        used = self._current(node)
        if used is not None and not used.is_open():
            self._open.pop(node, None)
            used.close()
        opened = retry(lambda: self._socket(node, timeout_s))
        try:
            return self._send_on_socket(opened, node, request_type, requests, timeout_s)
        except (AuthenticationFailed, NotOffered, OutcomeUnknown):
            raise
        except ClusterError as error:  # a response that cannot be parsed is lost too
            raise OutcomeUnknown(f"no answer: {error.message}") from error

    def _send_on_socket(
        self,
        opened: BrokerSocket,
        node: int | None,
        request_type: RequestType[T],
        requests: Sequence[Any],
        timeout_s: float,
    ) -> list[T]:
        try:
            return opened.send(request_type, requests, timeout_s)
        except NotOffered:
            raise
        except BaseException:  # Ctrl-C too: its response would be read as that of the next request
            self._open.pop(node, None)
            opened.close()
            raise

    def _current(self, node: int | None) -> BrokerSocket | None:
        """Return the open connection to a broker; None if there is none, or it was closed since."""
        broker_socket = self._open.get(node)
        if broker_socket is not None and broker_socket.closed:
            self._open.pop(node, None)
            return None
        return broker_socket

    def _socket(self, node: int | None, timeout_s: float = READ_TIMEOUT_S) -> BrokerSocket:
        broker_socket = self._current(node)
        if broker_socket is None and node is None:
            with self._opening:  # threads that start together share one connection
                broker_socket = self._current(None)
                if broker_socket is None:
                    broker_socket = self._open[None] = self._open_socket(None, timeout_s)
        elif broker_socket is None:
            broker_socket = self._keep(node, self._open_socket(node, timeout_s))
        # close() may have run while this thread was connecting.
        if self._closed:
            broker_socket.close()
            raise ClusterError("the connection to the cluster was closed")
        return broker_socket

    def _keep(self, node: int | None, opened: BrokerSocket) -> BrokerSocket:
        """Return the connection to keep for a broker: this one, unless another thread was first."""
        # setdefault is atomic: of the connections of two threads, exactly one is kept.
        broker_socket = self._open.setdefault(node, opened)
        if broker_socket is not opened:
            opened.close()
        return broker_socket

    def _open_socket(self, node: int | None, timeout_s: float) -> BrokerSocket:
        if node is not None:
            nodes = self._read_nodes(timeout_s)
            if node not in nodes:
                raise Unreachable(f"broker {node} is down")
            shared = self._current(None)
            if shared is not None and shared.address == nodes[node]:
                return shared
            return self._connect(nodes[node])
        failures = []
        servers = [*dict.fromkeys([*self._settings.bootstrap, *self._known.values()])]
        # A dead server may stay silent: share the time among all servers.
        connect_s = max(self._connect_s / len(servers), min(self._connect_s, _MIN_CONNECT_S))
        for server in servers:
            try:
                return self._connect(server, connect_s)
            # The account is the same for all servers: another one would refuse it too.
            except AuthenticationFailed:
                raise
            except ClusterError as error:
                failures.append(error)
        raise failures[0]

    def _connect(self, server: tuple[str, int], connect_s: float = CONNECT_TIMEOUT_S) -> BrokerSocket:
        return BrokerSocket(server, self._settings, self._tokens, connect_s)

    def _read_nodes(self, timeout_s: float) -> Mapping[int, tuple[str, int]]:
        """Read the addresses of the live brokers."""
        (metadata,) = self.send(METADATA, [()], timeout_s=timeout_s)
        self._known = {node: (broker.host, broker.port) for node, broker in metadata.brokers.items()}
        return self._known


def complete_future(future: Future[T], work: Callable[[], T]) -> None:
    """Set the result of a future, or its exception, by calling a function."""
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
        future.set_exception(error)


def _run_concurrently(tasks: Mapping[K, Callable[[], T]]) -> dict[K, T]:
    """Run tasks that wait for brokers concurrently; returns their results, and raises the first error."""
    if len(tasks) == 1:  # a thread would only cost time
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
                complete_future(done[name], tasks[name])

    # Not a thread pool, which waits for all threads on exit: Ctrl-C must not wait for a silent broker.
    for _ in range(min(_MAX_CONCURRENT, len(tasks))):
        Thread(target=work, name="kafkaform-ask", daemon=True).start()
    return {name: future.result() for name, future in done.items()}


def _is_not_controller(response: Any) -> bool:
    """Return whether a response, or a part of it, has the code NOT_CONTROLLER."""
    topics = response.get("topics", ())
    # In the response to CreateTopics, `partitions` is a number.
    counts_or_parts = (topic.get("partitions", ()) for topic in topics)
    partitions = (partition for some in counts_or_parts if not isinstance(some, int) for partition in some)
    parts = (response, *topics, *partitions, *response.get("results", ()))
    return any(part.get("error_code") == ErrorCode.NOT_CONTROLLER for part in parts)

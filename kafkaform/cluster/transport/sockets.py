"""Our own connections to brokers, where nobody has to log in but by TLS."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from kafkaform.cluster.transport.api import CONNECT_TIMEOUT_S, READ_TIMEOUT_S
from kafkaform.cluster.transport.broker_socket import BrokerSocket, HungUpError
from kafkaform.cluster.wire import large_answers
from kafkaform.config.client_properties.transport import address
from kafkaform.core.errors import ClusterError, MalformedAnswer, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaform.cluster.transport.api import RequestType, T


_AT_A_TIME = 32
"""The most brokers that are asked at a time."""
_LEAST_PATIENCE_S = 2.0
"""The time that a bootstrap server may take to answer, however many there are."""


class Sockets:
    """See `Transport`.

    Args:
        arguments: What kafka-python would be made with.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        servers = arguments["bootstrap_servers"]
        self._bootstrap = [*map(address, servers.split(",") if isinstance(servers, str) else servers)]
        self._client_id = str(arguments["client_id"])
        self._tls = arguments.get("ssl_context")
        self._options: Iterable[tuple[int, int, int]] = arguments.get("socket_options", ())
        self._open: dict[int | None, BrokerSocket] = {}
        self._closed = False

    @staticmethod
    def suit(arguments: Mapping[str, Any]) -> bool:
        """Return whether there is no login but by TLS: others are kafka-python's."""
        return "SASL" not in str(arguments.get("security_protocol", ""))

    def versions(self) -> Mapping[int, tuple[int, int]]:
        """See `Transport.versions`."""
        return self._socket(None).versions

    def ask(
        self,
        request_type: RequestType[T],
        bodies: Sequence[bytes],
        node: int | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> list[T]:
        """See `Transport.ask`."""
        used = self._open.get(node)
        if used is not None:
            try:
                return self._asked(used, node, request_type, bodies, timeout_s)
            except HungUpError:  # as brokers do on who is silent for long (connections.max.idle.ms)
                pass
        return self._asked(self._socket(node, timeout_s), node, request_type, bodies, timeout_s)

    def ask_each(
        self, request_type: RequestType[T], body: bytes, timeout_s: float
    ) -> dict[int, T | ClusterError]:
        """See `Transport.ask_each`."""

        def ask_node(node: int) -> T | ClusterError:
            try:
                return self.ask(request_type, [body], node, timeout_s)[0]
            except MalformedAnswer as error:
                return error
            except ClusterError as error:
                return Unreachable(f"broker {node} does not answer: {error.message}")

        nodes = sorted(self._nodes(timeout_s))
        if not nodes:
            raise ClusterError("the brokers returned an empty list of brokers")
        with ThreadPoolExecutor(min(_AT_A_TIME, len(nodes))) as pool:
            return dict(zip(nodes, pool.map(ask_node, nodes), strict=True))

    def close(self) -> None:
        """See `Transport.close`."""
        self._closed = True  # a thread that prefetches may be connecting just now
        while self._open:
            _, opened = self._open.popitem()
            opened.close()

    def _asked(
        self,
        opened: BrokerSocket,
        node: int | None,
        request_type: RequestType[T],
        bodies: Sequence[bytes],
        timeout_s: float,
    ) -> list[T]:
        try:
            return opened.ask(request_type, bodies, timeout_s)
        except BaseException:  # Ctrl-C too: the answer would be taken for the next request's
            self._open.pop(node, None)
            opened.close()
            raise

    def _socket(self, node: int | None, timeout_s: float = READ_TIMEOUT_S) -> BrokerSocket:
        found = self._open.get(node)
        if found is None:
            opened = self._opened(node, timeout_s)
            found = self._open.setdefault(node, opened)
            if found is not opened:  # another thread was first
                opened.close()
        if self._closed:
            found.close()
            raise ClusterError("the connection to the cluster was closed")
        return found

    def _opened(self, node: int | None, timeout_s: float) -> BrokerSocket:
        if node is not None:
            nodes = self._nodes(timeout_s)
            if node not in nodes:
                raise Unreachable(f"broker {node} is down")
            return self._connected(nodes[node])
        failures = []
        # One that is not there may be silent about it: the others are to have their turn.
        patience_s = max(CONNECT_TIMEOUT_S / len(self._bootstrap), _LEAST_PATIENCE_S)
        for server in self._bootstrap:
            try:
                return self._connected(server, patience_s)
            except ClusterError as error:
                failures.append(error)
        raise failures[0]

    def _connected(self, server: tuple[str, int], patience_s: float = CONNECT_TIMEOUT_S) -> BrokerSocket:
        return BrokerSocket(server, self._client_id, self._tls, self._options, patience_s)

    def _nodes(self, timeout_s: float) -> Mapping[int, tuple[str, int]]:
        """The addresses of the live brokers."""
        (addresses,) = self.ask(
            large_answers.ADDRESSES, [large_answers.metadata_of_no_topic()], timeout_s=timeout_s
        )
        return addresses

"""The connection to a cluster, and the errors if no broker answers."""

from __future__ import annotations

import logging
import time
from threading import RLock, Timer
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from kafkaform.cluster.transport.broker_socket import CONNECT_TIMEOUT_S, READ_TIMEOUT_S, HungUpError
from kafkaform.cluster.transport.brokers import Brokers
from kafkaform.cluster.wire.large_responses import METADATA, Metadata
from kafkaform.config.client_properties.transport import SaslSettings, TransportSettings
from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    MalformedResponse,
    NotOffered,
    Unreachable,
)
from kafkaform.core.progress import Progress, silent
from kafkaform.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaform.cluster.transport.tokens import TokenSource
    from kafkaform.cluster.wire.message_schema import Offered, RequestType
    from kafkaform.core.secrets import Secret

T = TypeVar("T")

# Without a handler, Python writes the warnings of a library to stderr.
logging.getLogger("kafkaform").addHandler(logging.NullHandler())

_PAUSE_S = 0.1
"""The time between attempts to reach a cluster, whose brokers may be starting."""
_SILENT_S = 1.0
"""The time after which a waiting user is told what the command waits for."""
_HINT = (
    "check that brokers run there, the network, and security.protocol (TLS ports do not answer plain text)"
)


class locked_property(Generic[T]):  # noqa: N801 - used as a decorator, like functools.cached_property
    """A `functools.cached_property` with a lock for each property of each object.

    In Python 3.11, that has one lock for all objects of a class: a cluster that does not answer would block
    the others. Since 3.12 it has none: two threads would make two clients. No two properties may depend on
    each other.
    """

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work = work
        self.__doc__ = work.__doc__

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name
        self._lock = f"_lock_of_{name}"

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        kept = instance.__dict__
        with kept.setdefault(self._lock, RLock()):
            if self._name not in kept:
                kept[self._name] = self._work(instance)
        value: T = kept[self._name]
        return value


class Connection:
    """The connections to the brokers of one cluster, opened on first use.

    Args:
        properties: Properties for librdkafka, with secrets filled in, for the clients that move records.
        transport: Makes the settings of our own connections; raises KafkaformError for properties that they
            do not support.
        tell: Receives a line for a user who waits for the first response.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        transport: Callable[[], TransportSettings],
        tell: Progress = silent,
    ) -> None:
        self.properties = dict(properties)
        self._settings = transport
        self._tell = tell
        self._opened: list[Brokers] = []
        self._closed = False

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap addresses, for messages."""
        return str(self.properties.get("bootstrap.servers"))

    @locked_property
    def _transport_settings(self) -> TransportSettings:
        return self._settings()

    @locked_property
    def tokens(self) -> TokenSource | None:
        """Return the source of tokens for all connections, librdkafka's too; None if none are needed.

        Raises:
            KafkaformError: A property is invalid or not supported.
        """
        sasl = self._transport_settings.sasl
        if sasl is None or sasl.tokens is None:
            return None
        from kafkaform.cluster.transport.tokens import make_token_source

        return make_token_source(sasl)

    @locked_property
    def cluster(self) -> Metadata:
        """Return the cluster's id and brokers, as they were at the first use."""
        (metadata,) = self.send(METADATA, [()])
        return metadata

    def offers(self, request_type: RequestType[Any], node: int | None = None) -> bool:
        """Return whether a broker offers a request in a supported version; None asks any broker."""
        return request_type.is_offered(self.read_api_versions(node))

    def read_api_versions(self, node: int | None = None) -> Offered:
        """Return the lowest and highest version of each request that a broker offers; None asks any one."""
        return self._reachable_brokers.read_api_versions(node)

    def send(
        self,
        request_type: RequestType[T],
        requests: Sequence[Any],
        *,
        node: int | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> list[T]:
        """Send requests; see `Brokers.send`."""
        return self._reachable_brokers.send(request_type, requests, node, timeout_s)

    def send_to_controller(self, request_type: RequestType[Any], request: Any, timeout_s: float) -> Any:
        """Send a request for the controller; see `Brokers.send_to_controller`."""
        return self._reachable_brokers.send_to_controller(request_type, request, timeout_s)

    def send_to_each(
        self, request_type: RequestType[T], request: Any, timeout_s: float
    ) -> dict[int, T | ClusterError]:
        """Send one request to all live brokers; see `Brokers.send_to_each`."""
        return self._reachable_brokers.send_to_each(request_type, request, timeout_s)

    def send_to_nodes(
        self, request_type: RequestType[T], requests: Mapping[int, Sequence[Any]], timeout_s: float
    ) -> dict[int, list[T] | ClusterError]:
        """Ask brokers concurrently; see `Brokers.send_to_nodes`."""
        return self._reachable_brokers.send_to_nodes(request_type, requests, timeout_s)

    def separate(self, client_id: str) -> Brokers:
        """Return separate connections, for requests that must not wait for others.

        Args:
            client_id: The client id of these connections.
        """
        return Brokers(replace(self._transport_settings, client_id=client_id), self.tokens)

    def log_in_as(self, user: str, mechanism: str, password: Secret) -> None:
        """Log in once to one broker with other credentials, on a connection that is closed at once.

        Raises:
            LoginRefused: The broker refused it.
            ClusterError: No broker decided: the listener has no SASL, or not this mechanism, or none answers.
        """
        settings = self._transport_settings
        if settings.sasl is None:
            raise ClusterError(f"the listener of {self.bootstrap_servers} has no SASL")
        sasl = SaslSettings(mechanism, user, password.reveal())
        brokers = Brokers(replace(settings, sasl=sasl))
        try:
            brokers.read_api_versions()
        finally:
            brokers.close()

    @locked_property
    def _reachable_brokers(self) -> Brokers:
        """Return the brokers, once one has answered: later failures have another cause.

        Raises:
            Unreachable: No broker answered in time.
            AuthenticationFailed: A broker refused the login.
            MalformedResponse: The response is not Kafka's protocol.
        """
        # In a thread: a silent address lets the first attempt wait for all the time.
        notice = Timer(_SILENT_S, self._announce_wait)
        notice.daemon = True
        notice.start()
        try:
            return self._reach_brokers()
        finally:
            notice.cancel()

    def _announce_wait(self) -> None:
        self._tell(f"waiting for {self.bootstrap_servers} to answer, for up to {CONNECT_TIMEOUT_S:.0f} s")

    def _reach_brokers(self) -> Brokers:
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while True:
            try:
                self._brokers.read_api_versions()
            except MalformedResponse as error:
                error.hint = _HINT
                raise
            # Waiting does not change these; other errors may be those of brokers that are starting.
            except (AuthenticationFailed, NotOffered):
                raise
            except ClusterError as error:
                if time.monotonic() + _PAUSE_S > deadline:
                    waited = f"{CONNECT_TIMEOUT_S:.0f} s"
                    text = f"no broker of {self.bootstrap_servers} answered within {waited}: {error.message}"
                    hint = error.hint if isinstance(error, HungUpError) else None
                    raise Unreachable(text, hint=hint or _HINT) from error
                time.sleep(_PAUSE_S)
            else:
                return self._brokers

    @locked_property
    def _brokers(self) -> Brokers:
        brokers = Brokers(self._transport_settings, self.tokens, CONNECT_TIMEOUT_S)
        # Registered first, and then checked: `close` may run in another thread between the two.
        self._opened.append(brokers)
        if self._closed:
            brokers.close()
        return brokers

    def close(self) -> None:
        """Close the connections to all brokers."""
        self._closed = True
        while self._opened:
            self._opened.pop().close()

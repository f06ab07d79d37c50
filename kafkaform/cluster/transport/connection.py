"""Connecting to a cluster: the clients, their silence, and what is said when nobody answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Sized
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Self,
    TypeVar,
    cast,
    overload,
)

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, DescribeClusterResult

from kafkaform.cluster.transport.broker_socket import CONNECT_TIMEOUT_S, READ_TIMEOUT_S
from kafkaform.cluster.transport.brokers import Brokers
from kafkaform.cluster.transport.translation import (
    connection_failure,
    kafka_error,
    one_line,
    signals_kept,
    translate,
)
from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    KafkaformError,
    Unreachable,
    UnusableCertificate,
)

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Mapping,
        Sequence,
    )

    from kafkaform.cluster.transport.tokens import TokenSource
    from kafkaform.cluster.wire.message_schema import Offered, RequestType
    from kafkaform.config.client_properties.transport import TransportSettings


T = TypeVar("T")

_log = logging.getLogger(__name__)

# A library stays silent unless its user asks: without a handler, Python writes warnings to stderr.
logging.getLogger("kafkaform").addHandler(logging.NullHandler())

_FINAL = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})

_RECONNECT_BACKOFF_MS = 20
"""How long librdkafka waits after the first failure to connect, and longer after each.

For half as long, a client connects to no second broker: with its default of 100 ms, to join the group of the
lock took 57 ms, and takes 13 ms now (medians of 14, one broker nearby).
"""
_SUSPECT_S = 1.0
"""The time without an answer after which our own connections look whether TLS is the reason."""
_OIDC = ("sasl.oauthbearer.", "https.ca.")
"""What librdkafka would get tokens by."""


class locked_property(Generic[T]):  # noqa: N801 - used as a decorator, like functools.cached_property
    """Like `functools.cached_property`, with a lock for each property of each object.

    That of Python 3.11 has one for all objects of a class: a cluster that does not answer would keep the
    others waiting. From 3.12 on it has none: two threads would make two clients. No two properties may need
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
    """The clients of one cluster, connected on first use.

    librdkafka logs about twenty lines a second against a dead broker; they go to the logger
    `kafkaform.librdkafka`, and the last error is reported in one line.

    Args:
        librdkafka: Properties for librdkafka, secrets filled in.
        transport: Makes the settings of our own connections; raises KafkaformError where a property asks for
            what they cannot do, and librdkafka can.
    """

    def __init__(self, librdkafka: Mapping[str, object], transport: Callable[[], TransportSettings]) -> None:
        self._properties = dict(librdkafka)
        self._settings = transport
        self._last_error: KafkaError | None = None
        self._final_error: KafkaError | None = None
        self._opened: list[Any] = []
        self._closed = False

    @property
    def bootstrap_servers(self) -> str:
        """The addresses given, for messages."""
        return str(self._properties.get("bootstrap.servers"))

    @locked_property
    def _transport_settings(self) -> TransportSettings:
        return self._settings()

    @locked_property
    def _tokens(self) -> TokenSource | None:
        """The source of tokens for all connections, librdkafka's too; None where none are needed."""
        sasl = self._transport_settings.sasl
        if sasl is None or sasl.tokens is None:
            return None
        from kafkaform.cluster.transport.tokens import token_source

        return token_source(sasl)

    def _token_options(self) -> dict[str, Any]:
        """Have librdkafka take its tokens from our source, but where only librdkafka can get them.

        Raises:
            KafkaformError: Nobody can.
        """
        if self._properties.get("sasl.mechanism") != "OAUTHBEARER":
            return {}
        try:
            tokens = self._tokens
        except AuthenticationFailed:
            raise
        except KafkaformError:
            if "sasl.oauthbearer.method" not in self._properties:
                raise
            return {}
        if tokens is None:
            return {}
        from kafkaform.cluster.transport.tokens import librdkafka_options

        return librdkafka_options(tokens)

    @property
    def options(self) -> dict[str, Any]:
        """The options of every librdkafka client of this cluster.

        Raises:
            AuthenticationFailed: There is no token to log in with.
        """
        tokens = self._token_options()
        properties = self._properties
        if tokens:
            properties = {name: value for name, value in properties.items() if not name.startswith(_OIDC)}
        return {
            "client.id": "kafkaform",
            "reconnect.backoff.ms": _RECONNECT_BACKOFF_MS,
            **properties,
            **tokens,
            "error_cb": self._on_error,
            "logger": logging.getLogger("kafkaform.librdkafka"),
            "log.connection.close": False,
        }

    def client(self, kind: Callable[[dict[str, Any]], T], options: Mapping[str, object] | None = None) -> T:
        """Make a client of librdkafka for this cluster.

        Args:
            kind: Which one, such as a Consumer.
            options: Options beside those of all clients of this cluster.

        Raises:
            AuthenticationFailed: There is no token to log in with.
            KafkaformError: A property is not accepted.
        """
        self._check_certificates()
        try:
            return kind({**self.options, **(options or {})})
        except KafkaException as error:
            reason = kafka_error(error)
            if reason is not None and reason.code() == KafkaError.SASL_AUTHENTICATION_FAILED:
                raise translate(error) from error  # no token came within 10 s
            detail = one_line(reason.str() if reason else str(error))
            raise KafkaformError(f"the client properties are not accepted: {detail}") from error

    def _check_certificates(self) -> None:
        """Raise UnusableCertificate before librdkafka does, which names no file, in codes of OpenSSL."""
        try:
            self._transport_settings  # noqa: B018 - reads them
        except UnusableCertificate:
            raise
        except KafkaformError:  # there is what librdkafka alone can do
            return

    @locked_property
    def admin(self) -> AdminClient:
        """The librdkafka admin client; see `client`."""
        client: Any = _Client(self.client(AdminClient))
        self._opened.append(client)
        return cast("AdminClient", client)

    @property
    def reached(self) -> AdminClient:
        """The librdkafka admin client of a cluster that has answered: later failures have another cause."""
        self.cluster  # noqa: B018 - cached: raises in plain words if nobody is there
        return self.admin

    @locked_property
    def cluster(self) -> DescribeClusterResult:
        """The cluster's description: the first request, which also finds out whether anybody is there.

        Raises:
            Unreachable: Nobody answered in time.
            AuthenticationFailed: Somebody did, and turned us away.
        """
        future = self.admin.describe_cluster(request_timeout=READ_TIMEOUT_S)
        begun = time.monotonic()
        suspect = True
        while not future.done() and time.monotonic() < begun + CONNECT_TIMEOUT_S:
            if suspect and (self._last_error is not None or time.monotonic() > begun + _SUSPECT_S):
                self._check_tls()
                suspect = False
            if self._final_error is not None:
                break
            with signals_kept():
                self.admin.poll(0.01)
        if self._final_error is not None:
            raise AuthenticationFailed(
                f"{self.bootstrap_servers}: {one_line(self._final_error.str())}",
                hint="check security.protocol, the credentials and ssl.ca.location of the client properties",
            )
        if not future.done():
            raise self._unreachable()
        try:
            description: DescribeClusterResult = future.result()
        except KafkaException as error:
            raise translate(error) from error
        return description

    def _check_tls(self) -> None:
        """Raise AuthenticationFailed if our own connections find that TLS, or a login over it, is refused.

        librdkafka takes a broker that ends TLS after the handshake, as those do that miss a client
        certificate, for a network that is down, and tries again until the time is up.
        """
        try:
            if self._transport_settings.tls is not None:
                self._brokers.offered()
        except AuthenticationFailed:
            raise
        except KafkaformError as error:
            _log.debug("own connections do not reach the brokers either: %s", error)

    def offers(self, request_type: RequestType[Any], node: int | None = None) -> bool:
        """Return whether a broker offers a request in a version that is known here; None asks any broker."""
        return request_type.is_offered(self.offered(node))

    def offered(self, node: int | None = None) -> Offered:
        """The lowest and the highest version of each request that a broker offers; None asks any."""
        return self._brokers.offered(node)

    def ask(
        self,
        request_type: RequestType[T],
        requests: Sequence[Any],
        *,
        node: int | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> list[T]:
        """Send requests on our own connections; see `Brokers.ask`."""
        return self._brokers.ask(request_type, requests, node, timeout_s)

    def ask_controller(self, request_type: RequestType[Any], request: Any, timeout_s: float) -> Any:
        """Ask for what is the controller's; see `Brokers.ask_controller`."""
        return self._brokers.ask_controller(request_type, request, timeout_s)

    def ask_each(
        self, request_type: RequestType[T], request: Any, timeout_s: float
    ) -> dict[int, T | ClusterError]:
        """Ask all live brokers the same at a time; see `Brokers.ask_each`."""
        return self._brokers.ask_each(request_type, request, timeout_s)

    def ask_nodes(
        self, request_type: RequestType[T], requests: Mapping[int, Sequence[Any]], timeout_s: float
    ) -> dict[int, list[T] | ClusterError]:
        """Ask some brokers at a time; see `Brokers.ask_nodes`."""
        return self._brokers.ask_nodes(request_type, requests, timeout_s)

    def separate(self, client_id: str) -> Brokers:
        """Return connections of their own, for requests that must not wait for the answers to others.

        Args:
            client_id: The name that brokers know these connections by.
        """
        return Brokers(replace(self._transport_settings, client_id=client_id), self._tokens)

    @locked_property
    def _brokers(self) -> Brokers:
        brokers = Brokers(self._transport_settings, self._tokens)
        self._opened.append(brokers)
        if self._closed:
            brokers.close()
        return brokers

    def close(self) -> None:
        """Close what was opened."""
        self._closed = True
        while self._opened:
            self._opened.pop().close()

    def _unreachable(self) -> Unreachable:
        reason = f": {connection_failure(self._last_error.str())}" if self._last_error else ""
        return Unreachable(
            f"no broker of {self.bootstrap_servers} answered within {CONNECT_TIMEOUT_S:.0f} s{reason}",
            hint="check the address, the network and security.protocol (TLS ports do not answer plain text)",
        )

    def _on_error(self, error: KafkaError) -> None:
        if error.code() in _FINAL:
            self._final_error = error
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self._last_error is None:
            self._last_error = error


class _Client:
    """An admin client of librdkafka whose calls let signals out, and are logged: how each ended, and when.

    Args:
        client: The client.
    """

    def __init__(self, client: AdminClient) -> None:
        self._client = client
        self._open: dict[object, Callable[[str], None]] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return method if name == "poll" else partial(self._call, name, method)

    def close(self) -> None:
        """Log what was never answered."""
        while self._open:
            _, log = self._open.popitem()
            log("no answer")

    def _call(self, name: str, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if not _log.isEnabledFor(logging.DEBUG):
            with signals_kept():  # a request serves callbacks of the log, too
                return method(*arguments, **options)
        begun = time.monotonic()
        what = f"{name} of {len(arguments[0]):,}" if arguments and isinstance(arguments[0], Sized) else name

        def log(result: str) -> None:
            _log.debug("librdkafka: %s, %s, %.1f ms", what, result, (time.monotonic() - begun) * 1000)

        try:
            with signals_kept():
                answer = method(*arguments, **options)
        except BaseException as error:
            log(f"failed: {one_line(str(error)) or type(error).__name__}")
            raise
        results = answer.values() if isinstance(answer, dict) else [answer]
        futures = {future for future in results if isinstance(future, Future)}
        if not futures:
            log("answered")
            return answer
        key, waiting = object(), set(futures)
        self._open[key] = log

        def done(future: Future[Any]) -> None:
            waiting.discard(future)
            if not waiting and self._open.pop(key, None) is not None:
                errors = [error for finished in futures if (error := finished.exception())]
                log(f"{len(errors):,} failed: {translate(errors[0]).message}" if errors else "answered")

        for future in futures:
            future.add_done_callback(done)
        return answer

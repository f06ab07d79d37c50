"""A proxy in front of real brokers that offers no more than a vendor's service does.

Brokers advertise the proxy's address, so that what they say of themselves stands; only answers to ApiVersions
are rewritten. A request that the service does not have gets what brokers give: the connection is closed. What
the service has and refuses in part (a config, a replication factor) is answered with its error code, and the
rest of the request is passed on.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from struct import pack, unpack, unpack_from
from threading import Thread
from typing import Any, NamedTuple, Self, TypeAlias

from kafkaform.cluster.wire import messages
from kafkaform.cluster.wire.message_schema import (
    BOOLEAN,
    ERROR,
    INT8,
    INT16,
    INT32,
    NULLABLE_STRING,
    STRING,
    RequestType,
    array,
    message,
    since,
    skip_tags,
    struct,
)
from kafkaform.devcluster.ports import is_free
from tests.support.clusters.responses import schemas_of

HOST = "127.0.0.1"
LARGEST = 100 << 20
MOST_CONNECTIONS = 200

CREATE_TOPICS, DESCRIBE_CONFIGS, CREATE_PARTITIONS, INCREMENTAL_ALTER_CONFIGS = 19, 32, 37, 44
DESCRIBE_LOG_DIRS, ALTER_REASSIGNMENTS, API_VERSIONS = 35, 45, 18

_UNSUPPORTED_VERSION = 35


class Api(NamedTuple):
    """A request whose items can be refused one by one, and the fields of the items and of their results."""

    request_type: RequestType[Any]
    items: str = "topics"
    results: str = "topics"


_NULL = (DESCRIBE_CONFIGS, CREATE_PARTITIONS)
_OFFERED = array(struct(key=INT16, least=INT16, most=INT16))
_CONFIG = {"name": STRING, "value": NULLABLE_STRING}
_DESCRIBED = struct(
    **_CONFIG,
    read_only=BOOLEAN,
    source=INT8,
    sensitive=BOOLEAN,
    synonyms=array(struct(**_CONFIG, source=INT8)),
    type=since(3, INT8, 0),
    documentation=since(3, NULLABLE_STRING),
)
_DESCRIBE_CONFIGS = message(
    DESCRIBE_CONFIGS,
    "DescribeConfigs",
    (0, 4),
    4,
    struct(
        resources=array(struct(type=INT8, name=STRING, keys=array(STRING, nullable=True))),
        synonyms=BOOLEAN,
        documentation=since(3, BOOLEAN, False),
    ),
    struct(
        throttle_ms=INT32, results=array(struct(**ERROR, type=INT8, name=STRING, configs=array(_DESCRIBED)))
    ),
)
APIS = {
    CREATE_TOPICS: Api(messages.CREATE_TOPICS),
    DESCRIBE_CONFIGS: Api(_DESCRIBE_CONFIGS, "resources", "results"),
    CREATE_PARTITIONS: Api(messages.CREATE_PARTITIONS),
    INCREMENTAL_ALTER_CONFIGS: Api(messages.ALTER_CONFIGS, "resources", "resources"),
    # What a cluster that denies it answers: from version 3 on with the code, before with no directory.
    DESCRIBE_LOG_DIRS: Api(messages.LOG_DIRS, "", "results"),
    ALTER_REASSIGNMENTS: Api(messages.ALTER_REASSIGNMENTS),
}


class Refusal(NamedTuple):
    code: int
    message: str


Policy: TypeAlias = "Callable[[dict[str, Any]], Refusal | None]"
"""What is said to an item of a request; it may take from the item what the service ignores."""


@dataclass(frozen=True)
class Profile:
    """The versions and limits of a service.

    Attributes:
        offered: The versions of each request that it has; None for those of the brokers.
        policies: What it refuses, by the request.
        denied: Requests that it refuses whole, with the code.
        hangs_up_on_newer: Another ApiVersions closes the connection; brokers answer which they have.
    """

    name: str
    offered: Mapping[int, tuple[int, int]] | None = None
    policies: Mapping[int, Policy] = field(default_factory=dict)
    denied: Mapping[int, Refusal] = field(default_factory=dict)
    hangs_up_on_newer: bool = False

    def versions(self, key: int, least: int, most: int) -> tuple[int, int] | None:
        """The versions of a request that are left of those of a broker; None for none."""
        if self.offered is None:
            return least, most
        first, last = self.offered.get(key, (0, -1))
        least, most = max(least, first), min(most, last)
        return (least, most) if least <= most else None


class VendorProxy:
    """Listens for clients, and passes on what the profile lets through.

    Attributes:
        profile: What new connections get.
        direct: Where the brokers are reached without it.
        closed: How often each request, by key and version, closed its connection.
    """

    def __init__(self, ports: Mapping[int, int], direct: str) -> None:
        """Prepare a proxy: the port of each broker by the port to listen on."""
        self.profile = Profile("apache-kafka")  # the brokers as they are
        self.direct = direct
        self.closed: Counter[tuple[int, int]] = Counter()
        self._ports = ports
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="vendor-proxy", daemon=True)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._ports)

    def __enter__(self) -> Self:
        self._thread.start()
        self._await(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._await(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _await(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @contextmanager
    def offering(self, profile: Profile) -> Iterator[Self]:
        """Offer what a profile has, for a while, and count anew."""
        before, self.profile = self.profile, profile
        self.closed.clear()
        try:
            yield self
        finally:
            self.profile = before

    async def _open(self) -> None:
        for port, upstream in self._ports.items():
            self._servers.append(await asyncio.start_server(partial(self._accept, upstream), HOST, port))

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        await asyncio.sleep(0)  # what was accepted just now has no task yet, and would be left open
        while self._connections:
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(
        self, upstream: int, client_reader: asyncio.StreamReader, client_writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) > MOST_CONNECTIONS:
                return
            broker_reader, broker_writer = await asyncio.open_connection(HOST, upstream)
            with closing(broker_writer):
                await _Exchange(self, client_writer, broker_writer).run(client_reader, broker_reader)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # one side is gone, and so the other one is told
        finally:
            self._connections.discard(task)
            client_writer.close()


@dataclass
class _Pending:
    key: int
    version: int
    results: list[dict[str, Any]]


class _Exchange:
    """One connection of a client, and the one to a broker that belongs to it."""

    def __init__(
        self, proxy: VendorProxy, client: asyncio.StreamWriter, broker: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._profile = proxy.profile
        self._client = client
        self._broker = broker
        self._pending: dict[int, _Pending] = {}
        self._own: dict[int, bytes] = {}
        self._order: list[int] = []

    async def run(self, client: asyncio.StreamReader, broker: asyncio.StreamReader) -> None:
        tasks = {
            asyncio.ensure_future(self._each(client, self._handle_request)),
            asyncio.ensure_future(self._each(broker, self._handle_response)),
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _each(self, reader: asyncio.StreamReader, handle: Callable[[bytes], None]) -> None:
        while True:
            (size,) = unpack(">i", await reader.readexactly(4))
            if not 0 < size <= LARGEST:
                raise ConnectionAbortedError(f"a message of {size} bytes")
            handle(await reader.readexactly(size))
            await self._client.drain()
            await self._broker.drain()

    def _handle_request(self, message: bytes) -> None:
        key, version, correlation = unpack_from(">hhi", message)
        profile, proxy = self._profile, self._proxy
        allowed = profile.versions(key, 0, 0x7FFF)
        if allowed is None or not allowed[0] <= version <= allowed[1]:
            if key == API_VERSIONS and allowed and not profile.hangs_up_on_newer:
                # As brokers do: version 0, with the versions of this request alone.
                self._queue_own(correlation, pack(">hihhh", _UNSUPPORTED_VERSION, 1, key, *allowed))
                return
            proxy.closed[key, version] += 1
            raise ConnectionAbortedError  # the service does not know the request
        if key in profile.denied or key in profile.policies:
            message = self._judge(message, key, version, correlation)
            if not message:
                return
        elif key == API_VERSIONS:
            self._pending[correlation] = _Pending(key, version, [])
        self._order.append(correlation)
        _send(self._broker, message)

    def _judge(self, message: bytes, key: int, version: int, correlation: int) -> bytes:
        """Return the part of a request to be passed on; nothing if all of it was answered."""
        api = APIS[key]
        flexible = version >= api.request_type.flexible
        (name_length,) = unpack_from(">h", message, 8)
        at = 10 + max(0, name_length)
        if flexible:
            at = skip_tags(message, at)
        request_codec, response_codec = (of(version, flexible) for of in schemas_of(api.request_type))
        request = request_codec.read(message, at)[0] if api.items else {}
        if (denied := self._profile.denied.get(key)) is not None:
            answer = response_codec.write(_denial(key, version, request, denied))
            self._queue_own(correlation, answer, flexible)
            return b""
        policy, passed, results = self._profile.policies[key], [], []
        for item in request[api.items]:
            had = bool(item.get("configs"))
            # Read as empty where they are null, which is something else to brokers: all keys, and no places.
            item.update(
                {name: None for name in ("keys", "assignments") if key in _NULL and item.get(name) == []}
            )
            refusal = policy(item)
            if refusal is not None:
                results.append(_result(item, *refusal))
            elif key == INCREMENTAL_ALTER_CONFIGS and had and not item["configs"]:
                results.append(_result(item, 0, None))  # all of it is ignored
            else:
                passed.append(item)
        if not passed and results:
            answer = response_codec.write({"throttle_ms": 0, api.results: results})
            self._queue_own(correlation, answer, flexible)
            return b""
        self._pending[correlation] = _Pending(key, version, results)
        return message[:at] + request_codec.write({**request, api.items: passed})

    def _queue_own(self, correlation: int, body: bytes, flexible: bool = False) -> None:
        """Answer in the broker's place, after what was asked before: clients count on the order."""
        self._own[correlation] = pack(">i", correlation) + (b"\0" if flexible else b"") + body
        self._order.append(correlation)
        self._flush_own()

    def _flush_own(self) -> None:
        while self._order and self._order[0] in self._own:
            _send(self._client, self._own.pop(self._order.pop(0)))

    def _handle_response(self, message: bytes) -> None:
        (correlation,) = unpack_from(">i", message)
        with suppress(ValueError):  # answers to Produce without acks never come
            self._order.remove(correlation)
        pending = self._pending.pop(correlation, None)
        if pending is not None and pending.key == API_VERSIONS:
            message = message[:4] + self._rewritten(message[4:], pending.version)
        elif pending is not None and pending.results:
            api = APIS[pending.key]
            flexible = pending.version >= api.request_type.flexible
            codec = schemas_of(api.request_type)[1](pending.version, flexible)
            at = skip_tags(message, 4) if flexible else 4
            answer, _ = codec.read(message, at)
            message = message[:at] + codec.write(
                {**answer, api.results: answer[api.results] + pending.results}
            )
        _send(self._client, message)
        self._flush_own()

    def _rewritten(self, body: bytes, version: int) -> bytes:
        """An answer to ApiVersions without what is hidden; what stands behind the list stays."""
        (error,) = unpack_from(">h", body)
        if error:
            return body
        codec = _OFFERED(version, version >= messages.API_VERSIONS.flexible)
        offered, end = codec.read(body, 2)
        kept = [
            {"key": of["key"], "least": versions[0], "most": versions[1]}
            for of in offered
            if (versions := self._profile.versions(**of)) is not None
        ]
        return body[:2] + codec.write(kept) + body[end:]


def _result(item: Mapping[str, Any], code: int, message: str | None) -> dict[str, Any]:
    """The answer to an item of a request, with all fields that it may have."""
    error = {"error_code": code, "error_message": message}
    return {**item, **error, "topic_id": bytes(16), "configs": (), "partitions": -1, "replication_factor": -1}


def _denial(key: int, version: int, request: Mapping[str, Any], denied: Refusal) -> dict[str, Any]:
    error = {"error_code": denied.code, "error_message": denied.message}
    if key == DESCRIBE_LOG_DIRS:
        code = {"error_code": denied.code} if version >= 3 else {}
        return {"throttle_ms": 0, **code, "results": ()}
    topics = [
        {**topic, "partitions": [{**partition, **error} for partition in topic["partitions"]]}
        for topic in request["topics"]
    ]
    return {"throttle_ms": 0, **error, "topics": topics}


def _send(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(pack(">i", len(message)) + message)


def blocks_of_ports(count: int, *, brokers: int) -> list[int]:
    """Different numbers, each a port but for its last digit: with a broker's id for it, that port is free."""
    blocks: list[int] = []
    # Ports that no outgoing connection gets, see devcluster/state.
    for block in random.sample(range(2_000, 3_200), 1_200):
        if len(blocks) == count:
            break
        if all(is_free(block * 10 + broker) for broker in range(1, brokers + 1)):
            blocks.append(block)
    return blocks

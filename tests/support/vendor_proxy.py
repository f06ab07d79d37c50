"""A proxy in front of real brokers that offers no more than a vendor's service does.

Brokers advertise the proxy's address, so that what they say of themselves stands; only answers to ApiVersions
are rewritten. A request that the service does not have gets what brokers give: the connection is closed. What
the service has and refuses in part (a config, a replication factor) is answered with its error code, and the
rest of the request is passed on.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Thread
from typing import Any, NamedTuple, TypeAlias

from kafkaform.devcluster.state import is_free

HOST = "127.0.0.1"
LARGEST = 100 << 20
MOST_CONNECTIONS = 200
LIFETIME_S = 3_600.0
"""How long a proxy lives that nobody ends."""

# --- messages ----------------------------------------------------------------------------------------

Fields: TypeAlias = "Sequence[tuple[str, str | Fields, int]]"
"""The fields of a structure in order: name, type (a nested one is an array of structures), first version."""

_NUMBERS = {"i8": ">b", "i16": ">h", "i32": ">i", "i64": ">q", "bool": ">?"}
_TAGS = "_tags"


class Message(NamedTuple):
    """A request or a response, in the versions from `flexible` on with compact fields and tags (KIP-482)."""

    flexible: int
    fields: Fields

    def decode(self, data: bytes, version: int) -> dict[str, Any]:
        """The fields of a message, tags included."""
        return _read_fields(self.fields, data, 0, version, version >= self.flexible)[0]

    def encode(self, value: Mapping[str, Any], version: int) -> bytes:
        """The bytes of a message; fields that it does not name are zero, empty or null."""
        return _write_fields(self.fields, value, version, version >= self.flexible)


def _read_fields(
    fields: Fields, data: bytes, at: int, version: int, flexible: bool
) -> tuple[dict[str, Any], int]:
    value: dict[str, Any] = {}
    for name, kind, since in fields:
        if version >= since:
            value[name], at = _read(kind, data, at, version, flexible)
    if flexible:
        value[_TAGS], at = read_tags(data, at)
    return value, at


def _read(kind: str | Fields, data: bytes, at: int, version: int, flexible: bool) -> tuple[Any, int]:
    if kind == "uuid":
        return data[at : at + 16], at + 16
    if isinstance(kind, str) and kind in _NUMBERS:
        layout = struct.Struct(_NUMBERS[kind])
        return layout.unpack_from(data, at)[0], at + layout.size
    if kind == "str":
        if flexible:
            length, at = _read_varint(data, at)
            length -= 1
        else:
            (length,) = struct.unpack_from(">h", data, at)
            at += 2
        if length < 0:
            return None, at
        return data[at : at + length].decode(), at + length
    if flexible:
        count, at = _read_varint(data, at)
        count -= 1
    else:
        (count,) = struct.unpack_from(">i", data, at)
        at += 4
    if count < 0:
        return None, at
    values = []
    for _ in range(count):
        if isinstance(kind, str):
            value, at = _read(kind.removeprefix("*"), data, at, version, flexible)
        else:
            value, at = _read_fields(kind, data, at, version, flexible)
        values.append(value)
    return values, at


def _write_fields(fields: Fields, value: Mapping[str, Any], version: int, flexible: bool) -> bytes:
    parts = [
        _write(kind, value.get(name), version, flexible) for name, kind, since in fields if version >= since
    ]
    if flexible:
        tags: Sequence[tuple[int, bytes]] = value.get(_TAGS, ())
        parts.append(_varint(len(tags)))
        parts += [_varint(tag) + _varint(len(content)) + content for tag, content in tags]
    return b"".join(parts)


def _write(kind: str | Fields, value: Any, version: int, flexible: bool) -> bytes:
    if kind == "uuid":
        return value or bytes(16)
    if isinstance(kind, str) and kind in _NUMBERS:
        return struct.pack(_NUMBERS[kind], value or 0)
    if kind == "str":
        content = None if value is None else str(value).encode()
        length = -1 if content is None else len(content)
        prefix = _varint(length + 1) if flexible else struct.pack(">h", length)
        return prefix + (content or b"")
    count = -1 if value is None else len(value)
    parts = [_varint(count + 1) if flexible else struct.pack(">i", count)]
    for item in value or ():
        if isinstance(kind, str):
            parts.append(_write(kind.removeprefix("*"), item, version, flexible))
        else:
            parts.append(_write_fields(kind, item, version, flexible))
    return b"".join(parts)


def read_tags(data: bytes, at: int) -> tuple[list[tuple[int, bytes]], int]:
    """The tagged fields that begin somewhere, and where they end."""
    count, at = _read_varint(data, at)
    tags = []
    for _ in range(count):
        tag, at = _read_varint(data, at)
        length, at = _read_varint(data, at)
        tags.append((tag, data[at : at + length]))
        at += length
    return tags, at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


CREATE_TOPICS, DESCRIBE_CONFIGS, CREATE_PARTITIONS, INCREMENTAL_ALTER_CONFIGS = 19, 32, 37, 44
DESCRIBE_LOG_DIRS, ALTER_REASSIGNMENTS, API_VERSIONS = 35, 45, 18

_API_VERSIONS_RESPONSE = Message(
    3,
    [
        ("error_code", "i16", 0),
        ("api_keys", [("key", "i16", 0), ("least", "i16", 0), ("most", "i16", 0)], 0),
        ("throttle", "i32", 1),
    ],
)


class Api(NamedTuple):
    """A request whose items can be refused one by one.

    Attributes:
        request: Its layout.
        response: The layout of the answer.
        items: The field with what is asked for.
        results: The field with what is answered.
    """

    request: Message
    response: Message
    items: str
    results: str


_ASSIGNMENT: Fields = [("index", "i32", 0), ("brokers", "*i32", 0)]
_CONFIG: Fields = [("name", "str", 0), ("value", "str", 0)]
_CREATED: Fields = [
    ("name", "str", 0),
    ("topic_id", "uuid", 7),
    ("error_code", "i16", 0),
    ("error_message", "str", 1),
    ("partitions", "i32", 5),
    ("replicas", "i16", 5),
    ("configs", [*_CONFIG, ("read_only", "bool", 5), ("source", "i8", 5), ("sensitive", "bool", 5)], 5),
]
_DESCRIBED: Fields = [
    *_CONFIG,
    ("read_only", "bool", 0),
    ("source", "i8", 1),
    ("sensitive", "bool", 0),
    ("synonyms", [*_CONFIG, ("source", "i8", 1)], 1),
    ("type", "i8", 3),
    ("documentation", "str", 3),
]
_RESOURCE: Fields = [
    ("error_code", "i16", 0),
    ("error_message", "str", 0),
    ("type", "i8", 0),
    ("name", "str", 0),
]

APIS = {
    CREATE_TOPICS: Api(
        Message(
            5,
            [
                (
                    "topics",
                    [
                        ("name", "str", 0),
                        ("partitions", "i32", 0),
                        ("replicas", "i16", 0),
                        ("assignments", _ASSIGNMENT, 0),
                        ("configs", _CONFIG, 0),
                    ],
                    0,
                ),
                ("timeout", "i32", 0),
                ("validate_only", "bool", 1),
            ],
        ),
        Message(5, [("throttle", "i32", 2), ("topics", _CREATED, 0)]),
        "topics",
        "topics",
    ),
    DESCRIBE_CONFIGS: Api(
        Message(
            4,
            [
                ("resources", [("type", "i8", 0), ("name", "str", 0), ("keys", "*str", 0)], 0),
                ("synonyms", "bool", 1),
                ("documentation", "bool", 3),
            ],
        ),
        Message(4, [("throttle", "i32", 0), ("results", [*_RESOURCE, ("configs", _DESCRIBED, 0)], 0)]),
        "resources",
        "results",
    ),
    CREATE_PARTITIONS: Api(
        Message(
            2,
            [
                (
                    "topics",
                    [("name", "str", 0), ("count", "i32", 0), ("assignments", [("brokers", "*i32", 0)], 0)],
                    0,
                ),
                ("timeout", "i32", 0),
                ("validate_only", "bool", 0),
            ],
        ),
        Message(
            2,
            [
                ("throttle", "i32", 0),
                ("results", [("name", "str", 0), ("error_code", "i16", 0), ("error_message", "str", 0)], 0),
            ],
        ),
        "topics",
        "results",
    ),
    INCREMENTAL_ALTER_CONFIGS: Api(
        Message(
            1,
            [
                (
                    "resources",
                    [
                        ("type", "i8", 0),
                        ("name", "str", 0),
                        ("configs", [("name", "str", 0), ("operation", "i8", 0), ("value", "str", 0)], 0),
                    ],
                    0,
                ),
                ("validate_only", "bool", 0),
            ],
        ),
        Message(1, [("throttle", "i32", 0), ("responses", _RESOURCE, 0)]),
        "resources",
        "responses",
    ),
    DESCRIBE_LOG_DIRS: Api(
        Message(2, []),
        # What a cluster that denies it answers: from version 3 on with the code, before with no directory.
        Message(
            2, [("throttle", "i32", 0), ("error_code", "i16", 3), ("results", [("error_code", "i16", 0)], 0)]
        ),
        "",
        "",
    ),
    ALTER_REASSIGNMENTS: Api(
        Message(
            0,
            [
                ("timeout", "i32", 0),
                (
                    "topics",
                    [
                        ("name", "str", 0),
                        ("partitions", [("index", "i32", 0), ("replicas", "*i32", 0)], 0),
                    ],
                    0,
                ),
            ],
        ),
        Message(
            0,
            [
                ("throttle", "i32", 0),
                ("error_code", "i16", 0),
                ("error_message", "str", 0),
                (
                    "responses",
                    [
                        ("name", "str", 0),
                        (
                            "partitions",
                            [("index", "i32", 0), ("error_code", "i16", 0), ("error_message", "str", 0)],
                            0,
                        ),
                    ],
                    0,
                ),
            ],
        ),
        "topics",
        "responses",
    ),
}

# --- profiles ----------------------------------------------------------------------------------------


class Refusal(NamedTuple):
    """An error that a service answers with."""

    code: int
    message: str


Policy: TypeAlias = "Callable[[dict[str, Any]], Refusal | None]"
"""What is said to an item of a request; it may take from the item what the service ignores."""


@dataclass(frozen=True)
class Profile:
    """What a service offers.

    Attributes:
        name: Its name.
        offered: The versions of each request that it has; None for those of the brokers.
        hidden: Requests that it does not have, where `offered` is None or names them.
        capped: The highest versions of requests, where `offered` is None.
        policies: What it refuses, by the request.
        denied: Requests that it refuses whole, with the code.
        hangs_up_on_newer: Another ApiVersions closes the connection; brokers answer which they have.
    """

    name: str
    offered: Mapping[int, tuple[int, int]] | None = None
    hidden: frozenset[int] = frozenset()
    capped: Mapping[int, int] = field(default_factory=dict)
    policies: Mapping[int, Policy] = field(default_factory=dict)
    denied: Mapping[int, Refusal] = field(default_factory=dict)
    hangs_up_on_newer: bool = False

    def versions(self, key: int, least: int, most: int) -> tuple[int, int] | None:
        """The versions of a request that are left of those of a broker; None for none."""
        if key in self.hidden:
            return None
        if self.offered is not None:
            if key not in self.offered:
                return None
            least, most = max(least, self.offered[key][0]), min(most, self.offered[key][1])
        most = min(most, self.capped.get(key, most))
        return (least, most) if least <= most else None


EVERYTHING = Profile("apache-kafka")
"""The brokers as they are."""

# --- the proxy ---------------------------------------------------------------------------------------


class VendorProxy:
    """Listens for clients, and passes on what the profile lets through.

    Attributes:
        profile: What new connections get.
        closed: How often each request, by key and version, closed its connection.
        refused: How often each request, by key, was answered with an error of the profile.
    """

    def __init__(self, ports: Mapping[int, int], profile: Profile = EVERYTHING) -> None:
        """Prepare a proxy.

        Args:
            ports: The port of a broker by the port to listen on.
            profile: What is offered.
        """
        self.profile = profile
        self.closed: Counter[tuple[int, int]] = Counter()
        self.refused: Counter[int] = Counter()
        self._ports = ports
        self._ready = Event()
        self._failure: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = Thread(target=self._run, name="vendor-proxy", daemon=True)

    @property
    def bootstrap_servers(self) -> str:
        """Where clients reach the brokers."""
        return ",".join(f"{HOST}:{port}" for port in self._ports)

    def __enter__(self) -> VendorProxy:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # its life was over before
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    @contextmanager
    def offering(self, profile: Profile) -> Iterator[VendorProxy]:
        """Offer what a profile has, for a while, and count anew."""
        before, self.profile = self.profile, profile
        self.closed.clear()
        self.refused.clear()
        try:
            yield self
        finally:
            self.profile = before

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised again where it is started
            self._failure = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        servers = [
            await asyncio.start_server(partial(self._accept, upstream), HOST, port)
            for port, upstream in self._ports.items()
        ]
        self._ready.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), LIFETIME_S)
        for server in servers:
            server.close()
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
            with _closing(broker_writer):
                await _Exchange(self, client_writer, broker_writer).run(client_reader, broker_reader)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # one side is gone, and so the other one is told
        finally:
            self._connections.discard(task)
            client_writer.close()


@contextmanager
def _closing(writer: asyncio.StreamWriter) -> Iterator[None]:
    try:
        yield
    finally:
        writer.close()


class _HungUp(OSError):  # noqa: N818
    """The service does not know a request, and closes the connection."""


@dataclass
class _Pending:
    """A request that waits for its answer."""

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
        """Pass messages both ways until one side ends."""
        tasks = {
            asyncio.ensure_future(self._each(client, self._on_request)),
            asyncio.ensure_future(self._each(broker, self._on_response)),
        }
        _, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _each(self, reader: asyncio.StreamReader, handle: Callable[[bytes], None]) -> None:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            if not 0 < size <= LARGEST:
                raise _HungUp(f"a message of {size} bytes")
            handle(await reader.readexactly(size))
            await self._client.drain()
            await self._broker.drain()

    def _on_request(self, message: bytes) -> None:
        key, version, correlation = struct.unpack_from(">hhi", message)
        profile, proxy = self._profile, self._proxy
        allowed = profile.versions(key, 0, 0x7FFF)
        if allowed is None or not allowed[0] <= version <= allowed[1]:
            if key == API_VERSIONS and allowed and not profile.hangs_up_on_newer:
                answer = {
                    "error_code": 35,
                    "api_keys": [{"key": key, "least": allowed[0], "most": allowed[1]}],
                }
                self._queue_own(correlation, _API_VERSIONS_RESPONSE.encode(answer, 0))
                return
            proxy.closed[key, version] += 1
            raise _HungUp
        if key in profile.denied or key in profile.policies:
            message = self._judge(message, key, version, correlation)
            if not message:
                return
        elif key == API_VERSIONS:
            self._pending[correlation] = _Pending(key, version, [])
        self._order.append(correlation)
        _send(self._broker, message)

    def _judge(self, message: bytes, key: int, version: int, correlation: int) -> bytes:
        """What is left of a request to be passed on; nothing if all of it was answered."""
        api = APIS[key]
        flexible = version >= api.request.flexible
        (name_length,) = struct.unpack_from(">h", message, 8)
        at = 10 + max(0, name_length)
        if flexible:
            _, at = read_tags(message, at)
        header = message[:at]
        if (denied := self._profile.denied.get(key)) is not None:
            self._proxy.refused[key] += 1
            request = api.request.decode(message[at:], version) if api.items else {}
            self._queue_own(correlation, _denial(key, request, denied, version), flexible=flexible)
            return b""
        request = api.request.decode(message[at:], version)
        policy, passed, results = self._profile.policies[key], [], []
        for item in request[api.items]:
            had = bool(item.get("configs"))
            refusal = policy(item)
            if refusal is None and key == INCREMENTAL_ALTER_CONFIGS and had and not item["configs"]:
                results.append({**item, "error_code": 0})  # all of it is ignored
            elif refusal is None:
                passed.append(item)
            else:
                self._proxy.refused[key] += 1
                refused = {"error_code": refusal.code, "error_message": refusal.message, "configs": ()}
                results.append({**item, **refused})
        if not passed and results:
            answer = api.response.encode({api.results: results}, version)
            self._queue_own(correlation, answer, flexible=flexible)
            return b""
        self._pending[correlation] = _Pending(key, version, results)
        return header + api.request.encode({**request, api.items: passed}, version)

    def _queue_own(self, correlation: int, body: bytes, *, flexible: bool = False) -> None:
        """Answer in the broker's place, after what was asked before: clients count on the order."""
        self._own[correlation] = struct.pack(">i", correlation) + (b"\0" if flexible else b"") + body
        self._order.append(correlation)
        self._flush_own()

    def _flush_own(self) -> None:
        while self._order and self._order[0] in self._own:
            _send(self._client, self._own.pop(self._order.pop(0)))

    def _on_response(self, message: bytes) -> None:
        (correlation,) = struct.unpack_from(">i", message)
        with suppress(ValueError):  # answers to Produce without acks never come
            self._order.remove(correlation)
        pending = self._pending.pop(correlation, None)
        if pending is not None and pending.key == API_VERSIONS:
            message = message[:4] + self._rewritten(message[4:], pending.version)
        elif pending is not None and pending.results:
            response = APIS[pending.key].response
            at = 4
            if pending.version >= response.flexible:
                _, at = read_tags(message, at)
            answer = response.decode(message[at:], pending.version)
            answer[APIS[pending.key].results] += pending.results
            message = message[:at] + response.encode(answer, pending.version)
        _send(self._client, message)
        self._flush_own()

    def _rewritten(self, body: bytes, version: int) -> bytes:
        (error,) = struct.unpack_from(">h", body)
        if error:
            return body
        answer = _API_VERSIONS_RESPONSE.decode(body, version)
        kept = []
        for entry in answer["api_keys"]:
            versions = self._profile.versions(entry["key"], entry["least"], entry["most"])
            if versions is not None:
                kept.append({**entry, "least": versions[0], "most": versions[1]})
        return _API_VERSIONS_RESPONSE.encode({**answer, "api_keys": kept}, version)


def _denial(key: int, request: Mapping[str, Any], denied: Refusal, version: int) -> bytes:
    error = {"error_code": denied.code, "error_message": denied.message}
    answer: dict[str, Any] = {**error, "results": (), "responses": ()}
    if key == ALTER_REASSIGNMENTS:
        answer["responses"] = [
            {**topic, "partitions": [{**partition, **error} for partition in topic["partitions"]]}
            for topic in request["topics"]
        ]
    return APIS[key].response.encode(answer, version)


def _send(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(struct.pack(">i", len(message)) + message)


# --- brokers behind it ---------------------------------------------------------------------------------


def blocks_of_ports(count: int, *, brokers: int) -> list[int]:
    """Different numbers, each a port but for its last digit: with a broker's id for it, that port is free."""
    blocks: list[int] = []
    tens = random.sample(
        range(2_000, 3_200), 1_200
    )  # ports that no outgoing connection gets, see devcluster/state
    for block in tens:
        if len(blocks) == count:
            break
        if all(is_free(block * 10 + broker) for broker in range(1, brokers + 1)):
            blocks.append(block)
    return blocks


def advertised(block: int, internal: int) -> dict[str, str]:
    """The properties of brokers whose clients go through a proxy, and that find each other without it.

    Args:
        block: The ports that clients are told; see `blocks_of_ports`.
        internal: The ports for the other brokers.
    """
    own = f"INTERNAL://{HOST}:{internal}{{node_id}}"
    return {
        "listeners": f"PLAINTEXT://{HOST}:{{port}},{own},CONTROLLER://{HOST}:{{controller_port}}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{block}{{node_id}},{own}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }

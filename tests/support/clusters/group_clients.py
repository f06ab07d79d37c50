"""Members of real groups: consumers of both protocols, and share and streams members by their heartbeats."""

import logging
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from confluent_kafka import Consumer, Message, Producer

from kafkaform.cluster.kafka import coordinators
from kafkaform.cluster.wire.group_messages import DESCRIBE_CLASSIC, JOIN_GROUP, LEAVE_GROUP
from kafkaform.cluster.wire.message_schema import (
    BOOLEAN,
    INT8,
    INT16,
    INT32,
    NULLABLE_STRING,
    STRING,
    Codec,
    FieldType,
    RequestType,
    array,
    message,
    nullable,
    since,
    struct,
)
from tests.support.clusters.fixtures import TIMEOUT_S, connect, eventually, open_connection

KEYS = 20
"""The keys of numbered records."""


def produce(
    bootstrap_servers: str, topic: str, records: Mapping[int, int], *, at_ms: int | None = None
) -> None:
    """Write so many records to each partition, all with one timestamp if one is given."""
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for partition, count in records.items():
        for number in range(count):
            producer.produce(topic, str(number), partition=partition, timestamp=at_ms or 0)  # 0 is now
    assert producer.flush(TIMEOUT_S) == 0


def write_numbers(bootstrap_servers: str, topic: str, numbers: Sequence[int], *, at_ms: int = 0) -> None:
    """Write the records of these numbers, each with the key of its remainder; 0 stands for now."""
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in numbers:
        producer.produce(topic, str(number), str(number % KEYS), timestamp=at_ms)
    assert producer.flush(TIMEOUT_S) == 0


def read_numbers(
    bootstrap_servers: str, group: str, topic: str, records: int, protocol: str = "classic", **properties: str
) -> list[int]:
    """Read so many records as a member of a group, commit, and leave; returns their numbers."""
    numbers: list[int] = []
    deadline = time.monotonic() + TIMEOUT_S
    with closing(consumer(bootstrap_servers, group, protocol, **properties)) as client:
        client.subscribe([topic])
        while len(numbers) < records and time.monotonic() < deadline:
            message = client.poll(0.5)
            if message is not None:
                assert message.error() is None, message.error()
                numbers.append(int(message.value() or b""))
        assert len(numbers) == records
        client.commit(asynchronous=False)
    return numbers


def check_order(numbers: Sequence[int], expected: Sequence[int]) -> None:
    """Fail unless each number was read once, and those of each key in their order."""
    assert sorted(numbers) == sorted(expected)
    for key in range(KEYS):
        of_key = [number for number in numbers if number % KEYS == key]
        assert of_key == sorted(of_key), f"key {key} is out of order"


def consumer(bootstrap_servers: str, group: str, protocol: str = "classic", **properties: object) -> Consumer:
    """A consumer that commits only when it is told to; property names have underscores for dots.

    It soon learns of a rebalance: by the other protocol, the brokers of tests say how soon.
    """
    given: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "group.protocol": protocol,
        **({"heartbeat.interval.ms": 500} if protocol == "classic" else {}),
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "logger": logging.getLogger("tests.librdkafka"),
        **{name.replace("_", "."): value for name, value in properties.items()},
    }
    return Consumer(given)


class Running:
    """A consumer that polls in a thread, as an application does.

    Attributes:
        records: Topic, partition and offset of each record that it got.
    """

    def __init__(self, client: Consumer, topics: Sequence[str]) -> None:
        self.records: list[tuple[str, int, int]] = []
        self._client = client
        self._stop = threading.Event()
        client.subscribe(list(topics))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._client.poll(0.05)
            if isinstance(message, Message) and message.error() is None:
                offset = message.offset()
                assert offset is not None
                self.records.append((str(message.topic()), int(message.partition() or 0), offset))

    def firsts(self) -> dict[tuple[str, int], int]:
        """The first offset that it got of each partition."""
        firsts: dict[tuple[str, int], int] = {}
        for topic, partition, offset in self.records:
            firsts.setdefault((topic, partition), offset)
        return firsts

    def close(self) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)
        self._client.close()


@contextmanager
def running(
    bootstrap_servers: str,
    group: str,
    topics: Sequence[str],
    protocol: str = "classic",
    *,
    members: int = 1,
    **properties: object,
) -> Iterator[list[Running]]:
    """So many members of a group at work."""
    with ExitStack() as stack:
        clients = (consumer(bootstrap_servers, group, protocol, **properties) for _ in range(members))
        yield [stack.enter_context(closing(Running(client, topics))) for client in clients]


@contextmanager
def join_members(
    bootstrap_servers: str,
    group: str,
    topic: str,
    protocol: str = "classic",
    *,
    members: int = 1,
    **properties: object,
) -> Iterator[list[Consumer]]:
    """So many members of a group, once its coordinator counts all of them and each has its partitions.

    What clients hold is no sign of it: two hold all partitions before the coordinator hears of a third.
    """
    with connect(bootstrap_servers) as cluster, ExitStack() as stack:
        partitions = cluster.partition_counts([topic])[topic]
        clients = []
        for number in range(members):
            client = consumer(bootstrap_servers, group, protocol, client_id=f"app-{number}", **properties)
            clients.append(stack.enter_context(closing(client)))
            client.subscribe([topic])

        def read_counts() -> tuple[str, int, int, int] | None:
            held = sum(len((client.poll(0.05), client.assignment())[1]) for client in clients)
            seen = cluster.groups([group]).groups.get(group)
            if seen is None:
                return None
            handed_out = sum(len(member.assignment) for member in seen.members)
            return seen.state, len(seen.members), handed_out, held

        eventually(read_counts, lambda counts: counts == ("Stable", members, partitions, partitions))
        yield clients


def commit(bootstrap_servers: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit offsets as a consumer without a subscription does."""
    with open_connection(bootstrap_servers) as connection:
        eventually(
            lambda: coordinators.commit(connection, group, offsets, TIMEOUT_S), lambda errors: not errors
        )


def _rest_codec(_version: int, _flexible: bool) -> Codec:
    return Codec(lambda body, _: (body, len(body) - 1), bytes)


_REST: FieldType = _rest_codec
"""All further fields of an answer, but for the count of its tagged ones."""
_ANSWER = struct(
    throttle_ms=INT32,
    error_code=INT16,
    error_message=NULLABLE_STRING,
    member_id=NULLABLE_STRING,
    epoch=INT32,
    rest=_REST,
)
_MEMBER = {"group": STRING, "member_id": STRING, "epoch": INT32}
# What is null or empty looks the same whatever it might have in it.
_NULL = since(0, NULLABLE_STRING)
_NO_STRUCT = since(0, INT8, -1)
_NO_ARRAY = since(0, array(STRING, nullable=True))
_EMPTY = since(0, array(STRING), ())
_SUBTOPOLOGY = struct(
    id=STRING,
    source_topics=array(STRING),
    source_patterns=_EMPTY,
    changelogs=_EMPTY,
    sink_topics=_EMPTY,
    repartition_topics=_EMPTY,
    copartition_groups=_EMPTY,
)


class Heartbeats:
    """A member that only sends heartbeats, on our own connection: no client for Python can be one."""

    request_type: RequestType[Any]

    def __init__(self, bootstrap_servers: str, group: str, topic: str) -> None:
        self._stack = ExitStack()
        self.connection = self._stack.enter_context(open_connection(bootstrap_servers))
        self.group, self.topic = group, topic
        self.id, self.epoch = str(uuid.uuid4()), 0

    def beat(self) -> tuple[int, str]:
        """Send one; returns the error code and its words. The first one joins."""
        request = {"group": self.group, "member_id": self.id, "epoch": self.epoch, **self.request()}
        answer = self.send(self.request_type, request)
        if answer["error_code"] == 0:
            self.epoch = answer["epoch"]
        return answer["error_code"], answer["error_message"] or ""

    def request(self) -> Mapping[str, Any]:
        """The fields that a kind of groups has for itself."""
        raise NotImplementedError

    def join(self) -> None:
        """Become a member; coordinators are told of new topics with a delay."""
        eventually(self.beat, lambda told: told[0] == 0)

    def close(self) -> None:
        self.epoch = -1
        self.beat()
        self._stack.close()

    def send(self, request_type: RequestType[Any], request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request to the coordinator, once there is one."""
        answer: Mapping[str, Any]
        (node,) = eventually(self._find_coordinator, bool)
        (answer,) = self.connection.send(request_type, [request], node=node)
        return answer

    def _find_coordinator(self) -> list[int]:
        found = coordinators.query_coordinators(
            self.connection,
            DESCRIBE_CLASSIC,
            [self.group],
            lambda groups: {"groups": groups},
            lambda _, node: node,
        )
        return [*found.found.values()]


class ShareMember(Heartbeats):
    request_type = message(
        76, "ShareGroupHeartbeat", (1, 1), 0, struct(**_MEMBER, rack=_NULL, topics=array(STRING)), _ANSWER
    )

    def request(self) -> Mapping[str, Any]:
        return {"topics": [self.topic]}


class StreamsMember(Heartbeats):
    """A member of a streams group (KIP-1071), with one subtopology that reads one topic."""

    request_type = message(
        88,
        "StreamsGroupHeartbeat",
        (0, 0),
        0,
        struct(
            **_MEMBER,
            endpoint_epoch=since(0, INT32, 0),
            instance=_NULL,
            rack=_NULL,
            rebalance_timeout_ms=since(0, INT32, 60_000),
            topology=nullable(struct(epoch=since(0, INT32, 0), subtopologies=array(_SUBTOPOLOGY))),
            active=_EMPTY,
            standby=_EMPTY,
            warmup=_EMPTY,
            process=STRING,
            endpoint=_NO_STRUCT,
            tags=_EMPTY,
            offsets=_NO_ARRAY,
            end_offsets=_NO_ARRAY,
            shutdown=since(0, BOOLEAN, False),
        ),
        _ANSWER,
    )

    def request(self) -> Mapping[str, Any]:
        subtopologies = [{"id": "0", "source_topics": [self.topic]}]
        return {"process": self.id, "topology": {"subtopologies": subtopologies}}


class ConnectWorker(Heartbeats):
    """A member of a classic group that is no consumer; it joins, and leaves by JoinGroup and LeaveGroup."""

    def join(self) -> None:
        """Ask for an id, and join with it."""
        self.id = ""

        def send() -> Mapping[str, Any]:
            request = {
                "group_id": self.group,
                "session_ms": 30_000,
                "rebalance_ms": 30_000,
                "member_id": self.id,
                "protocol_type": "connect",
                "protocols": [{"name": "compatible", "metadata": b""}],
            }
            answer = self.send(JOIN_GROUP, request)
            self.id = answer["member_id"]
            return answer

        # The first answer has the id; coordinators of a cluster that has just started have to load before.
        eventually(send, lambda answer: answer["error_code"] == 0)

    def close(self) -> None:
        request = {"group_id": self.group, "members": [{"member_id": self.id}]}
        assert self.send(LEAVE_GROUP, request)["error_code"] == 0
        self._stack.close()

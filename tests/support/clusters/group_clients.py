"""Members of real groups: consumers of both protocols, and share and streams members by their heartbeats."""

import logging
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.group_messages import FIND_COORDINATOR, FIND_COORDINATORS, JOIN_GROUP, LEAVE_GROUP
from kafkaform.cluster.wire.message_schema import (
    BOOLEAN,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UUID,
    RequestType,
    array,
    message,
    nullable,
    struct,
)
from kafkaform.config.client_properties import to_librdkafka, to_transport
from tests.support.clusters.fixtures import TIMEOUT_S, connect, eventually

_MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""The errors of a coordinator that is new, as the first one of a cluster is."""
KEYS = 20
"""The keys of numbered records."""
_STRINGS = array(STRING, nullable=True)
_TASKS = array(struct(subtopology=STRING, partitions=array(INT32)), nullable=True)
_TASK_OFFSETS = array(struct(subtopology=STRING, partition=INT32, offset=INT64), nullable=True)
_TOPIC_PARTITIONS = array(struct(topic_id=UUID, partitions=array(INT32)))
_HEAD = {
    "throttle_ms": INT32,
    "error_code": INT16,
    "error_message": NULLABLE_STRING,
    "member_id": NULLABLE_STRING,
    "epoch": INT32,
    "heartbeat_ms": INT32,
}
_MEMBER = {"group": STRING, "member_id": STRING, "epoch": INT32}


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


def membership(group: str, protocol: str) -> dict[str, str | int]:
    """Properties of a member that soon learns of a rebalance; the other protocol's are on the broker."""
    given: dict[str, str | int] = {"group.id": group, "group.protocol": protocol}
    return {**given, "heartbeat.interval.ms": 500} if protocol == "classic" else given


def consumer(bootstrap_servers: str, group: str, protocol: str = "classic", **properties: object) -> Consumer:
    """A consumer that commits only when it is told to; property names have underscores for dots."""
    given: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers,
        **membership(group, protocol),
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
                self.records.append((str(message.topic()), int(message.partition() or 0), _offset(message)))

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


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


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
        made = []
        for _ in range(members):
            made.append(Running(consumer(bootstrap_servers, group, protocol, **properties), topics))
            stack.callback(made[-1].close)
        yield made


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
    client = consumer(bootstrap_servers, group)
    wanted = [TopicPartition(*at, offset) for at, offset in offsets.items()]

    def committed() -> bool:
        try:
            client.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in _MOVING:
                raise
            return False
        return True

    eventually(committed, bool)
    client.close()


class Heartbeats:
    """A member that only sends heartbeats, on our own connection: no client for Python can be one."""

    request_type: RequestType[Any]

    def __init__(self, bootstrap_servers: str, group: str, topic: str) -> None:
        given = {"bootstrap.servers": bootstrap_servers}
        self.connection = Connection(to_librdkafka(given), lambda: to_transport(given))
        self.group, self.topic = group, topic
        self.id, self.epoch = str(uuid.uuid4()), 0

    def beat(self) -> tuple[int, str]:
        """Send one; returns the error code and its words. The first one joins."""
        (answer,) = self.connection.send(self.request_type, [self.request()], node=self.coordinator())
        if answer["error_code"] == 0:
            self.epoch = answer["epoch"]
        return answer["error_code"], answer["error_message"] or ""

    def request(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def join(self) -> None:
        """Become a member; coordinators are told of new topics with a delay."""
        eventually(self.beat, lambda told: told[0] == 0)

    def close(self) -> None:
        self.epoch = -1
        self.beat()
        self.connection.close()

    def coordinator(self) -> int:
        return coordinator(self.connection, self.group)


def coordinator(connection: Connection, group: str) -> int:
    def send() -> Mapping[str, Any]:
        if not connection.offers(FIND_COORDINATORS):
            old: Mapping[str, Any]
            (old,) = connection.send(FIND_COORDINATOR, [{"key": group, "key_type": 0}])
            return old
        (answer,) = connection.send(FIND_COORDINATORS, [{"key_type": 0, "keys": [group]}])
        found: Mapping[str, Any] = answer["coordinators"][0]
        return found

    return int(eventually(send, lambda told: told["error_code"] == 0)["node_id"])


class ShareMember(Heartbeats):
    request_type = message(
        76,
        "ShareGroupHeartbeat",
        (1, 1),
        0,
        struct(**_MEMBER, rack=NULLABLE_STRING, topics=_STRINGS),
        struct(**_HEAD, assignment=nullable(struct(topics=_TOPIC_PARTITIONS))),
    )

    def request(self) -> Mapping[str, Any]:
        return {
            "group": self.group,
            "member_id": self.id,
            "epoch": self.epoch,
            "rack": None,
            "topics": [self.topic],
        }


_TOPIC_INFO = struct(
    name=STRING, partitions=INT32, replication=INT16, configs=array(struct(key=STRING, value=STRING))
)
_SUBTOPOLOGY = struct(
    id=STRING,
    source_topics=array(STRING),
    source_patterns=array(STRING),
    changelogs=array(_TOPIC_INFO),
    sink_topics=array(STRING),
    repartition_topics=array(_TOPIC_INFO),
    copartition_groups=array(INT16),
)
_ENDPOINT = struct(host=STRING, port=INT16)


class StreamsMember(Heartbeats):
    """A member of a streams group (KIP-1071), with one subtopology that reads one topic."""

    request_type = message(
        88,
        "StreamsGroupHeartbeat",
        (0, 0),
        0,
        struct(
            **_MEMBER,
            endpoint_epoch=INT32,
            instance=NULLABLE_STRING,
            rack=NULLABLE_STRING,
            rebalance_timeout_ms=INT32,
            topology=nullable(struct(epoch=INT32, subtopologies=array(_SUBTOPOLOGY))),
            active=_TASKS,
            standby=_TASKS,
            warmup=_TASKS,
            process=NULLABLE_STRING,
            endpoint=nullable(_ENDPOINT),
            tags=array(struct(key=STRING, value=STRING), nullable=True),
            offsets=_TASK_OFFSETS,
            end_offsets=_TASK_OFFSETS,
            shutdown=BOOLEAN,
        ),
        struct(
            throttle_ms=INT32,
            error_code=INT16,
            error_message=NULLABLE_STRING,
            member_id=STRING,
            epoch=INT32,
            heartbeat_ms=INT32,
            acceptable_lag=INT32,
            offset_interval_ms=INT32,
            status=array(struct(code=INT8, detail=STRING), nullable=True),
            active=_TASKS,
            standby=_TASKS,
            warmup=_TASKS,
            endpoint_epoch=INT32,
            partitions_by_endpoint=array(
                struct(
                    endpoint=_ENDPOINT,
                    active=array(struct(topic=STRING, partitions=array(INT32))),
                    standby=array(struct(topic=STRING, partitions=array(INT32))),
                ),
                nullable=True,
            ),
        ),
    )

    def request(self) -> Mapping[str, Any]:
        joining = self.epoch == 0
        tasks = () if joining else None
        return {
            "group": self.group,
            "member_id": self.id,
            "epoch": self.epoch,
            "endpoint_epoch": 0,
            "instance": None,
            "rack": None,
            "rebalance_timeout_ms": 60_000 if joining else -1,
            "topology": self._topology() if joining else None,
            "active": tasks,
            "standby": tasks,
            "warmup": tasks,
            "process": self.id if joining else None,
            "endpoint": None,
            "tags": tasks,
            "offsets": None,
            "end_offsets": None,
            "shutdown": False,
        }

    def _topology(self) -> Mapping[str, Any]:
        none: dict[str, Any] = dict.fromkeys(
            ("source_patterns", "changelogs", "sink_topics", "repartition_topics", "copartition_groups"), ()
        )
        return {"epoch": 0, "subtopologies": [{"id": "0", "source_topics": [self.topic], **none}]}


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
            answer: Mapping[str, Any]
            (answer,) = self.connection.send(JOIN_GROUP, [request], node=self.coordinator())
            self.id = answer["member_id"]
            return answer

        # The first answer has the id; coordinators of a cluster that has just started have to load before.
        eventually(send, lambda answer: answer["error_code"] == 0)

    def close(self) -> None:
        request = {"group_id": self.group, "members": [{"member_id": self.id}]}
        (answer,) = self.connection.send(LEAVE_GROUP, [request], node=self.coordinator())
        assert answer["error_code"] == 0
        self.connection.close()

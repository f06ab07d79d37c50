"""Members of real groups: consumers of both protocols, and share and streams members by their heartbeats."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from struct import pack
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from kafkaform.cluster.transport.api import Api, RequestType
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire import group_messages
from kafkaform.cluster.wire.group_messages import strings
from kafkaform.cluster.wire.large_answers import length, string
from kafkaform.cluster.wire.message_schema import (
    INT8,
    INT16,
    INT32,
    NULLABLE_STRING,
    array,
    octets,
    struct,
    whole,
)
from kafkaform.config.client_properties import to_kafka_python, to_librdkafka
from tests.support.kafka_fixtures import TIMEOUT_S, eventually

_NULL, _NO_TAGS, _EMPTY, _NULL_STRUCT, _STRUCT = b"\x00", b"\x00", b"\x01", b"\xff", b"\x01"


def produce(
    bootstrap_servers: str, topic: str, records: Mapping[int, int], *, at_ms: int | None = None
) -> None:
    """Write so many records to each partition, all with one timestamp if one is given."""
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for partition, count in records.items():
        for number in range(count):
            producer.produce(topic, str(number), partition=partition, timestamp=at_ms or 0)  # 0 is now
    assert producer.flush(TIMEOUT_S) == 0


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
        """Leave the group."""
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
    instance_ids: Sequence[str] = (),
    **properties: object,
) -> Iterator[list[Running]]:
    """So many members of a group at work; `instance_ids` makes the first of them static."""
    with ExitStack() as stack:
        made = []
        for number in range(members):
            static = {"group_instance_id": instance_ids[number]} if number < len(instance_ids) else {}
            client = consumer(bootstrap_servers, group, protocol, **static, **properties)
            made.append(Running(client, topics))
            stack.callback(made[-1].close)
        yield made


def commit(bootstrap_servers: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit offsets as a consumer without a subscription does."""
    client = consumer(bootstrap_servers, group)
    client.commit(offsets=[TopicPartition(*at, offset) for at, offset in offsets.items()], asynchronous=False)
    client.close()


class Heartbeats:
    """A member that only sends heartbeats, in our own bytes: no client for Python can be such a member.

    Args:
        bootstrap_servers: Where.
        group: The group to join.
        topic: What to read.
    """

    api: Api

    def __init__(self, bootstrap_servers: str, group: str, topic: str) -> None:
        given = {"bootstrap.servers": bootstrap_servers}
        self.connection = Connection(to_librdkafka(given), lambda: to_kafka_python(given))
        self.group, self.topic = group, topic
        self.id, self.epoch = str(uuid.uuid4()), 0

    def beat(self) -> tuple[int, str]:
        """Send one; returns the error code and its words. The first one joins."""
        (raw,) = self.connection.ask(RequestType(self.api, bytes), [self.body()], node=self.coordinator())
        head = struct(
            throttle_ms=INT32, code=INT16, words=NULLABLE_STRING, member_id=NULLABLE_STRING, epoch=INT32
        )
        # What comes behind is not of interest here, and ends in tagged fields as a structure does.
        told, _ = head(raw[: _head_length(raw)] + _NO_TAGS, 0)
        if told["code"] == 0:
            self.epoch = told["epoch"]
        return told["code"], told["words"] or ""

    def body(self) -> bytes:
        """The body of a heartbeat."""
        raise NotImplementedError

    def join(self) -> None:
        """Become a member; coordinators are told of new topics with a delay."""
        eventually(self.beat, lambda told: told[0] == 0)

    def close(self) -> None:
        """Leave the group."""
        self.epoch = -1
        self.beat()
        self.connection.close()

    def coordinator(self) -> int:
        """The broker that coordinates the group."""

        def ask() -> Mapping[str, Any]:
            body = group_messages.groups_to_find([self.group])
            (answer,) = self.connection.ask(group_messages.FIND_COORDINATORS, [body])
            told: Mapping[str, Any] = answer["coordinators"][0]
            return told

        return int(eventually(ask, lambda told: told["error_code"] == 0)["node_id"])


def _head_length(raw: bytes) -> int:
    at = 6  # throttle time, error code
    for _ in ("error message", "member id"):
        _, at = NULLABLE_STRING(raw, at)
    return at + 4


class ShareMember(Heartbeats):
    """A member of a share group (KIP-932)."""

    api = Api(76, 1, flexible=True)

    def body(self) -> bytes:
        rack = _NULL
        return b"".join(
            (
                string(self.group),
                string(self.id),
                pack(">i", self.epoch),
                rack,
                strings([self.topic]),
                _NO_TAGS,
            )
        )


class StreamsMember(Heartbeats):
    """A member of a streams group (KIP-1071), with one subtopology that reads one topic."""

    api = Api(88, 0, flexible=True)

    def body(self) -> bytes:
        joining = self.epoch == 0
        instance, rack, endpoint_epoch = _NULL, _NULL, pack(">i", 0)
        tasks = _EMPTY * 3 if joining else _NULL * 3
        return b"".join(
            (
                string(self.group),
                string(self.id),
                pack(">i", self.epoch),
                endpoint_epoch,
                instance,
                rack,
                pack(">i", 60_000 if joining else -1),
                self._topology() if joining else _NULL_STRUCT,
                tasks,
                string(self.id) if joining else _NULL,  # process
                _NULL_STRUCT,  # endpoint
                _EMPTY if joining else _NULL,  # client tags
                _NULL * 2,  # task offsets
                b"\x00",  # no shutdown
                _NO_TAGS,
            )
        )

    def _topology(self) -> bytes:
        topics = strings([self.topic])
        subtopology = string("0") + topics + _EMPTY * 5 + _NO_TAGS
        return _STRUCT + pack(">i", 0) + length(2) + subtopology + _NO_TAGS


class ConnectWorker(Heartbeats):
    """A member of a classic group that is no consumer; it joins, and leaves by JoinGroup and LeaveGroup."""

    def join(self) -> None:
        """Ask for an id, and join with it."""
        self.id = ""
        for _ in range(2):
            joined = struct(
                throttle_ms=INT32,
                code=INT16,
                generation=INT32,
                protocol_type=NULLABLE_STRING,
                protocol=NULLABLE_STRING,
                leader=NULLABLE_STRING,
                skip_assignment=INT8,
                member_id=NULLABLE_STRING,
                members=array(struct(id=NULLABLE_STRING, instance=NULLABLE_STRING, metadata=octets)),
            )
            request_type = RequestType(Api(11, 9, flexible=True), whole(joined))
            (told,) = self.connection.ask(request_type, [self.body()], node=self.coordinator())
            self.id = told["member_id"]
        assert told["code"] == 0

    def body(self) -> bytes:
        timeouts = pack(">ii", 30_000, 30_000)
        protocol = string("compatible") + length(1) + _NO_TAGS
        who = string(self.id) + _NULL + string("connect")
        return string(self.group) + timeouts + who + length(2) + protocol + _NULL + _NO_TAGS

    def close(self) -> None:
        """Leave the group."""
        member = string(self.id) + _NULL + _NULL + _NO_TAGS
        body = string(self.group) + length(2) + member + _NO_TAGS
        self.connection.ask(RequestType(Api(13, 5, flexible=True), bytes), [body], node=self.coordinator())
        self.connection.close()

"""The first and last offsets of partitions, asked of their leaders on our own connections.

librdkafka's admin client asks for them, too (ListOffsets), and ended one apply in thirty by SIGSEGV on a
loaded machine: its worker runs on the caller's thread and locks the mutex of a query that another thread has
freed (`rd_kafka_topic_partition_list_query_leaders_async_worker` of librdkafka 2.16). Where it alone can log
in, a consumer asks, which has no such worker.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafkaform.cluster.kafka.topic_sources import THERE, describe_topics
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import (
    MISSING,
    UNSETTLED,
    kafka_error,
    translate,
    translate_code,
    translate_error,
)
from kafkaform.cluster.wire.large_answers import METADATA
from kafkaform.cluster.wire.messages import LIST_OFFSETS
from kafkaform.core.errors import ClusterError, KafkaformError, Unreachable
from kafkaform.core.groups import LogSpan, TimedOffset
from kafkaform.core.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.large_answers import PartitionMetadata
    from kafkaform.core.layout import TopicPartition as Partition


LEADER_TIMEOUT_S = 3.0
"""The time in which leaders that have just moved are looked for; a dead one is named for up to 9 s more."""

_PAUSE_S = 0.1
_UNKNOWN: int = KafkaError.UNKNOWN_TOPIC_OR_PART
_LATEST, _EARLIEST = -1, -2
"""What is asked for in the place of a timestamp (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP of ListOffsets)."""
_TOPICS_A_REQUEST = 2_000
_LEFT_OUT = MISSING | UNSETTLED | {KafkaError.TOPIC_AUTHORIZATION_FAILED}
_MOVED = UNSETTLED - {KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART}
"""Codes of a partition that another broker leads by now, or will soon: metadata names it."""


@dataclass(frozen=True, slots=True)
class LogFailure:
    """The failure to read the offsets of a partition.

    Attributes:
        code: The error code of Kafka's protocol, or librdkafka's own.
        error: The error to raise for it.
    """

    code: int
    error: ClusterError


@dataclass(frozen=True, slots=True)
class LogReading:
    """The answers of leaders about the ends of logs, partition by partition.

    Attributes:
        spans: The offsets of those that were read.
        failed: Why the others were not.
    """

    spans: dict[Partition, LogSpan] = field(default_factory=dict)
    failed: dict[Partition, LogFailure] = field(default_factory=dict)


def _failure(partition: Partition, code: int) -> ClusterError:
    return name_right(translate_code(code, ""), "ListOffsets", partition[0])


def read_log_spans(
    connection: Connection, partitions: Collection[Partition], at_ms: int | None, *, committed: bool = False
) -> Mapping[Partition, LogSpan]:
    """See `Cluster.log_spans`."""
    return require_spans(ask_leaders(connection, partitions, at_ms, committed=committed))


def require_spans(reading: LogReading) -> Mapping[Partition, LogSpan]:
    """Return the offsets that were read; raises why others were not, if it is no leader and no right."""
    for failure in reading.failed.values():
        if failure.code not in _LEFT_OUT:
            raise failure.error
    return reading.spans


def ask_leaders(
    connection: Connection, partitions: Collection[Partition], at_ms: int | None, *, committed: bool = False
) -> LogReading:
    """Read the ends of logs: all leaders at a time, each once for all of its partitions.

    A leader that has moved is looked for and asked again, for up to LEADER_TIMEOUT_S.

    Args:
        connection: The cluster.
        partitions: The partitions to read.
        at_ms: Also find the first offset that is not older than this, in milliseconds since 1970.
        committed: End before the first transaction that is open.

    Raises:
        ClusterError: No leader can be asked.
    """
    if not partitions:
        return LogReading()
    try:
        connection.offered()
    except ClusterError:
        raise
    except KafkaformError:  # there are logins that librdkafka alone can do
        return _ask_by_consumer(connection, partitions, at_ms, committed=committed)
    times = (_EARLIEST, _LATEST) if at_ms is None else (_EARLIEST, _LATEST, at_ms)
    questions = [_ask_alike(time, committed=committed) for time in times]
    offsets, failed = _ask_until_settled(connection, partitions, questions)
    return LogReading({partition: _span(answers) for partition, answers in offsets.items()}, failed)


def read_offsets_at(
    connection: Connection, times: Mapping[Partition, int]
) -> Mapping[Partition, TimedOffset]:
    """See `Cluster.offsets_at`."""
    if not times:
        return {}
    try:
        connection.offered()
    except ClusterError:
        raise
    except KafkaformError:  # there are logins that librdkafka alone can do
        return _find_by_consumer(connection, times)
    answers, failed = _ask_until_settled(connection, times, [_Question(times.__getitem__)])
    require_spans(LogReading(failed=failed))
    # No record is as young as that: -1.
    return {partition: answer for partition, (answer,) in answers.items() if answer.offset >= 0}


def ask_undecided(connection: Connection, partitions: Collection[Partition]) -> LogReading:
    """Read the part of each log that transactions hold back: from the last stable offset to the log's end.

    It is empty where no transaction is open. Both offsets come in one request each to every leader.

    Raises:
        KafkaformError: No leader can be asked, or librdkafka alone can log in.
    """
    # The end is read first: what is written between the two would else look as if it were held back.
    questions = [_ask_alike(_LATEST, committed=False), _ask_alike(_LATEST, committed=True)]
    offsets, failed = _ask_until_settled(connection, partitions, questions)
    spans = {p: LogSpan(min(stable.offset, end.offset), end.offset) for p, (end, stable) in offsets.items()}
    return LogReading(spans, failed)


@dataclass(frozen=True, slots=True)
class _Question:
    """A question to the leaders: which time to ask for, and whether to end before an open transaction."""

    time_of: Callable[[Partition], int]
    committed: bool = False


def _ask_alike(time_ms: int, *, committed: bool) -> _Question:
    return _Question(lambda _: time_ms, committed)


def _span(answers: Sequence[TimedOffset]) -> LogSpan:
    start, end, *rest = (answer.offset for answer in answers)
    # No record is as young as that: -1. One may have been written since the end was read.
    return LogSpan(start, end, (rest[0] if 0 <= rest[0] <= end else end) if rest else None)


def _ask_until_settled(
    connection: Connection, partitions: Collection[Partition], questions: Sequence[_Question]
) -> tuple[dict[Partition, list[TimedOffset]], dict[Partition, LogFailure]]:
    """Ask leaders for offsets, and those that have moved again; returns them in the order of the questions.

    Args:
        connection: The cluster.
        partitions: The partitions to read.
        questions: What to ask each leader.
    """
    deadline = time.monotonic() + LEADER_TIMEOUT_S
    offsets: dict[Partition, list[TimedOffset]] = {}
    failed: dict[Partition, LogFailure] = {}
    left = partitions
    while left:
        leaders, unled = read_leaders(connection, left)
        failed.update(unled)
        _ask_each(connection, leaders, questions, offsets, failed)
        left = [p for p in left if p in failed and failed[p].code in _MOVED]
        if left and time.monotonic() > deadline:
            break
        if left:
            time.sleep(_PAUSE_S)
    return offsets, failed


def read_leaders(
    connection: Connection, partitions: Collection[Partition]
) -> tuple[dict[int, list[Partition]], dict[Partition, LogFailure]]:
    """Return the partitions by leader, and why others have none or are not known."""
    topics = sorted({topic for topic, _ in partitions})
    requests = [
        topics[start : start + _TOPICS_A_REQUEST] for start in range(0, len(topics), _TOPICS_A_REQUEST)
    ]
    codes: dict[str, int] = {}
    described: dict[Partition, PartitionMetadata] = {}
    alive: set[int] = set()
    for metadata in connection.ask(METADATA, requests):
        alive.update(metadata.brokers)
        for topic in metadata.topics:
            codes[topic.name] = topic.error_code
            described.update({(topic.name, partition.number): partition for partition in topic.partitions})
    leaders: dict[int, list[Partition]] = defaultdict(list)
    failed: dict[Partition, LogFailure] = {}
    for partition in partitions:
        code, known = codes.get(partition[0], _UNKNOWN), described.get(partition)
        if known is not None and known.leader >= 0:
            leaders[known.leader].append(partition)
        elif known is not None and code in THERE:
            failed[partition] = _make_leader_failure(partition, sorted({*known.replicas} - alive))
        else:
            code = _UNKNOWN if code in THERE else code
            failed[partition] = LogFailure(code, _failure(partition, code))
    return leaders, failed


def _ask_each(
    connection: Connection,
    leaders: Mapping[int, Collection[Partition]],
    questions: Sequence[_Question],
    offsets: dict[Partition, list[TimedOffset]],
    failed: dict[Partition, LogFailure],
) -> None:
    """Ask leaders for offsets; adds to what was read and to what failed."""
    requests = {
        node: [_request(partitions, question) for question in questions]
        for node, partitions in leaders.items()
    }
    for node, answers in connection.ask_nodes(LIST_OFFSETS, requests, READ_TIMEOUT_S).items():
        if isinstance(answers, ClusterError):
            if not isinstance(answers, Unreachable):
                raise answers
            failure = LogFailure(KafkaError._TIMED_OUT, answers)
            failed.update(dict.fromkeys(leaders[node], failure))
            continue
        read = [dict(_offsets(answer)) for answer in answers]
        for partition in leaders[node]:
            result = _join(partition, [of.get(partition) for of in read], node)
            if isinstance(result, LogFailure):
                failed[partition] = result
            else:
                offsets[partition] = result
                failed.pop(partition, None)


def _request(partitions: Collection[Partition], question: _Question) -> Mapping[str, Any]:
    by_topic: dict[str, list[Mapping[str, int]]] = defaultdict(list)
    for partition in partitions:
        topic, number = partition
        by_topic[topic].append({"index": number, "timestamp": question.time_of(partition)})
    topics = [{"name": topic, "partitions": asked} for topic, asked in by_topic.items()]
    return {"isolation_level": int(question.committed), "topics": topics}


def _offsets(answer: Mapping[str, Any]) -> Iterator[tuple[Partition, tuple[int, TimedOffset]]]:
    """The error code and the offset of each partition of an answer."""
    for topic in answer["topics"]:
        name = topic["name"]
        for partition in topic["partitions"]:
            record = TimedOffset(partition["offset"], partition["timestamp"])
            yield (name, partition["index"]), (partition["error_code"], record)


def _join(
    partition: Partition, answers: Collection[tuple[int, TimedOffset] | None], node: int
) -> list[TimedOffset] | LogFailure:
    """Return the offsets that a leader answered for one partition, or the first error among them."""
    complete = [answer for answer in answers if answer is not None]
    if len(complete) < len(answers):
        raise ClusterError(f"broker {node} answered ListOffsets without {partition[0]}:{partition[1]}")
    if code := next((code for code, _ in complete if code), 0):
        return LogFailure(code, _failure(partition, code))
    return [offset for _, offset in complete]


def _make_leader_failure(partition: Partition, down: Sequence[int]) -> LogFailure:
    brokers = listed([f"broker {broker}" for broker in down])
    why = f": {brokers} {'is' if len(down) == 1 else 'are'} down" if down else ""
    error = ClusterError(
        f"{partition[0]}:{partition[1]} has no leader{why}", hint=f"start {brokers}" if down else None
    )
    return LogFailure(KafkaError.LEADER_NOT_AVAILABLE, error)


def read_partition_counts(connection: Connection, topics: Collection[str]) -> Mapping[str, int]:
    """See `Cluster.partition_counts`; describing a topic does not make a broker create it."""
    descriptions = describe_topics(connection, sorted(topics)).found
    return {name: len(description.replicas) for name, description in descriptions.items()}


# --- where librdkafka alone can log in ---------------------------------------------------------------


def _ask_by_consumer(
    connection: Connection, partitions: Collection[Partition], at_ms: int | None, *, committed: bool
) -> LogReading:
    """Ask by a consumer of librdkafka, one partition after the other."""
    connection.cluster  # noqa: B018 - raises in plain words if nobody is there
    options = {
        "group.id": "kafkaform",  # which it never joins
        "isolation.level": "read_committed" if committed else "read_uncommitted",
    }
    consumer: Any = connection.client(Consumer, options)
    reading = LogReading()
    try:
        for partition in partitions:
            try:
                reading.spans[partition] = _ask_consumer(consumer, partition, at_ms)
            except KafkaException as exception:
                if (reason := kafka_error(exception)) is None:
                    raise translate(exception) from exception
                reading.failed[partition] = LogFailure(reason.code(), translate_error(reason))
    finally:
        consumer.close()
    return reading


def _ask_consumer(consumer: Any, partition: Partition, at_ms: int | None) -> LogSpan:
    start, end = consumer.get_watermark_offsets(TopicPartition(*partition), timeout=LEADER_TIMEOUT_S)
    if at_ms is None:
        return LogSpan(start, end)
    (located,) = consumer.offsets_for_times([TopicPartition(*partition, at_ms)], timeout=LEADER_TIMEOUT_S)
    if located.error is not None:
        raise KafkaException(located.error)
    return LogSpan(start, end, located.offset if 0 <= located.offset <= end else end)


def _find_by_consumer(connection: Connection, times: Mapping[Partition, int]) -> dict[Partition, TimedOffset]:
    """Find offsets by a consumer of librdkafka, which tells no times: it reads the records that it found."""
    connection.cluster  # noqa: B018 - raises in plain words if nobody is there
    options = {"group.id": "kafkaform", "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
    consumer: Any = connection.client(Consumer, options)
    asked = [TopicPartition(*partition, time_ms) for partition, time_ms in times.items()]
    try:
        located = consumer.offsets_for_times(asked, timeout=READ_TIMEOUT_S)
        for place in located:
            if place.error is not None and place.error.code() not in _LEFT_OUT:
                raise translate_error(place.error)
        places = [place for place in located if place.error is None and place.offset >= 0]
        return _read_times(consumer, places)
    except KafkaException as exception:
        raise translate(exception) from exception
    finally:
        consumer.close()


def _read_times(consumer: Any, places: Sequence[Any]) -> dict[Partition, TimedOffset]:
    """Read the first record at or after each place."""
    consumer.assign(places)
    waiting = {(place.topic, place.partition) for place in places}
    records: dict[Partition, TimedOffset] = {}
    deadline = time.monotonic() + READ_TIMEOUT_S
    while waiting and time.monotonic() < deadline:
        for message in consumer.consume(len(places), timeout=_PAUSE_S):
            partition = (message.topic(), message.partition())
            if message.error() is None and partition in waiting:
                waiting.discard(partition)
                records[partition] = TimedOffset(message.offset(), message.timestamp()[1])
                consumer.incremental_unassign([TopicPartition(*partition)])
    return records

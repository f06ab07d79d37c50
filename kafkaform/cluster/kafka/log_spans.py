"""The first and last offsets of partitions."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from kafkaform.cluster.kafka.topic_sources import AdminReader
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.translation import (
    MISSING,
    UNSETTLED,
    kafka_error,
    translate,
    translate_error,
)
from kafkaform.core.groups import LogSpan

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from concurrent.futures import Future

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.layout import TopicPartition as Partition


LEADER_TIMEOUT_S = 3.0
"""The time that the leaders that the client knows of may take, before it is taken for wrong about them."""

_LEFT_OUT = MISSING | UNSETTLED | {KafkaError.TOPIC_AUTHORIZATION_FAILED}


@dataclass(frozen=True, slots=True)
class LogReading:
    """The answers of leaders about the ends of logs, partition by partition.

    Attributes:
        spans: The offsets of those that were read.
        failed: Why the others were not.
    """

    spans: dict[Partition, LogSpan]
    failed: dict[Partition, KafkaError]


def read_log_spans(
    connection: Connection, partitions: Collection[Partition], at_ms: int | None, *, committed: bool = False
) -> Mapping[Partition, LogSpan]:
    """See `Cluster.log_spans`."""
    reading = ask_leaders(connection, partitions, at_ms, committed=committed)
    for error in reading.failed.values():
        if error.code() not in _LEFT_OUT:
            raise translate_error(error)
    return reading.spans


def ask_leaders(
    connection: Connection, partitions: Collection[Partition], at_ms: int | None, *, committed: bool = False
) -> LogReading:
    """Read the ends of logs; librdkafka asks each leader once for all of its partitions.

    It asks the leaders that it has heard of, and if one of them has stopped since, gives offsets of -1 when
    the time is up. What is missing is asked for again with leaders just learnt.
    """
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    reading = _ask(connection, partitions, at_ms, isolation, LEADER_TIMEOUT_S)
    if not reading.failed:
        return reading
    try:
        connection.reached.list_topics(timeout=READ_TIMEOUT_S)
    except KafkaException as error:
        raise translate(error) from error
    again = _ask(connection, reading.failed, at_ms, isolation, READ_TIMEOUT_S)
    return LogReading(reading.spans | again.spans, again.failed)


def _ask(
    connection: Connection,
    partitions: Collection[Partition],
    at_ms: int | None,
    isolation: IsolationLevel,
    timeout_s: float,
) -> LogReading:
    if not partitions:
        return LogReading({}, {})
    place_of: Any = OffsetSpec  # its stub knows no types
    places = [place_of.earliest(), place_of.latest()]
    if at_ms is not None:
        places.append(place_of.for_timestamp(at_ms))
    began = time.monotonic()
    asked = [
        connection.reached.list_offsets(
            {TopicPartition(topic, partition): place for topic, partition in partitions},
            isolation_level=isolation,
            request_timeout=timeout_s,
        )
        for place in places
    ]
    failed: dict[Partition, KafkaError] = {}
    starts, ends, *rest = [_offsets(futures, failed) for futures in asked]
    in_time = time.monotonic() - began < timeout_s
    spans = {}
    for partition in partitions:
        start, end = starts.get(partition, -1), ends.get(partition, -1)
        known = start >= 0 and end >= 0 and partition not in failed
        if known and not rest:
            spans[partition] = LogSpan(start, end)
        elif known and (in_time or rest[0][partition] >= 0):
            at = rest[0][partition]
            # No record is as young as that: -1. One may have been written since the end was told.
            spans[partition] = LogSpan(start, end, at if 0 <= at <= end else end)
        else:
            failed.setdefault(partition, KafkaError(KafkaError._TIMED_OUT))
    return LogReading(spans, failed)


def read_partition_counts(connection: Connection, topics: Collection[str]) -> Mapping[str, int]:
    """See `Cluster.partition_counts`; describing a topic does not make a broker create it."""
    found = AdminReader(connection).descriptions(sorted(topics)).found
    return {name: len(description.replicas) for name, description in found.items()}


def _offsets(
    futures: Mapping[TopicPartition, Future[Any]], failed: dict[Partition, KafkaError]
) -> dict[Partition, int]:
    """The offsets that were read; the partitions that failed are noted with the first reason."""
    offsets = {}
    for asked, future in futures.items():
        try:
            offsets[asked.topic, asked.partition] = future.result().offset
        except KafkaException as exception:
            reason = kafka_error(exception)
            if reason is None:
                raise translate(exception) from exception
            failed.setdefault((asked.topic, asked.partition), reason)
    return offsets

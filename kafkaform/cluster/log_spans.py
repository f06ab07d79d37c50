"""The first and last offsets of partitions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from kafkaform.cluster.api import READ_TIMEOUT_S
from kafkaform.cluster.plain_source import PlainSource
from kafkaform.cluster.translation import MISSING, kafka_error, translate
from kafkaform.groups import LogSpan

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from concurrent.futures import Future

    from kafkaform.cluster.connection import Connection
    from kafkaform.groups import TopicPartition as Partition

LEADER_TIMEOUT_S = 3.0
"""How long the leaders that the client knows of may take, before it is taken for wrong about them."""

_LEFT_OUT = MISSING | {
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._NOENT,  # none of the partitions has a leader
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError._TIMED_OUT,
}


def read_log_spans(
    connection: Connection, partitions: Collection[Partition], at_ms: int | None, *, committed: bool = False
) -> Mapping[Partition, LogSpan]:
    """See `Cluster.log_spans`; librdkafka asks each leader once for all of its partitions.

    It asks the leaders that it has heard of, and if one of them has stopped since, gives offsets of -1 when
    the time is up. What is missing is asked for again with leaders just learnt.
    """
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    spans = _ask(connection, partitions, at_ms, isolation, LEADER_TIMEOUT_S)
    missing = [partition for partition in partitions if partition not in spans]
    if missing:
        try:
            connection.reached.list_topics(timeout=READ_TIMEOUT_S)
        except KafkaException as error:
            raise translate(error) from error
        spans |= _ask(connection, missing, at_ms, isolation, READ_TIMEOUT_S)
    return spans


def _ask(
    connection: Connection,
    partitions: Collection[Partition],
    at_ms: int | None,
    isolation: IsolationLevel,
    timeout_s: float,
) -> dict[Partition, LogSpan]:
    if not partitions:
        return {}
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
    starts, ends, *rest = [_offsets(futures) for futures in asked]
    in_time = time.monotonic() - began < timeout_s
    spans = {}
    for partition, start in starts.items():
        end = ends.get(partition, -1)
        if start < 0 or end < 0:
            continue
        if not rest:
            spans[partition] = LogSpan(start, end)
        elif partition in rest[0] and (in_time or rest[0][partition] >= 0):
            at = rest[0][partition]
            # No record is as young as that: -1. One may have been written since the end was told.
            spans[partition] = LogSpan(start, end, at if 0 <= at <= end else end)
    return spans


def read_partition_counts(connection: Connection, topics: Collection[str]) -> Mapping[str, int]:
    """See `Cluster.partition_counts`; describing a topic does not make a broker create it."""
    found = PlainSource(connection).descriptions(sorted(topics)).found
    return {name: len(description.replicas) for name, description in found.items()}


def _offsets(futures: Mapping[TopicPartition, Future[Any]]) -> dict[Partition, int]:
    offsets = {}
    for asked, future in futures.items():
        try:
            offsets[asked.topic, asked.partition] = future.result().offset
        except KafkaException as exception:
            reason = kafka_error(exception)
            if reason is None or reason.code() not in _LEFT_OUT:
                raise translate(exception) from exception
    return offsets

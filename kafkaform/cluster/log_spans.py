"""The first and last offsets of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from kafkaform.cluster.connection import READ_TIMEOUT_S
from kafkaform.cluster.plain_source import PlainSource
from kafkaform.cluster.translation import MISSING, kafka_error, translate
from kafkaform.groups import LogSpan

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from concurrent.futures import Future

    from kafkaform.cluster.connection import Connection
    from kafkaform.groups import TopicPartition as Partition

_LEFT_OUT = MISSING | {
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
}


def read_log_spans(
    connection: Connection, partitions: Collection[Partition], at_ms: int | None
) -> Mapping[Partition, LogSpan]:
    """See `Cluster.log_spans`; librdkafka asks each leader once for all of its partitions."""
    if not partitions:
        return {}
    place_of: Any = OffsetSpec  # its stub knows no types
    places = [place_of.earliest(), place_of.latest()]
    if at_ms is not None:
        places.append(place_of.for_timestamp(at_ms))
    asked = [
        connection.reached.list_offsets(
            {TopicPartition(topic, partition): place for topic, partition in partitions},
            request_timeout=READ_TIMEOUT_S,
        )
        for place in places
    ]
    starts, ends, *rest = [_offsets(futures) for futures in asked]
    spans = {}
    for partition, start in starts.items():
        if partition not in ends or any(partition not in times for times in rest):
            continue
        end = ends[partition]
        at = rest[0][partition] if rest else None
        # No record is as young as that: -1. One may have been written since the end was told.
        spans[partition] = LogSpan(start, end, end if at is not None and not 0 <= at <= end else at)
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

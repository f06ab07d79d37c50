"""The first and last offsets of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.cluster.connection import Connection
    from kafkaform.groups import LogSpan, TopicPartition


def read_log_spans(
    connection: Connection, partitions: Collection[TopicPartition], at_ms: int | None
) -> Mapping[TopicPartition, LogSpan]:
    """See `Cluster.log_spans`."""
    raise NotImplementedError(connection, partitions, at_ms)


def read_partition_counts(connection: Connection, topics: Collection[str]) -> Mapping[str, int]:
    """See `Cluster.partition_counts`."""
    raise NotImplementedError(connection, topics)

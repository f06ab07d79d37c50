"""How much data topics hold, from the brokers' log folders."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaform.cluster.connection import Connection
    from kafkaform.groups import TopicPartition
    from kafkaform.model import Observed, ResourceRef


def read_sizes(connection: Connection, topics: Collection[Observed]) -> dict[ResourceRef, int]:
    """The bytes of each topic; one of which no broker tells anything is left out."""
    told: dict[str, int] = defaultdict(int)
    asked = [
        (topic.ref.name, partition)
        for topic in topics
        if isinstance(count := topic.state["partitions"], int)
        for partition in range(count)
    ]
    for (name, _), size in read_partition_sizes(connection, asked).items():
        told[name] += size
    return {topic.ref: told[topic.ref.name] for topic in topics if topic.ref.name in told}


def read_partition_sizes(
    connection: Connection, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The bytes of each partition, one replica counted: the largest, as others may lag.

    One of which no broker tells anything is left out.
    """
    asked: dict[str, list[int]] = defaultdict(list)
    for name, partition in partitions:
        asked[name].append(partition)
    largest: dict[TopicPartition, int] = {}
    for name, partition, size in connection.log_sizes(asked):
        largest[name, partition] = max(size, largest.get((name, partition), 0))
    return largest

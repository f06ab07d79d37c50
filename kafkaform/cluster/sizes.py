"""How much data topics hold, from the brokers' log folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaform.cluster.connection import Connection
    from kafkaform.model import Observed, ResourceRef


def read_sizes(connection: Connection, topics: Collection[Observed]) -> dict[ResourceRef, int]:
    """The bytes of each topic, one replica of every partition counted: the largest, as others may lag.

    A topic of which no broker tells anything is left out.
    """
    asked = {
        topic.ref.name: list(range(count))
        for topic in topics
        if isinstance(count := topic.state["partitions"], int)
    }
    largest: dict[str, dict[int, int]] = {}
    for name, partition, size in connection.log_sizes(asked):
        partitions = largest.setdefault(name, {})
        partitions[partition] = max(size, partitions.get(partition, 0))
    return {topic.ref: sum(largest[topic.ref.name].values()) for topic in topics if topic.ref.name in largest}

"""How much data topics hold, from the brokers' log folders."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kafkaform.cluster.controlled import ask_each
from kafkaform.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaform.cluster.connection import Connection
    from kafkaform.groups import TopicPartition
    from kafkaform.model import Observed, ResourceRef

TIMEOUT_S = 10.0
"""How long a broker may take to look into its folders; one that does not answer is left out."""


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
    largest: dict[TopicPartition, int] = {}
    for (name, partition, _), size in read_replica_sizes(connection, partitions).items():
        largest[name, partition] = max(size, largest.get((name, partition), 0))
    return largest


def read_replica_sizes(
    connection: Connection, partitions: Collection[TopicPartition]
) -> dict[tuple[str, int, int], int]:
    """See `Cluster.replica_sizes`; raises why no broker at all answers."""
    from kafka.protocol.admin import DescribeLogDirsRequest

    asked: dict[str, list[int]] = defaultdict(list)
    for name, partition in partitions:
        asked[name].append(partition)
    if not asked:
        return {}

    def request(_: int) -> Any:
        return DescribeLogDirsRequest(topics=[*asked.items()])

    answers = ask_each(connection, request, TIMEOUT_S)
    failures = [answer for answer in answers.values() if isinstance(answer, ClusterError)]
    if failures and len(failures) == len(answers):
        raise failures[0]
    return {
        (topic.name, partition.partition_index, broker): partition.partition_size
        for broker, answer in answers.items()
        if not isinstance(answer, ClusterError)
        for folder in answer.results
        for topic in folder.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }

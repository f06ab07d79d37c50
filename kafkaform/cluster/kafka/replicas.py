"""Reading the replicas of a real cluster, and the targets of running reassignments."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from kafkaform.cluster.kafka.reassignments import read_running
from kafkaform.cluster.wire.large_responses import METADATA
from kafkaform.core.errors import NotOffered, PermissionDenied
from kafkaform.core.partitions import Broker, PartitionState, TopicPartition
from kafkaform.core.values import Value
from kafkaform.resources.replicas.layout import Layout, Reassignment

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.cluster.transport.connection import Connection


class Placement(Value):
    """The brokers and partitions of a cluster, as one broker knows them.

    Attributes:
        cluster_id: The cluster's id; empty if unknown.
        controller: The broker that metadata names as controller; None if there is none.
        partitions: The states of the partitions of every topic.
        failed: The error codes of topics that could not be read.
    """

    cluster_id: str
    controller: int | None
    brokers: tuple[Broker, ...]
    partitions: tuple[PartitionState, ...]
    failed: Mapping[str, int]

    @property
    def topics(self) -> list[str]:
        """The names of the topics, in order."""
        return list(dict.fromkeys(partition.topic for partition in self.partitions))


def read_placement(connection: Connection, requested: Collection[str] | None = None) -> Placement:
    """Read the placement of some topics, or of all."""
    (metadata,) = connection.send(METADATA, [requested])
    topics = sorted(metadata.topics, key=attrgetter("name"))
    return Placement(
        metadata.cluster_id,
        metadata.controller if metadata.controller >= 0 else None,
        tuple(Broker(number, broker.rack) for number, broker in sorted(metadata.brokers.items())),
        tuple(
            PartitionState(topic.name, index, leader if leader >= 0 else None, replicas, isr)
            for topic in topics
            for index, leader, replicas, isr in sorted(topic.partitions)
        ),
        {topic.name: topic.error_code for topic in topics if topic.error_code},
    )


TIMEOUT_S = 10.0
"""The time for one request: a progress display waits for it."""


def read_layout(connection: Connection, topics: Collection[str] | None = None) -> Layout:
    """Read replicas and running reassignments, as `Cluster.layout` does."""
    # Metadata does not distinguish old and new replicas. A reassignment that starts or ends meanwhile is in
    # one of the two readings.
    before = _read_running(connection)
    placement = read_placement(connection, topics)
    after = _read_running(connection)
    of_topics = groupby(placement.partitions, attrgetter("topic"))
    return Layout(
        placement.brokers,
        {name: tuple(states) for name, states in of_topics},
        None if before is None or after is None else {**before, **after},
    )


def _read_running(connection: Connection) -> Mapping[TopicPartition, Reassignment] | None:
    try:
        return read_running(connection, TIMEOUT_S)
    except PermissionDenied:
        return None
    except NotOffered:
        return {}  # then none can be started by Kafka's protocol either

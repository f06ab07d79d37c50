"""Reading where all replicas of a real cluster are and are going."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from kafkaform.cluster.kafka.reassignments import read_running
from kafkaform.cluster.kafka.topic_sources import WireReader
from kafkaform.cluster.kafka.topics import topic_source
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.translation import translate
from kafkaform.cluster.wire.large_answers import METADATA
from kafkaform.core.errors import NotOffered, PermissionDenied
from kafkaform.core.layout import Broker, Layout, PartitionState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.layout import Reassignment, TopicPartition


@dataclass(frozen=True, slots=True)
class Placement:
    """The brokers and partitions of a cluster, as one broker knows them.

    Attributes:
        cluster_id: The id that the cluster gave itself; empty if it was not told.
        controller: The broker that answers for the controllers; None if there is none.
        brokers: The live brokers.
        partitions: The states of the partitions of every topic.
        failed: The error codes of topics that are not told of.
    """

    cluster_id: str
    controller: int | None
    brokers: tuple[Broker, ...]
    partitions: tuple[PartitionState, ...]
    failed: Mapping[str, int]

    @property
    def topics(self) -> list[str]:
        """The names of the topics that partitions are of, in order."""
        return list(dict.fromkeys(partition.topic for partition in self.partitions))


def wire_placement(connection: Connection, asked: Collection[str] | None = None) -> Placement:
    """Read the placement of some topics, or of all, on our own connections."""
    (metadata,) = connection.ask(METADATA, [asked])
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


def admin_placement(connection: Connection, timeout_s: float) -> Placement:
    """Read the placement through librdkafka, for brokers and client properties that nothing else can do with.

    There are no racks in it.
    """
    try:
        metadata = connection.admin.list_topics(
            timeout=timeout_s
        )  # all topics: asking for one could create it
    except KafkaException as error:
        raise translate(error) from error
    partitions = [
        PartitionState(
            name,
            partition.id,
            partition.leader if partition.leader >= 0 else None,
            tuple(partition.replicas),
            tuple(partition.isrs),
        )
        for name, topic in metadata.topics.items()
        for partition in topic.partitions.values()
    ]
    return Placement(
        metadata.cluster_id or "",
        metadata.controller_id if metadata.controller_id >= 0 else None,
        tuple(Broker(number) for number in sorted(metadata.brokers)),
        tuple(sorted(partitions, key=lambda partition: (partition.topic, partition.partition))),
        {name: topic.error.code() for name, topic in metadata.topics.items() if topic.error is not None},
    )


TIMEOUT_S = 10.0
"""The time that one request may take: somebody waits for the next reading."""


def read_layout(connection: Connection, topics: Collection[str] | None = None) -> Layout:
    """See `Cluster.layout`."""
    # Metadata does not tell old replicas from new ones. What starts or ends beside it is in one of the two.
    before = _running(connection)
    if isinstance(topic_source(connection), WireReader):
        placement = wire_placement(connection, topics)
        brokers = placement.brokers
    else:
        placement = admin_placement(connection, TIMEOUT_S)
        brokers = _with_racks(connection, placement.brokers)
    after = _running(connection)
    of_topics = groupby(placement.partitions, attrgetter("topic"))
    return Layout(
        brokers,
        {name: tuple(states) for name, states in of_topics if topics is None or name in topics},
        None if before is None or after is None else {**before, **after},
    )


def _running(connection: Connection) -> Mapping[TopicPartition, Reassignment] | None:
    try:
        return read_running(connection, TIMEOUT_S)
    except PermissionDenied:
        return None
    except NotOffered:
        return {}  # nothing can be, of what Kafka's protocol starts


def _with_racks(connection: Connection, brokers: tuple[Broker, ...]) -> tuple[Broker, ...]:
    try:
        nodes = connection.admin.describe_cluster(request_timeout=READ_TIMEOUT_S).result().nodes
    except KafkaException as error:
        raise translate(error) from error
    racks = {node.id: node.rack for node in nodes}
    return tuple(Broker(broker.id, racks.get(broker.id)) for broker in brokers)

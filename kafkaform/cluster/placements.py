"""Reading brokers and the replicas of all partitions from a real cluster, in one request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from kafkaform.cluster import wire
from kafkaform.cluster.controlled import retried
from kafkaform.cluster.partition_wire import PLACEMENT, Placement
from kafkaform.cluster.translation import translate
from kafkaform.core.layout import Broker, PartitionState

if TYPE_CHECKING:
    from kafkaform.cluster.connection import Connection


def swift_placement(connection: Connection) -> Placement:
    """Read it in our own bytes."""
    bodies = [wire.metadata_of_all_topics()]
    (placement,) = retried(lambda: connection.ask(PLACEMENT, bodies))
    return placement


def plain_placement(connection: Connection, timeout_s: float) -> Placement:
    """The same through librdkafka, for brokers and client properties that kafka-python cannot do with.

    It tells no racks.
    """
    try:
        told = connection.admin.list_topics(timeout=timeout_s)  # all topics: asking for one could create it
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
        for name, topic in told.topics.items()
        for partition in topic.partitions.values()
    ]
    return Placement(
        told.cluster_id or "",
        told.controller_id if told.controller_id >= 0 else None,
        tuple(Broker(number) for number in sorted(told.brokers)),
        tuple(sorted(partitions, key=lambda partition: (partition.topic, partition.partition))),
        {name: topic.error.code() for name, topic in told.topics.items() if topic.error is not None},
    )

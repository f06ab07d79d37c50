"""Requests about groups of consumers through librdkafka, for logins that it alone can do.

See `coordinators`, which says why it is asked for nothing else about groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaException,
    TopicPartition,
)

from kafkaform.cluster.kafka.answers import GroupAnswers, gathered
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.translation import translate, translate_error
from kafkaform.core.groups import Group, Member

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.errors import ClusterError
    from kafkaform.core.layout import TopicPartition as Partition


_STATES = {
    ConsumerGroupState.UNKNOWN: "Unknown",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
}


def describe(connection: Connection, names: Collection[str]) -> GroupAnswers[Group]:
    """Describe groups; one that does not exist is not in the answers."""
    futures = connection.reached.describe_consumer_groups(list(names), request_timeout=READ_TIMEOUT_S)
    answers = gathered(futures, _group)
    # A missing group is described as a dead one, without an error.
    return GroupAnswers(
        {name: group for name, group in answers.found.items() if group.state != "Dead"}, answers.failed
    )


def _group(described: Any) -> Group:
    return Group(
        described.group_id,
        "consumer" if described.type == ConsumerGroupType.CONSUMER else "classic",
        _STATES.get(described.state) or described.state.name.capitalize(),
        "consumer",
        described.partition_assignor or "",
        described.coordinator.id if described.coordinator else None,
        tuple(
            Member(
                member.member_id,
                member.client_id,
                member.host.removeprefix("/"),
                member.group_instance_id,
                frozenset((tp.topic, tp.partition) for tp in member.assignment.topic_partitions),
            )
            for member in described.members
        ),
    )


def read_committed(connection: Connection, names: Collection[str]) -> GroupAnswers[dict[Partition, int]]:
    """Read the committed offsets of groups."""
    admin = connection.reached
    futures = {
        # The client takes one group a call; the requests of all calls are under way at once.
        name: admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name)], request_timeout=READ_TIMEOUT_S
        )[name]
        for name in names
    }
    return gathered(futures, _offsets)


def _offsets(group: ConsumerGroupTopicPartitions) -> dict[Partition, int]:
    offsets = {}
    for partition in group.topic_partitions or ():
        if partition.error is not None:
            raise KafkaException(partition.error)
        if partition.offset >= 0:
            offsets[partition.topic, partition.partition] = partition.offset
    return offsets


def commit(
    connection: Connection, name: str, offsets: Mapping[Partition, int], timeout_s: float
) -> dict[Partition, ClusterError]:
    """Commit offsets for a group without members; returns the partitions that failed, and why."""
    partitions = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
    future = connection.reached.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(name, partitions)], request_timeout=timeout_s
    )[name]
    try:
        answer = future.result()
    except KafkaException as exception:
        return dict.fromkeys(offsets, translate(exception))
    # It succeeds where single partitions fail.
    return {
        (partition.topic, partition.partition): translate_error(partition.error)
        for partition in answer.topic_partitions or ()
        if partition.error is not None
    }


def delete(connection: Connection, name: str, timeout_s: float) -> GroupAnswers[None]:
    """Delete a group with its offsets."""
    futures = connection.reached.delete_consumer_groups([name], request_timeout=timeout_s)
    return gathered(futures, lambda _: None)

"""Starting and cancelling reassignments of a real cluster, and giving partitions back to their leaders."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from kafkaform.cluster.transport.kafka_python import ask_controller, refusal, with_hint
from kafkaform.core.errors import (
    ClusterError,
    KafkaformError,
    LockLost,
    OutcomeUnknown,
)

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Mapping,
        Sequence,
    )

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.groups import TopicPartition
    from kafkaform.core.layout import Replicas
    from kafkaform.core.lock import Guard


TIMEOUT_S = 60.0
"""How long a controller may take; one under load is slow, not dead."""
BATCH = 1_000
"""How many partitions one request names: a controller writes 10,000 records a request, and none of more."""

_RIGHT = "grant Alter on the cluster"


def reassign(
    connection: Connection, targets: Mapping[TopicPartition, Replicas | None], guard: Guard
) -> dict[TopicPartition, ClusterError | None]:
    """See `Cluster.reassign`."""
    from kafka.protocol.admin import AlterPartitionReassignmentsRequest

    a_topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    a_partition = a_topic.ReassignablePartition

    def ask(batch: Mapping[str, Sequence[int]]) -> Iterable[tuple[TopicPartition, Any]]:
        def request() -> Any:
            topics = [
                a_topic(
                    name=topic,
                    partitions=[
                        a_partition(partition_index=number, replicas=_listed(targets[topic, number]))
                        for number in numbers
                    ],
                )
                for topic, numbers in batch.items()
            ]
            return AlterPartitionReassignmentsRequest(timeout_ms=int(TIMEOUT_S * 1000), topics=topics)

        answer = ask_controller(connection, request, TIMEOUT_S)
        return (
            ((topic.name, partition.partition_index), partition)
            for topic in answer.responses
            for partition in topic.partitions
        )

    return _outcomes(targets, ask, guard)


def elect_leaders(
    connection: Connection, partitions: Collection[TopicPartition], guard: Guard
) -> dict[TopicPartition, ClusterError | None]:
    """See `Cluster.elect_leaders`."""
    from kafka.protocol.admin import ElectionType, ElectLeadersRequest

    def ask(batch: Mapping[str, Sequence[int]]) -> Iterable[tuple[TopicPartition, Any]]:
        def request() -> Any:
            return ElectLeadersRequest(
                election_type=ElectionType.PREFERRED,
                topic_partitions=[(topic, list(numbers)) for topic, numbers in batch.items()],
                timeout_ms=int(TIMEOUT_S * 1000),
            )

        answer = ask_controller(connection, request, TIMEOUT_S)
        return (
            ((topic.topic, partition.partition_id), partition)
            for topic in answer.replica_election_results
            for partition in topic.partition_result
        )

    return _outcomes(partitions, ask, guard)


def _outcomes(
    partitions: Collection[TopicPartition],
    ask: Callable[[Mapping[str, Sequence[int]]], Iterable[tuple[TopicPartition, Any]]],
    guard: Guard,
) -> dict[TopicPartition, ClusterError | None]:
    """Ask for one thing of all partitions, a batch at a time; returns what was answered."""
    every = list(partitions)
    outcomes: dict[TopicPartition, ClusterError | None] = {}
    for start in range(0, len(every), BATCH):
        batch = every[start : start + BATCH]
        try:
            guard()
        except LockLost as lost:
            return {**outcomes, **dict.fromkeys(every[start:], lost)}
        outcomes.update(dict.fromkeys(batch, OutcomeUnknown("the controller said nothing of this partition")))
        try:
            outcomes.update((partition, _outcome(answer)) for partition, answer in ask(_by_topic(batch)))
        except KafkaformError as error:
            outcomes.update(dict.fromkeys(batch, with_hint(error, _RIGHT)))
    return outcomes


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        numbers[topic].append(number)
    return numbers


def _listed(replicas: Replicas | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


def _outcome(answer: Any) -> ClusterError | None:
    if answer.error_code in {0, KafkaError.ELECTION_NOT_NEEDED}:
        return None
    return with_hint(refusal(answer), _RIGHT)

"""Reassignments of partitions (KIP-455): reading, starting and cancelling them, and electing leaders.

During a reassignment, metadata shows the old replicas and the new ones.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from struct import pack
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from kafkaform.cluster.transport.api import READ_TIMEOUT_S, Api, RequestType
from kafkaform.cluster.transport.kafka_python import ask_controller, refusal, retried, with_hint
from kafkaform.cluster.transport.translation import one_line, translate_code
from kafkaform.cluster.wire import large_answers
from kafkaform.cluster.wire.message_schema import INT16, INT32, NULLABLE_STRING, STRING, array, struct, whole
from kafkaform.cluster.wire.partitions import PLACEMENT
from kafkaform.core.errors import ClusterError, KafkaformError, LockLost, OutcomeUnknown
from kafkaform.core.layout import Reassignment
from kafkaform.core.model import Diagnostic, ResourceRef, Severity
from kafkaform.resources.topic import topic_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.layout import Replicas, TopicPartition
    from kafkaform.core.lock import Guard


_PARTITION = struct(index=INT32, replicas=array(INT32), adding=array(INT32), removing=array(INT32))
_RUNNING = RequestType(
    Api(46, 0, flexible=True, name="ListPartitionReassignments"),
    whole(
        struct(
            throttle_ms=INT32,
            error_code=INT16,
            error_message=NULLABLE_STRING,
            topics=array(struct(name=STRING, partitions=array(_PARTITION))),
        )
    ),
)
"""ListPartitionReassignmentsRequest.json and its response."""


def read_running(connection: Connection, timeout_s: float) -> dict[TopicPartition, Reassignment]:
    """Read the reassignments that are running (KIP-455)."""
    answer = retried(lambda: _answer(connection, timeout_s))
    if answer["error_code"]:
        raise translate_code(answer["error_code"], one_line(answer["error_message"] or ""))
    return {
        (topic["name"], partition["index"]): Reassignment(
            tuple(broker for broker in partition["replicas"] if broker not in partition["removing"]),
            frozenset(partition["adding"]),
            frozenset(partition["removing"]),
        )
        for topic in answer["topics"]
        for partition in topic["partitions"]
    }


def _answer(connection: Connection, timeout_s: float) -> Any:
    every_topic, no_tags = b"\x00", b"\x00"
    body = pack(">i", int(timeout_s * 1000)) + every_topic + no_tags
    (answer,) = connection.ask(_RUNNING, [body], timeout_s=timeout_s)
    if answer["error_code"] == KafkaError.NOT_CONTROLLER:  # where ZooKeeper elects it, it is asked itself
        (placement,) = connection.ask(PLACEMENT, [large_answers.metadata_of_no_topic()], timeout_s=timeout_s)
        (answer,) = connection.ask(_RUNNING, [body], node=placement.controller, timeout_s=timeout_s)
    return answer


@dataclass(frozen=True, slots=True)
class Reassignments:
    """The replicas that running reassignments lead to.

    Attributes:
        targets: By topic, the replicas that each moving partition will have.
        unread: Why running reassignments could not be read, or None.
    """

    targets: Mapping[str, Mapping[int, Replicas]]
    unread: str | None = None

    def moving(self, topic: str) -> Mapping[int, Replicas]:
        """The same for one topic."""
        return self.targets.get(topic, {})

    def diagnostics(self, refs: Collection[ResourceRef]) -> tuple[Diagnostic, ...]:
        """The notes for the reader of a plan about some resources."""
        if self.unread is not None:
            return (
                Diagnostic(
                    "KF413",
                    Severity.INFO,
                    f"running reassignments were not read ({self.unread}): a replication factor that differs "
                    "may be one that is being changed right now",
                ),
            )
        moving = sorted(topic for topic in self.targets if topic_ref(topic) in refs)
        return tuple(
            Diagnostic(
                "KF309",
                Severity.INFO,
                f"a partition reassignment of {topic} is running",
                ref=topic_ref(topic),
            )
            for topic in moving
        )


def read_reassignments(connection: Connection) -> Reassignments:
    """Read the running reassignments; an account that may not, or a client that cannot, is told of."""
    try:
        running = read_running(connection, timeout_s=READ_TIMEOUT_S)
    except KafkaformError as error:
        return Reassignments({}, error.message)
    targets: dict[str, dict[int, Replicas]] = defaultdict(dict)
    for (topic, partition), reassignment in running.items():
        targets[topic][partition] = reassignment.target
    return Reassignments(dict(targets))


ALTER_TIMEOUT_S = 60.0
"""The time that a controller may take; one under load is slow, not dead."""
BATCH = 1_000
"""The most partitions in one request: a controller writes 10,000 records a request, and none of more."""

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
            return AlterPartitionReassignmentsRequest(timeout_ms=int(ALTER_TIMEOUT_S * 1000), topics=topics)

        answer = ask_controller(connection, request, ALTER_TIMEOUT_S)
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
                timeout_ms=int(ALTER_TIMEOUT_S * 1000),
            )

        answer = ask_controller(connection, request, ALTER_TIMEOUT_S)
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
    remaining = list(partitions)
    outcomes: dict[TopicPartition, ClusterError | None] = {}
    for start in range(0, len(remaining), BATCH):
        batch = remaining[start : start + BATCH]
        try:
            guard()
        except LockLost as lost:
            return {**outcomes, **dict.fromkeys(remaining[start:], lost)}
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

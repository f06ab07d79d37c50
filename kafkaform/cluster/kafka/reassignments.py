"""Reassignments of partitions (KIP-455): reading, starting and cancelling them, and electing leaders.

During a reassignment, metadata shows the old replicas and the new ones.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import refusal
from kafkaform.cluster.wire.messages import ALTER_REASSIGNMENTS, ELECT_LEADERS, LIST_REASSIGNMENTS
from kafkaform.core.errors import ClusterError, KafkaformError, LockLost, OutcomeUnknown
from kafkaform.core.layout import Reassignment, describe_running
from kafkaform.core.model import Diagnostic, ResourceRef, Severity
from kafkaform.resources.topic import topic_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.layout import Replicas, TopicPartition
    from kafkaform.core.lock import Guard


def read_running(connection: Connection, timeout_s: float) -> dict[TopicPartition, Reassignment]:
    """Read the reassignments that are running (KIP-455)."""
    request = {"timeout_ms": int(timeout_s * 1000), "topics": None}
    answer = connection.ask_controller(LIST_REASSIGNMENTS, request, timeout_s)
    if answer["error_code"]:
        raise name_right(refusal(answer), LIST_REASSIGNMENTS.name)
    return {
        (topic["name"], partition["index"]): Reassignment(
            tuple(broker for broker in partition["replicas"] if broker not in partition["removing"]),
            frozenset(partition["adding"]),
            frozenset(partition["removing"]),
        )
        for topic in answer["topics"]
        for partition in topic["partitions"]
    }


@dataclass(frozen=True, slots=True)
class Reassignments:
    """The replicas that running reassignments lead to.

    Attributes:
        running: By topic, the reassignment of each partition that has one.
        unread: Why running reassignments could not be read, or None.
        remedy: What to do so that they can be, or None.
    """

    running: Mapping[str, Mapping[int, Reassignment]]
    unread: str | None = None
    remedy: str | None = None

    def moving(self, topic: str) -> Mapping[int, Replicas]:
        """Return the replicas that each moving partition of a topic will have."""
        return {number: move.target for number, move in self.running.get(topic, {}).items()}

    def diagnostics(self, refs: Collection[ResourceRef]) -> tuple[Diagnostic, ...]:
        """The notes for the reader of a plan about some resources."""
        if self.unread is not None:
            return (
                Diagnostic(
                    "KF413",
                    Severity.INFO,
                    f"running reassignments were not read ({self.unread}): a replication factor that differs "
                    "may be one that is being changed right now",
                    suggestion=self.remedy,
                ),
            )
        moving = sorted(topic for topic in self.running if topic_ref(topic) in refs)
        return tuple(
            Diagnostic(
                "KF309",
                Severity.INFO,
                f"a partition reassignment of {topic} is running: {describe_running(self.running[topic])}",
                ref=topic_ref(topic),
            )
            for topic in moving
        )


def read_reassignments(connection: Connection) -> Reassignments:
    """Read the running reassignments; an account that may not, or a client that cannot, is told of."""
    try:
        running = read_running(connection, timeout_s=READ_TIMEOUT_S)
    except KafkaformError as error:
        return Reassignments({}, error.message, error.hint)
    by_topic: dict[str, dict[int, Reassignment]] = defaultdict(dict)
    for (topic, partition), reassignment in running.items():
        by_topic[topic][partition] = reassignment
    return Reassignments(dict(by_topic))


ALTER_TIMEOUT_S = 60.0
"""The time that a controller may take; one under load is slow, not dead."""
BATCH = 1_000
"""The most partitions in one request: a controller writes 10,000 records a request, and none of more."""

_PREFERRED = 0
"""The type of an election that makes the preferred replica the leader (ElectionType)."""


def reassign(
    connection: Connection, targets: Mapping[TopicPartition, Replicas | None], guard: Guard
) -> dict[TopicPartition, ClusterError | None]:
    """See `Cluster.reassign`."""

    def ask(batch: Mapping[str, Sequence[int]]) -> Iterable[tuple[TopicPartition, ClusterError | None]]:
        topics = [
            {
                "name": topic,
                "partitions": [{"index": number, "replicas": targets[topic, number]} for number in numbers],
            }
            for topic, numbers in batch.items()
        ]
        request = {"timeout_ms": int(ALTER_TIMEOUT_S * 1000), "topics": topics}
        answer = connection.ask_controller(ALTER_REASSIGNMENTS, request, ALTER_TIMEOUT_S)
        if answer["error_code"]:
            raise refusal(answer)
        return (
            ((topic["name"], partition["index"]), refusal(partition) if partition["error_code"] else None)
            for topic in answer["topics"]
            for partition in topic["partitions"]
        )

    return _outcomes(targets, ask, guard, partial(name_right, request=ALTER_REASSIGNMENTS.name))


def elect_leaders(
    connection: Connection, partitions: Collection[TopicPartition], guard: Guard
) -> dict[TopicPartition, ClusterError | None]:
    """See `Cluster.elect_leaders`."""

    def ask(batch: Mapping[str, Sequence[int]]) -> Iterable[tuple[TopicPartition, ClusterError | None]]:
        request = {
            "election_type": _PREFERRED,
            "topics": [{"name": topic, "partitions": numbers} for topic, numbers in batch.items()],
            "timeout_ms": int(ALTER_TIMEOUT_S * 1000),
        }
        answer = connection.ask_controller(ELECT_LEADERS, request, ALTER_TIMEOUT_S)
        if answer["error_code"]:
            raise refusal(answer)
        return (
            ((topic["name"], partition["index"]), _elected(partition))
            for topic in answer["topics"]
            for partition in topic["partitions"]
        )

    return _outcomes(partitions, ask, guard, partial(name_right, request=ELECT_LEADERS.name))


def _elected(partition: Mapping[str, Any]) -> ClusterError | None:
    if partition["error_code"] in {0, KafkaError.ELECTION_NOT_NEEDED}:
        return None
    return refusal(partition)


def _outcomes(
    partitions: Collection[TopicPartition],
    ask: Callable[[Mapping[str, Sequence[int]]], Iterable[tuple[TopicPartition, ClusterError | None]]],
    guard: Guard,
    explain: Callable[[ClusterError], ClusterError],
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
            outcomes.update(
                (partition, explain(error) if error is not None else None)
                for partition, error in ask(_by_topic(batch))
            )
        except KafkaformError as error:
            failure = (
                error if isinstance(error, ClusterError) else ClusterError(error.message, hint=error.hint)
            )
            outcomes.update(dict.fromkeys(batch, explain(failure)))
    return outcomes


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        numbers[topic].append(number)
    return numbers

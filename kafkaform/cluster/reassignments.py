"""Running partition reassignments: during one, metadata shows the old replicas and the new ones."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkaform.cluster.connection import READ_TIMEOUT_S, Connection
from kafkaform.cluster.controlled import ask_controller
from kafkaform.errors import KafkaformError
from kafkaform.layout import Reassignment
from kafkaform.model import Diagnostic, ResourceRef, Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.groups import TopicPartition
    from kafkaform.layout import Replicas


def read_running(connection: Connection, timeout_s: float) -> dict[TopicPartition, Reassignment]:
    """Read the reassignments that are running (KIP-455), through kafka-python."""
    from kafka.protocol.admin import ListPartitionReassignmentsRequest

    def request() -> Any:
        return ListPartitionReassignmentsRequest(timeout_ms=int(timeout_s * 1000), topics=None)

    answer = ask_controller(connection, request, timeout_s)
    return {
        (topic.name, partition.partition_index): Reassignment(
            tuple(broker for broker in partition.replicas if broker not in partition.removing_replicas),
            frozenset(partition.adding_replicas),
            frozenset(partition.removing_replicas),
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


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
        """What the reader of a plan about some resources must know."""
        if self.unread is not None:
            return (
                Diagnostic(
                    "KF413",
                    Severity.INFO,
                    f"running reassignments were not read ({self.unread}): a replication factor that differs "
                    "may be one that is being changed right now",
                ),
            )
        moving = sorted(topic for topic in self.targets if ResourceRef("Topic", topic) in refs)
        return tuple(
            Diagnostic("KF309", Severity.INFO, f"a partition reassignment of {topic} is running")
            for topic in moving
        )


def read_reassignments(connection: Connection) -> Reassignments:
    """Read the running reassignments; an account that may not, or a client that cannot, is told of."""
    try:
        running = read_running(connection, timeout_s=READ_TIMEOUT_S)
    except KafkaformError as error:
        return Reassignments({}, error.message)
    targets: dict[str, dict[int, Replicas]] = defaultdict(dict)
    for (topic, partition), one in running.items():
        targets[topic][partition] = one.target
    return Reassignments(dict(targets))

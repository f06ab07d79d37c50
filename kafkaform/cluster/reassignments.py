"""Running partition reassignments: during one, metadata shows the old replicas and the new ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.cluster.connection import READ_TIMEOUT_S, Connection
from kafkaform.errors import KafkaformError
from kafkaform.model import Diagnostic, ResourceRef, Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass(frozen=True, slots=True)
class Reassignments:
    """The replica counts that running reassignments lead to, by topic and partition.

    Attributes:
        targets: How many replicas each moving partition will have.
        unread: Why running reassignments could not be read, or None.
    """

    targets: Mapping[tuple[str, int], int]
    unread: str | None = None

    def replicas(self, topic: str, partition: int, shown: int) -> int:
        """How many replicas a partition has, or will have once its reassignment is over."""
        return self.targets.get((topic, partition), shown)

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
        moving = sorted({topic for topic, _ in self.targets if ResourceRef("Topic", topic) in refs})
        return tuple(
            Diagnostic("KF309", Severity.INFO, f"a partition reassignment of {topic} is running")
            for topic in moving
        )


def read_reassignments(connection: Connection) -> Reassignments:
    """Read the running reassignments; an account that may not, or a client that cannot, is told of."""
    try:
        running = connection.reassignments(timeout_s=READ_TIMEOUT_S)
    except KafkaformError as error:
        return Reassignments({}, error.message)
    return Reassignments(
        {
            (topic, partition): len(set(moves["replicas"]) - set(moves["removing_replicas"]))
            for (topic, partition), moves in running.items()
        }
    )

"""The replicas of a live resource, and of a cluster whose replicas are to be moved, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Live, Observed, ResourceRef, State, to_integer
from kafkaform.core.values import Value, field
from kafkaform.resources.replicas.moves import Throttles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.partitions import TopicPartition
    from kafkaform.resources.replicas.layout import Assignment, Layout

PLACEMENT = "placement"
"""The field for the assignment of replicas, as `kafkaform.resources.replicas.layout` writes it."""
REPLICATION_FACTOR = "replicationFactor"
MIN_ISR = "config.min.insync.replicas"


class LiveReplicas(Live):
    """The replicas of a live resource.

    Attributes:
        replicas: Their assignment once running reassignments have ended.
        moving: The partitions that a running reassignment moves.
    """

    replicas: Assignment = ()
    moving: frozenset[int] = frozenset()


_UNREAD = LiveReplicas()


def get_replicas(observed: Observed) -> LiveReplicas:
    """Return the replicas of a live resource; empty if they were not read."""
    return observed.live if isinstance(observed.live, LiveReplicas) else _UNREAD


def count_replicas(state: State, observed: Observed | None = None) -> int | None:
    """Return the number of replicas of all partitions of a topic; None if it is not known.

    Args:
        state: The values of the topic.
        observed: The live topic, whose partitions may have different numbers of replicas.
    """
    partitions, factor = state.get("partitions"), state.get(REPLICATION_FACTOR)
    # -1 is the default of the brokers.
    if isinstance(partitions, int) and isinstance(factor, int):
        return partitions * factor if min(partitions, factor) > 0 else None
    return sum(map(len, get_replicas(observed).replicas)) or None if observed is not None else None


def list_partitions(topic: Observed) -> list[TopicPartition]:
    """Return the partitions of a live topic."""
    return [(topic.ref.name, number) for number in range(to_integer(topic.state.get("partitions")) or 0)]


class ReplicaFacts(Value):
    """The data about a cluster whose replicas a plan places or moves.

    Attributes:
        layout: All present replicas; None if they were not read, as nothing is to be moved.
        placements: The planned assignment of each resource, including partitions to be added.
        unplaceable: Resources whose replicas cannot be placed, and why.
        partition_sizes: The bytes of one replica of each partition to be moved.
        throttle: The bytes per second that a broker may send and receive for moves; None: no limit.
        throttles: The replication throttles that are set already, of brokers and of topics to be moved.
        disk_shortages: Topics whose copies do not fit on the disks of a broker, and why.
        disk_doubts: Topics whose copies may not fit, as too little is known, and why.
    """

    layout: Layout | None = None
    placements: Mapping[ResourceRef, Assignment] = field(default_factory=dict)
    unplaceable: Mapping[ResourceRef, str] = field(default_factory=dict)
    partition_sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    throttle: int | None = None
    throttles: Throttles = field(default_factory=Throttles)
    disk_shortages: Mapping[str, str] = field(default_factory=dict)
    disk_doubts: Mapping[str, str] = field(default_factory=dict)

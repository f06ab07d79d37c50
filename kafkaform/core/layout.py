"""Where the replicas of partitions are and are going, as plain data, and how that is written.

An assignment is written as Kafka's own tools write one (`--replica-assignment`): the brokers of a partition
with colons between them, the preferred leader first, and partitions with commas between them: `1:2,2:3`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.groups import TopicPartition

Replicas: TypeAlias = tuple[int, ...]
"""The ids of the brokers that hold one partition, the preferred leader first."""

Assignment: TypeAlias = tuple[Replicas, ...]
"""The replicas of every partition of a topic, from partition 0 on."""


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker of the cluster."""

    id: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition.

    Attributes:
        topic: Its topic.
        partition: Its number.
        leader: The broker that leads it; None while it is offline.
        replicas: The brokers that hold it, the preferred leader first.
        isr: The brokers that are in sync.
    """

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Strategy(StrEnum):
    """How the replicas of a topic are placed.

    BALANCED places what must be placed, and moves nothing else. RACK_AWARE also moves replicas of partitions
    that use fewer racks than they could. STATIC takes what is listed.
    """

    BALANCED = "balanced"
    RACK_AWARE = "rack-aware"
    STATIC = "static"


def format_assignment(assignment: Assignment) -> str:
    """Write an assignment, such as `1:2,2:3`."""
    return ",".join(":".join(map(str, replicas)) for replicas in assignment)


def parse_assignment(text: str) -> Assignment:
    """Read an assignment as `format_assignment` writes it.

    Raises:
        ValueError: It is not one.
    """
    assignment = tuple(map(_replicas, text.split(",")))
    if None in assignment:
        partition = assignment.index(None)
        raise ValueError(f"partition {partition} has {text.split(',')[partition]}")
    return cast("Assignment", assignment)


@lru_cache(4096)
def _replicas(text: str) -> Replicas | None:
    """The brokers of one partition; None if it cannot have these. A few brokers are read again and again."""
    replicas = tuple(map(int, text.split(":")))
    return None if len(set(replicas)) < len(replicas) or min(replicas) < 0 else replicas


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment that is running (KIP-455).

    Attributes:
        target: The replicas that it leads to.
        adding: Those of them that are being filled.
        removing: Brokers that hold the partition until it is over.
    """

    target: Replicas
    adding: frozenset[int]
    removing: frozenset[int]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where all replicas are that this account can see.

    Attributes:
        brokers: The live brokers.
        topics: The partitions of each topic, from partition 0 on. During a reassignment, Kafka shows the old
            replicas and the new ones of a partition.
        reassigning: The reassignments that are running; None where this account may not see them.
    """

    brokers: tuple[Broker, ...]
    topics: Mapping[str, tuple[PartitionState, ...]]
    reassigning: Mapping[TopicPartition, Reassignment] | None = field(default_factory=dict)

    def replicas(self, partition: TopicPartition) -> Replicas:
        """The replicas of a partition once nothing is reassigned any more."""
        running = (self.reassigning or {}).get(partition)
        topic, number = partition
        return running.target if running is not None else self.topics[topic][number].replicas

    def assignment(self, topic: str) -> Assignment:
        """The same for all partitions of a topic."""
        return tuple(self.replicas((topic, number)) for number in range(len(self.topics[topic])))

"""Where the replicas of partitions are and are going, as plain data.

The changes between two assignments are counted and described.

An assignment is written as Kafka's own tools write one (`--replica-assignment`): the brokers of a partition
with colons between them, the preferred leader first, and partitions with commas between them: `1:2,2:3`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, cast

from kafkaform.core.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Mapping

if TYPE_CHECKING:
    from collections.abc import Mapping


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


@lru_cache(16_384)
def parse_assignment(text: str) -> Assignment:
    """Read an assignment as `format_assignment` writes it; each stage of an apply reads the same ones again.

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

    @property
    def source(self) -> Replicas:
        """The replicas that it began with; the order of those that go is not known any more."""
        kept = tuple(broker for broker in self.target if broker not in self.adding)
        return (*kept, *sorted(self.removing))

    def __str__(self) -> str:
        """Its direction, such as `from 1 to 1:3`."""
        source, target = (":".join(map(str, replicas)) for replicas in (self.source, self.target))
        return f"from {source} to {target}"


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

    def running(self, topic: str) -> dict[int, Reassignment]:
        """Return the running reassignments of a topic by partition, as far as they can be seen."""
        running = self.reassigning or {}
        numbers = range(len(self.topics.get(topic, ())))
        return {number: running[topic, number] for number in numbers if (topic, number) in running}

    def assignment(self, topic: str) -> Assignment:
        """The same for all partitions of a topic."""
        return tuple(self.replicas((topic, number)) for number in range(len(self.topics[topic])))


def describe_running(running: Mapping[int, Reassignment]) -> str:
    """Return the partitions that are being reassigned, such as `partition 0 from 1 to 1:3`."""
    return listed([f"partition {number} {move}" for number, move in sorted(running.items())])


@dataclass(frozen=True, slots=True)
class ReplicaChanges:
    """What differs.

    Attributes:
        added: By partition, the brokers that get a replica; partitions that get none are left out.
        dropped: By partition, the brokers whose replica goes.
        reordered: The partitions that stay on their brokers, in another order.
        placed: How many partitions there are only afterwards.
    """

    added: Mapping[int, Replicas]
    dropped: Mapping[int, Replicas]
    reordered: tuple[int, ...] = ()
    placed: int = 0

    @property
    def copied(self) -> int:
        """How many replicas are made by copying."""
        return sum(map(len, self.added.values()))

    @property
    def gone(self) -> int:
        """How many replicas go."""
        return sum(map(len, self.dropped.values()))

    @property
    def partitions(self) -> int:
        """How many partitions differ that are there before and afterwards."""
        return len({*self.added, *self.dropped, *self.reordered})

    def __str__(self) -> str:
        """Such as `2 partitions: replica moves from broker 1 to 3`, or `9 partitions: 18 replicas added`."""
        parts = []
        moved = sorted({*self.added, *self.dropped})
        kinds = {(self.added.get(number, ()), self.dropped.get(number, ())) for number in moved}
        if len(kinds) == 1:
            parts.append(f"{counted(len(moved), 'partition')}: {_moved(*kinds.pop())}")
        elif moved:
            added = f"{counted(self.copied, 'replica')} added" if self.added else ""
            noun = "" if self.added else f" replica{'' if self.gone == 1 else 's'}"
            dropped = f"{self.gone:,}{noun} dropped" if self.dropped else ""
            parts.append(f"{counted(len(moved), 'partition')}: {', '.join(filter(None, (added, dropped)))}")
        if self.reordered:
            parts.append(f"{counted(len(self.reordered), 'partition')}: a different preferred leader")
        if self.placed:
            parts.append(f"{counted(self.placed, 'new partition')} placed")
        return "; ".join(parts) or "no replica moves"


def _moved(added: Replicas, dropped: Replicas) -> str:
    """What becomes of the replicas of partitions that gain and lose the same brokers."""
    if len(added) == len(dropped):
        verb = "replica moves" if len(added) == 1 else "replicas move"
        return f"{verb} from {_brokers(dropped)} to {', '.join(map(str, added))}"
    verbs = (("added on", added), ("dropped from", dropped))
    return ", ".join(
        f"replica{'' if len(brokers) == 1 else 's'} {verb} {_brokers(brokers)}"
        for verb, brokers in verbs
        if brokers
    )


def _brokers(brokers: Replicas) -> str:
    return f"broker{'' if len(brokers) == 1 else 's'} {', '.join(map(str, brokers))}"


def replica_changes(
    before: Mapping[int, Replicas], after: Mapping[int, Replicas], placed: int = 0
) -> ReplicaChanges:
    """Compare the replicas of the same partitions."""
    added: dict[int, Replicas] = {}
    dropped: dict[int, Replicas] = {}
    reordered = []
    for number, old in before.items():
        new = after[number]
        if old == new:
            continue
        if more := tuple(broker for broker in new if broker not in old):
            added[number] = more
        if less := tuple(broker for broker in old if broker not in new):
            dropped[number] = less
        if not more and not less:
            reordered.append(number)
    return ReplicaChanges(added, dropped, tuple(reordered), placed)


def assignment_changes(before: Assignment, after: Assignment) -> ReplicaChanges:
    """Compare two assignments of a topic; the second may have more partitions."""
    there = range(min(len(before), len(after)))
    old, new = ({number: side[number] for number in there} for side in (before, after))
    return replica_changes(old, new, placed=len(after) - len(there))


TopicPartition: TypeAlias = tuple[str, int]
"""A partition by the name of its topic and its number."""

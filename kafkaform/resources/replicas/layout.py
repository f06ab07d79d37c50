"""The assignment of replicas to brokers and running reassignments, as plain data; changes of an assignment.

An assignment is written as by Kafka's own tools (`--replica-assignment`): the brokers of a partition are
separated by colons, the preferred leader first, and partitions by commas: `1:2,2:3`.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, cast

from kafkaform.core.partitions import Broker, PartitionState, Replicas, TopicPartition
from kafkaform.core.values import Value, field
from kafkaform.core.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Mapping

Assignment: TypeAlias = tuple[Replicas, ...]
"""The replicas of every partition of a topic, from partition 0 on."""


class Strategy(StrEnum):
    """The strategy of placing the replicas of a topic.

    BALANCED places new replicas, and moves nothing else. RACK_AWARE also moves replicas of partitions that
    use fewer racks than possible. STATIC uses the listed brokers.
    """

    BALANCED = "balanced"
    RACK_AWARE = "rack-aware"
    STATIC = "static"


def format_assignment(assignment: Assignment) -> str:
    """Format an assignment, such as `1:2,2:3`."""
    return ",".join(":".join(map(str, replicas)) for replicas in assignment)


# Every stage of a plan and an apply parses the same assignments.
@lru_cache(16_384)
def parse_assignment(text: str) -> Assignment:
    """Parse an assignment such as `1:2,2:3`.

    Raises:
        ValueError: It is not an assignment.
    """
    assignment = tuple(map(_replicas, text.split(",")))
    if None in assignment:
        partition = assignment.index(None)
        raise ValueError(f"partition {partition} has {text.split(',')[partition]}")
    return cast("Assignment", assignment)


# Partitions of all topics have few different sets of brokers.
@lru_cache(4096)
def _replicas(text: str) -> Replicas | None:
    """Return the brokers of one partition; None if they are invalid."""
    replicas = tuple(map(int, text.split(":")))
    return None if len(set(replicas)) < len(replicas) or min(replicas) < 0 else replicas


class Reassignment(Value):
    """A reassignment that is running (KIP-455).

    Attributes:
        target: The replicas after it.
        adding: The brokers that are being filled.
        removing: The brokers that hold the partition until it ends.
    """

    target: Replicas
    adding: frozenset[int]
    removing: frozenset[int]

    @property
    def source(self) -> Replicas:
        """The replicas before it; the order of the removed ones is not known, as Kafka does not report it."""
        kept = tuple(broker for broker in self.target if broker not in self.adding)
        return (*kept, *sorted(self.removing))

    def __str__(self) -> str:
        """Return its description, such as `from 1 to 1:3`."""
        source, target = (":".join(map(str, replicas)) for replicas in (self.source, self.target))
        return f"from {source} to {target}"


class Layout(Value):
    """All replicas that this account can see.

    Attributes:
        topics: The partitions of each topic, from partition 0 on. During a reassignment, Kafka shows the old
            replicas and the new ones of a partition.
        reassigning: The running reassignments; None if this account may not see them.
    """

    brokers: tuple[Broker, ...]
    topics: Mapping[str, tuple[PartitionState, ...]]
    reassigning: Mapping[TopicPartition, Reassignment] | None = field(default_factory=dict)

    def replicas(self, partition: TopicPartition) -> Replicas:
        """Return the replicas of a partition once running reassignments have ended."""
        running = (self.reassigning or {}).get(partition)
        topic, number = partition
        # Metadata shows old and new replicas together while a reassignment is running.
        return running.target if running is not None else self.topics[topic][number].replicas

    def running(self, topic: str) -> dict[int, Reassignment]:
        """Return the visible running reassignments of a topic by partition."""
        running = self.reassigning or {}
        numbers = range(len(self.topics.get(topic, ())))
        return {number: running[topic, number] for number in numbers if (topic, number) in running}

    def assignment(self, topic: str) -> Assignment:
        """Return the replicas of all partitions of a topic once running reassignments have ended."""
        return tuple(self.replicas((topic, number)) for number in range(len(self.topics[topic])))


def describe_running(running: Mapping[int, Reassignment]) -> str:
    """Describe running reassignments, such as `partition 0 from 1 to 1:3`."""
    return listed([f"partition {number} {move}" for number, move in sorted(running.items())])


class ReplicaChanges(Value):
    """The changes of the replicas of partitions.

    Attributes:
        added: The brokers that get a replica, by partition; partitions without any are left out.
        dropped: The brokers whose replica is dropped, by partition.
        reordered: The partitions whose replicas only change their order.
        placed: The number of new partitions.
    """

    added: Mapping[int, Replicas]
    dropped: Mapping[int, Replicas]
    reordered: tuple[int, ...] = ()
    placed: int = 0

    @property
    def copied(self) -> int:
        """The number of replicas that are copied."""
        return sum(map(len, self.added.values()))

    @property
    def gone(self) -> int:
        """The number of replicas that are dropped."""
        return sum(map(len, self.dropped.values()))

    @property
    def partitions(self) -> int:
        """The number of existing partitions that change."""
        return len({*self.added, *self.dropped, *self.reordered})

    def __str__(self) -> str:
        """Return `2 partitions: replica moves from broker 1 to 3`, or `9 partitions: 18 replicas added`."""
        parts = []
        moved = sorted({*self.added, *self.dropped})
        kinds = {(self.added.get(number, ()), self.dropped.get(number, ())) for number in moved}
        if len(kinds) == 1:
            parts.append(f"{counted(len(moved), 'partition')}: {_describe_move(*kinds.pop())}")
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


def _describe_move(added: Replicas, dropped: Replicas) -> str:
    """Describe the move of partitions that gain and lose the same brokers."""
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
        if gained := tuple(broker for broker in new if broker not in old):
            added[number] = gained
        if lost := tuple(broker for broker in old if broker not in new):
            dropped[number] = lost
        if not gained and not lost:
            reordered.append(number)
    return ReplicaChanges(added, dropped, tuple(reordered), placed)


def assignment_changes(before: Assignment, after: Assignment) -> ReplicaChanges:
    """Compare two assignments of a topic; the second may have more partitions."""
    common = range(min(len(before), len(after)))
    old, new = ({number: side[number] for number in common} for side in (before, after))
    return replica_changes(old, new, placed=len(after) - len(common))

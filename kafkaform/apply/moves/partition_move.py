"""One partition that is to get other replicas, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkaform.core.groups import TopicPartition
    from kafkaform.core.layout import Layout, Replicas
    from kafkaform.core.model import ResourceRef
    from kafkaform.core.operations import Reassign


class Whereabouts(Enum):
    """Where a partition stands in a layout."""

    READY = auto()
    """As it was planned to be moved from."""
    RUNNING = auto()
    """On its way to where it is to be, whoever has started that."""
    DONE = auto()
    """Where it is to be."""
    ELSEWHERE = auto()
    """On its way to somewhere else."""
    STRAY = auto()
    """Neither: somebody else has moved it, or the reading is in between two states."""
    GONE = auto()
    """Not there any more."""


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """One partition to move.

    Attributes:
        ref: Its topic.
        partition: Its number.
        before: The replicas that it is expected to have.
        after: The replicas that it is to have.
        size: Its bytes, one replica counted; 0 where nobody tells.
        adding: The brokers that it is copied to.
    """

    ref: ResourceRef
    partition: int
    before: Replicas
    after: Replicas
    size: int = 0
    adding: frozenset[int] = frozenset()

    @property
    def key(self) -> TopicPartition:
        """The partition as clients name it."""
        return self.ref.name, self.partition

    @property
    def copied(self) -> int:
        """How many bytes are copied for it."""
        return self.size * len(self.adding)

    @property
    def holding(self) -> frozenset[int]:
        """The brokers that have it already."""
        return frozenset((*self.before, *self.after)) - self.adding

    @property
    def brokers(self) -> frozenset[int]:
        """All brokers that have a part in it."""
        return frozenset((*self.before, *self.after))


def named(partition: TopicPartition) -> str:
    """A partition for messages, as Kafka's logs write it: `orders-3`."""
    topic, number = partition
    return f"{topic}-{number}"


def whereabouts(move: PartitionMove, layout: Layout) -> Whereabouts:
    """Where a partition stands."""
    if move.partition >= len(layout.topics.get(move.ref.name, ())):
        return Whereabouts.GONE
    running = (layout.reassigning or {}).get(move.key)
    if running is not None:
        return Whereabouts.RUNNING if running.target == move.after else Whereabouts.ELSEWHERE
    live = layout.topics[move.ref.name][move.partition].replicas
    if live == move.after:
        return Whereabouts.DONE
    return Whereabouts.READY if live == move.before else Whereabouts.STRAY


def moves_of(
    work: Iterable[Reassign], layout: Layout, sizes: Mapping[tuple[str, int, int], int]
) -> Iterator[PartitionMove]:
    """The partitions that reassignments move.

    Args:
        work: The reassignments.
        layout: Where replicas are: what is being copied by now is still to be copied.
        sizes: The bytes of replicas by topic, partition and broker.
    """
    for operation in work:
        for partition, after in operation.after.items():
            key = operation.ref.name, partition
            before = operation.before[partition]
            running = (layout.reassigning or {}).get(key)
            joined = running is not None and running.target == after
            adding = running.adding if running is not None and joined else frozenset(after) - {*before}
            known = [sizes.get((*key, broker), 0) for broker in {*before, *after} - adding]
            yield PartitionMove(operation.ref, partition, before, after, max(known, default=0), adding)


def foreign(layout: Layout, targets: Mapping[TopicPartition, Replicas]) -> list[TopicPartition]:
    """The partitions whose running reassignments lead to something else than the targets, in order."""
    running = layout.reassigning or {}
    return sorted(key for key, one in running.items() if targets.get(key) != one.target)

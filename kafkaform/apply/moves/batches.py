"""Moves of partitions to other replicas, where each stands, and the batches that they are cut into."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.core.moves import LONGEST_LIST

if TYPE_CHECKING:
    from collections.abc import (
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from kafkaform.core.layout import Layout, Replicas, TopicPartition
    from kafkaform.core.model import ResourceRef
    from kafkaform.core.moves import MoveOptions
    from kafkaform.core.operations import Reassign


class MoveStatus(Enum):
    """The status of a partition in a layout."""

    READY = auto()
    """As it was planned to be moved from."""
    RUNNING = auto()
    """On its way to where it is to be, whoever has started that."""
    DONE = auto()
    """At its target."""
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
        """The bytes that are copied for it."""
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


def status_of(move: PartitionMove, layout: Layout) -> MoveStatus:
    """The status of a partition."""
    if move.partition >= len(layout.topics.get(move.ref.name, ())):
        return MoveStatus.GONE
    running = (layout.reassigning or {}).get(move.key)
    if running is not None:
        return MoveStatus.RUNNING if running.target == move.after else MoveStatus.ELSEWHERE
    live = layout.topics[move.ref.name][move.partition].replicas
    if live == move.after:
        return MoveStatus.DONE
    return MoveStatus.READY if live == move.before else MoveStatus.STRAY


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
    return sorted(key for key, move in running.items() if targets.get(key) != move.target)


Batch: TypeAlias = "tuple[PartitionMove, ...]"

FREE_PARTITIONS = 1_000
"""The most partitions in a batch that copies nothing; the controller has them done at once."""


def cut(moves: Iterable[PartitionMove], options: MoveOptions) -> list[Batch]:
    """Cut moves into batches; what copies nothing, as a decrease or another order, comes first and apart.

    Of what is copied, each batch takes from all pairs of sending and receiving brokers in turn, so that no
    broker is the only one at work.

    Args:
        moves: In any order; the same moves make the same batches.
        options: The bounds.
    """
    ordered = sorted(moves, key=lambda move: move.key)
    free = [move for move in ordered if not move.adding]
    copied = _dealt(move for move in ordered if move.adding)
    return [
        *_packed(free, FREE_PARTITIONS, options.batch_bytes),
        *_packed(copied, options.batch_partitions, options.batch_bytes),
    ]


def _dealt(moves: Iterable[PartitionMove]) -> Sequence[PartitionMove]:
    """Moves in the order in which each pair of brokers comes about equally often."""
    piles: dict[tuple[tuple[int, ...], int], list[PartitionMove]] = {}
    for move in moves:
        # The sender is the leader, which is the first replica wherever the preferred leader leads.
        piles.setdefault((tuple(sorted(move.adding)), move.before[0]), []).append(move)
    rounds = zip_longest(*piles.values())
    return [move for move in chain.from_iterable(rounds) if move is not None]


def _packed(moves: Iterable[PartitionMove], partitions: int, size: int) -> Iterator[Batch]:
    """Moves in order, as many at a time as fit; one that is too large goes alone.

    The replicas of a topic that are throttled at a time must fit into its list, too.
    """
    batch: list[PartitionMove] = []
    total = 0
    lists: dict[ResourceRef, int] = defaultdict(int)
    for move in moves:
        entries = sum(len(f"{move.partition}:{broker},") for broker in move.brokers)
        is_full = len(batch) >= partitions or lists[move.ref] + entries > LONGEST_LIST
        if batch and (is_full or total + move.copied > size):
            yield tuple(batch)
            batch, total = [], 0
            lists.clear()
        batch.append(move)
        total += move.copied
        lists[move.ref] += entries
    if batch:
        yield tuple(batch)

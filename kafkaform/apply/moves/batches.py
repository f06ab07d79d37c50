"""Moves of partitions to other replicas, their status, and their batches."""

from __future__ import annotations

from collections import defaultdict
from enum import Enum, auto
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.core.values import Value
from kafkaform.resources.replicas.moves import MAX_THROTTLE_LIST_BYTES, MoveOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkaform.core.model import ResourceRef
    from kafkaform.core.partitions import Replicas, TopicPartition
    from kafkaform.resources.replicas.layout import Layout
    from kafkaform.resources.replicas.operations import Reassign

# Without copies there is nothing to throttle or to wait for, so only the size of the request counts.
FREE_PARTITIONS = 1_000
"""The most partitions in a batch without copies, which the controller completes at once."""


class MoveStatus(Enum):
    """The status of a partition in a layout."""

    READY = auto()
    """At its planned origin."""
    RUNNING = auto()
    """Being reassigned to its target, by this apply or by another process."""
    DONE = auto()
    """At its target."""
    ELSEWHERE = auto()
    """Being reassigned to another target."""
    STRAY = auto()
    """At neither origin nor target: another process moved it, or the reading is between two states."""
    GONE = auto()
    """Deleted."""


class PartitionMove(Value):
    """One partition to move.

    Attributes:
        before: The replicas that it is expected to have.
        after: The replicas that it is to have.
        size: Bytes of one replica; 0 if not known.
        adding: The brokers that receive a copy.
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
        """The bytes to copy."""
        return self.size * len(self.adding)

    @property
    def holding(self) -> frozenset[int]:
        """The brokers that have it already."""
        return frozenset((*self.before, *self.after)) - self.adding

    @property
    def brokers(self) -> frozenset[int]:
        """The brokers that send or receive it."""
        return frozenset((*self.before, *self.after))


def format_partition(partition: TopicPartition) -> str:
    """Format a partition as Kafka's logs do: `orders-3`."""
    topic, number = partition
    return f"{topic}-{number}"


def status_of(move: PartitionMove, layout: Layout) -> MoveStatus:
    """Return the status of a partition in a layout."""
    if move.partition >= len(layout.topics.get(move.ref.name, ())):
        return MoveStatus.GONE
    running = (layout.reassigning or {}).get(move.key)
    if running is not None:
        return MoveStatus.RUNNING if running.target == move.after else MoveStatus.ELSEWHERE
    live = layout.topics[move.ref.name][move.partition].replicas
    # In their order, too: the first one is the preferred leader.
    if live == move.after:
        return MoveStatus.DONE
    return MoveStatus.READY if live == move.before else MoveStatus.STRAY


def has_arrived(move: PartitionMove, layout: Layout) -> bool:
    """Return whether a partition is at its target, and in sync there."""
    if status_of(move, layout) is not MoveStatus.DONE:
        return False
    return {*move.after} <= {*layout.topics[move.ref.name][move.partition].isr}


def list_moves(
    work: Iterable[Reassign], layout: Layout, sizes: Mapping[tuple[str, int, int], int]
) -> Iterator[PartitionMove]:
    """Yield the moves of partitions of reassignments.

    Args:
        layout: The present layout; replicas that are being copied count as not copied.
        sizes: Bytes of replicas by topic, partition and broker.
    """
    for operation in work:
        for partition, after in operation.after.items():
            key = operation.ref.name, partition
            before = operation.before[partition]
            running = (layout.reassigning or {}).get(key)
            joined = running is not None and running.target == after
            # Of a move that is running already, Kafka lists what it is still adding; replicas in metadata
            # include these.
            adding = running.adding if running is not None and joined else frozenset(after) - {*before}
            known = [sizes.get((*key, broker), 0) for broker in {*before, *after} - adding]
            yield PartitionMove(operation.ref, partition, before, after, max(known, default=0), adding)


def find_foreign(layout: Layout, targets: Mapping[TopicPartition, Replicas]) -> list[TopicPartition]:
    """Return the partitions whose running reassignments do not lead to the targets, in order."""
    running = layout.reassigning or {}
    return sorted(key for key, move in running.items() if targets.get(key) != move.target)


Batch: TypeAlias = "tuple[PartitionMove, ...]"


def cut_batches(moves: Iterable[PartitionMove], options: MoveOptions) -> list[Batch]:
    """Cut moves into batches; moves without copies, such as a decrease, come first, in batches of their own.

    Each batch of copies takes moves from all pairs of sending and receiving brokers in turn, so that all
    brokers share the work.

    Args:
        moves: The moves, in any order; the same moves make the same batches.
        options: The limits of batches.
    """
    ordered = sorted(moves, key=lambda move: move.key)
    free = [move for move in ordered if not move.adding]
    copies = _interleave(move for move in ordered if move.adding)
    return [
        *_pack(free, FREE_PARTITIONS, options.batch_bytes),
        *_pack(copies, options.batch_partitions, options.batch_bytes),
    ]


def _interleave(moves: Iterable[PartitionMove]) -> Sequence[PartitionMove]:
    """Order moves so that pairs of brokers alternate."""
    piles: dict[tuple[tuple[int, ...], int], list[PartitionMove]] = {}
    for move in moves:
        # The sender is the leader: the first replica, if the preferred leader leads.
        piles.setdefault((tuple(sorted(move.adding)), move.before[0]), []).append(move)
    rounds = zip_longest(*piles.values())
    return [move for move in chain.from_iterable(rounds) if move is not None]


def _pack(moves: Iterable[PartitionMove], partitions: int, size: int) -> Iterator[Batch]:
    """Pack moves into batches, in order; a move that is too large has a batch of its own.

    The throttled replicas of a topic must also fit into its config.
    """
    batch: list[PartitionMove] = []
    total = 0
    lists: dict[ResourceRef, int] = defaultdict(int)
    for move in moves:
        # Every broker counts, although each is in one of the two lists only: an estimate that is never too
        # small.
        entries = sum(len(f"{move.partition}:{broker},") for broker in move.brokers)
        is_full = len(batch) >= partitions or lists[move.ref] + entries > MAX_THROTTLE_LIST_BYTES
        if batch and (is_full or total + move.copied > size):
            yield tuple(batch)
            batch, total = [], 0
            lists.clear()
        batch.append(move)
        total += move.copied
        lists[move.ref] += entries
    if batch:
        yield tuple(batch)

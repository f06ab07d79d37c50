"""Cutting moves into batches: bounded by partitions and by bytes, and each spread over the brokers."""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkaform.apply.moves.partition_move import PartitionMove
    from kafkaform.core.move_options import MoveOptions

Batch: TypeAlias = "tuple[PartitionMove, ...]"

FREE_PARTITIONS = 1_000
"""How many partitions that copy nothing go together; the controller has them done at once."""


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
        piles.setdefault((tuple(sorted(move.adding)), move.before[0]), []).append(move)
    rounds = zip_longest(*piles.values())
    return [move for move in chain.from_iterable(rounds) if move is not None]


def _packed(moves: Iterable[PartitionMove], partitions: int, size: int) -> Iterator[Batch]:
    """Moves in order, as many at a time as fit; one that is too large goes alone."""
    batch: list[PartitionMove] = []
    total = 0
    for move in moves:
        if batch and (len(batch) >= partitions or total + move.copied > size):
            yield tuple(batch)
            batch, total = [], 0
        batch.append(move)
        total += move.copied
    if batch:
        yield tuple(batch)

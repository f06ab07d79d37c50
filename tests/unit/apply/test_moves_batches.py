"""Batches: bounded, complete, spread over brokers, and the same for the same moves."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kafkaform.apply.moves.batches import FREE_PARTITIONS, PartitionMove, cut_batches
from kafkaform.core.partitions import Replicas
from kafkaform.resources.replicas.moves import MoveOptions
from tests.support.builds import builds
from tests.support.plans.moves import build_move


def replicas() -> st.SearchStrategy[Replicas]:
    return st.permutations(range(1, 6)).flatmap(lambda ids: st.integers(1, 4).map(lambda n: tuple(ids[:n])))


MOVES = st.lists(st.tuples(replicas(), replicas(), st.integers(0, 100)), max_size=60).map(
    lambda drawn: [build_move(number, *value) for number, value in enumerate(drawn)]
)
OPTIONS = builds(MoveOptions, batch_partitions=st.integers(1, 10), batch_bytes=st.integers(1, 400))


@given(MOVES, OPTIONS)
def test_every_move_is_in_one_batch_within_the_bounds(
    moves: list[PartitionMove], options: MoveOptions
) -> None:
    batches = cut_batches(moves, options)
    assert sorted(item.key for batch in batches for item in batch) == sorted(move.key for move in moves)
    for batch in batches:
        copies = [bool(item.adding) for item in batch]
        assert all(copies) or not any(copies)
        assert len(batch) <= (options.batch_partitions if copies[0] else FREE_PARTITIONS)
        assert len(batch) == 1 or sum(item.copied for item in batch) <= options.batch_bytes


@given(MOVES, OPTIONS, st.randoms(use_true_random=False))
def test_order_of_moves_does_not_matter(
    moves: list[PartitionMove], options: MoveOptions, chance: random.Random
) -> None:
    shuffled = [*moves]
    chance.shuffle(shuffled)
    assert cut_batches(shuffled, options) == cut_batches(moves, options)


@given(MOVES, OPTIONS)
def test_moves_without_copies_come_first(moves: list[PartitionMove], options: MoveOptions) -> None:
    order = [bool(item.adding) for batch in cut_batches(moves, options) for item in batch]
    assert order == sorted(order)


def test_batches_are_spread_over_pairs() -> None:
    moves = [build_move(number, (1,), (1, 2), 10) for number in range(6)]
    moves += [build_move(number, (3,), (3, 4), 10) for number in range(6, 12)]
    batches = cut_batches(moves, MoveOptions(batch_partitions=4))
    assert [sorted(item.before[0] for item in batch) for batch in batches] == [[1, 1, 3, 3]] * 3
    moves = [
        build_move(0, (1,), (1, 2), 10),
        build_move(1, (1,), (1, 2), 500),
        build_move(2, (1,), (1, 2), 10),
    ]
    batches = cut_batches(moves, MoveOptions(batch_bytes=100))
    assert [[item.partition for item in batch] for batch in batches] == [[0], [1], [2]]


def test_batch_fits_throttled_replica_lists() -> None:
    # A controller refuses a config of more than 32,767 bytes, and then nothing of the batch is begun.
    before, after = (100_001, 100_002, 100_003), (100_004, 100_005, 100_006)
    moves = [build_move(number, before, after, 10) for number in range(9_000, 10_000)]
    batches = cut_batches(moves, MoveOptions(batch_partitions=1_000))
    assert sum(map(len, batches)) == 1_000
    for batch in batches:
        throttled = ",".join(
            f"{item.partition}:{broker}" for item in batch for broker in sorted(item.brokers)
        )
        assert len(throttled) <= 32_767
    assert len(batches) == 3, "no more batches than that takes"
    assert build_move(0, (1,), (1, 2, 3), 10).copied == 20
    assert build_move(0, (1, 2, 3), (1,), 10).copied == 0

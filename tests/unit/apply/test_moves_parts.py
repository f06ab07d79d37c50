"""Parts of moves: batches, the arithmetic of throttles, and what stands in the way of a batch."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.apply.moves.batches import FREE_PARTITIONS, PartitionMove, cut_batches
from kafkaform.apply.moves.obstacles import (
    STALL_S,
    StallDetector,
    describe_problems,
    explain_stall,
    find_in_sync_shortage,
    find_unhealthy,
)
from kafkaform.apply.moves.throttles import (
    compute_throttles,
    list_partitions,
    other_rates,
    select_unchanged,
    subtract_throttles,
)
from kafkaform.core.partitions import Broker, PartitionState, Replicas
from kafkaform.core.values import replace
from kafkaform.resources.replicas.layout import Layout, Reassignment
from kafkaform.resources.replicas.moves import MoveOptions, Rates, ThrottledReplicas, Throttles, union
from tests.support.builds import builds
from tests.support.plans.moves import build_move


def replicas() -> st.SearchStrategy[Replicas]:
    return st.permutations(range(1, 6)).flatmap(lambda ids: st.integers(1, 4).map(lambda n: tuple(ids[:n])))


MOVES = st.lists(st.tuples(replicas(), replicas(), st.integers(0, 100)), max_size=60).map(
    lambda drawn: [build_move(number, *value) for number, value in enumerate(drawn)]
)
OPTIONS = builds(MoveOptions, batch_partitions=st.integers(1, 10), batch_bytes=st.integers(1, 400))


@given(MOVES, OPTIONS)
def test_every_move_is_in_one_batch_within_bounds(moves: list[PartitionMove], options: MoveOptions) -> None:
    batches = cut_batches(moves, options)
    assert sorted(item.key for batch in batches for item in batch) == sorted(move.key for move in moves)
    order = [bool(item.adding) for batch in batches for item in batch]
    assert order == sorted(order), "moves without copies come first"
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


NOTHING = Throttles()
RATES = builds(Rates, st.none() | st.integers(1, 3), st.none() | st.integers(1, 3)).filter(
    lambda rates: rates != Rates()
)
ENTRIES = st.frozensets(st.sampled_from(("0:1", "0:2", "1:1", "7:3")), max_size=3)
LISTS = builds(ThrottledReplicas, ENTRIES, ENTRIES).filter(lambda one: one != ThrottledReplicas())
THROTTLES = builds(
    Throttles,
    st.dictionaries(st.integers(1, 3), RATES, max_size=3),
    st.dictionaries(st.sampled_from("ab"), LISTS, max_size=2),
)


def test_senders_and_receivers_in_service_are_throttled() -> None:
    # Senders have it and receivers are to get it.
    moves = [build_move(0, (1, 2), (2, 3)), build_move(1, (2,), (2, 1)), build_move(2, (1, 2), (1,))]
    asked = compute_throttles(moves, 1000, [1, 2, 3])
    assert asked.rates == dict.fromkeys((1, 2, 3), Rates(1000, 1000))
    listed = ThrottledReplicas(frozenset({"0:1", "0:2", "1:2"}), frozenset({"0:3", "1:1"}))
    assert asked.replicas == {"a": listed}
    assert set(compute_throttles([build_move(0, (1, 2), (2, 3))], 1000, [2, 3]).rates) == {2, 3}
    assert not compute_throttles([build_move(0, (1, 2), (2, 1)), build_move(1, (1, 2), (2,))], 1000, [1, 2])


@given(THROTTLES, THROTTLES)
def test_added_throttles_are_separate(asked: Throttles, present: Throttles) -> None:
    """Whatever is taken off again was not there before."""
    ours = subtract_throttles(asked, present)
    after = union([ours, present])
    assert subtract_throttles(after, ours) == subtract_throttles(present, ours) == present
    assert select_unchanged(ours, after) == ours
    assert subtract_throttles(asked, after) == NOTHING
    assert select_unchanged(ours, present) == NOTHING


def test_throttle_differences_and_partitions_are_listed() -> None:
    # A list of all has everything.
    everything = Throttles(replicas={"a": ThrottledReplicas(frozenset({"*"}), frozenset())})
    asked = Throttles(replicas={"a": ThrottledReplicas(frozenset({"0:1"}), frozenset({"0:2"}))})
    assert subtract_throttles(asked, everything) == Throttles(
        replicas={"a": ThrottledReplicas(frozenset(), frozenset({"0:2"}))}
    )
    # Other rates and partitions are named.
    asked = Throttles({1: Rates(5, 5), 2: Rates(5, 5), 3: Rates(5, 5)})
    present = Throttles({1: Rates(5, 5), 2: Rates(leader=7)})
    assert other_rates(asked, present) == {2: Rates(leader=7)}
    listed = ThrottledReplicas(frozenset({"0:1", "*"}), frozenset({"12:3"}))
    assert list_partitions(Throttles(replicas={"a": listed})) == {("a", 0), ("a", 12)}


def layout(
    *states: tuple[Replicas, Replicas], brokers: Replicas = (1, 2, 3), leader: int | None = 1
) -> Layout:
    """Topic `a`, by the replicas of each partition and those in sync."""
    found = tuple(PartitionState("a", n, leader, have, isr) for n, (have, isr) in enumerate(states))
    return Layout(tuple(map(Broker, brokers)), {"a": found})


def running(target: Replicas, adding: Replicas, removing: Replicas = ()) -> Reassignment:
    return Reassignment(target, frozenset(adding), frozenset(removing))


@pytest.mark.parametrize(
    ("have", "isr", "moving", "target", "ails"),
    [
        ((1, 2), (1, 2), None, None, False),
        ((1, 2), (1,), None, None, True),
        ((1, 2, 3), (1, 2), running((1, 2, 3), (3,)), None, False),  # being filled
        ((1, 2, 3), (1,), running((1, 2, 3), (3,)), None, True),
        ((1, 2), (1,), None, (1, 3), False),  # about to be taken away
        ((1, 2), (1,), None, (2, 3), True),
    ],
)
def test_partition_with_out_of_sync_replicas_is_unhealthy(
    have: Replicas, isr: Replicas, moving: Reassignment | None, target: Replicas | None, *, ails: bool
) -> None:
    found = layout((have, isr))
    if moving is not None:
        found = replace(found, reassigning={("a", 0): moving})
    assert find_unhealthy(found, {("a", 0): target} if target else {}) == ([("a", 0)] if ails else [])


def test_problems_before_a_move_are_named() -> None:
    found = layout(((1, 2), ()), leader=None)
    assert find_unhealthy(found, {("a", 0): (3,)}) == [("a", 0)]
    assert describe_problems(found, [("a", 0)]) == "a-0 without a leader"
    found = layout(*([((1, 2), (1,))] * 9))
    sick = find_unhealthy(found, {})
    assert describe_problems(found, sick).endswith("a-4 and 4 more not in sync on broker 2")
    # Acks all needs replicas that stay.
    found = layout(((1, 2), (1, 2)), ((1, 2, 3), (1, 2)))
    assert find_in_sync_shortage(found, "a", 2) is None
    why = "partition 0 has 2 replicas in sync: acks=all writes would stop"
    assert find_in_sync_shortage(found, "a", 3) == why
    leaving = replace(found, reassigning={("a", 1): running((1, 3), (3,), (2,))})
    why = "partition 1 has 1 replica in sync: acks=all writes would stop"
    assert find_in_sync_shortage(leaving, "a", 2) == why
    assert find_in_sync_shortage(found, "b", 1) == "the topic does not exist"


ONE = build_move(0, (1,), (1, 2), 100)


def test_stall_reason_is_explained() -> None:
    found = layout(((1, 2), (1,)))
    down = "broker 2 down, the target of a-0: start it again"
    assert explain_stall([ONE], replace(found, brokers=(Broker(1),)), 0, 10) == down
    offline = layout(((1, 2), ()), leader=None)
    assert explain_stall([ONE], offline, 0, 10).startswith("a-0 without a leader")
    assert "raise --throttle" in explain_stall([ONE], found, 50, 1000)
    assert "1 MB/s" in explain_stall([ONE], found, 50, 1_000_000)
    assert "check the logs of the brokers" in explain_stall([ONE], found, 50, None)
    assert "check the logs of the brokers" in explain_stall([ONE], found, 0, 1000)
    assert explain_stall([ONE], found, None, 1000) == ""


def test_only_stalled_copy_has_stall_reason() -> None:
    # Writes that keep up with the throttle are a stall.
    watch, found = StallDetector(0), layout(((1, 2), (1,)))
    for second in range(int(STALL_S) + 1):
        sizes = {("a", 0, 1): 100 + second, ("a", 0, 2): second}
        watch.look(second, [ONE], found, sizes, 1_000_000)
        assert bool(watch.reason) == (second >= STALL_S)
    assert "throttle of 1 MB/s" in watch.reason
    watch.look(STALL_S + 1, [ONE], found, {("a", 0, 1): 161, ("a", 0, 2): 90}, 1000)
    assert watch.reason == ""
    watch, found = StallDetector(0), layout(((1, 2), (1,)))
    for second in range(0, 1000, 30):
        watch.look(second, [ONE], found, {("a", 0, 1): 10_000, ("a", 0, 2): second}, 1000)
        assert watch.reason == ""
    # A replica that gets in sync is no stall.
    two = build_move(0, (1,), (1, 2, 3), 100)
    watch = StallDetector(0)
    watch.look(0, [two], layout(((1, 2, 3), (1,))), {}, None)
    watch.look(STALL_S, [two], layout(((1, 2, 3), (1, 2))), {}, None)
    watch.look(STALL_S + 59, [two], layout(((1, 2, 3), (1, 2)), brokers=(1, 2)), {}, None)
    assert watch.reason == ""
    watch.look(STALL_S + 60, [two], layout(((1, 2, 3), (1, 2)), brokers=(1, 2)), {}, None)
    assert watch.reason.startswith("broker 3 down")
    watch = StallDetector(0)
    watch.look(0, [ONE], Layout((), {}), {}, None)
    watch.look(STALL_S, [ONE], Layout((Broker(1), Broker(2)), {}), {}, None)
    assert watch.reason == ""

"""What stands against moving replicas, and why a batch does not move any more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaform.apply.moves.batch_run import STALL_S, StallDetector, reason
from kafkaform.apply.moves.waiting import problems, too_few_in_sync, unhealthy
from kafkaform.core.layout import Broker, Layout, PartitionState, Reassignment, Replicas
from tests.unit.apply.test_moves_batches import move


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
def test_replicas_out_of_sync(
    have: Replicas, isr: Replicas, moving: Reassignment | None, target: Replicas | None, *, ails: bool
) -> None:
    found = layout((have, isr))
    if moving is not None:
        found = replace(found, reassigning={("a", 0): moving})
    assert unhealthy(found, {("a", 0): target} if target else {}) == ([("a", 0)] if ails else [])


def test_a_partition_without_a_leader_ails_whatever_is_to_become_of_it() -> None:
    found = layout(((1, 2), ()), leader=None)
    assert unhealthy(found, {("a", 0): (3,)}) == [("a", 0)]
    assert problems(found, [("a", 0)]) == "a-0 without a leader"


def test_few_of_many_are_named() -> None:
    found = layout(*([((1, 2), (1,))] * 9))
    sick = unhealthy(found, {})
    assert problems(found, sick) == "a-0, a-1, a-2, a-3, a-4 and 4 more not in sync on broker 2"


def test_acks_all_needs_replicas_that_stay() -> None:
    found = layout(((1, 2), (1, 2)), ((1, 2, 3), (1, 2)))
    assert too_few_in_sync(found, "a", 2) is None
    why = "partition 0 has 2 replicas in sync: acks=all writes would stop"
    assert too_few_in_sync(found, "a", 3) == why
    leaving = replace(found, reassigning={("a", 1): running((1, 3), (3,), (2,))})
    why = "partition 1 has 1 replica in sync: acks=all writes would stop"
    assert too_few_in_sync(leaving, "a", 2) == why
    assert too_few_in_sync(found, "b", 1) == "the topic is not there"


# --- stalls ----------------------------------------------------------------------------------------

ONE = move(0, (1,), (1, 2), 100)


def test_the_reason_of_a_stall() -> None:
    found = layout(((1, 2), (1,)))
    down = "broker 2 down, which a-0 is to be on: start it again"
    assert reason([ONE], replace(found, brokers=(Broker(1),)), 0, 10) == down
    offline = layout(((1, 2), ()), leader=None)
    assert "a-0 without a leader to copy from" in reason([ONE], offline, 0, 10)
    assert "raise --throttle" in reason([ONE], found, 50, 1000)
    assert "1 MB/s" in reason([ONE], found, 50, 1_000_000)
    assert "the logs of those" in reason([ONE], found, 50, None)
    assert "the logs of those" in reason([ONE], found, 0, 1000)
    assert reason([ONE], found, None, 1000) == ""


def test_writes_that_keep_up_with_the_throttle_are_a_stall() -> None:
    watch, found = StallDetector(0), layout(((1, 2), (1,)))
    for second in range(int(STALL_S) + 1):
        sizes = {("a", 0, 1): 100 + second, ("a", 0, 2): second}
        watch.look(second, [ONE], found, sizes, 1_000_000)
        assert bool(watch.reason) == (second >= STALL_S)
    assert "as fast as the throttle of 1 MB/s lets them be copied" in watch.reason
    watch.look(STALL_S + 1, [ONE], found, {("a", 0, 1): 161, ("a", 0, 2): 90}, 1000)
    assert watch.reason == ""


def test_a_slow_copy_is_no_stall() -> None:
    watch, found = StallDetector(0), layout(((1, 2), (1,)))
    for second in range(0, 1000, 30):
        watch.look(second, [ONE], found, {("a", 0, 1): 10_000, ("a", 0, 2): second}, 1000)
        assert watch.reason == ""


def test_a_replica_that_gets_in_sync_is_no_stall() -> None:
    two = move(0, (1,), (1, 2, 3), 100)
    watch = StallDetector(0)
    watch.look(0, [two], layout(((1, 2, 3), (1,))), {}, None)
    watch.look(STALL_S, [two], layout(((1, 2, 3), (1, 2))), {}, None)
    watch.look(STALL_S + 59, [two], layout(((1, 2, 3), (1, 2)), brokers=(1, 2)), {}, None)
    assert watch.reason == ""
    watch.look(STALL_S + 60, [two], layout(((1, 2, 3), (1, 2)), brokers=(1, 2)), {}, None)
    assert watch.reason.startswith("broker 3 down")


def test_a_topic_that_is_gone_is_no_accident() -> None:
    watch = StallDetector(0)
    watch.look(0, [ONE], Layout((), {}), {}, None)
    watch.look(STALL_S, [ONE], Layout((Broker(1), Broker(2)), {}), {}, None)
    assert watch.reason == ""

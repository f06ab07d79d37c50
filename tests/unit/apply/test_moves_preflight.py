"""Tests of the obstacles to moving replicas, and of the reasons why a batch does not move any more."""

from __future__ import annotations

import pytest

from kafkaform.apply.moves.obstacles import (
    STALL_S,
    StallDetector,
    describe_problems,
    explain_stall,
    find_in_sync_shortage,
    find_unhealthy,
)
from kafkaform.core.partitions import Broker, PartitionState, Replicas
from kafkaform.core.values import replace
from kafkaform.resources.replicas.layout import Layout, Reassignment
from tests.support.plans.moves import build_move


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

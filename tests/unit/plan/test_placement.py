"""Placing and rebalancing replicas, by example."""

from __future__ import annotations

import sys

import pytest

from kafkaform.core.partitions import Broker, PartitionState
from kafkaform.core.values import replace
from kafkaform.plan.placement import (
    Balance,
    Moves,
    PlacementRequest,
    Placements,
    Strategy,
    balance,
    moves,
    place,
    rebalance,
)
from kafkaform.resources.replicas.layout import Layout, Reassignment
from tests.support.plans.layouts import brokers, large, layout, move_topics, state_of

THREE = brokers(3, ("a", "b", "c"))
SIX = brokers(6, ("a", "b", "c"))


def only(result: Placements) -> tuple[tuple[int, ...], ...]:
    assert not result.refused
    (assignment,) = result.assignments.values()
    return assignment


def refuse_placement(want: PlacementRequest, found: Layout) -> str:
    result = place([want], found)
    assert not result.assignments
    return result.refused[want.topic]


def test_leader_and_last_in_sync_replica_are_kept() -> None:
    state = PartitionState("t", 0, 3, (1, 2, 3), (2, 3))
    found = Layout(THREE, {"t": (state,)})
    assert only(place([PlacementRequest("t", 1, 2)], found)) == ((3, 2),)
    assert only(place([PlacementRequest("t", 1, 1)], found)) == ((3,),)
    found = layout(THREE, {"t": [(1, 2, 3)], "other": [(1, 2)] * 9}, leaders={("t", 0): 2})
    assert only(place([PlacementRequest("t", 1, 2)], found)) == ((1, 2),)
    found = Layout(THREE, {"t": (PartitionState("t", 0, None, (1, 9), (9,)),)})
    assert only(place([PlacementRequest("t", 1, 1)], found)) == ((9,),)
    live = (Broker(1, "a"), Broker(2, "a"), Broker(3, "b"))
    found = layout(live, {"t": [(1, 2, 3)]}, leaders={("t", 0): 2})
    assert only(place([PlacementRequest("t", 1, 2)], found)) == ((2, 3),)


def test_rack_aware_placement_moves_followers_before_leaders() -> None:
    found = layout(SIX, {"t": [(1, 4)]})
    assert only(place([PlacementRequest("t", 1, 2)], found)) == ((1, 4),)
    # Rack aware moves the follower out of the crowded rack.
    found = layout(SIX, {"t": [(1, 4, 2)]})
    after = only(place([PlacementRequest("t", 1, 3, Strategy.RACK_AWARE)], found))
    assert after[0][0] == 1
    assert after[0][2] == 2
    assert after[0][1] in (3, 6)
    found = layout(SIX, {"t": [(1, 4)]}, leaders={("t", 0): 4})
    after = only(place([PlacementRequest("t", 1, 2, Strategy.RACK_AWARE)], found))
    assert after[0][0] == 4
    assert 1 not in after[0]
    live = (Broker(1, "a"), Broker(2, "a"), Broker(3, "a"), Broker(4, "b"))
    found = layout(live, {"t": [(1, 2, 3)], "other": [(1, 4)] * 3}, leaders={("t", 0): 2})
    assert only(place([PlacementRequest("t", 1, 3, Strategy.RACK_AWARE)], found)) == ((1, 2, 4),)
    live = (Broker(1, "a"), Broker(4, "a"), Broker(7, "a"), Broker(2, "b"))
    found = layout(live, {"t": [(1, 4, 7)]})
    assert only(place([PlacementRequest("t", 1, 2, Strategy.RACK_AWARE)], found)) == ((1, 2),)


def test_static_placement_is_used_as_listed() -> None:
    found = layout(THREE, {"t": [(1, 2), (2, 3)]})
    want = PlacementRequest("t", 3, 2, Strategy.STATIC, ((2, 1), (3, 1), (1, 3)))
    assert only(place([want], found)) == want.static
    wants = [PlacementRequest("a", 1, 1), PlacementRequest("z", 2, 1, Strategy.STATIC, ((1,), (2,)))]
    assert place(wants, layout(brokers(3), {})).assignments["a"] == ((3,),)
    found = layout(THREE, {"t": [(1, 9)]})
    assert only(place([PlacementRequest("t", 1, 2, Strategy.STATIC, ((9, 1),))], found)) == ((9, 1),)


@pytest.mark.parametrize(
    ("static", "message"),
    [
        (((1, 2),), "lists the replicas of 1 partition, but partitions is 2"),
        (((1, 2), (2, 2)), "a broker twice for partition 1"),
        (((1, 2), (2,)), "lists 1 broker for partition 1, but replicationFactor is 2"),
        (((1, 2), (2, 9)), "broker 9 for partition 1, which is not live"),
    ],
)
def test_invalid_list_of_replicas_is_refused(static: tuple[tuple[int, ...], ...], message: str) -> None:
    found = layout(THREE, {"t": [(1, 2), (2, 3)]})
    assert message in refuse_placement(PlacementRequest("t", 2, 2, Strategy.STATIC, static), found)


def test_too_few_brokers_and_fewer_partitions_are_refused() -> None:
    found = layout(THREE, {"t": [(1,)]})
    assert "only 3 brokers are live" in refuse_placement(PlacementRequest("t", 1, 4), found)
    assert "only 3 brokers are live" in refuse_placement(PlacementRequest("new", 1, 4), found)
    one_broker = Layout(THREE[:1], found.topics)
    assert "only 1 broker is live" in refuse_placement(PlacementRequest("t", 1, 2), one_broker)
    assert "at least one replica" in refuse_placement(PlacementRequest("t", 1, 0), found)
    found = layout(THREE, {"t": [(1,), (2,)]})
    assert "it has 2 partitions" in refuse_placement(PlacementRequest("t", 1, 1), found)


def test_partition_being_reassigned_is_not_moved() -> None:
    # A topic that is being reassigned is left alone unless nothing of it moves.
    running = {("t", 0): Reassignment((2, 3), frozenset({3}), frozenset({1}))}
    found = layout(THREE, {"t": [(2, 3, 1), (1, 2)], "u": [(1,)]}, reassigning=running)
    assert "reassigning partition 0 from 2:1 to 2:3" in refuse_placement(PlacementRequest("t", 2, 3), found)
    assert only(place([PlacementRequest("t", 2, 2)], found)) == ((2, 3), (1, 2))
    assert only(place([PlacementRequest("t", 3, 2)], found))[:2] == ((2, 3), (1, 2))
    result = rebalance(["t", "u"], found)
    assert set(result.refused) == {"t"}
    running = {("t", number): Reassignment((2,), frozenset({2}), frozenset({1})) for number in range(2)}
    found = layout(THREE, {"t": [(2, 1), (2, 1)]}, reassigning=running)
    both = "partition 0 from 1 to 2, partition 1 from 1 to 2"
    assert both in refuse_placement(PlacementRequest("t", 2, 3), found)
    found = replace(layout(THREE, {"t": [(1,)]}), reassigning=None)
    assert refuse_placement(PlacementRequest("t", 1, 2), found).startswith("this account cannot see")
    assert only(place([PlacementRequest("t", 2, 1)], found))[0] == (1,)
    assert set(rebalance(["t"], found).refused) == {"t"}


def test_refused_topic_does_not_stop_others() -> None:
    result = place([PlacementRequest("a", 1, 9), PlacementRequest("b", 1, 1)], layout(THREE, {}))
    assert set(result.assignments) == {"b"}
    assert set(result.refused) == {"a"}
    with pytest.raises(ValueError, match="duplicate topic"):
        place([PlacementRequest("t", 1, 1), PlacementRequest("t", 2, 1)], layout(THREE, {}))


def test_leaders_are_balanced_after_moves() -> None:
    found = layout(brokers(2), {"s": [(1, 2), (1, 2), (2, 1), (2, 1)], "t": [(1,), (1,)]})
    after = {**state_of(found), **rebalance(found.topics, found).assignments}
    measured = balance(after, found.brokers)
    assert measured.replicas == {1: 5, 2: 5}
    assert measured.leaders == {1: 3, 2: 3}
    live = tuple(Broker(id_, "a" if id_ == 4 else "b") for id_ in range(1, 6))
    found = layout(live, {"t": [(5, 4), (4,), (2, 4, 3), (1,)]})
    assert only(rebalance(["t"], found)) == ((5, 4), (2,), (4, 2, 3), (1,))


def test_topic_wider_than_the_remaining_brokers_is_not_drained() -> None:
    found = layout(THREE, {"t": [(1, 2, 3)], "u": [(3,)]})
    result = rebalance(["t", "u"], found, remove=[3])
    assert result.refused.keys() == {"t"}
    assert "3 replicas, and 2 brokers would be left" in result.refused["t"]
    assert set(result.assignments) == {"u"}


def test_added_brokers_receive_share_and_must_be_live() -> None:
    found = layout(brokers(4), {"t": [(1, 2, 3)] * 8})
    result = rebalance(["t"], found, add=[4])
    measured = balance(result.assignments, found.brokers)
    assert measured.replicas == dict.fromkeys(range(1, 5), 6)
    assert measured.leaders == dict.fromkeys(range(1, 5), 2)
    assert moves(state_of(found), result.assignments).replicas == 6
    found = layout(brokers(4), {"t": [(1, 2), (2, 3), (3, 1)]})
    after = only(rebalance(["t"], found, remove=[3], add=[4]))
    assert [set(replicas) for replicas in after] == [{1, 2}, {2, 4}, {4, 1}]
    # Brokers to add are live and stay.
    found = layout(THREE, {"t": [(1,)]})
    with pytest.raises(ValueError, match="broker 9 is not live"):
        rebalance(["t"], found, add=[9])
    with pytest.raises(ValueError, match="broker 1 is not live, or is to be removed"):
        rebalance(["t"], found, add=[1], remove=[1])
    assert rebalance(["t"], layout(THREE, {})).refused == {"t": "it is not on the cluster"}


def test_balances_and_moves_are_counted() -> None:
    measured = balance({"t": ((1, 4), (2, 3), (9, 1))}, SIX)
    assert measured == Balance({1: 2, 2: 1, 3: 1, 4: 1, 5: 0, 6: 0}, {1: 1, 2: 1, 3: 0, 4: 0, 5: 0, 6: 0}, 1)
    assert (measured.replica_spread, measured.leader_spread) == (2, 1)
    assert balance({}, ()).replica_spread == 0
    before = {"t": ((1, 2), (2, 3))}
    after = {"t": ((2, 1), (2, 1, 4), (5, 6)), "new": ((1, 2),)}
    assert moves(before, after, {("t", 1): 10, ("t", 2): 99}) == Moves(2, 20, 1)


def test_work_grows_in_proportion_to_the_partitions() -> None:
    def calls(partitions: int) -> int:
        found, count = large(30, partitions), 0

        def profile(_frame: object, event: str, _argument: object) -> None:
            nonlocal count
            count += event in {"call", "c_call"}

        sys.setprofile(profile)
        try:
            raised = place([PlacementRequest(topic, 10, 4) for topic in found.topics], found)
            after = move_topics(found, raised.assignments)
            rebalance(after.topics, after)
        finally:
            sys.setprofile(None)
        return count

    assert calls(4_000) <= 4 * calls(1_000)  # where work for each pair would be 16 times as much

"""Placing and rebalancing replicas, by example."""

from __future__ import annotations

import sys

import pytest

from kafkaform.core.partitions import Broker
from kafkaform.core.values import replace
from kafkaform.plan.placement import PlacementRequest, Placements, Strategy, place, rebalance
from kafkaform.resources.replicas.layout import Layout, Reassignment
from tests.support.plans.layouts import brokers, large, layout, move_topics

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


def test_added_brokers_must_be_live() -> None:
    found = layout(THREE, {"t": [(1,)]})
    with pytest.raises(ValueError, match="broker 9 is not live"):
        rebalance(["t"], found, add=[9])
    with pytest.raises(ValueError, match="broker 1 is not live, or is to be removed"):
        rebalance(["t"], found, add=[1], remove=[1])
    assert rebalance(["t"], layout(THREE, {})).refused == {"t": "it is not on the cluster"}


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

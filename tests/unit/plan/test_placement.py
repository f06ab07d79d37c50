"""Placing and rebalancing replicas: examples, and laws over layouts drawn with and without racks."""

import itertools
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from syrupy.assertion import SnapshotAssertion

from kafkaform.core.partitions import Broker, PartitionState, Replicas, TopicPartition
from kafkaform.core.values import replace
from kafkaform.plan.placement import PlacementRequest, Placements, Strategy, balance, moves, place, rebalance
from kafkaform.resources.replicas.layout import Assignment, Layout, Reassignment
from tests.support.plans.risk import render_catalogue

NAMES = ("alpha", "beta", "gamma", "delta")


def brokers(count: int, racks: Sequence[str] = ()) -> tuple[Broker, ...]:
    """Brokers from 1 on, in racks by turns; without racks if none are named."""
    return tuple(Broker(id_, racks[(id_ - 1) % len(racks)] if racks else None) for id_ in range(1, count + 1))


def layout(
    live: Sequence[Broker],
    topics: Mapping[str, Sequence[Replicas]],
    *,
    reassigning: Mapping[TopicPartition, Reassignment] | None = None,
    leaders: Mapping[TopicPartition, int] | None = None,
) -> Layout:
    """A layout in which all live replicas are in sync; a partition's first live replica leads it."""
    ids = {broker.id for broker in live}

    def build_state(topic: str, number: int, replicas: Replicas) -> PartitionState:
        up = tuple(broker for broker in replicas if broker in ids)
        leader = (leaders or {}).get((topic, number), up[0] if up else None)
        return PartitionState(topic, number, leader, replicas, up or replicas[:1])

    return Layout(
        tuple(live),
        {
            topic: tuple(build_state(topic, number, replicas) for number, replicas in enumerate(assignment))
            for topic, assignment in topics.items()
        },
        reassigning or {},
    )


def state_of(found: Layout) -> Mapping[str, Assignment]:
    """Return the places of all replicas of a layout."""
    return {topic: found.assignment(topic) for topic in found.topics}


def move_topics(found: Layout, placed: Mapping[str, Assignment]) -> Layout:
    """The layout once topics are placed so and everything is in sync."""
    return layout(found.brokers, {**state_of(found), **placed})


@st.composite
def fleets(draw: DrawFn, *, racks: bool = True, least: int = 1, most: int = 8) -> tuple[Broker, ...]:
    """Up to so many live brokers, ids not always in a row, with or without racks."""
    ids = draw(st.lists(st.integers(0, 12), min_size=least, max_size=most, unique=True))
    if not racks or draw(st.booleans()):
        return tuple(map(Broker, ids))
    named: list[str | None] = list("abcd"[: draw(st.integers(1, 4))])
    if draw(st.integers(0, 5)) == 0:
        named.append(None)
    return tuple(Broker(id_, draw(st.sampled_from(named))) for id_ in ids)


@st.composite
def healthy(draw: DrawFn, *, racks: bool = True, least: int = 1, most: int = 8, replicas: int = 4) -> Layout:
    """Layouts without a broker that is down, in which all replicas are in sync."""
    live = draw(fleets(racks=racks, least=least, most=most))
    ids = [broker.id for broker in live]
    size = min(replicas, len(ids))
    partition = st.lists(st.sampled_from(ids), min_size=1, max_size=size, unique=True).map(tuple)
    topic = st.lists(partition, min_size=1, max_size=8)
    topics = draw(st.dictionaries(st.sampled_from(NAMES), topic, max_size=4))
    leaders = {
        (name, number): draw(st.sampled_from(placed))
        for name, assignment in topics.items()
        for number, placed in enumerate(assignment)
    }
    return layout(live, topics, leaders=leaders)


@st.composite
def layouts(draw: DrawFn) -> Layout:
    """Layouts in which brokers are down, replicas lag and partitions are offline."""
    live = draw(fleets())
    ids = [broker.id for broker in live]
    everywhere = st.sampled_from([*ids, 20, 21])
    topics = {}
    for name in draw(st.sets(st.sampled_from(NAMES), max_size=3)):
        states = []
        for number in range(draw(st.integers(1, 4))):
            replicas = tuple(draw(st.lists(everywhere, min_size=1, max_size=5, unique=True)))
            isr = tuple(draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True)))
            leader = next((broker for broker in isr if broker in ids), None)
            states.append(PartitionState(name, number, leader, replicas, isr))
        topics[name] = tuple(states)
    return Layout(live, topics)


THREE, SIX = brokers(3, "abc"), brokers(6, "abc")


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


def test_static_placement_is_used_as_listed() -> None:
    found = layout(THREE, {"t": [(1, 2), (2, 3)]})
    want = PlacementRequest("t", 3, 2, STATIC, ((2, 1), (3, 1), (1, 3)))
    assert only(place([want], found)) == want.static
    wants = [PlacementRequest("a", 1, 1), PlacementRequest("z", 2, 1, STATIC, ((1,), (2,)))]
    assert place(wants, layout(brokers(3), {})).assignments["a"] == ((3,),)
    found = layout(THREE, {"t": [(1, 9)]})
    assert only(place([PlacementRequest("t", 1, 2, STATIC, ((9, 1),))], found)) == ((9, 1),)


ONE, TWO = layout(THREE, {"t": [(1,)]}), layout(THREE, {"t": [(1,), (2,)]})
STATIC = Strategy.STATIC
REFUSED: dict[str, tuple[PlacementRequest, Layout]] = {
    "too few partitions listed": (PlacementRequest("t", 2, 2, STATIC, ((1, 2),)), TWO),
    "a broker listed twice": (PlacementRequest("t", 2, 2, STATIC, ((1, 2), (2, 2))), TWO),
    "too few brokers listed": (PlacementRequest("t", 2, 2, STATIC, ((1, 2), (2,))), TWO),
    "a stopped broker listed": (PlacementRequest("t", 2, 2, STATIC, ((1, 2), (2, 9))), TWO),
    "too few brokers": (PlacementRequest("t", 1, 4), ONE),
    "too few brokers for a new topic": (PlacementRequest("new", 1, 4), ONE),
    "one broker": (PlacementRequest("t", 1, 2), Layout(THREE[:1], ONE.topics)),
    "no replica": (PlacementRequest("t", 1, 0), ONE),
    "fewer partitions": (PlacementRequest("t", 1, 1), TWO),
    "unknown reassignments": (PlacementRequest("t", 1, 2), replace(ONE, reassigning=None)),
}


def test_messages_on_refused_placements_match_golden(golden: SnapshotAssertion) -> None:
    messages = {name: refuse_placement(want, found) for name, (want, found) in REFUSED.items()}
    assert render_catalogue(messages) == golden(name="refused.txt")


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
    assert balance({}, ()).replica_spread == 0
    live = tuple(Broker(id_, "a" if id_ == 4 else "b") for id_ in range(1, 6))
    found = layout(live, {"t": [(5, 4), (4,), (2, 4, 3), (1,)]})
    assert only(rebalance(["t"], found)) == ((5, 4), (2,), (4, 2, 3), (1,))


def test_added_brokers_must_be_live() -> None:
    found = layout(THREE, {"t": [(1,)]})
    with pytest.raises(ValueError, match="broker 9 is not live"):
        rebalance(["t"], found, add=[9])
    with pytest.raises(ValueError, match="broker 1 is not live, or is to be removed"):
        rebalance(["t"], found, add=[1], remove=[1])
    assert rebalance(["t"], layout(THREE, {})).refused == {"t": "it is not on the cluster"}


def test_work_grows_in_proportion_to_the_partitions() -> None:
    def calls(partitions: int) -> int:
        chance, count = random.Random(7), 0
        spread = [[tuple(chance.sample(range(1, 31), 3)) for _ in range(10)] for _ in range(partitions // 10)]
        topics = {f"topic-{number:05d}": replicas for number, replicas in enumerate(spread)}
        found = layout(brokers(30, "abc"), topics)

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


Scene = tuple[Layout, list[PlacementRequest]]
MOVABLE = st.sampled_from((Strategy.BALANCED, Strategy.RACK_AWARE))


@st.composite
def scenes(draw: DrawFn, strategies: st.SearchStrategy[Strategy] = MOVABLE) -> Scene:
    """A layout, and wants for some of its topics and for new ones."""
    found = draw(layouts())
    wants = []
    for topic in sorted(draw(st.sets(st.sampled_from((*NAMES, "new"))))):
        present = len(found.topics.get(topic, ()))
        partitions = draw(st.integers(max(1, present), present + 4))
        wants.append(PlacementRequest(topic, partitions, draw(st.integers(1, 5)), draw(strategies)))
    return found, wants


def place_all(found: Layout, wants: Sequence[PlacementRequest]) -> Mapping[str, Assignment]:
    """Return the placed topics; every request is either placed or refused."""
    result = place(wants, found)
    assert {want.topic for want in wants} == {*result.assignments, *result.refused}
    assert not set(result.assignments) & set(result.refused)
    return result.assignments


def partitions(
    found: Layout, wants: Sequence[PlacementRequest]
) -> list[tuple[PlacementRequest, PartitionState | None, Replicas, Replicas]]:
    """Every placed partition: its want, its state if it exists, its replicas before and after."""
    assignments = place_all(found, wants)
    result = []
    for want in wants:
        states = found.topics.get(want.topic, ())
        for number, after in enumerate(assignments.get(want.topic, ())):
            state = states[number] if number < len(states) else None
            result.append((want, state, state.replicas if state else (), after))
    return result


def count_racks(found: Layout, replicas: Replicas) -> int:
    """Count the racks that live replicas use; brokers are racks where not all have one."""
    racks = {broker.id: broker.rack for broker in found.brokers}
    if not all(racks.values()):
        return len(set(replicas) & set(racks))
    return len({racks[broker] for broker in replicas if broker in racks})


def rack_count(found: Layout) -> int:
    racks = [broker.rack for broker in found.brokers]
    return len(set(racks)) if all(racks) else len(racks)


def list_live(found: Layout) -> set[int]:
    return {broker.id for broker in found.brokers}


@given(scenes())
def test_partitions_have_distinct_replicas_and_keep_leaders(scene: Scene) -> None:
    found, wants = scene
    assignments = place_all(found, wants)
    for want in wants:
        if want.topic in assignments:
            assert len(assignments[want.topic]) == want.partitions
            continue
        present: list[Replicas] = list(found.assignment(want.topic)) if want.topic in found.topics else []
        new: list[Replicas] = [()] * (want.partitions - len(present))
        assert any(
            len(list_live(found) | set(replicas)) < want.replication_factor for replicas in (*present, *new)
        ), "only too few brokers are a reason for a refusal"
    for want, state, before, after in partitions(found, wants):
        assert len(after) == len(set(after)) == want.replication_factor
        assert set(after) - set(before) <= list_live(found), "only live brokers get a replica"
        if state is not None:
            assert state.leader is None or state.leader in after
            first = before[0] if before[0] in after else state.leader
            assert first is None or after[0] == first


@given(scenes(st.just(Strategy.BALANCED)))
def test_balanced_placement_only_adds_or_removes(scene: Scene) -> None:
    """It adds where most racks are used, and removes first what is not in sync."""
    found, wants = scene
    for want, state, before, after in partitions(found, wants):
        added = want.replication_factor - len(before)
        if added < 0:
            assert set(after) < set(before)
            if state is not None and (set(before) - set(after)) & set(state.isr):
                assert set(after) <= set(state.isr)
        else:
            assert after[: len(before)] == before
        if added > 0:
            assert count_racks(found, after) == min(count_racks(found, before) + added, rack_count(found))


@given(healthy(), st.data())
def test_kept_replicas_use_most_racks(found: Layout, data: st.DataObject) -> None:
    assume(found.topics)
    topic = data.draw(st.sampled_from(sorted(found.topics)))
    factor = data.draw(st.integers(1, 3))
    want = PlacementRequest(topic, len(found.topics[topic]), factor)
    for _, state, before, after in partitions(found, [want]):
        assert state is not None
        if len(before) > factor:
            remaining = set(before) - {state.leader}
            choices = itertools.combinations(sorted(remaining), factor - 1)
            assert count_racks(found, after) == max(
                count_racks(found, (*remainder, state.leader or 0)) for remainder in choices
            )


@given(scenes(st.just(Strategy.RACK_AWARE)))
def test_rack_aware_placement_uses_every_rack_with_fewest_moves(scene: Scene) -> None:
    found, wants = scene
    for want, _, before, after in partitions(found, wants):
        up = len(set(after) & list_live(found))
        assert count_racks(found, after) == min(up, rack_count(found))
        if len(before) == want.replication_factor:
            assert len(set(after) - set(before)) == count_racks(found, after) - count_racks(found, before)


@given(scenes())
def test_placement_is_stable(scene: Scene) -> None:
    found, wants = scene
    assignments = place_all(found, wants)
    topics = dict(found.topics)
    for topic, assignment in assignments.items():
        states = list(topics.get(topic, ()))
        blank = layout(found.brokers, {topic: assignment}).topics[topic]
        topics[topic] = (
            *(replace(state, replicas=assignment[state.partition]) for state in states),
            *blank[len(states) :],
        )
    after = Layout(found.brokers, topics)
    kept = [want for want in wants if want.topic in assignments]
    assert place_all(after, kept) == assignments


@given(scenes(), st.randoms(use_true_random=False))
def test_order_of_the_input_does_not_matter(scene: Scene, chance: random.Random) -> None:
    found, wants = scene
    brokers, topics, mixed = list(found.brokers), list(found.topics), list(wants)
    for each in (brokers, topics, mixed):
        chance.shuffle(each)
    turned = Layout(tuple(brokers), {topic: found.topics[topic] for topic in topics}, found.reassigning)
    assert place(mixed, turned) == place(wants, found)
    assert rebalance(topics, turned) == rebalance(sorted(found.topics), found)


@given(st.data(), st.integers(2, 4))
def test_increase_without_racks_has_best_balance(data: st.DataObject, factor: int) -> None:
    """Compared with all that could have been chosen, in small layouts."""
    found = data.draw(healthy(racks=False, least=factor, most=4, replicas=factor))
    ids = sorted(list_live(found))
    rows = [(t, n, r) for t in sorted(found.topics) for n, r in enumerate(found.assignment(t))][:4]
    kept = {t: found.assignment(t)[: 1 + max(n for u, n, _ in rows if u == t)] for t, _, _ in rows}
    small = layout(found.brokers, kept)

    def list_choices(replicas: Replicas) -> list[Replicas]:
        others = [broker for broker in ids if broker not in replicas]
        added = itertools.combinations(others, max(0, factor - len(replicas)))
        return [(*replicas, *extra) for extra in added]

    choices = itertools.product(*(list_choices(replicas) for _, _, replicas in rows))
    wants = [PlacementRequest(topic, len(small.topics[topic]), factor) for topic in small.topics]
    placed = [r for assignment in place_all(small, wants).values() for r in assignment]
    assert _squares(ids, placed) == min(_squares(ids, option) for option in choices)


def _squares(ids: Sequence[int], rows: Sequence[Replicas]) -> int:
    counts = Counter(broker for replicas in rows for broker in replicas)
    return sum(counts[broker] ** 2 for broker in ids)


def rebalance_all(found: Layout, **options: object) -> tuple[Mapping[str, Assignment], Layout]:
    """Everything after a rebalance, and the layout then."""
    result = rebalance(found.topics, found, **options)  # type: ignore[arg-type]
    assert not result.refused
    return {**state_of(found), **result.assignments}, move_topics(found, result.assignments)


@given(healthy())
def test_rebalance_keeps_counts_and_does_not_worsen_balance(found: Layout) -> None:
    after, _ = rebalance_all(found)
    for topic in found.topics:
        for old, new in zip(found.assignment(topic), after[topic], strict=True):
            assert len(new) == len(set(new)) == len(old)
            assert count_racks(found, new) >= count_racks(found, old)
    before, now = balance(state_of(found), found.brokers), balance(after, found.brokers)
    assert now.replica_spread <= before.replica_spread
    assert now.leader_spread <= before.leader_spread
    assert now.narrow <= before.narrow


@given(healthy(), st.data())
def test_second_rebalance_moves_no_replicas(found: Layout, data: st.DataObject) -> None:
    add = data.draw(st.sets(st.sampled_from(sorted(list_live(found))), max_size=2))
    _, after = rebalance_all(found, add=add)
    assert not rebalance(after.topics, after, add=add).assignments


@given(healthy(racks=False, least=2))
def test_rebalance_without_racks_balances_with_fewest_moves(found: Layout) -> None:
    before = balance(state_of(found), found.brokers)
    after, _ = rebalance_all(found)
    assert balance(after, found.brokers).replica_spread <= 1
    share, extra = divmod(sum(before.replicas.values()), len(found.brokers))
    fullest = sorted(before.replicas.values(), reverse=True)
    excess = sum(max(0, count - share - (rank < extra)) for rank, count in enumerate(fullest))
    assert moves(state_of(found), after).replicas == excess


@given(healthy(least=3), st.data())
def test_removed_broker_is_emptied_and_other_replicas_stay(found: Layout, data: st.DataObject) -> None:
    remove = data.draw(st.sets(st.sampled_from(sorted(list_live(found))), min_size=1, max_size=2))
    result = rebalance(found.topics, found, remove=remove)
    left = [broker for broker in found.brokers if broker.id not in remove]
    remaining = Layout(tuple(left), found.topics)
    for topic in found.topics:
        old_assignment = found.assignment(topic)
        if topic in result.refused:
            assert any(len(old) > len(left) for old in old_assignment)
            continue
        for old, new in zip(old_assignment, result.assignments.get(topic, old_assignment), strict=True):
            assert not set(new) & remove
            assert len(new) == len(set(new)) == len(old)
            assert set(old) - remove <= set(new)
            kept, came = tuple(set(old) - remove), len(set(old) & remove)
            assert count_racks(remaining, new) == min(
                count_racks(remaining, kept) + came, max(rack_count(remaining), count_racks(remaining, kept))
            )
            if not set(old) & remove:
                assert new == old


@given(healthy(least=2), st.data())
def test_only_added_broker_receives_replicas_up_to_share(found: Layout, data: st.DataObject) -> None:
    added = data.draw(st.sampled_from(sorted(list_live(found))))
    before = balance(state_of(found), found.brokers)
    after, _ = rebalance_all(found, add=[added])
    share = -(-sum(before.replicas.values()) // len(found.brokers))
    assert balance(after, found.brokers).replicas[added] <= max(share, before.replicas[added])
    for topic in found.topics:
        for old, new in zip(found.assignment(topic), after[topic], strict=True):
            assert set(new) - set(old) <= {added}


@given(layouts())
def test_partitions_on_stopped_broker_are_not_rebalanced(found: Layout) -> None:
    after = rebalance(found.topics, found).assignments
    for topic, assignment in after.items():
        for old, new in zip(found.assignment(topic), assignment, strict=True):
            if not set(old) <= list_live(found):
                assert new == old

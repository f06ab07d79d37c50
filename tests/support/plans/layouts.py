"""Layouts for tests of the placement: built by hand, drawn by hypothesis, or large."""

import random
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from kafkaform.core.partitions import Broker, PartitionState, Replicas, TopicPartition
from kafkaform.resources.replicas.layout import Assignment, Layout, Reassignment

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
    return Layout(
        tuple(live),
        {
            topic: tuple(
                _state(topic, number, replicas, ids, (leaders or {}).get((topic, number)))
                for number, replicas in enumerate(assignment)
            )
            for topic, assignment in topics.items()
        },
        reassigning or {},
    )


def _state(topic: str, number: int, replicas: Replicas, live: set[int], leader: int | None) -> PartitionState:
    isr = tuple(broker for broker in replicas if broker in live) or replicas[:1]
    leads = leader if leader is not None else next((broker for broker in replicas if broker in live), None)
    return PartitionState(topic, number, leads, replicas, isr)


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


def large(count: int, partitions: int, *, racks: int = 3, replicas: int = 3, seed: int = 7) -> Layout:
    """A layout of topics with ten partitions each, all of whose replicas lie at random."""
    live = brokers(count, [f"rack-{number}" for number in range(racks)])
    chance = random.Random(seed)
    ids = [broker.id for broker in live]
    return layout(
        live,
        {
            f"topic-{number:05d}": [tuple(chance.sample(ids, replicas)) for _ in range(10)]
            for number in range(partitions // 10)
        },
    )

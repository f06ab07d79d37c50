"""Arithmetic of throttles: what is asked for, what is ours, and what is left of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaform.apply.moves.throttles import (
    compute_throttles,
    list_partitions,
    other_rates,
    select_unchanged,
    subtract_throttles,
)
from kafkaform.resources.replicas.moves import Rates, ThrottledReplicas, Throttles, union
from tests.support.builds import builds
from tests.support.plans.moves import build_move

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


@given(THROTTLES)
def test_throttles_minus_themselves_are_empty(one: Throttles) -> None:
    assert subtract_throttles(one, one) == NOTHING == subtract_throttles(NOTHING, one)
    assert subtract_throttles(one, NOTHING) == one == select_unchanged(one, one) == union([one, one])


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

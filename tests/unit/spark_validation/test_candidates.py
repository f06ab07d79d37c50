"""The partition counts that keys are placed on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_validation.key_counts import candidates


def test_there_are_multiples_and_counts_with_many_divisors() -> None:
    assert candidates(12, ()) == (12, 18, 24, 30, 36, 40, 42, 48)
    assert candidates(1, ()) == (1, 2, 3, 4)
    assert candidates(7, ()) == (7, 12, 14, 18, 20, 21, 24, 28)


def test_what_is_asked_for_is_added_however_small_or_large() -> None:
    assert candidates(12, (5, 1000, 24)) == (5, 12, 18, 24, 30, 36, 40, 42, 48, 1000)


def test_a_topic_of_very_many_partitions_gets_multiples_only() -> None:
    assert candidates(20_000, ()) == (20_000, 30_000, 40_000, 60_000, 80_000)


@pytest.mark.parametrize("count", [0, -3])
def test_what_is_no_count_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} is no partition count"):
        candidates(12, (24, count))


@given(st.integers(1, 2000), st.lists(st.integers(1, 5000), max_size=5))
def test_the_present_count_is_there_and_nothing_but_larger_ones(partitions: int, asked: list[int]) -> None:
    found = candidates(partitions, asked)
    own = set(found) - {*asked} | {partitions}
    assert {*asked} <= {*found}
    assert min(own) == partitions
    assert max(own) <= 4 * partitions
    assert len(own) <= 8
    assert list(found) == sorted({*found})

"""Student's t, and intervals that stay where their values can be."""

from __future__ import annotations

import numpy as np
import pytest

from spark_validation import intervals
from spark_validation.intervals import Replicated
from spark_validation.results import Estimate


def replicated(*slices: float, known: float = 0.0, fraction: float = 0.0) -> Replicated:
    return Replicated.of(np.array(slices), np.array(known), fraction)


@pytest.mark.parametrize(
    ("freedom", "tail", "tabled"),
    [
        (1, 0.025, 12.706),
        (2, 0.025, 4.303),
        (3, 0.025, 3.182),
        (4, 0.025, 2.776),
        (9, 0.025, 2.262),
        (15, 0.025, 2.131),
        (60, 0.025, 2.000),
        (3, 0.0005, 12.924),
        (10, 0.005, 3.169),
        (5, 0.1, 1.476),
    ],
)
def test_students_t_is_as_in_the_tables(freedom: int, tail: float, tabled: float) -> None:
    assert intervals.student(freedom, tail) == pytest.approx(tabled, abs=6e-4)


@pytest.mark.parametrize(("slices", "freedom"), [(2, 1), (3, 1), (4, 2), (10, 6), (16, 10), (100, 66)])
def test_overlapping_differences_have_two_thirds_of_the_degrees_of_freedom(slices: int, freedom: int) -> None:
    assert intervals.freedom(slices) == freedom


@pytest.mark.parametrize("slices", [(0.0, 0.0, 0.0, 0.001), (0.25, 0.25, 0.24, 0.2), (0.0, 0.5, 0.0, 0.0)])
def test_a_share_stays_between_0_and_1(slices: tuple[float, ...]) -> None:
    found = intervals.share(replicated(*slices))
    assert 0.0 < found.low < found.value < found.high < 1.0
    assert found.value == pytest.approx(sum(slices))


def test_a_positive_value_stays_positive() -> None:
    found = intervals.positive(replicated(0.0, 0.0, 900.0, 0.0))
    assert 0.0 < found.low < found.value < found.high < float("inf")


def test_what_was_read_whole_is_exact() -> None:
    whole = replicated(0.1, 0.2, 0.0, 0.1, fraction=1.0)
    assert intervals.share(whole) == Estimate.exact(float(whole.total))
    assert intervals.positive(whole) == Estimate.exact(float(whole.total))
    assert intervals.share(replicated(0.0, 0.0, fraction=1.0), windows=100) == Estimate.exact(0.0)


def test_what_no_window_has_may_still_be_somewhere() -> None:
    none = intervals.share(replicated(0.0, 0.0, 0.0, 0.0), windows=120)
    assert (none.value, none.low) == (0.0, 0.0)
    assert (1 - none.high) ** 120 == pytest.approx(intervals.TAIL)
    every = intervals.share(replicated(0.25, 0.25, 0.25, 0.25), windows=120)
    assert (every.value, every.low, every.high) == (1.0, 1.0 - none.high, 1.0)


def test_the_more_windows_there_are_the_less_is_missed() -> None:
    assert intervals.unseen(40) > intervals.unseen(120) > 0

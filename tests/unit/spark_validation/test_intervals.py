"""Intervals, and the standard errors they follow from."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spark_validation import intervals
from spark_validation.intervals import ReplicatedTotals, Weighting
from spark_validation.results import Estimate
from spark_validation.windows import Span, plan_windows


def replicated(*replicates: float, known: float = 0.0, fraction: float = 0.0) -> ReplicatedTotals:
    return ReplicatedTotals.of(np.array(replicates), np.array(known), fraction)


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
    assert intervals.student_t(freedom, tail) == pytest.approx(tabled, abs=6e-4)


@pytest.mark.parametrize(("replicates", "freedom"), [(2, 1), (3, 1), (4, 2), (10, 6), (16, 10), (100, 66)])
def test_overlapping_differences_have_two_thirds_of_the_degrees_of_freedom(
    replicates: int, freedom: int
) -> None:
    assert intervals.degrees_of_freedom(replicates) == freedom


@pytest.mark.parametrize(
    "replicates", [(0.0, 0.0, 0.0, 0.001), (0.25, 0.25, 0.24, 0.2), (0.0, 0.5, 0.0, 0.0)]
)
def test_a_share_stays_between_0_and_1(replicates: tuple[float, ...]) -> None:
    found = intervals.share_interval(replicated(*replicates))
    assert 0.0 < found.low < found.value < found.high < 1.0
    assert found.value == pytest.approx(sum(replicates))


def test_a_positive_value_stays_positive() -> None:
    found = intervals.positive_interval(replicated(0.0, 0.0, 900.0, 0.0))
    assert 0.0 < found.low < found.value < found.high < float("inf")


def test_what_was_read_whole_is_exact() -> None:
    whole = replicated(0.1, 0.2, 0.0, 0.1, fraction=1.0)
    assert intervals.share_interval(whole) == Estimate.exact(float(whole.total))
    assert intervals.positive_interval(whole) == Estimate.exact(float(whole.total))
    assert intervals.share_interval(replicated(0.0, 0.0, fraction=1.0), windows=100) == Estimate.exact(0.0)


def test_what_no_window_has_may_still_be_somewhere() -> None:
    none = intervals.share_interval(replicated(0.0, 0.0, 0.0, 0.0), windows=120)
    assert (none.value, none.low) == (0.0, 0.0)
    assert (1 - none.high) ** 120 == pytest.approx(intervals.TAIL)
    every = intervals.share_interval(replicated(0.25, 0.25, 0.25, 0.25), windows=120)
    assert (every.value, every.low, every.high) == (1.0, 1.0 - none.high, 1.0)


def test_the_more_windows_there_are_the_less_is_missed() -> None:
    assert intervals.largest_unseen(40) > intervals.largest_unseen(120) > 0


# --- totals and their standard errors from slices ---------------------------------------------------


RANDOM = np.random.default_rng(5)


def of(replicates: list[float], fraction: float = 0.0) -> ReplicatedTotals:
    return ReplicatedTotals.of(np.array(replicates), np.array(0.0), fraction)


def test_a_total_is_what_slices_and_known_partitions_add_up_to() -> None:
    found = ReplicatedTotals.of(np.array([[1.0, 2.0], [0.0, 5.0]]), np.array([10.0, 0.0]), 0.5)
    assert found.total.tolist() == [13.0, 5.0]
    assert found.without.tolist() == [[14.0, 12.0], [10.0, 0.0]]
    assert found.sum.total == 18.0


def test_the_standard_error_is_right_for_independent_slices() -> None:
    """The mean of its square over many samples is the variance of the total."""
    replicates = RANDOM.normal(100.0, 3.0, size=(4000, 10))
    found = ReplicatedTotals.of(replicates, np.zeros(4000), 0.0)
    assert math.sqrt(float(np.mean(found.deviation**2))) == pytest.approx(3.0 * math.sqrt(10), rel=0.03)


def test_a_slow_change_over_the_log_is_no_chance() -> None:
    trend = np.arange(10) * 100.0
    found = of((trend + RANDOM.normal(0, 3.0, 10)).tolist())
    assert float(found.deviation) < 0.4 * trend.std() * math.sqrt(10)


def test_one_sudden_change_is_no_noise() -> None:
    step = of([1.0, 1.1, 1.0, 1.1, 1.0, 5.0, 5.1, 5.0, 5.1, 5.0])
    assert float(step.noise) < float(step.deviation) / 5


def test_the_more_is_read_the_less_is_uncertain() -> None:
    replicates = [1.0, 2.0, 1.5, 3.0]
    none, some, all_ = (float(of(replicates, fraction).deviation) for fraction in (0.0, 0.75, 1.0))
    assert some == pytest.approx(none / 2)
    assert all_ == 0.0


def test_rounding_is_no_uncertainty() -> None:
    thirds = ReplicatedTotals.of(np.full((3, 7), 0.1) * 1e9 / 3, np.zeros(3), 0.0)
    assert thirds.over_mean.deviation.tolist() == [0.0, 0.0, 0.0]


def test_a_ratio_to_nothing_is_0() -> None:
    assert (of([1.0, 2.0]) / of([0.0, 0.0])).total == 0.0


def test_counts_stand_for_the_offsets_that_were_not_read() -> None:
    spans = (Span(0, 0, 100_000), Span(1, 50, 70), Span(2, 9, 9))
    plan = plan_windows(spans, records=10_000, seed=1)
    weighting = Weighting.of(plan)
    counts = np.zeros((3, plan.replicates), dtype=np.int64)
    for window in plan.windows:
        counts[window.partition, window.replicate] += window.end - window.start
    found = weighting.by_partition(counts)
    assert found.total.tolist() == pytest.approx([100_000, 20, 0])
    assert weighting.read_whole.tolist() == [False, True, True]
    assert weighting.windows == plan.replicates
    assert weighting.fraction == pytest.approx(0.1, rel=0.01)
    assert found.deviation.tolist() == [0.0, 0.0, 0.0]


def test_only_partitions_that_were_not_read_whole_are_uncertain() -> None:
    plan = plan_windows((Span(0, 0, 100_000), Span(1, 0, 80)), records=10_000, seed=1)
    counts = RANDOM.integers(1, 50, size=(2, plan.replicates))
    found = Weighting.of(plan).by_partition(counts)
    assert found.deviation[0] > 0
    assert found.deviation[1] == 0
    assert found.total[1] == counts[1].sum()

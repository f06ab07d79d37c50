"""Intervals and the standard errors they follow from; the imbalance of partitions."""

import math
from dataclasses import astuple, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_validation import intervals
from spark_validation.imbalance import max_mean_ratio, measure_imbalance
from spark_validation.intervals import ReplicatedTotals, Weighting
from spark_validation.results import Estimate, Imbalance
from spark_validation.windows import Span, plan_windows


def build_totals(*replicates: float, known: float = 0.0, fraction: float = 0.0) -> ReplicatedTotals:
    return ReplicatedTotals.from_replicates(np.array(replicates), np.array(known), fraction)


@pytest.mark.parametrize(
    ("freedom", "tail", "tabled"),
    [
        (1, 0.025, 12.706),
        (3, 0.025, 3.182),
        (9, 0.025, 2.262),
        (60, 0.025, 2.000),
        (3, 0.0005, 12.924),
        (5, 0.1, 1.476),
    ],
)
def test_student_t_matches_tables(freedom: int, tail: float, tabled: float) -> None:
    assert intervals.student_t(freedom, tail) == pytest.approx(tabled, abs=6e-4)


@pytest.mark.parametrize(("replicates", "freedom"), [(2, 1), (3, 1), (4, 2), (10, 6), (16, 10), (100, 66)])
def test_degrees_of_freedom_are_two_thirds_of_differences(replicates: int, freedom: int) -> None:
    assert intervals.degrees_of_freedom(replicates) == freedom


@pytest.mark.parametrize(
    "replicates", [(0.0, 0.0, 0.0, 0.001), (0.25, 0.25, 0.24, 0.2), (0.0, 0.5, 0.0, 0.0)]
)
def test_share_interval_is_between_0_and_1(replicates: tuple[float, ...]) -> None:
    found = intervals.share_interval(build_totals(*replicates))
    assert 0.0 < found.low < found.value < found.high < 1.0
    assert found.value == pytest.approx(sum(replicates))


def test_completely_read_totals_are_exact() -> None:
    whole = build_totals(0.1, 0.2, 0.0, 0.1, fraction=1.0)
    assert intervals.share_interval(whole) == Estimate.exact(float(whole.total))
    assert intervals.positive_interval(whole) == Estimate.exact(float(whole.total))
    assert intervals.share_interval(build_totals(0.0, 0.0, fraction=1.0), windows=100) == Estimate.exact(0.0)


def test_interval_of_unseen_or_complete_share_has_bound() -> None:
    none = intervals.share_interval(build_totals(0.0, 0.0, 0.0, 0.0), windows=120)
    assert (none.value, none.low) == (0.0, 0.0)
    assert (1 - none.high) ** 120 == pytest.approx(intervals.TAIL)
    every = intervals.share_interval(build_totals(0.25, 0.25, 0.25, 0.25), windows=120)
    assert (every.value, every.low, every.high) == (1.0, 1.0 - none.high, 1.0)


RANDOM = np.random.default_rng(5)


def test_standard_error_is_right_for_independent_slices() -> None:
    """The mean of its square over many samples is the variance of the total."""
    replicates = RANDOM.normal(100.0, 3.0, size=(4000, 10))
    found = ReplicatedTotals.from_replicates(replicates, np.zeros(4000), 0.0)
    assert math.sqrt(float(np.mean(found.deviation**2))) == pytest.approx(3.0 * math.sqrt(10), rel=0.03)


def test_single_step_is_not_noise() -> None:
    step = build_totals(1.0, 1.1, 1.0, 1.1, 1.0, 5.0, 5.1, 5.0, 5.1, 5.0)
    assert float(step.noise) < float(step.deviation) / 5


def sparse(*found: float) -> tuple[Weighting, np.ndarray[Any, np.dtype[np.int64]]]:
    """Of each window of two partitions, the first one of which is sparse, a part has records."""
    plan = plan_windows((Span(0, 0, 100_000), Span(1, 0, 100_000)), records=20_000, seed=1)
    parts = np.resize(np.array(found), plan.replicates)
    length = plan.windows[0].end - plan.windows[0].start
    counts = np.stack([np.rint(parts * length), np.full(plan.replicates, length)]).astype(np.int64)
    return Weighting.from_plan(plan, counts), counts


def test_partition_without_sampled_records_has_upper_bound() -> None:
    weighting, counts = sparse(0.0)
    records = weighting.estimate_partitions(counts)
    assert records.total.tolist() == [0.0, 100_000.0]
    assert records.deviation[0] > 4_000
    assert records.deviation[1] == 0.0
    nothing = intervals.share_interval((records / records.sum)[0])
    assert (nothing.value, nothing.low) == (0.0, 0.0)
    assert 0.05 < nothing.high < 0.3
    interval = intervals.share_interval((weighting.estimate_partitions(2 * counts) / records.sum)[1])
    assert interval == Estimate.exact(1.0)
    assert intervals.positive_interval(records[0]).high > 8_000


def test_errors_of_unseen_partitions_add_independently() -> None:
    spans = [Span(number, 0, 10_000) for number in range(64)]
    plan = plan_windows(spans, records=64_000, seed=1)
    weighting = Weighting.from_plan(plan, np.zeros((64, plan.replicates), dtype=np.int64))
    weighting = replace(weighting, records=1.0)
    each = weighting.estimate_partitions(np.eye(64, plan.replicates, dtype=np.int64))
    independent = math.sqrt(float((each.deviation**2).sum()))
    assert 0.4 * independent < float(each.sum.deviation) < 2.0 * independent


def test_outliers_in_sparse_log_are_noise() -> None:
    step = build_totals(1.0, 1.1, 1.0, 1.1, 1.0, 5.0, 5.1, 5.0, 5.1, 5.0)
    assert replace(step, sparse=True).noise == step.deviation


def build_read_totals(*totals: float) -> ReplicatedTotals:
    """Partitions that were read whole."""
    return ReplicatedTotals.from_replicates(np.zeros((len(totals), 4)), np.array(totals), 1.0)


@pytest.mark.parametrize(
    ("totals", "figures"),
    [
        ((5, 5, 5, 5), (1, 0, 0, 1, 4)),
        ((0, 0, 8, 0), (4, math.sqrt(3), 3 / 4, 0, 1)),
        ((7,), (1, 0, 0, 1, 1)),
    ],
    ids=["even", "as uneven as can be", "one partition"],
)
def test_figures_of_extreme_totals_are_exact(totals: tuple[int, ...], figures: tuple[float, ...]) -> None:
    found = measure_imbalance(build_read_totals(*totals))
    for estimate, figure in zip(astuple(found), figures, strict=True):
        assert estimate == pytest.approx((figure, figure, figure), abs=1e-12)


def test_zero_totals_have_no_imbalance() -> None:
    assert {
        getattr(measure_imbalance(build_read_totals(0, 0)), field.name) for field in fields(Imbalance)
    } == {Estimate.exact(0.0)}
    assert max_mean_ratio(build_read_totals(0, 0)) == Estimate.exact(0.0)


@given(
    st.integers(1, 40).flatmap(
        lambda count: st.lists(
            st.lists(st.integers(0, 10**9), min_size=4, max_size=4), min_size=count, max_size=count
        )
    )
)
def test_imbalance_figures_are_finite_and_in_range(replicates: list[list[int]]) -> None:
    totals = ReplicatedTotals.from_replicates(
        np.array(replicates, dtype=np.float64), np.zeros(len(replicates)), 0.1
    )
    found, most = measure_imbalance(totals), len(replicates)
    ranges = {"max_mean_ratio": most, "cv": math.inf, "gini": 1, "entropy": 1, "effective_parallelism": most}
    for name, high in ranges.items():
        item: Estimate = getattr(found, name)
        assert all(math.isfinite(number) for number in (item.value, item.low, item.high))
        assert 0 <= item.low <= item.value <= item.high <= high * (1 + 1e-9), name

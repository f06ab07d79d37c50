"""The imbalance of partitions, and that of chance alone."""

import math
from dataclasses import astuple, fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_validation.imbalance import max_mean_ratio, measure_imbalance
from spark_validation.intervals import ReplicatedTotals
from spark_validation.results import Estimate, Imbalance


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

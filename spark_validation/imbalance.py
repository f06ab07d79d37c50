"""The imbalance of partitions with its intervals, and the imbalance that chance alone makes.

Sampling makes estimates of equal partitions differ, so that the largest estimate is larger than the largest
partition. So the estimates are first shrunk towards their mean, by as much as sampling has driven them apart
(`shrink_to_mean`).

Keys that are all alike fall on partitions as balls fall into bins. With `keys` keys on `partitions`
partitions, each has a number of keys that is nearly Poisson with mean keys / partitions, and the fullest has
at most x with the probability F(x) ** partitions. So the expected fullest is the sum over x of
1 - F(x) ** partitions (Raab and Steger, "Balls into Bins", 1998, give its size).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_validation import intervals
from spark_validation.results import Estimate, Imbalance

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_validation.intervals import ReplicatedTotals
    from spark_validation.key_counts import Floats


def measure_imbalance(totals: ReplicatedTotals) -> Imbalance:
    """Measure the imbalance of partitions by their totals (partitions); all 0 where there is nothing."""
    if not totals.total.sum() > 0:
        nothing = Estimate.exact(0.0)
        return Imbalance(nothing, nothing, nothing, nothing, nothing)
    ratio = max_mean_ratio(totals)
    partitions = len(totals.total)
    return Imbalance(
        ratio,
        _estimate_statistic(coefficient_of_variation, intervals.positive_interval, totals),
        _estimate_statistic(gini, intervals.share_interval, totals),
        _complement(_estimate_statistic(redundancy, intervals.positive_interval, totals)),
        Estimate(partitions / ratio.value, partitions / ratio.high, partitions / ratio.low),
    )


def max_mean_ratio(totals: ReplicatedTotals) -> Estimate:
    """Return the fullest partition over the mean of all; 0 where there is nothing.

    Where one partition stands alone, the interval is its own. Where several may be the fullest, as their
    intervals overlap, the upper end is the highest of them, for one of them is the fullest, and the lower end
    is the highest lower end, each at the level divided by their number (Bonferroni): any of them could be far
    too high by chance. Their standard errors are pooled as far as they are alike
    (`intervals.moderate_variances`).
    """
    relative = totals.over_mean
    if not relative.total.any():
        return Estimate.exact(0.0)
    level = shrink_to_mean(relative)
    filled = relative.total > 0
    # As with a Poisson variable, the variance of an estimate is roughly proportional to its value.
    scale = np.where(filled, relative.total, 1.0)
    squares, freedom = intervals.moderate_variances(
        np.where(filled, relative.deviation**2 / scale, 0.0),
        intervals.degrees_of_freedom(relative.replicates),
    )
    error = np.sqrt(squares / scale)
    critical = intervals.student_t(freedom, intervals.TAIL)
    lows = level * np.exp(-np.minimum(critical * error, 50.0))
    # The upper end keeps what shrinking takes from a partition that may really be the fullest.
    highs = np.maximum(level, relative.total) * np.exp(np.minimum(critical * error, 50.0))
    low, high = float(lows.max()), float(highs.max())
    # With one rival, it is the fullest partition itself.
    rivals = int(np.count_nonzero(highs >= low))
    if rivals > 1:
        critical = intervals.student_t(freedom, intervals.TAIL / rivals)
        low = float((level * np.exp(-np.minimum(critical * error, 50.0))).max())
    else:
        own = intervals.positive_interval(relative[int(level.argmax())])
        # The interval of the partition's own estimate, moved to where shrinking has put it.
        low, high = (float(level.max()) / own.value * end for end in (own.low, own.high))
    # No partition has more than everything, and the fullest one is never below the mean.
    most = float(len(level))
    value = min(most, max(1.0, float(level.max())))
    return Estimate(value, max(1.0, min(value, low)), min(most, max(value, high)))


def shrink_to_mean(relative: ReplicatedTotals) -> Floats:
    """Shrink partitions over their mean towards 1, until their variance is that of the partitions alone.

    The variance of the estimates is that of the partitions plus that of sampling, which is known from the
    replicates. The shrunken estimates have the former (constrained empirical Bayes: Louis 1984, Ghosh 1992;
    of the estimators tried in simulations it has the least error of a maximum).
    """
    level = relative.total
    if len(level) < 2:
        return level
    variance = float(level.var(ddof=1))
    # Without outliers: a burst in one partition is a true difference, which must not be shrunk away.
    sampling = float(np.mean(relative.noise**2))
    if sampling == 0.0 or variance == 0.0:
        return level
    return np.asarray(1.0 + (level - 1.0) * math.sqrt(max(0.0, variance - sampling) / variance))


def coefficient_of_variation(totals: Floats) -> Any:
    """Return the coefficient of variation over the first axis: standard deviation over mean."""
    mean = totals.mean(axis=0)
    return totals.std(axis=0) / np.where(mean > 0, mean, 1.0)


def gini(totals: Floats) -> Any:
    """Return the Gini coefficient over the first axis: half the mean difference over the mean."""
    count = len(totals)
    ranks = np.arange(1, count + 1).reshape(-1, *[1] * (totals.ndim - 1))
    sums = totals.sum(axis=0)
    weighted = (ranks * np.sort(totals, axis=0)).sum(axis=0)
    # The formula over sorted values, which needs n log n steps and not n² differences.
    return np.maximum(0.0, 2 * weighted / (count * np.where(sums > 0, sums, 1.0)) - (count + 1) / count)


def redundancy(totals: Floats) -> Any:
    """Return 1 minus Shannon's entropy over its maximum, over the first axis; 0 for one partition."""
    if len(totals) == 1:
        return np.zeros(totals.shape[1:])
    sums = totals.sum(axis=0)
    shares = totals / np.where(sums > 0, sums, 1.0)
    logarithms = np.log(np.where(shares > 0, shares, 1.0))
    return np.maximum(0.0, 1.0 + (shares * logarithms).sum(axis=0) / math.log(len(totals)))


def _complement(estimate: Estimate) -> Estimate:
    return Estimate(1.0 - estimate.value, max(0.0, 1.0 - estimate.high), 1.0 - estimate.low)


def _estimate_statistic(
    statistic: Callable[[Floats], Any],
    interval: Callable[[ReplicatedTotals], Estimate],
    totals: ReplicatedTotals,
) -> Estimate:
    """Return a statistic of all partitions.

    Chance adds to the observed value, so that the upper end is that of the observed value; the lower end is
    that of the value without chance.
    """
    relative = totals.over_mean
    without = statistic(relative.without)
    seen = interval(relative.replace_values(statistic(relative.total), without))
    level = interval(relative.replace_values(statistic(shrink_to_mean(relative)), without))
    return Estimate(level.value, min(level.low, seen.low), max(level.value, seen.high))


_ONCE_IN_A_HUNDRED = 0.99
_DRAWS = 400
# The mean from which a Poisson variable is as good as normal: the fullest is then found by Blom's formula
# for the expected largest of normal variables (*Transformed Beta-Variables*, 1958).
_GAUSSIAN_FROM = 5_000.0


@lru_cache(maxsize=65_536)
def expected_ratio(keys: float, partitions: int) -> float:
    """Return the expected fullest partition over the mean, of so many equal keys."""
    mean = keys / partitions
    if partitions == 1 or mean <= 0:
        return 1.0
    if mean >= _GAUSSIAN_FROM:
        return 1 + NormalDist().inv_cdf((partitions - 0.375) / (partitions + 0.25)) / math.sqrt(mean)
    # One key is on one partition, which then has all of it.
    if keys <= 1:
        return float(partitions)
    return float(np.sum(1 - _no_fuller(mean, partitions))) / mean


def chance_limit(large: Floats, keys: float, rest: float, partitions: int) -> float:
    """Return the ratio that keys exceed by chance in one of 100 cases, of many random placements.

    Args:
        large: The loads of the largest keys.
        keys: The number of equal keys whose loads vary as those of the others do.
        rest: What these have together.
    """
    # A fixed seed, so that the same sample always has the same limit.
    random = np.random.default_rng(0)
    each = rest / keys
    loads = random.poisson(keys / partitions, (_DRAWS, partitions)) * each
    for load in large:
        loads[np.arange(_DRAWS), random.integers(0, partitions, _DRAWS)] += load
    # Half a key more: sizes that differ a little do not decide.
    fullest = float(np.quantile(loads.max(axis=1), _ONCE_IN_A_HUNDRED)) + each / 2
    return fullest * partitions / max(rest + float(large.sum()), 1e-12)


def most_partitions(keys: float, ratio: float, limit: int) -> int:
    """Return the most partitions, up to `limit`, on which equal keys are expected to stay within a ratio."""
    low, high = 1, max(1, limit)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if expected_ratio(keys, middle) <= ratio else (low, middle - 1)
    return low


def keys_needed(partitions: int, ratio: float) -> int:
    """Return the fewest equal keys whose expected ratio does not exceed a given one above 1."""
    low, high = 1, 2
    while expected_ratio(high, partitions) > ratio:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if expected_ratio(middle, partitions) <= ratio else (middle + 1, high)
    return low


def _no_fuller(mean: float, partitions: int) -> Floats:
    """Return for x = 0, 1, … the probability that no partition has more than x keys."""
    # Further terms of the sum are 0 in floating point: 12 standard deviations above the mean, and 40 more for
    # small means, which are more skewed.
    most = int(mean + 12 * math.sqrt(mean) + 40)
    counts = np.arange(most + 1)
    # Logarithms of factorials: the factorials themselves overflow from 171 on.
    steps = np.concatenate(([0.0], np.cumsum(np.log(np.maximum(counts[1:], 1)))))
    mass = np.exp(counts * math.log(mean) - mean - steps)
    return np.asarray(np.minimum(1.0, np.cumsum(mass)) ** partitions, dtype=np.float64)

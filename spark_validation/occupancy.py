"""How full the fullest partition is by chance alone, when keys that are all alike fall on partitions.

With `keys` keys on `partitions` partitions, each partition has a number of keys that is nearly Poisson with
mean keys / partitions, and the fullest has at most x with the probability F(x) ** partitions. So the expected
fullest is the sum over x of 1 - F(x) ** partitions (Raab and Steger, "Balls into Bins", 1998, give its size).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from spark_validation.tally import Floats

_GAUSSIAN_FROM = 5_000.0
"""The mean from which a Poisson variable is as good as normal: the fullest is then found by Blom's formula
for the expected largest of normal variables (*Transformed Beta-Variables*, 1958)."""
_LIKELY = 0.9


def expected_ratio(keys: float, partitions: int) -> float:
    """The expected fullest partition over the mean, of so many equal keys."""
    mean = keys / partitions
    if partitions == 1 or mean <= 0:
        return 1.0
    if mean >= _GAUSSIAN_FROM:
        return 1 + NormalDist().inv_cdf((partitions - 0.375) / (partitions + 0.25)) / math.sqrt(mean)
    if keys <= 1:
        return float(partitions)
    return float(np.sum(1 - _no_fuller(mean, partitions))) / mean


def likely_ratio(keys: int, partitions: int) -> float:
    """The ratio that is not exceeded with a probability of 0.9."""
    mean = keys / partitions
    if partitions == 1 or mean <= 0:
        return 1.0
    if keys <= 1:
        return float(partitions)
    return float(np.argmax(_no_fuller(mean, partitions) >= _LIKELY)) / mean


def most_partitions(keys: float, ratio: float, limit: int) -> int:
    """On how many partitions, at most `limit`, so many equal keys are expected to stay within a ratio."""
    low, high = 1, max(1, limit)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if expected_ratio(keys, middle) <= ratio else (low, middle - 1)
    return low


def keys_needed(partitions: int, ratio: float) -> int:
    """How many equal keys it takes for the expected ratio not to exceed one above 1."""
    low, high = 1, 2
    while expected_ratio(high, partitions) > ratio:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if expected_ratio(middle, partitions) <= ratio else (middle + 1, high)
    return low


def _no_fuller(mean: float, partitions: int) -> Floats:
    """For x = 0, 1, …, how probable it is that no partition has more than x."""
    most = int(mean + 12 * math.sqrt(mean) + 40)
    counts = np.arange(most + 1)
    steps = np.concatenate(([0.0], np.cumsum(np.log(np.maximum(counts[1:], 1)))))
    mass = np.exp(counts * math.log(mean) - mean - steps)
    return np.asarray(np.minimum(1.0, np.cumsum(mass)) ** partitions, dtype=np.float64)

"""Totals of a topic, how much they vary from one slice of the sample to the next.

95 % intervals follow from that.

Totals of a topic, and how much they vary from one slice of the sample to the next.

Records cluster: neighbours in the log often have the same key, so records are no independent draws; windows
are. Every standard error here follows from the differences between slices, never from the binomial formula.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_validation.results import Estimate

if TYPE_CHECKING:
    from spark_validation.key_counts import Floats
    from spark_validation.windows import SamplePlan


TAIL = 0.025
"""What a 95 % interval leaves out on either side."""
_FARTHEST = 50.0
"""On a scale of logarithms: so far away that a larger distance says no more."""


def freedom(slices: int) -> int:
    """The degrees of freedom of a variance from successive differences of so many slices, rounded down.

    These overlap, so that they tell less than as many independent ones: 2 (G - 1)² / (3 G - 4) for normal
    variables (von Neumann, Kent, Bellinson and Hart 1941, "The mean square successive difference").
    """
    return max(1, 2 * (slices - 1) ** 2 // (3 * slices - 4))


def share(found: Replicated, windows: int = 0) -> Estimate:
    """An estimate between 0 and 1: the interval is symmetric on the scale of ln(x / (1 - x)).

    Args:
        found: The share.
        windows: How many windows tell what the share of something is that none of them has; none if that is
            not to be asked.
    """
    value = min(1.0, max(0.0, float(found.total)))
    doubt = unseen(windows) if windows and found.fraction < 1.0 else 0.0
    if value == 0.0:
        return Estimate(0.0, 0.0, doubt)
    if value == 1.0:
        return Estimate(1.0, 1.0 - doubt, 1.0)
    deviation = float(found.deviation)
    if deviation == 0.0:
        return Estimate.exact(value)
    centre = math.log(value / (1.0 - value))
    half = reach(found.slices) * deviation / (value * (1.0 - value))
    return Estimate(value, _logistic(centre - half), _logistic(centre + half))


def positive(found: Replicated) -> Estimate:
    """An estimate from 0 up: the interval is symmetric on the scale of logarithms."""
    value, deviation = float(found.total), float(found.deviation)
    if value <= 0.0 or deviation == 0.0:
        return Estimate.exact(value)
    factor = math.exp(min(_FARTHEST, reach(found.slices) * deviation / value))
    return Estimate(value, value / factor, value * factor)


def reach(slices: int) -> float:
    """How many standard errors the interval reaches to either side."""
    return student(freedom(slices))


def unseen(windows: int) -> float:
    """The largest share that what none of so many windows has may well have.

    Where it occurs it may fill a window, so windows count here and not records. A part s of the log is missed
    by all with a probability of (1 - s)^windows, which is set to TAIL ("rule of three", Hanley and
    Lippman-Hand 1983).
    """
    return 1.0 - math.pow(TAIL, 1.0 / windows)


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-700.0, x)))


@lru_cache(maxsize=256)
def student(freedom: int, tail: float = TAIL) -> float:
    """The value that Student's t exceeds with a probability of `tail`.

    For whole degrees of freedom the distribution function is a finite sum (Abramowitz and Stegun, 26.7.3 and
    26.7.4) of an angle, which is found by bisection.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if _within(middle, freedom) < 1.0 - 2.0 * tail:
            low = middle
        else:
            high = middle
    return math.tan(low) * math.sqrt(freedom)


def _within(angle: float, freedom: int) -> float:
    """The probability that |t| is below tan(angle) times the root of the degrees of freedom."""
    cosine, odd = math.cos(angle), freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    if odd:
        return 2.0 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


Bools: TypeAlias = npt.NDArray[np.bool_]

_ROUNDING = 1e-9
"""What a value varies by, relatively, because it is computed in floating point."""
_MEDIAN_OF_SQUARE = 0.4549
"""The median of the square of a standard normal variable."""


@dataclass(frozen=True, slots=True, eq=False)
class Replicated:
    """Estimated totals, and the same without each of the slices (the delete-one jackknife).

    Attributes:
        total: Of any shape.
        without: That shape and a last axis more: without the first slice, the second, and so on.
        fraction: The part of the offsets that was read in partitions that were not read whole; 1 where there
            are none, and nothing is estimated.
    """

    total: Floats
    without: Floats
    fraction: float

    @classmethod
    def of(cls, slices: Floats, known: Floats, fraction: float) -> Replicated:
        """From weighted totals.

        Args:
            slices: What each slice adds. Slices are the last axis; two at least.
            known: What comes from partitions that were read whole; of one axis less.
            fraction: As the attribute.
        """
        count = slices.shape[-1]
        total = slices.sum(axis=-1)
        without = known[..., None] + (total[..., None] - slices) * (count / (count - 1))
        return cls(known + total, without, fraction)

    def __add__(self, other: Replicated) -> Replicated:
        return Replicated(self.total + other.total, self.without + other.without, self.fraction)

    def __truediv__(self, other: Replicated) -> Replicated:
        """The ratio of two totals; 0 where the other is 0."""
        return Replicated(
            _quotient(self.total, other.total), _quotient(self.without, other.without), self.fraction
        )

    def __getitem__(self, index: int) -> Replicated:
        return Replicated(self.total[index], self.without[index], self.fraction)

    @property
    def sum(self) -> Replicated:
        """Of all partitions: over the first axis."""
        return Replicated(self.total.sum(axis=0), self.without.sum(axis=0), self.fraction)

    @property
    def over_mean(self) -> Replicated:
        """Each partition over the mean of all; 0 where there is nothing."""
        partitions = self.total.shape[0]
        whole = self.sum
        return Replicated(
            _quotient(self.total * partitions, whole.total),
            _quotient(self.without * partitions, whole.without),
            self.fraction,
        )

    @property
    def slices(self) -> int:
        """How many slices there are."""
        return int(self.without.shape[-1])

    @property
    def deviation(self) -> Any:
        """The standard error of each total.

        From the differences between successive slices, so that a slow change over the log, which every slice
        takes its part of, is not taken for chance (Wolter, *Introduction to Variance Estimation*, 2007,
        chapter 8, estimator v2, here of delete-one values, chapter 4), with the finite population correction
        (Cochran, *Sampling Techniques*, 1977, section 2.6).
        """
        squares = np.diff(self.without, axis=-1) ** 2
        return self._error(squares.sum(axis=-1) / (self.slices - 1))

    @property
    def noise(self) -> Any:
        """The standard error that most of the log has: of the median difference.

        One sudden change, or one burst, does not count; what is left is how far chance moves an estimate.
        """
        squares = np.diff(self.without, axis=-1) ** 2
        return self._error(np.median(squares, axis=-1) / _MEDIAN_OF_SQUARE)

    def _error(self, square: Floats) -> Any:
        """The standard error for a mean squared difference of neighbouring delete-one values."""
        variance = square * ((self.slices - 1) ** 2 / (2 * self.slices)) * max(0.0, 1.0 - self.fraction)
        found = np.sqrt(variance)
        return np.where(found <= _ROUNDING * np.abs(self.total), 0.0, found)


def _quotient(above: Floats, below: Floats) -> Floats:
    above, below = np.broadcast_arrays(np.asarray(above, np.float64), np.asarray(below, np.float64))
    return np.divide(above, below, out=np.zeros(above.shape), where=below > 0)


@dataclass(frozen=True, slots=True, eq=False)
class Weighting:
    """How counts of a sample become totals of its topic.

    Attributes:
        weights: For each partition, for how many offsets one that was read stands.
        census: For each partition whether it was read whole.
        slices: How many slices there are.
        windows: How many windows were read in partitions that were not read whole.
        fraction: The part of the offsets of these partitions that was read; 1 where there are none.
    """

    weights: Floats
    census: Bools
    slices: int
    windows: int
    fraction: float

    @classmethod
    def of(cls, plan: SamplePlan) -> Weighting:
        """Of what a plan reads."""
        census = np.array(plan.census, dtype=bool)
        population = sum(span.records for span in plan.spans if not census[span.partition])
        read = sum(int(n) for n, whole in zip(plan.offsets_read, census, strict=True) if not whole)
        windows = sum(1 for window in plan.windows if not census[window.partition])
        fraction = read / population if population else 1.0
        return cls(np.array(plan.weights), census, plan.slices, windows, fraction)

    def by_partition(self, counts: npt.NDArray[Any]) -> Replicated:
        """Totals of each partition, of counts by partition and slice."""
        weighted = counts * self.weights[:, None]
        known = np.where(self.census, weighted.sum(axis=1), 0.0)
        return Replicated.of(np.where(self.census[:, None], 0.0, weighted), known, self.fraction)

    def whole(self, counts: npt.NDArray[Any]) -> Replicated:
        """The total of the topic, of counts by partition and slice."""
        return self.by_partition(counts).sum

    def placed(self, totals: Floats) -> Replicated:
        """Totals as `tally.Placement` has them: the last column is known, the others are slices."""
        return Replicated.of(totals[..., :-1], totals[..., -1], self.fraction)

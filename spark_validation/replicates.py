"""Totals of a topic, and how much they vary from one slice of the sample to the next.

Records cluster: neighbours in the log often have the same key, so records are no independent draws; windows
are. Every standard error here follows from the differences between slices, never from the binomial formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from spark_validation.tally import Floats
    from spark_validation.windows import SamplePlan

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

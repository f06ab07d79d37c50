"""The spread of the records written to a topic over its partitions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import log, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FEWEST_RECORDS = 300
"""Below so many records in the period, nothing is said of how they spread."""
_BY_CHANCE = 0.05
EVEN_RATIO = 1.25
"""Up to this ratio of the fullest partition to the mean, a topic counts as even."""


class Spread(StrEnum):
    """A verdict on the arrivals of a topic."""

    UNEVEN = "uneven"
    EVEN = "even"
    LITTLE = "too little data"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class TopicArrivals:
    """The records that were written to a topic.

    Attributes:
        name: The topic.
        period_ms: The period up to now that the counts are of; None if the logs of some partition do not
            reach back over any period, or if it is the time since the topic was made (`since_made`).
        counts: The records that arrived in each partition in the period; empty if there is none.
        ends: The records that ever arrived in each partition; None for one that could not be read.
        per_second: Records a second in the period; None if it is not known.
        since_made: Whether the counts are of the whole time since the topic was made.
    """

    name: str
    period_ms: int | None
    counts: tuple[int, ...]
    ends: tuple[int | None, ...]
    per_second: float | None = None
    since_made: bool = False

    @property
    def total(self) -> int:
        """The records of all partitions in the period."""
        return sum(self.counts)

    @property
    def ratio(self) -> float | None:
        """The fullest partition over the mean, in the period; None if nothing arrived or it is not known."""
        return _ratio(self.counts)

    @property
    def ratio_since_made(self) -> float | None:
        """The same for all records that ever arrived; None if a partition could not be read."""
        known = [end for end in self.ends if end is not None]
        return _ratio(known) if len(known) == len(self.ends) else None

    @property
    def fullest(self) -> int | None:
        """The partition with the most arrivals in the period."""
        return max(range(len(self.counts)), key=self.counts.__getitem__) if self.total else None

    @property
    def spread(self) -> Spread:
        """The verdict: even by the ratio, or no more uneven than random placement makes them.

        By chance, the largest of n Poisson counts of mean m exceeds m + t with a probability of at most 5 %,
        where t = L/3 + sqrt(L²/9 + 2mL) and L = ln(n / 0.05): Bernstein's inequality for each count, and
        Boole's for all of them.
        """
        if not self.counts or None in self.ends:
            return Spread.UNKNOWN
        if self.total < FEWEST_RECORDS:
            return Spread.LITTLE
        mean = self.total / len(self.counts)
        limit = log(len(self.counts) / _BY_CHANCE)
        by_chance = mean + limit / 3 + sqrt(limit**2 / 9 + 2 * mean * limit)
        even = max(self.counts) <= max(EVEN_RATIO * mean, by_chance)
        return Spread.EVEN if even else Spread.UNEVEN

    @property
    def weight(self) -> float:
        """The rank of an uneven topic: ratio times records a second."""
        return (self.ratio or 0.0) * (self.per_second or 0.0)


def _ratio(counts: Sequence[int]) -> float | None:
    total = sum(counts)
    return max(counts) * len(counts) / total if total else None

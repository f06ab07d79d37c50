"""95 % confidence intervals from estimates that were made without each slice."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from spark_validation.results import Estimate

if TYPE_CHECKING:
    from spark_validation.replicates import Replicated

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

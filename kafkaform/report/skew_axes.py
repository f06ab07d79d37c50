"""Where the round numbers of an axis lie."""

from __future__ import annotations

import math
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear axis from `low` to `high` with round `ticks`, both ends included."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high one; what is outside lies on the end."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def axis(low: float, high: float, wanted: int = 4) -> Axis:
    """An axis that has room for both values and about as many intervals as wanted."""
    if not high > low:
        high = low + 1.0
    raw = (high - low) / wanted
    power: float = 10.0 ** math.floor(math.log10(raw))
    step = power * next(one for one in _STEPS if raw <= one * power * (1 + 1e-9))
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    ticks = tuple(float(f"{index * step:.12g}") for index in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks)


def thinned(count: int, most: int) -> range:
    """Which of `count` places get a label: every first, second, fifth, … of them, at most `most` in all."""
    steps = (base * 10**power for power in range(12) for base in (1, 2, 5))
    return range(0, count, next(step for step in steps if count <= step * most))


def percent_tick(value: float) -> str:
    """A part of 1 on an axis, `2.5 %`."""
    return f"{100 * value:.6g} %"


def number_tick(value: float) -> str:
    """A number on an axis, where there is little room: `1.5`, `200 k`, `3 M`."""
    for least, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= least:
            return f"{value / least:.6g} {unit}"
    return f"{value:.6g}"

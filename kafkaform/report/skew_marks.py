"""Charts as plain geometry, which the page's template draws as inline SVG.

All places are percentages of the plotting area with y downwards, so that a chart fills whatever width it is
given and its text stays of one size: a phone shows the same labels as a wide screen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle; `kind` is its class, `tip` what a pointer over it shows."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """A point of a curve."""

    x: float
    y: float
    tip: str
    kind: str = "dot"


@dataclass(frozen=True, slots=True)
class Label:
    """Text at a place; `anchor` is start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class ChartPath:
    """A path in a square of 1000 by 1000; `kind` is its class."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart.

    Attributes:
        title: What it shows.
        text: The same for who does not see it, with the figures that matter.
        x_name: What its horizontal axis counts.
        y_ticks: Grid lines with their labels, by y.
        x_ticks: Labels below.
        levels: Dashed horizontal lines.
        marks: Dashed vertical lines.
        labels: Text inside.
        note: What a reader must know to read it; empty if nothing.
    """

    title: str
    text: str
    x_name: str
    y_ticks: tuple[Label, ...]
    x_ticks: tuple[Label, ...]
    bars: tuple[Bar, ...] = ()
    curves: tuple[ChartPath, ...] = ()
    dots: tuple[Dot, ...] = ()
    levels: tuple[float, ...] = ()
    marks: tuple[float, ...] = ()
    labels: tuple[Label, ...] = ()
    note: str = ""


def whiskers(intervals: Sequence[tuple[float, float, float]]) -> tuple[ChartPath, ...]:
    """Intervals as one path: x in percent, then both ends as parts of the height."""
    path = "".join(
        f"M{10 * x:.0f} {1000 - 1000 * high:.0f}V{1000 - 1000 * low:.0f}" for x, high, low in intervals
    )
    return (ChartPath("whisker", path),) if path else ()


def line(points: Sequence[tuple[float, float]]) -> str:
    """A path through points of the square."""
    return "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in points)


def anchor(place: float, edge: float = 3.0) -> str:
    """A label that is nearer to an end than that stays inside."""
    return "start" if place < edge else "end" if place > 100 - edge else "middle"


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

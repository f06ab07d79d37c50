"""Charts as plain geometry, which the page's template draws as inline SVG.

All places are percentages of the plotting area with y downwards, so that a chart fills whatever width it is
given and its text stays of one size: a phone shows the same labels as a wide screen.
"""

from __future__ import annotations

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
class Curve:
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
    curves: tuple[Curve, ...] = ()
    dots: tuple[Dot, ...] = ()
    levels: tuple[float, ...] = ()
    marks: tuple[float, ...] = ()
    labels: tuple[Label, ...] = ()
    note: str = ""


def whiskers(intervals: Sequence[tuple[float, float, float]]) -> tuple[Curve, ...]:
    """Intervals as one path: x in percent, then both ends as parts of the height."""
    path = "".join(
        f"M{10 * x:.0f} {1000 - 1000 * high:.0f}V{1000 - 1000 * low:.0f}" for x, high, low in intervals
    )
    return (Curve("whisker", path),) if path else ()


def line(points: Sequence[tuple[float, float]]) -> str:
    """A path through points of the square."""
    return "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in points)


def anchor(place: float, edge: float = 3.0) -> str:
    """A label that is nearer to an end than that stays inside."""
    return "start" if place < edge else "end" if place > 100 - edge else "middle"

"""Curves: a figure over partition counts or over time, and the Lorenz curve."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from kafkaform.report.skew_axes import axis, number_tick
from kafkaform.report.skew_marks import Chart, Curve, Dot, Label, anchor, line, whiskers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_validation.results import Estimate


_POINTS = 120
"""A curve of more points than the eye can part is thinned; its ends stay."""


def lorenz_chart(shares: Sequence[float], *, title: str, text: str) -> Chart:
    """The Lorenz curve: the emptiest partitions first, the part of all records that they have together."""
    total = sum(shares) or 1.0
    sums = [0.0, *accumulate(sorted(shares))]
    picks = sorted({round(index * len(shares) / _POINTS) for index in range(_POINTS + 1)})
    points = [(1000 * index / len(shares), 1000 - 1000 * sums[index] / total) for index in picks]
    path = line(points)
    ticks = tuple(25 * index for index in range(5))
    return Chart(
        title,
        text,
        "partitions, emptiest first",
        y_ticks=tuple(Label(0, 100 - tick, f"{tick} %") for tick in ticks),
        x_ticks=tuple(Label(tick, 100, f"{tick} %", anchor(tick)) for tick in ticks),
        curves=(
            Curve("gap", f"{path}L0 1000Z"),
            Curve("even", "M0 1000L1000 0"),
            Curve("line", path),
        ),
    )


@dataclass(frozen=True, slots=True)
class Point:
    """An estimate at a place of the horizontal axis; `name` is what a pointer over it shows first."""

    at: float
    name: str
    value: Estimate


def curve_chart(
    points: Sequence[Point],
    *,
    title: str,
    x_name: str,
    words: Callable[[float], str],
    text: str,
    x_ticks: Sequence[tuple[float, str]],
    span: tuple[float, float],
    tick_words: Callable[[float], str] = number_tick,
    least: float = 0.0,
    level: float | None = None,
    most_dots: int = 15,
    mark: tuple[float, str] | None = None,
    measured: Point | None = None,
) -> Chart:
    """A curve with the band of its intervals.

    Args:
        points: In their order; at least one.
        title: What is shown.
        x_name: What the horizontal axis counts.
        words: How a value is written.
        text: The chart in words.
        x_ticks: Places of the horizontal axis that get a label.
        span: The ends of the horizontal axis.
        tick_words: How one is written on the vertical axis, which begins with 0.
        least: Where the vertical axis ends at least, so that noise does not look like change.
        level: A height to mark.
        most_dots: Of more points than that only the last is drawn as a dot.
        mark: A place of the horizontal axis to mark, and its label.
        measured: A point beside the curve.
    """
    shown = [*points, *([measured] if measured else [])]
    scale = axis(0.0, max(least, *(point.value.high for point in shown)), 3)
    low, high = span

    def across(at: float) -> float:
        return 100 * (at - low) / (high - low) if high > low else 50.0

    def down(value: float) -> float:
        return 100 - 100 * scale.place(value)

    middle = [(10 * across(point.at), 10 * down(point.value.value)) for point in points]
    upper = [(10 * across(point.at), 10 * down(point.value.high)) for point in points]
    lower = [(10 * across(point.at), 10 * down(point.value.low)) for point in points]
    # A single point has no band, and its interval shows as a whisker; so does that of a point on its own.
    alone = [*(points if len(points) == 1 else ()), *([measured] if measured else [])]
    dots = [
        Dot(across(point.at), down(point.value.value), f"{point.name}: {words(point.value.value)}")
        for point in (points if len(points) <= most_dots else points[-1:])
    ]
    if measured:
        tip = f"{measured.name}: {words(measured.value.value)}"
        dots.append(Dot(across(measured.at), down(measured.value.value), tip, "measured"))
    marks = [across(mark[0])] if mark else []
    return Chart(
        title,
        text,
        x_name,
        y_ticks=tuple(Label(0, down(tick), tick_words(tick)) for tick in scale.ticks),
        x_ticks=tuple(Label(across(at), 100, name, anchor(across(at))) for at, name in x_ticks),
        curves=(
            *((Curve("band", line([*upper, *reversed(lower)]) + "Z"),) if len(points) > 1 else ()),
            *((Curve("line", line(middle)),) if len(points) > 1 else ()),
            *whiskers(
                [
                    (across(point.at), scale.place(point.value.high), scale.place(point.value.low))
                    for point in alone
                ]
            ),
        ),
        dots=tuple(dots),
        levels=() if level is None else (down(level),),
        marks=tuple(marks),
        labels=(Label(marks[0], 0, mark[1], anchor(marks[0], 8.0)),) if mark else (),
    )

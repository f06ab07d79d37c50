"""Charts as plain geometry, which the page's template draws as inline SVG.

All places are percentages of the plotting area with y downwards, so that a chart fills whatever width it is
given and its text stays of one size: a phone shows the same labels as a wide screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from kafkaform.report.skew_axes import axis, number_tick, percent_tick, thinned
from kafkaform.report.skew_values import ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_validation.results import Estimate

MOST_COLUMNS = 60
MOST_DOTS = 15
_MOST_LABELS = 12
_GAP = 0.24


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


@dataclass(frozen=True, slots=True)
class Column:
    """What one column stands for: an item, or neighbours of which the fullest has this share.

    Attributes:
        name: Such as `7` or `0-16`.
        short: For the axis.
        share: Of the item, or of the fullest neighbour.
        mean: The neighbours' mean share; equal to `share.value` for a single item.
    """

    name: str
    short: str
    share: Estimate
    mean: float


def columns(items: Sequence[tuple[int, Estimate]], most: int = MOST_COLUMNS) -> list[Column]:
    """At most `most` columns for numbered shares, in their order."""
    size = -(-len(items) // most)
    found = []
    for start in range(0, len(items), max(1, size)):
        part = items[start : start + size]
        fullest = max((share for _, share in part), key=lambda share: share.value)
        first, last = part[0][0], part[-1][0]
        name = str(first) if first == last else f"{first}-{last}"
        found.append(Column(name, str(first), fullest, sum(share.value for _, share in part) / len(part)))
    return found


def column_chart(
    items: Sequence[tuple[int, Estimate]],
    *,
    title: str,
    item: str,
    words: Callable[[float], str],
    text: str,
    most: int = MOST_COLUMNS,
) -> Chart:
    """Shares of numbered things as columns, with the mean as a dashed line.

    Args:
        items: Number and share, by number; at least one.
        title: What is shown.
        item: What a column is, such as `partition`.
        words: How a share is written.
        text: The chart in words.
        most: More items than that are drawn as groups of neighbours.
    """
    found = columns(items, most)
    mean = sum(share.value for _, share in items) / len(items)
    # The label above the fullest column needs room, too.
    scale = axis(0.0, max(column.share.high for column in found) * 1.08)
    slot = 100.0 / len(found)
    width = slot * (1 - _GAP)
    top = max(found, key=lambda column: column.share.value)
    bars: list[Bar] = []
    whiskers: list[tuple[float, float, float]] = []
    grouped = len(found) < len(items)
    for index, column in enumerate(found):
        x = slot * (index + _GAP / 2)
        tip = f"{item} {column.name}: {words(column.share.value)}"
        if grouped:
            tip = f"{item}s {column.name}: fullest {words(column.share.value)}, mean {words(column.mean)}"
        kind = ("hot" if column is top else "bar") + (" peak" if grouped else "")
        bars.append(_bar(x, width, scale.place(column.share.value), kind, tip))
        if grouped:
            bars.append(_bar(x, width, scale.place(column.mean), "hot mean" if column is top else "bar mean"))
        if column.share.high > column.share.low:
            whiskers.append((x + width / 2, scale.place(column.share.high), scale.place(column.share.low)))
    place = slot * (found.index(top) + 0.5)
    label = Label(
        place,
        100 - 100 * scale.place(top.share.high),
        f"{ratio(top.share.value / mean)} times the mean" if mean else "",
        _anchor(place, 20.0),
    )
    return Chart(
        title,
        text,
        item,
        y_ticks=tuple(Label(0, 100 - 100 * scale.place(tick), percent_tick(tick)) for tick in scale.ticks),
        x_ticks=tuple(
            Label(slot * (index + 0.5), 100, found[index].short)
            for index in thinned(len(found), _MOST_LABELS)
        ),
        bars=tuple(bars),
        curves=_whiskers(whiskers),
        levels=(100 - 100 * scale.place(mean),),
        labels=(label,) if mean and len(found) > 1 else (),
        note=_grouping(len(items), len(found), item) if grouped else "",
    )


def _bar(x: float, width: float, part: float, kind: str, tip: str = "") -> Bar:
    return Bar(x, 100 - 100 * part, width, 100 * part, kind, tip)


def _whiskers(intervals: Sequence[tuple[float, float, float]]) -> tuple[Curve, ...]:
    """Intervals as one path: x in percent, then both ends as parts of the height."""
    path = "".join(
        f"M{10 * x:.0f} {1000 - 1000 * high:.0f}V{1000 - 1000 * low:.0f}" for x, high, low in intervals
    )
    return (Curve("whisker", path),) if path else ()


def _grouping(items: int, found: int, item: str) -> str:
    size = -(-items // found)
    return f"A column stands for up to {size} neighbouring {item}s: pale is the fullest of them, dark their mean."


def lorenz_chart(shares: Sequence[float], *, title: str, text: str, most: int = 120) -> Chart:
    """The Lorenz curve: the emptiest partitions first, the part of all records that they have together."""
    total = sum(shares) or 1.0
    sums = [0.0, *accumulate(sorted(shares))]
    # A curve of more points than the eye can part is thinned; its ends stay.
    picks = sorted({round(index * len(shares) / most) for index in range(most + 1)})
    points = [(1000 * index / len(shares), 1000 - 1000 * sums[index] / total) for index in picks]
    line = _line(points)
    ticks = tuple(25 * index for index in range(5))
    return Chart(
        title,
        text,
        "partitions, emptiest first",
        y_ticks=tuple(Label(0, 100 - tick, f"{tick} %") for tick in ticks),
        x_ticks=tuple(Label(tick, 100, f"{tick} %", _anchor(tick)) for tick in ticks),
        curves=(
            Curve("gap", f"{line}L0 1000Z"),
            Curve("even", "M0 1000L1000 0"),
            Curve("line", line),
        ),
    )


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in points)


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

    line = [(10 * across(point.at), 10 * down(point.value.value)) for point in points]
    upper = [(10 * across(point.at), 10 * down(point.value.high)) for point in points]
    lower = [(10 * across(point.at), 10 * down(point.value.low)) for point in points]
    # A single point has no band, and its interval shows as a whisker; so does that of a point on its own.
    alone = [*(points if len(points) == 1 else ()), *([measured] if measured else [])]
    dots = [
        Dot(across(point.at), down(point.value.value), f"{point.name}: {words(point.value.value)}")
        for point in (points if len(points) <= MOST_DOTS else points[-1:])
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
        x_ticks=tuple(Label(across(at), 100, name, _anchor(across(at))) for at, name in x_ticks),
        curves=(
            *((Curve("band", _line([*upper, *reversed(lower)]) + "Z"),) if len(points) > 1 else ()),
            *((Curve("line", _line(line)),) if len(points) > 1 else ()),
            *_whiskers(
                [
                    (across(point.at), scale.place(point.value.high), scale.place(point.value.low))
                    for point in alone
                ]
            ),
        ),
        dots=tuple(dots),
        levels=() if level is None else (down(level),),
        marks=tuple(marks),
        labels=(Label(marks[0], 0, mark[1], _anchor(marks[0], 8.0)),) if mark else (),
    )


def _anchor(place: float, edge: float = 3.0) -> str:
    """A label that is nearer to an end than that stays inside."""
    return "start" if place < edge else "end" if place > 100 - edge else "middle"

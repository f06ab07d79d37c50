"""The charts of one topic as geometry, which the page's template draws as inline SVG.

Coordinates are percentages of the plotting area with y downwards, so that a chart fills any width and its
text keeps its size: a phone shows the same labels as a wide screen.
"""

from __future__ import annotations

import math
from datetime import UTC
from itertools import accumulate
from typing import TYPE_CHECKING

from kafkaform.core.values import Value
from kafkaform.core.wording import counted
from kafkaform.report.skew_values import moment
from spark_validation.figures import count, percent, ratio
from spark_validation.metrics import DISTINCT_KEYS, HOTTEST_KEY_SHARE, MAX_MEAN_RATIO
from spark_validation.results import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaform.report.skew_values import Trend
    from spark_validation.results import GroupResult, TopicResult


class Bar(Value):
    """A rectangle; `kind` is its CSS class, `tip` its tooltip."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    tip: str = ""


class Dot(Value):
    """A point of a curve."""

    x: float
    y: float
    tip: str
    kind: str = "dot"


class Label(Value):
    """Text at a position; `anchor` is start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str = "middle"


class ChartPath(Value):
    """A path in a square of 1000 by 1000; `kind` is its CSS class."""

    kind: str
    path: str


class Chart(Value):
    """A chart.

    Attributes:
        title: The title.
        text: The description for screen readers, with the main figures.
        x_name: The quantity of the horizontal axis.
        y_ticks: Grid lines with their labels, by y.
        x_ticks: Labels below the chart.
        levels: Dashed horizontal lines.
        marks: Dashed vertical lines.
        labels: Text inside the chart.
        note: An explanation below the chart; empty for none.
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
    """Draw intervals as one path: x in percent, then the upper and the lower end as parts of the height."""
    # A path's coordinates are numbers, never percentages, so curves are drawn in a square of 1000 that the
    # page stretches over the chart. One path for all intervals takes less of the page than an element each.
    path = "".join(
        f"M{10 * x:.0f} {1000 - 1000 * high:.0f}V{1000 - 1000 * low:.0f}" for x, high, low in intervals
    )
    return (ChartPath("whisker", path),) if path else ()


def line(points: Sequence[tuple[float, float]]) -> str:
    """Return a path through points of the square."""
    return "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in points)


def anchor(place: float, edge: float = 3.0) -> str:
    """Return the text anchor that keeps a label within `edge` percent of an end inside the chart."""
    return "start" if place < edge else "end" if place > 100 - edge else "middle"


# The steps between round numbers; 2.5 gives quarters, as 25 % or 0.25.
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


class Axis(Value):
    """A linear axis from `low` to `high` with round `ticks`, both ends included."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Return the position of a value: 0 at the low end, 1 at the high one, clamped to both."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def axis(low: float, high: float, intervals: int = 4) -> Axis:
    """Return an axis that includes both values and has about `intervals` intervals."""
    # All values may be 0, and a length of 0 has no scale.
    if not high > low:
        high = low + 1.0
    raw = (high - low) / intervals
    power: float = 10.0 ** math.floor(math.log10(raw))
    # The tolerances keep an error of the last binary digit from adding a step: 0.3 / 0.1 is
    # 2.9999999999999996.
    step = power * next(factor for factor in _STEPS if raw <= factor * power * (1 + 1e-9))
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    # Twelve digits: as a product of floats, a tick would be 0.30000000000000004, and its label as long.
    ticks = tuple(float(f"{index * step:.12g}") for index in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks)


def choose_labels(count: int, most: int) -> range:
    """Choose which of `count` positions get a label: every first, second, fifth, …, at most `most` in all."""
    steps = (base * 10**power for power in range(12) for base in (1, 2, 5))
    return range(0, count, next(step for step in steps if count <= step * most))


def percent_tick(value: float) -> str:
    """Format a share on an axis: `2.5 %`."""
    return f"{100 * value:.6g} %"


def number_tick(value: float) -> str:
    """Format a number on an axis in little room: `1.5`, `200 k`, `3 M`."""
    for least, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= least:
            return f"{value / least:.6g} {unit}"
    return f"{value:.6g}"


# --- charts of a topic -------------------------------------------------------------------------------

MOST_COLUMNS = 60
_MOST_LABELS = 12
_GAP = 0.24


class ChartColumn(Value):
    """A column: one item, or a group of neighbouring items drawn by the fullest of them.

    Attributes:
        name: The item or range: `7` or `0-16`.
        short: The label on the axis.
        share: The share of the item, or of the fullest in the group.
        mean: The mean share of the group; equal to `share.value` for a single item.
    """

    name: str
    short: str
    share: Estimate
    mean: float


def columns(items: Sequence[tuple[int, Estimate]], most: int = MOST_COLUMNS) -> list[ChartColumn]:
    """Return at most `most` columns for numbered shares, in their order."""
    # Rounded up, so that there are never more than `most` columns.
    size = -(-len(items) // most)
    drawn = []
    for start in range(0, len(items), max(1, size)):
        group = items[start : start + size]
        # A mean would hide the one full partition that the chart is made to show.
        fullest = max((share for _, share in group), key=lambda share: share.value)
        first, last = group[0][0], group[-1][0]
        name = str(first) if first == last else f"{first}-{last}"
        drawn.append(
            ChartColumn(name, str(first), fullest, sum(share.value for _, share in group) / len(group))
        )
    return drawn


def column_chart(
    items: Sequence[tuple[int, Estimate]],
    *,
    title: str,
    item: str,
    words: Callable[[float], str],
    text: str,
    most: int = MOST_COLUMNS,
) -> Chart:
    """Draw shares of numbered items as columns, with the mean as a dashed line.

    Args:
        items: The number and share of each item, by number; at least one.
        title: The title.
        item: The noun for a column, such as `partition`.
        words: Formats a share.
        text: The description for screen readers.
        most: The most columns; more items are drawn as groups of neighbours.
    """
    drawn = columns(items, most)
    mean = sum(share.value for _, share in items) / len(items)
    # Leave room for the label above the fullest column.
    scale = axis(0.0, max(column.share.high for column in drawn) * 1.08)
    slot = 100.0 / len(drawn)
    width = slot * (1 - _GAP)
    top = max(drawn, key=lambda column: column.share.value)
    bars: list[Bar] = []
    intervals: list[tuple[float, float, float]] = []
    grouped = len(drawn) < len(items)
    for index, column in enumerate(drawn):
        x = slot * (index + _GAP / 2)
        tip = f"{item} {column.name}: {words(column.share.value)}"
        if grouped:
            tip = f"{item}s {column.name}: fullest {words(column.share.value)}, mean {words(column.mean)}"
        kind = ("hot" if column is top else "bar") + (" peak" if grouped else "")
        bars.append(_bar(x, width, scale.place(column.share.value), kind, tip))
        # The mean is drawn over the fullest, which is never lower.
        if grouped:
            bars.append(_bar(x, width, scale.place(column.mean), "hot mean" if column is top else "bar mean"))
        # A counted share has no interval to draw.
        if column.share.high > column.share.low:
            intervals.append((x + width / 2, scale.place(column.share.high), scale.place(column.share.low)))
    place = slot * (drawn.index(top) + 0.5)
    # Above the whisker, which would cross it.
    label = Label(
        place,
        100 - 100 * scale.place(top.share.high),
        f"{ratio(top.share.value / mean)} times the mean" if mean else "",
        anchor(place, 20.0),
    )
    return Chart(
        title,
        text,
        item,
        y_ticks=tuple(Label(0, 100 - 100 * scale.place(tick), percent_tick(tick)) for tick in scale.ticks),
        x_ticks=tuple(
            Label(slot * (index + 0.5), 100, drawn[index].short)
            for index in choose_labels(len(drawn), _MOST_LABELS)
        ),
        bars=tuple(bars),
        curves=whiskers(intervals),
        levels=(100 - 100 * scale.place(mean),),
        labels=(label,) if mean and len(drawn) > 1 else (),
        note=_explain_grouping(len(items), len(drawn), item) if grouped else "",
    )


def _bar(x: float, width: float, height: float, kind: str, tip: str = "") -> Bar:
    return Bar(x, 100 - 100 * height, width, 100 * height, kind, tip)


def _explain_grouping(items: int, columns: int, item: str) -> str:
    size = -(-items // columns)
    group = f"up to {size} neighbouring {item}s"
    return f"Each column shows {group}: the pale bar is the fullest of them, the dark bar their mean."


_POINTS = 120
"""The most points of a Lorenz curve. Of a longer one, evenly spaced points and both ends are kept."""


def lorenz_chart(shares: Sequence[float], *, title: str, text: str) -> Chart:
    """Draw the Lorenz curve: the cumulative share of the records, emptiest partitions first."""
    total = sum(shares) or 1.0
    sums = [0.0, *accumulate(sorted(shares))]
    # Rounded positions always include the first and the last point; a set drops those that fall together.
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
            ChartPath("gap", f"{path}L0 1000Z"),
            # The diagonal, on which all partitions have the same share; the distance to it is the skew.
            ChartPath("even", "M0 1000L1000 0"),
            ChartPath("line", path),
        ),
    )


class Point(Value):
    """An estimate at a position of the horizontal axis; `name` starts its tooltip."""

    at: float
    name: str
    value: Estimate


class HorizontalAxis(Value):
    """The horizontal axis of a curve.

    Attributes:
        name: The quantity.
        ticks: The positions with a label.
        span: The two ends.
    """

    name: str
    ticks: Sequence[tuple[float, str]]
    span: tuple[float, float]


class VerticalAxis(Value):
    """The vertical axis of a curve, which starts at 0.

    Attributes:
        words: Formats a value.
        tick_words: Formats a tick.
        least: The least upper end, so that noise does not look like change.
    """

    words: Callable[[float], str]
    tick_words: Callable[[float], str] = number_tick
    least: float = 0.0


class Marks(Value):
    """The marks of a chart in addition to its curve.

    Attributes:
        level: The height of a dashed line.
        place: A position of the horizontal axis and its label.
        point: A point off the curve.
    """

    level: float | None = None
    place: tuple[float, str] | None = None
    point: Point | None = None


def draw_curve(
    points: Sequence[Point],
    title: str,
    text: str,
    horizontal: HorizontalAxis,
    vertical: VerticalAxis,
    marked: Marks | None = None,
    most_dots: int = 15,
) -> Chart:
    """Draw a curve with the band of its intervals.

    Args:
        points: The points in order; at least one.
        title: The title.
        text: The description for screen readers.
        horizontal: The horizontal axis.
        vertical: The vertical axis.
        marked: Additional marks.
        most_dots: The most points drawn as dots; of more points only the last one is.
    """
    marked = marked or Marks()
    measured, words = marked.point, vertical.words
    shown = [*points, *([measured] if measured else [])]
    scale = axis(0.0, max(vertical.least, *(point.value.high for point in shown)), 3)
    low, high = horizontal.span

    def across(at: float) -> float:
        return 100 * (at - low) / (high - low) if high > low else 50.0

    def down(value: float) -> float:
        return 100 - 100 * scale.place(value)

    middle = [(10 * across(point.at), 10 * down(point.value.value)) for point in points]
    upper = [(10 * across(point.at), 10 * down(point.value.high)) for point in points]
    lower = [(10 * across(point.at), 10 * down(point.value.low)) for point in points]
    # A single point has no band: its interval is drawn as a whisker, like that of a point off the curve.
    whiskered = [*(points if len(points) == 1 else ()), *([measured] if measured else [])]
    dots = [
        Dot(across(point.at), down(point.value.value), f"{point.name}: {words(point.value.value)}")
        # Many dots would cover the curve; the last one is the present state.
        for point in (points if len(points) <= most_dots else points[-1:])
    ]
    if measured:
        tip = f"{measured.name}: {words(measured.value.value)}"
        dots.append(Dot(across(measured.at), down(measured.value.value), tip, "measured"))
    level, place = marked.level, marked.place
    marks = [across(place[0])] if place else []
    return Chart(
        title,
        text,
        horizontal.name,
        y_ticks=tuple(Label(0, down(tick), vertical.tick_words(tick)) for tick in scale.ticks),
        x_ticks=tuple(Label(across(at), 100, name, anchor(across(at))) for at, name in horizontal.ticks),
        curves=(
            *((ChartPath("band", line([*upper, *reversed(lower)]) + "Z"),) if len(points) > 1 else ()),
            *((ChartPath("line", line(middle)),) if len(points) > 1 else ()),
            *whiskers(
                [
                    (across(point.at), scale.place(point.value.high), scale.place(point.value.low))
                    for point in whiskered
                ]
            ),
        ),
        dots=tuple(dots),
        levels=() if level is None else (down(level),),
        marks=tuple(marks),
        labels=(Label(marks[0], 0, place[1], anchor(marks[0], 8.0)),) if place else (),
    )


def partition_charts(topic: TopicResult, *, columns: int, by_bytes: bool) -> tuple[Chart, ...]:
    """Draw partition shares by records and, if requested, by bytes."""
    charts = []
    for title, spread, shares in (
        (
            "By records",
            topic.by_records,
            [(partition.partition, partition.share) for partition in topic.partitions],
        ),
        (
            "By bytes",
            topic.by_bytes,
            [(partition.partition, partition.byte_share) for partition in topic.partitions],
        ),
    )[: 1 + by_bytes]:
        number, fullest = max(shares, key=lambda pair: pair[1].value)
        text = (
            f"Share of each of {counted(len(shares), 'partition')}, {title.lower()}: partition "
            f"{number} has the most, {percent(fullest.value)}; the mean is {percent(1 / len(shares))}; "
            f"fullest over mean {ratio(spread.max_mean_ratio.value)}."
        )
        charts.append(
            column_chart(shares, title=title, item="partition", words=percent, text=text, most=columns)
        )
    return tuple(charts)


def inequality(topic: TopicResult) -> Chart:
    """Draw the Lorenz curve of the records."""
    gini = ratio(topic.by_records.gini.value)
    return lorenz_chart(
        [partition.share.value for partition in topic.partitions],
        title=f"Lorenz curve of the records, Gini {gini}",
        text=f"Lorenz curve of the records over the partitions, emptiest first. Gini coefficient {gini}: "
        "0 is even; near 1, one partition has everything.",
    )


def prediction(topic: TopicResult) -> Chart:
    """Draw the predictions for other partition counts."""
    present = len(topic.partitions)
    ratios = {estimate.partitions: estimate.max_mean_ratio for estimate in topic.what_if}
    counts = sorted({present, *ratios})
    # The counts are equally far apart: on a scale up to 96, the labels of 12 and 13 would overlap.
    places = {number: float(index) for index, number in enumerate(counts)}
    return draw_curve(
        [Point(places[number], counted(number, "partition"), ratios[number]) for number in sorted(ratios)],
        "Predicted fullest / mean",
        "Predicted ratio of the fullest partition to the mean: "
        + "; ".join(
            f"{ratio(estimate.value)} with {counted(number, 'partition')}"
            for number, estimate in sorted(ratios.items())
        )
        + f". Measured with the current {present}: {ratio(topic.by_records.max_mean_ratio.value)}.",
        HorizontalAxis(
            "partitions",
            [(place, str(number)) for number, place in places.items()],
            (-0.3, len(counts) - 0.7),
        ),
        VerticalAxis(ratio, least=2.0),
        Marks(
            1.0,
            (places[present], f"now: {present}"),
            Point(places[present], "measured now", topic.by_records.max_mean_ratio),
        ),
    )


class _Figure(Value):
    """A figure with a trend chart: its metric, its formats, and the least upper end of its axis."""

    title: str
    metric: str
    words: Callable[[float], str]
    tick_words: Callable[[float], str] = number_tick
    least: float = 1.0


_FIGURES = (
    _Figure("Fullest / mean", MAX_MEAN_RATIO, ratio, least=2.0),
    _Figure("Hottest key's share", HOTTEST_KEY_SHARE, percent, percent_tick, least=0.01),
    _Figure("Distinct keys", DISTINCT_KEYS, count),
)


def trend_charts(trend: Trend, dots: int) -> tuple[Chart, ...]:
    """Draw the main figures over time; of more points than `dots` only the last is drawn as a dot."""
    moments = trend.moments
    first, last = moments[0], moments[-1]
    stamps = [point.time.astimezone(UTC).isoformat() for point in (first, last)]
    # The ends of the axis have room for a time or a date, not for both.
    same_day = stamps[0][:10] == stamps[1][:10]
    ends = [stamp[11:16] if same_day else stamp[:10] for stamp in stamps]
    return tuple(
        draw_curve(
            [
                Point(point.time.timestamp(), moment(point.time.isoformat()), point.metrics[figure.metric])
                for point in moments
            ],
            figure.title,
            f"{figure.title} over {counted(len(moments), 'report')}: "
            f"{figure.words(first.metrics[figure.metric].value)} at {moment(stamps[0])}, "
            f"{figure.words(last.metrics[figure.metric].value)} at {moment(stamps[1])}.",
            HorizontalAxis(
                "",
                [(first.time.timestamp(), ends[0]), (last.time.timestamp(), ends[1])],
                (first.time.timestamp(), last.time.timestamp()),
            ),
            VerticalAxis(figure.words, figure.tick_words, figure.least),
            most_dots=dots,
        )
        for figure in _FIGURES
    )


def member_chart(group: GroupResult, columns: int) -> Chart:
    """Draw the share of each member of a group, in the members' order."""
    shares = [(number, Estimate.exact(member.share)) for number, member in enumerate(group.members, 1)]
    text = (
        f"Share of the records that each of {counted(len(shares), 'member')} of {group.name} gets with "
        f"{group.assignor}: the busiest gets {percent(max(member.share for member in group.members))}."
    )
    return column_chart(
        shares, title="Records by member", item="member", words=percent, text=text, most=columns
    )

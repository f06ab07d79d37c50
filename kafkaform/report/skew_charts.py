"""The charts of one topic: columns of partitions and members, and curves over partition counts or time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from itertools import accumulate
from typing import TYPE_CHECKING

from kafkaform.core.wording import counted
from kafkaform.report.skew_marks import (
    Bar,
    Chart,
    ChartPath,
    Dot,
    Label,
    anchor,
    axis,
    line,
    number_tick,
    percent_tick,
    thinned,
    whiskers,
)
from kafkaform.report.skew_values import (
    count,
    moment,
    ratio,
    share,
)
from spark_validation.metrics import DISTINCT_KEYS, HOTTEST_KEY_SHARE, MAX_MEAN_RATIO
from spark_validation.results import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaform.report.skew_trend import Trend
    from spark_validation.results import GroupResult, TopicResult


MOST_COLUMNS = 60
_MOST_LABELS = 12
_GAP = 0.24


@dataclass(frozen=True, slots=True)
class ChartColumn:
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


def columns(items: Sequence[tuple[int, Estimate]], most: int = MOST_COLUMNS) -> list[ChartColumn]:
    """At most `most` columns for numbered shares, in their order."""
    size = -(-len(items) // most)
    found = []
    for start in range(0, len(items), max(1, size)):
        part = items[start : start + size]
        fullest = max((share for _, share in part), key=lambda share: share.value)
        first, last = part[0][0], part[-1][0]
        name = str(first) if first == last else f"{first}-{last}"
        found.append(
            ChartColumn(name, str(first), fullest, sum(share.value for _, share in part) / len(part))
        )
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
    ends: list[tuple[float, float, float]] = []
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
            ends.append((x + width / 2, scale.place(column.share.high), scale.place(column.share.low)))
    place = slot * (found.index(top) + 0.5)
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
            Label(slot * (index + 0.5), 100, found[index].short)
            for index in thinned(len(found), _MOST_LABELS)
        ),
        bars=tuple(bars),
        curves=whiskers(ends),
        levels=(100 - 100 * scale.place(mean),),
        labels=(label,) if mean and len(found) > 1 else (),
        note=_grouping(len(items), len(found), item) if grouped else "",
    )


def _bar(x: float, width: float, part: float, kind: str, tip: str = "") -> Bar:
    return Bar(x, 100 - 100 * part, width, 100 * part, kind, tip)


def _grouping(items: int, found: int, item: str) -> str:
    size = -(-items // found)
    group = f"up to {size} neighbouring {item}s"
    return f"Each column shows {group}: the pale bar is the fullest of them, the dark bar their mean."


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
            ChartPath("gap", f"{path}L0 1000Z"),
            ChartPath("even", "M0 1000L1000 0"),
            ChartPath("line", path),
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
            *((ChartPath("band", line([*upper, *reversed(lower)]) + "Z"),) if len(points) > 1 else ()),
            *((ChartPath("line", line(middle)),) if len(points) > 1 else ()),
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


def partition_charts(topic: TopicResult, *, columns: int, by_bytes: bool) -> tuple[Chart, ...]:
    """Partition shares by records and, if wanted, by bytes."""
    found = []
    for title, spread, shares in (
        ("By records", topic.by_records, [(one.partition, one.share) for one in topic.partitions]),
        ("By bytes", topic.by_bytes, [(one.partition, one.byte_share) for one in topic.partitions]),
    )[: 1 + by_bytes]:
        number, fullest = max(shares, key=lambda pair: pair[1].value)
        text = (
            f"Share of each of {counted(len(shares), 'partition')}, {title.lower()}: partition "
            f"{number} has the most, {share(fullest.value)}; the mean is {share(1 / len(shares))}; "
            f"fullest over mean {ratio(spread.max_mean_ratio.value)}."
        )
        found.append(
            column_chart(shares, title=title, item="partition", words=share, text=text, most=columns)
        )
    return tuple(found)


def inequality(topic: TopicResult) -> Chart:
    """The Lorenz curve of the records."""
    gini = ratio(topic.by_records.gini.value)
    return lorenz_chart(
        [one.share.value for one in topic.partitions],
        title=f"Lorenz curve of the records, Gini {gini}",
        text=f"Lorenz curve of the records over the partitions, emptiest first. Gini coefficient {gini}: "
        "0 is even; near 1, one partition has everything.",
    )


def prediction(topic: TopicResult) -> Chart:
    """Partition counts stand at equal distances: 12 and 13 would lie on each other beside 96."""
    present = len(topic.partitions)
    predicted = {one.partitions: one.max_mean_ratio for one in topic.what_if}
    counts = sorted({present, *predicted})
    places = {number: float(index) for index, number in enumerate(counts)}
    return curve_chart(
        [
            Point(places[number], counted(number, "partition"), predicted[number])
            for number in sorted(predicted)
        ],
        title="Predicted fullest / mean",
        x_name="partitions",
        words=ratio,
        text="Predicted ratio of the fullest partition to the mean: "
        + "; ".join(
            f"{ratio(one.value)} with {counted(number, 'partition')}"
            for number, one in sorted(predicted.items())
        )
        + f". Measured with the current {present}: {ratio(topic.by_records.max_mean_ratio.value)}.",
        x_ticks=[(place, str(number)) for number, place in places.items()],
        span=(-0.3, len(counts) - 0.7),
        least=2.0,
        level=1.0,
        mark=(places[present], f"now: {present}"),
        measured=Point(places[present], "measured now", topic.by_records.max_mean_ratio),
    )


@dataclass(frozen=True, slots=True)
class _Figure:
    """What a trend is of: its metric, how to write it, and what its axis shows at least."""

    title: str
    metric: str
    words: Callable[[float], str]
    tick_words: Callable[[float], str] = number_tick
    least: float = 1.0


_FIGURES = (
    _Figure("Fullest / mean", MAX_MEAN_RATIO, ratio, least=2.0),
    _Figure("Hottest key's share", HOTTEST_KEY_SHARE, share, percent_tick, least=0.01),
    _Figure("Distinct keys", DISTINCT_KEYS, count),
)


def trend_charts(trend: Trend, dots: int) -> tuple[Chart, ...]:
    """What matters most over time; of more points than `dots` only the last is drawn as a dot."""
    moments = trend.moments
    first, last = moments[0], moments[-1]
    stamps = [one.time.astimezone(UTC).isoformat() for one in (first, last)]
    same_day = stamps[0][:10] == stamps[1][:10]
    ends = [stamp[11:16] if same_day else stamp[:10] for stamp in stamps]
    return tuple(
        curve_chart(
            [
                Point(one.time.timestamp(), moment(one.time.isoformat()), one.metrics[figure.metric])
                for one in moments
            ],
            title=figure.title,
            x_name="",
            words=figure.words,
            text=f"{figure.title} over {counted(len(moments), 'report')}: "
            f"{figure.words(first.metrics[figure.metric].value)} at {moment(stamps[0])}, "
            f"{figure.words(last.metrics[figure.metric].value)} at {moment(stamps[1])}.",
            x_ticks=[(first.time.timestamp(), ends[0]), (last.time.timestamp(), ends[1])],
            span=(first.time.timestamp(), last.time.timestamp()),
            tick_words=figure.tick_words,
            least=figure.least,
            most_dots=dots,
        )
        for figure in _FIGURES
    )


def member_chart(group: GroupResult, columns: int) -> Chart:
    """What each member of a group gets, in the members' order."""
    shares = [(number, Estimate.exact(member.share)) for number, member in enumerate(group.members, 1)]
    text = (
        f"Share of the records that each of {counted(len(shares), 'member')} of {group.name} gets with "
        f"{group.assignor}: the busiest gets {share(max(one.share for one in group.members))}."
    )
    return column_chart(
        shares, title="Records by member", item="member", words=share, text=text, most=columns
    )

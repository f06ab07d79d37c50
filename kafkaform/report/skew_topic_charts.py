"""The charts of one topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.wording import counted
from kafkaform.report.skew_axes import number_tick, percent_tick
from kafkaform.report.skew_columns import column_chart
from kafkaform.report.skew_curves import Point, curve_chart, lorenz_chart
from kafkaform.report.skew_values import count, moment, ratio, share
from spark_validation.results import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaform.report.skew_marks import Chart
    from kafkaform.report.skew_trend import Trend
    from spark_validation.results import GroupResult, TopicResult


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
            f"{number} has most, {share(fullest.value)}; the mean is {share(1 / len(shares))}; "
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
        "0 is even, near 1 one partition has everything.",
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
        + f". Measured with the present {present}: {ratio(topic.by_records.max_mean_ratio.value)}.",
        x_ticks=[(place, str(number)) for number, place in places.items()],
        span=(-0.3, len(counts) - 0.7),
        least=2.0,
        level=1.0,
        mark=(places[present], f"now: {present}"),
        measured=Point(places[present], "measured now", topic.by_records.max_mean_ratio),
    )


@dataclass(frozen=True, slots=True)
class _Figure:
    """What a trend is of: how to find it in a topic, how to write it, and what its axis shows at least."""

    title: str
    pick: Callable[[TopicResult], Estimate]
    words: Callable[[float], str]
    tick_words: Callable[[float], str] = number_tick
    least: float = 1.0


def _hottest(topic: TopicResult) -> Estimate:
    return topic.hot_keys[0].share if topic.hot_keys else Estimate.exact(0.0)


_FIGURES = (
    _Figure("Fullest / mean", lambda topic: topic.by_records.max_mean_ratio, ratio, least=2.0),
    _Figure("Hottest key's share", _hottest, share, percent_tick, least=0.01),
    _Figure("Distinct keys", lambda topic: topic.distinct_keys, count),
)


def trend_charts(trend: Trend, dots: int) -> tuple[Chart, ...]:
    """What matters most over time; of more points than `dots` only the last is drawn as a dot."""
    moments = trend.moments
    first, last = moments[0], moments[-1]
    days = [moment.created_at[:10] for moment in (first, last)]
    ends = days if days[0] != days[1] else [moment.created_at[11:16] for moment in (first, last)]
    return tuple(
        curve_chart(
            [Point(one.time, moment(one.created_at), figure.pick(one.topic)) for one in moments],
            title=figure.title,
            x_name="",
            words=figure.words,
            text=f"{figure.title} over {counted(len(moments), 'report')}: "
            f"{figure.words(figure.pick(first.topic).value)} at {moment(first.created_at)}, "
            f"{figure.words(figure.pick(last.topic).value)} at {moment(last.created_at)}.",
            x_ticks=[(first.time, ends[0]), (last.time, ends[1])],
            span=(first.time, last.time),
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

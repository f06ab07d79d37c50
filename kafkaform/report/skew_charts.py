"""The charts of a topic: partitions, the Lorenz curve, hot keys, predictions, members, and trends."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING

from kafkaform.core.values import Value, replace
from kafkaform.core.wording import counted
from kafkaform.report.document import Chart, Point
from kafkaform.report.skew_values import moment
from spark_validation.figures import count, is_exact, percent, ratio
from spark_validation.metrics import DISTINCT_KEYS, HOTTEST_KEY_SHARE, MAX_MEAN_RATIO, MetricRow, metric_rows
from spark_validation.results import Estimate, GroupResult, HotKeyResult, SkewReport, TopicResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_LORENZ_POINTS = 120
"""The most points of a Lorenz curve. Of a longer one, evenly spaced points and both ends are kept."""
_TREND_DOTS = 15
_METHOD = (
    "Intervals are from the spread between replicates (delete-one-group jackknife, Student's t), so records "
    "that come in bursts widen them."
)


def draw_partitions(topic: TopicResult) -> Iterator[Chart]:
    """Draw the shares of partitions by records and by bytes, and the Lorenz curve of the records."""
    partitions = topic.partitions
    for title, imbalance, shares in (
        ("By records", topic.by_records, [partition.share for partition in partitions]),
        ("By bytes", topic.by_bytes, [partition.byte_share for partition in partitions]),
    ):
        number = max(range(len(shares)), key=lambda i: shares[i].value)
        text = (
            f"Share of each of {counted(len(shares), 'partition')}, {title.lower()}: partition "
            f"{partitions[number].partition} has the most, {percent(shares[number].value)}; the mean is "
            f"{percent(1 / len(shares))}; fullest over mean {ratio(imbalance.max_mean_ratio.value)}."
        )
        named = [(str(p.partition), share) for p, share in zip(partitions, shares, strict=True)]
        yield _draw_shares(title, text, named, "partition")
    gini = ratio(topic.by_records.gini.value)
    size = len(partitions)
    total = sum(partition.share.value for partition in partitions) or 1.0
    sums = [0.0, *accumulate(sorted(partition.share.value for partition in partitions))]
    # Rounded positions always include the first and the last point; a set drops those that fall together.
    picks = sorted({round(index * size / _LORENZ_POINTS) for index in range(_LORENZ_POINTS + 1)})
    quarters = [index / 4 for index in range(5)]
    yield Chart(
        f"Lorenz curve of the records, Gini {gini}",
        f"Lorenz curve of the records over the partitions, emptiest first. Gini coefficient {gini}: "
        "0 is even; near 1, one partition has everything.",
        [Point("", index / size, sums[index] / total, 0.0, 0.0) for index in picks],
        percent,
        _tick_percent,
        axis="partitions, emptiest first",
        ticks=[(quarter, _tick_percent(quarter)) for quarter in quarters],
        is_cumulative=True,
        least=1.0,
    )


def draw_keys(keys: Sequence[HotKeyResult]) -> Chart:
    """Draw the shares of hot keys."""
    text = f"Shares of {counted(len(keys), 'key')}; the hottest has {percent(keys[0].share.value)}."
    shares = [(str(number), key.share) for number, key in enumerate(keys, 1)]
    return replace(_draw_shares("Hottest keys", text, shares, "key"), axis="key, in the order of the table")


def draw_members(group: GroupResult) -> Chart:
    """Draw the share of each member of a group, in the members' order."""
    shares = [member.share for member in group.members]
    text = (
        f"Share of the records that each of {counted(len(shares), 'member')} of {group.name} gets with "
        f"{group.assignor}: the busiest gets {percent(max(shares))}."
    )
    named = [(str(number), Estimate.exact(share)) for number, share in enumerate(shares, 1)]
    return _draw_shares("Records by member", text, named, "member")


def _draw_shares(title: str, text: str, shares: Sequence[tuple[str, Estimate]], item: str) -> Chart:
    mean = sum(share.value for _, share in shares) / len(shares)
    return Chart(
        title,
        text,
        [_build_point(name, number, share) for number, (name, share) in enumerate(shares)],
        percent,
        _tick_percent,
        item=item,
        # The mean of a few keys means nothing.
        level=None if item == "key" else (mean, f"mean {percent(mean)}"),
        note=_METHOD if any(not is_exact(share) for _, share in shares) else "",
    )


def _build_point(name: str, at: float, estimate: Estimate) -> Point:
    return Point(name, at, estimate.value, estimate.low, estimate.high)


def draw_prediction(topic: TopicResult) -> Chart:
    """Draw the predictions for other partition counts."""
    present = len(topic.partitions)
    ratios = {case.partitions: case.max_mean_ratio for case in topic.what_if}
    # The counts are equally far apart: on a scale up to 96, the labels of 12 and 13 would overlap.
    positions = {number: float(index) for index, number in enumerate(sorted({present, *ratios}))}
    predicted = "; ".join(
        f"{ratio(estimate.value)} with {counted(number, 'partition')}"
        for number, estimate in sorted(ratios.items())
    )
    measured = topic.by_records.max_mean_ratio
    return Chart(
        "Predicted fullest / mean",
        f"Predicted ratio of the fullest partition to the mean: {predicted}. Measured with the current "
        f"{present}: {ratio(measured.value)}.",
        [_build_point(counted(n, "partition"), positions[n], ratios[n]) for n in sorted(ratios)],
        ratio,
        _tick_number,
        axis="partitions",
        ticks=[(position, str(number)) for number, position in positions.items()],
        level=(1.0, "even"),
        mark=(positions[present], f"now: {present}"),
        measured=_build_point("measured now", positions[present], measured),
        least=2.0,
    )


def draw_trend(trend: Trend) -> Iterator[Chart]:
    """Draw the main figures over time."""
    first, last = trend.moments[0], trend.moments[-1]
    stamps = [point.time.astimezone(UTC).isoformat() for point in (first, last)]
    # The ends of the axis have room for a time or a date, not for both.
    same_day = stamps[0][:10] == stamps[1][:10]
    ends = [stamp[11:16] if same_day else stamp[:10] for stamp in stamps]
    reports = f"{counted(len(trend.moments), 'report')}, oldest first"
    if trend.left_out:
        reports += f"; of {trend.left_out + len(trend.moments):,}, only the most skewed of each period"
    figures: Sequence[tuple[str, str, Callable[[float], str], Callable[[float], str], float]] = (
        ("Fullest / mean", MAX_MEAN_RATIO, ratio, _tick_number, 2.0),
        ("Hottest key's share", HOTTEST_KEY_SHARE, percent, _tick_percent, 0.01),
        ("Distinct keys", DISTINCT_KEYS, count, _tick_number, 1.0),
    )
    for title, metric, form, tick, least in figures:
        yield Chart(
            f"{title} over time",
            f"{title} over {reports}: {form(first.metrics[metric].value)} at {moment(stamps[0])}, "
            f"{form(last.metrics[metric].value)} at {moment(stamps[1])}.",
            [
                _build_point(moment(point.time.isoformat()), point.time.timestamp(), point.metrics[metric])
                for point in trend.moments
            ],
            form,
            tick,
            axis=reports,
            ticks=[(first.time.timestamp(), ends[0]), (last.time.timestamp(), ends[1])],
            least=least,
            most=_TREND_DOTS,
        )


def _tick_percent(value: float) -> str:
    """Format a share on an axis: `2.5 %`."""
    return f"{100 * value:.6g} %"


def _tick_number(value: float) -> str:
    """Format a number on an axis in little room: `1.5`, `200 k`, `3 M`."""
    for least, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= least:
            return f"{value / least:.6g} {unit}"
    return f"{value:.6g}"


# --- earlier reports ---------------------------------------------------------------------------------

TREND_METRICS = (MAX_MEAN_RATIO, HOTTEST_KEY_SHARE, DISTINCT_KEYS)
"""The metrics that a trend shows."""


class Moment(Value):
    """The metrics of a topic in one report.

    Attributes:
        time: The time of the report.
        metrics: The metrics in TREND_METRICS.
    """

    time: datetime
    metrics: Mapping[str, Estimate]


class Trend(Value):
    """A topic over time, oldest first, the current report last; `left_out` moments did not fit."""

    moments: tuple[Moment, ...]
    left_out: int = 0


def build_trends(report: SkewReport, history: Iterable[MetricRow], most: int) -> dict[str, Trend]:
    """Return the trend, of at most `most` moments, of every topic that has earlier rows.

    Rows of another cluster and rows that are not older than the report are ignored, and so are reports in
    which the topic had no records, and therefore no figures.
    """
    present = metric_rows(report)
    now = max((row.sampled_at for row in present), default=None)
    # The history may contain this report already, or later ones.
    earlier = (row for row in history if now is not None and row.sampled_at < now)
    metrics_by_topic: dict[str, dict[datetime, dict[str, Estimate]]] = {
        topic.name: {} for topic in report.topics
    }
    for row in (*earlier, *present):
        # Topics of other clusters may have the same name.
        relevant = row.topic in metrics_by_topic and row.cluster_id == report.cluster_id
        if relevant and row.partition is None and row.metric in TREND_METRICS:
            metrics_by_topic[row.topic].setdefault(row.sampled_at, {})[row.metric] = row.estimate
    moments = {
        name: [
            Moment(time, by_time[time])
            for time in sorted(by_time)
            if len(by_time[time]) == len(TREND_METRICS)
        ]
        for name, by_time in metrics_by_topic.items()
    }
    return {
        name: _thin_out(topic_moments, most)
        for name, topic_moments in moments.items()
        if len(topic_moments) > 1 and topic_moments[-1].time == now
    }


def _thin_out(moments: Sequence[Moment], most: int) -> Trend:
    """Keep the most skewed of neighbouring moments if not all fit, and always the last one."""
    # The last moment is always kept, so the others share `most - 1` places.
    size = -(-(len(moments) - 1) // (most - 1))
    past = moments[:-1]
    kept = [
        # A mean of several reports would hide a short skew, which is what a trend is searched for.
        max(past[start : start + size], key=lambda moment: moment.metrics[MAX_MEAN_RATIO].value)
        for start in range(0, len(past), size)
    ]
    return Trend((*kept, moments[-1]), len(past) - len(kept))

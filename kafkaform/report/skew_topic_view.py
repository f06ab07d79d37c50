"""What the page says of one topic, ready for its template: words, rows of tables, and charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.report.skew_axes import number_tick, percent_tick
from kafkaform.report.skew_charts import Point, column_chart, curve_chart, lorenz_chart
from kafkaform.report.skew_values import VERDICTS, count, interval, is_empty, moment, ratio, share, verdict
from kafkaform.wording import counted
from spark_validation.results import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaform.report.skew_charts import Chart
    from kafkaform.report.skew_trend import Trend
    from spark_validation.results import GroupResult, HotKeyResult, PartitionResult, TopicResult


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of each topic is on the page.

    Attributes:
        columns: The most columns of a chart; more partitions are drawn as groups of neighbours.
        rows: The most rows of the partitions' table; 0 for no table.
        keys: The most hot keys.
        points: The most points of a trend.
        by_bytes: Whether partition shares are drawn by bytes, too.
    """

    columns: int
    rows: int
    keys: int
    points: int
    by_bytes: bool


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure in large: its name, value, interval, and what it means."""

    name: str
    value: str
    interval: str
    hint: str


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A hot key; `bar`, `low` and `high` are percent of the row's width."""

    key: HotKeyResult
    bar: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group with its chart; `idle` members get nothing."""

    group: GroupResult
    chart: Chart | None
    idle: int


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic's part of the page.

    Attributes:
        anchor: The id of its heading.
        verdict: pass, warn, fail or none.
        verdict_words: The same in words.
        reasons: What the policy's verdict says beyond the findings.
        tiles: The figures in large.
        charts: Partition shares by records and by bytes.
        lorenz: The Lorenz curve of the records.
        prediction: The what-if curve.
        keys: Hot keys, at most as many as the detail has rows for.
        rows: Partitions of the table: all by number, or the fullest; none for no table.
        groups: Groups that read the topic.
        trend: Charts over time.
        trend_note: What a reader must know of them.
    """

    topic: TopicResult
    anchor: str
    verdict: str
    verdict_words: str
    reasons: tuple[str, ...] = ()
    tiles: tuple[Tile, ...] = ()
    charts: tuple[Chart, ...] = ()
    lorenz: Chart | None = None
    prediction: Chart | None = None
    keys: tuple[KeyRow, ...] = ()
    rows: tuple[PartitionResult, ...] = ()
    groups: tuple[GroupView, ...] = ()
    trend: tuple[Chart, ...] = ()
    trend_note: str = ""


def topic_view(topic: TopicResult, anchor: str, trend: Trend | None, detail: Detail) -> TopicView:
    """One topic's part of the page; of a topic without records only its name and its verdict."""
    status = verdict(topic)
    if is_empty(topic):
        return TopicView(topic, anchor, status, VERDICTS[status], _reasons(topic))
    return TopicView(
        topic,
        anchor,
        status,
        VERDICTS[status],
        reasons=_reasons(topic),
        tiles=_tiles(topic),
        charts=_partition_charts(topic, detail),
        lorenz=_lorenz(topic),
        prediction=_prediction(topic) if topic.what_if else None,
        keys=_key_rows(topic.hot_keys[: detail.keys]),
        rows=_rows(topic, detail.rows),
        groups=tuple(_group_view(group, detail) for group in topic.groups),
        trend=_trend_charts(trend) if trend else (),
        trend_note=_trend_note(trend) if trend else "",
    )


def _reasons(topic: TopicResult) -> tuple[str, ...]:
    """A finding of a rule words the same reason again."""
    reasons = topic.policy.reasons if topic.policy else ()
    return tuple(one for one in reasons if not any(one in finding.message for finding in topic.findings))


def _tiles(topic: TopicResult) -> tuple[Tile, ...]:
    spread = topic.by_records
    tiles = [
        _tile("Fullest partition", spread.max_mean_ratio, ratio, "times the mean; 1 is even"),
        _tile(
            "Useful consumers", spread.effective_parallelism, ratio, f"of {len(topic.partitions)}, by records"
        ),
        _tile("Distinct keys", topic.distinct_keys, count, f"{topic.sampled_distinct_keys:,} were read"),
        _tile("Without a key", topic.null_key_share, share, "of the records"),
    ]
    if topic.hot_keys:
        tiles.insert(1, _tile("Hottest key", topic.hot_keys[0].share, share, "of the records"))
    return tuple(tiles)


def _tile(name: str, estimate: Estimate, words: Callable[[float], str], hint: str) -> Tile:
    return Tile(name, words(estimate.value), _between(interval(estimate, words)), hint)


def _between(ends: str) -> str:
    return f"95 %: {ends}" if ends else "counted"


def _partition_charts(topic: TopicResult, detail: Detail) -> tuple[Chart, ...]:
    found = []
    for title, spread, shares in (
        ("By records", topic.by_records, [(one.partition, one.share) for one in topic.partitions]),
        ("By bytes", topic.by_bytes, [(one.partition, one.byte_share) for one in topic.partitions]),
    )[: 1 + detail.by_bytes]:
        number, fullest = max(shares, key=lambda pair: pair[1].value)
        text = (
            f"Share of each of {counted(len(shares), 'partition')}, {title.lower()}: partition "
            f"{number} has most, {share(fullest.value)}; the mean is {share(1 / len(shares))}; "
            f"fullest over mean {ratio(spread.max_mean_ratio.value)}."
        )
        found.append(
            column_chart(shares, title=title, item="partition", words=share, text=text, most=detail.columns)
        )
    return tuple(found)


def _lorenz(topic: TopicResult) -> Chart:
    gini = ratio(topic.by_records.gini.value)
    return lorenz_chart(
        [one.share.value for one in topic.partitions],
        title=f"Lorenz curve of the records, Gini {gini}",
        text=f"Lorenz curve of the records over the partitions, emptiest first. Gini coefficient {gini}: "
        "0 is even, near 1 one partition has everything.",
    )


def _prediction(topic: TopicResult) -> Chart:
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
        title="Fullest / mean",
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


def _key_rows(keys: tuple[HotKeyResult, ...]) -> tuple[KeyRow, ...]:
    widest = max((key.share.high for key in keys), default=0.0) or 1.0
    return tuple(
        KeyRow(key, *(100 * value / widest for value in (key.share.value, key.share.low, key.share.high)))
        for key in keys
    )


def _rows(topic: TopicResult, most: int) -> tuple[PartitionResult, ...]:
    """All partitions by number if they fit, else the fullest ones."""
    if len(topic.partitions) <= most:
        return topic.partitions
    return tuple(sorted(topic.partitions, key=lambda one: (-one.share.value, one.partition))[:most])


def _group_view(group: GroupResult, detail: Detail) -> GroupView:
    idle = sum(1 for member in group.members if not member.partitions)
    if not group.members:
        return GroupView(group, None, idle)
    shares = [(number, Estimate.exact(member.share)) for number, member in enumerate(group.members, 1)]
    text = (
        f"Share of the records that each of {counted(len(shares), 'member')} of {group.name} gets with "
        f"{group.assignor}: the busiest gets {share(max(one.share for one in group.members))}."
    )
    chart = column_chart(
        shares, title="Records by member", item="member", words=share, text=text, most=detail.columns
    )
    return GroupView(group, chart, idle)


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
    _Figure("Fullest partition over the mean", lambda topic: topic.by_records.max_mean_ratio, ratio, least=2.0),
    _Figure("Hottest key's share", _hottest, share, percent_tick, least=0.01),
    _Figure("Distinct keys", lambda topic: topic.distinct_keys, count),
)


def _trend_charts(trend: Trend) -> tuple[Chart, ...]:
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
        )
        for figure in _FIGURES
    )


def _trend_note(trend: Trend) -> str:
    note = f"{counted(len(trend.moments), 'report')}, oldest first; the band is the 95 % interval."
    if trend.left_out:
        note += (
            f" Of {trend.left_out + len(trend.moments):,} reports the most skewed of each stretch is shown."
        )
    return note

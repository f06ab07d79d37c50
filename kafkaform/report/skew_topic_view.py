"""What the page says of one topic, ready for its template: words, rows of tables, and charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.wording import counted
from kafkaform.report.skew_topic_charts import (
    inequality,
    member_chart,
    partition_charts,
    prediction,
    trend_charts,
)
from kafkaform.report.skew_values import VERDICTS, count, interval, is_empty, ratio, share, verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaform.report.skew_marks import Chart
    from kafkaform.report.skew_trend import Trend
    from spark_validation.results import Estimate, GroupResult, HotKeyResult, PartitionResult, TopicResult


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of each topic is on the page.

    Attributes:
        columns: The most columns of a chart; more partitions are drawn as groups of neighbours.
        rows: The most rows of the partitions' table; 0 for no table.
        keys: The most hot keys.
        points: The most points of a trend.
        dots: Of a trend of more points only the last is drawn as a dot.
        by_bytes: Whether partition shares are drawn by bytes, too.
    """

    columns: int
    rows: int
    keys: int
    points: int
    dots: int
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
        charts=partition_charts(topic, columns=detail.columns, by_bytes=detail.by_bytes),
        lorenz=inequality(topic),
        prediction=prediction(topic) if topic.what_if else None,
        keys=_key_rows(topic.hot_keys[: detail.keys]),
        rows=_rows(topic, detail.rows),
        groups=tuple(_group_view(group, detail) for group in topic.groups),
        trend=trend_charts(trend, detail.dots) if trend else (),
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
    return GroupView(group, member_chart(group, detail.columns) if group.members else None, idle)


def _trend_note(trend: Trend) -> str:
    note = f"{counted(len(trend.moments), 'report')}, oldest first; the band is the 95 % interval."
    if trend.left_out:
        note += (
            f" Of {trend.left_out + len(trend.moments):,} reports the most skewed of each stretch is shown."
        )
    return note

"""The skew report as one HTML page that needs nothing but itself: no network, no script, no other file."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kafkaform.core.printable import clipped, in_code, printable
from kafkaform.core.wording import counted
from kafkaform.report import skew_values
from kafkaform.report.skew_charts import inequality, member_chart, partition_charts, prediction, trend_charts
from kafkaform.report.skew_trend import trends
from kafkaform.report.skew_values import (
    VERDICTS,
    count,
    interval,
    is_empty,
    ratio,
    share,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Iterator,
        Mapping,
        Sequence,
    )

    from kafkaform.report.skew_marks import Chart
    from kafkaform.report.skew_trend import Trend
    from spark_validation.metrics import MetricRow
    from spark_validation.results import (
        Estimate,
        GroupResult,
        HotKeyResult,
        PartitionResult,
        SkewReport,
        TopicResult,
    )


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
        _tile("Distinct keys", topic.distinct_keys, count, f"{topic.sampled_distinct_keys:,} in the sample"),
        _tile("Without a key", topic.null_key_share, share, "of the records"),
    ]
    if topic.hot_keys:
        tiles.insert(1, _tile("Hottest key", topic.hot_keys[0].share, share, "of the records"))
    return tuple(tiles)


def _tile(name: str, estimate: Estimate, words: Callable[[float], str], hint: str) -> Tile:
    return Tile(name, words(estimate.value), _between(interval(estimate, words)), hint)


def _between(ends: str) -> str:
    return f"95 %: {ends}" if ends else "exact"


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
        total = trend.left_out + len(trend.moments)
        note += f" Of {total:,} reports, only the most skewed of each period is shown."
    return note


LIMIT = 1_000_000
"""The most bytes of a page."""
_LONGEST = 500
_MOST_LISTED = 1_000
_NOTE = 2_000
"""Bytes to keep free for what the page says of topics that it leaves out."""
_DETAILS = (
    Detail(columns=60, rows=200, keys=20, points=60, dots=15, by_bytes=True),
    Detail(columns=60, rows=40, keys=10, points=60, dots=15, by_bytes=True),
    Detail(columns=40, rows=0, keys=6, points=40, dots=8, by_bytes=True),
    Detail(columns=24, rows=0, keys=3, points=20, dots=1, by_bytes=False),
)


# The filters of templates that are worded as in every other format.
_WORDS = (
    "all_notes", "brief", "cause", "count", "format_period", "format_retention", "headline", "key_name",
    "moment", "numbers", "ratio", "share", "size", "summary", "verdict", "what_if_note",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A topic in the index; `detailed` if the page has a part of it under the anchor."""

    topic: TopicResult
    anchor: str
    detailed: bool


def render_skew_html(report: SkewReport, history: Sequence[MetricRow] = ()) -> str:
    """The page of a report; earlier rows of the same cluster become each topic's trend.

    Topics come with the most skewed first, each in as much detail as fits for all of them into `LIMIT` bytes.
    Where the least detail is too much, the last topics are in the index alone, and the page says so.
    """
    topics = sorted(report.topics, key=skew_values.severity)
    css = _stylesheet()
    page = partial(
        _environment().get_template("page.html").render,
        report=report,
        css=Markup(css),  # noqa: S704 - ours
        policy=_policy(css),
        total=len(topics),
        verdicts=skew_values.VERDICTS,
    )
    # An index whose every topic has its link is the longest one.
    room = LIMIT - _NOTE - _size(page(entries=_entries(topics, len(topics)), sections=(), left_out=0))
    sections: list[Markup] = []
    for detail in _DETAILS:
        sections = list(_sections(report, topics, trends(report, history, detail.points), detail, room))
        if len(sections) == len(topics):
            break
    left_out = len(topics) - len(sections)
    return page(entries=_entries(topics, len(sections)), sections=sections, left_out=left_out)


def _entries(topics: Sequence[TopicResult], detailed: int) -> list[IndexEntry]:
    return [
        IndexEntry(topic, _anchor(number), number < detailed)
        for number, topic in enumerate(topics[:_MOST_LISTED])
    ]


def _sections(
    report: SkewReport, topics: Sequence[TopicResult], past: Mapping[str, Trend], detail: Detail, room: int
) -> Iterator[Markup]:
    """The topics' parts of the page, as many as there is room for in bytes."""
    template = _environment().get_template("topic.html")
    for number, topic in enumerate(topics):
        view = topic_view(topic, _anchor(number), past.get(topic.name), detail)
        text = template.render(
            view=view,
            imbalance_figures=skew_values.IMBALANCE_FIGURES,
            created_at=report.created_at,
        )
        room -= _size(text)
        if room < 0:
            return
        yield Markup(text)  # noqa: S704 - a template's own output


def _anchor(number: int) -> str:
    return f"t{number}"


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("kafkaform", "templates/skew"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    found.tests["empty"] = skew_values.is_empty
    found.filters.update(
        {name: getattr(skew_values, name) for name in _WORDS},
        counted=counted,
        ends=_ends,
        place=_place,
        prose=_prose,
    )
    return found


def _shown(value: object) -> object:
    """Foreign text as everywhere else: in one line, of bounded length, with nothing invisible in it."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return clipped(value, _LONGEST) if len(value) > _LONGEST else printable(value)
    return value


def _prose(text: str) -> Markup:
    """A message, with its code as elements instead of between backticks."""
    pieces = in_code(clipped(text, _LONGEST))
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if code else piece for piece, code in pieces
    )


def _ends(estimate: Estimate, words: str) -> str:
    """An interval in one of our wordings, by its name; beside a ratio only if it says more than that."""
    wording = getattr(skew_values, words)
    found = skew_values.interval(estimate, wording)
    return "" if words == "ratio" and found == wording(estimate.value) else found


def _place(number: float) -> str:
    """A coordinate, as short as it can be."""
    return f"{number:.1f}".removesuffix(".0")


def _size(text: str) -> int:
    return len(text.encode())


@cache
def _stylesheet() -> str:
    return files("kafkaform").joinpath("templates", "skew", "page.css").read_text("utf-8")


def _policy(css: str) -> str:
    """A content security policy under which the page's own style works, and nothing else does."""
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"

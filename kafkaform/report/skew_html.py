"""The skew report as a self-contained HTML page: no network access, no script, no other file."""

from __future__ import annotations

import base64
import hashlib
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kafkaform.core.printable import clipped, printable, split_code
from kafkaform.core.values import Value
from kafkaform.core.wording import counted
from kafkaform.report import skew_values
from kafkaform.report.skew_charts import inequality, member_chart, partition_charts, prediction, trend_charts
from kafkaform.report.skew_values import VERDICTS, build_trends, is_empty, verdict
from spark_validation import figures
from spark_validation.figures import count, interval, percent, ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkaform.report.skew_charts import Chart
    from kafkaform.report.skew_values import Trend
    from spark_validation.metrics import MetricRow
    from spark_validation.results import (
        Estimate,
        GroupResult,
        HotKeyResult,
        PartitionResult,
        SkewReport,
        TopicResult,
    )


class Detail(Value):
    """The level of detail of each topic on the page.

    Attributes:
        columns: The most columns of a chart; more partitions are drawn as groups of neighbours.
        rows: The most rows of the partitions' table; 0 for no table.
        keys: The most hot keys.
        points: The most points of a trend.
        dots: The most dots of a trend; of more points only the last is drawn as a dot.
        by_bytes: Whether partition shares are also drawn by bytes.
    """

    columns: int
    rows: int
    keys: int
    points: int
    dots: int
    by_bytes: bool


class Tile(Value):
    """A figure in large type: its name, value, interval and meaning."""

    name: str
    value: str
    interval: str
    hint: str


class KeyRow(Value):
    """A hot key; `bar`, `low` and `high` are percentages of the row's width."""

    key: HotKeyResult
    bar: float
    low: float
    high: float


class GroupView(Value):
    """A group with its chart; `idle` is the number of members without partitions."""

    group: GroupResult
    chart: Chart | None
    idle: int


class TopicView(Value):
    """The section of a topic.

    Attributes:
        anchor: The id of its heading.
        verdict: pass, warn, fail or none.
        verdict_words: The verdict in words.
        reasons: The policy's reasons that no finding has.
        tiles: The main figures.
        charts: Partition shares by records and by bytes.
        lorenz: The Lorenz curve of the records.
        prediction: The what-if curve.
        keys: Hot keys, as many as the detail allows.
        rows: Partitions of the table: all by number, or the fullest; empty for no table.
        groups: Groups that read the topic.
        trend: Charts over time.
        trend_note: The explanation of the trend.
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


def build_topic_view(topic: TopicResult, anchor: str, trend: Trend | None, detail: Detail) -> TopicView:
    """Build the section of a topic; without records it has only its name and its verdict."""
    status = verdict(topic)
    if is_empty(topic):
        return TopicView(topic, anchor, status, VERDICTS[status], _list_reasons(topic))
    return TopicView(
        topic,
        anchor,
        status,
        VERDICTS[status],
        reasons=_list_reasons(topic),
        tiles=_list_tiles(topic),
        charts=partition_charts(topic, columns=detail.columns, by_bytes=detail.by_bytes),
        lorenz=inequality(topic),
        prediction=prediction(topic) if topic.what_if else None,
        keys=_key_rows(topic.hot_keys[: detail.keys]),
        rows=_select_rows(topic, detail.rows),
        groups=tuple(_group_view(group, detail) for group in topic.groups),
        trend=trend_charts(trend, detail.dots) if trend else (),
        trend_note=_trend_note(trend) if trend else "",
    )


def _list_reasons(topic: TopicResult) -> tuple[str, ...]:
    """Return the policy's reasons, without those that a finding repeats."""
    reasons = topic.policy.reasons if topic.policy else ()
    # A finding has the reason of its policy in its message, with more around it.
    return tuple(
        reason for reason in reasons if not any(reason in finding.message for finding in topic.findings)
    )


def _list_tiles(topic: TopicResult) -> tuple[Tile, ...]:
    spread = topic.by_records
    tiles = [
        _tile("Fullest partition", spread.max_mean_ratio, ratio, "times the mean; 1 is even"),
        _tile(
            "Useful consumers", spread.effective_parallelism, ratio, f"of {len(topic.partitions)}, by records"
        ),
        _tile("Distinct keys", topic.distinct_keys, count, f"{topic.sampled_distinct_keys:,} in the sample"),
        _tile("Without a key", topic.null_key_share, percent, "of the records"),
    ]
    if topic.hot_keys:
        tiles.insert(1, _tile("Hottest key", topic.hot_keys[0].share, percent, "of the records"))
    return tuple(tiles)


def _tile(name: str, estimate: Estimate, words: Callable[[float], str], hint: str) -> Tile:
    return Tile(name, words(estimate.value), _format_bounds(interval(estimate, words)), hint)


def _format_bounds(bounds: str) -> str:
    return f"95 %: {bounds}" if bounds else "exact"


def _key_rows(keys: tuple[HotKeyResult, ...]) -> tuple[KeyRow, ...]:
    # The bars end at the widest interval, not at 100 %: hot keys have a few percent, and would all look
    # alike.
    widest = max((key.share.high for key in keys), default=0.0) or 1.0
    return tuple(
        KeyRow(key, *(100 * value / widest for value in (key.share.value, key.share.low, key.share.high)))
        for key in keys
    )


def _select_rows(topic: TopicResult, most: int) -> tuple[PartitionResult, ...]:
    """Return all partitions by number if they fit, else the fullest ones."""
    if len(topic.partitions) <= most:
        return topic.partitions
    return tuple(
        sorted(topic.partitions, key=lambda partition: (-partition.share.value, partition.partition))[:most]
    )


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
"""The maximum size of a page in bytes."""
_LONGEST = 500
_MOST_LISTED = 1_000
_NOTE = 2_000
"""Bytes reserved for the note on topics that are left out."""
# From the highest to the lowest. Tables are cut first: charts show the same, and the JSON report has the
# figures.
_DETAILS = (
    Detail(columns=60, rows=200, keys=20, points=60, dots=15, by_bytes=True),
    Detail(columns=60, rows=40, keys=10, points=60, dots=15, by_bytes=True),
    Detail(columns=40, rows=0, keys=6, points=40, dots=8, by_bytes=True),
    Detail(columns=24, rows=0, keys=3, points=20, dots=1, by_bytes=False),
)


_FIGURES = ("count", "percent", "ratio")
_WORDS = (
    "all_notes", "brief", "cause", "format_now", "format_period", "format_retention", "headline",
    "hidden_keys_note", "key_name",
    "moment", "numbers", "size", "summary", "verdict", "what_if_note",
)  # fmt: skip
"""The template filters for figures and words, which all formats share."""


class IndexEntry(Value):
    """A topic in the index; `detailed` if the page has a section under the anchor."""

    topic: TopicResult
    anchor: str
    detailed: bool


def render_skew_html(report: SkewReport, history: Sequence[MetricRow] = ()) -> str:
    """Render a report as a page, with a trend for each topic from earlier rows of the same cluster.

    The most skewed topics come first, all in the same detail: the highest that fits in `LIMIT` bytes.
    If even the lowest does not fit, the last topics are only in the index, and the page has a note on them.
    """
    topics = sorted(report.topics, key=skew_values.severity)
    css = _stylesheet()
    page = partial(
        _environment().get_template("page.html").render,
        report=report,
        # In a style element, browsers do not decode entities: an escaped quote would break the rule, and the
        # digest of the policy would no longer match.
        css=Markup(css),  # noqa: S704 - the page's own stylesheet
        policy=_content_security_policy(css),
        total=len(topics),
        verdicts=skew_values.VERDICTS,
    )
    # The index is longest if every topic has a link.
    room = LIMIT - _NOTE - _size(page(entries=_index_entries(topics, len(topics)), sections=(), left_out=0))
    sections: list[Markup] = []
    # All topics in the same detail: sections that become shorter down the page would look as if less had been
    # measured.
    for detail in _DETAILS:
        sections = list(
            _render_topics(report, topics, build_trends(report, history, detail.points), detail, room)
        )
        if len(sections) == len(topics):
            break
    left_out = len(topics) - len(sections)
    return page(entries=_index_entries(topics, len(sections)), sections=sections, left_out=left_out)


def _index_entries(topics: Sequence[TopicResult], detailed: int) -> list[IndexEntry]:
    return [
        IndexEntry(topic, _anchor(number), number < detailed)
        for number, topic in enumerate(topics[:_MOST_LISTED])
    ]


def _render_topics(
    report: SkewReport, topics: Sequence[TopicResult], past: Mapping[str, Trend], detail: Detail, room: int
) -> Iterator[Markup]:
    """Yield the sections of the topics that fit in `room` bytes."""
    template = _environment().get_template("topic.html")
    for number, topic in enumerate(topics):
        view = build_topic_view(topic, _anchor(number), past.get(topic.name), detail)
        text = template.render(
            view=view, imbalance_figures=skew_values.IMBALANCE_FIGURES, created_at=report.created_at
        )
        room -= _size(text)
        # A shorter topic further down is not shown in its place: sections follow the order of the index.
        if room < 0:
            return
        yield Markup(text)  # noqa: S704 - a template's own output


def _anchor(number: int) -> str:
    # Not the topic's name, which may contain what an id or a link must not.
    return f"t{number}"


@cache
def _environment() -> Environment:
    # A misspelt name in a template is an error, not an empty text. Every text passes `_sanitise` before it is
    # escaped.
    environment = Environment(
        loader=PackageLoader("kafkaform", "templates/skew"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_sanitise,
    )
    environment.tests["empty"] = skew_values.is_empty
    environment.filters.update(
        {name: getattr(figures, name) for name in _FIGURES},
        **{name: getattr(skew_values, name) for name in _WORDS},
        counted=counted,
        ends=_format_interval,
        place=_format_coordinate,
        prose=_format_prose,
    )
    return environment


def _sanitise(value: object) -> object:
    """Return untrusted text in one line of bounded length, without invisible characters."""
    # Markup is our own: the output of another template, which was sanitised when it was made.
    if isinstance(value, str) and not isinstance(value, Markup):
        return clipped(value, _LONGEST) if len(value) > _LONGEST else printable(value)
    return value


def _format_prose(text: str) -> Markup:
    """Convert code between backticks in a message to elements."""
    pieces = split_code(clipped(text, _LONGEST))
    # `format` and `join` of Markup escape the pieces.
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if code else piece for piece, code in pieces
    )


def _format_interval(estimate: Estimate, words: str) -> str:
    """Format an interval by the filter `words`; empty beside a ratio that reads the same."""
    format_value = getattr(figures, words)
    ends = interval(estimate, format_value)
    return "" if words == "ratio" and ends == format_value(estimate.value) else ends


def _format_coordinate(number: float) -> str:
    # A tenth of a percent is a pixel of a chart that is 1,000 pixels wide; more digits only make the page
    # larger.
    return f"{number:.1f}".removesuffix(".0")


def _size(text: str) -> int:
    # LIMIT counts bytes: names and marks beyond ASCII take more than one.
    return len(text.encode())


@cache
def _stylesheet() -> str:
    return files("kafkaform").joinpath("templates", "skew", "page.css").read_text("utf-8")


def _content_security_policy(css: str) -> str:
    """Return a content security policy that allows only the page's own style."""
    # Browsers run no script, load nothing, and apply no style but this one, whatever a name would inject. The
    # policy also forbids style attributes, so the charts use attributes of SVG.
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"

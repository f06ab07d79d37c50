"""Reports of skew as a document: the topics, the findings, and of each topic why, what to do, and figures."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkaform.core.model import Diagnostic, Severity
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import counted
from kafkaform.report.document import (
    Bar,
    Column,
    Item,
    Paragraph,
    ReportDocument,
    Role,
    Section,
    Subsection,
    Table,
    TextSpan,
    mark_code,
    name_cluster,
)
from kafkaform.report.html import write_html
from kafkaform.report.markdown import LIMIT, write_markdown
from kafkaform.report.page import Page, render_page
from kafkaform.report.sections import list_findings
from kafkaform.report.skew_charts import (
    Trend,
    build_trends,
    draw_keys,
    draw_members,
    draw_partitions,
    draw_prediction,
    draw_trend,
)
from kafkaform.report.skew_values import (
    FAIL,
    IMBALANCE_FIGURES,
    NONE,
    PASS,
    UNKNOWN,
    VERDICTS,
    WARN,
    all_notes,
    brief,
    cause,
    describe_group,
    describe_sample,
    describe_spread,
    explained_part,
    format_period,
    format_retention,
    is_bursty,
    is_empty,
    key_name,
    moment,
    notable_keys,
    numbers,
    severity,
    size,
    summary,
    verdict,
    what_if_note,
)
from kafkaform.rules.skew import format_hint
from spark_validation.figures import NOTHING, count, format_estimate, interval, is_exact, percent, ratio
from spark_validation.results import PARTITIONER_NAMES, Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkaform.report.document import Block, Inline, Row
    from spark_validation.metrics import MetricRow
    from spark_validation.results import (
        GroupResult,
        HotKeyResult,
        MemberShare,
        PartitionResult,
        SkewReport,
        TopicResult,
        WhatIf,
    )

_T = TypeVar("_T")

SEE = "the JSON report contains everything"
_ROLES = {
    FAIL: Role.VERY_BAD,
    UNKNOWN: Role.VERY_WARNING,
    WARN: Role.VERY_WARNING,
    PASS: Role.VERY_GOOD,
    NONE: Role.STRONG,
}
# From here on, the largest share rounds to 100 %: one partitioner placed all records, and needs no line.
_CERTAIN = 0.9995
_PLACED_BY = {**PARTITIONER_NAMES, "other": "none of these"}
_BEYOND_CHANCE = 1.5
"""A partitioner is shown if its share is more than this many times what it would be by chance."""
_INTERVAL = "95 % interval"
_MAX_MOMENTS = 60
"""The most points of a trend."""
_FIGURES_OF_EXPERTS = frozenset({"cv", "gini", "entropy"})
_SMALLEST = 4
"""The smallest partitions or members of a long list that are shown after the largest ones."""
_BRIEF_NAME = 70


class Detail(Value):
    """The most that a report shows of each topic; None for no limit.

    Attributes:
        rows: The partitions and members; of more, half this many, the largest and the smallest ones.
        is_complete: Whether it has charts, and the tables that few readers need.
        what_if: The partition counts that were asked for; they come before those that the advice needs.
    """

    rows: int | None = 32
    keys: int | None = 10
    is_complete: bool = True
    what_if: tuple[int, ...] = ()

    @property
    def has_all_figures(self) -> bool:
        """True if figures are shown that say in other units what the ratio to the mean says."""
        return self.keys is None


_USUAL = Detail()
_TERMINAL = Detail(is_complete=False)
_EVERYTHING = Detail(None, None)
_PAGE = Detail(200, None)
_BRIEF = Detail(12, 3, is_complete=False)


def render_skew(
    report: SkewReport, *, width: int | None = None, verbose: bool = False, what_if: tuple[int, ...] = ()
) -> Page:
    """Render a report for a terminal.

    Args:
        width: The columns at which text wraps; None for no wrapping.
        verbose: Show every partition, hot key and member.
        what_if: The partition counts that were asked for.
    """
    detail = replace(_EVERYTHING if verbose else _TERMINAL, what_if=what_if)
    return render_page(build_document(report, detail), width=width)


def render_skew_markdown(report: SkewReport, *, limit: int = LIMIT) -> str:
    """Return a report as Markdown of at most `limit` characters; the least skewed topics are cut first."""
    return write_markdown(build_document(report), limit=limit)


def render_skew_html(report: SkewReport, history: Sequence[MetricRow] = ()) -> str:
    """Return a report as a page, with a trend of each topic that has earlier rows of the same cluster."""
    trends = build_trends(report, history, _MAX_MOMENTS)
    return write_html(build_document(report, _PAGE, trends), footer=f"kafkaform {report.tool_version}")


def build_document(
    report: SkewReport, detail: Detail = _USUAL, trends: Mapping[str, Trend] | None = None
) -> ReportDocument:
    """Build the document of a report, with the most skewed topics first."""
    topics = sorted(report.topics, key=severity)
    several = len(topics) > 1
    # The advice of a single topic is below its findings: it is not repeated as a hint.
    repeated = () if several else {format_hint(advice) for topic in topics for advice in topic.advice}
    findings = [
        Diagnostic(
            finding.code,
            Severity(finding.severity),
            finding.message,
            suggestion=None if finding.suggestion in repeated else finding.suggestion,
        )
        for topic in topics
        for finding in topic.findings
    ]
    findings.sort(key=lambda finding: [*Severity].index(finding.severity))
    anchors = {topic.name: f"t{number}" for number, topic in enumerate(topics)}
    index = Section(
        topics if several else (),
        partial(_index_row, anchors=anchors),
        lambda omitted: f"… {counted(len(omitted), 'more topic')} left out; {SEE}",
        columns=_INDEX,
        # Clipped names leave room for the rows of more topics.
        brief=partial(_index_row, anchors=anchors, longest=_BRIEF_NAME),
        share=0.6,
    )

    def show(topic: TopicResult, detail: Detail = detail) -> Subsection:
        shown = _describe_topic(topic, report.created_at, detail, (trends or {}).get(topic.name))
        return replace(shown, folded=several, anchor=anchors[topic.name])

    details = Section(
        topics,
        show,
        lambda omitted: f"… details of {counted(len(omitted), 'more topic')} left out; {SEE}",
        brief=partial(show, detail=_BRIEF),
    )
    words = summary(report.topics)
    known = report.cluster_name is not None or report.cluster_id is not None
    origin = name_cluster(report.cluster_name, report.cluster_id) if known else "records from files"
    worst = next((state for state in VERDICTS if any(verdict(topic) == state for topic in topics)), NONE)
    return ReportDocument(
        "kafkaform skew",
        [index, list_findings(findings, SEE), details],
        context=[origin, moment(report.created_at)],
        # A single topic has its verdict in its title.
        summary=() if len(topics) == 1 else TextSpan(f"{words}.", _ROLES[worst]),
        indent=0,
    )


def _number(header: str, rank: int = 0) -> Column:
    return Column(header, right=True, rank=rank)


_INDEX = (
    Column("Name", least=12),
    Column("Diagnosis", least=10),
    Column("Verdict", least=10),
    _number("Fullest / mean", 1),
    _number("Hottest key", 2),
    _number("Distinct keys", 3),
    _number("Without a key", 4),
    _number("Partitions", 5),
)


def _index_row(topic: TopicResult, anchors: Mapping[str, str], longest: int | None = None) -> Row:
    state = verdict(topic)
    figures = [NOTHING] * 4
    if not is_empty(topic):
        figures = [
            ratio(topic.by_records.max_mean_ratio.value),
            percent(topic.hot_keys[0].share.value) if topic.hot_keys else NOTHING,
            count(topic.distinct_keys.value),
            percent(topic.null_key_share.value),
        ]
    return (
        TextSpan(topic.name, Role.NAME, longest, anchors[topic.name]),
        cause(topic.diagnosis),
        TextSpan(VERDICTS[state], _ROLES[state] if state in (FAIL, UNKNOWN, WARN) else Role.TEXT),
        *figures,
        f"{len(topic.partitions):,}",
    )


def _describe_topic(topic: TopicResult, created_at: str, detail: Detail, trend: Trend | None) -> Subsection:
    state = verdict(topic)
    words = f"{cause(topic.diagnosis)}{'' if state == NONE else f', {VERDICTS[state]}'}"
    blocks: list[Block] = [Paragraph(describe_spread(topic))]
    if not is_empty(topic):
        if period := format_period(topic, created_at):
            blocks.append(Item("Written", _sentence(period)))
        blocks.append(Item("Read", _sentence(describe_sample(topic.sample))))
    blocks += [Item("Note", _sentence(note)) for note in all_notes(topic)]
    if not is_empty(topic):
        blocks += _describe_figures(topic, created_at, detail)
        blocks += draw_trend(trend) if trend and detail.is_complete else ()
    return Subsection(
        TextSpan(topic.name, Role.NAME),
        blocks,
        TextSpan(words, _ROLES[state]),
        gap=": ",
        conclusion=[*_explain(topic)],
    )


def _explain(topic: TopicResult) -> Iterator[Item]:
    """Yield why the topic is as it is, what its policy says about that, and what would help."""
    if not is_empty(topic):
        for entry in topic.causes:
            text = f"{_sentence(entry.evidence)}{explained_part(entry)}"
            yield Item(cause(entry.name).capitalize(), text)
    # `judge_report` makes the reasons of a judged topic from its findings.
    stated = {finding.message for finding in topic.findings}
    for reason in topic.policy.reasons if topic.policy else ():
        if reason not in stated:
            yield Item("Policy", _sentence(reason))
    if topic.what_if_withheld is not None and not is_empty(topic):
        yield Item("What if", _sentence(what_if_note(topic)))
    for advice in topic.advice:
        yield Item("Advice", _sentence(advice))


def _sentence(text: str) -> str:
    # Advice, reasons and notes come from several places, with a full stop or without.
    return f"{text.rstrip().rstrip('.')}."


# --- figures -----------------------------------------------------------------------------------------


def _describe_figures(topic: TopicResult, created_at: str, detail: Detail) -> Iterator[Block]:
    if detail.is_complete:
        yield from draw_partitions(topic)
    yield _list_partitions(topic, created_at, detail)
    yield from _list_imbalance(topic, detail)
    yield from _list_keys(topic, detail)
    if topic.what_if:
        if detail.is_complete:
            yield draw_prediction(topic)
        asked_first = sorted(topic.what_if, key=lambda case: case.partitions not in detail.what_if)
        yield _build_table(_describe_prediction(topic, detail.what_if), detail, asked_first)
        if note := what_if_note(topic):
            yield Paragraph(_sentence(note), "What if")
    for group in topic.groups:
        yield _list_members(group, detail)
        if group.members and detail.is_complete:
            yield draw_members(group)


class _Figure(Value, Generic[_T]):
    """A column of a table: how it shows an entry, and the sum of those that are left out.

    Attributes:
        is_extra: Whether only complete reports have it.
    """

    column: Column
    show: Callable[[_T], Inline | Bar]
    sum_up: Callable[[Sequence[_T]], Inline] = lambda _: ""
    is_extra: bool = False


def _build_table(
    figures: Sequence[_Figure[_T]],
    detail: Detail,
    entries: Sequence[_T],
    left_out: Sequence[_T] = (),
    last: Sequence[_T] = (),
    title: Inline = (),
) -> Table:
    """Build a table of the figures that are known of at least one entry."""
    figures = [figure for figure in figures if detail.is_complete or not figure.is_extra]
    rows = [[figure.show(entry) for figure in figures] for entry in entries]
    if left_out:
        rows.append([figure.sum_up(left_out) for figure in figures])
        rows += [[figure.show(entry) for figure in figures] for entry in last]
    known = [i for i in range(len(figures)) if any(row[i] not in ("", NOTHING) for row in rows)]
    return Table([figures[i].column for i in known], [[row[i] for i in known] for row in rows], title)


def _excerpt(
    entries: Sequence[_T], share: Callable[[_T], float], most: int | None
) -> tuple[Sequence[_T], Sequence[_T], Sequence[_T]]:
    """Return all entries if there are at most `most`, else the largest, those left out, and the smallest."""
    if most is None or len(entries) <= most:
        return entries, (), ()
    ordered = sorted(entries, key=share, reverse=True)
    first, last = max(1, most // 2 - _SMALLEST), len(ordered) - _SMALLEST
    return ordered[:first], ordered[first:last], ordered[last:]


def _list_partitions(topic: TopicResult, created_at: str, detail: Detail) -> Table:
    """List the partitions; 80 columns have room for the figures that differ most."""
    partitions = topic.partitions
    now = topic.now
    # In a balanced topic, some partition is the fullest by chance, and a colour would be a false alarm.
    fullest = max(partitions, key=lambda p: p.share.value) if topic.diagnosis != "balanced" else None
    kept = any(p.kept_from for p in partitions)
    # Offsets differ from records where logs were compacted, or have markers of transactions.
    gaps = any(p.log_records != round(p.records.value) for p in partitions)
    figures: list[_Figure[PartitionResult]] = [
        _Figure(_number("Partition"), lambda p: str(p.partition), lambda ps: f"… {len(ps):,} more"),
        _Figure(
            _number("Share"),
            lambda p: percent(p.share.value),
            lambda ps: percent(math.fsum(p.share.value for p in ps)),
        ),
        _Figure(_number(_INTERVAL, 1), lambda p: interval(p.share, percent)),
        _Figure(
            _number("Now"),
            lambda p: percent(now.shares[p.partition].value) if now else "",
            lambda ps: percent(math.fsum(now.shares[p.partition].value for p in ps)) if now else "",
        ),
        _Figure(
            _number("Records"),
            lambda p: count(p.records.value),
            lambda ps: count(math.fsum(p.records.value for p in ps)),
        ),
        _Figure(
            _number("Offsets"),
            lambda p: count(p.log_records) if gaps else "",
            lambda ps: count(sum(p.log_records for p in ps)) if gaps else "",
        ),
        _Figure(
            _number("Bytes"),
            lambda p: size(p.bytes.value),
            lambda ps: size(math.fsum(p.bytes.value for p in ps)),
        ),
        _Figure(
            _number("Share of bytes", 3),
            lambda p: percent(p.byte_share.value),
            lambda ps: percent(math.fsum(p.byte_share.value for p in ps)),
            is_extra=True,
        ),
        _Figure(_number("Kept for"), lambda p: format_retention(p, created_at) if kept else ""),
        _Figure(_number("On disk"), lambda p: size(p.log_bytes), lambda ps: size(_sum_known(ps))),
        _Figure(
            _number("Read", 4),
            lambda p: count(p.sampled_records),
            lambda ps: count(sum(p.sampled_records for p in ps)),
            is_extra=True,
        ),
        _Figure(_number("Keys read", 5), lambda p: count(p.distinct_keys), is_extra=True),
        _Figure(
            _number("No key", 6),
            lambda p: count(p.null_records),
            lambda ps: count(sum(p.null_records for p in ps)),
            is_extra=True,
        ),
        _Figure(
            _mark_mean(1 / len(partitions)),
            lambda p: Bar(p.share.value, Role.WARNING if p is fullest else Role.TEXT),
            lambda ps: _format_range([p.share.value for p in ps]),
        ),
    ]
    return _build_table(figures, detail, *_excerpt(partitions, lambda p: p.share.value, detail.rows))


def _sum_known(partitions: Sequence[PartitionResult]) -> int | None:
    known = [partition.log_bytes for partition in partitions if partition.log_bytes is not None]
    return sum(known) if known else None


def _mark_mean(mean: float) -> Column:
    return Column(f"mean {percent(mean)}", mean=mean)


def _format_range(values: Sequence[float]) -> Inline:
    low, high = min(values), max(values)
    ends = interval(Estimate(high, low, high), percent)
    return TextSpan(f"{ends or percent(low)} each", Role.MUTED)


def _list_imbalance(topic: TopicResult, detail: Detail) -> Iterator[Block]:
    columns = (Column("Imbalance", least=12), Column("By records", least=10), Column("By bytes", least=10))
    rows = []
    for field, name in IMBALANCE_FIGURES.items():
        if field in _FIGURES_OF_EXPERTS and not detail.has_all_figures:
            continue
        # Useful consumers are a number of partitions, so that number is needed beside them.
        of = f" of {len(topic.partitions):,}" if field == "effective_parallelism" else ""
        imbalances = (getattr(topic.by_records, field), getattr(topic.by_bytes, field))
        rows.append((name + of, *(format_estimate(estimate, ratio) for estimate in imbalances)))
    yield Table(columns, rows)
    # If all records were read, the sample has all keys, and its number would stand there twice.
    read = "" if topic.sample.mode == "full" else f"; {topic.sampled_distinct_keys:,} in the sample"
    yield Paragraph(f"{format_estimate(topic.distinct_keys, count)}{read}.", "Distinct keys")
    yield Paragraph(f"{format_estimate(topic.null_key_share, percent)} of the records.", "Without a key")
    shares = topic.partitioners
    if shares and (detail.keys is None or max(shares.values()) < _CERTAIN):
        # A partitioner that was not used would choose the same partition for 1/n of the records.
        chance = 1 / len(topic.partitions)
        parts = ", ".join(
            f"{_PLACED_BY.get(name, name)} {percent(part)}"
            for name, part in shares.items()
            if detail.keys is None or part > _BEYOND_CHANCE * chance or name == "other"
        )
        text = f"records with a key on the partition that each would choose: {parts}."
        yield Paragraph(text, "Partitioners")


def _list_keys(topic: TopicResult, detail: Detail) -> Iterator[Block]:
    if not topic.hot_keys:
        return
    shown = topic.hot_keys if detail.keys is None else notable_keys(topic, detail.keys)
    exact = "" if all(is_exact(key.share) for key in topic.hot_keys) else "exact"
    figures: list[_Figure[HotKeyResult]] = [
        _Figure(Column("Key SHA-256"), lambda key: TextSpan(key_name(key), Role.CODE)),
        _Figure(_number("Length", 2), lambda key: f"{key.key_length:,} B"),
        _Figure(
            Column("Key", least=8), lambda key: "" if key.key is None else TextSpan(brief(key.key), Role.CODE)
        ),
        _Figure(_number("Share"), lambda key: percent(key.share.value)),
        _Figure(_number(_INTERVAL, 1), lambda key: interval(key.share, percent) or exact),
        _Figure(_number("Now"), lambda key: "" if key.now is None else percent(key.now.value)),
        _Figure(_number("Of bytes"), lambda key: percent(key.byte_share.value)),
        _Figure(Column("Partitions", least=10), lambda key: numbers(key.partitions)),
        _Figure(_number("Peak"), lambda key: f"{ratio(key.peak)} x" if is_bursty(topic, key) else ""),
        _Figure(
            _number("Seen in", 3),
            lambda key: f"{key.slices_seen:,} of {topic.sample.slices:,} replicates",
            is_extra=True,
        ),
    ]
    if detail.is_complete:
        yield draw_keys(shown)
    yield _build_table(figures, detail, shown)
    if further := len(topic.hot_keys) - len(shown):
        text = f"… {counted(further, 'more key')} (--verbose lists them)"
        yield Paragraph(TextSpan(text, Role.MUTED))
    if any(key.key is None and key.key_length for key in topic.hot_keys):
        note = "Keys are shown as SHA-256; --show-keys adds their text (maybe personal)."
        yield Paragraph(TextSpan(note, Role.MUTED))


def _describe_prediction(topic: TopicResult, asked: Sequence[int]) -> list[_Figure[WhatIf]]:
    marks = {**dict.fromkeys(asked, " (asked)"), len(topic.partitions): " (now)"}
    return [
        _Figure(_number("Partitions"), lambda case: f"{case.partitions:,}{marks.get(case.partitions, '')}"),
        _Figure(_number("Fullest / mean"), lambda case: ratio(case.max_mean_ratio.value)),
        _Figure(_number(_INTERVAL), lambda case: interval(case.max_mean_ratio, ratio)),
        _Figure(_number("By bytes"), lambda case: ratio(case.byte_max_mean_ratio.value)),
        _Figure(_number(_INTERVAL, 1), lambda case: interval(case.byte_max_mean_ratio, ratio), is_extra=True),
        _Figure(_number("Keys move"), lambda case: percent(case.keys_moved)),
        _Figure(_number("Records move"), lambda case: percent(case.records_moved.value)),
        _Figure(_number(_INTERVAL, 2), lambda case: interval(case.records_moved, percent), is_extra=True),
    ]


def _list_members(group: GroupResult, detail: Detail) -> Block:
    title = mark_code(lambda code: f"Group {code(group.name)}: {describe_group(group, code(group.assignor))}")
    if not group.members:
        return Paragraph(title)
    figures: list[_Figure[tuple[int, MemberShare]]] = [
        _Figure(_number("Member"), lambda pair: str(pair[0]), lambda pairs: f"… {len(pairs):,} more"),
        _Figure(
            _number("Share"),
            lambda pair: percent(pair[1].share),
            lambda pairs: percent(math.fsum(member.share for _, member in pairs)),
        ),
        _Figure(
            Column("Partitions", least=10),
            lambda pair: numbers(pair[1].partitions),
            lambda pairs: _format_range([member.share for _, member in pairs]),
        ),
        _Figure(
            _mark_mean(math.fsum(member.share for member in group.members) / len(group.members)),
            lambda pair: Bar(pair[1].share),
        ),
    ]
    members = [*enumerate(group.members, 1)]
    return _build_table(
        figures, detail, *_excerpt(members, lambda pair: pair[1].share, detail.rows), title=title
    )

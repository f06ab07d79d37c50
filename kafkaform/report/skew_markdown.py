"""A skew report as Markdown for a pull request or an issue: a table of all topics, the rest folded.

Partition shares as a Mermaid chart, which GitHub draws.

Nothing foreign is in it: no name of a topic or a key could break out of its grammar, or bring a directive in.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kafkaform.core.wording import counted
from kafkaform.report.markdown import LIMIT
from kafkaform.report.markdown_escape import (
    code,
    code_block,
    html,
    prose,
)
from kafkaform.report.skew_values import (
    CAUSES,
    FAIL,
    IMBALANCE_FIGURES,
    NONE,
    NOTHING,
    VERDICTS,
    WARN,
    all_notes,
    brief,
    cause,
    count,
    estimated,
    format_period,
    format_retention,
    headline,
    is_bursty,
    is_empty,
    key_name,
    moment,
    notable_keys,
    numbers,
    ratio,
    sampled,
    selected,
    severity,
    share,
    size,
    summary,
    verdict,
    what_if_note,
)
from kafkaform.report.truncation import Block, fit_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spark_validation.results import (
        GroupResult,
        HotKeyResult,
        PartitionResult,
        SkewCause,
        SkewFinding,
        SkewReport,
        TopicResult,
    )


MOST = 24
"""So many labels stand side by side at the width of GitHub's comments: Mermaid leaves out none of them, and
on an axis of numbers, of which it does, its bars overlap."""
_TWO = 2


def partition_chart(topic: TopicResult) -> list[str]:
    """The lines of a chart with a bar for each partition and a line for the mean; none if it showed nothing.

    The grammar is that of `xychart-beta`: numbers without an exponent, texts in quotes.
    """
    partitions = topic.partitions
    top = max((one.share.value for one in partitions), default=0.0)
    if len(partitions) < _TWO or not 0 < top <= 1:
        return []
    mean = 1 / len(partitions)
    drawn = _drawn(partitions)
    some = "" if len(drawn) == len(partitions) else f", the {len(drawn)} fullest of {len(partitions):,}"
    labels = ", ".join(f'"{one.partition}"' for one in drawn)
    bars = ", ".join(_percent(one.share.value) for one in drawn)
    line = ", ".join([_percent(mean)] * len(drawn))
    return [
        "xychart-beta",
        f'    title "Records by partition{some} (line: mean, {share(mean)})"',
        f'    x-axis "partition" [{labels}]',
        f'    y-axis "percent of the records" 0 --> {_percent(_ceiling(top))}',
        f"    bar [{bars}]",
        f"    line [{line}]",
    ]


def _drawn(partitions: tuple[PartitionResult, ...]) -> tuple[PartitionResult, ...]:
    if len(partitions) <= MOST:
        return partitions
    return tuple(sorted(partitions, key=lambda one: (-one.share.value, one.partition))[:MOST])


def _percent(value: float) -> str:
    """A share in percent as the grammar takes it."""
    return f"{100 * value:.3f}".rstrip("0").rstrip(".")


def _ceiling(top: float) -> float:
    """The next round share above the longest bar."""
    step: float = 10.0 ** math.floor(math.log10(top)) / _TWO
    return min(1.0, math.ceil(top / step) * step)


MOST_ROWS = 24
_LAST_ROWS = 4
_MOST_KEYS = 10
_MOST_ITEMS = 12


def details(topic: TopicResult, created_at: str) -> str:
    """The parts of a topic that has records, with an empty line between them."""
    period = format_period(topic, created_at)
    parts = [
        headline(topic),
        *([f"Written: {_sentence(period)}"] if period else []),
        f"Read: {_sentence(sampled(topic.sample))}",
    ]
    points = [
        *(f"Policy: {_sentence(one)}" for one in (topic.policy.reasons if topic.policy else ())),
        *(f"Cause: {_cause(one)}" for one in topic.causes),
        *(f"Advice: {_sentence(one)}" for one in topic.advice),
    ]
    parts += _list(points)
    parts += _list([f"Note: {_sentence(one)}" for one in all_notes(topic)])
    chart = partition_chart(topic)
    if chart:
        parts.append(code_block("mermaid", chart))
    parts.append(_partitions(topic, created_at))
    parts.append(_figures(topic))
    if topic.hot_keys:
        parts.append(_keys(topic))
    if topic.what_if:
        parts.append(_predictions(topic))
    note = what_if_note(topic)
    if note:
        parts.append(f"What if: {_sentence(note)}")
    parts += _list([f"Group {_group(one)}" for one in topic.groups])
    return "\n\n".join(parts)


def _list(items: Sequence[str]) -> list[str]:
    """A list, bounded; none without items."""
    shown = [f"- {item}" for item in items[:_MOST_ITEMS]]
    if len(items) > _MOST_ITEMS:
        shown.append(f"- … {len(items) - _MOST_ITEMS:,} more")
    return ["\n".join(shown)] if items else []


def _cause(one: SkewCause) -> str:
    part = "" if one.explains is None else f" It explains {share(one.explains, 0)} of the skew."
    return f"{prose(cause(one.name))}. {_sentence(one.evidence)}{part}"


def _partitions(topic: TopicResult, created_at: str) -> str:
    chosen = selected(topic.partitions, lambda one: one.share.value, most=MOST_ROWS, last=_LAST_ROWS)
    places = 2 if len(topic.partitions) > 100 else 1
    rows = [_partition(one, places, created_at) for one in chosen.first]
    if chosen.left_out:
        rows.append(_rest(chosen.left_out, places))
        rows += [_partition(one, places, created_at) for one in chosen.last]
    header = ("Partition", "Share", "Records", "Offsets", "Bytes", "Kept for", "On disk", "Read")
    return _table(header, rows)


def _partition(one: PartitionResult, places: int, created_at: str) -> tuple[str, ...]:
    return (
        str(one.partition),
        estimated(one.share, lambda value: share(value, places)),
        count(one.records.value),
        count(one.log_records),
        size(one.bytes.value),
        format_retention(one, created_at),
        size(one.log_bytes),
        count(one.sampled_records),
    )


def _rest(left_out: Sequence[PartitionResult], places: int) -> tuple[str, ...]:
    known = [one.log_bytes for one in left_out if one.log_bytes is not None]
    return (
        f"… {len(left_out):,} more",
        share(math.fsum(one.share.value for one in left_out), places),
        count(math.fsum(one.records.value for one in left_out)),
        count(sum(one.log_records for one in left_out)),
        size(math.fsum(one.bytes.value for one in left_out)),
        "",
        size(sum(known) if known else None),
        count(sum(one.sampled_records for one in left_out)),
    )


def _figures(topic: TopicResult) -> str:
    rows = [
        (name, *(estimated(getattr(by, field), ratio) for by in (topic.by_records, topic.by_bytes)))
        for field, name in IMBALANCE_FIGURES.items()
    ]
    table = _table(("Imbalance", "By records", "By bytes"), rows)
    keys = f"{estimated(topic.distinct_keys, count)}, {topic.sampled_distinct_keys:,} in the sample"
    keyless = f"{estimated(topic.null_key_share, share)} of the records"
    return f"{table}\n\nDistinct keys: {keys}. Without a key: {keyless}."


def _keys(topic: TopicResult) -> str:
    with_text = any(key.key is not None for key in topic.hot_keys)
    shown = notable_keys(topic, _MOST_KEYS)
    header = [
        "Key (SHA-256)",
        *(["Key"] if with_text else []),
        "Bytes",
        "Share",
        "Of bytes",
        "Partitions",
        "Peak",
    ]
    table = _table(header, [_key(topic, key, with_text=with_text) for key in shown])
    more = len(topic.hot_keys) - len(shown)
    return f"{table}\n\n… {counted(more, 'more key')}" if more else table


def _key(topic: TopicResult, key: HotKeyResult, *, with_text: bool) -> list[str]:
    text = NOTHING if key.key is None else code(brief(key.key), 120, cell=True)
    peak = f"{ratio(key.peak)} times, in {key.slices_seen:,} of {topic.sample.slices:,} replicates"
    return [
        code(key_name(key), 64, cell=True),
        *([text] if with_text else []),
        f"{key.key_length:,}",
        estimated(key.share, share),
        share(key.byte_share.value),
        numbers(key.partitions),
        peak if is_bursty(topic, key) else NOTHING,
    ]


def _predictions(topic: TopicResult) -> str:
    rows = [
        (
            f"{one.partitions:,}{' (now)' if one.partitions == len(topic.partitions) else ''}",
            estimated(one.max_mean_ratio, ratio),
            estimated(one.byte_max_mean_ratio, ratio),
            share(one.keys_moved),
            estimated(one.records_moved, share),
        )
        for one in topic.what_if
    ]
    return _table(("What if: partitions", "Fullest / mean", "By bytes", "Keys moved", "Records moved"), rows)


def _group(group: GroupResult) -> str:
    members = group.members
    parts = [f"{counted(len(members), 'member')} with {code(group.assignor, 80)}"]
    if members:
        busiest = max(member.share for member in members)
        parts.append(f"the busiest gets {share(busiest)}, {ratio(group.max_mean_ratio)} times the mean")
    idle = sum(not member.partitions for member in members)
    if idle:
        parts.append(f"{idle:,} would be idle")
    return f"{code(group.name)}: {'; '.join(parts)}."


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _sentence(text: str) -> str:
    return f"{prose(text.rstrip().rstrip('.'))}."


LEAST = 6_000
"""What headings and notes alone may need."""
SEE = "the JSON and HTML reports contain everything"
_ORDER = ("error", "warning", "info")
_NAME = 249
_BRIEF_NAME = 70
_TABLE = """
| Topic | Diagnosis | Verdict | Fullest / mean | Hottest key | Distinct keys | Without a key | Partitions |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def render_skew_markdown(report: SkewReport, *, limit: int = LIMIT) -> str:
    """Word a report for a comment on GitHub, in at most `limit` characters.

    The most skewed topics come first and are cut last. Nothing is left out without a line that says how much.

    Raises:
        ValueError: `limit` is below 6,000.
    """
    if limit < LEAST:
        raise ValueError(f"{limit:,} characters are too few for a skew report; allow at least {LEAST:,}")
    head = _head(report)
    return head + fit_all(_blocks(report), limit - len(head))


def _head(report: SkewReport) -> str:
    name, identity = report.cluster_name, report.cluster_id
    if name is None and identity is None:
        origin = "Records from files"
    else:
        known = [code(one, 80) for one in (name, identity) if one is not None]
        origin = f"Cluster {' '.join(known)}"
    return f"## kafkaform skew: {summary(report.topics)}\n\n{origin} · {code(moment(report.created_at))}\n"


def _blocks(report: SkewReport) -> tuple[Block[Any], ...]:
    topics = sorted(report.topics, key=severity)
    findings = [(topic, finding) for topic in topics for finding in topic.findings]
    findings.sort(key=lambda pair: _ORDER.index(pair[1].severity))
    return (
        Block(
            _TABLE,
            topics,
            lambda topic: _row(topic, _NAME),
            _left_out("topic"),
            brief=lambda topic: _row(topic, _BRIEF_NAME),
            share=0.6,
        ),
        Block("\n### Findings\n\n", findings, lambda pair: _finding(*pair), _left_out("finding"), share=0.4),
        Block(
            "\n### Topics\n\n",
            [topic for topic in topics if not is_empty(topic)],
            lambda topic: _folded(topic, report.created_at),
            lambda left: f"… details of {counted(len(left), 'more topic')} left out; {SEE}",
        ),
    )


def _left_out(noun: str) -> Callable[[Sequence[object]], str]:
    return lambda things: f"… {counted(len(things), f'more {noun}')} left out; {SEE}"


def _row(topic: TopicResult, longest: int) -> str:
    state = verdict(topic)
    judged = NOTHING if state == NONE else VERDICTS[state]
    words = cause(topic.diagnosis)
    cells = [
        code(topic.name, longest, cell=True),
        words if topic.diagnosis in CAUSES else code(words, cell=True),
        f"**{judged}**" if state in (FAIL, WARN) else judged,
    ]
    if is_empty(topic):
        cells += [NOTHING] * 4
    else:
        cells += [
            estimated(topic.by_records.max_mean_ratio, ratio),
            estimated(topic.hot_keys[0].share, share) if topic.hot_keys else NOTHING,
            count(topic.distinct_keys.value),
            share(topic.null_key_share.value),
        ]
    return f"| {' | '.join(cells)} | {len(topic.partitions):,} |\n"


def _finding(topic: TopicResult, finding: SkewFinding) -> str:
    # Most messages start with their topic; for one that does not it needs to be said.
    where = "" if finding.message.startswith(topic.name) else f" {code(topic.name, _NAME)}"
    parts = [f"{finding.severity} {code(finding.code)}{where}: {_sentence(finding.message)}"]
    if finding.suggestion:
        parts.append(f"Suggestion: {_sentence(finding.suggestion)}")
    return f"- {' '.join(parts)}\n"


def _folded(topic: TopicResult, created_at: str) -> str:
    state = verdict(topic)
    judged = "" if state == NONE else f", {VERDICTS[state]}"
    title = f"<code>{html(topic.name, _NAME)}</code>: {html(cause(topic.diagnosis))}{judged}"
    return f"<details><summary>{title}</summary>\n\n{details(topic, created_at)}\n\n</details>\n"

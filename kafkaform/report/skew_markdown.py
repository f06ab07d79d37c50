"""A skew report as Markdown for a pull request or an issue: a table of topics, and folded details.

Partition shares are a Mermaid chart, which GitHub draws. It has no untrusted text, such as a topic's name,
which could break out of its grammar.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kafkaform.core.wording import counted
from kafkaform.report.markdown import LIMIT
from kafkaform.report.markdown_escape import code, code_block, html, prose
from kafkaform.report.skew_values import (
    CAUSES,
    FAIL,
    IMBALANCE_FIGURES,
    NONE,
    UNKNOWN,
    VERDICTS,
    WARN,
    all_notes,
    brief,
    cause,
    describe_group,
    describe_sample,
    explained_part,
    format_now,
    format_period,
    format_retention,
    headline,
    hidden_keys_note,
    is_bursty,
    is_empty,
    key_name,
    moment,
    notable_keys,
    numbers,
    select_excerpt,
    severity,
    size,
    summary,
    verdict,
    what_if_note,
)
from kafkaform.report.truncation import Block, fit_all
from spark_validation.figures import NOTHING, count, format_estimate, percent, ratio

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
"""The most bars of a chart: in the width of GitHub's comments, Mermaid drops none of so many labels."""
_TWO = 2


def partition_chart(topic: TopicResult) -> list[str]:
    """Return the lines of a chart with a bar for each partition and a line for the mean; empty without data.

    The grammar of `xychart-beta` takes numbers without an exponent, and quoted texts.
    """
    partitions = topic.partitions
    top = max((partition.share.value for partition in partitions), default=0.0)
    # One bar shows nothing, and a scale needs a share above 0.
    if len(partitions) < _TWO or not 0 < top <= 1:
        return []
    mean = 1 / len(partitions)
    drawn = _select_drawn(partitions)
    selection = "" if len(drawn) == len(partitions) else f", the {len(drawn)} fullest of {len(partitions):,}"
    # In quotes a label is a category. Bare numbers would be a numeric axis, on which Mermaid drops some
    # labels and lets bars overlap.
    labels = ", ".join(f'"{partition.partition}"' for partition in drawn)
    bars = ", ".join(_format_percent(partition.share.value) for partition in drawn)
    line = ", ".join([_format_percent(mean)] * len(drawn))
    return [
        "xychart-beta",
        f'    title "Records by partition{selection} (line: mean, {percent(mean)})"',
        f'    x-axis "partition" [{labels}]',
        # From 0: bars of an axis that starts elsewhere would overstate the skew.
        f'    y-axis "percent of the records" 0 --> {_format_percent(_ceiling(top))}',
        f"    bar [{bars}]",
        f"    line [{line}]",
    ]


def _select_drawn(partitions: tuple[PartitionResult, ...]) -> tuple[PartitionResult, ...]:
    if len(partitions) <= MOST:
        return partitions
    return tuple(sorted(partitions, key=lambda p: (-p.share.value, p.partition))[:MOST])


def _format_percent(value: float) -> str:
    """Format a share in percent without an exponent."""
    return f"{100 * value:.3f}".rstrip("0").rstrip(".")


def _ceiling(top: float) -> float:
    """Return the next round share above the longest bar."""
    step: float = 10.0 ** math.floor(math.log10(top)) / _TWO
    return min(1.0, math.ceil(top / step) * step)


MOST_ROWS = 24
_LAST_ROWS = 4
_MOST_KEYS = 10
_MOST_ITEMS = 12


def details(topic: TopicResult, created_at: str) -> str:
    """Return the details of a topic that has records."""
    period = format_period(topic, created_at)
    parts = [
        headline(topic),
        *([f"Written: {_sentence(period)}"] if period else []),
        f"Read: {_sentence(describe_sample(topic.sample))}",
    ]
    # Reasons, causes and advice first: they are what a reader acts on.
    items = [
        *(f"Policy: {_sentence(item)}" for item in (topic.policy.reasons if topic.policy else ())),
        *(f"Cause: {_format_cause(item)}" for item in topic.causes),
        *(f"Advice: {_sentence(item)}" for item in topic.advice),
    ]
    parts += _bounded_list(items)
    parts += _bounded_list([f"Note: {_sentence(item)}" for item in all_notes(topic)])
    chart = partition_chart(topic)
    if chart:
        parts.append(code_block("mermaid", chart))
    parts.append(_partition_table(topic, created_at))
    parts.append(_figure_table(topic))
    if topic.hot_keys:
        parts.append(_key_table(topic))
    if topic.what_if:
        parts.append(_prediction_table(topic))
    note = what_if_note(topic)
    if note:
        parts.append(f"What if: {_sentence(note)}")
    parts += _bounded_list([f"Group {_format_group(item)}" for item in topic.groups])
    return "\n\n".join(parts)


def _bounded_list(items: Sequence[str]) -> list[str]:
    """Return a list of bounded length; empty without items."""
    shown = [f"- {item}" for item in items[:_MOST_ITEMS]]
    if len(items) > _MOST_ITEMS:
        shown.append(f"- … {len(items) - _MOST_ITEMS:,} more")
    return ["\n".join(shown)] if items else []


def _format_cause(skew_cause: SkewCause) -> str:
    evidence = f"{_sentence(skew_cause.evidence)}{explained_part(skew_cause)}"
    return f"{prose(cause(skew_cause.name))}. {evidence}"


def _partition_table(topic: TopicResult, created_at: str) -> str:
    chosen = select_excerpt(topic.partitions, lambda p: p.share.value, most=MOST_ROWS, last=_LAST_ROWS)
    rows = [_partition_row(topic, p, created_at) for p in chosen.first]
    if chosen.left_out:
        rows.append(_remaining_row(chosen.left_out))
        rows += [_partition_row(topic, p, created_at) for p in chosen.last]
    header = ("Partition", "Share", "Now", "Records", "Offsets", "Bytes", "Kept for", "On disk", "Read")
    return _table(header, rows)


def _partition_row(topic: TopicResult, partition: PartitionResult, created_at: str) -> tuple[str, ...]:
    return (
        str(partition.partition),
        format_estimate(partition.share, percent),
        format_now(topic, partition),
        count(partition.records.value),
        count(partition.log_records),
        size(partition.bytes.value),
        format_retention(partition, created_at),
        size(partition.log_bytes),
        count(partition.sampled_records),
    )


def _remaining_row(left_out: Sequence[PartitionResult]) -> tuple[str, ...]:
    known = [partition.log_bytes for partition in left_out if partition.log_bytes is not None]
    return (
        f"… {len(left_out):,} more",
        percent(math.fsum(partition.share.value for partition in left_out)),
        "",
        count(math.fsum(partition.records.value for partition in left_out)),
        count(sum(partition.log_records for partition in left_out)),
        size(math.fsum(partition.bytes.value for partition in left_out)),
        "",
        size(sum(known) if known else None),
        count(sum(partition.sampled_records for partition in left_out)),
    )


def _figure_table(topic: TopicResult) -> str:
    rows = [
        (name, *(format_estimate(getattr(by, field), ratio) for by in (topic.by_records, topic.by_bytes)))
        for field, name in IMBALANCE_FIGURES.items()
    ]
    table = _table(("Imbalance", "By records", "By bytes"), rows)
    keys = f"{format_estimate(topic.distinct_keys, count)}, {topic.sampled_distinct_keys:,} in the sample"
    keyless = f"{format_estimate(topic.null_key_share, percent)} of the records"
    return f"{table}\n\nDistinct keys: {keys}. Without a key: {keyless}."


def _key_table(topic: TopicResult) -> str:
    with_text = any(key.key is not None for key in topic.hot_keys)
    shown = notable_keys(topic, _MOST_KEYS)
    header = [
        "Key (SHA-256)",
        *(["Key"] if with_text else []),
        "Bytes",
        "Share",
        "Now",
        "Of bytes",
        "Partitions",
        "Peak",
    ]
    table = _table(header, [_key_row(topic, key, with_text=with_text) for key in shown])
    further_keys = len(topic.hot_keys) - len(shown)
    further = f"… {counted(further_keys, 'more key')}" if further_keys else ""
    return "\n\n".join(filter(None, (table, further, hidden_keys_note(topic))))


def _key_row(topic: TopicResult, key: HotKeyResult, *, with_text: bool) -> list[str]:
    text = NOTHING if key.key is None else code(brief(key.key), 120, cell=True)
    peak = f"{ratio(key.peak)} times, in {key.slices_seen:,} of {topic.sample.slices:,} replicates"
    return [
        code(key_name(key), 64, cell=True),
        *([text] if with_text else []),
        f"{key.key_length:,}",
        format_estimate(key.share, percent),
        NOTHING if key.now is None else percent(key.now.value),
        percent(key.byte_share.value),
        numbers(key.partitions),
        peak if is_bursty(topic, key) else NOTHING,
    ]


def _prediction_table(topic: TopicResult) -> str:
    rows = [
        (
            f"{case.partitions:,}{' (now)' if case.partitions == len(topic.partitions) else ''}",
            format_estimate(case.max_mean_ratio, ratio),
            format_estimate(case.byte_max_mean_ratio, ratio),
            percent(case.keys_moved),
            format_estimate(case.records_moved, percent),
        )
        for case in topic.what_if
    ]
    return _table(("What if: partitions", "Fullest / mean", "By bytes", "Keys moved", "Records moved"), rows)


def _format_group(group: GroupResult) -> str:
    return f"{code(group.name)}: {describe_group(group, code(group.assignor, 80))}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    # The first column has names, the others numbers.
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _sentence(text: str) -> str:
    # The text may end with a full stop or not: rules, advice and notes come from several places.
    return f"{prose(text.rstrip().rstrip('.'))}."


LEAST = 6_000
"""The characters that headings and notes alone may need."""
SEE = "the JSON and HTML reports contain everything"
_ORDER = ("error", "warning", "info")
# The longest name that Kafka allows a topic.
_NAME = 249
_BRIEF_NAME = 70
_TABLE = """
| Topic | Diagnosis | Verdict | Fullest / mean | Hottest key | Distinct keys | Without a key | Partitions |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def render_skew_markdown(report: SkewReport, *, limit: int = LIMIT) -> str:
    """Return a report as Markdown of at most `limit` characters, for a comment on GitHub.

    The most skewed topics come first and are cut last. A line counts whatever is left out.

    Raises:
        ValueError: `limit` is below 6,000.
    """
    if limit < LEAST:
        raise ValueError(f"{limit:,} characters are too few for a skew report; allow at least {LEAST:,}")
    # The head is never cut: it has the verdict.
    head = _write_head(report)
    return head + fit_all(_list_blocks(report), limit - len(head))


def _write_head(report: SkewReport) -> str:
    name, identity = report.cluster_name, report.cluster_id
    if name is None and identity is None:
        origin = "Records from files"
    else:
        known = [code(part, 80) for part in (name, identity) if part is not None]
        origin = f"Cluster {' '.join(known)}"
    return f"## kafkaform skew: {summary(report.topics)}\n\n{origin} · {code(moment(report.created_at))}\n"


def _list_blocks(report: SkewReport) -> tuple[Block[Any], ...]:
    topics = sorted(report.topics, key=severity)
    findings = [(topic, finding) for topic in topics for finding in topic.findings]
    findings.sort(key=lambda pair: _ORDER.index(pair[1].severity))
    return (
        Block(
            _TABLE,
            topics,
            lambda topic: _topic_row(topic, _NAME),
            _left_out("topic"),
            # Clipped names leave room for the rows of more topics.
            brief=lambda topic: _topic_row(topic, _BRIEF_NAME),
            share=0.6,
        ),
        Block(
            "\n### Findings\n\n",
            findings,
            lambda pair: _format_finding(*pair),
            _left_out("finding"),
            share=0.4,
        ),
        Block(
            "\n### Topics\n\n",
            [topic for topic in topics if not is_empty(topic)],
            lambda topic: _render_topic(topic, report.created_at),
            lambda left: f"… details of {counted(len(left), 'more topic')} left out; {SEE}",
        ),
    )


def _left_out(noun: str) -> Callable[[Sequence[object]], str]:
    return lambda items: f"… {counted(len(items), f'more {noun}')} left out; {SEE}"


def _topic_row(topic: TopicResult, longest: int) -> str:
    state = verdict(topic)
    verdict_words = NOTHING if state == NONE else VERDICTS[state]
    words = cause(topic.diagnosis)
    cells = [
        code(topic.name, longest, cell=True),
        # A diagnosis of a later version is foreign text.
        words if topic.diagnosis in CAUSES else code(words, cell=True),
        f"**{verdict_words}**" if state in (FAIL, UNKNOWN, WARN) else verdict_words,
    ]
    if is_empty(topic):
        cells += [NOTHING] * 4
    else:
        cells += [
            format_estimate(topic.by_records.max_mean_ratio, ratio),
            format_estimate(topic.hot_keys[0].share, percent) if topic.hot_keys else NOTHING,
            count(topic.distinct_keys.value),
            percent(topic.null_key_share.value),
        ]
    return f"| {' | '.join(cells)} | {len(topic.partitions):,} |\n"


def _format_finding(topic: TopicResult, finding: SkewFinding) -> str:
    # Most messages start with their topic; name it for one that does not.
    where = "" if finding.message.startswith(topic.name) else f" {code(topic.name, _NAME)}"
    parts = [f"{finding.severity} {code(finding.code)}{where}: {_sentence(finding.message)}"]
    if finding.suggestion:
        parts.append(f"Suggestion: {_sentence(finding.suggestion)}")
    return f"- {' '.join(parts)}\n"


def _render_topic(topic: TopicResult, created_at: str) -> str:
    state = verdict(topic)
    verdict_words = "" if state == NONE else f", {VERDICTS[state]}"
    title = f"<code>{html(topic.name, _NAME)}</code>: {html(cause(topic.diagnosis))}{verdict_words}"
    # Blank lines around the details: GitHub reads Markdown within a tag only after one.
    return f"<details><summary>{title}</summary>\n\n{details(topic, created_at)}\n\n</details>\n"

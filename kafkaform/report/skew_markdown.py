"""A skew report as Markdown for a pull request or an issue: a table of all topics, the rest folded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.core.wording import counted
from kafkaform.report.markdown import LIMIT
from kafkaform.report.markdown_escape import code, html, prose
from kafkaform.report.skew_markdown_details import details
from kafkaform.report.skew_values import (
    CAUSES,
    FAIL,
    NONE,
    NOTHING,
    VERDICTS,
    WARN,
    cause,
    count,
    estimated,
    is_empty,
    moment,
    ratio,
    severity,
    share,
    summary,
    verdict,
)
from kafkaform.report.truncation import Block, fit_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_validation.results import Finding, Report, TopicResult

LEAST = 6_000
"""What headings and notes alone may need."""
SEE = "the JSON and HTML reports have all"
_ORDER = ("error", "warning", "info")
_NAME = 249
_BRIEF_NAME = 70
_TABLE = """
| Topic | Diagnosis | Verdict | Fullest / mean | Hottest key | Distinct keys | Without a key | Partitions |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def render_skew_markdown(report: Report, *, limit: int = LIMIT) -> str:
    """Word a report for a comment on GitHub, in at most `limit` characters.

    The most skewed topics come first and are cut last. Nothing is left out without a line that says how much.

    Raises:
        ValueError: `limit` is below 6,000.
    """
    if limit < LEAST:
        raise ValueError(f"{limit:,} characters are too few for a skew report; allow at least {LEAST:,}")
    head = _head(report)
    return head + fit_all(_blocks(report), limit - len(head))


def _head(report: Report) -> str:
    name, identity = report.cluster_name, report.cluster_id
    if name is None and identity is None:
        origin = "Records from files"
    else:
        known = [code(one, 80) for one in (name, identity) if one is not None]
        origin = f"Cluster {' '.join(known)}"
    return f"## kafkaform skew: {summary(report.topics)}\n\n{origin} · {code(moment(report.created_at))}\n"


def _blocks(report: Report) -> tuple[Block[Any], ...]:
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
            _folded,
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


def _finding(topic: TopicResult, finding: Finding) -> str:
    # Most messages start with their topic; for one that does not it needs to be said.
    where = "" if finding.message.startswith(topic.name) else f" {code(topic.name, _NAME)}"
    parts = [f"{finding.severity} {code(finding.code)}{where}: {_sentence(finding.message)}"]
    if finding.suggestion:
        parts.append(f"Suggestion: {_sentence(finding.suggestion)}")
    return f"- {' '.join(parts)}\n"


def _folded(topic: TopicResult) -> str:
    state = verdict(topic)
    judged = "" if state == NONE else f", {VERDICTS[state]}"
    title = f"<code>{html(topic.name, _NAME)}</code>: {html(cause(topic.diagnosis))}{judged}"
    return f"<details><summary>{title}</summary>\n\n{details(topic)}\n\n</details>\n"


def _sentence(text: str) -> str:
    return f"{prose(text.rstrip().rstrip('.'))}."

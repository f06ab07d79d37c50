"""A skew report as terminal text: what is wrong first, the figures behind it, what to do about it last."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from rich.text import Text

from kafkaform.core.printable import clipped, plain_quotes, printable
from kafkaform.core.wording import counted
from kafkaform.report.skew_text_tables import (
    figure_table,
    key_table,
    member_table,
    partition_table,
    prediction_table,
)
from kafkaform.report.skew_values import (
    FAIL,
    NONE,
    PASS,
    VERDICTS,
    WARN,
    all_notes,
    cause,
    count,
    estimated,
    format_period,
    headline,
    is_empty,
    moment,
    notable_keys,
    ratio,
    sampled,
    share,
    summary,
    verdict,
    what_if_note,
)

if TYPE_CHECKING:
    from spark_validation.results import GroupResult, SkewReport, TopicResult

_STYLES = {FAIL: "bold red", WARN: "bold yellow", PASS: "bold green", NONE: "bold"}
_SEVERITIES = {"error": "red", "warning": "yellow", "info": "dim"}
_NAME = 240
_PROSE = 1200
_INDENT = 2
_LEAST_ROOM = 20
_LONGEST_HANG = 8
_SHORT_HANG = 4
_MOST_KEYS = 10
_CERTAIN = 0.9995
_GLUE = "\0"
"""Holds a number and its sign together where lines are wrapped; printable text has none of it."""


def render_skew(report: SkewReport, *, width: int | None, verbose: bool = False) -> Text:
    """Word a report for people.

    Args:
        report: The report.
        width: The characters of a line of the terminal; None where no terminal reads it: then prose is left
            in whole lines.
        verbose: Show every partition, hot key and member.
    """
    page = _Page(width)
    page.line(("kafkaform skew", "bold"), f" · {_origin(report)} · {moment(report.created_at)}", indent=0)
    for topic in report.topics:
        page.blank()
        _topic(page, topic, report.created_at, verbose=verbose)
    if len(report.topics) != 1:
        page.blank()
        worst = next((v for v in VERDICTS if any(verdict(one) == v for one in report.topics)), NONE)
        page.note("", f"{summary(report.topics)}.", body=_STYLES[worst], indent=0)
    return page.text


class _Page:
    """Lines under construction; every piece of text passes the gate against control characters here."""

    def __init__(self, width: int | None) -> None:
        self.text = Text()
        self.room = None if width is None else max(_LEAST_ROOM, width - _INDENT)

    def blank(self) -> None:
        """Add an empty line."""
        self.text.append("\n")

    def line(self, *parts: str | tuple[str, str], indent: int = _INDENT) -> None:
        """Add one line."""
        self._start(indent)
        for part in parts:
            text, style = (part, "") if isinstance(part, str) else part
            self.text.append(printable(text), style)

    def note(self, lead: str, prose: str, style: str = "dim", body: str = "", indent: int = _INDENT) -> None:
        """Add a paragraph behind a lead, its further lines indented."""
        shown = printable(lead)
        lines = [plain_quotes(clipped(prose, _PROSE)).replace(" %", f"{_GLUE}%")]
        hang = len(shown) if len(shown) <= _LONGEST_HANG else _SHORT_HANG
        if self.room is not None:
            lines = textwrap.wrap(
                lines[0],
                self.room,
                initial_indent=" " * len(shown),
                subsequent_indent=" " * hang,
                break_long_words=False,
                break_on_hyphens=False,
            ) or [""]
            lines[0] = lines[0].removeprefix(" " * len(shown))
        for number, line in enumerate(lines):
            self.line((shown if number == 0 else "", style), (line.replace(_GLUE, " "), body), indent=indent)

    def table(self, table: Text) -> None:
        """Add a table under an empty line."""
        self.blank()
        for line in table.split("\n"):
            self._start(_INDENT)
            self.text.append_text(line)

    def _start(self, indent: int) -> None:
        if self.text:
            self.text.append("\n")
        self.text.append(" " * indent)


def _origin(report: SkewReport) -> str:
    cluster = clipped(report.cluster_id, 80) if report.cluster_id is not None else ""
    if report.cluster_name is None:
        return f"cluster {cluster}" if cluster else "records from files"
    return f"cluster {clipped(report.cluster_name, 80)}" + (f" ({cluster})" if cluster else "")


def _topic(page: _Page, topic: TopicResult, created_at: str, *, verbose: bool) -> None:
    state = verdict(topic)
    judged = "" if state == NONE else f", {VERDICTS[state]}"
    style = _STYLES[state]
    page.line(
        (clipped(topic.name, _NAME), "bold"), ": ", (f"{cause(topic.diagnosis)}{judged}", style), indent=0
    )
    page.note("", headline(topic))
    if is_empty(topic):
        _notes(page, topic)
        _judgement(page, topic)
        return
    if period := format_period(topic, created_at):
        page.note("Written: ", f"{period}.")
    page.note("Read: ", f"{sampled(topic.sample)}.")
    _notes(page, topic)
    page.table(partition_table(topic, page.room, created_at, verbose=verbose))
    _figures(page, topic, verbose=verbose)
    _keys(page, topic, verbose=verbose)
    _causes(page, topic)
    _predictions(page, topic)
    for group in topic.groups:
        _group(page, group, verbose=verbose)
    _judgement(page, topic)
    _advice(page, topic)


def _notes(page: _Page, topic: TopicResult) -> None:
    for note in all_notes(topic):
        page.note("Note: ", note)


def _figures(page: _Page, topic: TopicResult, *, verbose: bool) -> None:
    page.table(figure_table(topic, page.room))
    read = "" if topic.sample.mode == "full" else f"; {topic.sampled_distinct_keys:,} in the sample"
    page.note("Distinct keys: ", f"{estimated(topic.distinct_keys, count)}{read}.")
    page.note("Without a key: ", f"{estimated(topic.null_key_share, share)} of the records.")
    placed = topic.partitioners
    if placed and (verbose or max(placed.values()) < _CERTAIN):
        parts = ", ".join(f"{name} {share(part, 1)}" for name, part in placed.items())
        page.note("Partitioners: ", f"records with a key that are where each would put them: {parts}.")


def _keys(page: _Page, topic: TopicResult, *, verbose: bool) -> None:
    if not topic.hot_keys:
        return
    shown = topic.hot_keys if verbose else notable_keys(topic, _MOST_KEYS)
    page.table(key_table(topic, shown, page.room))
    more = len(topic.hot_keys) - len(shown)
    if more:
        page.line((f"… {counted(more, 'more key')} (--verbose lists them)", "dim"))


def _causes(page: _Page, topic: TopicResult) -> None:
    if not topic.causes:
        return
    page.blank()
    for one in topic.causes:
        part = "" if one.explains is None else f" It explains {share(one.explains, 0)} of the skew."
        page.note(f"{cause(one.name).capitalize()}: ", f"{_sentence(one.evidence)}{part}", "bold")


def _predictions(page: _Page, topic: TopicResult) -> None:
    if topic.what_if:
        page.table(prediction_table(topic, page.room))
    elif topic.what_if_withheld is not None:
        page.blank()
    note = what_if_note(topic)
    if note:
        page.note("What if: ", _sentence(note), "bold")


def _group(page: _Page, group: GroupResult, *, verbose: bool) -> None:
    page.blank()
    name, assignor = clipped(group.name, _NAME), clipped(group.assignor, 80)
    idle = sum(not member.partitions for member in group.members)
    parts = [f"{counted(len(group.members), 'member')} with the assignor {assignor}"]
    if group.members and math.isfinite(group.max_mean_ratio):
        parts.append(f"the busiest gets {ratio(group.max_mean_ratio)} times the mean")
    if idle:
        parts.append(f"{idle:,} would be idle")
    page.note(f"Group {name}: ", f"{'; '.join(parts)}.", "bold")
    if group.members:
        for line in member_table(group, page.room, verbose=verbose).split("\n"):
            page.line()
            page.text.append_text(line)


def _judgement(page: _Page, topic: TopicResult) -> None:
    findings = sorted(topic.findings, key=lambda one: (*_SEVERITIES,).index(one.severity))
    said = " ".join(one.message for one in findings)
    reasons = [reason for reason in (topic.policy.reasons if topic.policy else ()) if reason not in said]
    if findings or reasons:
        page.blank()
    for finding in findings:
        page.note(f"{finding.severity} {finding.code}  ", finding.message, _SEVERITIES[finding.severity])
        if finding.suggestion:
            page.note("    ", finding.suggestion, body="dim")
    for reason in reasons:
        page.note("Policy: ", _sentence(reason), _STYLES[verdict(topic)])


def _advice(page: _Page, topic: TopicResult) -> None:
    if topic.advice:
        page.blank()
    for sentence in topic.advice:
        page.note("Advice: ", _sentence(sentence), "bold")


def _sentence(text: str) -> str:
    """With one full stop at its end."""
    return f"{text.rstrip().rstrip('.')}."

"""Skew as terminal text: reports of what was read, and tables of arrivals, which have JSON of their own.

A report has the diagnosis first, then the figures, and advice last.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from rich.text import Text

from kafkaform.core.printable import clipped, plain_quotes, printable
from kafkaform.core.wording import counted
from kafkaform.report.page import Cell, Column, table
from kafkaform.report.skew_values import (
    FAIL,
    IMBALANCE_FIGURES,
    MARK,
    NONE,
    PASS,
    UNKNOWN,
    VERDICTS,
    WARN,
    Scale,
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
    size,
    summary,
    verdict,
    what_if_note,
)
from spark_validation.figures import NOTHING, count, format_estimate, interval, is_exact, percent, ratio
from spark_validation.results import PARTITIONER_NAMES, Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_validation.results import (
        GroupResult,
        HotKeyResult,
        MemberShare,
        PartitionResult,
        SkewReport,
        TopicResult,
    )


_STYLES = {FAIL: "bold red", UNKNOWN: "bold yellow", WARN: "bold yellow", PASS: "bold green", NONE: "bold"}
_SEVERITIES = {"error": "red", "warning": "yellow", "info": "dim"}
_NAME = 240
_PROSE = 1200
_INDENT = 2
_LEAST_ROOM = 20
_LONGEST_HANG = 8
_SHORT_HANG = 4
_MOST_KEYS = 10
# From here on, the largest share rounds to 100 %: one partitioner placed all records, and needs no line.
_CERTAIN = 0.9995
_PLACED_BY = {**PARTITIONER_NAMES, "other": "none of these"}
_BEYOND_CHANCE = 1.5
"""A partitioner is shown if its share is more than this many times what it would be by chance."""
_GLUE = "\0"
"""Keeps a number and its percent sign on one line; printable text has no such character."""


def render_skew(report: SkewReport, *, width: int | None, verbose: bool = False) -> Text:
    """Render a report as terminal text.

    Args:
        report: The report.
        width: The width of the terminal in columns; None if the output is no terminal: then prose is not
            wrapped.
        verbose: Show every partition, hot key and member.
    """
    page = _Page(width)
    page.line(
        ("kafkaform skew", "bold"), f" · {_format_origin(report)} · {moment(report.created_at)}", indent=0
    )
    for entry in report.topics:
        page.blank()
        _add_topic(page, entry, report.created_at, verbose=verbose)
    # A single topic has its verdict in its first line.
    if len(report.topics) != 1:
        page.blank()
        worst = next(
            (status for status in VERDICTS if any(verdict(entry) == status for entry in report.topics)), NONE
        )
        page.note("", f"{summary(report.topics)}.", body=_STYLES[worst], indent=0)
    return page.text


class _Page:
    """A page of lines; control characters in its text are escaped here."""

    def __init__(self, width: int | None) -> None:
        self.text = Text()
        # On a terminal that is too narrow for a few words, lines are longer than it.
        self.room = None if width is None else max(_LEAST_ROOM, width - _INDENT)

    def blank(self) -> None:
        """Add an empty line."""
        self.text.append("\n")

    def line(self, *parts: str | tuple[str, str], indent: int = _INDENT) -> None:
        """Add one line of styled parts."""
        self._start(indent)
        for part in parts:
            text, style = (part, "") if isinstance(part, str) else part
            self.text.append(printable(text), style)

    def note(self, lead: str, prose: str, style: str = "dim", body: str = "", indent: int = _INDENT) -> None:
        """Add a paragraph after a lead, its further lines indented."""
        shown = printable(lead)
        # A line must not end between a number and its percent sign.
        lines = [plain_quotes(clipped(prose, _PROSE)).replace(" %", f"{_GLUE}%")]
        # Further lines start below the text after a short lead, such as "Read: "; after a long one they would
        # have too little room.
        hang = len(shown) if len(shown) <= _LONGEST_HANG else _SHORT_HANG
        if self.room is not None:
            # The lead is printed with a style of its own, so blanks keep its room while the text is wrapped.
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


def _format_origin(report: SkewReport) -> str:
    cluster = clipped(report.cluster_id, 80) if report.cluster_id is not None else ""
    if report.cluster_name is None:
        return f"cluster {cluster}" if cluster else "records from files"
    return f"cluster {clipped(report.cluster_name, 80)}" + (f" ({cluster})" if cluster else "")


def _add_topic(page: _Page, topic: TopicResult, created_at: str, *, verbose: bool) -> None:
    state = verdict(topic)
    verdict_words = "" if state == NONE else f", {VERDICTS[state]}"
    style = _STYLES[state]
    page.line(
        (clipped(topic.name, _NAME), "bold"),
        ": ",
        (f"{cause(topic.diagnosis)}{verdict_words}", style),
        indent=0,
    )
    page.note("", headline(topic))
    if is_empty(topic):
        _add_notes(page, topic)
        _add_verdict(page, topic)
        return
    if period := format_period(topic, created_at):
        page.note("Written: ", f"{period}.")
    page.note("Read: ", f"{describe_sample(topic.sample)}.")
    _add_notes(page, topic)
    page.table(partition_table(topic, page.room, created_at, verbose=verbose))
    _add_figures(page, topic, verbose=verbose)
    _add_keys(page, topic, verbose=verbose)
    _add_causes(page, topic)
    _add_predictions(page, topic)
    for group in topic.groups:
        _add_group(page, group, verbose=verbose)
    _add_verdict(page, topic)
    _add_advice(page, topic)


def _add_notes(page: _Page, topic: TopicResult) -> None:
    for note in all_notes(topic):
        page.note("Note: ", note)


def _add_figures(page: _Page, topic: TopicResult, *, verbose: bool) -> None:
    page.table(figure_table(topic, page.room))
    # If all records were read, the sample has all keys, and its number would stand there twice.
    read = "" if topic.sample.mode == "full" else f"; {topic.sampled_distinct_keys:,} in the sample"
    page.note("Distinct keys: ", f"{format_estimate(topic.distinct_keys, count)}{read}.")
    page.note("Without a key: ", f"{format_estimate(topic.null_key_share, percent)} of the records.")
    partitioner_shares = topic.partitioners
    if partitioner_shares and (verbose or max(partitioner_shares.values()) < _CERTAIN):
        # A partitioner that was not used would choose the same partition for 1/n of the records.
        chance = 1 / len(topic.partitions)
        parts = ", ".join(
            f"{_PLACED_BY.get(name, name)} {percent(part)}"
            for name, part in partitioner_shares.items()
            if verbose or part > _BEYOND_CHANCE * chance or name == "other"
        )
        page.note("Partitioners: ", f"records with a key on the partition that each would choose: {parts}.")


def _add_keys(page: _Page, topic: TopicResult, *, verbose: bool) -> None:
    if not topic.hot_keys:
        return
    shown = topic.hot_keys if verbose else notable_keys(topic, _MOST_KEYS)
    page.table(key_table(topic, shown, page.room))
    further_keys = len(topic.hot_keys) - len(shown)
    if further_keys:
        page.line((f"… {counted(further_keys, 'more key')} (--verbose lists them)", "dim"))
    if note := hidden_keys_note(topic):
        page.note("", note, body="dim")


def _add_causes(page: _Page, topic: TopicResult) -> None:
    if not topic.causes:
        return
    page.blank()
    for entry in topic.causes:
        text = f"{_sentence(entry.evidence)}{explained_part(entry)}"
        page.note(f"{cause(entry.name).capitalize()}: ", text, "bold")


def _add_predictions(page: _Page, topic: TopicResult) -> None:
    if topic.what_if:
        page.table(prediction_table(topic, page.room))
    elif topic.what_if_withheld is not None:
        page.blank()
    note = what_if_note(topic)
    if note:
        page.note("What if: ", _sentence(note), "bold")


def _add_group(page: _Page, group: GroupResult, *, verbose: bool) -> None:
    page.blank()
    text = describe_group(group, clipped(group.assignor, 80))
    page.note(f"Group {clipped(group.name, _NAME)}: ", text, "bold")
    if group.members:
        for line in member_table(group, page.room, verbose=verbose).split("\n"):
            page.line()
            page.text.append_text(line)


def _add_verdict(page: _Page, topic: TopicResult) -> None:
    findings = sorted(topic.findings, key=lambda finding: (*_SEVERITIES,).index(finding.severity))
    # A finding has the reason of its policy in its message.
    messages = " ".join(finding.message for finding in findings)
    reasons = [reason for reason in (topic.policy.reasons if topic.policy else ()) if reason not in messages]
    if findings or reasons:
        page.blank()
    for finding in findings:
        page.note(f"{finding.severity} {finding.code}  ", finding.message, _SEVERITIES[finding.severity])
        if finding.suggestion:
            page.note("    ", finding.suggestion, body="dim")
    for reason in reasons:
        page.note("Policy: ", _sentence(reason), _STYLES[verdict(topic)])


def _add_advice(page: _Page, topic: TopicResult) -> None:
    if topic.advice:
        page.blank()
    for sentence in topic.advice:
        page.note("Advice: ", _sentence(sentence), "bold")


def _sentence(text: str) -> str:
    return f"{text.rstrip().rstrip('.')}."


# --- tables ------------------------------------------------------------------------------------------

MOST = 32
"""The most partitions or members listed singly; of more, half this many: the fullest and the emptiest."""
_EMPTIEST = 4
_LONGEST_BAR = 40
_SHORTEST_BAR = 8
_WIDE = 100
_GAP = 2


def partition_table(topic: TopicResult, width: int | None, created_at: str, *, verbose: bool) -> Text:
    """Lay out a row and a bar for each partition; of more than `MOST` the fullest first, most summed."""
    partitions = topic.partitions
    mean = 1 / len(partitions)
    layout = _PartitionColumns(topic, width, created_at)
    chosen = select_excerpt(
        partitions, lambda p: p.share.value, most=None if verbose else MOST, last=_EMPTIEST
    )
    rows = [layout.row(p) for p in chosen.first]
    if chosen.left_out:
        rows.append(layout.rest(chosen.left_out))
        rows += [layout.row(p) for p in chosen.last]
    top = max(p.share.value for p in partitions)
    scale = Scale(top, mean, _bar_room(layout.columns, rows, width))
    # In a balanced topic, some partition is the fullest by chance, and a colour would be a false alarm.
    fullest = max(partitions, key=lambda p: p.share.value) if topic.diagnosis != "balanced" else None
    bars = [_draw_bar(scale, p, p is fullest) for p in chosen.first]
    if chosen.left_out:
        bars.append(Cell(_format_range([p.share.value for p in chosen.left_out]), "dim"))
        bars += [_draw_bar(scale, p, p is fullest) for p in chosen.last]
    columns = [*layout.columns, Column(f"{MARK} mean {percent(mean)}", least=_SHORTEST_BAR)]
    return table(columns, [[*row, bar] for row, bar in zip(rows, bars, strict=True)], width)


def figure_table(topic: TopicResult, width: int | None) -> Text:
    """Lay out the figures of the imbalance, by records and by bytes."""
    columns = (Column("IMBALANCE", least=12), Column("BY RECORDS", least=10), Column("BY BYTES", least=10))
    rows = []
    for field, name in IMBALANCE_FIGURES.items():
        # Useful consumers are a number of partitions, so that number is needed beside them.
        of = f" of {len(topic.partitions):,}" if field == "effective_parallelism" else ""
        imbalances = (getattr(topic.by_records, field), getattr(topic.by_bytes, field))
        rows.append((name + of, *(format_estimate(estimate, ratio) for estimate in imbalances)))
    return table(columns, rows, width)


def key_table(topic: TopicResult, keys: Sequence[HotKeyResult], width: int | None) -> Text:
    """Lay out hot keys; columns for intervals, texts and peaks are left out if empty.

    80 columns have no room for intervals beside texts or peaks.
    """
    with_text = any(key.key is not None for key in keys)
    with_peak = any(is_bursty(topic, key) for key in keys)
    room = width is None or width >= _WIDE or not (with_text or with_peak)
    with_interval = room and not all(is_exact(key.share) for key in keys)
    columns = [Column("KEY SHA-256"), Column("LENGTH", right=True)]
    columns += [Column("KEY", least=8)] if with_text else []
    columns += [Column("SHARE", right=True)]
    columns += [Column("95 % INTERVAL")] if with_interval else []
    columns += [Column("NOW", right=True)] if topic.now is not None else []
    columns += [Column("OF BYTES", right=True), Column("PARTITIONS", least=10)]
    columns += [Column("PEAK", right=True)] if with_peak else []
    rows = []
    for key in keys:
        row = [key_name(key), f"{key.key_length:,} B"]
        row += [NOTHING if key.key is None else brief(key.key)] if with_text else []
        row += [percent(key.share.value)]
        row += [interval(key.share, percent) or "exact"] if with_interval else []
        row += [NOTHING if key.now is None else percent(key.now.value)] if topic.now is not None else []
        row += [percent(key.byte_share.value), numbers(key.partitions)]
        row += [f"{ratio(key.peak)} x" if is_bursty(topic, key) else NOTHING] if with_peak else []
        rows.append(row)
    return table(columns, rows, width)


def prediction_table(topic: TopicResult, width: int | None) -> Text:
    """Lay out the predictions for other partition counts."""
    columns = (
        Column("PARTITIONS", right=True),
        Column("FULLEST / MEAN", least=7),
        Column("BY BYTES", least=7),
        Column("KEYS MOVE", right=True),
        Column("RECORDS MOVE", right=True),
    )
    rows = [
        (
            f"{case.partitions:,}{' (now)' if case.partitions == len(topic.partitions) else ''}",
            format_estimate(case.max_mean_ratio, ratio),
            ratio(case.byte_max_mean_ratio.value),
            percent(case.keys_moved),
            percent(case.records_moved.value),
        )
        for case in topic.what_if
    ]
    return table(columns, rows, width)


def member_table(group: GroupResult, width: int | None, *, verbose: bool) -> Text:
    """Lay out the predicted share of each member of a group, with bars."""
    columns = [Column("MEMBER", right=True), Column("SHARE", right=True), Column("PARTITIONS", least=10)]
    shares = [member.share for member in group.members]
    mean = math.fsum(shares) / len(shares)
    numbered = list(enumerate(group.members, 1))
    chosen = select_excerpt(
        numbered, lambda pair: pair[1].share, most=None if verbose else MOST, last=_EMPTIEST
    )
    rows = [_member_row(*pair) for pair in chosen.first]
    bars: list[float | None] = [pair[1].share for pair in chosen.first]
    if chosen.left_out:
        left_out_shares = [pair[1].share for pair in chosen.left_out]
        rows.append(
            (
                f"… {len(left_out_shares):,} more",
                percent(math.fsum(left_out_shares)),
                _format_range(left_out_shares),
            )
        )
        rows += [_member_row(*pair) for pair in chosen.last]
        bars += [None, *(pair[1].share for pair in chosen.last)]
    scale = Scale(max(shares), mean, _bar_room(columns, rows, width))
    columns.append(Column(f"{MARK} mean {percent(mean)}", least=_SHORTEST_BAR))
    drawn = ["" if value is None else scale.bar(value) for value in bars]
    return table(columns, [[*row, bar] for row, bar in zip(rows, drawn, strict=True)], width)


class _PartitionColumns:
    """The columns of partitions: only figures that are known and differ from the others."""

    def __init__(self, topic: TopicResult, width: int | None, created_at: str) -> None:
        partitions = topic.partitions
        self._created_at = created_at
        self._topic = topic
        self._kept = any(p.kept_from for p in partitions)
        self._interval = (width is None or width >= _WIDE) and not all(is_exact(p.share) for p in partitions)
        # Offsets differ from records where logs were compacted, or have markers of transactions.
        self._offsets = any(p.log_records != round(p.records.value) for p in partitions)
        self._disk = any(p.log_bytes is not None for p in partitions)
        self.columns = [Column("PARTITION", right=True), Column("SHARE", right=True)]
        self.columns += [Column("95 % INTERVAL")] if self._interval else []
        self.columns += [Column("NOW", right=True)] if topic.now is not None else []
        self.columns += [Column("RECORDS", right=True)]
        self.columns += [Column("OFFSETS", right=True)] if self._offsets else []
        self.columns += [Column("BYTES", right=True)]
        self.columns += [Column("KEPT FOR", right=True)] if self._kept else []
        self.columns += [Column("ON DISK", right=True)] if self._disk else []

    def row(self, partition: PartitionResult) -> list[str]:
        """Return the cells of a partition."""
        cells = [str(partition.partition), percent(partition.share.value)]
        cells += [interval(partition.share, percent)] if self._interval else []
        cells += [format_now(self._topic, partition)] if self._topic.now is not None else []
        cells += [count(partition.records.value)]
        cells += [count(partition.log_records)] if self._offsets else []
        cells += [size(partition.bytes.value)]
        cells += [format_retention(partition, self._created_at)] if self._kept else []
        return cells + ([size(partition.log_bytes)] if self._disk else [])

    def rest(self, left_out: Sequence[PartitionResult]) -> list[str]:
        """Return the cells of left-out partitions, summed."""
        cells = [f"… {len(left_out):,} more", percent(math.fsum(p.share.value for p in left_out))]
        cells += [""] if self._interval else []
        if self._topic.now is not None:
            shares = self._topic.now.shares
            cells += [percent(math.fsum(shares[p.partition].value for p in left_out))]
        cells += [count(math.fsum(p.records.value for p in left_out))]
        cells += [count(sum(p.log_records for p in left_out))] if self._offsets else []
        cells += [size(math.fsum(p.bytes.value for p in left_out))]
        cells += [""] if self._kept else []
        known = [p.log_bytes for p in left_out if p.log_bytes is not None]
        return cells + ([size(sum(known) if known else None)] if self._disk else [])


def _member_row(number: int, member: MemberShare) -> tuple[str, str, str]:
    return str(number), percent(member.share), numbers(member.partitions)


def _draw_bar(scale: Scale, partition: PartitionResult, fullest: bool) -> Cell:
    return Cell(scale.bar(partition.share.value), "yellow" if fullest else "")


def _format_range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    ends = interval(Estimate(high, low, high), percent)
    return f"{ends or percent(low)} each"


def _bar_room(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> int:
    """Return the characters that the other columns leave for bars."""
    if width is None:
        return _LONGEST_BAR
    # Bars get what is left, but not all of a wide terminal: their ends would be far from the figures.
    used = sum(
        max(len(column.header), *(len(printable(row[place])) for row in rows)) + _GAP
        for place, column in enumerate(columns)
    )
    return max(_SHORTEST_BAR, min(_LONGEST_BAR, width - used))

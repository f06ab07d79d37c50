"""Arrivals of records in partitions, as a table for people and JSON for programs."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from kafkaform.core.units import coarse_duration
from kafkaform.core.wording import MAX_LISTED, counted
from kafkaform.core.wording import listed as listed_names
from kafkaform.report.document import Column, Paragraph, ReportDocument, Role, Section, Table, TextSpan
from kafkaform.report.page import Page, render_page
from spark_validation import wording
from spark_validation.arrivals import Spread, TopicArrivals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaform.report.document import Block, Row

_BEFORE = "Before"
_COLUMNS = (
    Column("topic", least=12),
    Column("Partitions", right=True, rank=1),
    Column("Period", least=9),
    Column("Records", right=True, rank=2),
    Column("Records/s", right=True),
    Column("Max/mean", right=True),
    Column("Partition", right=True),
    Column("All time", right=True, rank=3),
    Column(_BEFORE, right=True),
    Column("", least=8),
)
_ROLES = {Spread.UNEVEN: Role.BAD, Spread.UNKNOWN: Role.WARNING}
_NOTHING = "-"


def render_arrivals(
    arrivals: Sequence[TopicArrivals],
    *,
    verbose: bool = False,
    width: int | None = None,
    earlier: Mapping[str, float] | None = None,
) -> Page:
    """Render the topics that are uneven or unknown, notes on them, and a count of each kind.

    Args:
        arrivals: The topics in the order of the report.
        verbose: List the even topics too.
        width: The width of the terminal in columns; None if the output is no terminal.
        earlier: The last stored ratio by topic; None leaves out the column.
    """
    # Even topics, and those with too little data, need no attention.
    listed = [topic for topic in arrivals if verbose or topic.spread in _ROLES]
    blocks: list[Block | Section[str]] = []
    if listed:
        columns = [column for column in _COLUMNS if earlier is not None or column.header != _BEFORE]
        blocks.append(Table(columns, [_row(topic, earlier) for topic in listed]))
    names: dict[str, list[str]] = defaultdict(list)
    # Equal notes of several topics are one line with their names.
    for topic in listed:
        for note in list_notes(topic):
            names[note].append(topic.name)
    notes = [f"{listed_names(topics)}: {note}" for note, topics in names.items()]
    if len(notes) > MAX_LISTED:
        notes[MAX_LISTED:] = [f"… {counted(len(notes) - MAX_LISTED, 'more note')} (--format json has them)"]
    hint = " (--verbose lists all)" if len(listed) < len(arrivals) else ""
    parts = count_spreads(arrivals)
    summary = f"Arrivals in {counted(len(arrivals), 'topic')}: {', '.join(parts)}{hint}."
    blocks.append(Section(notes, lambda note: Paragraph(TextSpan(note, Role.WARNING))))
    document = ReportDocument("", blocks, summary=TextSpan(summary, Role.STRONG), indent=0)
    return render_page(document, width=width)


def count_spreads(arrivals: Iterable[TopicArrivals]) -> list[str]:
    """Return the number of topics of each spread, in words."""
    counts = Counter(topic.spread for topic in arrivals)
    return [f"{counts[spread]:,} {spread}" for spread in Spread if counts[spread]]


def list_notes(topic: TopicArrivals) -> list[str]:
    """Return the caveats about the figures of a topic."""
    if not topic.counts:
        return [f"not known, because {topic.unknown}"]
    notes = []
    if topic.unknown is not None:
        notes.append(f"counted since the topic was made, because {topic.unknown}")
    elif topic.emptied and not topic.since_made:
        notes.append(wording.note_emptied_partitions(topic))
    ratio = topic.periods[0].estimated_ratio
    if topic.least is not None and ratio is not None and not topic.transactional:
        notes.append(
            "records are not in the order of their times, or some have been removed: the ratio is "
            f"between {ratio.low:.2f} and {ratio.high:.2f}"
        )
    if topic.transactional:
        notes.append(wording.MARKERS_COUNT)
    return notes


def _row(topic: TopicArrivals, earlier: Mapping[str, float] | None) -> Row:
    rate = _NOTHING if topic.per_second is None else f"{topic.per_second:,.1f}"
    return (
        topic.name,
        str(len(topic.ends)),
        _format_period(topic),
        f"{topic.total:,}" if topic.counts else _NOTHING,
        rate,
        _format_ratio(topic.ratio),
        _NOTHING if topic.fullest is None else str(topic.fullest),
        _format_ratio(topic.ratio_since_made),
        *([] if earlier is None else [_format_ratio(earlier.get(topic.name))]),
        TextSpan(str(topic.spread), _ROLES.get(topic.spread, Role.TEXT)),
    )


def _format_period(topic: TopicArrivals) -> str:
    if topic.since_made:
        return "all records" if topic.per_second is None else "since the first record"
    return _NOTHING if topic.period_ms is None else f"last {coarse_duration(topic.period_ms)}"


def _format_ratio(ratio: float | None) -> str:
    return _NOTHING if ratio is None else f"{ratio:.2f}"


def arrivals_to_json(arrivals: Sequence[TopicArrivals], *, earlier: Mapping[str, float] | None = None) -> str:
    """Return all topics as JSON; unknown figures are null."""
    topics = [_topic_to_json(topic, (earlier or {}).get(topic.name)) for topic in arrivals]
    return json.dumps({"format_version": 1, "topics": topics}, indent=2)


def _topic_to_json(topic: TopicArrivals, earlier: float | None) -> dict[str, Any]:
    ratio = topic.periods[0].estimated_ratio if topic.counts else None
    return {
        "name": topic.name,
        "spread": str(topic.spread),
        "period_ms": topic.period_ms,
        "since_ms": topic.since_ms,
        "unknown": topic.unknown,
        "since_made": topic.since_made,
        "records": topic.total if topic.counts else None,
        "records_per_second": topic.per_second,
        "max_over_mean": topic.ratio,
        "max_over_mean_low": None if ratio is None else ratio.low,
        "max_over_mean_high": None if ratio is None else ratio.high,
        "max_over_mean_since_made": topic.ratio_since_made,
        "max_over_mean_before": earlier,
        "fullest_partition": topic.fullest,
        "emptied_partitions": list(topic.emptied),
        "transactional": topic.transactional,
        "notes": list_notes(topic),
        "partitions": [
            {"records": topic.counts[number] if topic.counts else None, "records_since_made": end}
            for number, end in enumerate(topic.ends)
        ],
    }

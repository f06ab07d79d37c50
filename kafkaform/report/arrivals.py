"""Arrivals of records in partitions, as a table for people and JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kafkaform.core.printable import printable
from kafkaform.core.units import coarse_duration
from kafkaform.core.wording import FEW, counted
from kafkaform.report.page import Cell, Column, fit_columns, table
from spark_validation.arrivals import Spread, TopicArrivals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.report.page import Row

_COLUMNS = (
    Column("TOPIC", least=12),
    Column("PARTITIONS", right=True, rank=1),
    Column("PERIOD", least=9),
    Column("RECORDS", right=True, rank=2),
    Column("RECORDS/S", right=True),
    Column("MAX/MEAN", right=True),
    Column("FULLEST", right=True),
    Column("EVER", right=True, rank=3),
    Column("", least=8),
)
_STYLES = {Spread.UNEVEN: "red", Spread.UNKNOWN: "yellow"}
_NOTHING = "-"


def render_arrivals(
    found: Sequence[TopicArrivals], *, verbose: bool = False, width: int | None = None
) -> Text:
    """Write the uneven topics, those that are not known, and how many there are of each.

    Args:
        found: The topics, in the order of the report.
        verbose: List the even topics, too.
        width: The characters of a line of the terminal; None where no terminal reads it.
    """
    listed = [topic for topic in found if verbose or topic.spread in _STYLES]
    text = Text()
    if listed:
        rows = [_row(topic) for topic in listed]
        kept = fit_columns(_COLUMNS, rows, width)
        columns = [_COLUMNS[i] for i in kept]
        text.append_text(table(columns, [[row[i] for i in kept] for row in rows], width)).append("\n\n")
    reasons = [(topic.name, topic.unknown) for topic in listed if topic.unknown]
    for name, reason in reasons[:FEW]:
        text.append(f"{printable(name)}: not known, because {reason}\n", "yellow")
    if len(reasons) > FEW:
        text.append(f"… {counted(len(reasons) - FEW, 'more topic')} not known\n", "yellow")
    counts = Counter(topic.spread for topic in found)
    parts = [f"{counts[spread]:,} {spread}" for spread in Spread if counts[spread]]
    hint = " (--verbose lists all)" if len(listed) < len(found) else ""
    return text.append(f"Arrivals in {counted(len(found), 'topic')}: {', '.join(parts)}{hint}.", "bold")


def _row(topic: TopicArrivals) -> Row:
    rate = _NOTHING if topic.per_second is None else f"{topic.per_second:,.1f}"
    return (
        topic.name,
        str(len(topic.ends)),
        _period(topic),
        f"{topic.total:,}" if topic.counts else _NOTHING,
        rate,
        _times(topic.ratio),
        _NOTHING if topic.fullest is None else str(topic.fullest),
        _times(topic.ratio_since_made),
        Cell(str(topic.spread), _STYLES.get(topic.spread, "")),
    )


def _period(topic: TopicArrivals) -> str:
    if topic.since_made:
        return "since made"
    return _NOTHING if topic.period_ms is None else f"last {coarse_duration(topic.period_ms)}"


def _times(ratio: float | None) -> str:
    return _NOTHING if ratio is None else f"{ratio:.2f}"


def arrivals_to_json(found: Sequence[TopicArrivals]) -> str:
    """Write all topics for programs; what is not known is null."""
    return json.dumps({"format_version": 1, "topics": [_topic(topic) for topic in found]}, indent=2)


def _topic(topic: TopicArrivals) -> dict[str, Any]:
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
        "max_over_mean_since_made": topic.ratio_since_made,
        "fullest_partition": topic.fullest,
        "partitions": [
            {"records": topic.counts[number] if topic.counts else None, "records_since_made": end}
            for number, end in enumerate(topic.ends)
        ],
    }

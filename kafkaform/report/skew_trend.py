"""A topic's figures over earlier reports of the same cluster."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkaform.report.skew_values import is_empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_validation.results import SkewReport, TopicResult


@dataclass(frozen=True, slots=True)
class Moment:
    """A topic as one report saw it.

    Attributes:
        time: Seconds since 1970.
        created_at: The report's own time.
        topic: What it said.
    """

    time: float
    created_at: str
    topic: TopicResult


@dataclass(frozen=True, slots=True)
class Trend:
    """A topic over time, oldest first, the present report last; `left_out` moments did not fit."""

    moments: tuple[Moment, ...]
    left_out: int = 0


def seconds(created_at: str) -> float:
    """A report's time in seconds since 1970; a time without a zone is UTC.

    Raises:
        ValueError: It is no time.
    """
    time = datetime.fromisoformat(created_at)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def trends(report: SkewReport, history: Iterable[SkewReport], most: int) -> dict[str, Trend]:
    """The trend of every topic of a report that an earlier one has, too, of at most `most` moments.

    Reports of another cluster and reports that are not older than this one say nothing of its past.
    Topics without records then have no figures, so those moments are left out.
    """
    now = seconds(report.created_at)
    earlier = [
        (time, one)
        for one in history
        if one.cluster_id == report.cluster_id and (time := seconds(one.created_at)) < now
    ]
    found: dict[str, list[Moment]] = {topic.name: [] for topic in report.topics}
    for time, one in [*sorted(earlier, key=lambda pair: pair[0]), (now, report)]:
        for topic in one.topics:
            if topic.name in found and not is_empty(topic):
                found[topic.name].append(Moment(time, one.created_at, topic))
    return {name: _fitting(moments, most) for name, moments in found.items() if len(moments) > 1}


def _fitting(moments: Sequence[Moment], most: int) -> Trend:
    """Of neighbours that do not all fit the most skewed one; the last moment always stays."""
    size = -(-(len(moments) - 1) // (most - 1))
    past = moments[:-1]
    kept = [
        max(past[start : start + size], key=lambda moment: moment.topic.by_records.max_mean_ratio.value)
        for start in range(0, len(past), size)
    ]
    return Trend((*kept, moments[-1]), len(past) - len(kept))

"""A topic's figures over earlier reports of the same cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_validation.metrics import DISTINCT_KEYS, HOTTEST_KEY_SHARE, MAX_MEAN_RATIO, metric_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from spark_validation.metrics import MetricRow
    from spark_validation.results import Estimate, SkewReport

SHOWN = (MAX_MEAN_RATIO, HOTTEST_KEY_SHARE, DISTINCT_KEYS)
"""The metrics that a trend shows."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A topic as one report saw it.

    Attributes:
        time: Of the report.
        metrics: What it said of SHOWN.
    """

    time: datetime
    metrics: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class Trend:
    """A topic over time, oldest first, the present report last; `left_out` moments did not fit."""

    moments: tuple[Moment, ...]
    left_out: int = 0


def trends(report: SkewReport, history: Iterable[MetricRow], most: int) -> dict[str, Trend]:
    """The trend of every topic of a report that earlier rows have, too, of at most `most` moments.

    Rows of another cluster and rows that are not older than this report say nothing of its past.
    Topics without records then have no figures, so those moments are left out.
    """
    present = metric_rows(report)
    now = max((row.sampled_at for row in present), default=None)
    earlier = (row for row in history if now is not None and row.sampled_at < now)
    found: dict[str, dict[datetime, dict[str, Estimate]]] = {topic.name: {} for topic in report.topics}
    for row in (*earlier, *present):
        known = row.topic in found and row.cluster_id == report.cluster_id
        if known and row.partition is None and row.metric in SHOWN:
            found[row.topic].setdefault(row.sampled_at, {})[row.metric] = row.estimate
    moments = {
        name: [Moment(time, at[time]) for time in sorted(at) if len(at[time]) == len(SHOWN)]
        for name, at in found.items()
    }
    return {
        name: _fitting(several, most)
        for name, several in moments.items()
        if len(several) > 1 and several[-1].time == now
    }


def _fitting(moments: Sequence[Moment], most: int) -> Trend:
    """Of neighbours that do not all fit the most skewed one; the last moment always stays."""
    size = -(-(len(moments) - 1) // (most - 1))
    past = moments[:-1]
    kept = [
        max(past[start : start + size], key=lambda moment: moment.metrics[MAX_MEAN_RATIO].value)
        for start in range(0, len(past), size)
    ]
    return Trend((*kept, moments[-1]), len(past) - len(kept))

"""Counts of the records written to partitions, from offsets alone: no record is read.

Offsets count arrivals whatever a log still holds: retention, deletion of records and compaction take records
away, and no offset. Markers of transactions and records of aborted ones count, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.core.arrivals import FEWEST_RECORDS, Spread, TopicArrivals

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkaform.cluster.protocol import PartitionReader
    from kafkaform.core.groups import LogSpan
    from kafkaform.core.layout import TopicPartition

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
PERIODS_MS = (30 * _DAY_MS, 7 * _DAY_MS, _DAY_MS, 6 * _HOUR_MS, _HOUR_MS, 10 * _MINUTE_MS, _MINUTE_MS)
"""The periods that are tried, the longest first, in milliseconds."""


@dataclass(slots=True)
class _Search:
    """The search for the period of one topic."""

    name: str
    spans: Sequence[LogSpan]
    period_ms: int | None = None
    counts: tuple[int, ...] = ()
    per_second: float | None = None
    begins: tuple[int, ...] = field(default=())

    @property
    def is_done(self) -> bool:
        return bool(self.counts) and self.per_second is not None

    def take(self, spans: Sequence[LogSpan], period_ms: int) -> None:
        """Take the offsets at the start of a period, if the log of every partition reaches back to it.

        It does if a record before the start is kept, or if no record was ever removed.
        """
        begins = [span.at if span.at is not None else span.end for span in spans]
        if not all(span.start == 0 or at > span.start for span, at in zip(spans, begins, strict=True)):
            return
        counts = tuple(max(0, span.end - at) for span, at in zip(spans, begins, strict=True))
        if not self.counts:
            self.period_ms, self.counts, self.begins = period_ms, counts, tuple(begins)
        if any(begins) and self.per_second is None:
            # The topic is older than the period: only then the period is the time that the records took.
            self.per_second = sum(counts) * 1000 / period_ms


def read_arrivals(
    cluster: PartitionReader, topics: Mapping[str, int], now_ms: int, since_ms: int | None = None
) -> list[TopicArrivals]:
    """Count the records that arrived in each partition, in the longest period that all logs of a topic cover.

    A few requests to each leader, however many topics there are.

    Args:
        cluster: The cluster.
        topics: The partition count of each topic.
        now_ms: The time, in milliseconds since 1970.
        since_ms: The start of the period to try first; None for 30 days.

    Returns:
        The topics, the uneven ones first, by ratio times rate; then by name.

    Raises:
        ClusterError: The leaders cannot be asked.
    """
    ends = cluster.log_spans(_partitions(topics, topics))
    searches = [
        _Search(name, [ends[name, number] for number in range(count)])
        for name, count in topics.items()
        if all((name, number) in ends for number in range(count))
    ]
    longest = PERIODS_MS[0] if since_ms is None else max(1, now_ms - since_ms)
    for period_ms in (longest, *(period for period in PERIODS_MS if period < longest)):
        asked = {search.name: search for search in searches if not search.is_done and _has_enough(search)}
        if not asked:
            break
        spans = cluster.log_spans(_partitions(asked, topics), now_ms - period_ms)
        for name, search in asked.items():
            answers = [spans.get((name, number)) for number in range(topics[name])]
            if None not in answers:
                search.take([span for span in answers if span is not None], period_ms)
    by_name = {search.name: search for search in searches}
    results = [
        _finish(name, by_name.get(name), [ends.get((name, number)) for number in range(count)])
        for name, count in topics.items()
    ]
    return sorted(results, key=lambda topic: (topic.spread is not Spread.UNEVEN, -topic.weight, topic.name))


def _has_enough(search: _Search) -> bool:
    """Whether there ever were so many records that a period is worth looking for."""
    return sum(span.end for span in search.spans) >= FEWEST_RECORDS


def _finish(name: str, search: _Search | None, spans: Sequence[LogSpan | None]) -> TopicArrivals:
    ends = tuple(None if span is None else span.end for span in spans)
    if search is None:
        return TopicArrivals(name, None, (), ends)
    if not _has_enough(search):
        return TopicArrivals(name, None, tuple(span.end for span in search.spans), ends, since_made=True)
    since_made = bool(search.counts) and not any(search.begins)
    period_ms = None if since_made else search.period_ms
    return TopicArrivals(name, period_ms, search.counts, ends, search.per_second, since_made)


def _partitions(names: Collection[str], counts: Mapping[str, int]) -> list[TopicPartition]:
    return [(name, number) for name in names for number in range(counts[name])]

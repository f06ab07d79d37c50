"""How the records written to topics spread over partitions, from offsets alone: nothing is read.

Offsets count arrivals whatever a log still holds: retention, deletion of records and compaction take records
away, and no offset. Markers of transactions and records of aborted ones count, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import log, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkaform.cluster.protocol import PartitionReader
    from kafkaform.core.groups import LogSpan
    from kafkaform.core.layout import TopicPartition

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
PERIODS_MS = (
    *(days * _DAY_MS for days in (30, 7, 2, 1)),
    *(hours * _HOUR_MS for hours in (12, 6, 3, 1)),
    *(minutes * _MINUTE_MS for minutes in (30, 10, 1)),
)
"""The periods that are tried, the longest first, in milliseconds."""
FEWEST_RECORDS = 300
"""Below so many records in the period, nothing is said of how they spread."""
_BY_CHANCE = 0.05
EVEN_RATIO = 1.25
"""Up to this ratio of the fullest partition to the mean, a topic counts as even."""


class Spread(StrEnum):
    """How the arrivals of a topic spread over its partitions."""

    UNEVEN = "uneven"
    EVEN = "even"
    LITTLE = "too little data"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class TopicArrivals:
    """The records that were written to a topic.

    Attributes:
        name: The topic.
        period_ms: The period up to now that the counts are of; None if the logs of some partition do not
            reach back over any period, or if it is the time since the topic was made (`since_made`).
        counts: The records that arrived in each partition in the period; empty if there is none.
        ends: The records that ever arrived in each partition; None for one that could not be read.
        per_second: Records a second in the period; None if it is not known.
        since_made: Whether the counts are of the whole time since the topic was made.
    """

    name: str
    period_ms: int | None
    counts: tuple[int, ...]
    ends: tuple[int | None, ...]
    per_second: float | None = None
    since_made: bool = False

    @property
    def total(self) -> int:
        """The records of all partitions in the period."""
        return sum(self.counts)

    @property
    def ratio(self) -> float | None:
        """The fullest partition over the mean, in the period; None if nothing arrived or it is not known."""
        return _ratio(self.counts)

    @property
    def ratio_since_made(self) -> float | None:
        """The same for all records that ever arrived; None if a partition could not be read."""
        known = [end for end in self.ends if end is not None]
        return _ratio(known) if len(known) == len(self.ends) else None

    @property
    def fullest(self) -> int | None:
        """The partition with the most arrivals in the period."""
        return max(range(len(self.counts)), key=self.counts.__getitem__) if self.total else None

    @property
    def spread(self) -> Spread:
        """How arrivals spread: even by the ratio, or no more uneven than random placement makes them.

        By chance, the largest of n Poisson counts of mean m exceeds m + t with a probability of at most 5 %,
        where t = L/3 + sqrt(L²/9 + 2mL) and L = ln(n / 0.05): Bernstein's inequality for each count, and
        Boole's for all of them.
        """
        if not self.counts or None in self.ends:
            return Spread.UNKNOWN
        if self.total < FEWEST_RECORDS:
            return Spread.LITTLE
        mean = self.total / len(self.counts)
        limit = log(len(self.counts) / _BY_CHANCE)
        by_chance = mean + limit / 3 + sqrt(limit**2 / 9 + 2 * mean * limit)
        even = max(self.counts) <= max(EVEN_RATIO * mean, by_chance)
        return Spread.EVEN if even else Spread.UNEVEN

    @property
    def weight(self) -> float:
        """The rank of an uneven topic: ratio times records a second."""
        return (self.ratio or 0.0) * (self.per_second or 0.0)


def _ratio(counts: Sequence[int]) -> float | None:
    total = sum(counts)
    return max(counts) * len(counts) / total if total else None


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
        asked = {search.name: search for search in searches if not search.is_done and _any_record(search)}
        if not asked:
            break
        spans = cluster.log_spans(_partitions(asked, topics), now_ms - period_ms)
        for name, search in asked.items():
            answers = [spans.get((name, number)) for number in range(topics[name])]
            if None not in answers:
                search.take([span for span in answers if span is not None], period_ms)
    by_name = {search.name: search for search in searches}
    results = [
        _finish(name, count, by_name.get(name), [ends.get((name, number)) for number in range(count)])
        for name, count in topics.items()
    ]
    return sorted(results, key=lambda topic: (topic.spread is not Spread.UNEVEN, -topic.weight, topic.name))


def _any_record(search: _Search) -> bool:
    return any(span.end for span in search.spans)


def _finish(name: str, count: int, search: _Search | None, spans: Sequence[LogSpan | None]) -> TopicArrivals:
    ends = tuple(None if span is None else span.end for span in spans)
    if search is None:
        return TopicArrivals(name, None, (), ends)
    if not _any_record(search):
        return TopicArrivals(name, None, (0,) * count, ends, since_made=True)
    since_made = bool(search.counts) and not any(search.begins)
    period_ms = None if since_made else search.period_ms
    return TopicArrivals(name, period_ms, search.counts, ends, search.per_second, since_made)


def _partitions(names: Collection[str], counts: Mapping[str, int]) -> list[TopicPartition]:
    return [(name, number) for name in names for number in range(counts[name])]

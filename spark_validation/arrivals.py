"""The spread of the records written to topics over their partitions, from offsets alone.

Offsets count every record that arrived: retention, deletion and compaction remove records, but no offsets.
Transaction markers and aborted records have offsets, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import log, sqrt
from typing import TYPE_CHECKING, TypeAlias

from spark_validation import wording
from spark_validation.policy import FEWEST_RECORDS
from spark_validation.results import ArrivalPeriod, ratio_of

if TYPE_CHECKING:
    from collections.abc import Sequence

TopicPartition: TypeAlias = tuple[str, int]
FindOffsets: TypeAlias = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, tuple[int, int]]]
"""Takes a time for each partition (ms since 1970); returns the offset and time of the first record that is
not older. Partitions without such a record are left out."""

EVEN_RATIO = 1.25
"""Up to this ratio of the fullest partition to the mean, a topic counts as even."""
MUCH_MORE = 2.0
"""From this multiple of the excess over the mean by records, the excess by bytes is reported first."""
_BY_CHANCE = 0.05
_TOLERANCE_MS = 60_000
"""The most by which producers' clocks may be ahead."""
# A partition that got none of so many records expected by its rate did not exist: by chance, that has a
# probability of exp(-20).
_MISSED = 20.0
FEW_KEPT = 20
"""A log that keeps fewer records than this does not limit the period: those of a steady stream begin within
1/20 of the time for which they are kept."""
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
RECENT_MS: Mapping[str, int] = {"hour": HOUR_MS, "day": DAY_MS}
"""The periods that are counted besides the common one, in milliseconds."""
COMMON, MADE = "common", "made"
"""The names of the period that all logs cover, and of the time since the topic was made."""


class Spread(StrEnum):
    """A verdict on the arrivals of a topic."""

    UNEVEN = "uneven"
    EVEN = "even"
    LITTLE = "too little data"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The log of one partition.

    Attributes:
        start: The first offset that is kept.
        end: The offset after the last record.
    """

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicArrivals:
    """The records that were written to a topic.

    Attributes:
        name: The topic.
        period_ms: The length of the common period, in milliseconds; None if it is the time since the topic
            was made (`since_made`), or if a partition could not be read.
        counts: The records that arrived in each partition in the period; empty if one could not be read.
        ends: The records that ever arrived in each partition; None for one that could not be read.
        per_second: Records a second in the period; None if it is not known.
        since_made: Whether the period is the whole time since the topic was made.
        since_ms: The start of the period, in milliseconds since 1970; None as `period_ms`.
        until_ms: Its end: when the offsets were read.
        starts: The first offset of each partition from which on all logs cover the same time, whether
            partitions were added since or not.
        kept_since_ms: The time of the first record that each partition keeps; None for one that keeps none.
        limited_by: The partition whose log begins last, where that limits the period.
        added_from: The first of the partitions that were added, where the period begins with that.
        emptied: Partitions that keep next to no record, and had some: what was written to them is not known,
            if they were emptied by hand.
        unknown: Why no period that all logs cover is known; None if one is. Then what was written since the
            topic was made is counted, unless a partition could not be read.
        recent: The last hour and the last day, where all logs cover them, and the time since the topic was
            made.
        transactional: Whether transactions write to it, whose markers count as arrivals; None if that is not
            known.
    """

    name: str
    period_ms: int | None
    counts: tuple[int, ...]
    ends: tuple[int | None, ...]
    per_second: float | None = None
    since_made: bool = False
    since_ms: int | None = None
    until_ms: int = 0
    starts: tuple[int, ...] = ()
    kept_since_ms: tuple[int | None, ...] = ()
    limited_by: int | None = None
    added_from: int | None = None
    emptied: tuple[int, ...] = ()
    unknown: str | None = None
    recent: tuple[ArrivalPeriod, ...] = ()
    transactional: bool | None = None

    @property
    def total(self) -> int:
        """The records of all partitions in the period."""
        return sum(self.counts)

    @property
    def ratio(self) -> float | None:
        """The fullest partition over the mean, in the period; None if nothing arrived or it is not known."""
        return ratio_of(self.counts)

    @property
    def ratio_since_made(self) -> float | None:
        """The ratio of all records that ever arrived; None if a partition could not be read."""
        known = [end for end in self.ends if end is not None]
        return ratio_of(known) if len(known) == len(self.ends) else None

    @property
    def fullest(self) -> int | None:
        """The partition with the most arrivals in the period."""
        return max(range(len(self.counts)), key=self.counts.__getitem__) if self.total else None

    @property
    def is_trimmed(self) -> bool:
        """Return whether records of the period have been removed, so that the log has other counts."""
        emptied = (end and kept is None for end, kept in zip(self.ends, self.kept_since_ms, strict=False))
        return bool(self.counts) and (self.unknown is not None or (self.since_made and any(emptied)))

    @property
    def spread(self) -> Spread:
        """The verdict on the period."""
        return judge_spread(self.counts) if self.counts and None not in self.ends else Spread.UNKNOWN

    @property
    def weight(self) -> float:
        """The rank of an uneven topic: ratio times records a second."""
        return (self.ratio or 0.0) * (self.per_second or 0.0)

    @property
    def periods(self) -> tuple[ArrivalPeriod, ...]:
        """The common period first, then the others."""
        if not self.counts:
            return self.recent
        return (ArrivalPeriod(COMMON, self.since_ms, self.until_ms, self.counts), *self.recent)


def judge_spread(counts: Sequence[int]) -> Spread:
    """Judge arrivals: even by the ratio, or no more uneven than random placement makes them.

    By chance, the largest of n Poisson counts of mean m exceeds m + t with a probability of at most 5 %,
    where t = L/3 + sqrt(L²/9 + 2mL) and L = ln(n / 0.05): Bernstein's inequality for each count, and Boole's
    for all of them.

    Args:
        counts: The records of each partition.
    """
    total = sum(counts)
    if total < FEWEST_RECORDS:
        return Spread.LITTLE
    mean = total / len(counts)
    limit = log(len(counts) / _BY_CHANCE)
    by_chance = mean + limit / 3 + sqrt(limit**2 / 9 + 2 * mean * limit)
    even = max(counts) <= max(EVEN_RATIO * mean, by_chance)
    return Spread.EVEN if even else Spread.UNEVEN


# --- the period ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _PeriodSearch:
    """The search for the period of one topic."""

    name: str
    logs: Sequence[LogEnds]
    firsts: tuple[int | None, ...] = ()
    since_ms: int | None = None
    covered_ms: int | None = None
    limited_by: int | None = None
    added_from: int | None = None
    unknown: str | None = None
    counts: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def choose(self, now_ms: int, since_ms: int | None) -> None:
        """Choose the period: after the latest first record of the logs that lost records.

        A log that begins at offset 0 still has every record. One that is empty, or nearly so, does not limit
        the period: retention removed its records, all older than those of other logs, or somebody deleted
        them, and its first record does not show how far it reaches back. The period begins a millisecond
        after a first record, as others of the same millisecond, or of its batch with the broker's time, may
        have been removed.
        """
        trimmed = {
            number: first + 1
            for number, (log_ends, first) in enumerate(zip(self.logs, self.firsts, strict=True))
            if log_ends.start > 0 and first is not None
        }
        limiting = {number: first for number, first in trimmed.items() if not self._keeps_little(number)}
        trimmed = limiting or trimmed
        if trimmed:
            self.limited_by = max(trimmed, key=trimmed.__getitem__)
            self.since_ms = trimmed[self.limited_by]
        if since_ms is not None and since_ms > (self.since_ms or 0):
            self.since_ms, self.limited_by = since_ms, None
        self.covered_ms = self.since_ms
        self._find_added(now_ms)
        if self.since_ms is not None and self.since_ms > now_ms + _TOLERANCE_MS:
            self.unknown = wording.explain_future_time(self.limited_by or 0, first=True)
            self.since_ms = None

    def _find_added(self, now_ms: int) -> None:
        """Find added partitions: the last ones, whose records all begin later than those of the others.

        The period then begins with them, if it still has enough records.
        """
        # Kafka adds partitions at the end only, so the added ones are the last.
        for added in range(len(self.logs) - 1, 0, -1):
            before = [first for first in self.firsts[:added] if first is not None]
            later = self.firsts[added:]
            if not before or None in later or any(ends.start for ends in self.logs[added:]):
                continue
            began = min(first for first in later if first is not None)
            earlier = max(max(before), self.since_ms or 0)
            if not earlier < began <= now_ms:
                continue
            duration = max(1, now_ms - began)
            arrived = [ends.end / duration * (began - earlier) for ends in self.logs[added:]]
            if min(arrived) >= _MISSED and sum(ends.end for ends in self.logs[added:]) >= FEWEST_RECORDS:
                self.since_ms, self.added_from, self.limited_by = began, added, None
                return

    def _keeps_little(self, number: int) -> bool:
        ends = self.logs[number]
        return ends.start > 0 and ends.end - ends.start < FEW_KEPT

    def list_emptied(self) -> tuple[int, ...]:
        """Return the partitions that keep next to no record, and had some."""
        return tuple(number for number in range(len(self.logs)) if self._keeps_little(number))

    def covers(self, time_ms: int) -> bool:
        """Return whether all logs have what was written since a time."""
        return all(
            ends.start == 0 or self._keeps_little(number) or (first is not None and first < time_ms)
            for number, (ends, first) in enumerate(zip(self.logs, self.firsts, strict=True))
        )

    def choose_times(self, now_ms: int, *, recent: bool) -> list[int]:
        """Return the times from which records are counted (ms since 1970)."""
        if self.unknown is not None:
            return []
        times = [now_ms - length for length in RECENT_MS.values()] if recent else []
        covered = [time for time in times if self.covers(time)]
        periods = [time for time in (self.since_ms, self.covered_ms) if time is not None]
        # Unless partitions were added, both periods begin at the same time, which is requested once.
        return list(dict.fromkeys([*periods, *covered]))

    def starts(self) -> tuple[int, ...]:
        """Return the first offset of each log in the period."""
        counts = self.counts[self.covered_ms] if self.unknown is None and self.covered_ms else self.ever
        return tuple(ends.end - count for ends, count in zip(self.logs, counts, strict=True))

    @property
    def ever(self) -> tuple[int, ...]:
        """The records that ever arrived in each partition."""
        return tuple(ends.end for ends in self.logs)

    def take(self, time_ms: int, offsets: Mapping[TopicPartition, tuple[int, int]], now_ms: int) -> None:
        """Count records from the offsets of the first ones that are not older than a time.

        Brokers return the first such record by offset. One with a time in the future may have been written
        before the time asked for, and the next one cannot be found.
        """
        first = [offsets.get((self.name, number), (ends.end, 0)) for number, ends in enumerate(self.logs)]
        ahead = [number for number, (_, at_ms) in enumerate(first) if at_ms > now_ms + _TOLERANCE_MS]
        if not ahead:
            self.counts[time_ms] = tuple(
                max(0, ends.end - max(begin, ends.start))
                for ends, (begin, _) in zip(self.logs, first, strict=True)
            )
        elif time_ms in {self.since_ms, self.covered_ms}:
            self.unknown = wording.explain_future_time(ahead[0], first=False)

    def reject_emptied(self) -> None:
        """Reject a period that looks even where the partition with the most records was emptied.

        Retention empties a partition that is no longer written to; deleting its records by hand also hides
        arrivals in the period. Offsets look the same, so that no topic that may be uneven is called even.
        """
        counts = None if self.since_ms is None else self.counts.get(self.since_ms)
        if self.unknown is not None or counts is None:
            return
        fullest = max(range(len(self.logs)), key=self.ever.__getitem__)
        hidden = judge_spread(counts) is Spread.EVEN and judge_spread(self.ever) is Spread.UNEVEN
        if hidden and self._keeps_little(fullest):
            self.unknown = wording.explain_emptied(fullest, self.ever[fullest])


def find_arrivals(
    logs: Mapping[str, Sequence[LogEnds | None]],
    find_offsets: FindOffsets,
    now_ms: int,
    since_ms: int | None = None,
    *,
    recent: bool = False,
) -> dict[str, TopicArrivals]:
    """Count the records that arrived in each partition in the period that all logs of a topic cover.

    Args:
        logs: The log of each partition, by topic; None for a partition that cannot be read.
        find_offsets: Finds the first records that are not older than given times.
        now_ms: The time, in milliseconds since 1970.
        since_ms: The start of the period, if all logs reach back to it.
        recent: Count the last hour and the last day, too.

    Returns:
        The arrivals of each topic, in the order of `logs`.
    """
    searches = {
        name: _PeriodSearch(name, [log_ends for log_ends in ends if log_ends is not None])
        for name, ends in logs.items()
        if None not in ends
    }
    # An empty log has no first record, and brokers answer such a request with offset -1.
    everywhere = [
        (name, number)
        for name, search in searches.items()
        for number, ends in enumerate(search.logs)
        if ends.end > ends.start
    ]
    # The first record that is not older than 1970 is the first one that is kept.
    firsts = find_offsets(dict.fromkeys(everywhere, 0))
    for name, search in searches.items():
        places = ((name, number) for number in range(len(search.logs)))
        search.firsts = tuple(firsts[place][1] if place in firsts else None for place in places)
        search.choose(now_ms, since_ms)
    times = {name: search.choose_times(now_ms, recent=recent) for name, search in searches.items()}
    # A request has one time for each partition, so that several times take several turns.
    for turn in range(max(map(len, times.values()), default=0)):
        asked = {name: topic_times[turn] for name, topic_times in times.items() if turn < len(topic_times)}
        records = find_offsets({(name, number): asked[name] for name, number in everywhere if name in asked})
        for name, time_ms in asked.items():
            searches[name].take(time_ms, records, now_ms)
    for search in searches.values():
        search.reject_emptied()
    return {name: _finish(name, logs[name], searches.get(name), now_ms) for name in logs}


def _finish(
    name: str, logs: Sequence[LogEnds | None], search: _PeriodSearch | None, now_ms: int
) -> TopicArrivals:
    ends = tuple(None if log_ends is None else log_ends.end for log_ends in logs)
    if search is None:
        return TopicArrivals(name, None, (), ends, unknown=wording.explain_no_leader(ends.index(None)))
    since_ms = search.since_ms if search.unknown is None else None
    ever = search.ever
    counts = ever if since_ms is None else search.counts[since_ms]
    began = min((first for first in search.firsts if first is not None), default=now_ms)
    length_ms = now_ms - (began if since_ms is None else since_ms)
    recent = [
        ArrivalPeriod(label, now_ms - length, now_ms, search.counts[now_ms - length])
        for label, length in RECENT_MS.items()
        # A recent period that is not shorter than the common one would repeat it.
        if now_ms - length in search.counts and length < length_ms
    ]
    if since_ms is not None:
        recent.append(ArrivalPeriod(MADE, None, now_ms, ever))
    return TopicArrivals(
        name,
        None if since_ms is None else length_ms,
        counts,
        ends,
        # No time has passed for a topic that was made in this millisecond.
        sum(counts) * 1000 / length_ms if length_ms > 0 and search.unknown is None else None,
        since_ms is None,
        since_ms,
        now_ms,
        search.starts(),
        search.firsts,
        search.limited_by,
        search.added_from,
        search.list_emptied(),
        search.unknown,
        tuple(recent),
    )

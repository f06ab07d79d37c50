"""The spread of the records written to topics over their partitions, from offsets alone.

Offsets count every record that arrived: retention, deletion and compaction remove records, but no offsets.
Transaction markers and aborted records have offsets, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import log, sqrt
from statistics import fmean
from typing import TYPE_CHECKING

from spark_validation import wording
from spark_validation.policy import MIN_RECORDS
from spark_validation.results import ArrivalPeriod, ratio_of
from spark_validation.time_search import CLOCK_TOLERANCE_MS, EXACT, FEW_RECORDS, KNOWN, LogEnds, TimeSearch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from spark_validation.time_search import Beginning, FindOffsets, ReadRecords, TopicPartition

EVEN_RATIO = 1.25
"""Up to this ratio of the fullest partition to the mean, a topic counts as even."""
MUCH_MORE = 2.0
"""From this multiple of the excess over the mean by records, the excess by bytes is reported first."""
_BY_CHANCE = 0.05
# A partition that got none of so many records expected by its rate did not exist: by chance, that has a
# probability of exp(-20).
_MISSED = 20.0
FEW_KEPT = 20
"""A log that keeps fewer records than this does not limit the period: those of a steady stream begin within
1/20 of the time for which they are kept."""
_FEW_AT_START = 5
"""Of FEW_KEPT records that are expected after the first one, fewer than this make it a late one."""
_STARTS = 8
"""The most late records at the start of a log that are passed over."""
_SEVERAL = 4
"""So many times the usual bytes of its records show that a partition had more of them lately."""
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
class TopicArrivals:
    """The records that were written to a topic.

    Attributes:
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
        kept_from: The first offset that each partition keeps.
        limited_by: The partition whose log begins last, where that limits the period.
        added_from: The first of the partitions that were added, where the period begins with that.
        emptied: Partitions that keep next to no record, and had some: what was written to them is not known,
            if they were emptied by hand.
        unknown: Why no period that all logs cover is known; None if one is. Then what was written since the
            topic was made is counted, unless a partition could not be read.
        recent: The last hour and the last day, where all logs cover them, and the time since the topic was
            made.
        least: The fewest records that each partition may have got; None where `counts` are exact.
        requested: Whether a period was asked for: if it is not known (`unknown`), nor is the spread.
        waits: A partition where the search by time may have met a transaction marker, by period.
        alternative: The arrivals since the last partitions were first written, if it is not known whether
            they were added then; or those of the whole period, if they are taken for added ones.
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
    kept_from: tuple[int, ...] = ()
    limited_by: int | None = None
    added_from: int | None = None
    emptied: tuple[int, ...] = ()
    unknown: str | None = None
    recent: tuple[ArrivalPeriod, ...] = ()
    least: tuple[int, ...] | None = None
    most: tuple[int, ...] | None = None
    requested: bool = False
    waits: Mapping[str, int] = field(default_factory=dict)
    alternative: TopicArrivals | None = None
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
        return bool(self.counts) and (self.unknown is not None or (self.since_made and any(self.kept_from)))

    @property
    def spread(self) -> Spread:
        """The verdict on the period."""
        if not self.counts or None in self.ends:
            return Spread.UNKNOWN
        # Of a period that was asked for and is not known, these are all records since the topic was made.
        spread = judge_spread(self.counts)
        return Spread.UNKNOWN if self.requested and self.unknown and spread is not Spread.LITTLE else spread

    @property
    def is_doubtful(self) -> bool:
        """Return whether the search by time may be wrong, by what is known of the records' times."""
        return (
            self.unknown is not None
            or self.least is not None
            or any(period.unknown for period in self.recent)
        )

    @property
    def weight(self) -> float:
        """The rank of an uneven topic: ratio times records a second."""
        return (self.ratio or 0.0) * (self.per_second or 0.0)

    @property
    def periods(self) -> tuple[ArrivalPeriod, ...]:
        """The common period first, then the others."""
        if not self.counts:
            return self.recent
        common = ArrivalPeriod(COMMON, self.since_ms, self.until_ms, self.counts, self.least, self.most)
        if not self.transactional:
            return (common, *self.recent)
        return tuple(_allow_for_markers(period) for period in (common, *self.recent))

    def bounds(self, *, markers: bool) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """Return the fewest and the most records that each partition may have got; None if they are exact.

        Args:
            markers: Whether transaction markers are among the counts, at most one for each record.
        """
        common = self.periods[0]
        return (common.least, common.most) if markers else (self.least, self.most)

    def mark_transactional(self) -> TopicArrivals:
        """Return the arrivals in a topic that transactions write to.

        Where the search by time waited for a record, it may have met the marker of a transaction with older
        records: what is known of these periods is withheld.
        """
        recent = tuple(
            replace(
                period,
                counts=(),
                least=None,
                most=None,
                unknown=wording.explain_marker(self.waits[period.name]),
            )
            if period.name in self.waits
            else period
            for period in self.recent
        )
        marked = replace(self, transactional=True, recent=recent, alternative=None)
        if COMMON not in self.waits:
            return replace(marked, alternative=self.alternative)
        return replace(
            marked,
            period_ms=None,
            counts=tuple(end or 0 for end in self.ends),
            per_second=None,
            since_made=True,
            since_ms=None,
            starts=(0,) * len(self.ends),
            least=None,
            most=None,
            limited_by=None,
            added_from=None,
            unknown=wording.explain_marker(self.waits[COMMON]),
        )


def _allow_for_markers(period: ArrivalPeriod) -> ArrivalPeriod:
    """Return the arrivals of which up to a half may be transaction markers."""
    least = tuple((count + 1) // 2 for count in period.least or period.counts)
    return replace(period, least=least, most=period.most or period.counts) if period.counts else period


def judge_spread(counts: Sequence[int]) -> Spread:
    """Judge arrivals: even by the ratio, or no more uneven than random placement makes them.

    Args:
        counts: The records of each partition.
    """
    total = sum(counts)
    if total < MIN_RECORDS:
        return Spread.LITTLE
    mean = total / len(counts)
    even = max(counts) <= max(EVEN_RATIO * mean, most_by_chance(mean, len(counts)))
    return Spread.EVEN if even else Spread.UNEVEN


def most_by_chance(mean: float, partitions: int) -> float:
    """Return how full random placement makes the fullest partition at most.

    By chance, the largest of n Poisson counts of mean m exceeds m + t with a probability of at most 5 %,
    where t = L/3 + sqrt(L²/9 + 2mL) and L = ln(n / 0.05): Bernstein's inequality for each count, and Boole's
    for all of them.
    """
    limit = log(partitions / _BY_CHANCE)
    return mean + limit / 3 + sqrt(limit**2 / 9 + 2 * mean * limit)


# --- the period ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _PeriodSearch:
    """The search for the period of one topic.

    Attributes:
        logs: The log of each partition.
        firsts: The time from which on each log has everything; None for one without a record or times.
        since_ms: The start of the period; None for all the time since the topic was made.
        requested: Whether a period was asked for.
        covered_ms: Where all logs begin, whether partitions were added since or not.
        limited_by: The partition whose log begins last.
        added_ms: When the last partitions, from number `added_from` on, were first written.
        added_surely: Whether that means that they were added.
        unknown: Why the period cannot be chosen.
        periods: The counts since each time.
        waits: A partition where the search by time may have met a transaction marker, by time.
    """

    name: str
    logs: Sequence[LogEnds]
    firsts: tuple[int | None, ...] = ()
    since_ms: int | None = None
    requested: bool = False
    covered_ms: int | None = None
    limited_by: int | None = None
    added_from: int | None = None
    added_ms: int = 0
    added_surely: bool = False
    unknown: str | None = None
    periods: dict[int, ArrivalPeriod] = field(default_factory=dict)
    waits: dict[int, int] = field(default_factory=dict)

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
        if limiting or all(map(self._keeps_little, range(len(self.logs)))):
            trimmed = limiting or trimmed
            self.limited_by = max(trimmed, key=trimmed.__getitem__, default=None)
            self.since_ms = None if self.limited_by is None else trimmed[self.limited_by]
        self.requested = since_ms is not None
        if since_ms is not None and since_ms > (self.since_ms or 0):
            self.since_ms, self.limited_by = since_ms, None
        self.covered_ms = self.since_ms
        self._find_added(now_ms)
        timeless = next(
            (
                number
                for number, (log_ends, first) in enumerate(zip(self.logs, self.firsts, strict=True))
                if first is None and log_ends.start < log_ends.end
            ),
            None,
        )
        if timeless is not None and (self.requested or any(log_ends.start for log_ends in self.logs)):
            self.unknown = wording.explain_no_times(timeless)
        elif self.since_ms is not None and self.since_ms > now_ms + CLOCK_TOLERANCE_MS:
            self.unknown = wording.explain_future_time(self.limited_by or 0)

    def _find_added(self, now_ms: int) -> None:
        """Find added partitions: the last ones, whose records all begin later than those of the others.

        A partition whose first key was late looks like one that was added. Two that both were the last ones,
        and that then began at the same time, are taken for added ones.
        """
        # Kafka adds partitions at the end only, so the added ones are the last.
        for added in range(len(self.logs) - 1, 0, -1):
            before = [first for first in self.firsts[:added] if first is not None]
            later = [first for first in self.firsts[added:] if first is not None]
            logs = self.logs[added:]
            if not before or len(later) < len(logs) or any(ends.start for ends in logs):
                continue
            began, earlier = min(later), max(max(before), self.since_ms or 0)
            if not earlier < began <= now_ms:
                continue
            rates = [ends.end / max(1, now_ms - began) for ends in logs]
            if min(rates) * (began - earlier) < _MISSED or sum(ends.end for ends in logs) < MIN_RECORDS:
                continue
            together = all((first - began) * rate < _MISSED for first, rate in zip(later, rates, strict=True))
            if together and len(logs) > 1:
                self.added_from, self.added_ms, self.added_surely = added, began, True
                return
            if self.added_from is None:
                self.added_from, self.added_ms = added, began

    def _keeps_little(self, number: int) -> bool:
        ends = self.logs[number]
        return ends.start > 0 and ends.end - ends.start < FEW_KEPT

    def list_emptied(self) -> tuple[int, ...]:
        """Return the partitions that keep next to no record, and had some."""
        return tuple(number for number in range(len(self.logs)) if self._keeps_little(number))

    def covers(self, time_ms: int) -> bool:
        """Return whether all logs that keep more than a few records have what was written since a time."""
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
        added = self.added_ms if self.added_from is not None else None
        periods = [time for time in (self.since_ms, added) if time is not None]
        return list(dict.fromkeys([*periods, *covered]))

    def starts(self) -> tuple[int, ...]:
        """Return the first offset of each log in the period."""
        period = self.periods.get(self.covered_ms or 0)
        counts = period.counts if self.unknown is None and period is not None else self.ever
        return tuple(ends.end - count for ends, count in zip(self.logs, counts, strict=True))

    @property
    def ever(self) -> tuple[int, ...]:
        """The records that ever arrived in each partition."""
        return tuple(ends.end for ends in self.logs)

    def take(self, since_ms: int, found: Sequence[Beginning], now_ms: int) -> None:
        """Count records from the offsets where a time begins, unless these may be too far from the truth."""
        counts = tuple(ends.end - at.offset for ends, at in zip(self.logs, found, strict=True))
        doubts = tuple(at.doubt for at in found)
        mean = fmean(counts)
        worst = max(range(len(doubts)), key=doubts.__getitem__)
        unknown = self._explain_hidden(counts, recent=since_ms not in {self.since_ms, self.added_ms})
        if unknown is None and doubts[worst] > max(KNOWN * mean, FEW_RECORDS):
            unknown = found[worst].explain(worst)
        if since_ms == self.since_ms:
            self.unknown = unknown
        waited = [number for number, at in enumerate(found) if at.wait_ms is not None]
        self.waits.update({since_ms: waited[0]} if waited else {})
        period = ArrivalPeriod("", since_ms, now_ms, counts)
        if unknown is not None:
            period = replace(period, counts=(), unknown=unknown)
        elif doubts[worst] > max(EXACT * mean, 1):
            least = tuple(max(0, count - doubt) for count, doubt in zip(counts, doubts, strict=True))
            most = tuple(count + doubt for count, doubt in zip(counts, doubts, strict=True))
            period = replace(period, least=least, most=most)
        self.periods[since_ms] = period

    def _explain_hidden(self, counts: Sequence[int], *, recent: bool) -> str | None:
        """Return why a period is not known, if partitions were emptied that may have had records in it.

        Retention by time empties a partition that is no longer written to, so that it has none in a shorter
        period; somebody who deletes its records also hides those of the period. Only the bytes on disk show
        which. Where these are not known, a topic is called neither even nor uneven that may be the other, and
        the last hour and day are not known.
        """
        most = max(KNOWN * fmean(counts), FEW_RECORDS)
        for number in self.list_emptied():
            if self.ever[number] - counts[number] <= most:
                continue
            by_hand = self._was_emptied_by_hand(number)
            if by_hand or recent or judge_spread(counts) is not judge_spread(self.ever):
                return wording.explain_emptied(number, self.ever[number])
        return None

    def _was_emptied_by_hand(self, number: int) -> bool | None:
        """Return whether the records of a partition that keeps next to none were deleted; None if unknown.

        Retention by time removes whole files, so that none is left of a partition without a record. A
        deletion leaves at least the newest file.
        """
        ends = self.logs[number]
        if ends.bytes is None:
            return None
        kept = ends.end - ends.start
        if not kept:
            return ends.bytes > 0
        full = [log_ends for index, log_ends in enumerate(self.logs) if not self._keeps_little(index)]
        records = sum(log_ends.end - log_ends.start for log_ends in full)
        usual = sum(log_ends.bytes or 0 for log_ends in full) / records if records else 0.0
        return ends.bytes > _SEVERAL * kept * usual if usual else None

    def list_periods(self, now_ms: int, longest_ms: int) -> tuple[ArrivalPeriod, ...]:
        """Return the last hour and the last day, as far as these are shorter than the longest period."""
        return tuple(
            replace(self.periods[now_ms - length], name=label)
            for label, length in RECENT_MS.items()
            # A recent period that is not shorter than the common one would repeat it.
            if now_ms - length in self.periods and length < longest_ms
        )

    def describe(self, since_ms: int | None, now_ms: int, added_from: int | None = None) -> TopicArrivals:
        """Return the arrivals since a time; None for since the topic was made."""
        period = None if since_ms is None or self.unknown is not None else self.periods[since_ms]
        counts = self.ever if period is None else period.counts
        began = min((first for first in self.firsts if first is not None), default=now_ms)
        length_ms = now_ms - (began if period is None or since_ms is None else since_ms)
        recent = self.list_periods(now_ms, length_ms)
        labels = {now_ms - RECENT_MS[own.name]: own.name for own in recent} | {since_ms: COMMON}
        return TopicArrivals(
            self.name,
            None if period is None else length_ms,
            counts,
            self.ever,
            # No time has passed for a topic that was made in this millisecond.
            sum(counts) * 1000 / length_ms if length_ms > 0 and self.unknown is None else None,
            period is None,
            None if period is None else since_ms,
            now_ms,
            self.starts(),
            self.firsts,
            tuple(log_ends.start for log_ends in self.logs),
            self.limited_by if added_from is None else None,
            added_from,
            tuple(n for n in self.list_emptied() if self._was_emptied_by_hand(n) is not False),
            self.unknown,
            recent if period is None else (*recent, ArrivalPeriod(MADE, None, now_ms, self.ever)),
            None if period is None else period.least,
            None if period is None else period.most,
            self.requested,
            {labels[time]: number for time, number in self.waits.items() if time in labels},
        )


def find_arrivals(
    logs: Mapping[str, Sequence[LogEnds | None]],
    find_offsets: FindOffsets,
    now_ms: int,
    since_ms: int | None = None,
    *,
    recent: bool = False,
    read_records: ReadRecords | None = None,
    ordered: Collection[str] = (),
) -> dict[str, TopicArrivals]:
    """Count the records that arrived in each partition in the period that all logs of a topic cover.

    Args:
        logs: The log of each partition, by topic; None for a partition that cannot be read.
        find_offsets: Finds the first records that are not older than given times.
        now_ms: The time, in milliseconds since 1970.
        since_ms: The start of the period, if all logs reach back to it.
        recent: Count the last hour and the last day, too.
        read_records: As of `TimeSearch`.
        ordered: As of `TimeSearch`.

    Returns:
        The arrivals of each topic, in the order of `logs`.
    """
    searches = {
        name: _PeriodSearch(name, [log_ends for log_ends in ends if log_ends is not None])
        for name, ends in logs.items()
        if None not in ends
    }
    every = {
        (name, number): ends for name, search in searches.items() for number, ends in enumerate(search.logs)
    }
    # An empty log has no first record, and brokers answer such a request with offset -1. The first record
    # that is not older than 1970 is the first one that is kept.
    filled = [partition for partition, ends in every.items() if ends.end > ends.start]
    responses = find_offsets(dict.fromkeys(filled, 0))
    firsts = {partition: time for partition, (_, time) in responses.items()}
    trimmed = {partition: every[partition] for partition in firsts if _limits(every[partition])}
    late: Mapping[TopicPartition, int] = {}
    if read_records is not None:
        read_records = _keep_records(read_records)
        firsts.update(_read_firsts(trimmed, read_records))
    else:
        late = _pass_late_firsts(trimmed, firsts, find_offsets, now_ms)
        firsts.update(late)
    times: dict[str, list[int]] = {}
    for name, search in searches.items():
        search.firsts = tuple(firsts.get((name, number)) for number in range(len(search.logs)))
        search.choose(now_ms, since_ms)
        times[name] = search.choose_times(now_ms, recent=recent)
    for name, number in late:
        # The records that were passed over may be those of a transaction, which a marker follows.
        searches[name].waits[searches[name].since_ms or 0] = number
    time_search = TimeSearch(every, firsts, now_ms, find_offsets, read_records, ordered)
    # A request has one time for each partition, so that several times take several turns.
    for turn in range(max(map(len, times.values()), default=0)):
        requested = {
            name: topic_times[turn] for name, topic_times in times.items() if turn < len(topic_times)
        }
        begun = time_search.find(
            {partition: requested[partition[0]] for partition in every if partition[0] in requested}
        )
        for name, time_ms in requested.items():
            search = searches[name]
            search.take(time_ms, [begun[name, number] for number in range(len(search.logs))], now_ms)
    return {name: _finish(name, logs[name], searches.get(name), now_ms) for name in logs}


def _keep_records(read_records: ReadRecords) -> ReadRecords:
    """Return a reader that keeps what it read: searches for several times often look at the same records."""
    kept: dict[tuple[TopicPartition, int], Sequence[tuple[int, int]]] = {}

    def read(offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Sequence[tuple[int, int]]]:
        missing = {
            partition: offset for partition, offset in offsets.items() if (partition, offset) not in kept
        }
        if missing:
            records = read_records(missing)
            kept.update({(partition, missing[partition]): own for partition, own in records.items()})
        return {
            partition: kept[partition, offset]
            for partition, offset in offsets.items()
            if (partition, offset) in kept
        }

    return read


def _limits(ends: LogEnds) -> bool:
    """Return whether a log lost records, and keeps enough of them to show since when."""
    return ends.start > 0 and ends.end - ends.start >= FEW_KEPT


def _read_firsts(
    trimmed: Mapping[TopicPartition, LogEnds], read_records: ReadRecords
) -> dict[TopicPartition, int]:
    """Return the times from which on logs have everything, by their first records.

    Records that were removed may be as late as any of these, but for one, which may be ahead.
    """
    records = read_records({partition: ends.start for partition, ends in trimmed.items()}) if trimmed else {}
    return {partition: sorted(time for _, time in own)[-2:][0] for partition, own in records.items() if own}


def _pass_late_firsts(
    trimmed: Mapping[TopicPartition, LogEnds],
    firsts: Mapping[TopicPartition, int],
    find_offsets: FindOffsets,
    now_ms: int,
) -> dict[TopicPartition, int]:
    """Return the times from which on logs have everything, where their first records are late.

    Such a record is one of a clock that is behind, or a batch that was sent again: it is followed by a time
    for which the log has hardly a record, at the pace of all. A period that begins after this time lacks
    nothing, even where there was none.
    """
    passed: dict[TopicPartition, int] = {}
    starts = {partition: (ends.start, firsts[partition]) for partition, ends in trimmed.items()}
    for _ in range(_STARTS):
        responses = find_offsets(
            {
                partition: time + max(1, FEW_KEPT * (now_ms - time) // (trimmed[partition].end - offset))
                for partition, (offset, time) in starts.items()
                if trimmed[partition].end > offset
            }
        )
        starts = {
            partition: response
            for partition, response in responses.items()
            if response[0] - starts[partition][0] < _FEW_AT_START and response[1] <= now_ms
        }
        passed.update({partition: time for partition, (_, time) in starts.items()})
        if not starts:
            break
    return passed


def _finish(
    name: str, logs: Sequence[LogEnds | None], search: _PeriodSearch | None, now_ms: int
) -> TopicArrivals:
    if search is None:
        ends = tuple(None if log_ends is None else log_ends.end for log_ends in logs)
        return TopicArrivals(name, None, (), ends, unknown=wording.explain_no_leader(ends.index(None)))
    whole = search.describe(search.since_ms, now_ms)
    added_from = search.added_from
    if added_from is None or search.unknown is not None or not search.periods[search.added_ms].counts:
        return whole
    added = search.describe(search.added_ms, now_ms, added_from)
    first, second = (added, whole) if search.added_surely else (whole, added)
    return replace(first, alternative=second)

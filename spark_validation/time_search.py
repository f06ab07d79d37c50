"""The search of logs for the offset at which a time begins, and how far its result may be wrong.

Brokers return the first record, by offset, that is not older than a time. That is where the time begins if
the records of a log are in order and none is missing. It is too early where a record before has a later time
than those after it (a clock that is ahead, a record in the future), or is a transaction marker, which has the
broker's time and not that of the records. It is too late where the first records of that time have been
removed (compaction), or where all records come some time after their timestamps. So the records found before
and after that offset are searched, too: the offsets between them are how far the result may be wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TypeAlias

from spark_validation import wording

TopicPartition: TypeAlias = tuple[str, int]
FindOffsets: TypeAlias = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, tuple[int, int]]]
"""Takes a time for each partition (ms since 1970); returns the offset and time of the first record that is
not older. Partitions without such a record are left out."""
ReadRecords: TypeAlias = Callable[
    [Mapping[TopicPartition, int]], "Mapping[TopicPartition, Sequence[tuple[int, int]]]"
]
"""Takes an offset of each partition; returns the offsets and times of the first records from there on. Leaves
out partitions that cannot be read."""

FEW_RECORDS = 5
"""So many records more or less in a partition matter nowhere."""
EXACT = 0.005
"""Up to this part of the mean of partitions, a count counts as exact."""
KNOWN = 0.1
"""Up to this part of the mean of partitions, a count may be wrong, and is reported with an interval."""
_LONG_WAIT = 10
"""A wait for the next record that is so many times the mean one is long: by chance, that has a probability of
exp(-10)."""
_MIN_WAIT_SHARE = 0.01
"""The least part of the whole time that a long wait takes."""
_PAUSED_SHARE = 0.5
"""Where so many partitions of a topic have no record for a while, its producers paused."""
_PROBED_PARTITIONS = 32
"""So many of the partitions of a pause are enough to show that it is one, instead of times that mislead."""
_LONG_STEP = 8
"""The part of a log by which a search goes on towards its beginning."""
CLOCK_TOLERANCE_MS = 60_000
"""The most by which producers' clocks may be ahead."""
_TURNS = 40
"""The most requests of a search: halving a hundred years gives a millisecond."""


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The log of one partition.

    Attributes:
        start: The first offset that is kept.
        end: The offset after the last record.
        bytes: The bytes on disk of one replica; None if unknown.
    """

    start: int
    end: int
    bytes: int | None = None


@dataclass(slots=True)
class Beginning:
    """The offset in a log where a time begins.

    Attributes:
        offset: The first offset that was written since that time.
        earliest: The first offset that may have been.
        latest: The last offset that may be the first one.
        wait_ms: The time until the record there, if that is long for the pace of the records after it.
    """

    offset: int
    earliest: int
    latest: int
    wait_ms: int | None = None

    @property
    def doubt(self) -> int:
        """The most offsets by which it may be wrong."""
        return max(self.offset - self.earliest, self.latest - self.offset)

    def explain(self, partition: int) -> str:
        """Explain why it may be wrong."""
        if self.offset - self.earliest > self.latest - self.offset:
            return wording.explain_missing_records(partition, self.earliest, self.offset)
        return wording.explain_later_time(partition, self.offset, self.latest - self.offset)


@dataclass(frozen=True, slots=True)
class TimeSearch:
    """A search of the logs of some partitions.

    Attributes:
        logs: The log of each partition.
        firsts: The time of the first record of each log that keeps one (ms since 1970).
        find_offsets: Finds records by time.
        read_records: Reads records, to look where a time begins where a search by time is misled; None where
            records may not be read.
        ordered: Topics whose brokers set the times of records (LogAppendTime), and that are not compacted: a
            search is never misled, even though the records of a batch have one time.
    """

    logs: Mapping[TopicPartition, LogEnds]
    firsts: Mapping[TopicPartition, int]
    now_ms: int
    find_offsets: FindOffsets
    read_records: ReadRecords | None = None
    ordered: Collection[str] = ()

    def find(
        self, times: Mapping[TopicPartition, int], *, exactly: bool = False
    ) -> dict[TopicPartition, Beginning]:
        """Find where a time begins in each of some logs.

        Args:
            times: The time of each partition (ms since 1970); all partitions of a topic are among them.
            exactly: Go on where a result is exact for what was written since, but not for a short period.
        """
        in_logs = {partition: time for partition, time in times.items() if partition in self.firsts}
        responses = self.find_offsets(in_logs)
        uncertain = {
            partition: time for partition, (_, time) in responses.items() if partition[0] not in self.ordered
        }
        later = {partition: max(time, times[partition]) + 1 for partition, time in uncertain.items()}
        after = self.find_offsets(later)
        beginnings = {}
        for partition in times:
            log = self.logs[partition]
            offset = min(max(responses.get(partition, (log.end, 0))[0], log.start), log.end)
            beginnings[partition] = Beginning(offset, offset, offset)
            if partition in uncertain:
                latest = max(offset, min(after.get(partition, (log.end, 0))[0], log.end) - 1)
                if uncertain[partition] > self.now_ms + CLOCK_TOLERANCE_MS:
                    latest = log.end  # those that are even later are no newer
                wait_ms = self._find_wait(log.end - offset, times[partition], uncertain[partition])
                beginnings[partition] = Beginning(offset, offset, latest, wait_ms)
        most = dict.fromkeys(times, 1.0) if exactly else self._tolerances(beginnings)
        looked: set[TopicPartition] = set()
        if self.read_records is not None:
            hidden = {
                partition
                for partition, beginning in beginnings.items()
                if self._is_hidden(beginning, most[partition])
            }
            looked = self._look(beginnings, times, hidden, self.read_records)
            looked |= self._look_at_waits(beginnings, times, hidden, self.read_records)
        else:
            self._doubt_waits(beginnings)
        nexts = {partition: after.get(partition, response)[1] for partition, response in responses.items()}
        self._look_back(beginnings, times, nexts, most, looked)
        return beginnings

    def count_between(self, since_ms: int, until_ms: int) -> tuple[int, ...] | None:
        """Count the offsets between two times in each partition; None if that is not known well enough.

        Args:
            since_ms: The start, in milliseconds since 1970.
            until_ms: The end, exclusive.
        """
        if any(
            log.start and self.firsts.get(partition, since_ms) >= since_ms
            for partition, log in self.logs.items()
        ):
            return None  # some of these records may have been removed
        first, last = (
            self.find(dict.fromkeys(self.logs, time), exactly=True) for time in (since_ms, until_ms)
        )
        counts = tuple(max(0, last[partition].offset - first[partition].offset) for partition in self.logs)
        doubt = max(first[partition].doubt + last[partition].doubt for partition in self.logs)
        return counts if doubt <= max(FEW_RECORDS, KNOWN * fmean(counts)) else None

    def _find_wait(self, records: int, since_ms: int, at_ms: int) -> int | None:
        """Return the time until a record if that is long for the pace of those after it, or negative."""
        length_ms, wait_ms = max(1, self.now_ms - since_ms), at_ms - since_ms
        mean_ms = length_ms / (records + 1)
        long_ms = max(_LONG_WAIT * mean_ms, _MIN_WAIT_SHARE * length_ms)
        return wait_ms if records > FEW_RECORDS and not 0 <= wait_ms <= long_ms else None

    def _look_at_waits(
        self,
        beginnings: dict[TopicPartition, Beginning],
        times: Mapping[TopicPartition, int],
        hidden: Collection[TopicPartition],
        read_records: ReadRecords,
    ) -> set[TopicPartition]:
        """Look in the logs with a wait that are not looked at already, as `_look` does.

        Where most partitions of a topic waited until about the same time, its producers paused, or it is new.
        A few of them show that: to read a thousand takes seconds, several times.
        """
        waits: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
        partitions = Counter(topic for topic, _ in beginnings)
        for partition, beginning in beginnings.items():
            if beginning.wait_ms is not None and partition not in hidden:
                waits[partition[0]][partition] = beginning.wait_ms
        paused: dict[str, list[TopicPartition]] = {}
        for topic, own in waits.items():
            typical = median(own.values())
            near = [
                partition
                for partition, wait in own.items()
                if abs(wait - typical) <= abs(_MIN_WAIT_SHARE * typical)
            ]
            if len(near) >= max(_PAUSED_SHARE * partitions[topic], 2 * _PROBED_PARTITIONS):
                step = len(near) // _PROBED_PARTITIONS
                paused[topic] = [partition for number, partition in enumerate(near) if number % step]
        likely = {partition for own in paused.values() for partition in own}
        probed = {partition for own in waits.values() for partition in own} - likely
        looked = self._look(beginnings, times, probed, read_records)
        misled = {topic for topic, _ in looked}
        doubtful = {partition for partition in likely if partition[0] in misled}
        looked |= self._look(beginnings, times, doubtful, read_records)
        for partition in likely - doubtful:
            beginnings[partition].wait_ms = None
        return looked

    def _tolerances(self, beginnings: Mapping[TopicPartition, Beginning]) -> dict[TopicPartition, float]:
        """Return by how much each result may be wrong and still count as exact."""
        counts: dict[str, list[int]] = defaultdict(list)
        for partition, beginning in beginnings.items():
            counts[partition[0]].append(self.logs[partition].end - beginning.offset)
        most = {topic: max(1.0, EXACT * fmean(own)) for topic, own in counts.items()}
        return {partition: most[partition[0]] for partition in beginnings}

    def _doubt_waits(self, beginnings: Mapping[TopicPartition, Beginning]) -> None:
        """Doubt records that are late where most partitions of the topic had some before.

        Records after them may be older, as those after a batch of a clock that is ahead, or the partition
        had none for a while: only records show which.
        """
        waits: dict[str, list[bool]] = defaultdict(list)
        for (topic, _), beginning in beginnings.items():
            waits[topic].append(beginning.wait_ms is not None)
        for partition, beginning in beginnings.items():
            if beginning.wait_ms is not None and fmean(waits[partition[0]]) < _PAUSED_SHARE:
                beginning.latest = self.logs[partition].end

    def _look(
        self,
        beginnings: dict[TopicPartition, Beginning],
        times: Mapping[TopicPartition, int],
        probed: Collection[TopicPartition],
        read_records: ReadRecords,
    ) -> set[TopicPartition]:
        """Halve the logs in which the search may be misled, by the times of the records that are there.

        The median of neighbours shows when they were written, whatever the time of a single one.

        Returns:
            The logs where the time begins elsewhere.
        """
        bounds = {
            partition: (beginnings[partition].offset, self.logs[partition].end)
            for partition in beginnings
            if partition in probed
        }
        # Where records cannot be read, and where all are newer, a time begins where the search found it.
        narrowed: dict[TopicPartition, Beginning] = {}
        spreads: dict[TopicPartition, list[float]] = defaultdict(list)
        # Most searches are not misled: once the middle is newer, longer steps lead to the beginning.
        parts = dict.fromkeys(bounds, 2)
        while probes := {
            partition: low + (high - low) // parts[partition] if high - low > FEW_RECORDS else low
            for partition, (low, high) in bounds.items()
            if high > low
        }:
            records = read_records(probes)
            for partition, probe in probes.items():
                if partition not in records:
                    narrowed.pop(partition, None)
                    del bounds[partition]
                    continue
                low, high = bounds[partition]
                own = [(offset, time) for offset, time in records[partition] if offset < high]
                ordered = sorted(time for _, time in own) or [times[partition]]
                middle = median(ordered)
                spreads[partition].append(ordered[-2:][0] - middle)
                at = narrowed.setdefault(partition, Beginning(high, low, high))
                if middle >= times[partition]:
                    bounds[partition], parts[partition] = (low, probe), _LONG_STEP
                    newer = (offset for offset, time in own if time >= times[partition])
                    at.offset = at.latest = next(newer, at.offset)
                else:
                    # Half of the records that were read are older, at least up to the middle.
                    low = at.earliest = max(probe, own[(len(own) - 1) // 2][0]) + 1
                    bounds[partition], parts[partition] = (low, high), 2
        looked = set()
        for partition, at in narrowed.items():
            first = beginnings[partition]
            if at.earliest == first.offset:
                first.latest, first.wait_ms = first.offset, None
                continue
            # Where times are far from in order, half of the records are so much older than the newest.
            log, length_ms = self.logs[partition], max(1, self.now_ms - times[partition])
            behind = round((log.end - at.offset) * median(spreads[partition]) / length_ms)
            at.earliest = min(at.earliest, max(log.start, at.offset - behind))
            beginnings[partition] = at
            looked.add(partition)
        return looked

    def _is_hidden(self, found: Beginning, most: float) -> bool:
        """Return whether the time may begin far behind the record that was found."""
        return found.latest - found.offset > max(FEW_RECORDS, most * KNOWN / EXACT)

    def _look_back(
        self,
        beginnings: Mapping[TopicPartition, Beginning],
        times: Mapping[TopicPartition, int],
        nexts: Mapping[TopicPartition, int],
        most: Mapping[TopicPartition, float],
        looked: Collection[TopicPartition],
    ) -> None:
        """Find the record before each offset: all offsets between them may have been written since.

        First as far back as the next record is ahead, which is enough if records come at a steady pace; then
        four times as far, until there is one; then by halving the time between, until that is close enough.
        """
        bounds: dict[TopicPartition, tuple[int, int]] = {}
        probes: dict[TopicPartition, int] = {}
        for partition, time in times.items():
            beginning, log = beginnings[partition], self.logs[partition]
            # More is known where records were read, and where their times are the brokers'.
            known = partition in looked or partition[0] in self.ordered
            if known or beginning.offset == log.start or partition not in self.firsts:
                continue
            # Compaction may have removed all records before the one that was found.
            beginning.earliest = log.start
            if self.firsts[partition] >= time:
                continue
            bounds[partition] = self.firsts[partition], time
            step = max(1, nexts.get(partition, time) - time, round(EXACT * (self.now_ms - time)))
            probes[partition] = max(time - step, self.firsts[partition])
        for _ in range(_TURNS):
            responses = self.find_offsets(probes)
            following: dict[TopicPartition, int] = {}
            for partition, probe in probes.items():
                beginning, (low, high) = beginnings[partition], bounds[partition]
                offset, at_ms = responses.get(partition, (beginning.offset, high))
                if offset < beginning.offset and at_ms < high:
                    beginning.earliest = max(beginning.earliest, offset + 1)
                    low = max(probe, at_ms) + 1
                else:
                    high = probe
                bounds[partition] = low, high
                if beginning.offset - beginning.earliest <= most[partition] or low >= high:
                    continue
                # Back by steps that grow, as long as there is none; then the middle.
                back = times[partition] - 4 * (times[partition] - high)
                following[partition] = (
                    back if low == self.firsts[partition] and back > low else (low + high) // 2
                )
            if not following:
                break
            probes = following

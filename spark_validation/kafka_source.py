"""Reading ranges of Kafka's logs in Spark's tasks: one consumer a task, which counts what it reads.

A consumer is assigned its partitions and joins no group. Records are grouped by key, partition and replicate
as they come, so that only these groups leave the task. The end of a range is seen by a message at or beyond
it, or by the end of the partition: offsets without a record (compacted, aborted, markers) are not waited for.
"""

from __future__ import annotations

import json
import math
import socket
import time
import zlib
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, takewhile
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_validation.configuration import hidden, secrets
from spark_validation.counting import CellCounts
from spark_validation.errors import ReadingFailed, SkewError, SparkMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from spark_validation.windows import SamplePlan, Span

MOST_HELD = 500_000
"""Groups that a task holds before it passes them on: about 50 MB."""

_MOST_IN_TASK = 3_000_000
"""Records of a task: some ten seconds' work, which is lost if the task is."""
_LEAST_IN_TASK = 50_000
"""Records that are read in the time that another consumer takes to start."""
_BYTES_OF_RECORD = 350
"""Larger records count for more than one; so a task has at most about 1 GB."""
_RANGE_COST = 1_000
"""Of a range, in records: a request of its own."""
_ALONE = 50_000
"""A range of so many offsets is read by itself: its messages need not be told from others."""


# --- what is read ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one partition that are read in one go: one window, or some that follow each other.

    Attributes:
        topic: The topic's number in the job.
        partition: The partition.
        edges: The offsets where windows begin, and the offset where the last one ends.
        replicates: Of each window.
        record_bytes: The average bytes of a record in the log; None if nobody knows.
    """

    topic: int
    partition: int
    edges: tuple[int, ...]
    replicates: tuple[int, ...]
    record_bytes: float | None = None

    @property
    def start(self) -> int:
        """The first offset."""
        return self.edges[0]

    @property
    def end(self) -> int:
        """The offset after the last."""
        return self.edges[-1]

    @property
    def cost(self) -> int:
        """What it takes to read, in records of an ordinary size."""
        return int((self.end - self.start) * self._weight) + _RANGE_COST

    @property
    def _weight(self) -> float:
        return max(1.0, (self.record_bytes or 0.0) / _BYTES_OF_RECORD)

    def cut(self, cost: int) -> tuple[Range, Range] | None:
        """Divide it so that the first part costs so much; None if it would be empty or everything."""
        at = self.start + int((cost - _RANGE_COST) / self._weight)
        if not self.start < at < self.end:
            return None
        before = bisect_right(self.edges, at - 1)
        after = bisect_right(self.edges, at) - 1
        return (
            Range(
                self.topic,
                self.partition,
                (*self.edges[:before], at),
                self.replicates[:before],
                self.record_bytes,
            ),
            Range(
                self.topic,
                self.partition,
                (at, *self.edges[after + 1 :]),
                self.replicates[after:],
                self.record_bytes,
            ),
        )


def tasks(plans: Sequence[SamplePlan], slots: int) -> list[list[Range]]:
    """Divide what is read of topics into tasks of about the same size.

    Args:
        plans: Of each topic.
        slots: How many tasks run at a time; there are fewer tasks where there is little to read.
    """
    ranges = [found for number, plan in enumerate(plans) for found in _ranges(number, plan)]
    total = sum(found.cost for found in ranges)
    if not total:
        return []
    count = max(math.ceil(total / _MOST_IN_TASK), min(slots, math.ceil(total / _LEAST_IN_TASK)))
    # Rounds of equally many tasks keep all slots busy to the end.
    count = count if count <= slots else math.ceil(count / slots) * slots
    room = share = math.ceil(total / count)
    found: list[list[Range]] = [[]]
    waiting = ranges[::-1]
    while waiting:
        following = waiting.pop()
        if following.cost > room and len(found) < count:
            # Not for the sake of a few records: each end costs a request.
            parts = following.cut(room) if room > _LEAST_IN_TASK // 2 else None
            if parts is not None and following.cost - room > _LEAST_IN_TASK // 2:
                following, rest = parts
                waiting.append(rest)
        found[-1].append(following)
        room -= following.cost
        if room <= _RANGE_COST and waiting and len(found) < count:
            found.append([])
            room += share
    return found


def _ranges(number: int, plan: SamplePlan) -> Iterator[Range]:
    for partition, windows in groupby(plan.windows, lambda window: window.partition):
        span = plan.spans[partition]
        record_bytes = span.log_bytes / span.records if span.log_bytes and span.records else None
        edges: list[int] = []
        replicates: list[int] = []
        for window in windows:
            if edges and edges[-1] != window.start:
                yield Range(number, partition, tuple(edges), tuple(replicates), record_bytes)
                edges, replicates = [], []
            edges = [*(edges or [window.start]), window.end]
            replicates.append(window.replicate)
        yield Range(number, partition, tuple(edges), tuple(replicates), record_bytes)


def pack_tasks(found: Sequence[Sequence[Range]]) -> list[bytes]:
    """Each task as few bytes: all of them travel to each task."""
    return [
        zlib.compress(
            json.dumps(
                [[r.topic, r.partition, r.edges, r.replicates, r.record_bytes] for r in ranges]
            ).encode()
        )
        for ranges in found
    ]


def unpack_task(data: bytes) -> list[Range]:
    """The ranges of a task of `pack_tasks`."""
    return [
        Range(topic, partition, tuple(edges), tuple(replicates), record_bytes)
        for topic, partition, edges, replicates, record_bytes in json.loads(zlib.decompress(data))
    ]


def rounds(ranges: Iterable[Range]) -> Iterator[list[Range]]:
    """What a consumer reads at a time: a long range by itself, of the others one of each partition."""
    short: dict[tuple[int, int], list[Range]] = defaultdict(list)
    for found in ranges:
        if found.end - found.start >= _ALONE:
            yield [found]
        else:
            short[found.topic, found.partition].append(found)
    for number in range(max(map(len, short.values()), default=0)):
        yield [of[number] for of in short.values() if number < len(of)]


# --- reading ---------------------------------------------------------------------------------------

_BATCH = 1_000
"""Messages of one call: of 10,000 each takes 1.6 times as long, for they do not fit into a cache."""
_GROUPED = 10_000
"""Messages whose keys are grouped at a time."""
_KEY, _OFFSET, _TIMESTAMP, _ERROR = map(methodcaller, ("key", "offset", "timestamp", "error"))
_POLL_S = 1.0
_SILENT_S = 30.0
_DOUBT_S = 3.0
_ANSWER_S = 30.0

_OPTIONS: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    # After retention has removed the first records of a range, what is left is read; "earliest" would read
    # everything again where a log was cut short by an unclean election.
    "auto.offset.reset": "error",
    # Spark takes batches when it likes.
    "max.poll.interval.ms": 86_400_000,
    # An end of a log is told by an answer without records: it must not come late.
    "fetch.wait.max.ms": 20,
    # How long a fetch is put off while enough is queued: the default of a second is what a round then takes.
    "fetch.queue.backoff.ms": 2,
    # The topic was there when its offsets were read, so it need not be waited for.
    "topic.metadata.propagation.max.ms": 3_000,
}
_LONG: Mapping[str, Any] = {
    "max.partition.fetch.bytes": 4 * 2**20,
    "fetch.max.bytes": 64 * 2**20,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 64 * 2**10,
}
_LEAST_FETCH = 64 * 2**10
_MOST_FETCH = 4 * 2**20
_UNKNOWN_FETCH = 2**20


def fetching(ranges: Sequence[Range]) -> dict[str, Any]:
    """How a consumer fetches ahead: much in long ranges, of windows hardly more than these."""
    lengths = [found.end - found.start for found in ranges]
    if max(lengths) >= _ALONE:
        return dict(_LONG)
    expected = max(
        _UNKNOWN_FETCH if found.record_bytes is None else found.record_bytes * length * 1.25
        for found, length in zip(ranges, lengths, strict=True)
    )
    return {
        "max.partition.fetch.bytes": int(min(max(expected, _LEAST_FETCH), _MOST_FETCH)),
        "fetch.max.bytes": 32 * 2**20,
        # A partition is asked for more when all of it is taken, and not before.
        "queued.min.messages": 1,
        "queued.max.messages.kbytes": 64 * 2**10,
    }


class _Lists:
    """Messages of one topic that are not grouped yet, as Python lists."""

    __slots__ = ("cells", "counts", "keys", "sizes", "times")

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.sizes: list[int] = []
        self.times: list[int] = []
        self.cells: list[Any] = []
        self.counts: list[Any] = []


class RangeReader:
    """Reads ranges, and groups their records.

    Args:
        names: Of the job's topics.
        replicates: How many replicates each topic has.
        kafka: Properties of librdkafka; secrets among them.

    Attributes:
        failures: Why topics cannot be read.
    """

    def __init__(self, names: Sequence[str], replicates: Sequence[int], kafka: Mapping[str, str]) -> None:
        self._names = names
        self._replicates = replicates
        self._kafka = kafka
        self._secrets = secrets(kafka)
        self._numbers = {name: number for number, name in enumerate(names)}
        self._lists: dict[int, _Lists] = defaultdict(_Lists)
        self._cells: dict[int, CellCounts] = defaultdict(CellCounts)
        self._listed = 0
        self.failures: dict[int, SkewError] = {}

    def read(self, ranges: Sequence[Range]) -> Iterator[tuple[int, Any]]:
        """Read ranges; yields the number of a topic, and a table of `CellCounts` with some of its groups.

        A topic that cannot be read is in `failures` afterwards, and what was yielded of it is not all.
        """
        topics = sorted({found.topic for found in ranges})
        try:
            yield from self._read(ranges)
        except SkewError as error:
            for topic in topics:
                self._fail(topic, error)
        for topic in topics:
            self._group(topic)
            cells = self._cells.pop(topic, None)
            if cells is not None and topic not in self.failures:
                yield topic, cells.table()

    def _read(self, ranges: Sequence[Range]) -> Iterator[tuple[int, Any]]:
        try:
            from confluent_kafka import Consumer

            from spark_validation.kafka_client import GROUP_ID, connected
        except ImportError as error:
            raise SparkMissing(
                f"Python on {socket.gethostname()} has no {error.name}",
                hint="executors need confluent-kafka, numpy and pyarrow: see spark.pyspark.python",
            ) from None
        consumer, problems = connected(
            Consumer, self._kafka, {"group.id": GROUP_ID, **_OPTIONS, **fetching(ranges)}
        )
        try:
            for of_round in rounds(ranges):
                wanted = [found for found in of_round if found.topic not in self.failures]
                if wanted:
                    yield from _Round(self, consumer, problems, wanted).read()
        finally:
            consumer.close()

    def _fail(self, topic: int, error: SkewError) -> None:
        shown = type(error)(
            hidden(error.message, self._secrets),
            hint=error.hint and hidden(error.hint, self._secrets),
        )
        self.failures.setdefault(topic, shown)
        self._lists.pop(topic, None)
        self._cells.pop(topic, None)

    def _take(self, found: Range, messages: list[Any]) -> None:
        """Take messages of a range, in the order of their offsets."""
        first, last = messages[0].offset(), messages[-1].offset()
        if first < found.start or last >= found.end:
            messages = [message for message in messages if found.start <= message.offset() < found.end]
            if not messages:
                return
            first, last = messages[0].offset(), messages[-1].offset()
        base = found.partition * self._replicates[found.topic]
        number = bisect_right(found.edges, first) - 1
        lists = self._lists[found.topic]
        if last < found.edges[number + 1]:
            lists.cells.append(base + found.replicates[number])
            lists.counts.append(len(messages))
        else:
            offsets = list(map(_OFFSET, messages))
            places = np.searchsorted(offsets, found.edges)
            for replicate, (begin, end) in zip(found.replicates, pairwise(places.tolist()), strict=True):
                lists.cells.append(base + replicate)
                lists.counts.append(end - begin)
        lists.keys += map(_KEY, messages)
        lists.sizes += map(len, messages)
        lists.times += [time for _, time in map(_TIMESTAMP, messages)]
        self._listed += len(messages)

    def _flushed(self) -> Iterator[tuple[int, Any]]:
        """Group what is in lists once it is much; yields groups once these are many."""
        if self._listed < _GROUPED:
            return
        for topic in list(self._lists):
            self._group(topic)
        self._listed = 0
        if sum(cells.rows for cells in self._cells.values()) < 2 * MOST_HELD:
            return
        tables = [(topic, cells.table()) for topic, cells in self._cells.items()]
        if sum(table.num_rows for _, table in tables) >= MOST_HELD:
            self._cells.clear()
            yield from tables

    def _group(self, topic: int) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        lists = self._lists.pop(topic, None)
        if lists is None or not lists.keys:
            return
        keys = pa.array(lists.keys, pa.binary())
        lengths = pc.fill_null(pc.binary_length(keys), 0).cast(pa.int64())
        sizes = pc.add(pa.array(lists.sizes, pa.int64()), lengths)
        times = pa.array(lists.times, pa.int64())
        self._cells[topic].add_records(keys, np.repeat(lists.cells, lists.counts), sizes, times)


class _Round:
    """Ranges of different partitions, read at the same time."""

    def __init__(self, reader: RangeReader, consumer: Any, problems: Any, ranges: Sequence[Range]) -> None:
        from confluent_kafka import KafkaError, TopicPartition

        self._reader = reader
        self._consumer = consumer
        self._problems = problems
        self._errors = KafkaError
        self._place = TopicPartition
        self._open = {(reader._names[found.topic], found.partition): found for found in ranges}
        self._only = next(iter(self._open)) if len(self._open) == 1 else None
        self._ended: list[tuple[str, int]] = []
        self._heard = time.monotonic()
        self._doubted = False

    def read(self) -> Iterator[tuple[int, Any]]:
        self._consumer.assign(
            [self._place(topic, part, found.start) for (topic, part), found in self._open.items()]
        )
        while self._open:
            messages = self._next()
            if not messages:
                continue
            self._heard, self._doubted = time.monotonic(), False
            if any(map(_ERROR, messages)):
                events = [message for message in messages if message.error()]
                messages = [message for message in messages if not message.error()]
                self._take(messages)
                for event in events:
                    self._notice(event)
            else:
                self._take(messages)
            self._forget()
            yield from self._reader._flushed()

    def _next(self) -> list[Any]:
        """Messages that are here already, or the next one: a fuller batch is not waited for."""
        messages: list[Any] = self._consumer.consume(_BATCH, 0)
        if messages:
            return messages
        message = self._consumer.poll(_POLL_S)
        if message is not None:
            return [message]
        name = next(iter(self._open))[0]
        self._problems.check(name)
        silent_s = time.monotonic() - self._heard
        if silent_s > _SILENT_S:
            for topic, partition in list(self._open):
                error = self._problems.silent(topic, _SILENT_S)
                text = f"partition {partition} of topic {topic} gave no records: {error.message}"
                self._failed(topic, ReadingFailed(text, hint=error.hint))
        elif silent_s > _DOUBT_S and not self._doubted:
            self._doubted = True
            self._look_for_topics()
        return []

    def _look_for_topics(self) -> None:
        """Ask whether topics can be read at all: librdkafka does not tell every refusal by itself."""
        from confluent_kafka import KafkaException

        from spark_validation.kafka_client import reading_failed

        for topic in {topic for topic, _ in self._open}:
            try:
                error = self._consumer.list_topics(topic, timeout=_POLL_S).topics[topic].error
            except KafkaException as raised:
                self._problems(raised.args[0])
                return
            if error is not None:
                self._failed(topic, reading_failed(error, topic))

    def _take(self, messages: list[Any]) -> None:
        if not messages:
            return
        if self._only is not None:
            self._take_of(self._only, messages)
            return
        by_partition: dict[tuple[str, int], list[Any]] = defaultdict(list)
        for message in messages:
            by_partition[message.topic(), message.partition()].append(message)
        for place, of in by_partition.items():
            self._take_of(place, of)

    def _take_of(self, place: tuple[str, int], messages: list[Any]) -> None:
        found = self._open.get(place)
        if found is None:
            return
        self._reader._take(found, messages)
        if messages[-1].offset() >= found.end - 1:
            self._end(place)

    def _end(self, place: tuple[str, int]) -> None:
        del self._open[place]
        self._ended.append(place)

    def _forget(self) -> None:
        """Have no more fetched of ranges that have ended; the next round's assignment does the rest."""
        if self._ended and self._open:
            self._consumer.incremental_unassign([self._place(*place) for place in self._ended])
        self._ended.clear()

    def _notice(self, event: Any) -> None:
        """Handle what comes in place of a message: the end of a partition, or an error."""
        error, place = event.error(), (event.topic(), event.partition())
        found = self._open.get(place)
        code = error.code()
        if code == self._errors._PARTITION_EOF:
            if found is not None and (event.offset() >= found.end or self._is_cut(place, found)):
                self._end(place)
        elif code == self._errors._AUTO_OFFSET_RESET:
            if found is not None:
                self._go_on(place, found)
        elif place[0] is None:
            self._problems(error)
        else:
            from spark_validation.kafka_client import HARMLESS, reading_failed

            if code not in HARMLESS:
                self._failed(place[0], reading_failed(error, place[0]))

    def _is_cut(self, place: tuple[str, int], found: Range) -> bool:
        """Whether a log ends before a range does; a broker that leads it only now may not know its end."""
        _, high = self._watermarks(place)
        return high < found.end

    def _go_on(self, place: tuple[str, int], found: Range) -> None:
        """Go on behind what retention has removed."""
        low, high = self._watermarks(place)
        if not found.start <= low < min(found.end, high):
            self._end(place)
            return
        self._consumer.incremental_unassign([self._place(*place)])
        self._consumer.incremental_assign([self._place(*place, low)])

    def _watermarks(self, place: tuple[str, int]) -> tuple[int, int]:
        from confluent_kafka import KafkaException

        from spark_validation.kafka_client import reading_failed

        try:
            low, high = self._consumer.get_watermark_offsets(self._place(*place), timeout=_ANSWER_S)
        except KafkaException as error:
            failure = reading_failed(error, place[0])
            raise failure from None
        return low, high

    def _failed(self, topic: str, error: SkewError) -> None:
        if topic not in self._reader._numbers:
            return
        self._reader._fail(self._reader._numbers[topic], error)
        for place in [place for place in self._open if place[0] == topic]:
            self._end(place)


# --- compacted logs --------------------------------------------------------------------------------

_PROBE = 256
"""Offsets of a window that shows whether compaction has been there: a key with 1 % of the records, of which
it keeps one, is missed with a probability of 0.99 ** 256 = 8 %."""


class _ProbeReader(RangeReader):
    """Reads ranges and counts their records, whatever their keys."""

    def __init__(self, names: Sequence[str], kafka: Mapping[str, str]) -> None:
        super().__init__(names, [1] * len(names), kafka)
        self.records: dict[Range, int] = defaultdict(int)

    def _take(self, found: Range, messages: list[Any]) -> None:
        self.records[found] += sum(1 for message in messages if found.start <= message.offset() < found.end)

    def is_dense(self, found: Range) -> bool:
        """Return whether every offset of a range has a record."""
        return self.records[found] == found.end - found.start


def find_dense(
    topics: Mapping[str, Sequence[Span]], kafka: Mapping[str, str]
) -> tuple[dict[str, list[Span]], dict[str, SkewError]]:
    """Find the part of each log that compaction has not reached: where every offset has a record.

    It is the end of the log, as the cleaner works from the start and leaves the active segment alone. Windows
    at distances from the end that double are read, so that up to half of that part is not found. Where a
    producer writes transactions, their markers leave gaps, too, and nothing is found.

    Args:
        topics: The spans of each topic.
        kafka: Properties of librdkafka; secrets among them.

    Returns:
        The spans with `readable_from`, and why topics could not be read.
    """
    names = list(topics)
    probes = {
        (number, span.partition): _probes(number, span)
        for number, name in enumerate(names)
        for span in topics[name]
    }
    reader = _ProbeReader(names, kafka)
    if ranges := [probe for of_partition in probes.values() for probe in of_partition]:
        for _ in reader.read(ranges):
            pass  # the reader counts; there are no groups of records
    failed = {names[number]: error for number, error in reader.failures.items()}
    readable = {}
    for number, name in enumerate(names):
        spans = []
        for span in topics[name]:
            dense = takewhile(reader.is_dense, probes[number, span.partition])
            first = min((probe.start for probe in dense), default=span.end)
            spans.append(replace(span, readable_from=first))
        readable[name] = spans
    return readable, failed


def _probes(topic: int, span: Span) -> list[Range]:
    """Choose windows of a log, the last one first."""
    windows: list[Range] = []
    distance = _PROBE
    while span.records and (not windows or windows[-1].start > span.start):
        start = max(span.start, span.end - distance)
        windows.append(Range(topic, span.partition, (start, min(span.end, start + _PROBE)), (0,)))
        distance *= 2
    return windows

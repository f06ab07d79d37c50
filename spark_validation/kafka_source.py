"""The reader of ranges of Kafka's logs in Spark's tasks: one consumer per task, which counts its records.

A consumer is assigned its partitions and joins no group. Records are grouped by key, partition and replicate
as they come, so that only these groups leave the task. The end of a range is detected by a message at or
beyond it, or by the end of the partition: offsets without a record (compacted, aborted, markers) are not
waited for.
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

from spark_validation.configuration import find_secrets, hide_values
from spark_validation.counting import CellCounts
from spark_validation.errors import ReadingFailed, SkewError, make_package_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from spark_validation.windows import SamplePlan, Span

MAX_HELD_GROUPS = 500_000
"""Groups that a task holds before it passes them on: about 50 MB."""

# Records of a task: some ten seconds' work, which is lost if the task is.
_MAX_TASK_RECORDS = 3_000_000
# Records that are read in the time that another consumer takes to start.
_MIN_TASK_RECORDS = 50_000
# Larger records count for more than one; so a task has at most about 1 GB.
_BYTES_OF_RECORD = 350
_RANGE_COST = 1_000
"""The cost of a range's own request, in records."""
# A range of so many offsets is read by itself: its messages need not be separated from others.
_ALONE = 50_000


# --- what is read ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one partition that are read in one go: one window, or some that follow each other.

    Attributes:
        topic: The topic's number in the job.
        edges: The offsets where windows begin, and the offset where the last one ends.
        replicates: The replicate of each window.
        record_bytes: The average bytes of a record in the log; None if unknown.
    """

    topic: int
    partition: int
    edges: tuple[int, ...]
    replicates: tuple[int, ...]
    record_bytes: float | None = None

    @property
    def start(self) -> int:
        """The first offset to read."""
        return self.edges[0]

    @property
    def end(self) -> int:
        """The offset after the last."""
        return self.edges[-1]

    @property
    def cost(self) -> int:
        """The cost of reading it, in records of an ordinary size."""
        return int((self.end - self.start) * self._weight) + _RANGE_COST

    @property
    def _weight(self) -> float:
        return max(1.0, (self.record_bytes or 0.0) / _BYTES_OF_RECORD)

    def cut(self, cost: int) -> tuple[Range, Range] | None:
        """Divide it so that the first part costs so much; None if either part would be empty."""
        at = self.start + int((cost - _RANGE_COST) / self._weight)
        if not self.start < at < self.end:
            return None
        # An edge at the cut ends the first part and begins the second, so that neither gets an empty window.
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


def divide_into_tasks(plans: Sequence[SamplePlan], slots: int) -> list[list[Range]]:
    """Divide the windows of topics into tasks of about the same cost.

    Args:
        plans: The plan of each topic.
        slots: The number of tasks that run at a time; there are fewer tasks where there is little to read.
    """
    ranges = [part for number, plan in enumerate(plans) for part in _ranges(number, plan)]
    total = sum(part.cost for part in ranges)
    if not total:
        return []
    # More tasks than slots only if one would be too long: each starts a consumer, which takes time.
    count = max(math.ceil(total / _MAX_TASK_RECORDS), min(slots, math.ceil(total / _MIN_TASK_RECORDS)))
    # Rounds of equally many tasks keep all slots busy to the end.
    count = count if count <= slots else math.ceil(count / slots) * slots
    room = share = math.ceil(total / count)
    divided: list[list[Range]] = [[]]
    # A stack: what is left of a range that was cut is the next one to be placed.
    waiting = ranges[::-1]
    while waiting:
        following = waiting.pop()
        if following.cost > room and len(divided) < count:
            # A range is not cut for a few records: each end costs a request.
            parts = following.cut(room) if room > _MIN_TASK_RECORDS // 2 else None
            if parts is not None and following.cost - room > _MIN_TASK_RECORDS // 2:
                following, remainder = parts
                waiting.append(remainder)
        divided[-1].append(following)
        room -= following.cost
        if room <= _RANGE_COST and waiting and len(divided) < count:
            divided.append([])
            # Added, not set: what one task has above its share, or below it, is balanced by the next.
            room += share
    return divided


def _ranges(number: int, plan: SamplePlan) -> Iterator[Range]:
    for partition, windows in groupby(plan.windows, lambda window: window.partition):
        span = plan.spans[partition]
        # Of a compacted log this is too low: its offsets are more than its records.
        record_bytes = span.log_bytes / span.records if span.log_bytes and span.records else None
        edges: list[int] = []
        replicates: list[int] = []
        for window in windows:
            # Windows that touch are one range, and one request.
            if edges and edges[-1] != window.start:
                yield Range(number, partition, tuple(edges), tuple(replicates), record_bytes)
                edges, replicates = [], []
            edges = [*(edges or [window.start]), window.end]
            replicates.append(window.replicate)
        yield Range(number, partition, tuple(edges), tuple(replicates), record_bytes)


def pack_tasks(divided: Sequence[Sequence[Range]]) -> list[bytes]:
    """Return each task as few bytes, as Spark sends all of them to each task."""
    return [
        zlib.compress(
            json.dumps(
                [[r.topic, r.partition, r.edges, r.replicates, r.record_bytes] for r in ranges]
            ).encode()
        )
        for ranges in divided
    ]


def unpack_task(data: bytes) -> list[Range]:
    """Return the ranges of a packed task."""
    return [
        Range(topic, partition, tuple(edges), tuple(replicates), record_bytes)
        for topic, partition, edges, replicates, record_bytes in json.loads(zlib.decompress(data))
    ]


def divide_into_rounds(ranges: Iterable[Range]) -> Iterator[list[Range]]:
    """Yield the ranges to read at a time: a long one by itself, of the others one of each partition."""
    short: dict[tuple[int, int], list[Range]] = defaultdict(list)
    for part in ranges:
        if part.end - part.start >= _ALONE:
            yield [part]
        else:
            short[part.topic, part.partition].append(part)
    # Fetches of several partitions share a request to their leader, so that a round costs one delay.
    for number in range(max(map(len, short.values()), default=0)):
        yield [queue[number] for queue in short.values() if number < len(queue)]


# --- reading ---------------------------------------------------------------------------------------

# Messages per call: with 10,000, each takes 1.6 times as long, as they do not fit into a cache.
_BATCH = 1_000
_GROUPED = 10_000
"""Messages whose keys are grouped at a time."""
_KEY, _OFFSET, _TIMESTAMP, _ERROR = map(methodcaller, ("key", "offset", "timestamp", "error"))
_POLL_S = 1.0
_SILENT_S = 30.0
"""Topics of which nothing arrives for so long fail."""
_DOUBT_S = 3.0
"""After so long without a message, topics are checked for errors."""
_RESPONSE_TIMEOUT_S = 30.0

_OPTIONS: Mapping[str, Any] = {
    # Nothing is committed: the group id is needed by librdkafka, and no group is joined.
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # Where the last offsets of a range have no record, no message shows its end.
    "enable.partition.eof": True,
    # As a consumer of transactions reads: without the records of aborted ones.
    "isolation.level": "read_committed",
    # After retention has removed the first records of a range, what is left is read; "earliest" would read
    # everything again where a log was cut short by an unclean election.
    "auto.offset.reset": "error",
    # Spark may pause between batches.
    "max.poll.interval.ms": 86_400_000,
    # A response without records shows the end of a log: it must not be late.
    "fetch.wait.max.ms": 20,
    # The delay of a fetch while enough is queued: with the default of a second, a round takes that long.
    "fetch.queue.backoff.ms": 2,
    # The topic was there when its offsets were read, so it need not be waited for.
    "topic.metadata.propagation.max.ms": 3_000,
}
# A long range is a stream: the fetcher runs ahead of the grouping, within 64 MB.
_LONG_RANGE_OPTIONS: Mapping[str, Any] = {
    "max.partition.fetch.bytes": 4 * 2**20,
    "fetch.max.bytes": 64 * 2**20,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 64 * 2**10,
}
_MIN_FETCH_BYTES = 64 * 2**10
_MAX_FETCH_BYTES = 4 * 2**20
_UNKNOWN_FETCH = 2**20


def make_fetch_options(ranges: Sequence[Range]) -> dict[str, Any]:
    """Return the options for fetching: far ahead in long ranges, hardly more than the windows in others."""
    # A consumer keeps its options for all rounds of its task, so that one long range decides them.
    lengths = [part.end - part.start for part in ranges]
    if max(lengths) >= _ALONE:
        return dict(_LONG_RANGE_OPTIONS)
    expected = max(
        _UNKNOWN_FETCH if part.record_bytes is None else part.record_bytes * length * 1.25
        for part, length in zip(ranges, lengths, strict=True)
    )
    return {
        "max.partition.fetch.bytes": int(min(max(expected, _MIN_FETCH_BYTES), _MAX_FETCH_BYTES)),
        "fetch.max.bytes": 32 * 2**20,
        # A partition is asked for more when all of it is taken, and not before.
        "queued.min.messages": 1,
        "queued.max.messages.kbytes": 64 * 2**10,
    }


class _MessageLists:
    """Messages of one topic that are not grouped yet, as Python lists."""

    __slots__ = ("cells", "counts", "keys", "sizes", "times")

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.sizes: list[int] = []
        self.times: list[int] = []
        self.cells: list[Any] = []
        self.counts: list[Any] = []


class RangeReader:
    """A reader of ranges that groups their records.

    Args:
        names: The names of the job's topics.
        replicates: The number of replicates of each topic.
        kafka: Properties of librdkafka; secrets among them.

    Attributes:
        failures: The errors of topics that cannot be read, by number.
    """

    def __init__(self, names: Sequence[str], replicates: Sequence[int], kafka: Mapping[str, str]) -> None:
        self._names = names
        self._replicates = replicates
        self._kafka = kafka
        self._secrets = find_secrets(kafka)
        self._numbers = {name: number for number, name in enumerate(names)}
        self._lists: dict[int, _MessageLists] = defaultdict(_MessageLists)
        self._cells: dict[int, CellCounts] = defaultdict(CellCounts)
        self._listed = 0
        self.failures: dict[int, SkewError] = {}

    def read(self, ranges: Sequence[Range]) -> Iterator[tuple[int, Any]]:
        """Read ranges; yields the number of a topic, and a table of `CellCounts` with some of its groups.

        A topic that cannot be read is in `failures` afterwards; the groups yielded for it are incomplete.
        """
        topics = sorted({part.topic for part in ranges})
        try:
            yield from self._read(ranges)
        except SkewError as error:
            # The client itself failed: none of the task's topics is complete.
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

            from spark_validation.kafka_client import GROUP_ID, make_client
        except ImportError:
            raise make_package_error("confluent_kafka", socket.gethostname()) from None
        consumer, problems = make_client(
            Consumer, self._kafka, {"group.id": GROUP_ID, **_OPTIONS, **make_fetch_options(ranges)}
        )
        try:
            for together in divide_into_rounds(ranges):
                wanted = [part for part in together if part.topic not in self.failures]
                if wanted:
                    yield from _Round(self, consumer, problems, wanted).read()
        finally:
            consumer.close()

    def _fail(self, topic: int, error: SkewError) -> None:
        # librdkafka's messages may quote a property, and a failure leaves the executor as a row.
        redacted = type(error)(
            hide_values(error.message, self._secrets),
            hint=error.hint and hide_values(error.hint, self._secrets),
        )
        # The first error is kept: later ones of the same topic mostly follow from it.
        self.failures.setdefault(topic, redacted)
        self._lists.pop(topic, None)
        self._cells.pop(topic, None)

    def _take(self, part: Range, messages: list[Any]) -> None:
        """Take messages of a range, in the order of their offsets."""
        first, last = messages[0].offset(), messages[-1].offset()
        # Brokers send whole batches, so that the first and last may reach beyond the range.
        if first < part.start or last >= part.end:
            messages = [message for message in messages if part.start <= message.offset() < part.end]
            if not messages:
                return
            first, last = messages[0].offset(), messages[-1].offset()
        base = part.partition * self._replicates[part.topic]
        number = bisect_right(part.edges, first) - 1
        lists = self._lists[part.topic]
        # Most batches lie in one window, and then their offsets need no search.
        if last < part.edges[number + 1]:
            lists.cells.append(base + part.replicates[number])
            lists.counts.append(len(messages))
        else:
            offsets = list(map(_OFFSET, messages))
            indices = np.searchsorted(offsets, part.edges)
            for replicate, (begin, end) in zip(part.replicates, pairwise(indices.tolist()), strict=True):
                lists.cells.append(base + replicate)
                lists.counts.append(end - begin)
        lists.keys += map(_KEY, messages)
        lists.sizes += map(len, messages)
        lists.times += [time for _, time in map(_TIMESTAMP, messages)]
        self._listed += len(messages)

    def _flush(self) -> Iterator[tuple[int, Any]]:
        """Group the listed messages once they are many; yield the groups once these are many."""
        if self._listed < _GROUPED:
            return
        for topic in list(self._lists):
            self._group(topic)
        self._listed = 0
        # Rows are an upper bound of the groups, and cheap; grouping again to count them is not.
        if sum(cells.rows for cells in self._cells.values()) < 2 * MAX_HELD_GROUPS:
            return
        tables = [(topic, cells.table()) for topic, cells in self._cells.items()]
        if sum(table.num_rows for _, table in tables) >= MAX_HELD_GROUPS:
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
        # The length of a message is that of its value.
        sizes = pc.add(pa.array(lists.sizes, pa.int64()), lengths)
        times = pa.array(lists.times, pa.int64())
        self._cells[topic].add_records(keys, np.repeat(lists.cells, lists.counts), sizes, times)


class _Round:
    """A round of reading ranges of different partitions at the same time."""

    def __init__(self, reader: RangeReader, consumer: Any, problems: Any, ranges: Sequence[Range]) -> None:
        from confluent_kafka import KafkaError, TopicPartition

        self._reader = reader
        self._consumer = consumer
        self._problems = problems
        self._errors = KafkaError
        self._topic_partition = TopicPartition
        self._open = {(reader._names[part.topic], part.partition): part for part in ranges}
        self._only = next(iter(self._open)) if len(self._open) == 1 else None
        self._ended: list[tuple[str, int]] = []
        self._heard_at = time.monotonic()
        self._doubted = False

    def read(self) -> Iterator[tuple[int, Any]]:
        self._consumer.assign(
            [self._topic_partition(topic, part, wanted.start) for (topic, part), wanted in self._open.items()]
        )
        while self._open:
            messages = self._next()
            if not messages:
                continue
            self._heard_at, self._doubted = time.monotonic(), False
            if any(map(_ERROR, messages)):
                events = [message for message in messages if message.error()]
                messages = [message for message in messages if not message.error()]
                self._take(messages)
                for event in events:
                    self._handle_event(event)
            else:
                self._take(messages)
            self._stop_fetching()
            yield from self._reader._flush()

    def _next(self) -> list[Any]:
        """Return the messages that have arrived, or the next one: a fuller batch is not waited for."""
        # With a timeout, consume waits for a full batch; without one it returns what is queued.
        messages: list[Any] = self._consumer.consume(_BATCH, 0)
        if messages:
            return messages
        message = self._consumer.poll(_POLL_S)
        if message is not None:
            return [message]
        name = next(iter(self._open))[0]
        self._problems.check(name)
        silent_s = time.monotonic() - self._heard_at
        if silent_s > _SILENT_S:
            for topic, partition in list(self._open):
                error = self._problems.make_silence_error(topic, _SILENT_S)
                text = f"no records arrived from partition {partition} of topic {topic}: {error.message}"
                self._fail_topic(topic, ReadingFailed(text, hint=error.hint))
        elif silent_s > _DOUBT_S and not self._doubted:
            self._doubted = True
            self._check_topics()
        return []

    def _check_topics(self) -> None:
        """Check that topics can be read at all: librdkafka does not report every denial by itself."""
        from confluent_kafka import KafkaException

        from spark_validation.kafka_client import make_reading_error

        for topic in {topic for topic, _ in self._open}:
            try:
                error = self._consumer.list_topics(topic, timeout=_POLL_S).topics[topic].error
            except KafkaException as raised:
                # No answer says nothing about the topic: it fails only if the silence lasts.
                self._problems(raised.args[0])
                return
            if error is not None:
                self._fail_topic(topic, make_reading_error(error, topic))

    def _take(self, messages: list[Any]) -> None:
        if not messages:
            return
        if self._only is not None:
            self._take_range(self._only, messages)
            return
        by_partition: dict[tuple[str, int], list[Any]] = defaultdict(list)
        for message in messages:
            by_partition[message.topic(), message.partition()].append(message)
        for partition, own in by_partition.items():
            self._take_range(partition, own)

    def _take_range(self, partition: tuple[str, int], messages: list[Any]) -> None:
        wanted = self._open.get(partition)
        # Messages of a range that has ended may still be queued.
        if wanted is None:
            return
        self._reader._take(wanted, messages)
        if messages[-1].offset() >= wanted.end - 1:
            self._end(partition)

    def _end(self, partition: tuple[str, int]) -> None:
        del self._open[partition]
        self._ended.append(partition)

    def _stop_fetching(self) -> None:
        """Stop fetching ranges that have ended; the next round's assignment ends the last one."""
        if self._ended and self._open:
            self._consumer.incremental_unassign([self._topic_partition(*ended) for ended in self._ended])
        self._ended.clear()

    def _handle_event(self, event: Any) -> None:
        """Handle what comes in place of a message: the end of a partition, or an error."""
        error, partition = event.error(), (event.topic(), event.partition())
        wanted = self._open.get(partition)
        code = error.code()
        if code == self._errors._PARTITION_EOF:
            if wanted is not None and (event.offset() >= wanted.end or self._is_cut(partition, wanted)):
                self._end(partition)
        elif code == self._errors._AUTO_OFFSET_RESET:
            if wanted is not None:
                self._skip_removed(partition, wanted)
        elif partition[0] is None:
            # An error of the client and not of a topic, such as a lost broker, may pass by itself.
            self._problems(error)
        else:
            from spark_validation.kafka_client import HARMLESS, make_reading_error

            if code not in HARMLESS:
                self._fail_topic(partition[0], make_reading_error(error, partition[0]))

    def _is_cut(self, partition: tuple[str, int], wanted: Range) -> bool:
        """Return whether a log ends before a range does; a new leader may not have its end yet."""
        _, high = self._watermarks(partition)
        return high < wanted.end

    def _skip_removed(self, partition: tuple[str, int], wanted: Range) -> None:
        """Continue after the records that retention has removed."""
        low, high = self._watermarks(partition)
        # Removed beyond the range, or emptied: there is nothing left of it.
        if not wanted.start <= low < min(wanted.end, high):
            self._end(partition)
            return
        self._consumer.incremental_unassign([self._topic_partition(*partition)])
        self._consumer.incremental_assign([self._topic_partition(*partition, low)])

    def _watermarks(self, partition: tuple[str, int]) -> tuple[int, int]:
        from confluent_kafka import KafkaException

        from spark_validation.kafka_client import make_reading_error

        try:
            named = self._topic_partition(*partition)
            low, high = self._consumer.get_watermark_offsets(named, timeout=_RESPONSE_TIMEOUT_S)
        except KafkaException as error:
            failure = make_reading_error(error, partition[0])
            raise failure from None
        return low, high

    def _fail_topic(self, topic: str, error: SkewError) -> None:
        if topic not in self._reader._numbers:
            return
        self._reader._fail(self._reader._numbers[topic], error)
        # A list of them, as _end removes them from _open.
        for partition in [partition for partition in self._open if partition[0] == topic]:
            self._end(partition)


# --- compacted logs --------------------------------------------------------------------------------

# Offsets of a window that shows whether compaction has reached it: a key with 1 % of the records, of which
# it keeps one, is missed with a probability of 0.99 ** 256 = 8 %.
_PROBE = 256


class _ProbeReader(RangeReader):
    """A reader of ranges that counts their records without keys."""

    def __init__(self, names: Sequence[str], kafka: Mapping[str, str]) -> None:
        super().__init__(names, [1] * len(names), kafka)
        self.records: dict[Range, int] = defaultdict(int)

    def _take(self, part: Range, messages: list[Any]) -> None:
        self.records[part] += sum(1 for message in messages if part.start <= message.offset() < part.end)

    def is_dense(self, part: Range) -> bool:
        """Return whether every offset of a range has a record."""
        return self.records[part] == part.end - part.start


def find_dense(
    topics: Mapping[str, Sequence[Span]], kafka: Mapping[str, str]
) -> tuple[dict[str, list[Span]], dict[str, SkewError]]:
    """Find the part of each log that compaction has not reached: where every offset has a record.

    It is the end of the log, as the cleaner works from the start and leaves the active segment alone. Windows
    at doubling distances from the end are read, so that up to half of that part is not found. Where a
    producer writes transactions, their markers leave gaps, too, and nothing is found.

    Args:
        topics: The spans of each topic.
        kafka: Properties of librdkafka; secrets among them.

    Returns:
        The spans with `readable_from`, and the errors of topics that could not be read.
    """
    names = list(topics)
    probes = {
        (number, span.partition): _choose_probes(number, span)
        for number, name in enumerate(names)
        for span in topics[name]
    }
    reader = _ProbeReader(names, kafka)
    if ranges := [probe for own in probes.values() for probe in own]:
        for _ in reader.read(ranges):
            pass  # the reader counts; there are no groups of records
    failed = {names[number]: error for number, error in reader.failures.items()}
    readable = {}
    for number, name in enumerate(names):
        spans = []
        for span in topics[name]:
            # From the end back: behind the first window with a gap, a dense one is a coincidence.
            dense = takewhile(reader.is_dense, probes[number, span.partition])
            first = min((probe.start for probe in dense), default=span.end)
            spans.append(replace(span, readable_from=first))
        readable[name] = spans
    return readable, failed


def _choose_probes(topic: int, span: Span) -> list[Range]:
    """Choose windows of a log, the last one first."""
    windows: list[Range] = []
    distance = _PROBE
    while span.readable and (not windows or windows[-1].start > span.first):
        start = max(span.first, span.end - distance)
        windows.append(Range(topic, span.partition, (start, min(span.end, start + _PROBE)), (0,)))
        distance *= 2
    return windows

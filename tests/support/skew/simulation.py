"""Topics made of arrays, whose keys fall on partitions in a known way; and samples of them, without Spark.

A topic is produced record by record in one order of time, as `build_topic` does it; the builders below it say
which key each record has, and what places it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaform.core.values import replace
from spark_validation.counting import Rows, count_rows
from spark_validation.hashing import PARTITIONERS, Int64s, Keys
from spark_validation.key_counts import NEVER, CountsLayout, KeyCounts
from spark_validation.sampled_topic import CountBetween, OffsetsAt
from spark_validation.windows import SamplePlan, Span, plan_windows
from tests.support.nightly import select_daily

NULL = -1
"""The code of a record without a key."""
START_MS = 1_700_000_000_000
TEN_HOURS_MS = 36_000_000
DAY_MS = 86_400_000
STICKY_BATCH = 20
"""Records without a key that go to one partition together, as the sticky partitioner sends them."""

MOST_USED = ("murmur2", "crc32", "fnv1a")
EACH_PARTITIONER = select_daily(PARTITIONERS, MOST_USED, "another hash")
"""Parameters of tests: the partitioners of most clients by day, all of them at night."""


@lru_cache(100)
def hash_keys(partitioner: str, keys: tuple[bytes, ...]) -> Int64s:
    """Return what a partitioner takes modulo the partition count (keys)."""
    return PARTITIONERS[partitioner](Keys.from_list([*keys]))


@dataclass(frozen=True, eq=False)
class SimulatedTopic:
    """A topic. Sequences are by partition; their arrays are in offset order.

    Attributes:
        codes: The key of each record, as an index of `keys`; NULL for none.
        keys: The bytes of each key.
        sizes: Bytes of key and value of each record.
        times: Timestamps in milliseconds since 1970.
        offsets: The offset of each record: there are gaps where records were compacted away.
        ends: The offset after the last of each partition.
    """

    codes: tuple[Int64s, ...]
    keys: tuple[bytes, ...]
    sizes: tuple[Int64s, ...]
    times: tuple[Int64s, ...]
    offsets: tuple[Int64s, ...]
    ends: tuple[int, ...]

    @property
    def partitions(self) -> int:
        return len(self.codes)

    @cached_property
    def all_codes(self) -> Int64s:
        return np.concatenate(self.codes)

    @cached_property
    def all_sizes(self) -> Int64s:
        return np.concatenate(self.sizes)

    @cached_property
    def arrow_keys(self) -> Any:
        return pa.array(self.keys, pa.binary())

    @property
    def records(self) -> Int64s:
        """Records of each partition."""
        return np.array([len(codes) for codes in self.codes], dtype=np.int64)

    @property
    def bytes(self) -> Int64s:
        """Bytes of each partition."""
        return np.array([int(sizes.sum()) for sizes in self.sizes], dtype=np.int64)

    @property
    def distinct(self) -> int:
        """Distinct keys, of those that are not null."""
        return int(np.count_nonzero(np.unique(self.all_codes) != NULL))

    def share(self, code: int) -> float:
        """The share of one key (or of NULL) in the records."""
        return float(np.mean(self.all_codes == code))

    def byte_share(self, code: int) -> float:
        return float(self.all_sizes[self.all_codes == code].sum() / self.all_sizes.sum())

    def ratio(self) -> float:
        """The fullest partition over the mean, by records."""
        return float(self.records.max() / self.records.mean())

    def byte_ratio(self) -> float:
        """The same by bytes."""
        return float(self.bytes.max() / self.bytes.mean())

    def ratio_on(self, partitions: int) -> float:
        """The same if murmur2 placed every record on so many partitions, and those without a key evenly."""
        return self._ratio_on(partitions, np.ones(len(self.all_codes)))

    def byte_ratio_on(self, partitions: int) -> float:
        """The same by bytes."""
        return self._ratio_on(partitions, self.all_sizes)

    def _ratio_on(self, partitions: int, sizes: npt.NDArray[Any]) -> float:
        keyed = self.all_codes != NULL
        hashed = hash_keys("murmur2", self.keys)[self.all_codes[keyed]]
        placed = np.bincount(hashed % partitions, sizes[keyed], partitions)
        placed += sizes[~keyed].sum() / partitions
        return float(placed.max() / placed.mean())


def build_topic(
    codes: npt.ArrayLike,
    keys: Sequence[bytes],
    partitions: int,
    *,
    counts: npt.ArrayLike | None = None,
    crc32: npt.ArrayLike = False,
    sizes: npt.ArrayLike = 200,
    sticky_batch: int = STICKY_BATCH,
    seed: int = 0,
) -> SimulatedTopic:
    """A topic from records in the order of time, one a millisecond.

    Args:
        codes: The key of each record.
        keys: By code.
        partitions: The topic's count in the end.
        counts: The count when each record was produced; `partitions` unless given.
        crc32: Whether each record is placed by CRC32 instead of murmur2.
        sizes: Bytes of each.
        sticky_batch: Records without a key that go to one partition together.
        seed: Of where records without a key go.
    """
    codes = np.asarray(codes, dtype=np.int64)
    random = np.random.default_rng(seed)
    counts = np.broadcast_to(np.asarray(partitions if counts is None else counts), codes.shape)
    by_murmur2, by_crc32 = (hash_keys(name, tuple(keys)) for name in ("murmur2", "crc32"))
    hashed = np.where(np.asarray(crc32), by_crc32[codes], by_murmur2[codes])
    without = np.cumsum(codes == NULL) // sticky_batch
    sticky = random.integers(0, 2**31, size=int(without.max(initial=0)) + 1)[without]
    return place_records(
        np.where(codes == NULL, sticky, hashed) % counts, codes, keys, partitions, sizes=sizes
    )


def place_records(
    placed: Int64s,
    codes: npt.ArrayLike,
    keys: Sequence[bytes],
    partitions: int,
    *,
    sizes: npt.ArrayLike = 200,
) -> SimulatedTopic:
    """A topic from the partitions that records lie on, in the order of time, one a millisecond."""
    codes = np.asarray(codes, dtype=np.int64)
    sizes = np.broadcast_to(np.asarray(sizes, dtype=np.int64), codes.shape)
    order = np.argsort(placed, kind="stable")
    cuts = np.cumsum(np.bincount(placed, minlength=partitions))[:-1]
    lengths = np.bincount(placed, minlength=partitions).tolist()
    return SimulatedTopic(
        tuple(np.split(codes[order], cuts)),
        tuple(keys),
        tuple(np.split(sizes[order], cuts)),
        tuple(np.split(START_MS + order, cuts)),
        tuple(np.arange(length, dtype=np.int64) for length in lengths),
        tuple(lengths),
    )


def grow_topic(
    by: str, codes: Int64s, keys: tuple[bytes, ...], counts: Mapping[float, int]
) -> SimulatedTopic:
    """A partitioner places keys, on partition counts by the part of the log up to which they held."""
    part = np.arange(len(codes)) / len(codes)
    count = np.select([until > part for until in counts], [*counts.values()])
    return place_records(hash_keys(by, keys)[codes] % count, codes, keys, [*counts.values()][-1])


@cache
def name_keys(count: int) -> tuple[bytes, ...]:
    return tuple(f"customer-{number}".encode() for number in range(count))


@lru_cache(8)
def uniform(
    records: int = 100_000,
    keys: int = 5_000,
    partitions: int = 12,
    *,
    hot: float = 0.0,
    null: float = 0.0,
    crc32: float = 0.0,
    before: int = 0,
    at: float = 0.5,
    sticky_batch: int = STICKY_BATCH,
    seed: int = 0,
) -> SimulatedTopic:
    """Keys are alike, and murmur2 places them; one of three shares makes some of the records others.

    Args:
        hot: The share of key 0.
        null: The share of records without a key, which go to partitions in batches.
        crc32: The share that CRC32 places.
        before: The partition count of the first part of the records (`at`), where it was another one.
    """
    random = np.random.default_rng(seed)
    codes, drawn = random.integers(hot > 0, keys, records), random.random(records)
    codes[drawn < hot] = 0
    codes[drawn < null] = NULL
    earlier = before * (np.arange(records) < records * at)
    counts = np.where(earlier > 0, earlier, partitions)
    return build_topic(
        codes,
        name_keys(keys),
        partitions,
        counts=counts,
        crc32=drawn < crc32,
        sticky_batch=sticky_batch,
        seed=seed,
    )


def zipf(
    records: int = 100_000, keys: int = 5_000, partitions: int = 12, *, s: float = 1.1, seed: int = 0
) -> SimulatedTopic:
    """The n-th key as likely as n to the power of -s."""
    random = np.random.default_rng(seed)
    weights = np.arange(1, keys + 1) ** -s
    codes = random.choice(keys, records, p=weights / weights.sum())
    return build_topic(codes, name_keys(keys), partitions, seed=seed)


def bursts(
    records: int = 100_000,
    keys: int = 5_000,
    partitions: int = 12,
    *,
    stretches: int = 3,
    length: float = 0.02,
    within: float = 0.9,
    seed: int = 0,
) -> SimulatedTopic:
    """Key 0 is hot in a few short stretches of time and absent otherwise; the others are uniform.

    The stretches do not overlap; `length` is a part of all records, and `within` the share of key 0 in them.
    """
    random = np.random.default_rng(seed)
    codes = random.integers(1, keys, records)
    long = round(records * length)
    free = records - stretches * long + 1
    starts = np.sort(random.integers(0, free, stretches)) + long * np.arange(stretches)
    bursting = np.zeros(records, dtype=bool)
    for start in starts:
        bursting[start : start + long] = True
    codes[bursting & (random.random(records) < within)] = 0
    return build_topic(codes, name_keys(keys), partitions, seed=seed)


def hot_over_time(
    share: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    hours: float,
    records: int = 48_000,
    *,
    seed: int = 0,
) -> SimulatedTopic:
    """Key 0 has a share of its own that is given by the hour; the others are uniform."""
    random = np.random.default_rng(seed)
    codes = random.integers(1, 5_000, records)
    codes[random.random(records) < share(np.arange(records) / records * hours)] = 0
    return spread_over(build_topic(codes, name_keys(5_000), 12, seed=seed), hours)


def spread_over(topic: SimulatedTopic, hours: float = 24) -> SimulatedTopic:
    """The same log, of one record a millisecond, over some hours."""
    pace = hours * 3_600_000 / int(topic.records.sum())
    return replace(
        topic, times=tuple(START_MS + ((at - START_MS) * pace).astype(np.int64) for at in topic.times)
    )


def select_since(topic: SimulatedTopic, since_ms: int) -> SimulatedTopic:
    """The records of a log from a time on."""
    newest = [times >= since_ms for times in topic.times]
    codes, sizes, times = (
        tuple(array[new] for array, new in zip(arrays, newest, strict=True))
        for arrays in (topic.codes, topic.sizes, topic.times)
    )
    return replace(topic, codes=codes, sizes=sizes, times=times)


def add_sizes(topic: SimulatedTopic, *, sigma: float = 1.0, seed: int = 0) -> SimulatedTopic:
    """The same records with log-normal sizes."""
    random = np.random.default_rng(seed)
    sizes = tuple(random.lognormal(5.0, sigma, len(codes)).astype(np.int64) + 1 for codes in topic.codes)
    return replace(topic, sizes=sizes)


def compact_log(topic: SimulatedTopic, *, kept: float = 0.5, seed: int = 0) -> SimulatedTopic:
    """The same log with a part of its records gone at random; their offsets stay behind."""
    random = np.random.default_rng(seed)
    return _remove_records(topic, [random.random(len(codes)) >= kept for codes in topic.codes])


def clean_log(topic: SimulatedTopic, *, dirty: float = 0.02) -> SimulatedTopic:
    """The same log as Kafka's cleaner leaves it: each key's last record, and all of the log's newest part.

    So the older a part is, the fewer of its offsets have a record. `dirty` is the part that is not cleaned.
    """
    gone = []
    for codes in topic.codes:
        clean = round(len(codes) * (1.0 - dirty))
        last = np.full(len(topic.keys), -1)
        last[codes[:clean]] = np.arange(clean)
        superseded = np.zeros(len(codes), dtype=bool)
        superseded[:clean] = (codes[:clean] != NULL) & (last[codes[:clean]] != np.arange(clean))
        gone.append(superseded)
    return _remove_records(topic, gone)


def abort_transactions(
    records: int, keys: int = 5_000, *, transaction: int = 100, hot: float = 0.0
) -> SimulatedTopic:
    """60 % of the transactions are aborted: those of a job that fails and retries, for a while, on one key.

    Offsets of aborted transactions have no record that a consumer gets. Keys are alike in what is committed,
    but for key 0, which has a share of it (`hot`).
    """
    random = np.random.default_rng(0)
    codes = random.integers(1, keys, records)
    codes[random.random(records) < hot] = 0
    # The job fails for a while, works for a while: runs of transactions, of 25 on average.
    count = -(-records // transaction)
    turns = random.random(count) < 1.0 / 25
    fails = (random.random(count) < 0.6)[np.maximum.accumulate(np.where(turns, np.arange(count), 0))]
    dropped = np.repeat(fails, transaction)[:records]
    codes[dropped] = keys - 1
    topic = build_topic(codes, name_keys(keys), 12)
    return _remove_records(topic, [dropped[times - START_MS] for times in topic.times])


def add_keys_over_time(records: int, keys: int = 20_000) -> SimulatedTopic:
    """Each record has one of the keys that there are until then, or key 0, which has 1 % of all."""
    random = np.random.default_rng(0)
    so_far = np.arange(1, records + 1) / records * keys
    codes = (random.random(records) * so_far).astype(np.int64)
    codes[random.random(records) < 0.01] = 0
    return build_topic(codes, name_keys(keys), 12)


def misdate_records(topic: SimulatedTopic, *, share: float, by: float, seed: int = 0) -> SimulatedTopic:
    """The same log over ten hours, with a share of its records at other times than when they were written.

    `by` is a part of the ten hours: below 0 for event times of before, above for those of the future.
    """
    random = np.random.default_rng(seed)
    times = tuple(
        at + ((random.random(len(at)) < share) * by * TEN_HOURS_MS).astype(np.int64)
        for at in spread_over(topic, 10).times
    )
    return replace(topic, times=times)


def counted_by_offsets(topic: SimulatedTopic) -> CountBetween:
    """Count what was written between two times, as the leaders of a topic do whose times are in order."""

    def between(since_ms: int, until_ms: int) -> list[int]:
        return [
            int(np.diff(np.append(offsets, end)[np.searchsorted(times, (since_ms, until_ms))])[0])
            for times, offsets, end in zip(topic.times, topic.offsets, topic.ends, strict=True)
        ]

    return between


def offsets_by_time(topic: SimulatedTopic) -> OffsetsAt:
    """Find the first offset, by offset, that is not older than a time, as brokers do."""

    def find(time_ms: int) -> list[int]:
        return [
            int(offsets[np.argmax(times >= time_ms)]) if (times >= time_ms).any() else end
            for times, offsets, end in zip(topic.times, topic.offsets, topic.ends, strict=True)
        ]

    return find


def _remove_records(topic: SimulatedTopic, gone: Sequence[npt.NDArray[np.bool_]]) -> SimulatedTopic:
    """The same log without some records (an array for each partition), whose offsets stay behind."""

    def cut(arrays: tuple[Int64s, ...]) -> tuple[Int64s, ...]:
        return tuple(array[~lost] for array, lost in zip(arrays, gone, strict=True))

    return SimulatedTopic(
        cut(topic.codes), topic.keys, cut(topic.sizes), cut(topic.times), cut(topic.offsets), topic.ends
    )


def spans(topic: SimulatedTopic) -> tuple[Span, ...]:
    """The offsets of each partition; bytes on disk as they come, uncompressed."""
    return tuple(
        Span(number, 0, end, int(size))
        for number, (end, size) in enumerate(zip(topic.ends, topic.bytes, strict=True))
    )


def count_sample(
    topic: SimulatedTopic, plan: SamplePlan, candidates: Sequence[int] = (), *, keep_keys: bool = False
) -> tuple[KeyCounts, CountsLayout]:
    """Count what a plan reads, as one reducer does."""
    layout = CountsLayout(
        topic.partitions,
        plan.replicates,
        plan.weights,
        plan.read_whole,
        tuple(candidates),
        keep_keys=keep_keys,
    )
    return count_rows(read_rows(topic, plan), layout), layout


def read_rows(topic: SimulatedTopic, plan: SamplePlan) -> Rows | None:
    """Group what a plan reads by key and partition, as `counting.group_cells` does."""
    codes, sizes, times, windows = [], [], [], []
    for window in plan.windows:
        first, last = np.searchsorted(topic.offsets[window.partition], (window.start, window.end))
        codes.append(topic.codes[window.partition][first:last])
        sizes.append(topic.sizes[window.partition][first:last])
        times.append(topic.times[window.partition][first:last])
        windows.append((window.partition, window.replicate, last - first))
    if not sum(map(len, codes)):
        return None
    code, size, time = (np.concatenate(column) for column in (codes, sizes, times))
    partition, replicate, lengths = (np.array(column) for column in zip(*windows, strict=True))
    partition, replicate = np.repeat(partition, lengths), np.repeat(replicate, lengths)
    # Key and partition in one number, of which each that occurs is a row.
    pair = (code - NULL) * topic.partitions + partition
    occurs = np.bincount(pair) > 0
    pairs, row = np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[pair]
    shape = len(pairs), plan.replicates
    count, total = (
        np.bincount(row * plan.replicates + replicate, values, len(pairs) * plan.replicates)
        for values in (None, size)
    )
    cells = topic.partitions * plan.replicates
    first_ms, last_ms = _time_range(partition * plan.replicates + replicate, time, cells)
    row_code = pairs // topic.partitions + NULL
    return Rows(
        topic.arrow_keys.take(pa.array(row_code, mask=row_code == NULL)),
        pairs % topic.partitions,
        count.reshape(shape),
        total.astype(np.int64).reshape(shape),
        *_time_range(row, time, len(pairs)),
        first_ms.reshape(-1, plan.replicates),
        last_ms.reshape(-1, plan.replicates),
    )


def _time_range(place: Int64s, times: Int64s, places: int) -> tuple[Int64s, Int64s]:
    """Return the earliest and the latest time of each place; NEVER and -1 where there is none."""
    earliest, latest = np.full(places, NEVER), np.full(places, -1, dtype=np.int64)
    np.minimum.at(earliest, place, times)
    np.maximum.at(latest, place, times)
    return earliest, latest


@lru_cache(8)
def draw_sample(
    topic: SimulatedTopic, *, records: int, seed: int = 0, candidates: Sequence[int] = ()
) -> tuple[KeyCounts, SamplePlan, CountsLayout]:
    """A sample of a topic, and its plan."""
    plan = plan_windows(spans(topic), records=records, seed=seed)
    counts, layout = count_sample(topic, plan, candidates)
    return counts, plan, layout

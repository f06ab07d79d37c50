"""Topics whose logs no longer hold all that was written, and what a plain consumer saw before it was removed.

`make_scenes` fills a broker that trims and compacts logs within a second.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, repeat
from typing import Any, TypeAlias

import numpy as np
from confluent_kafka.admin import ResourceType

from spark_validation.hashing import PARTITIONERS, Keys
from tests.support.clusters.fixtures import TIMEOUT_S, admin_client, eventually
from tests.support.clusters.topics import alter_configs, delete_records
from tests.support.skew.producers import (
    BY_PARTITIONER,
    Key,
    create_topic,
    even_keys,
    messages,
    mix_in_hot_key,
    producer,
)

PROPERTIES = {
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.cleaner.backoff.ms": "100",
}
"""Of a broker that trims and compacts at once."""
RECORDS = 30_000
PARTITIONS = 12
HOURS_MS = 6 * 3_600_000
DAY_MS = 24 * 3_600_000
HOT = b"hot"
_VALUE = b"v" * 200


@dataclass(slots=True)
class Written:
    """The records written to a topic, by partition in the order of offsets.

    Times are those at which the producer planned to write, whatever the timestamps, or else these.
    """

    times: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    offsets: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    keys: dict[int, list[Key]] = field(default_factory=lambda: defaultdict(list))
    sizes: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def since(self, time_ms: int | None, partition: int) -> slice:
        """The records from the first one on that is not older than a time; all for None."""
        if time_ms is None:
            return slice(0, None)
        times = self.times[partition]
        return slice(next((n for n, time in enumerate(times) if time >= time_ms), len(times)), None)

    def counts(self, time_ms: int | None, partitions: int) -> list[int]:
        """Records of each partition since a time."""
        return [len(self.keys[number][self.since(time_ms, number)]) for number in range(partitions)]

    def share(self, key: Key, time_ms: int | None, partitions: int, *, by_bytes: bool = False) -> float:
        """The share of a key in the records since a time, or in their bytes."""
        sizes = Counter[Key]()
        for number in range(partitions):
            part = self.since(time_ms, number)
            for each, size in zip(self.keys[number][part], self.sizes[number][part], strict=True):
                sizes[each] += size if by_bytes else 1
        return sizes[key] / sizes.total()


@dataclass
class Topic:
    """A topic that a scene makes.

    Attributes:
        written: What was written, once the scene has called `record`.
        planned: When records were to be written, by partition and offset, where timestamps differ from that.
    """

    servers: str
    name: str
    random: np.random.Generator
    partitions: int = PARTITIONS
    written: Written = field(default_factory=Written)
    planned: dict[tuple[int, int], int] = field(default_factory=dict)

    def create(self, partitions: int = PARTITIONS, **config: str) -> None:
        """Create it; configs have `_` where Kafka has a dot."""
        self.partitions = partitions
        create_topic(self.servers, self.name, partitions, **config)

    def send(
        self,
        keys: Sequence[Key],
        times: Iterable[int] | None = None,
        sizes: Mapping[Key, int] | None = None,
        batch: int = 10_000,
        stamps: Sequence[int] | None = None,
        partitions: Sequence[int] | None = None,
    ) -> None:
        """Produce a record for each key, evenly over the last hours unless times are given.

        `stamps` are the timestamps, where these are other times; the partitioner decides unless partitions
        are given. `sizes` are the bytes of the values of keys, and `batch` the most records sent together.
        """
        at = [*islice(times if times is not None else spread_over_hours(len(keys)), len(keys))]
        values = {key: b"v" * size for key, size in (sizes or {}).items()}
        properties: dict[str, Any] = {"batch.num.messages": batch}
        client = producer(self.servers, **properties)
        failed: list[Any] = []

        def note(error: Any, message: Any, planned: int) -> None:
            failed.extend([error] if error is not None else [])
            self.planned[message.partition(), message.offset()] = planned

        for number, key in enumerate(keys):
            client.produce(
                self.name,
                values.get(key, _VALUE),
                key,
                partitions[number] if partitions is not None else BY_PARTITIONER,
                timestamp=at[number] if stamps is None else stamps[number],
                on_delivery=None if stamps is None else partial(note, planned=at[number]),
            )
            if number % 20_000 == 0:
                client.poll(0)
        assert client.flush(TIMEOUT_S) == 0
        assert not failed, failed[0]

    def record(self) -> None:
        """Have a plain consumer see what was written so far, before anything is removed."""
        self.written = Written()
        for message in messages(self.servers, self.name, self.partitions):
            number: Any = message.partition()
            key: Any = message.key()
            offset = message.offset() or 0
            self.written.times[number].append(self.planned.get((number, offset), message.timestamp()[1]))
            self.written.offsets[number].append(offset)
            self.written.keys[number].append(key)
            self.written.sizes[number].append(len(message.key() or b"") + len(message.value() or b""))

    def trim(self, kept: Mapping[int, int]) -> None:
        """Delete the first records of partitions, so that so many are kept."""
        ends = {number: self.written.offsets[number][-1] + 1 for number in kept}
        delete_records(self.servers, {(self.name, number): ends[number] - kept[number] for number in kept})

    def trim_to(self, size: int) -> None:
        """Trim every partition that has more records than this, as retention.bytes does."""
        counts = self.written.counts(None, self.partitions)
        self.trim({number: size for number, count in enumerate(counts) if count > size})

    def alter(self, **config: str) -> None:
        given = {name.replace("_", "."): value for name, value in config.items()}
        alter_configs(admin_client(self.servers), ResourceType.TOPIC, [self.name], given)

    def count_remaining(self) -> int:
        """Count the records that the log still has."""
        return sum(1 for _ in messages(self.servers, self.name, self.partitions))


def spread_over_hours(count: int, hours_ms: int = HOURS_MS) -> Iterator[int]:
    """Timestamps at a steady rate up to now."""
    now = int(time.time() * 1000)
    return (now - hours_ms + hours_ms * number // count for number in range(count))


def _send_hot(topic: Topic, count: int = RECORDS) -> None:
    topic.send(mix_in_hot_key(even_keys(topic.random, count), topic.random, 0.25))
    topic.record()


def _hot_trimmed(topic: Topic) -> None:
    """The hot partition is trimmed to the size of the others."""
    topic.create()
    _send_hot(topic)
    topic.trim_to(min(topic.written.counts(None, PARTITIONS)))


def _hot_by_retention(topic: Topic) -> None:
    """The same by retention.bytes itself."""
    topic.create(segment_bytes=str(2**20))
    _send_hot(topic, 60_000)  # a segment in each partition, and several in the hot one
    before = topic.count_remaining()
    topic.alter(retention_bytes=str(2**20))
    # Less than two segments of the hot partition stay: where segments end depends on batches.
    eventually(topic.count_remaining, lambda left: left < 0.87 * before)


def _even_trimmed(topic: Topic) -> None:
    """Four of twelve partitions lose most of their records."""
    topic.create()
    topic.send(even_keys(topic.random, RECORDS))
    topic.record()
    topic.trim(dict.fromkeys((1, 4, 6, 9), 750))


def _even_by_time(topic: Topic) -> None:
    """Every partition keeps the last two hours."""
    topic.create(segment_ms=str(15 * 60_000))
    topic.send(even_keys(topic.random, RECORDS), batch=100)
    topic.record()
    before = topic.count_remaining()
    topic.alter(retention_ms=str(2 * 3_600_000))
    eventually(topic.count_remaining, lambda left: left < 0.5 * before)


def _compacted_clean(topic: Topic) -> None:
    """One old record a partition is left in the active segment."""
    topic.create(segment_ms=str(30 * 60_000))
    keys = mix_in_hot_key(even_keys(topic.random, RECORDS, 2_000), topic.random, 0.25)
    topic.send(keys, [at - 3_600_000 for at in spread_over_hours(len(keys))], batch=100)
    now = int(time.time() * 1000)
    client = producer(topic.servers)
    for number in range(PARTITIONS):
        client.produce(topic.name, _VALUE, b"last-%d" % number, number, timestamp=now)
    assert client.flush(TIMEOUT_S) == 0
    topic.record()
    topic.alter(cleanup_policy="compact", min_cleanable_dirty_ratio="0.001")
    eventually(topic.count_remaining, lambda left: left < 5_000)
    time.sleep(1.0)


def _transactions_trimmed(topic: Topic) -> None:
    """A hot key of constant share; markers after every four hundred records."""
    topic.create()
    keys = mix_in_hot_key(even_keys(topic.random, RECORDS), topic.random, 0.3)
    _write_in_transactions(topic, keys, 400)
    topic.record()
    topic.trim_to(round(0.8 * min(topic.written.counts(None, PARTITIONS))))


def _write_in_transactions(
    topic: Topic, keys: Sequence[Key], size: int, times: Iterator[int] | None = None
) -> None:
    """Records have the producer's own times, unless some are given; markers have the broker's."""
    at = times or repeat(0)
    client = producer(topic.servers, **{"transactional.id": topic.name})
    client.init_transactions(TIMEOUT_S)
    for start in range(0, len(keys), size):
        client.begin_transaction()
        for key in keys[start : start + size]:
            client.produce(topic.name, _VALUE, key, timestamp=next(at))
        assert client.flush(TIMEOUT_S) == 0
        client.commit_transaction(TIMEOUT_S)


def _bytes_trimmed(topic: Topic) -> None:
    """One key has 1.9 % of the records and 60 % of the bytes; its partition is trimmed to those of others."""
    topic.create()
    topic.send(mix_in_hot_key(even_keys(topic.random, RECORDS), topic.random, 0.019), sizes={HOT: 15_000})
    topic.record()
    counts = topic.written.counts(None, PARTITIONS)
    hot = next(number for number in range(PARTITIONS) if HOT in topic.written.keys[number])
    topic.trim({hot: counts[hot] // 8})


IN_DAY = 24_000
"""The records of the scenes of a day."""


def _places(keys: Sequence[Key]) -> list[int]:
    """The partition of each key by Java's partitioner."""
    hashed = PARTITIONERS["murmur2"](Keys.from_list([key or b"" for key in keys]))
    return [int(place) % PARTITIONS for place in hashed]


def _send_day(
    topic: Topic, share: float = 0.0, stamp: Callable[[list[int], list[int]], None] | None = None
) -> None:
    """Send the records of a day; `stamp` changes timestamps, and takes them and the partitions of records."""
    keys = mix_in_hot_key(even_keys(topic.random, IN_DAY), topic.random, share)
    times = [*spread_over_hours(IN_DAY, DAY_MS)]
    stamps = times[:]
    if stamp is not None:
        stamp(stamps, _places(keys))
    topic.send(keys, times, stamps=stamps, batch=100)
    topic.record()


def _ahead_inside(topic: Topic) -> None:
    """The clock of some producer is ahead: an early record has a time shortly before the end."""
    topic.create()

    def stamp(stamps: list[int], places: list[int]) -> None:
        own = [at for at, place in enumerate(places) if place == 5]
        stamps[own[2]] = stamps[-1] - 30 * 60_000

    _send_day(topic, stamp=stamp)


def _lagging(topic: Topic) -> None:
    """Records come in any order, half of them an hour late."""
    topic.create()

    def stamp(stamps: list[int], _: list[int]) -> None:
        lags = topic.random.exponential(78 * 60_000, len(stamps)).astype(int).tolist()
        stamps[:] = [at - lag for at, lag in zip(stamps, lags, strict=True)]

    _send_day(topic, 0.1, stamp)
    topic.trim_to(min(topic.written.counts(None, PARTITIONS)) // 2)


def _append_time(topic: Topic) -> None:
    """Times are the broker's: those of a batch are equal, and no clock is ahead."""
    topic.create(message_timestamp_type="LogAppendTime")
    # The hot partition keeps a sixth: the last batches, of several times.
    for _ in range(24):
        topic.send(mix_in_hot_key(even_keys(topic.random, 2_000), topic.random, 0.3), repeat(0))
        time.sleep(0.2)
    topic.record()
    topic.trim_to(min(topic.written.counts(None, PARTITIONS)))


def _alone_compacted(topic: Topic) -> None:
    """The key of two fifths of the records is alone on a partition, of which compaction leaves the last."""
    topic.create(segment_ms=str(30 * 60_000))
    chosen = topic.random.random(IN_DAY) < 0.4
    remaining = topic.random.integers(0, 2_000, IN_DAY).tolist()
    keys = [
        HOT if hot else b"order-%d" % second for hot, second in zip(chosen.tolist(), remaining, strict=True)
    ]
    places = [
        0 if key == HOT else 1 + second % (PARTITIONS - 1)
        for key, second in zip(keys, remaining, strict=True)
    ]
    topic.send(keys, [*spread_over_hours(IN_DAY, DAY_MS)], partitions=places, batch=100)
    topic.record()
    topic.alter(cleanup_policy="compact", min_cleanable_dirty_ratio="0.001")
    eventually(topic.count_remaining, lambda left: left < IN_DAY // 8)
    time.sleep(1.0)


def _emptied_even(topic: Topic) -> None:
    """All partitions but one have lost every record."""
    topic.create()
    _send_day(topic)
    topic.trim(dict.fromkeys(range(1, PARTITIONS), 0))


def _emptied_of_hot(topic: Topic) -> None:
    """The partition of the hot key has lost every record, and no other one any."""
    topic.create()
    _send_day(topic, 0.28)
    counts = topic.written.counts(None, PARTITIONS)
    topic.trim({counts.index(max(counts)): 0})


def _replay_hot_partition(topic: Topic) -> None:
    """Transactions with times of a day, whose markers have the present time; the hot partition is trimmed."""
    topic.create()
    keys = mix_in_hot_key(even_keys(topic.random, IN_DAY, 2_000), topic.random, 0.15)
    _write_in_transactions(topic, keys, 100, spread_over_hours(IN_DAY, DAY_MS))
    topic.record()
    topic.trim_to(min(topic.written.counts(None, PARTITIONS)) // 2)


Make: TypeAlias = Callable[[Topic], None]
SCENES: Mapping[str, Make] = {
    "hot-trimmed": _hot_trimmed,
    "hot-by-retention": _hot_by_retention,
    "even-trimmed": _even_trimmed,
    "even-by-time": _even_by_time,
    "compacted-clean": _compacted_clean,
    "bytes-trimmed": _bytes_trimmed,
    "transactions-trimmed": _transactions_trimmed,
    "ahead-inside": _ahead_inside,
    "lagging": _lagging,
    "append-time": _append_time,
    "alone-compacted": _alone_compacted,
    "emptied-even": _emptied_even,
    "emptied-of-hot": _emptied_of_hot,
    "replayed": _replay_hot_partition,
}
"""One way in which a log loses records, or its times mislead, each; simulated logs do it in more ways."""


def make_scenes(servers: str) -> dict[str, Topic]:
    """Make the topics of all scenes."""

    def build_topic(name: str) -> Topic:
        topic = Topic(servers, name, np.random.default_rng([*name.encode()]))
        SCENES[name](topic)
        return topic

    with ThreadPoolExecutor(3) as pool:
        return {topic.name: topic for topic in pool.map(build_topic, SCENES)}

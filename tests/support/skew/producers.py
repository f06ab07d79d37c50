"""Topics whose keys fall on partitions in a known way, written by real producers, and what a consumer counts.

`make_scenes` fills a broker with some of the scenes.
"""

from __future__ import annotations

import itertools
import logging
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic, ResourceType
from pyspark.sql import SparkSession

from kafkaform.cluster.protocol import Cluster
from spark_validation.job import JobSettings, TopicRequest, run_topics
from spark_validation.results import SkewLimits, TopicResult
from spark_validation.windows import Span
from tests.support.clusters.fixtures import TIMEOUT_S, admin_client, eventually, remove_topics
from tests.support.clusters.topics import alter_configs, make_topic

PARTITIONS = 12
RECORDS = 120_000
BY_PARTITIONER = -1
"""In the place of a partition."""
_KEYS = 20_000
_QUEUE = 500_000
_CONSUMED_AT_ONCE = 20_000
_TRANSACTIONS = 150

Key = bytes | None
Make: TypeAlias = "Callable[[str, str, np.random.Generator], None]"
"""Makes the topic of a scene, of the servers, its name and a source of chance."""


@dataclass(slots=True)
class Truth:
    """The counts of a topic by an independent consumer.

    Attributes:
        records: Records by partition.
        sizes: Bytes of keys and values by partition.
        keys: Records by key, and by partition.
        nulls: Records without a key by partition.
    """

    records: Counter[int] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    keys: dict[bytes, Counter[int]] = field(default_factory=dict)
    nulls: Counter[int] = field(default_factory=Counter)

    @property
    def of_keys(self) -> Counter[bytes]:
        return Counter({key: at.total() for key, at in self.keys.items()})

    @property
    def max_mean_ratio(self) -> float:
        """The fullest of the 12 partitions over the mean."""
        return max(self.records.values()) * PARTITIONS / self.records.total()


@dataclass(frozen=True, slots=True)
class Scene:
    """A topic, and what a consumer counts of it."""

    topic: str
    truth: Truth


def create_topic(servers: str, name: str, partitions: int, **config: str) -> None:
    """Create a topic and wait until clients see it. Configs have `_` where Kafka has a dot."""
    admin = admin_client(servers)
    named = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=named)])[name].result(TIMEOUT_S)
    _wait_for_partitions(servers, name, partitions)


def add_partitions(servers: str, name: str, partitions: int) -> None:
    """Increase a topic's partitions, and wait until clients see them."""
    admin = admin_client(servers)  # without a name it would be gone before its answer
    admin.create_partitions([NewPartitions(name, partitions)])[name].result(TIMEOUT_S)
    _wait_for_partitions(servers, name, partitions)


def _wait_for_partitions(servers: str, name: str, partitions: int) -> None:
    admin = admin_client(servers)

    def leaders() -> int:
        metadata = admin.list_topics(timeout=TIMEOUT_S).topics.get(name)
        return sum(1 for p in metadata.partitions.values() if p.leader >= 0) if metadata else 0

    eventually(leaders, lambda count: count == partitions)


def producer(servers: str, partitioner: str = "murmur2_random", **properties: Any) -> Producer:
    """A producer made for speed, which keeps the order of records."""
    chosen: dict[str, Any] = {
        "bootstrap.servers": servers,
        "logger": logging.getLogger("tests.librdkafka"),
        "partitioner": partitioner,
        "linger.ms": 20,
        # Or the first records come after later ones, where the leader was not ready and they are sent again.
        "enable.idempotence": True,
        "queue.buffering.max.messages": _QUEUE,
        **properties,
    }
    return Producer(chosen)


def send(
    servers: str,
    topic: str,
    keys: Iterable[Key],
    partitioner: str = "murmur2_random",
    times: Iterator[int] | None = None,
    partitions: Iterator[int] | None = None,
    sizes: Iterator[int] | None = None,
    batch: int = 10_000,
) -> None:
    """Produce a record for each key; see `value_of` for its value.

    Args:
        servers: Of the cluster.
        topic: The topic.
        keys: In the order of production.
        partitioner: Of librdkafka.
        times: Timestamps; the client's own unless given.
        partitions: Where each record goes, BY_PARTITIONER among them; all go by the partitioner unless given.
        sizes: The bytes of each value; by the key unless given.
        batch: The most records that are sent together.
    """
    client = producer(servers, partitioner, **{"batch.num.messages": batch})
    _send(client, topic, keys, times, partitions, sizes)


def _send(
    client: Producer,
    topic: str,
    keys: Iterable[Key],
    times: Iterator[int] | None = None,
    partitions: Iterator[int] | None = None,
    sizes: Iterator[int] | None = None,
) -> None:
    pending = 0
    for key in keys:
        # 0 is the client's own time.
        at = next(times) if times else 0
        partition = next(partitions) if partitions else BY_PARTITIONER
        value = value_of(key) if sizes is None else b"v" * next(sizes)
        client.produce(topic, value, key, partition, timestamp=at)
        pending += 1
        if pending == _QUEUE // 2:
            client.flush(TIMEOUT_S)
            pending = 0
    assert client.flush(TIMEOUT_S) == 0


def value_of(key: Key) -> bytes:
    """20 to 83 bytes, by the key."""
    return b"v" * (20 + (key[-1] if key else 0) % 64)


def steadily(hours: int = 6) -> Iterator[int]:
    """Timestamps of records at a steady rate, all RECORDS of a topic in the last hours."""
    duration = hours * 3_600_000
    return itertools.count(int(time.time() * 1_000) - duration, duration // RECORDS)


def name_keys(numbers: Iterable[int]) -> list[Key]:
    """Keys such as order-17."""
    return [b"order-%d" % number for number in numbers]


def spans(servers: str, topic: str, partitions: int) -> list[Span]:
    """Read the offsets that a reader of committed records may see."""
    settings = {"bootstrap.servers": servers, "group.id": topic, "isolation.level": "read_committed"}
    client: Any = Consumer(settings)
    try:
        ends = [
            client.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_S)
            for number in range(partitions)
        ]
    finally:
        client.close()
    return [Span(number, start, end) for number, (start, end) in enumerate(ends)]


def result_of(
    spark: SparkSession,
    topic: str,
    spans: Sequence[Span],
    kafka: Mapping[str, str],
    settings: JobSettings,
    **more: Any,
) -> TopicResult:
    """The analysis of one topic, which must succeed."""
    requests = [TopicRequest(topic, spans, SkewLimits())]
    found = run_topics(spark, requests, kafka, settings, **more)
    assert found.keys() == {topic}
    result = found[topic]
    assert isinstance(result, TopicResult), result
    return result


def messages(servers: str, topic: str, partitions: int) -> Iterator[Message]:
    """Return the records that a consumer gets, from the first committed one of each partition to its last."""
    client = Consumer(
        {
            "bootstrap.servers": servers,
            "logger": logging.getLogger("tests.librdkafka"),
            "group.id": f"truth-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            # Or fetching pauses for a second where more than this is waiting.
            "queued.min.messages": _QUEUE,
        }
    )
    try:
        client.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        unfinished = set(range(partitions))
        while unfinished:
            for message in client.consume(_CONSUMED_AT_ONCE, timeout=0.02):
                if (error := message.error()) is None:
                    yield message
                else:
                    # With this setting the end of a partition is told as an error.
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    unfinished.discard(message.partition())
    finally:
        client.close()


def consume_truth(servers: str, topic: str, partitions: int) -> Truth:
    """Count a topic with a plain consumer."""
    truth = Truth()
    for message in messages(servers, topic, partitions):
        partition = message.partition()
        assert partition is not None
        _take(truth, partition, message.key(), message.value())
    return truth


def _take(truth: Truth, partition: int, key: Key, value: bytes | None) -> None:
    truth.records[partition] += 1
    truth.sizes[partition] += len(key or b"") + len(value or b"")
    if key is None:
        truth.nulls[partition] += 1
    elif (at := truth.keys.get(key)) is None:
        truth.keys[key] = Counter({partition: 1})
    else:
        at[partition] += 1


def _uniform(random: np.random.Generator, count: int = RECORDS, keys: int = _KEYS) -> list[Key]:
    return name_keys(random.integers(0, keys, count).tolist())


def _zipf(exponent: float) -> Make:
    """Key k has a share in proportion to 1 / k^exponent."""

    def make(servers: str, topic: str, random: np.random.Generator) -> None:
        share = np.arange(1, _KEYS + 1, dtype=float) ** -exponent
        chosen = random.choice(_KEYS, RECORDS, p=share / share.sum())
        _make(servers, topic, name_keys(chosen.tolist()))

    return make


def _make(servers: str, topic: str, keys: list[Key], partitions: Iterator[int] | None = None) -> None:
    create_topic(servers, topic, PARTITIONS)
    send(servers, topic, keys, times=steadily(), partitions=partitions)


def _mix_in_key(keys: list[Key], random: np.random.Generator, key: Key, share: float) -> list[Key]:
    """The same keys, but this one for a share of the records."""
    chosen = random.random(len(keys)) < share
    return [key if is_chosen else second for second, is_chosen in zip(keys, chosen.tolist(), strict=True)]


def _steady(key: Key, share: float) -> Make:
    """One key has a share of its own at all times."""

    def make(servers: str, topic: str, random: np.random.Generator) -> None:
        _make(servers, topic, _mix_in_key(_uniform(random), random, key, share))

    return make


def _write_with_nulls(servers: str, topic: str, random: np.random.Generator) -> None:
    """40 % have no key, each 100 of them on one partition, as of a sticky partitioner.

    librdkafka takes another one every 10 ms: how many records that is depends on how busy the machine is.
    """
    keys = _mix_in_key(_uniform(random), random, None, 0.4)
    weights = np.geomspace(1, 8, PARTITIONS)
    of_batch = random.choice(PARTITIONS, len(keys) // 100 + 1, p=weights / weights.sum())
    batches = itertools.chain.from_iterable(itertools.repeat(int(number), 100) for number in of_batch)
    partitions = (BY_PARTITIONER if key is not None else next(batches) for key in keys)
    _make(servers, topic, keys, partitions)


def _even(servers: str, topic: str, random: np.random.Generator) -> None:
    _make(servers, topic, _uniform(random))


def _few(servers: str, topic: str, random: np.random.Generator) -> None:
    _make(servers, topic, _uniform(random, keys=10))


def _write_mixed(servers: str, topic: str, random: np.random.Generator) -> None:
    """Two applications write alike keys, by two partitioners, in turn."""
    create_topic(servers, topic, PARTITIONS)
    times = steadily()
    # A producer's first record waits for half a second.
    clients = [producer(servers, partitioner) for partitioner in ("murmur2_random", "consistent")]
    for client in clients * 20:
        _send(client, topic, _uniform(random, RECORDS // 40), times)


def _write_in_order(*steps: tuple[int, str], share: float = 0.0, key: bytes = b"large") -> Make:
    """Equally many records by each step's partition count and partitioner; one key may have a share."""

    def make(servers: str, topic: str, random: np.random.Generator) -> None:
        times, present = steadily(), 0
        for partitions, partitioner in steps:
            if not present:
                create_topic(servers, topic, partitions)
            elif partitions > present:
                add_partitions(servers, topic, partitions)
            present = partitions
            keys = _mix_in_key(_uniform(random, RECORDS // len(steps)), random, key, share)
            send(servers, topic, keys, partitioner, times)

    return make


def _write_by_prefix(servers: str, topic: str, random: np.random.Generator) -> None:
    """A key's partition is a hash of its prefix, a tenant; one tenant has 39 % of the records."""
    tenants = np.where(random.random(RECORDS) < 0.39, 0, random.integers(1, 1_000, RECORDS))
    pairs = zip(tenants.tolist(), random.integers(0, 100, RECORDS).tolist(), strict=True)
    keys = [b"tenant-%d:order-%d" % pair for pair in pairs]
    _make(servers, topic, [*keys], (zlib.crc32(key.split(b":")[0]) % PARTITIONS for key in keys))


def _strays(servers: str, topic: str, random: np.random.Generator) -> None:
    """Three records of ten are sent to partition 0, whatever their key."""
    strays = (random.random(RECORDS) < 0.3).tolist()
    _make(servers, topic, _uniform(random), (0 if stray else BY_PARTITIONER for stray in strays))


def _bursts(key: bytes, share: float, *parts: tuple[float, float], hours: int = 6) -> Make:
    """One key has a share of the records in these parts of the log, and none elsewhere."""

    def make(servers: str, topic: str, random: np.random.Generator) -> None:
        keys = _uniform(random)
        for begin, end in parts:
            part = slice(round(RECORDS * begin), round(RECORDS * end))
            keys[part] = _mix_in_key(keys[part], random, key, share)
        create_topic(servers, topic, PARTITIONS)
        send(servers, topic, keys, times=steadily(hours))

    return make


def _comes_back(servers: str, topic: str, random: np.random.Generator) -> None:
    """A job with another partitioner writes three times, for a tenth of the log."""
    create_topic(servers, topic, PARTITIONS)
    times = steadily()
    steadfast, job = (producer(servers, partitioner) for partitioner in ("murmur2_random", "consistent"))
    for client, parts in (
        (steadfast, 2),
        (job, 2),
        (steadfast, 5),
        (job, 2),
        (steadfast, 5),
        (job, 2),
        (steadfast, 2),
    ):
        _send(client, topic, _uniform(random, RECORDS * parts // 20), times)


def _longs(servers: str, topic: str, random: np.random.Generator) -> None:
    """Keys are 8-byte numbers, one of which has 30 % of the records."""
    keys: list[Key] = [
        number.to_bytes(8, "big") for number in random.integers(1_000, 1_000 + _KEYS, RECORDS).tolist()
    ]
    _make(servers, topic, _mix_in_key(keys, random, (7).to_bytes(8, "big"), 0.3))


def _large_records(servers: str, topic: str, random: np.random.Generator) -> None:
    """One key has 15 % of the records, another one 40 % of the bytes."""
    keys = _mix_in_key(_mix_in_key(_uniform(random), random, b"frequent", 0.15), random, b"large", 0.02)
    create_topic(servers, topic, PARTITIONS)
    sizes = (1_600 if key == b"large" else 40 for key in keys)
    _send(producer(servers), topic, keys, steadily(), sizes=sizes)


def _unique(servers: str, topic: str, random: np.random.Generator) -> None:
    """Each record has a key of its own, and log-normal bytes."""
    sizes = random.lognormal(5.0, 2.0, RECORDS).clip(1, 200_000).astype(int).tolist()
    create_topic(servers, topic, PARTITIONS)
    _send(producer(servers), topic, name_keys(range(RECORDS)), steadily(), sizes=iter(sizes))


def _nulls_by_choice(servers: str, topic: str, random: np.random.Generator) -> None:
    """A producer puts its records without a key on partition 0: 30 % of all."""
    keys = _mix_in_key(_uniform(random), random, None, 0.3)
    _make(servers, topic, keys, (BY_PARTITIONER if key is not None else 0 for key in keys))


def _write_aborted(servers: str, topic: str, random: np.random.Generator) -> None:
    """Three of five transactions fail: all of one key, which no committed record has."""
    create_topic(servers, topic, PARTITIONS)
    client = producer(servers, **{"transactional.id": topic})
    client.init_transactions(TIMEOUT_S)
    times = steadily()
    for keys in np.array_split(np.array(_uniform(random)), _TRANSACTIONS):
        failed = random.random() < 0.6
        client.begin_transaction()
        for key in keys.tolist():
            sent = b"retried" if failed else key
            client.produce(topic, value_of(sent), sent, timestamp=next(times))
        # Or the client would drop what it has not sent when the transaction is aborted.
        assert client.flush(TIMEOUT_S) == 0
        if failed:
            client.abort_transaction(TIMEOUT_S)
        else:
            client.commit_transaction(TIMEOUT_S)


def _write_compacted(servers: str, topic: str, random: np.random.Generator) -> None:
    """Only the last record of each key is left, but for the last minutes: an eighth of the records."""
    minutes = {"segment_ms": str(5 * 60_000), "min_cleanable_dirty_ratio": "0.001"}
    create_topic(servers, topic, PARTITIONS, cleanup_policy="compact", **minutes)
    with busy_cleaner(servers):
        # A batch is written to one segment.
        send(servers, topic, _uniform(random, keys=_KEYS * 3 // 4), times=steadily(), batch=100)
        eventually(
            lambda: consume_truth(servers, topic, PARTITIONS).records.total(), lambda n: n < RECORDS / 7
        )


@contextmanager
def busy_cleaner(servers: str) -> Iterator[None]:
    """The broker compacts as soon as there is something to compact, instead of every 15 s."""
    admin, name = admin_client(servers), "log.cleaner.backoff.ms"
    alter_configs(admin, ResourceType.BROKER, ["1"], {name: "100"})
    try:
        yield
    finally:
        alter_configs(admin, ResourceType.BROKER, ["1"], {name: None})


SCENES: Mapping[str, Make] = {
    "uniform": _even,
    "zipf-1.1": _zipf(1.1),
    "hot": _steady(b"hot", 0.3),
    "empty-key": _steady(b"", 0.2),
    "few": _few,
    "null": _write_with_nulls,
    "mixed": _write_mixed,
    "repartitioned": _write_in_order((6, "murmur2_random"), (PARTITIONS, "murmur2_random")),
    # On 12 partitions murmur2 puts this key where CRC32 does.
    "crc32-split": _write_in_order((6, "consistent"), (PARTITIONS, "consistent"), share=0.25, key=b"hot-19"),
    "prefix": _write_by_prefix,
    "strays": _strays,
    "bursty": _bursts(b"burst", 0.8, (0.2, 0.24), (0.5, 0.54), (0.8, 0.84)),
    "late-5": _bursts(b"late", 0.8, (0.95, 1.0)),
    "every-night": _bursts(
        b"nightly", 0.9, *[((day + 2 / 24) / 7, (day + 4 / 24) / 7) for day in range(7)], hours=7 * 24
    ),
    "began": _bursts(b"began", 0.3, (0.5, 1.0)),
    "ended": _bursts(b"ended", 0.4, (0.0, 0.5)),
    "comes-back": _comes_back,
    "longs": _longs,
    "large-records": _large_records,
    "unique": _unique,
    "nulls-by-choice": _nulls_by_choice,
    "aborted": _write_aborted,
    "compacted": _write_compacted,
}
SPARSE = ("aborted", "compacted")
"""Many of their offsets have no record."""


@contextmanager
def make_scenes(servers: str, names: Iterable[str]) -> Iterator[Mapping[str, Scene]]:
    """Make the topics of scenes of SCENES, by their names, and remove them at the end."""
    prefix = f"skew{uuid.uuid4().hex[:10]}."

    def make_scene(name: str) -> Scene:
        topic = prefix + name
        SCENES[name](servers, topic, np.random.default_rng([*name.encode()]))
        truth = consume_truth(servers, topic, PARTITIONS)
        assert (truth.records.total() < RECORDS) if name in SPARSE else truth.records.total() == RECORDS
        return Scene(topic, truth)

    # The broker is waited for most of the time.
    with ThreadPoolExecutor(3) as pool:
        chosen = [*names]
        yield dict(zip(chosen, pool.map(make_scene, chosen), strict=True))
    remove_topics(servers, prefix)


def produce_keys(cluster: Cluster, servers: str, name: str, partitions: int, keys: list[str]) -> str:
    """Make a topic with a record of each key, where librdkafka's murmur2 puts it; return its name."""
    make_topic(cluster, name, partitions)
    client = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for key in keys:
        client.produce(name, b"v" * 50, key=key.encode())
        client.poll(0)
    assert client.flush(TIMEOUT_S) == 0
    return name


def fill_topic(servers: str, topic: str, records: int, begin_ms: int) -> None:
    """Make a topic of three partitions with records of 300 keys, a millisecond apart, by murmur2."""
    create_topic(servers, topic, 3)
    client = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for number in range(records):
        client.produce(topic, key=f"key-{number % 300}", value="x" * 10, timestamp=begin_ms + number)
    assert client.flush(TIMEOUT_S) == 0

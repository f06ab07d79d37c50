"""Topics whose keys fall on partitions in a known way, written by real producers, and what a consumer counts.

`make_scenes` fills a broker with the scenes.
"""

import itertools
import logging
import time
import uuid
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
from spark_validation.job import TopicRequest, run_topics
from spark_validation.kafka_client import OffsetReader
from spark_validation.options import JobSettings
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

Key = bytes | None
Make: TypeAlias = "Callable[[str, str, np.random.Generator], None]"
"""Makes the topic of a scene, of the servers, its name and a source of chance."""


@dataclass(slots=True)
class Truth:
    """The counts of an independent consumer by partition; of `keys`, by key first."""

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
    batch: int = 10_000,
) -> None:
    """Produce a record of 20 to 83 bytes for each key, at most `batch` of them together.

    The client chooses times, and its partitioner the partitions, unless they are given.
    """
    client = producer(servers, partitioner, **{"batch.num.messages": batch})
    _send(client, topic, keys, times, partitions)


def _send(
    client: Producer,
    topic: str,
    keys: Iterable[Key],
    times: Iterator[int] | None = None,
    partitions: Iterator[int] | None = None,
) -> None:
    pending = 0
    for key in keys:
        # 0 is the client's own time.
        at = next(times) if times else 0
        partition = next(partitions) if partitions else BY_PARTITIONER
        value = b"v" * (20 + (key[-1] if key else 0) % 64)
        client.produce(topic, value, key, partition, timestamp=at)
        pending += 1
        if pending == _QUEUE // 2:
            client.flush(TIMEOUT_S)
            pending = 0
    assert client.flush(TIMEOUT_S) == 0


def steadily() -> Iterator[int]:
    """Timestamps of records at a steady rate, all RECORDS of a topic in the last six hours."""
    duration = 6 * 3_600_000
    return itertools.count(int(time.time() * 1_000) - duration, duration // RECORDS)


def name_keys(numbers: Iterable[int]) -> list[Key]:
    """Keys such as order-17."""
    return [b"order-%d" % number for number in numbers]


def read_spans(servers: str, topic: str) -> list[Span]:
    """Read the offsets that a reader of committed records may see."""
    return OffsetReader({"bootstrap.servers": servers}).spans([topic])[0][topic]


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
        partition, key = message.partition(), message.key()
        assert partition is not None
        truth.records[partition] += 1
        truth.sizes[partition] += len(key or b"") + len(message.value() or b"")
        (truth.keys.setdefault(key, Counter()) if key is not None else truth.nulls)[partition] += 1
    return truth


def even_keys(random: np.random.Generator, count: int = RECORDS, keys: int = _KEYS) -> list[Key]:
    """Keys that are all alike."""
    return name_keys(random.integers(0, keys, count).tolist())


def mix_in_hot_key(
    keys: list[Key], random: np.random.Generator, share: float, key: Key = b"hot"
) -> list[Key]:
    """The same keys, but one for a share of the records."""
    chosen = random.random(len(keys)) < share
    return [key if is_hot else second for second, is_hot in zip(keys, chosen.tolist(), strict=True)]


def _write_zipf(servers: str, topic: str, random: np.random.Generator) -> None:
    """Key k has a share in proportion to 1 / k^1.1."""
    share = np.arange(1, _KEYS + 1, dtype=float) ** -1.1
    _make(servers, topic, name_keys(random.choice(_KEYS, RECORDS, p=share / share.sum()).tolist()))


def _make(servers: str, topic: str, keys: list[Key], partitions: Iterator[int] | None = None) -> None:
    create_topic(servers, topic, PARTITIONS)
    send(servers, topic, keys, times=steadily(), partitions=partitions)


def _write_with_nulls(servers: str, topic: str, random: np.random.Generator) -> None:
    """40 % have no key, each 100 of them on one partition, as of a sticky partitioner.

    librdkafka takes another one every 10 ms: how many records that is depends on how busy the machine is.
    """
    keys = mix_in_hot_key(even_keys(random), random, 0.4, None)
    weights = np.geomspace(1, 8, PARTITIONS)
    of_batch = random.choice(PARTITIONS, len(keys) // 100 + 1, p=weights / weights.sum())
    batches = itertools.chain.from_iterable(itertools.repeat(int(number), 100) for number in of_batch)
    partitions = (BY_PARTITIONER if key is not None else next(batches) for key in keys)
    _make(servers, topic, keys, partitions)


def _write_mixed(servers: str, topic: str, random: np.random.Generator) -> None:
    """Two applications write alike keys, by two partitioners, in turn."""
    create_topic(servers, topic, PARTITIONS)
    times = steadily()
    # A producer's first record waits for half a second.
    clients = [producer(servers, partitioner) for partitioner in ("murmur2_random", "consistent")]
    for client in clients * 20:
        _send(client, topic, even_keys(random, RECORDS // 40), times)


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
            keys = mix_in_hot_key(even_keys(random, RECORDS // len(steps)), random, share, key)
            send(servers, topic, keys, partitioner, times)

    return make


def _write_compacted(servers: str, topic: str, random: np.random.Generator) -> None:
    """Only the last record of each key is left, but for the last minutes: an eighth of the records."""
    minutes = {"segment_ms": str(5 * 60_000), "min_cleanable_dirty_ratio": "0.001"}
    create_topic(servers, topic, PARTITIONS, cleanup_policy="compact", **minutes)
    with busy_cleaner(servers):
        # A batch is written to one segment.
        send(servers, topic, even_keys(random, keys=_KEYS * 3 // 4), times=steadily(), batch=100)
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


def _write_burst(servers: str, topic: str, random: np.random.Generator) -> None:
    """One key has 80 % of the records in the last twentieth of the log, and none before."""
    keys, before = even_keys(random), round(RECORDS * 0.95)
    _make(servers, topic, [*keys[:before], *mix_in_hot_key(keys[before:], random, 0.8, b"late")])


SCENES: Mapping[str, Make] = {
    "uniform": lambda servers, topic, random: _make(servers, topic, even_keys(random)),
    "zipf-1.1": _write_zipf,
    "hot": lambda servers, topic, random: _make(
        servers, topic, mix_in_hot_key(even_keys(random), random, 0.3)
    ),
    "null": _write_with_nulls,
    "mixed": _write_mixed,
    "repartitioned": _write_in_order((6, "murmur2_random"), (PARTITIONS, "murmur2_random")),
    # On 12 partitions murmur2 puts this key where CRC32 does.
    "crc32-split": _write_in_order((6, "consistent"), (PARTITIONS, "consistent"), share=0.25, key=b"hot-19"),
    "late-5": _write_burst,
    "compacted": _write_compacted,
}
SPARSE = ("compacted",)
"""Many of their offsets have no record."""


@contextmanager
def make_scenes(servers: str) -> Iterator[Mapping[str, Scene]]:
    """Make the topics of SCENES, by their names, and remove them at the end."""
    prefix = f"skew{uuid.uuid4().hex[:10]}."

    def make_scene(name: str) -> Scene:
        topic = prefix + name
        SCENES[name](servers, topic, np.random.default_rng([*name.encode()]))
        truth = consume_truth(servers, topic, PARTITIONS)
        assert (truth.records.total() < RECORDS) if name in SPARSE else truth.records.total() == RECORDS
        return Scene(topic, truth)

    # The broker is waited for most of the time.
    with ThreadPoolExecutor(3) as pool:
        yield dict(zip(SCENES, pool.map(make_scene, SCENES), strict=True))
    remove_topics(servers, prefix)


def produce_keys(cluster: Cluster, servers: str, name: str, partitions: int, keys: list[str]) -> str:
    """Make a topic with a record of each key, where librdkafka's murmur2 puts it; return its name."""
    make_topic(cluster, name, partitions)
    send(servers, name, [key.encode() for key in keys])
    return name


def fill_topic(servers: str, topic: str, records: int, begin_ms: int) -> None:
    """Make a topic of three partitions with records of 300 keys, a millisecond apart, by murmur2."""
    create_topic(servers, topic, 3)
    send(
        servers, topic, name_keys(number % 300 for number in range(records)), times=itertools.count(begin_ms)
    )

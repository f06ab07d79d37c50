"""Topics whose keys fall on partitions in a known way, written by real producers, and what a consumer counts.

The fixture `skewed` makes a scene on its first use; scenes share the broker of the fixture `kafka`.
"""

from __future__ import annotations

import itertools
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import NewPartitions, NewTopic, OffsetSpec

from kafkaform.devcluster.cluster import DevCluster
from spark_validation.windows import Span
from tests.support.kafka_fixtures import TIMEOUT_S, admin_client, eventually, remove_topics

PARTITIONS = 12
RECORDS = 120_000
_KEYS = 20_000
_QUEUE = 500_000
_CONSUMED_AT_ONCE = 20_000

Key = bytes | None


@dataclass(slots=True)
class Truth:
    """What an independent consumer counts of a topic.

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
        """Records by key."""
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
    """A producer made for speed."""
    chosen: dict[str, Any] = {
        "bootstrap.servers": servers,
        "logger": logging.getLogger("tests.librdkafka"),
        "partitioner": partitioner,
        "linger.ms": 20,
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
) -> None:
    """Produce a record for each key, with these timestamps or the client's; see `value_of` for its value."""
    client = producer(servers, partitioner)
    pending = 0
    for key in keys:
        # 0 is the client's own time.
        client.produce(topic, value_of(key), key, timestamp=next(times) if times else 0)
        pending += 1
        if pending == _QUEUE // 2:
            client.flush(TIMEOUT_S)
            pending = 0
    assert client.flush(TIMEOUT_S) == 0


def value_of(key: Key) -> bytes:
    """20 to 83 bytes, by the key."""
    return b"v" * (20 + (key[-1] if key else 0) % 64)


def steadily() -> Iterator[int]:
    """Timestamps of records at a steady rate, all RECORDS of a topic in the last six hours."""
    hours = 6 * 3_600_000
    return itertools.count(int(time.time() * 1_000) - hours, hours // RECORDS)


def named(numbers: Iterable[int]) -> list[Key]:
    """Keys such as order-17."""
    return [b"order-%d" % number for number in numbers]


def spans(servers: str, topic: str, partitions: int) -> list[Span]:
    """The offsets that a reader of committed records may see."""
    admin = admin_client(servers)
    place_of: Any = OffsetSpec  # its stub knows no types
    starts, ends = (
        {
            where.partition: future.result(TIMEOUT_S).offset
            for where, future in admin.list_offsets(
                {TopicPartition(topic, number): place for number in range(partitions)},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=TIMEOUT_S,
            ).items()
        }
        for place in (place_of.earliest(), place_of.latest())
    )
    return [Span(number, starts[number], ends[number]) for number in range(partitions)]


def messages(servers: str, topic: str, partitions: int) -> Iterator[Message]:
    """What a plain consumer gets, from the first committed record of each partition to its last."""
    client = Consumer(
        {
            "bootstrap.servers": servers,
            "logger": logging.getLogger("tests.librdkafka"),
            "group.id": f"truth-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
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


def consumed(servers: str, topic: str, partitions: int) -> Truth:
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
    return named(random.integers(0, keys, count).tolist())


def _zipf(exponent: float) -> Callable[[str, str, np.random.Generator], None]:
    """Key k has a share in proportion to 1 / k^exponent."""

    def make(servers: str, topic: str, random: np.random.Generator) -> None:
        share = np.arange(1, _KEYS + 1, dtype=float) ** -exponent
        chosen = random.choice(_KEYS, RECORDS, p=share / share.sum())
        _make(servers, topic, named(chosen.tolist()))

    return make


def _make(servers: str, topic: str, keys: list[Key]) -> None:
    create_topic(servers, topic, PARTITIONS)
    send(servers, topic, keys, times=steadily())


def _even(servers: str, topic: str, random: np.random.Generator) -> None:
    _make(servers, topic, _uniform(random))


def _loaded(servers: str, topic: str, random: np.random.Generator) -> None:
    """All records were written in a fraction of a second."""
    create_topic(servers, topic, PARTITIONS)
    send(servers, topic, _uniform(random))


def _hot(servers: str, topic: str, random: np.random.Generator) -> None:
    hot = random.random(RECORDS) < 0.3
    pairs = zip(_uniform(random), hot.tolist(), strict=True)
    _make(servers, topic, [b"hot" if is_hot else key for key, is_hot in pairs])


def _few(servers: str, topic: str, random: np.random.Generator) -> None:
    _make(servers, topic, _uniform(random, keys=10))


def _without_keys(servers: str, topic: str, random: np.random.Generator) -> None:
    """Two records of five have no key; the client puts these where it likes."""
    absent = random.random(RECORDS) < 0.4
    pairs = zip(_uniform(random), absent.tolist(), strict=True)
    _make(servers, topic, [None if is_absent else key for key, is_absent in pairs])


def _mixed(servers: str, topic: str, random: np.random.Generator) -> None:
    """Two applications write alike keys, by two partitioners, in turn."""
    create_topic(servers, topic, PARTITIONS)
    times = steadily()
    for _ in range(20):
        for partitioner in ("murmur2_random", "consistent"):
            send(servers, topic, _uniform(random, RECORDS // 40), partitioner, times)


def _repartitioned(servers: str, topic: str, random: np.random.Generator) -> None:
    create_topic(servers, topic, PARTITIONS // 2)
    times = steadily()
    send(servers, topic, _uniform(random, RECORDS // 2), times=times)
    add_partitions(servers, topic, PARTITIONS)
    send(servers, topic, _uniform(random, RECORDS // 2), times=times)


def _bursty(servers: str, topic: str, random: np.random.Generator) -> None:
    """Three times one key has 80 % of the records for a while; together they are a tenth of the topic."""
    keys = _uniform(random)
    for begin in (0.2, 0.5, 0.8):
        for number in range(int(RECORDS * begin), int(RECORDS * (begin + 0.04))):
            if number % 5:
                keys[number] = b"burst"
    _make(servers, topic, keys)


SCENES: Mapping[str, Callable[[str, str, np.random.Generator], None]] = {
    "uniform": _even,
    "loaded": _loaded,
    "zipf-0.8": _zipf(0.8),
    "zipf-1.1": _zipf(1.1),
    "zipf-1.5": _zipf(1.5),
    "hot": _hot,
    "few": _few,
    "null": _without_keys,
    "mixed": _mixed,
    "repartitioned": _repartitioned,
    "bursty": _bursty,
}


@pytest.fixture(scope="module")
def skewed(kafka: DevCluster) -> Iterator[Callable[[str], Scene]]:
    """The topic of a scene of SCENES, by its name."""
    prefix = f"skew{uuid.uuid4().hex[:10]}."
    made: dict[str, Scene] = {}

    def of(name: str) -> Scene:
        if name not in made:
            topic, servers = prefix + name, kafka.bootstrap_servers
            SCENES[name](servers, topic, np.random.default_rng([*name.encode()]))
            truth = consumed(servers, topic, PARTITIONS)
            assert truth.records.total() == RECORDS
            made[name] = Scene(topic, truth)
        return made[name]

    yield of
    remove_topics(kafka.bootstrap_servers, prefix)

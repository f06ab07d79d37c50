"""The hashes are Kafka's and librdkafka's own, bit for bit."""

import os
import subprocess
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Message

from kafkaform.devcluster.jars.cache import fetch_kafka_classpath
from kafkaform.devcluster.jars.java import find_java
from spark_validation.hashing import PARTITIONERS, Keys
from tests.support.clusters.fixtures import TIMEOUT_S
from tests.support.skew.hashing import build_varied_keys
from tests.support.skew.producers import create_topic, producer

PARTITIONS = 12
SOURCE = Path(__file__).parents[2] / "scripts" / "KafkaHashes.java"
KEYS = build_varied_keys()


@pytest.fixture
def topic(servers: str, prefix: str) -> str:
    create_topic(servers, prefix, PARTITIONS)
    return prefix


def librdkafka(servers: str, topic: str, partitioner: str, keys: list[bytes]) -> list[int | None]:
    """The partition on which librdkafka put a record with each key."""
    placed: dict[int, int | None] = {}

    def record_partition(number: int, error: object, message: Message) -> None:
        assert error is None
        placed[number] = message.partition()

    client = producer(servers, partitioner)
    for number, key in enumerate(keys):
        client.produce(topic, b"", key, on_delivery=partial(record_partition, number))
    assert client.flush(TIMEOUT_S) == 0
    return [placed[number] for number in range(len(keys))]


def place_by_client(partitioner: str, keys: list[bytes]) -> list[int]:
    placed: list[int] = (PARTITIONERS[partitioner](Keys.from_list(keys)) % PARTITIONS).tolist()
    return placed


@pytest.mark.nightly("a Java program is compiled; its partitions are kept as vectors")
def test_java_producer_partitions_as_murmur2(servers: str, topic: str) -> None:
    classpath = os.pathsep.join(map(str, fetch_kafka_classpath()))
    run = subprocess.run(
        [find_java().path, "-cp", classpath, SOURCE, servers, topic],
        input="".join(f"{key.hex()}\n" for key in KEYS),
        capture_output=True,
        text=True,
        check=True,
    )
    assert [*map(int, run.stdout.splitlines())] == place_by_client("murmur2", KEYS)


# Its consistent_random takes an empty key for none.
@pytest.mark.parametrize(
    ("librdkafkas", "ours", "keys"),
    [
        ("murmur2_random", "murmur2", KEYS),
        ("consistent_random", "crc32", [key for key in KEYS if key]),
        ("consistent", "crc32", [b""]),
        ("fnv1a_random", "fnv1a", [key for key in KEYS if key]),
        ("fnv1a", "fnv1a", [b""]),
    ],
)
def test_librdkafka_partitions_as_predicted(
    servers: str, topic: str, librdkafkas: str, ours: str, keys: list[bytes]
) -> None:
    assert librdkafka(servers, topic, librdkafkas, keys) == place_by_client(ours, keys)

"""A producer and a consumer at work on a topic while something happens to it, and what they came to."""

import itertools
import logging
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.clusters.fixtures import TIMEOUT_S

REQUEST_TIMEOUT_S = 10.0
"""How long one request of the producer may take, and as long one write with all its retries."""

KEYS = 40
_PADDING = 1_000
_PAUSE_S = 0.005
_LOG = logging.getLogger("tests.librdkafka")


@dataclass(slots=True)
class Load:
    """The records that a producer wrote, and those that a consumer read.

    Attributes:
        written: How many records of each key were handed to the producer.
        acknowledged: The numbers of the records of each key that are in the log for sure, as they were told.
        errors: The errors of writes, and of the consumer.
        longest_s: The longest that a write took, from the call to the acknowledgement.
        read: The numbers of the records of each key, as they were read.
    """

    topic: str
    partitions: int
    written: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(KEYS), 0))
    acknowledged: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    read: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    @property
    def count(self) -> int:
        return sum(map(len, list(self.acknowledged.values())))

    def moves_on(self) -> None:
        """Wait until further records were acknowledged."""
        until, then = time.monotonic() + TIMEOUT_S, self.count
        while self.count < then + KEYS:
            assert time.monotonic() < until, f"nothing is acknowledged any more: {self.errors}"
            time.sleep(0.02)

    def prove(self) -> None:
        """Fail if a write failed or took too long, or a record is lost, doubled or out of order."""
        assert not self.errors, self.errors[:5]
        assert self.count > 10 * KEYS
        assert self.longest_s < REQUEST_TIMEOUT_S, f"a write took {self.longest_s:.1f} s"
        for key, written in self.written.items():
            every = list(range(written))
            assert self.acknowledged[key] == every, f"key {key}: acknowledged out of order"
            found = self.read[key]
            lost, doubled = sorted({*every} - {*found}), len(found) - len({*found})
            assert found == every, f"key {key}: {len(lost)} lost ({lost[:5]}), {doubled} doubled"


@contextmanager
def load(servers: str, topic: str, partitions: int, *, tries_again: bool = True) -> Iterator[Load]:
    """Write to a topic and read it from its beginning, until the block ends and all that was written is read.

    Keyed records, numbered for each key, of a producer with acks=all.
    If it tries again what a broker refuses for the moment, it is idempotent; otherwise a single refusal,
    however short its cause, is an error.
    """
    timeout_ms = int(REQUEST_TIMEOUT_S * 1000)
    properties: dict[str, Any] = {
        "bootstrap.servers": servers,
        "acks": "all",
        "request.timeout.ms": timeout_ms,
        "delivery.timeout.ms": timeout_ms,
        "linger.ms": 5,
        "logger": _LOG,
        **({"enable.idempotence": True} if tries_again else {"message.send.max.retries": 0}),
    }
    work = Load(topic, partitions)
    done, written = Event(), Event()

    def note_error(task: Future[None]) -> None:
        if (error := task.exception()) is not None:
            work.errors.append(repr(error))

    with ThreadPoolExecutor(2) as pool:
        for act in (partial(_write, properties, work, done, written), partial(_read, servers, work, written)):
            pool.submit(act).add_done_callback(note_error)
        try:
            yield work
        finally:
            done.set()


def fill(servers: str, topic: str, partitions: int, each: int) -> None:
    """Write so many bytes into each partition, in records of half a megabyte without a key."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 5, "logger": _LOG})
    failed: list[str] = []

    def report_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error.str())

    for _ in range(0, each, 500_000):
        for partition in range(partitions):
            producer.produce(topic, os.urandom(500_000), partition=partition, on_delivery=report_delivery)
        producer.poll(0)
        if len(producer) > 60:  # they are large, and the brokers have small heaps
            producer.flush(TIMEOUT_S)
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed, failed[0]


def _write(properties: dict[str, Any], work: Load, done: Event, written: Event) -> None:
    producer = Producer(properties)
    numbers = itertools.count()
    try:
        while not done.wait(_PAUSE_S):
            key = next(numbers) % KEYS
            count, began = work.written[key], time.monotonic()
            report = partial(_report_delivery, work, key, count, began)
            producer.produce(
                work.topic, f"{count}".encode().ljust(_PADDING), key=f"{key}", on_delivery=report
            )
            work.written[key] += 1
            producer.poll(0)
        assert producer.flush(TIMEOUT_S) == 0, "some writes have no outcome"
    finally:
        written.set()


def _report_delivery(
    work: Load, key: int, count: int, began: float, error: KafkaError | None, _: Message
) -> None:
    work.longest_s = max(work.longest_s, time.monotonic() - began)
    if error is not None:
        work.errors.append(f"write {count} of key {key}: {error.str()}")
    else:
        work.acknowledged[key].append(count)


def _read(servers: str, work: Load, written: Event) -> None:
    """Read all partitions from their beginning on; ends once all that was acknowledged was read."""
    properties: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": f"{work.topic}.reader",
        "enable.auto.commit": False,
        "logger": _LOG,
    }
    with closing(Consumer(properties)) as consumer:
        consumer.assign([TopicPartition(work.topic, p, OFFSET_BEGINNING) for p in range(work.partitions)])
        while not written.is_set():
            _take(work, consumer, 0.2)
        until = time.monotonic() + TIMEOUT_S
        while sum(map(len, work.read.values())) < work.count and time.monotonic() < until:
            _take(work, consumer, 0.2)
        _take(work, consumer, 1)  # what comes after the last one would be doubled


def _take(work: Load, consumer: Consumer, timeout_s: float) -> None:
    for message in consumer.consume(500, timeout_s):
        error, key, value = message.error(), message.key(), message.value()
        if error is not None:
            work.errors.append(f"reading: {error.str()}")
        elif key is not None and value is not None:  # the records of `fill` have no key
            work.read[int(key)].append(int(value))

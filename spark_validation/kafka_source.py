"""Spark's source of records: a Python data source over librdkafka, with one consumer for each task."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from spark_validation.kafka_client import ANSWER_S, GROUP_ID, HARMLESS, connected, reading_failed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from spark_validation.kafka_client import Problems
    from spark_validation.windows import SamplePlan, Window

NAME = "kafkaform"
SCHEMA = "partition int, replicate int, key binary, size long, at long"
_ARROW = pa.schema(
    [
        ("partition", pa.int32()),
        ("replicate", pa.int32()),
        ("key", pa.binary()),
        ("size", pa.int64()),
        ("at", pa.int64()),
    ]
)
_AT_ONCE = 10_000
_WAIT_S = 1.0
_OPTIONS: Mapping[str, Any] = {
    "group.id": GROUP_ID,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 20,
    # The topic was there when its offsets were read, so it need not be waited for.
    "topic.metadata.propagation.max.ms": 3_000,
}


@dataclass(frozen=True, slots=True, repr=False)
class _Reading:
    """What is read of a topic: the windows, and with which client; secrets among its properties."""

    topic: str
    windows: tuple[Window, ...]
    kafka: Mapping[str, str]
    tasks: int


class _Task(InputPartition):  # type: ignore[misc, unused-ignore]
    def __init__(self, windows: Sequence[Window]) -> None:
        self.windows = tuple(windows)


class _Reader(DataSourceReader):  # type: ignore[misc, unused-ignore]
    def __init__(self, reading: _Reading) -> None:
        self._reading = reading

    def partitions(self) -> list[Any]:
        """The tasks: windows of about as many records in each."""
        windows = sorted(self._reading.windows, key=lambda window: (window.partition, window.start))
        total = sum(window.end - window.start for window in windows)
        tasks: list[list[Window]] = [[] for _ in range(self._reading.tasks)]
        before = 0
        for window in windows:
            tasks[before * len(tasks) // max(1, total)].append(window)
            before += window.end - window.start
        return [_Task(task) for task in tasks if task]

    def read(self, partition: Any) -> Iterator[Any]:
        """The records of a task, as Arrow batches."""
        topic = self._reading.topic
        consumer, problems = connected(Consumer, self._reading.kafka, _OPTIONS)
        try:
            for window in partition.windows:
                yield from _read(consumer, problems, topic, window)
        finally:
            consumer.close()


def _read(consumer: Any, problems: Problems, topic: str, window: Window) -> Iterator[Any]:
    consumer.assign([TopicPartition(topic, window.partition, window.start)])
    following, heard = window.start, time.monotonic()
    while following < window.end:
        messages = consumer.consume(min(_AT_ONCE, window.end - following), _WAIT_S)
        problems.check(topic)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > ANSWER_S:
            raise problems.silent(topic, ANSWER_S)
        rows: list[tuple[bytes | None, int, int]] = []
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    following = window.end
                elif error.code() not in HARMLESS:
                    raise reading_failed(error, topic)
                continue
            offset = message.offset()
            following = max(following, offset + 1)
            if offset < window.end:
                key, value = message.key(), message.value()
                rows.append((key, len(key or b"") + len(value or b""), message.timestamp()[1]))
        if rows:
            keys, sizes, times = zip(*rows, strict=True)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([window.partition] * len(rows), pa.int32()),
                    pa.array([window.replicate] * len(rows), pa.int32()),
                    pa.array(keys, pa.binary()),
                    pa.array(sizes, pa.int64()),
                    pa.array(times, pa.int64()),
                ],
                schema=_ARROW,
            )


def records(
    spark: SparkSession, topic: str, plan: SamplePlan, kafka: Mapping[str, str], tasks: int
) -> DataFrame:
    """The records that a plan reads.

    Args:
        spark: The session.
        topic: The topic.
        plan: The windows that are read of it.
        kafka: Properties of `kafka_client.travelling`; they go to executors in the reader itself, so that no
            plan, page or log of Spark has them.
        tasks: How many tasks read.
    """
    reading = _Reading(topic, plan.windows, dict(kafka), tasks)

    class Source(DataSource):  # type: ignore[misc, unused-ignore]
        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return SCHEMA

        def reader(self, schema: Any) -> _Reader:  # noqa: ARG002 - Spark's signature
            return _Reader(reading)

    spark.dataSource.register(Source)
    return spark.read.format(NAME).load()

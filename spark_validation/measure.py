"""The Spark job: reading what a plan says from Kafka, and counting its keys."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from spark_validation import counting
from spark_validation.counting import count_rows
from spark_validation.errors import group_id
from spark_validation.key_counts import CountsLayout, KeyCounts, pack, unpack

if TYPE_CHECKING:
    from collections.abc import (
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_validation.windows import SamplePlan, Span, Window


RECORDS_PER_REDUCER = 750_000
"""About 250 MB of a Python worker where every record has a key of its own."""
MOST_COLLECTED = 16
"""The most `KeyCounts` that come to the driver: more are merged before, so that its memory does not grow."""
GROUPED = ("key", "partition", "size", "first", "last")
"""The columns of grouped records, before those of each replicate's records: size is the sum in bytes, first
and last are the earliest and the latest timestamp, in milliseconds since 1970."""


def reducers(records: int, slots: int) -> int:
    """Return how many reducers count: enough to keep each one's memory small and all task slots busy."""
    return max(slots, -(-records // RECORDS_PER_REDUCER))


def count_keys(records: DataFrame, layout: CountsLayout, *, reducers: int, group: bool = False) -> KeyCounts:
    """Count records, all of a key in one place.

    Args:
        records: With the columns COLUMNS.
        layout: The topic's.
        reducers: Into how many parts the keys are divided.
        group: Whether Spark groups records by key and partition before it moves them. This pays off for long
            ranges, where it divides what is moved by the records of a key, and a frequent key does not keep
            one reducer busy; not for windows, which have few records of a key each.
    """
    rows_of = counting.of_groups if group else counting.of_records

    def counted(batches: Iterable[Any]) -> Iterator[Any]:
        yield _packed(count_rows(rows_of(batches, layout.partitions, layout.replicates), layout))

    def merged(batches: Iterable[Any]) -> Iterator[Any]:
        parts = (part.as_py() for batch in batches for part in batch.column("counts"))
        yield _packed(_merged(parts, layout))

    prepared = _grouped(records, layout.replicates) if group else records
    packed = prepared.repartition(reducers, "key").mapInArrow(counted, "counts binary")
    if reducers > MOST_COLLECTED:
        packed = packed.repartition(MOST_COLLECTED).mapInArrow(merged, "counts binary")
    return _merged((bytes(row.counts) for row in packed.collect()), layout)


def _packed(counts: KeyCounts) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"counts": pa.array([pack(counts)], pa.binary())})


def _merged(parts: Iterable[bytes], layout: CountsLayout) -> KeyCounts:
    total = KeyCounts.empty(layout)
    for part in parts:
        total.merge(unpack(part, layout), layout)
    return total


def _grouped(records: DataFrame, replicates: int) -> DataFrame:
    """One row for each key and partition, with the columns GROUPED and the records of each replicate."""
    return records.groupBy("key", "partition").agg(
        F.sum("size").alias("size"),
        F.min("at").alias("first"),
        F.max("at").alias("last"),
        *(
            F.count_if(F.col("replicate") == number).alias(f"replicate_{number}")
            for number in range(replicates)
        ),
    )


COLUMNS = ("partition", "replicate", "key", "size", "at")
"""The columns of records: partition and replicate (int), key (binary; null for none), size (long: bytes of
key and value) and at (long: milliseconds since 1970)."""

_FULL = {
    "kafka.max.poll.records": "500000",
    "kafka.max.partition.fetch.bytes": str(16 * 2**20),
    "kafka.fetch.max.bytes": str(64 * 2**20),
}
_WINDOWED = {
    "kafka.max.poll.records": "500000",
    "kafka.max.partition.fetch.bytes": str(2**20),
    # A window at the end of the log must not wait for records that are not wanted.
    "kafka.fetch.max.wait.ms": "20",
}


def records(spark: SparkSession, topic: str, plan: SamplePlan, kafka: Mapping[str, str]) -> DataFrame:
    """The records that a plan reads.

    Args:
        spark: With Kafka's connector on its class path.
        topic: The topic.
        plan: The windows that are read of it.
        kafka: Properties of Kafka's Java client, without Spark's prefix; secrets among them.
    """
    options = {f"kafka.{name}": value for name, value in kafka.items()}
    options |= {
        "kafka.isolation.level": "read_committed",
        "kafka.receive.buffer.bytes": str(4 * 2**20),
        # What retention takes away under the reader is missing, and counted as missing; it is no failure.
        "failOnDataLoss": "false",
        "kafkaConsumer.pollTimeoutMs": "30000",
    }
    options |= _FULL if plan.full else _WINDOWED
    options["kafka.group.id"] = group_id(options)
    if plan.full:
        return _whole(spark, topic, plan, options)
    by_replicate: dict[int, list[Window]] = defaultdict(list)
    for window in plan.windows:
        by_replicate[window.replicate].append(window)
    scans = [
        _shaped(_scan(spark, topic, windows, options), F.lit(number).cast("int"))
        for number, windows in sorted(by_replicate.items())
    ]
    return reduce(lambda union, scan: union.unionAll(scan), scans)


def _whole(spark: SparkSession, topic: str, plan: SamplePlan, options: Mapping[str, str]) -> DataFrame:
    """Every record, in one scan; a record's replicate is that of the window that holds its offset."""
    spans = [span for span in plan.spans if span.records]
    scan = _scan(spark, topic, spans, options)
    starts = F.array(*[F.lit(span.start).cast("long") for span in plan.spans])
    lengths = F.array(*[F.lit(span.records).cast("long") for span in plan.spans])
    place = F.col("offset") - starts[F.col("partition")]
    # The last g with floor(records * g / replicates) <= place.
    number = F.floor(((place + 1) * plan.replicates - 1) / lengths[F.col("partition")]).cast("int")
    return _shaped(scan, number)


def _scan(
    spark: SparkSession, topic: str, ranges: Sequence[Window] | Sequence[Span], options: Mapping[str, str]
) -> DataFrame:
    """The records of one range in each partition; no partition is named twice."""
    starts = {str(r.partition): r.start for r in ranges}
    ends = {str(r.partition): r.end for r in ranges}
    return (
        spark.read.format("kafka")
        .options(**options)
        .option("assign", json.dumps({topic: sorted(map(int, starts))}))
        .option("startingOffsets", json.dumps({topic: starts}))
        .option("endingOffsets", json.dumps({topic: ends}))
        .load()
    )


def _shaped(scan: DataFrame, number: Column) -> DataFrame:
    size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
    return scan.select(
        "partition",
        number.alias("replicate"),
        "key",
        size.cast("long").alias("size"),
        F.unix_millis("timestamp").alias("at"),
    )

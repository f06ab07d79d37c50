"""Records as DataFrames of `partition`, `slice`, `key`, `size` and `at`: from Kafka, or from files."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from spark_validation.consumers import group_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_validation.windows import SamplePlan, Span, Window

COLUMNS = ("partition", "slice", "key", "size", "at")

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
        plan: What is read of it.
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
    by_slice: dict[int, list[Window]] = defaultdict(list)
    for window in plan.windows:
        by_slice[window.slice].append(window)
    scans = [
        _shaped(_scan(spark, topic, windows, options), F.lit(number).cast("int"))
        for number, windows in sorted(by_slice.items())
    ]
    return reduce(lambda one, other: one.unionAll(other), scans)


def _whole(spark: SparkSession, topic: str, plan: SamplePlan, options: Mapping[str, str]) -> DataFrame:
    """Every record, in one scan; a record's slice is that of the window that holds its offset."""
    spans = [span for span in plan.spans if span.records]
    scan = _scan(spark, topic, spans, options)
    starts = F.array(*[F.lit(span.start).cast("long") for span in plan.spans])
    lengths = F.array(*[F.lit(span.records).cast("long") for span in plan.spans])
    place = F.col("offset") - starts[F.col("partition")]
    # The last g with floor(records * g / slices) <= place.
    number = F.floor(((place + 1) * plan.slices - 1) / lengths[F.col("partition")]).cast("int")
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
        number.alias("slice"),
        "key",
        size.cast("long").alias("size"),
        F.unix_millis("timestamp").alias("at"),
    )

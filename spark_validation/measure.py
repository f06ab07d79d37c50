"""The Spark job that reads the records of topics, or takes given ones, and counts their keys.

The first stage groups records by key, partition and replicate where it reads them, and divides the groups by
key among reducers. Spark moves these as a few blocks of bytes, each an Arrow table, and not as rows: to make
rows of groups and groups of rows again costs more than to count them.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_validation import errors, kafka_source
from spark_validation.counting import CellCounts, add_batch, count_rows, divide_by_key, group_cells
from spark_validation.key_counts import CountsLayout, KeyCounts, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from spark_validation.errors import SkewError
    from spark_validation.kafka_source import Range
    from spark_validation.windows import SamplePlan


RECORDS_PER_REDUCER = 750_000
"""About 250 MB of a Python worker where every record has a key of its own."""
MIN_RECORDS_PER_REDUCER = 100_000
"""Records that are counted in the time that another reducer takes to start."""
MAX_COLLECTED_COUNTS = 16
"""The most `KeyCounts` of a topic that come to the driver: more are merged before, so that its memory does
not grow."""

BLOCKS = "reducer int, topic int, block binary, failure string"
"""The columns of a first stage's result: cell counts of a topic for one reducer, or the topic's error."""
_COUNTS = "topic int, counts binary, failure string"


@dataclass(frozen=True, slots=True)
class CountedTopic:
    """A topic whose keys are counted.

    Attributes:
        plan: The plan of its sample.
        layout: The layout of its counts.
    """

    name: str
    plan: SamplePlan
    layout: CountsLayout


def count_topics(
    spark: SparkSession, topics: Sequence[CountedTopic], kafka: Mapping[str, str], *, slots: int
) -> list[KeyCounts | SkewError]:
    """Read topics from Kafka in one job, and count their keys.

    Args:
        topics: The topics, in the order of the result.
        kafka: Properties of librdkafka as `kafka_client.executor_properties` makes them; secrets among them.
        slots: The number of tasks that run at a time.

    Returns:
        The counts of each topic, or its error.
    """
    tasks = kafka_source.divide_into_tasks([topic.plan for topic in topics], slots)
    if not tasks:
        return [KeyCounts.empty(topic.layout) for topic in topics]
    reducers = divide([topic.plan.records for topic in topics], slots)
    blocks = kafka_blocks(spark, topics, kafka, tasks, reducers)
    return _reduce(blocks, [topic.layout for topic in topics], reducers)


def kafka_blocks(
    spark: SparkSession,
    topics: Sequence[CountedTopic],
    kafka: Mapping[str, str],
    tasks: Sequence[Sequence[Range]],
    reducers: Reducers,
) -> DataFrame:
    """Return the first stage of `count_topics`, with the columns BLOCKS.

    The properties travel in the function that reads, which Spark neither shows nor logs.
    """
    labels = spark_labels(reducers.count)
    names = [topic.name for topic in topics]
    replicates = [topic.layout.replicates for topic in topics]
    packed, sent = kafka_source.pack_tasks(tasks), dict(kafka)

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        reader = kafka_source.RangeReader(names, replicates, sent)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                for topic, table in reader.read(kafka_source.unpack_task(packed[number])):
                    yield _blocks(topic, table, reducers, labels)
        for topic, error in reader.failures.items():
            yield _failure(topic, error, labels[reducers.of[topic].start])

    # One row for each task, and one partition for each row.
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, BLOCKS)


def count_records(records: DataFrame, layout: CountsLayout, *, count: int, slots: int) -> KeyCounts:
    """Count the keys of records of one topic.

    Args:
        records: With the columns that `counting.add_batch` takes.
        layout: The layout of the topic's counts.
        count: The number of records.
        slots: The number of tasks that run at a time.
    """
    reducers = divide([count], slots)
    labels = spark_labels(reducers.count)
    replicates = layout.replicates

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        cells = CellCounts()
        for batch in batches:
            add_batch(cells, batch, replicates)
            if cells.rows >= kafka_source.MAX_HELD_GROUPS:
                yield _blocks(0, cells.table(), reducers, labels)
                cells = CellCounts()
        if cells.rows:
            yield _blocks(0, cells.table(), reducers, labels)

    (result,) = _reduce(records.mapInArrow(read, BLOCKS), [layout], reducers)
    if not isinstance(result, KeyCounts):
        raise result
    return result


# --- reducers --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reducers:
    """The reducers of a job.

    Attributes:
        count: The number of reducers.
        of: For each topic its reducers; small topics share one.
    """

    count: int
    of: tuple[range, ...]


def divide(records: Sequence[int], slots: int) -> Reducers:
    """Divide topics among reducers: enough to keep each one's memory small, and task slots busy.

    Args:
        records: The records of each topic, at most.
        slots: The number of tasks that run at a time.
    """
    total = sum(records)
    most = min(RECORDS_PER_REDUCER, max(MIN_RECORDS_PER_REDUCER, -(-total // slots)))
    count = max(1, -(-total // most))
    # Topics are laid end to end and cut into equal lengths, so that small neighbours share a reducer.
    before = itertools.accumulate(records, initial=0)
    of = []
    for start, length in zip(before, records, strict=False):
        parts = max(1, -(-length // most))
        first = min(start // most, count - parts)
        of.append(range(first, first + parts))
    return Reducers(count, tuple(of))


def spark_labels(count: int) -> list[int]:
    """Return for each partition of `repartition(count, column)` a value of the column that Spark puts there.

    Spark hashes an int with Murmur3 and the seed 42, and accepts partition numbers themselves only since 4.1.
    """
    labels: dict[int, int] = {}
    for first in itertools.count(0, 1024):
        values = np.arange(first, first + 1024, dtype=np.uint32)
        for value, bucket in zip(values.tolist(), (_murmur3(values) % count).tolist(), strict=True):
            labels.setdefault(bucket, value)
        if len(labels) == count:
            break
    return [labels[bucket] for bucket in range(count)]


def _murmur3(values: Any) -> Any:
    """Return Murmur3_x86_32.hashInt with the seed 42, as signed numbers."""
    # The constants of MurmurHash3 (Austin Appleby), as in Spark's Murmur3_x86_32.
    mixed = values * np.uint32(0xCC9E2D51)
    mixed = (mixed << np.uint32(15) | mixed >> np.uint32(17)) * np.uint32(0x1B873593)
    hashed = np.uint32(42) ^ mixed
    hashed = (hashed << np.uint32(13) | hashed >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)
    # The finalizer takes the length of the input: an int has four bytes.
    hashed ^= np.uint32(4)
    hashed = (hashed ^ hashed >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    hashed = (hashed ^ hashed >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    # Spark takes the signed hash modulo the count (Pmod, which is never negative, as NumPy's).
    return (hashed ^ hashed >> np.uint32(16)).astype(np.int32).astype(np.int64)


def _blocks(topic: int, table: Any, reducers: Reducers, labels: Sequence[int]) -> Any:
    """Return cell counts of a topic as rows of BLOCKS."""
    import pyarrow as pa

    mine = reducers.of[topic]
    parts = [(labels[mine[number]], _to_bytes(part)) for number, part in divide_by_key(table, len(mine))]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([label for label, _ in parts], pa.int32()),
            pa.array([topic] * len(parts), pa.int32()),
            pa.array([block for _, block in parts], pa.binary()),
            pa.nulls(len(parts), pa.string()),
        ],
        names=["reducer", "topic", "block", "failure"],
    )


def _failure(topic: int, error: SkewError, label: int) -> Any:
    import pyarrow as pa

    columns: Mapping[str, tuple[Any, Any]] = {
        "reducer": (label, pa.int32()),
        "topic": (topic, pa.int32()),
        "block": (None, pa.binary()),
        "failure": (json.dumps(errors.to_parts(error)), pa.string()),
    }
    return pa.RecordBatch.from_pydict({n: pa.array([v], kind) for n, (v, kind) in columns.items()})


def _to_bytes(table: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _reduce(
    blocks: DataFrame, layouts: Sequence[CountsLayout], reducers: Reducers
) -> list[KeyCounts | SkewError]:
    def reduce_blocks(batches: Iterable[Any]) -> Iterator[Any]:
        yield from _count_blocks(batches, layouts)

    def merge_rows(batches: Iterable[Any]) -> Iterator[Any]:
        for topic, totals in _merge_counts(_rows(batches), layouts).items():
            yield _counts_row(topic, totals)

    counts = blocks.repartition(reducers.count, "reducer").mapInArrow(reduce_blocks, _COUNTS)
    # Counts of many reducers of one topic are added up on executors, not one after another by the driver.
    if max(map(len, reducers.of)) > MAX_COLLECTED_COUNTS:
        counts = counts.repartition(MAX_COLLECTED_COUNTS).mapInArrow(merge_rows, _COUNTS)
    rows = ((row.topic, bytes(row.counts or b""), row.failure) for row in counts.collect())
    totals = _merge_counts(rows, layouts)
    # A topic without a record in its windows has sent no block.
    return [totals.get(number, KeyCounts.empty(layout)) for number, layout in enumerate(layouts)]


def _count_blocks(batches: Iterable[Any], layouts: Sequence[CountsLayout]) -> Iterator[Any]:
    """Count the keys of a reducer's topics; the reducer has all records of its keys."""
    import pyarrow as pa

    cells: dict[int, CellCounts] = {}
    for batch in batches:
        for topic, block, failure in zip(
            batch.column("topic").to_pylist(),
            batch.column("block"),
            batch.column("failure").to_pylist(),
            strict=True,
        ):
            if failure is None:
                table = pa.ipc.open_stream(block.as_buffer()).read_all()
                cells.setdefault(topic, CellCounts()).add(table)
            else:
                yield _counts_row(topic, errors.from_parts(json.loads(failure)))
    for topic in sorted(cells):
        layout = layouts[topic]
        # Popped, so that the groups of one topic are free before the next one is counted.
        rows = group_cells(cells.pop(topic).table(), layout.partitions, layout.replicates)
        yield _counts_row(topic, count_rows(rows, layout))


def _counts_row(topic: int, result: KeyCounts | SkewError) -> Any:
    import pyarrow as pa

    columns: Mapping[str, tuple[Any, Any]] = {
        "topic": (topic, pa.int32()),
        "counts": (pack(result) if isinstance(result, KeyCounts) else None, pa.binary()),
        "failure": (
            None if isinstance(result, KeyCounts) else json.dumps(errors.to_parts(result)),
            pa.string(),
        ),
    }
    return pa.RecordBatch.from_pydict({n: pa.array([v], kind) for n, (v, kind) in columns.items()})


def _rows(batches: Iterable[Any]) -> Iterator[tuple[int, bytes, str | None]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield row["topic"], row["counts"] or b"", row["failure"]


def _merge_counts(
    rows: Iterable[tuple[int, bytes, str | None]], layouts: Sequence[CountsLayout]
) -> dict[int, KeyCounts | SkewError]:
    """Return the counts of each topic, added up; a failure of any part is the topic's."""
    merged: dict[int, KeyCounts | SkewError] = {}
    for topic, counts, failure in rows:
        before = merged.get(topic)
        if failure is not None:
            merged[topic] = errors.from_parts(json.loads(failure))
        elif before is None:
            merged[topic] = unpack(counts, layouts[topic])
        elif isinstance(before, KeyCounts):
            before.merge(unpack(counts, layouts[topic]), layouts[topic])
    return merged

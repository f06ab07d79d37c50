"""The Spark job: reading or taking records of many topics, and counting their keys.

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
from spark_validation.counting import CellCounts, add_batch, count_rows, divided, of_cells
from spark_validation.key_counts import CountsLayout, KeyCounts, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from spark_validation.errors import SkewError
    from spark_validation.kafka_source import Range
    from spark_validation.windows import SamplePlan


RECORDS_PER_REDUCER = 750_000
"""About 250 MB of a Python worker where every record has a key of its own."""
FEWEST_PER_REDUCER = 100_000
"""Records that are counted in the time that another reducer takes to start."""
MOST_COLLECTED = 16
"""The most `KeyCounts` of a topic that come to the driver: more are merged before, so that its memory does
not grow."""

BLOCKS = "reducer int, topic int, block binary, failure string"
"""The columns of what a first stage makes: cell counts of a topic for one reducer, or why it has none."""
_COUNTS = "topic int, counts binary, failure string"


@dataclass(frozen=True, slots=True)
class Counted:
    """A topic whose keys are counted.

    Attributes:
        name: The topic.
        plan: What is read of it.
        layout: The layout of its counts.
    """

    name: str
    plan: SamplePlan
    layout: CountsLayout


def count_topics(
    spark: SparkSession, topics: Sequence[Counted], kafka: Mapping[str, str], *, slots: int
) -> list[KeyCounts | SkewError]:
    """Read topics from Kafka in one job, and count their keys.

    Args:
        spark: The session.
        topics: What is read, in the order of the result.
        kafka: Properties of librdkafka as `kafka_client.travelling` makes them; secrets among them.
        slots: How many tasks run at a time.

    Returns:
        The counts of each topic, or why there are none.
    """
    tasks = kafka_source.tasks([topic.plan for topic in topics], slots)
    if not tasks:
        return [KeyCounts.empty(topic.layout) for topic in topics]
    reducers = divide([topic.plan.records for topic in topics], slots)
    blocks = kafka_blocks(spark, topics, kafka, tasks, reducers)
    return _reduced(blocks, [topic.layout for topic in topics], reducers)


def kafka_blocks(
    spark: SparkSession,
    topics: Sequence[Counted],
    kafka: Mapping[str, str],
    tasks: Sequence[Sequence[Range]],
    reducers: Reducers,
) -> DataFrame:
    """The first stage of `count_topics`, with the columns BLOCKS.

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

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, BLOCKS)


def count_records(records: DataFrame, layout: CountsLayout, *, count: int, slots: int) -> KeyCounts:
    """Count the keys of records of one topic.

    Args:
        records: With the columns that `counting.of_records` takes.
        layout: The layout of the topic's counts.
        count: How many records there are.
        slots: How many tasks run at a time.
    """
    reducers = divide([count], slots)
    labels = spark_labels(reducers.count)
    replicates = layout.replicates

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        cells = CellCounts()
        for batch in batches:
            add_batch(cells, batch, replicates)
            if cells.rows >= kafka_source.MOST_HELD:
                yield _blocks(0, cells.table(), reducers, labels)
                cells = CellCounts()
        if cells.rows:
            yield _blocks(0, cells.table(), reducers, labels)

    (found,) = _reduced(records.mapInArrow(read, BLOCKS), [layout], reducers)
    if not isinstance(found, KeyCounts):
        raise found
    return found


# --- reducers --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reducers:
    """The reducers of a job.

    Attributes:
        count: Their number.
        of: For each topic its reducers; small topics share one.
    """

    count: int
    of: tuple[range, ...]


def divide(records: Sequence[int], slots: int) -> Reducers:
    """Divide topics among reducers: enough to keep each one's memory small, and task slots busy.

    Args:
        records: The records of each topic, at most.
        slots: How many tasks run at a time.
    """
    total = sum(records)
    most = min(RECORDS_PER_REDUCER, max(FEWEST_PER_REDUCER, -(-total // slots)))
    count = max(1, -(-total // most))
    before = itertools.accumulate(records, initial=0)
    of = []
    for start, length in zip(before, records, strict=False):
        parts = max(1, -(-length // most))
        first = min(start // most, count - parts)
        of.append(range(first, first + parts))
    return Reducers(count, tuple(of))


def spark_labels(count: int) -> list[int]:
    """For each partition of `repartition(count, column)`, a value of the column that Spark puts there.

    Spark hashes an int with Murmur3 and the seed 42, and cannot be told partitions themselves before 4.1.
    """
    labels: dict[int, int] = {}
    for first in itertools.count(0, 1024):
        values = np.arange(first, first + 1024, dtype=np.uint32)
        for value, place in zip(values.tolist(), (_murmur3(values) % count).tolist(), strict=True):
            labels.setdefault(place, value)
        if len(labels) == count:
            break
    return [labels[place] for place in range(count)]


def _murmur3(values: Any) -> Any:
    """Murmur3_x86_32.hashInt with the seed 42, as signed numbers."""
    mixed = values * np.uint32(0xCC9E2D51)
    mixed = (mixed << np.uint32(15) | mixed >> np.uint32(17)) * np.uint32(0x1B873593)
    hashed = np.uint32(42) ^ mixed
    hashed = (hashed << np.uint32(13) | hashed >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)
    hashed ^= np.uint32(4)
    hashed = (hashed ^ hashed >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    hashed = (hashed ^ hashed >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (hashed ^ hashed >> np.uint32(16)).astype(np.int32).astype(np.int64)


def _blocks(topic: int, table: Any, reducers: Reducers, labels: Sequence[int]) -> Any:
    """Cell counts of a topic, as rows of BLOCKS."""
    import pyarrow as pa

    mine = reducers.of[topic]
    parts = [(labels[mine[number]], _to_bytes(part)) for number, part in divided(table, len(mine))]
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


def _reduced(
    blocks: DataFrame, layouts: Sequence[CountsLayout], reducers: Reducers
) -> list[KeyCounts | SkewError]:
    def reduced(batches: Iterable[Any]) -> Iterator[Any]:
        yield from _count_blocks(batches, layouts)

    def merged(batches: Iterable[Any]) -> Iterator[Any]:
        for topic, found in _merged(_rows(batches), layouts).items():
            yield _counts_row(topic, found)

    counts = blocks.repartition(reducers.count, "reducer").mapInArrow(reduced, _COUNTS)
    if max(map(len, reducers.of)) > MOST_COLLECTED:
        counts = counts.repartition(MOST_COLLECTED).mapInArrow(merged, _COUNTS)
    rows = ((row.topic, bytes(row.counts or b""), row.failure) for row in counts.collect())
    found = _merged(rows, layouts)
    return [found.get(number, KeyCounts.empty(layout)) for number, layout in enumerate(layouts)]


def _count_blocks(batches: Iterable[Any], layouts: Sequence[CountsLayout]) -> Iterator[Any]:
    """Count the keys of a reducer's topics, all records of a key being here."""
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
                yield _counts_row(topic, errors.of_parts(json.loads(failure)))
    for topic in sorted(cells):
        layout = layouts[topic]
        rows = of_cells(cells.pop(topic).table(), layout.partitions, layout.replicates)
        yield _counts_row(topic, count_rows(rows, layout))


def _counts_row(topic: int, found: KeyCounts | SkewError) -> Any:
    import pyarrow as pa

    columns: Mapping[str, tuple[Any, Any]] = {
        "topic": (topic, pa.int32()),
        "counts": (pack(found) if isinstance(found, KeyCounts) else None, pa.binary()),
        "failure": (
            None if isinstance(found, KeyCounts) else json.dumps(errors.to_parts(found)),
            pa.string(),
        ),
    }
    return pa.RecordBatch.from_pydict({n: pa.array([v], kind) for n, (v, kind) in columns.items()})


def _rows(batches: Iterable[Any]) -> Iterator[tuple[int, bytes, str | None]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield row["topic"], row["counts"] or b"", row["failure"]


def _merged(
    rows: Iterable[tuple[int, bytes, str | None]], layouts: Sequence[CountsLayout]
) -> dict[int, KeyCounts | SkewError]:
    """The counts of each topic, added up; a failure of any part is the topic's."""
    found: dict[int, KeyCounts | SkewError] = {}
    for topic, counts, failure in rows:
        before = found.get(topic)
        if failure is not None:
            found[topic] = errors.of_parts(json.loads(failure))
        elif before is None:
            found[topic] = unpack(counts, layouts[topic])
        elif isinstance(before, KeyCounts):
            before.merge(unpack(counts, layouts[topic]), layouts[topic])
    return found

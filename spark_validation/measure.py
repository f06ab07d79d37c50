"""The Spark job that counts the keys of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from spark_validation import counting
from spark_validation.counting import count_rows
from spark_validation.key_counts import CountsLayout, KeyCounts, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame


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

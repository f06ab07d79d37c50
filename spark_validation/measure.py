"""The job: count what a plan reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from spark_validation import rows as grouping
from spark_validation.counting import count
from spark_validation.packing import pack, unpack
from spark_validation.tally import Layout, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

RECORDS_PER_REDUCER = 750_000
"""About 250 MB of a Python worker where every record has a key of its own."""
MOST_COLLECTED = 16
"""How many tallies come to the driver: more are merged before, so that its memory does not grow with them."""
GROUPED = ("key", "partition", "size", "first", "last")
"""The columns of grouped records, before those of each slice's records."""


def reducers(records: int, slots: int) -> int:
    """How many reducers: enough for the memory of each to stay small, and for all task slots to work."""
    return max(slots, -(-records // RECORDS_PER_REDUCER))


def tally(records: DataFrame, layout: Layout, *, reducers: int, group: bool = False) -> Tally:
    """Count records, all of a key in one place.

    Args:
        records: With the columns of `source.COLUMNS`.
        layout: The topic's.
        reducers: Into how many parts the keys are divided.
        group: Whether Spark groups records by key and partition before it moves them. This pays off for long
            ranges, where it divides what is moved by the records of a key, and a frequent key does not keep
            one reducer busy; not for windows, which have few records of a key each.
    """
    of = grouping.of_groups if group else grouping.of_records

    def counted(batches: Iterable[Any]) -> Iterator[Any]:
        yield _packed(count(of(batches, layout.partitions, layout.slices), layout))

    def merged(batches: Iterable[Any]) -> Iterator[Any]:
        parts = (part.as_py() for batch in batches for part in batch.column("tally"))
        yield _packed(_merged(parts, layout))

    prepared = _grouped(records, layout.slices) if group else records
    packed = prepared.repartition(reducers, "key").mapInArrow(counted, "tally binary")
    if reducers > MOST_COLLECTED:
        packed = packed.repartition(MOST_COLLECTED).mapInArrow(merged, "tally binary")
    return _merged((bytes(row.tally) for row in packed.collect()), layout)


def _packed(tally: Tally) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"tally": pa.array([pack(tally)], pa.binary())})


def _merged(parts: Iterable[bytes], layout: Layout) -> Tally:
    total = Tally.empty(layout)
    for part in parts:
        total.merge(unpack(part, layout), layout)
    return total


def _grouped(records: DataFrame, slices: int) -> DataFrame:
    """One row for each key and partition, with the columns GROUPED and the records of each slice."""
    return records.groupBy("key", "partition").agg(
        F.sum("size").alias("size"),
        F.min("at").alias("first"),
        F.max("at").alias("last"),
        *(F.count_if(F.col("slice") == number).alias(f"slice_{number}") for number in range(slices)),
    )

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

RECORDS_PER_REDUCER = 400_000
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

    def summarise(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        counted = count(of(batches, layout.partitions, layout.slices), layout)
        yield pa.RecordBatch.from_pydict({"tally": pa.array([pack(counted)], pa.binary())})

    prepared = _grouped(records, layout.slices) if group else records
    packed = prepared.repartition(reducers, "key").mapInArrow(summarise, "tally binary")
    total = Tally.empty(layout)
    # One at a time: however many reducers there are, the driver holds two tallies.
    for row in packed.toLocalIterator(prefetchPartitions=True):
        total.merge(unpack(bytes(row.tally), layout), layout)
    return total


def _grouped(records: DataFrame, slices: int) -> DataFrame:
    """One row for each key and partition, with the columns GROUPED and the records of each slice."""
    return records.groupBy("key", "partition").agg(
        F.sum("size").alias("size"),
        F.min("at").alias("first"),
        F.max("at").alias("last"),
        *(F.count_if(F.col("slice") == number).alias(f"slice_{number}") for number in range(slices)),
    )

"""The job: count what a plan reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_validation.counting import count
from spark_validation.packing import pack, unpack
from spark_validation.tally import Layout, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

RECORDS_PER_REDUCER = 400_000


def reducers(records: int, slots: int) -> int:
    """How many reducers: enough for the memory of each to stay small, and for all task slots to work."""
    return max(slots, -(-records // RECORDS_PER_REDUCER))


def tally(rows: DataFrame, layout: Layout, *, reducers: int) -> Tally:
    """Count records, all of a key in one place.

    Args:
        rows: With the columns of `source.COLUMNS`.
        layout: The topic's.
        reducers: Into how many parts the keys are divided.
    """

    def summarise(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"tally": pa.array([pack(count(batches, layout))], pa.binary())})

    packed = rows.repartition(reducers, "key").mapInArrow(summarise, "tally binary")
    total = Tally.empty(layout)
    # One at a time: however many reducers there are, the driver holds two tallies.
    for row in packed.toLocalIterator(prefetchPartitions=True):
        total.merge(unpack(bytes(row.tally), layout), layout)
    return total

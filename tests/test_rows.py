"""Records that Spark has grouped are counted as the same records one by one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from hypothesis import given

from spark_validation import counting
from spark_validation.measure import GROUPED
from spark_validation.rows import of_groups, of_records
from spark_validation.tally import NEVER
from tests.skew_records import Record, batches, counted
from tests.test_counting import samples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_validation.tally import Layout


def grouped(records: Sequence[Record], slices: int, size: int = 1_000) -> Iterator[Any]:
    """Arrow batches as measure.tally has Spark make them."""
    by_pair: dict[tuple[bytes | None, int], list[Record]] = defaultdict(list)
    for record in records:
        by_pair[record.key, record.partition].append(record)
    rows = [
        {
            "key": key,
            "partition": partition,
            "size": sum(one.size for one in of),
            "first": min(one.at for one in of),
            "last": max(one.at for one in of),
            **{f"slice_{n}": sum(one.slice == n for one in of) for n in range(slices)},
        }
        for (key, partition), of in by_pair.items()
    ]
    names = [*GROUPED, *(f"slice_{n}" for n in range(slices))]
    schema = pa.schema([(name, pa.binary() if name == "key" else pa.int64()) for name in names])
    for begin in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[begin : begin + size], schema=schema)


@given(samples())
def test_grouped_records_count_as_single_ones(sample: tuple[list[Record], Layout]) -> None:
    records, layout = sample
    tally = counting.count(
        of_groups(grouped(records, layout.slices), layout.partitions, layout.slices), layout
    )
    truth = counted(records, layout)
    for name in ("records", "null_records", "keys", "multiplicity", "incidence", "fits", "fits_none"):
        assert np.array_equal(getattr(tally, name), getattr(truth, name)), name
    for name in ("earlier", "earlier_last_ms", "later", "later_first_ms"):
        assert np.array_equal(getattr(tally, name), getattr(truth, name)), name
    assert (tally.distinct, tally.shared_keys) == (truth.distinct, truth.shared_keys)
    # Bytes are exact by partition; within it they follow the records.
    assert np.array_equal(tally.bytes.sum(axis=1), truth.bytes.sum(axis=1))
    assert np.array_equal(tally.null_bytes.sum(axis=1), truth.null_bytes.sum(axis=1))
    for count, placement in tally.placements.items():
        assert np.allclose(placement.records, truth.placements[count].records)
        assert np.allclose(placement.bytes.sum(), truth.placements[count].bytes.sum())
        assert placement.keys_moved == truth.placements[count].keys_moved
    of_key = {key.digest: key for key in truth.hot}
    for key in tally.hot:
        assert np.array_equal(key.records, of_key[key.digest].records)


def test_times_of_grouped_records_are_those_of_the_slices_where_keys_begin_and_end() -> None:
    records = [
        Record(0, slice_, key, 10, at)
        for slice_, key, at in [(0, b"a", 5), (0, b"b", 7), (2, b"a", 20), (2, b"c", 22)]
    ]
    rows = of_groups(grouped(records, 3), 1, 3)
    assert rows is not None
    assert rows.first_ms.tolist() == [[5, NEVER, 22]]
    assert rows.last_ms.tolist() == [[7, -1, 22]]
    exact = of_records(batches(records), 1, 3)
    assert exact is not None
    assert exact.first_ms.tolist() == [[5, NEVER, 20]]


def test_nothing_grouped_is_nothing() -> None:
    assert of_groups(grouped([], 3), 2, 3) is None
    assert of_records(batches([]), 2, 3) is None

"""Records that Spark has grouped are counted as the same records one by one."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given

from spark_validation import counting
from spark_validation.counting import of_groups, of_records
from spark_validation.key_counts import NEVER, CountsLayout, KeyCounts
from spark_validation.measure import GROUPED
from tests.support.skew_records import Record, batches, counted
from tests.unit.spark_validation.test_counting import samples


def grouped(records: Sequence[Record], replicates: int, size: int = 1_000) -> Iterator[Any]:
    """Arrow batches as measure.count_keys has Spark make them."""
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
            **{f"replicate_{n}": sum(one.replicate == n for one in of) for n in range(replicates)},
        }
        for (key, partition), of in by_pair.items()
    ]
    names = [*GROUPED, *(f"replicate_{n}" for n in range(replicates))]
    schema = pa.schema([(name, pa.binary() if name == "key" else pa.int64()) for name in names])
    for begin in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[begin : begin + size], schema=schema)


@given(samples())
def test_grouped_records_count_as_single_ones(sample: tuple[list[Record], CountsLayout]) -> None:
    records, layout = sample
    counts = counting.count_rows(
        of_groups(grouped(records, layout.replicates), layout.partitions, layout.replicates), layout
    )
    assert_same_counts(counts, counted(records, layout))


def assert_same_counts(counts: KeyCounts, truth: KeyCounts) -> None:
    """Everything that grouped records still tell."""
    for name in ("records", "null_records", "keys", "multiplicity", "incidence", "fits", "fits_none"):
        assert np.array_equal(getattr(counts, name), getattr(truth, name)), name
    assert np.array_equal(counts.misfits, truth.misfits)
    assert (counts.distinct, counts.shared_keys) == (truth.distinct, truth.shared_keys)
    # Bytes are exact by partition; within it they follow the records.
    assert np.array_equal(counts.bytes.sum(axis=1), truth.bytes.sum(axis=1))
    assert np.array_equal(counts.null_bytes.sum(axis=1), truth.null_bytes.sum(axis=1))
    for count, placement in counts.placements.items():
        assert np.allclose(placement.records, truth.placements[count].records)
        assert np.allclose(placement.bytes.sum(), truth.placements[count].bytes.sum())
        assert placement.keys_moved == truth.placements[count].keys_moved
    of_key = {key.digest: key for key in truth.hot}
    for key in counts.hot:
        assert np.array_equal(key.records, of_key[key.digest].records)


def times(records: list[Record], replicates: int) -> tuple[Any, Any, Any, Any]:
    """The first and last timestamps by slice of grouped records of one partition, and of the same singly."""
    rows = of_groups(grouped(records, replicates), 1, replicates)
    exact = of_records(batches(records), 1, replicates)
    assert rows is not None
    assert exact is not None
    return rows.first_ms[0], rows.last_ms[0], exact.first_ms[0], exact.last_ms[0]


def test_times_of_grouped_records_are_nearly_those_of_their_slices_where_keys_are_many() -> None:
    place = random.Random(1)
    records = [Record(0, at // 1_000, b"k%d" % place.randrange(2_000), 10, at) for at in range(10_000)]
    first, last, exact_first, exact_last = times(records, 10)
    assert abs(first - exact_first).max() < 100
    assert abs(last - exact_last).max() < 100


def test_times_that_grouped_records_do_not_tell_are_left_open() -> None:
    """Both keys are in each slice; only the beginning and the end of all is known."""
    records = [Record(0, at // 1_000, b"k%d" % (at % 2), 10, at) for at in range(10_000)]
    first, last, _, _ = times(records, 10)
    assert first.tolist() == [0] + [NEVER] * 9
    assert last.tolist() == [-1] * 9 + [9_999]


def test_slices_without_records_have_no_times() -> None:
    records = [Record(0, 1, b"a", 10, 5), Record(0, 3, b"a", 10, 20)]
    first, last, exact_first, exact_last = times(records, 5)
    assert exact_first.tolist() == [NEVER, 5, NEVER, 20, NEVER]
    assert first.tolist() == [NEVER, 5, NEVER, NEVER, NEVER]
    assert exact_last.tolist() == [-1, 5, -1, 20, -1]
    assert last.tolist() == [-1, -1, -1, 20, -1]


def test_nothing_grouped_is_nothing() -> None:
    assert of_groups(grouped([], 3), 2, 3) is None
    assert of_records(batches([]), 2, 3) is None

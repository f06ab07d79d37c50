"""Counting in arrays finds what counting one record after another finds."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_validation import counting
from spark_validation.key_counts import HOT_BY_BYTES, HOT_KEYS, CountsLayout, pack
from spark_validation.windows import plan_windows
from tests.support.skew.records import (
    LAYOUT,
    SCHEMA,
    Record,
    assert_same,
    batches,
    count,
    draw_records,
    samples,
    tally_records,
)
from tests.support.skew.simulation import NULL, add_sizes, compact_log, count_sample, spans, uniform


@given(samples(), st.integers(1, 60))
def test_counts_match_reference(sample: tuple[list[Record], CountsLayout], batch_size: int) -> None:
    records, layout = sample
    assert_same(count(batches(records, batch_size), layout), tally_records(records, layout))


def test_counts_do_not_depend_on_grouping(monkeypatch: pytest.MonkeyPatch) -> None:
    records = draw_records(3_000, 20, LAYOUT)
    groupings: list[int] = []
    compact = counting._compact

    def record_batch(held: list[Any], schema: Any) -> Any:
        groupings.append(len(held))
        return compact(held, schema)

    monkeypatch.setattr(counting, "_compact", record_batch)
    monkeypatch.setattr(counting, "_COMPACT_ROWS", 100)
    assert_same(count(batches(records, 30), LAYOUT), tally_records(records, LAYOUT))
    assert len(groupings) > 3


@pytest.mark.parametrize("wanted", [10_000, 30_000])
@pytest.mark.parametrize("batch_size", [100, 5_000], ids=["short runs", "long runs"])
def test_window_counts_match_simulation(wanted: int, batch_size: int) -> None:
    topic = add_sizes(compact_log(uniform(30_000, 500, 3, null=0.1)))
    plan = plan_windows(spans(topic), records=wanted, seed=1)
    records = []
    for window in plan.windows:
        at = window.partition
        read = slice(*np.searchsorted(topic.offsets[at], (window.start, window.end)))
        columns = (column[at][read].tolist() for column in (topic.codes, topic.sizes, topic.times))
        records += [
            Record(at, window.replicate, None if code == NULL else topic.keys[code], size, time)
            for code, size, time in zip(*columns, strict=True)
        ]
    counts, layout = count_sample(topic, plan, (3, 8))
    assert_same(counts, count(batches(records, batch_size), layout))


def test_keys_are_not_kept_by_default() -> None:
    records = [Record(0, 0, b"a person's name", 7, 1)]
    assert count(batches(records), LAYOUT).hot[0].key is None
    assert b"a person's name" not in pack(count(batches(records), LAYOUT))


def test_keys_with_most_records_or_bytes_are_kept() -> None:
    layout = CountsLayout(1, 1, (1.0,), (True,))
    frequent = [Record(0, 0, b"f%d" % k, 1, 0) for k in range(200) for _ in range(k + 2)]
    heavy = [Record(0, 0, b"h%d" % k, 10_000 + k, 0) for k in range(100)]
    counts = count(batches(frequent + heavy), layout)
    records = [int(key.records.sum()) for key in counts.hot]
    assert records[:HOT_KEYS] == list(range(201, 201 - HOT_KEYS, -1))
    sizes = sorted((int(key.bytes.sum()) for key in counts.hot), reverse=True)
    assert sizes[:HOT_BY_BYTES] == list(range(10_099, 10_099 - HOT_BY_BYTES, -1))
    assert len(counts.hot) == HOT_KEYS + HOT_BY_BYTES


def arrays(number: int, keys: Any, layout: CountsLayout, begin: int) -> Any:
    """A batch of `number` records, made without a Python object for each."""
    place = np.arange(begin, begin + number)
    return pa.RecordBatch.from_arrays(
        [
            pa.array((place % layout.partitions).astype(np.int32)),
            pa.array((place % layout.replicates).astype(np.int32)),
            pa.array(keys(place)).cast(pa.string()).cast(pa.binary()),
            pa.array(np.full(number, 100)),
            pa.array(place),
        ],
        schema=SCHEMA,
    )


_POOLS: list[Any] = []
"""Never let go of: Arrow gives memory back to the pool that it came from, whenever that may be."""


@pytest.fixture
def peak() -> Iterator[Callable[[], int]]:
    """The most bytes that Arrow held since; NumPy's arrays are of the same order."""
    before = pa.default_memory_pool()
    _POOLS.append(pa.proxy_memory_pool(before))
    pa.set_memory_pool(_POOLS[-1])
    yield _POOLS[-1].max_memory
    pa.set_memory_pool(before)


def test_memory_grows_with_keys_and_not_with_records(
    peak: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_COMPACT_ROWS", 100_000)

    def key(at: Any) -> Any:
        return np.where(at % 10 < 3, 0, at % 50)

    counts = count((arrays(20_000, key, LAYOUT, batch * 20_000) for batch in range(100)), LAYOUT)
    assert counts.records.sum() == 2_000_000
    assert counts.hot[0].records.sum() == 2_000_000 * 3 // 10
    # Two million of these records are 90 MB.
    assert peak() < 30e6

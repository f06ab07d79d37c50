"""Counting in arrays finds what counting one record after another finds; key counts add up on the way."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_validation import counting
from spark_validation.hashing import PARTITIONERS, Keys, hash_by
from spark_validation.key_counts import (
    HOT_BY_BYTES,
    HOT_KEYS,
    MISFIT_COLUMNS,
    MISFITS,
    CountsLayout,
    KeyCounts,
    candidate_counts,
    pack,
    takes_suffix,
    unpack,
)
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
from tests.support.skew.simulation import (
    NULL,
    add_sizes,
    build_topic,
    compact_log,
    count_sample,
    draw_sample,
    name_keys,
    spans,
    uniform,
)


def split_by_reducer(records: list[Record], parts: int) -> list[list[Record]]:
    """Records by reducer: all of a key, and all without one, in one place."""
    found: list[list[Record]] = [[] for _ in range(parts)]
    hashed = hash_by("crc32", Keys.from_list([record.key or b"" for record in records]))
    for record, part in zip(records, (hashed % parts).tolist(), strict=True):
        found[part].append(record)
    return found


def merge_parts(records: list[Record], layout: CountsLayout, parts: int) -> KeyCounts:
    """Merge the counts of reducers, as they come to the driver."""
    total = KeyCounts.empty(layout)
    for part in split_by_reducer(records, parts):
        total.merge(unpack(pack(count(batches(part), layout)), layout), layout)
    return total


@given(samples(), st.integers(1, 5))
def test_merged_counts_equal_total_counts(sample: tuple[list[Record], CountsLayout], parts: int) -> None:
    records, layout = sample
    counts = count(batches(records), layout)
    assert_same(merge_parts(records, layout, parts), counts)
    assert_same(unpack(pack(counts), layout), counts)


def test_merged_reducer_counts_keep_totals_of_many_keys() -> None:
    # Each key has its own number of records and of bytes, so that it is clear which are kept.
    many = [Record(k % 6, k % 4, b"k%d" % k, k + at, at) for k in range(300) for at in range(k % 97 + 1)]
    records = many + draw_records(500, 5, LAYOUT)
    whole, sums = count(batches(records), LAYOUT), merge_parts(records, LAYOUT, 7)
    assert whole.distinct == 300
    assert_weighted_alike(whole, sums)


def assert_weighted_alike(one: KeyCounts, other: KeyCounts) -> None:
    for field in fields(KeyCounts):
        if field.name not in {"placements", "differences", "hot"}:
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))
    weights = np.array(LAYOUT.weights)
    for count_of in ("records", "bytes"):
        mine, theirs = (
            sorted(float(getattr(key, count_of).sum(axis=1) @ weights) for key in counts.hot)[-HOT_BY_BYTES:]
            for counts in (one, other)
        )
        np.testing.assert_allclose(mine, theirs)


def test_kept_misfits_do_not_depend_on_division() -> None:
    codes = np.random.default_rng(0).integers(0, 5_000, 20_000)
    records = [Record(code * 7 % 4, 0, f"{code}".encode(), 100, at) for at, code in enumerate(codes.tolist())]
    layout = CountsLayout(4, 1, (1.0,) * 4, (True,) * 4)
    whole = count(batches(records), layout)
    assert len(whole.misfits) == MISFITS
    np.testing.assert_array_equal(merge_parts(records, layout, 3).misfits, whole.misfits)
    np.testing.assert_array_equal(unpack(pack(whole), layout).misfits, whole.misfits)
    # The order favours no partition.
    share = np.bincount(whole.misfits[:, MISFIT_COLUMNS.index("partition")], minlength=4) / MISFITS
    lies = {record.key or b"": record.partition for record in records}
    keys, at = Keys.from_list([*lies]), np.array([*lies.values()])
    unlike = np.all([place(keys) % 4 != at for place in PARTITIONERS.values()], axis=0)
    misfits = np.bincount(at[unlike], minlength=4)
    np.testing.assert_allclose(share, misfits / misfits.sum(), atol=0.05)


PLAIN = CountsLayout(12, 1, (1.0,) * 12, (True,) * 12, (12, 24))


def place_keys(partitioner: str, keys: int, count: int = 12) -> list[Record]:
    """A record of each key, where a partitioner puts it on so many partitions."""
    names = [b"%d" % number for number in range(keys)]
    at = PARTITIONERS[partitioner](Keys.from_list(names)) % count
    return [Record(partition, 0, key, 100, 1) for partition, key in zip(at.tolist(), names, strict=True)]


def test_partitioner_excluded_by_single_reducer_is_excluded() -> None:
    mixed, second = place_keys("crc32", 2_000, 6), place_keys("fnv1a", 2_000)
    counts = count(batches(mixed), PLAIN)
    assert [*counts.differences] == [1]
    by_crc32 = hash_by("crc32", Keys.from_list([record.key or b"" for record in mixed]))
    np.testing.assert_array_equal(
        counts.placed_by(24, "crc32").records[:, -1], np.bincount(by_crc32 % 24, minlength=24)
    )
    assert counts.placed_by(24, "fnv1a") is counts.placements[24]
    for total in (counts, unpack(pack(counts), PLAIN)):
        total.merge(count(batches(second), PLAIN), PLAIN)
        assert total.differences == {}
        assert unpack(pack(total), PLAIN).differences == {}
        assert total.placed_by(24, "crc32") is total.placements[24]


@pytest.mark.parametrize(
    ("key", "takes"),
    [
        (b"order-17", True),
        ("Köln".encode(), True),
        (b"", True),
        ((17).to_bytes(8, "big"), False),
        ((1_700_000_000_017).to_bytes(8, "little"), False),
        (b"\0\0\0\0\x07\x10order-17", False),
        (b"\n\x08order-17", False),
        (b"order-17" + (1_700_000_000_000).to_bytes(8, "big"), False),
        (bytes(range(240, 256)), False),
        (b'{"id":17}', False),
        (b'"order-17"', False),
    ],
)
def test_only_plain_text_takes_a_suffix(key: bytes, takes: bool) -> None:
    assert takes_suffix(key) is takes


@pytest.mark.parametrize(("together", "near"), [(1, 0.05), (50, 0.2)], ids=["keys all over", "in stretches"])
def test_sum_of_squared_key_counts_is_nearly_unbiased(together: int, near: float) -> None:
    """Stretches that go on in the next window are less often in two windows: these are no neighbours."""
    codes = np.repeat(np.random.default_rng(0).integers(0, 500, 24_000 // together), together)
    topic = add_sizes(build_topic(codes, name_keys(500), 4), sigma=1.5)
    sums = np.bincount(topic.all_codes), np.bincount(topic.all_codes, topic.all_sizes)
    truth = np.array([float((of.astype(np.float64) ** 2).sum()) for of in sums])
    found = np.mean([draw_sample(topic, records=3_000, seed=seed)[0].squares for seed in range(40)], axis=0)
    np.testing.assert_allclose(found, truth, rtol=near)


def test_pickled_counts_are_refused() -> None:
    layout = CountsLayout(1, 1, (1.0,), (True,))
    with pytest.raises(ValueError, match="allow_pickle"):
        unpack(pickle.dumps("anything"), layout)


@pytest.mark.parametrize("count", [0, -3])
def test_invalid_requested_count_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} is not a partition count"):
        candidate_counts(12, (24, count))


@given(st.integers(1, 2000), st.lists(st.integers(1, 5000), max_size=5))
def test_candidate_counts_begin_with_current_count(partitions: int, requested: list[int]) -> None:
    found = candidate_counts(partitions, requested)
    own = set(found) - {*requested} | {partitions}
    assert {*requested} <= {*found}
    assert min(own) == partitions
    assert max(own) <= 4 * partitions
    assert len(own) <= 8
    assert list(found) == sorted({*found})


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


def test_memory_grows_with_keys_not_records(peak: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_COMPACT_ROWS", 100_000)

    def key(at: Any) -> Any:
        return np.where(at % 10 < 3, 0, at % 50)

    counts = count((arrays(20_000, key, LAYOUT, batch * 20_000) for batch in range(100)), LAYOUT)
    assert counts.records.sum() == 2_000_000
    assert counts.hot[0].records.sum() == 2_000_000 * 3 // 10
    # Two million of these records are 90 MB.
    assert peak() < 30e6

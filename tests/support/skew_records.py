"""Records as the counting sees them, and the same counts made slowly, one record after another."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_validation import counting
from spark_validation.counting import of_records
from spark_validation.hashing import PARTITIONERS, Keys
from spark_validation.key_counts import MULTIPLICITIES, NEVER, HotKey, Layout, Tally

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("slice", pa.int32()),
        ("key", pa.binary()),
        ("size", pa.int64()),
        ("at", pa.int64()),
    ]
)


class Record(NamedTuple):
    """One record that was read."""

    partition: int
    slice: int
    key: bytes | None
    size: int
    at: int


def batches(records: Sequence[Record], size: int = 1_000) -> Iterator[Any]:
    """Arrow batches of records."""
    for begin in range(0, len(records), size):
        columns = zip(*records[begin : begin + size], strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)],
            schema=SCHEMA,
        )


def count(batches: Iterable[Any], layout: Layout) -> Tally:
    """What the counting finds in Arrow batches of records."""
    return counting.count(of_records(batches, layout.partitions, layout.slices), layout)


def hashes(key: bytes) -> list[int]:
    """What each partitioner takes modulo the partition count."""
    return [int(of(Keys.of([key]))[0]) for of in PARTITIONERS.values()]


def counted(records: Iterable[Record], layout: Layout) -> Tally:
    """What `counting.count` should find, written down as its documentation says it."""
    tally = Tally.empty(layout)
    of_key: dict[bytes, list[Record]] = defaultdict(list)
    for record in records:
        cell = record.partition, record.slice
        tally.records[cell] += 1
        tally.bytes[cell] += record.size
        tally.first_ms[cell] = min(tally.first_ms[cell], record.at)
        tally.last_ms[cell] = max(tally.last_ms[cell], record.at)
        if record.key is None:
            tally.null_records[cell] += 1
            tally.null_bytes[cell] += record.size
        else:
            of_key[record.key].append(record)
    for key, mine in of_key.items():
        _take_key(tally, layout, key, mine)
    tally.hot.sort(key=lambda hot: (-float(hot.records.sum(axis=1) @ np.array(layout.weights)), hot.digest))
    return tally


def _take_key(tally: Tally, layout: Layout, key: bytes, mine: list[Record]) -> None:
    partitions = Counter(record.partition for record in mine)
    tally.distinct += 1
    tally.shared_keys += len(partitions) > 1
    tally.shared_records += len(mine) if len(partitions) > 1 else 0
    tally.multiplicity[min(len(mine), MULTIPLICITIES) - 1] += 1
    tally.incidence[len({record.slice for record in mine}) - 1] += 1
    hashed = hashes(key)
    hot = HotKey(
        hashlib.sha256(key).hexdigest(),
        len(key),
        key if layout.keep_keys else None,
        np.zeros_like(tally.records),
        np.zeros_like(tally.records),
    )
    tally.hot.append(hot)
    for partition in partitions:
        tally.keys[partition] += 1
    for record in mine:
        cell = record.partition, record.slice
        hot.records[cell] += 1
        hot.bytes[cell] += record.size
        fits = [value % layout.partitions == record.partition for value in hashed]
        for number, fit in enumerate(fits):
            tally.fits[(number, *cell)] += fit
        tally.fits_none[cell] += not any(fits)
        _compare_with_earlier(tally, record, hashed[0], lies_now=fits[0])
    _place_key(tally, layout, hashed, mine)


def _compare_with_earlier(tally: Tally, record: Record, hashed: int, *, lies_now: bool) -> None:
    for index in range(len(tally.earlier)):
        lay_then = hashed % (index + 1) == record.partition
        if lay_then and not lies_now:
            tally.earlier[index] += 1
            tally.earlier_last_ms[index] = max(tally.earlier_last_ms[index], record.at)
        if lies_now and not lay_then:
            tally.later[index] += 1
            tally.later_first_ms[index] = min(tally.later_first_ms[index], record.at)


def _place_key(tally: Tally, layout: Layout, hashed: list[int], mine: list[Record]) -> None:
    """By the first partitioner that put a record of it where it lies; by murmur2 if none did."""
    chosen = next(
        (value for value in hashed if any(value % layout.partitions == record.partition for record in mine)),
        hashed[0],
    )
    current = max(mine, key=lambda record: record.at).partition
    for count, placement in tally.placements.items():
        to = chosen % count
        placement.keys_moved += to != current
        for record in mine:
            weight = layout.weights[record.partition]
            column = layout.slices if layout.census[record.partition] else record.slice
            placement.records[to, column] += weight
            placement.bytes[to, column] += record.size * weight
            placement.records_moved[column] += weight if to != current else 0


def assert_same(one: Tally, other: Tally) -> None:
    """Two tallies hold the same; what is weighted, but for rounding."""
    for field in fields(Tally):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name == "placements":
            assert mine.keys() == theirs.keys()
            for count in mine:
                for name in ("records", "bytes", "records_moved"):
                    np.testing.assert_allclose(
                        getattr(mine[count], name), getattr(theirs[count], name), err_msg=name
                    )
                assert mine[count].keys_moved == theirs[count].keys_moved
        elif field.name == "hot":
            assert [(h.digest, h.length, h.key) for h in mine] == [
                (h.digest, h.length, h.key) for h in theirs
            ]
            for key, same in zip(mine, theirs, strict=True):
                np.testing.assert_array_equal(key.records, same.records)
                np.testing.assert_array_equal(key.bytes, same.bytes)
        else:
            np.testing.assert_array_equal(mine, theirs, err_msg=field.name)


def is_empty(tally: Tally) -> bool:
    """Whether nothing was counted."""
    return (
        not tally.records.any()
        and bool((tally.first_ms == NEVER).all())
        and tally.distinct == 0
        and not tally.hot
    )

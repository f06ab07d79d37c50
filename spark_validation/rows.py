"""A reducer's records as one row for each key and partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spark_validation.tally import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_validation.hashing import Int64s

_COMPACT_ROWS = 1_000_000
_CLOSE = 0.1
"""Up to this part of a slice's time, it is known when a slice begins."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Records by key and partition; each such pair once.

    Attributes:
        keys: Arrow array of the keys, null for records without one.
        partition: Where they lie.
        records: How many, by slice (rows by slices).
        bytes: Bytes of keys and values, alike.
        first: The earliest timestamp of each row, in milliseconds since 1970.
        last: The latest.
        first_ms: The earliest timestamp by partition and slice; NEVER where there is none.
        last_ms: The latest; -1 where there is none.
    """

    keys: Any
    partition: Int64s
    records: Int64s
    bytes: Int64s
    first: Int64s
    last: Int64s
    first_ms: Int64s
    last_ms: Int64s


def of_records(batches: Iterable[Any], partitions: int, slices: int) -> Rows | None:
    """Group single records; None where there is none.

    Args:
        batches: Arrow record batches with the columns of `source.COLUMNS`: `partition` and `slice` (int32),
            `key` (binary, null for none), `size` and `at` (int64).
        partitions: The topic's partition count.
        slices: How many slices there are.
    """
    table = _grouped(batches, slices)
    if table is None:
        return None
    cell, records, size, first, last = (
        table.column(name).to_numpy().astype(np.int64) for name in table.column_names[1:]
    )
    first_ms, last_ms = _no_times(partitions, slices)
    np.minimum.at(first_ms.reshape(-1), cell, first)
    np.maximum.at(last_ms.reshape(-1), cell, last)
    keys = table.column("key").combine_chunks()
    encoded = keys.dictionary_encode(null_encoding="encode")
    pair = np.asarray(encoded.indices).astype(np.int64) * partitions + cell // slices
    pairs, one, row = np.unique(pair, return_index=True, return_inverse=True)
    count = len(pairs)
    place = row * slices + cell % slices
    earliest, latest = np.full(count, NEVER), np.full(count, -1, dtype=np.int64)
    np.minimum.at(earliest, row, first)
    np.maximum.at(latest, row, last)
    return Rows(
        keys.take(_indices(one)),
        pairs % partitions,
        _summed(place, records, count, slices),
        _summed(place, size, count, slices),
        earliest,
        latest,
        first_ms,
        last_ms,
    )


def of_groups(batches: Iterable[Any], partitions: int, slices: int) -> Rows | None:
    """Take records that Spark has grouped already; None where there is none.

    Bytes are known of a row, not of its slices, and are divided among them as its records are. Timestamps are
    known likewise, so that a slice may have records and no timestamps: see `_times`.

    Args:
        batches: Arrow record batches with the columns of `measure.GROUPED`, and one for the records of each
            slice.
        partitions: The topic's partition count.
        slices: How many slices there are.
    """
    import pyarrow as pa

    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return None
    table = pa.Table.from_batches(held)
    partition, size, first, last, *counts = (
        table.column(name).to_numpy().astype(np.int64) for name in table.column_names[1:]
    )
    records = np.stack(counts, axis=1)
    together = records.cumsum(axis=1)
    # Rounded on the running total, so that the parts add up to the whole.
    shares = np.rint(size[:, None] * (together / together[:, -1:])).astype(np.int64)
    first_ms, last_ms = _times(partition, records, first, last, (partitions, slices))
    return Rows(
        table.column(0).combine_chunks(),
        partition,
        records,
        np.diff(shares, axis=1, prepend=0),
        first,
        last,
        first_ms,
        last_ms,
    )


def _times(
    partition: Int64s, records: Int64s, first: Int64s, last: Int64s, shape: tuple[int, int]
) -> tuple[Int64s, Int64s]:
    """The first and last timestamps of slices, as far as rows tell them.

    The earliest timestamp of a row belongs to its first slice, and the latest to its last. As times ascend
    along a log, two slices meet between the latest time that is known before and the earliest that is known
    after. Where these are far apart, the one slice has no last time and the other no first.
    """
    partitions, slices = shape
    seen = records > 0
    earliest, latest = _no_times(partitions, slices)
    for number, at in ((seen.argmax(axis=1), first), (slices - 1 - seen[:, ::-1].argmax(axis=1), last)):
        np.minimum.at(earliest, (partition, number), at)
        np.maximum.at(latest, (partition, number), at)
    before = np.maximum.accumulate(latest, axis=1)[:, :-1]
    after = np.minimum.accumulate(earliest[:, ::-1], axis=1)[:, ::-1][:, 1:]
    whole = latest.max(axis=1, keepdims=True) - earliest.min(axis=1, keepdims=True).clip(max=NEVER - 1)
    outermost = (before < 0) | (after == NEVER)
    close = outermost | (after.astype(np.float64) - before <= _CLOSE * whole / slices)
    filled = np.stack([np.bincount(partition, column, partitions) > 0 for column in records.T], axis=1)
    earliest[:, 1:] = np.where(close & filled[:, 1:], after, NEVER)
    latest[:, :-1] = np.where(close & filled[:, :-1], before, -1)
    return earliest, latest


def _no_times(partitions: int, slices: int) -> tuple[Int64s, Int64s]:
    return np.full((partitions, slices), NEVER), np.full((partitions, slices), -1, dtype=np.int64)


def _indices(values: Int64s) -> Any:
    import pyarrow as pa

    return pa.array(values, pa.int64())


def _summed(place: Int64s, what: npt.NDArray[Any], rows: int, slices: int) -> Int64s:
    total = np.bincount(place, weights=what, minlength=rows * slices)
    return total.reshape(rows, slices).astype(np.int64)


def _grouped(batches: Iterable[Any], slices: int) -> Any:
    """The records as one row for each key and cell; memory grows with these, not with the records."""
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = pa.schema(
        [("key", pa.binary()), ("cell", pa.int32()), ("records", pa.int64()), ("bytes", pa.int64()),
         ("first", pa.int64()), ("last", pa.int64())]
    )  # fmt: skip
    held: list[Any] = []
    rows = 0
    limit = _COMPACT_ROWS
    for batch in batches:
        if not batch.num_rows:
            continue
        cell = pc.add(
            pc.multiply(batch.column("partition"), pa.scalar(slices, pa.int32())), batch.column("slice")
        )
        ones = pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
        at = batch.column("at")
        columns = [batch.column("key"), cell, ones, batch.column("size"), at, at]
        held.append(pa.Table.from_arrays(columns, schema=schema))
        rows += batch.num_rows
        if rows >= limit:
            held = [_compact(held, schema)]
            rows = held[0].num_rows
            limit = max(_COMPACT_ROWS, 2 * rows)
    return _compact(held, schema) if held else None


def _compact(tables: list[Any], schema: Any) -> Any:
    import pyarrow as pa

    grouped = pa.concat_tables(tables).group_by(["key", "cell"], use_threads=False)
    sums = [("records", "sum"), ("bytes", "sum"), ("first", "min"), ("last", "max")]
    return grouped.aggregate(sums).select(
        ["key", "cell", "records_sum", "bytes_sum", "first_min", "last_max"]
    ).rename_columns(schema.names)  # fmt: skip

"""Counting the records of a reducer's keys, in arrays: rows of one key and partition become `KeyCounts`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spark_validation.hashing import PARTITIONERS, Int64s, Keys, mixed
from spark_validation.key_counts import (
    HOT_BY_BYTES,
    HOT_KEYS,
    LONGEST_SALTED,
    MULTIPLICITIES,
    NEVER,
    SUFFIXES,
    CountsLayout,
    HotKey,
    KeyCounts,
    first_misfits,
    hottest,
    suffix,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_validation.key_counts import Bools


def count_rows(rows: Rows | None, layout: CountsLayout) -> KeyCounts:
    """Count the records of a reducer's keys.

    Args:
        rows: All records of these keys; None where there is none.
        layout: The topic's.
    """
    counts = KeyCounts.empty(layout)
    if rows is not None:
        _Counting(rows, layout, counts).run()
    return counts


class _Counting:
    """One pass over the rows of a reducer; rows without a key are only part of the totals."""

    def __init__(self, rows: Rows, layout: CountsLayout, counts: KeyCounts) -> None:
        self.layout = layout
        self.counts = counts
        self.weights = np.array(layout.weights)
        present = np.asarray(rows.keys.is_valid())
        everything = np.ones(len(present), dtype=bool)
        self.partition, self.records, self.bytes = rows.partition, rows.records, rows.bytes
        counts.records += self._by_partition(self.records, everything)
        counts.bytes += self._by_partition(self.bytes, everything)
        counts.null_records += self._by_partition(self.records, ~present)
        counts.null_bytes += self._by_partition(self.bytes, ~present)
        np.minimum(counts.first_ms, rows.first_ms, out=counts.first_ms)
        np.maximum(counts.last_ms, rows.last_ms, out=counts.last_ms)
        encoded = rows.keys.filter(rows.keys.is_valid()).dictionary_encode()
        self.keys = Keys.of_arrow(encoded.dictionary)
        self.code = np.asarray(encoded.indices).astype(np.int64)
        if not present.all():
            self.partition, self.records, self.bytes = (
                column[present] for column in (self.partition, self.records, self.bytes)
            )
        self.first, self.last = rows.first[present], rows.last[present]
        self.n = self.records.sum(axis=1)

    def _by_partition(self, values: Int64s, chosen: Bools) -> Int64s:
        """Sum the chosen rows (rows by replicates) by partition (partitions by replicates)."""
        shape = self.counts.records.shape
        total = np.empty(shape, dtype=np.int64)
        partition = self.partition[chosen]
        for number in range(shape[1]):
            total[:, number] = np.bincount(partition, values[chosen, number], shape[0])
        return total

    def run(self) -> None:
        if not len(self.keys):
            return
        hashes = [hash_keys(self.keys) for hash_keys in PARTITIONERS.values()]
        self._multiplicities()
        fits = self._fits(hashes)
        self._hot(hashes[0], self._place(hashes, fits))

    def _multiplicities(self) -> None:
        counts, count = self.counts, len(self.keys)
        records = np.bincount(self.code, weights=self.n, minlength=count).astype(np.int64)
        counts.distinct += count
        counts.multiplicity += np.bincount(np.minimum(records, MULTIPLICITIES) - 1, minlength=MULTIPLICITIES)
        counts.keys += np.bincount(self.partition, minlength=self.layout.partitions)
        shared = np.bincount(self.code, minlength=count) > 1
        counts.shared_keys += int(shared.sum())
        counts.shared_records += int(records[shared].sum())
        replicates_seen = np.zeros(count, dtype=np.int64)
        for number in range(self.layout.replicates):
            occurs = np.zeros(count, dtype=bool)
            occurs[self.code[self.records[:, number] > 0]] = True
            replicates_seen += occurs
        counts.incidence += np.bincount(replicates_seen - 1, minlength=self.layout.replicates)

    def _fits(self, hashes: list[Int64s]) -> list[Bools]:
        """For each partitioner the rows that lie where it puts them."""
        counts = self.counts
        fits = [hashed[self.code] % self.layout.partitions == self.partition for hashed in hashes]
        for number, fit in enumerate(fits):
            counts.fits[number] += self._by_partition(self.records, fit)
        misfit = ~np.logical_or.reduce(fits)
        counts.fits_none += self._by_partition(self.records, misfit)
        rows = np.flatnonzero(misfit)
        hashed = [values[self.code[rows]] for values in hashes]
        columns = [column[rows] for column in (self.partition, self.n, self.first, self.last)]
        counts.misfits = first_misfits(np.stack([mixed(hashed), *hashed, *columns], axis=1))
        return fits

    def _place(self, hashes: list[Int64s], fits: list[Bools]) -> Int64s:
        """Place each key by the partitioner that put its latest records where they lie, or else older ones.

        By the first of several, and by murmur2 if none did.

        Returns:
            The number of this partitioner (keys).
        """
        by_time = np.argsort(self.last, kind="stable")
        latest = np.zeros(len(self.keys), dtype=np.int64)
        latest[self.code[by_time]] = by_time
        current = self.partition[latest]
        chosen = np.zeros(len(self.keys), dtype=np.int64)
        unplaced = np.ones(len(self.keys), dtype=bool)
        older = [np.bincount(self.code[fit], minlength=len(self.keys)) > 0 for fit in fits]
        for fitting in ([fit[latest] for fit in fits], older):
            for number, explained in enumerate(fitting):
                chosen[explained & unplaced] = number
                unplaced &= ~explained
        hashed = np.stack(hashes)[chosen, np.arange(len(chosen))]
        records, size = self._columns(self.records), self._columns(self.bytes)
        for count, placement in self.counts.placements.items():
            to = hashed % count
            moved = to != current
            placement.keys_moved += int(moved.sum())
            of_row, leaving = to[self.code], moved[self.code]
            for number, (n, b) in enumerate(zip(records, size, strict=True)):
                placement.records[:, number] += np.bincount(of_row, n, count)
                placement.bytes[:, number] += np.bincount(of_row, b, count)
                placement.records_moved[number] += n[leaving].sum()
        return chosen

    def _columns(self, values: Int64s) -> list[npt.NDArray[np.float64]]:
        """Return the weighted columns of a placement: one a replicate, then one of what was read whole.

        Each is of rows; together they are the rows' records or bytes of the topic.
        """
        read_whole = np.array(self.layout.read_whole)[self.partition]
        sampled = np.where(read_whole, 0.0, self.weights[self.partition])
        whole = np.where(read_whole, self.weights[self.partition] * values.sum(axis=1), 0.0)
        return [*(values[:, number] * sampled for number in range(self.layout.replicates)), whole]

    def _hot(self, hashed: Int64s, placed_by: Int64s) -> None:
        weight, keys = self.weights[self.partition], len(self.keys)
        records = np.bincount(self.code, weights=self.n * weight, minlength=keys)
        size = np.bincount(self.code, weights=self.bytes.sum(axis=1) * weight, minlength=keys)
        chosen = np.union1d(_most(records, HOT_KEYS, hashed), _most(size, HOT_BY_BYTES, hashed))
        rows_of = np.flatnonzero(np.isin(self.code, chosen))
        for code in chosen.tolist():
            rows = rows_of[self.code[rows_of] == code]
            key = self.keys.at(code)
            by_records, by_bytes = np.zeros((2, *self.counts.records.shape), dtype=np.int64)
            by_records[self.partition[rows]] = self.records[rows]
            by_bytes[self.partition[rows]] = self.bytes[rows]
            self.counts.hot.append(
                HotKey(
                    hashlib.sha256(key).hexdigest(),
                    len(key),
                    key if self.layout.keep_keys else None,
                    by_records,
                    by_bytes,
                    self._suffixed(key, int(placed_by[code])),
                )
            )
        self.counts.hot = hottest(self.counts.hot, self.weights)

    def _suffixed(self, key: bytes, partitioner: int) -> Int64s:
        """Return the partitions of `HotKey.suffixed`."""
        if len(key) > LONGEST_SALTED:
            return np.zeros(0, dtype=np.int64)
        salted = [key, *(key + suffix(number).encode() for number in range(SUFFIXES))]
        hash_keys = [*PARTITIONERS.values()][partitioner]
        return hash_keys(Keys.of(salted)) % self.layout.partitions


def _most(values: npt.NDArray[Any], count: int, hashed: Int64s) -> Int64s:
    """Return the indices of the largest values; of equal ones those with the smallest hash.

    Not the first that arrived: that order differs from run to run.
    """
    if len(values) <= count:
        return np.arange(len(values))
    smallest = np.partition(values, len(values) - count)[-count]
    larger = np.flatnonzero(values > smallest)
    equal = np.flatnonzero(values == smallest)
    room = count - len(larger)
    return np.concatenate([larger, equal[np.argpartition(hashed[equal], room - 1)[:room]]])


_COMPACT_ROWS = 1_000_000
_CLOSE = 0.1
"""Times further apart than this part of a replicate's time do not say when the next replicate begins."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Records by key and partition; each such pair once.

    Attributes:
        keys: Arrow array of the keys, null for records without one.
        partition: Their partition (rows).
        records: Their number (rows by replicates).
        bytes: Bytes of keys and values, alike.
        first: The earliest timestamp of each row, in milliseconds since 1970 (rows).
        last: The latest.
        first_ms: The earliest timestamp (partitions by replicates); NEVER where there is none.
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


def of_records(batches: Iterable[Any], partitions: int, replicates: int) -> Rows | None:
    """Group single records; None where there is none.

    Args:
        batches: Arrow record batches with the columns of `measure.COLUMNS`: `partition` and `replicate`
            (int32), `key` (binary, null for none), `size` (int64, bytes of key and value) and `at` (int64,
            milliseconds since 1970).
        partitions: The topic's partition count.
        replicates: How many replicates there are.
    """
    table = _grouped(batches, replicates)
    if table is None:
        return None
    cell, records, size, first, last = (
        table.column(name).to_numpy().astype(np.int64) for name in table.column_names[1:]
    )
    first_ms, last_ms = _no_times(partitions, replicates)
    np.minimum.at(first_ms.reshape(-1), cell, first)
    np.maximum.at(last_ms.reshape(-1), cell, last)
    keys = table.column("key").combine_chunks()
    encoded = keys.dictionary_encode(null_encoding="encode")
    pair = np.asarray(encoded.indices).astype(np.int64) * partitions + cell // replicates
    pairs, first_row, row = np.unique(pair, return_index=True, return_inverse=True)
    count = len(pairs)
    place = row * replicates + cell % replicates
    earliest, latest = np.full(count, NEVER), np.full(count, -1, dtype=np.int64)
    np.minimum.at(earliest, row, first)
    np.maximum.at(latest, row, last)
    return Rows(
        keys.take(_indices(first_row)),
        pairs % partitions,
        _summed(place, records, count, replicates),
        _summed(place, size, count, replicates),
        earliest,
        latest,
        first_ms,
        last_ms,
    )


def of_groups(batches: Iterable[Any], partitions: int, replicates: int) -> Rows | None:
    """Take records that Spark has grouped already; None where there is none.

    Bytes are known of a row, not of its replicates, and are divided among them as its records are. Timestamps
    are known of a row too, so that a replicate may have records and no timestamps: see `_times`.

    Args:
        batches: Arrow record batches with the columns of `measure.GROUPED`, and one for the records of each
            replicate.
        partitions: The topic's partition count.
        replicates: How many replicates there are.
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
    so_far = records.cumsum(axis=1)
    # Rounded on the running total, so that the parts add up to the whole.
    shares = np.rint(size[:, None] * (so_far / so_far[:, -1:])).astype(np.int64)
    first_ms, last_ms = _times(partition, records, first, last, (partitions, replicates))
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
    """Return the first and last timestamps of each replicate, as far as rows tell them.

    The earliest timestamp of a row belongs to its first replicate, and the latest to its last. As times
    ascend along a log, two replicates meet between the latest known time before and the earliest known time
    after. Where these are far apart, the first replicate has no last time and the second no first.

    Args:
        partition: Of each row (rows).
        records: Records by row and replicate (rows by replicates).
        first: The earliest timestamp of each row, in milliseconds since 1970 (rows).
        last: The latest.
        shape: Partitions, replicates.

    Returns:
        First and last timestamps, each of partitions by replicates; NEVER and -1 where unknown.
    """
    partitions, replicates = shape
    occurs = records > 0
    earliest, latest = _no_times(partitions, replicates)
    for number, time in (
        (occurs.argmax(axis=1), first),
        (replicates - 1 - occurs[:, ::-1].argmax(axis=1), last),
    ):
        np.minimum.at(earliest, (partition, number), time)
        np.maximum.at(latest, (partition, number), time)
    before = np.maximum.accumulate(latest, axis=1)[:, :-1]
    after = np.minimum.accumulate(earliest[:, ::-1], axis=1)[:, ::-1][:, 1:]
    duration = latest.max(axis=1, keepdims=True) - earliest.min(axis=1, keepdims=True).clip(max=NEVER - 1)
    outermost = (before < 0) | (after == NEVER)
    close = outermost | (after.astype(np.float64) - before <= _CLOSE * duration / replicates)
    filled = np.stack([np.bincount(partition, column, partitions) > 0 for column in records.T], axis=1)
    earliest[:, 1:] = np.where(close & filled[:, 1:], after, NEVER)
    latest[:, :-1] = np.where(close & filled[:, :-1], before, -1)
    return earliest, latest


def _no_times(partitions: int, replicates: int) -> tuple[Int64s, Int64s]:
    return np.full((partitions, replicates), NEVER), np.full((partitions, replicates), -1, dtype=np.int64)


def _indices(values: Int64s) -> Any:
    import pyarrow as pa

    return pa.array(values, pa.int64())


def _summed(cell: Int64s, values: npt.NDArray[Any], rows: int, replicates: int) -> Int64s:
    """Sum values by cell (row * replicates + replicate), into rows by replicates."""
    total = np.bincount(cell, weights=values, minlength=rows * replicates)
    return total.reshape(rows, replicates).astype(np.int64)


def _grouped(batches: Iterable[Any], replicates: int) -> Any:
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
            pc.multiply(batch.column("partition"), pa.scalar(replicates, pa.int32())),
            batch.column("replicate"),
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

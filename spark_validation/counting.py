"""Counting the records of a reducer's keys, in arrays: rows of one key and partition become `KeyCounts`."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_validation.hashing import (
    PARTITIONERS,
    Int64s,
    Keys,
    UInt32s,
    hash_all,
    hash_by,
    mixed,
    murmur2,
    reduce_all,
)
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
    KeyPlacement,
    first_misfits,
    hottest,
    suffix,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_validation.key_counts import Bools, Floats

_Columns: TypeAlias = "tuple[list[Floats], list[Floats]]"

PLAUSIBLE = 0.2
"""The share of a reducer's rows from which a partitioner that fits them may be the topic's, if that is twice
what chance makes it fit too."""
FEW_KEYS = 50
"""So few keys of a reducer do not say which partitioner is not the topic's."""


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
        hashed = hash_all(self.keys)
        hashes = reduce_all(hashed)
        self._multiplicities()
        fits = self._fits(hashes, hashed)
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

    def _fits(self, hashes: list[Int64s], unreduced: list[UInt32s]) -> list[Bools]:
        """For each partitioner the rows that lie where it puts them."""
        counts = self.counts
        fits = [hashed[self.code] % self.layout.partitions == self.partition for hashed in hashes]
        for number, fit in enumerate(fits):
            counts.fits[number] += self._by_partition(self.records, fit)
        misfit = ~np.logical_or.reduce(fits)
        counts.fits_none += self._by_partition(self.records, misfit)
        rows = np.flatnonzero(misfit)
        hashed = [values[self.code[rows]].astype(np.int64) for values in unreduced]
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
        columns = self._columns(self.records), self._columns(self.bytes)
        for placement in self.counts.placements.values():
            _add(placement, hashed, current, self.code, columns)
        for number, fit in enumerate(fits):
            if len(self.keys) <= FEW_KEYS or fit.mean() >= max(PLAUSIBLE, 2 / self.layout.partitions):
                self._differ(number, hashes[number], hashed, current, columns)
            else:
                del self.counts.differences[number]
        return chosen

    def _differ(
        self, partitioner: int, hashed: Int64s, mixture: Int64s, current: Int64s, columns: _Columns
    ) -> None:
        """Count what differs if one partitioner places every key, of the keys that it places elsewhere.

        Args:
            partitioner: Its number.
            hashed: What it takes modulo the partition count (keys).
            mixture: The same of the partitioner that was chosen for each key.
            current: The partition of each key's latest records.
            columns: Of `_columns`, records and bytes.
        """
        differs = hashed != mixture
        if not differs.any():
            return
        rows = np.flatnonzero(differs[self.code])
        code = (np.cumsum(differs) - 1)[self.code[rows]]
        records, size = ([column[rows] for column in of] for of in columns)
        for count in self.layout.candidates:
            difference = self.counts.differences[partitioner][count] = KeyPlacement.empty(
                count, self.layout.replicates
            )
            _add(difference, hashed[differs], current[differs], code, (records, size))
            _add(difference, mixture[differs], current[differs], code, (records, size), sign=-1)

    def _columns(self, values: Int64s) -> list[Floats]:
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
        return hash_by(list(PARTITIONERS)[partitioner], Keys.of(salted)) % self.layout.partitions


def _add(
    placement: KeyPlacement, hashed: Int64s, current: Int64s, code: Int64s, columns: _Columns, sign: int = 1
) -> None:
    """Add keys to a placement; with the sign -1, take them away.

    Args:
        placement: The placement.
        hashed: What is taken modulo the partition count (keys).
        current: The partition of each key's latest records.
        code: The key of each row.
        columns: Of `_Counting._columns`, records and bytes.
        sign: 1 or -1.
    """
    count = len(placement.records)
    to = hashed % count
    moved = to != current
    placement.keys_moved += sign * int(moved.sum())
    of_row, leaving = to[code], moved[code]
    for number, (n, b) in enumerate(zip(*columns, strict=True)):
        placement.records[:, number] += sign * np.bincount(of_row, n, count)
        placement.bytes[:, number] += sign * np.bincount(of_row, b, count)
        placement.records_moved[number] += sign * n[leaving].sum()


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


_SHORT_RUN = 200
"""Records of one cell that follow each other, below which they are not grouped by themselves."""
_COMPACT_ROWS = 1_000_000


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


class CellCounts:
    """Records grouped by key and cell, a cell being a partition and a replicate.

    Memory grows with the groups, not with the records.
    """

    def __init__(self) -> None:
        self._of_cell: dict[int, list[Any]] = defaultdict(list)
        self._mixed: list[Any] = []
        self._limit = _COMPACT_ROWS
        self.rows = 0

    def add_records(self, keys: Any, cells: Int64s, sizes: Any, times: Any) -> None:
        """Add single records.

        Args:
            keys: Arrow array of the keys (binary, null for none).
            cells: Their partition * replicates + replicate.
            sizes: Bytes of key and value.
            times: Timestamps in milliseconds since 1970.
        """
        import pyarrow as pa

        ones = pa.repeat(pa.scalar(1, pa.int64()), len(keys))
        columns = [keys, pa.array(cells, pa.int64()), ones, sizes, times, times]
        table = pa.Table.from_arrays(columns, schema=_cells_schema())
        edges = np.flatnonzero(np.diff(cells, prepend=-1, append=-1)).tolist()
        if len(edges) * _SHORT_RUN > len(cells):
            self.add(table)
            return
        # Records of one cell follow each other: to group these by key alone takes a quarter of the time.
        for begin, end in pairwise(edges):
            self._of_cell[int(cells[begin])].append(table.slice(begin, end - begin))
        self._count(len(cells))

    def add(self, table: Any) -> None:
        """Add what another one's `table` gave."""
        if table.num_rows:
            self._mixed.append(table)
            self._count(table.num_rows)

    def _count(self, rows: int) -> None:
        self.rows += rows
        if self.rows >= self._limit:
            self.table()
            self._limit = max(_COMPACT_ROWS, 2 * self.rows)

    def table(self) -> Any:
        """Return the groups as an Arrow table; a key may have two rows of a cell: `of_cells` adds them."""
        import pyarrow as pa

        schema = _cells_schema()
        for cell, tables in self._of_cell.items():
            table = _compact(tables, ["key"])
            cells = pa.repeat(pa.scalar(cell, pa.int64()), table.num_rows)
            self._of_cell[cell] = [table.add_column(1, schema.field("cell"), cells)]
        self._mixed = [_compact(self._mixed, ["key", "cell"])] if self._mixed else []
        table = pa.concat_tables(
            [schema.empty_table(), *itertools.chain(*self._of_cell.values()), *self._mixed]
        )
        self.rows = table.num_rows
        return table


def _compact(tables: list[Any], by: list[str]) -> Any:
    import pyarrow as pa

    grouped = pa.concat_tables(tables).group_by(by, use_threads=False)
    sums = [("records", "sum"), ("bytes", "sum"), ("first", "min"), ("last", "max")]
    names = [f"{name}_{function}" for name, function in sums]
    table = grouped.aggregate(sums).select([*by, *names])
    return table.rename_columns([*by, *(name for name, _ in sums)])


def _cells_schema() -> Any:
    import pyarrow as pa

    numbers = ("cell", "records", "bytes", "first", "last")
    return pa.schema([("key", pa.binary()), *((name, pa.int64()) for name in numbers)])


def divided(table: Any, parts: int) -> Iterator[tuple[int, Any]]:
    """Divide cell counts by key into so many parts, and leave out those that are empty.

    Args:
        table: Of `CellCounts`.
        parts: Their number.
    """
    import pyarrow as pa

    if parts == 1:
        yield 0, table
        return
    keys = table.column("key").combine_chunks().dictionary_encode()
    # Mixed, as a partition has only keys with one remainder of this hash.
    spread = murmur2(Keys.of_arrow(keys.dictionary)).astype(np.uint64) * _MIX >> np.uint64(32)
    part_of = (spread % np.uint64(parts)).astype(np.int64)
    codes = np.asarray(keys.indices.fill_null(-1))
    part = np.where(codes >= 0, part_of[codes], 0) if len(part_of) else np.zeros(len(codes), np.int64)
    order = np.argsort(part, kind="stable")
    edges = np.searchsorted(part[order], np.arange(parts + 1))
    ordered = table.take(pa.array(order))
    for number in range(parts):
        if edges[number + 1] > edges[number]:
            yield number, ordered.slice(edges[number], edges[number + 1] - edges[number])


_MIX = np.uint64(0x9E3779B97F4A7C15)


def of_records(batches: Iterable[Any], partitions: int, replicates: int) -> Rows | None:
    """Group single records; None where there is none.

    Args:
        batches: Arrow record batches with the columns `partition` and `replicate` (int32), `key` (binary,
            null for none), `size` (int64, bytes of key and value) and `at` (int64, milliseconds since 1970).
        partitions: The topic's partition count.
        replicates: How many replicates there are.
    """
    cells = CellCounts()
    for batch in batches:
        add_batch(cells, batch, replicates)
    return of_cells(cells.table(), partitions, replicates)


def add_batch(cells: CellCounts, batch: Any, replicates: int) -> None:
    """Add an Arrow record batch as `of_records` takes it."""
    partition, replicate = (
        batch.column(name).to_numpy().astype(np.int64) for name in ("partition", "replicate")
    )
    cell = partition * replicates + replicate
    cells.add_records(batch.column("key"), cell, batch.column("size"), batch.column("at"))


def of_cells(table: Any, partitions: int, replicates: int) -> Rows | None:
    """Group cell counts by key and partition; None where there is none.

    Args:
        table: Of `CellCounts`.
        partitions: The topic's partition count.
        replicates: How many replicates there are.
    """
    if not table.num_rows:
        return None
    cell, records, size, first, last = (
        table.column(name).to_numpy().astype(np.int64) for name in table.column_names[1:]
    )
    first_ms = np.full((partitions, replicates), NEVER)
    last_ms = np.full((partitions, replicates), -1, dtype=np.int64)
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


def _indices(values: Int64s) -> Any:
    import pyarrow as pa

    return pa.array(values, pa.int64())


def _summed(cell: Int64s, values: npt.NDArray[Any], rows: int, replicates: int) -> Int64s:
    """Sum values by cell (row * replicates + replicate), into rows by replicates."""
    total = np.bincount(cell, weights=values, minlength=rows * replicates)
    return total.reshape(rows, replicates).astype(np.int64)

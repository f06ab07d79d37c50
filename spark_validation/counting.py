"""The counting of a reducer's keys in arrays: rows of one key and partition become `KeyCounts`."""

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
    mix_hashes,
    murmur2,
    reduce_all,
)
from spark_validation.key_counts import (
    HOT_BY_BYTES,
    HOT_KEYS,
    MAX_SALTED_KEY_BYTES,
    MISFIT_COLUMNS,
    MULTIPLICITIES,
    NEVER,
    SUFFIXES,
    CountsLayout,
    HotKey,
    KeyCounts,
    KeyPlacement,
    estimate_squares,
    first_misfits,
    hottest,
    reduce_misfits,
    suffix,
    takes_suffix,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_validation.key_counts import Bools, Floats

_Columns: TypeAlias = "tuple[list[Floats], list[Floats]]"

PLAUSIBLE = 0.2
"""The least share of a reducer's rows that the topic's partitioner may fit, if it is also twice that of
chance."""
FEW_KEYS = 50
"""The most keys of a reducer that are too few to exclude a partitioner."""


def count_rows(rows: Rows | None, layout: CountsLayout) -> KeyCounts:
    """Count the records of a reducer's keys.

    Args:
        rows: All records of these keys; None where there is none.
        layout: The layout of the topic's counts.
    """
    counts = KeyCounts.empty(layout)
    if rows is not None:
        _RowCounter(rows, layout, counts).run()
    return counts


class _RowCounter:
    """One pass over the rows of a reducer; rows without a key are only part of the totals."""

    def __init__(self, rows: Rows, layout: CountsLayout, counts: KeyCounts) -> None:
        self.layout = layout
        self.counts = counts
        self.weights = np.array(layout.weights)
        present = np.asarray(rows.keys.is_valid())
        everything = np.ones(len(present), dtype=bool)
        self.partition, self.records, self.bytes = rows.partition, rows.records, rows.bytes
        counts.records += self._sum_by_partition(self.records, everything)
        counts.bytes += self._sum_by_partition(self.bytes, everything)
        counts.null_records += self._sum_by_partition(self.records, ~present)
        counts.null_bytes += self._sum_by_partition(self.bytes, ~present)
        np.minimum(counts.first_ms, rows.first_ms, out=counts.first_ms)
        np.maximum(counts.last_ms, rows.last_ms, out=counts.last_ms)
        encoded = rows.keys.filter(rows.keys.is_valid()).dictionary_encode()
        self.keys = Keys.from_arrow(encoded.dictionary)
        self.code = np.asarray(encoded.indices).astype(np.int64)
        if not present.all():
            self.partition, self.records, self.bytes = (
                column[present] for column in (self.partition, self.records, self.bytes)
            )
        self.first, self.last = rows.first[present], rows.last[present]
        self.n = self.records.sum(axis=1)

    def _sum_by_partition(self, values: Int64s, chosen: Bools) -> Int64s:
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
        self._count_multiplicities()
        self._place(hashes, self._count_fits(hashes, hashed))
        self._choose_hot_keys(hashes[0])

    def _count_multiplicities(self) -> None:
        counts, count = self.counts, len(self.keys)
        records = np.bincount(self.code, weights=self.n, minlength=count).astype(np.int64)
        counts.distinct += count
        counts.multiplicity += np.bincount(np.minimum(records, MULTIPLICITIES) - 1, minlength=MULTIPLICITIES)
        counts.keys += np.bincount(self.partition, minlength=self.layout.partitions)
        weights = self.weights[self.partition]
        counts.squares += [estimate_squares(of, weights).sum() for of in (self.records, self.bytes)]
        shared = np.bincount(self.code, minlength=count) > 1
        counts.shared_keys += int(shared.sum())
        counts.shared_records += int(records[shared].sum())
        # One replicate at a time: keys by replicates would be a matrix of up to 750,000 by 32.
        replicates_seen = np.zeros(count, dtype=np.int64)
        for number in range(self.layout.replicates):
            occurs = np.zeros(count, dtype=bool)
            occurs[self.code[self.records[:, number] > 0]] = True
            replicates_seen += occurs
        counts.incidence += np.bincount(replicates_seen - 1, minlength=self.layout.replicates)

    def _count_fits(self, hashes: list[Int64s], unreduced: list[UInt32s]) -> list[Bools]:
        """Count fits and misfits; return for each partitioner the rows that lie where it puts them."""
        counts = self.counts
        fits = [hashed[self.code] % self.layout.partitions == self.partition for hashed in hashes]
        for number, fit in enumerate(fits):
            counts.fits[number] += self._sum_by_partition(self.records, fit)
        misfit = ~np.logical_or.reduce(fits)
        counts.fits_none += self._sum_by_partition(self.records, misfit)
        rows = np.flatnonzero(misfit)
        hashed = [values[self.code[rows]].astype(np.int64) for values in unreduced]
        columns = [column[rows] for column in (self.partition, self.n, self.first, self.last)]
        counts.misfits = first_misfits(np.stack([mix_hashes(hashed), *hashed, *columns], axis=1))
        return fits

    def _place(self, hashes: list[Int64s], fits: list[Bools]) -> None:
        """Place each key by the partitioner that put its latest records where they lie, or else older ones.

        Of several the first one counts, and murmur2 if there is none.
        """
        # Where an index comes twice, NumPy keeps the last assignment: that of the latest row.
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
        columns = self._weighted_columns(self.records), self._weighted_columns(self.bytes)
        for placement in self.counts.placements.values():
            _add(placement, hashed, current, self.code, columns)
        for number, fit in enumerate(fits):
            if len(self.keys) <= FEW_KEYS or self._is_plausible(number, fit):
                self._count_differences(number, hashes[number], hashed, current, columns)
            else:
                # Each partitioner that is left takes a placement for each candidate: counts stay small.
                del self.counts.differences[number]

    def _is_plausible(self, partitioner: int, fit: Bools) -> bool:
        """Return whether a partitioner may be the topic's: it fits more rows than by chance.

        On the present partition count, or on an earlier one: just after an increase, few rows are where it
        puts them now.
        """
        partitions = self.layout.partitions
        if fit.mean() >= max(PLAUSIBLE, 2 / partitions):
            return True
        misfits = self.counts.misfits
        if len(misfits) < PLAUSIBLE * len(fit):
            return False
        lies = misfits[:, MISFIT_COLUMNS.index("partition")]
        hashed = reduce_misfits(misfits)[partitioner]
        return any(
            np.mean(hashed % count == lies) >= max(PLAUSIBLE, 2 / count) for count in range(2, partitions)
        )

    def _count_differences(
        self, partitioner: int, hashed: Int64s, mixture: Int64s, current: Int64s, columns: _Columns
    ) -> None:
        """Count how placements differ if one partitioner places every key.

        Args:
            hashed: What it takes modulo the partition count (keys).
            mixture: The same of the partitioner that was chosen for each key.
            current: The partition of each key's latest records.
            columns: The weighted columns of records and of bytes.
        """
        differs = hashed != mixture
        if not differs.any():
            return
        rows = np.flatnonzero(differs[self.code])
        code = (np.cumsum(differs) - 1)[self.code[rows]]
        records, size = ([column[rows] for column in measure] for measure in columns)
        for count in self.layout.candidates:
            difference = self.counts.differences[partitioner][count] = KeyPlacement.empty(
                count, self.layout.replicates
            )
            _add(difference, hashed[differs], current[differs], code, (records, size))
            _add(difference, mixture[differs], current[differs], code, (records, size), sign=-1)

    def _weighted_columns(self, values: Int64s) -> list[Floats]:
        """Return the weighted columns of a placement: one a replicate, then one of what was read whole.

        Each is of rows; together they are the rows' records or bytes of the topic.
        """
        read_whole = np.array(self.layout.read_whole)[self.partition]
        sampled = np.where(read_whole, 0.0, self.weights[self.partition])
        whole = np.where(read_whole, self.weights[self.partition] * values.sum(axis=1), 0.0)
        return [*(values[:, number] * sampled for number in range(self.layout.replicates)), whole]

    def _choose_hot_keys(self, hashed: Int64s) -> None:
        weight, keys = self.weights[self.partition], len(self.keys)
        records = np.bincount(self.code, weights=self.n * weight, minlength=keys)
        size = np.bincount(self.code, weights=self.bytes.sum(axis=1) * weight, minlength=keys)
        chosen = np.union1d(
            _largest_indices(records, HOT_KEYS, hashed), _largest_indices(size, HOT_BY_BYTES, hashed)
        )
        suffixed = self._place_suffixes(chosen.tolist())
        rows_of = np.flatnonzero(np.isin(self.code, chosen))
        for code in chosen.tolist():
            rows = rows_of[self.code[rows_of] == code]
            key = self.keys.key_at(code)
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
                    suffixed[code],
                    takes_suffix(key),
                )
            )
        self.counts.hot = hottest(self.counts.hot, self.weights)

    def _place_suffixes(self, codes: list[int]) -> dict[int, dict[int, Int64s]]:
        """Return `HotKey.suffixed` of keys by their code."""
        short = [code for code in codes if self.keys.lengths[code] <= MAX_SALTED_KEY_BYTES]
        suffixes = [b"", *(suffix(number).encode() for number in range(SUFFIXES))]
        salted = Keys.from_list([key + end for key in map(self.keys.key_at, short) for end in suffixes])
        suffixed: dict[int, dict[int, Int64s]] = {code: {} for code in codes}
        for partitioner in self.counts.differences:
            partitions = hash_by(list(PARTITIONERS)[partitioner], salted) % self.layout.partitions
            for code, own in zip(short, partitions.reshape(-1, len(suffixes)), strict=True):
                suffixed[code][partitioner] = own
        return suffixed


def _add(
    placement: KeyPlacement, hashed: Int64s, current: Int64s, code: Int64s, columns: _Columns, sign: int = 1
) -> None:
    """Add keys to a placement; with the sign -1, take them away.

    Args:
        hashed: What is taken modulo the partition count (keys).
        current: The partition of each key's latest records.
        code: The key of each row.
        columns: The weighted columns of records and of bytes.
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


def _largest_indices(values: npt.NDArray[Any], count: int, hashed: Int64s) -> Int64s:
    """Return the indices of the largest values; of equal ones those with the smallest hash.

    Not the first that arrived: that order differs from run to run.
    """
    if len(values) <= count:
        return np.arange(len(values))
    # A partial sort: of hundreds of thousands of keys, a few dozen are needed.
    smallest = np.partition(values, len(values) - count)[-count]
    larger = np.flatnonzero(values > smallest)
    equal = np.flatnonzero(values == smallest)
    room = count - len(larger)
    return np.concatenate([larger, equal[np.argpartition(hashed[equal], room - 1)[:room]]])


_SHORT_RUN = 200
"""The fewest records of one cell in a row, on average, that are grouped by themselves."""
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
        self._by_cell: dict[int, list[Any]] = defaultdict(list)
        self._mixed: list[Any] = []
        self._limit = _COMPACT_ROWS
        self.rows = 0

    def add_records(self, keys: Any, cells: Int64s, sizes: Any, times: Any) -> None:
        """Add records that are not grouped yet.

        Args:
            keys: Arrow array of the keys (binary, null for none).
            cells: Their partition * replicates + replicate.
            sizes: Bytes of key and value.
            times: Timestamps in milliseconds since 1970.
        """
        import pyarrow as pa

        singles = pa.repeat(pa.scalar(1, pa.int64()), len(keys))
        columns = [keys, pa.array(cells, pa.int64()), singles, sizes, times, times]
        table = pa.Table.from_arrays(columns, schema=_cells_schema())
        edges = np.flatnonzero(np.diff(cells, prepend=-1, append=-1)).tolist()
        if len(edges) * _SHORT_RUN > len(cells):
            self.add(table)
            return
        # Records of one cell follow each other: to group these by key alone takes a quarter of the time.
        for begin, end in pairwise(edges):
            self._by_cell[int(cells[begin])].append(table.slice(begin, end - begin))
        self._count(len(cells))

    def add(self, table: Any) -> None:
        """Add the groups that another one's `table` returned."""
        if table.num_rows:
            self._mixed.append(table)
            self._count(table.num_rows)

    def _count(self, rows: int) -> None:
        self.rows += rows
        if self.rows >= self._limit:
            self.table()
            # As the limit doubles, all grouping together costs about as much as the last one.
            self._limit = max(_COMPACT_ROWS, 2 * self.rows)

    def table(self) -> Any:
        """Return the groups as an Arrow table; a key may have two rows of a cell: `group_cells` adds them."""
        import pyarrow as pa

        schema = _cells_schema()
        for cell, tables in self._by_cell.items():
            table = _compact(tables, ["key"])
            cells = pa.repeat(pa.scalar(cell, pa.int64()), table.num_rows)
            self._by_cell[cell] = [table.add_column(1, schema.field("cell"), cells)]
        self._mixed = [_compact(self._mixed, ["key", "cell"])] if self._mixed else []
        # concat_tables refuses an empty list: the empty table stands for no group.
        table = pa.concat_tables(
            [schema.empty_table(), *itertools.chain(*self._by_cell.values()), *self._mixed]
        )
        self.rows = table.num_rows
        return table


def _compact(tables: list[Any], by: list[str]) -> Any:
    import pyarrow as pa

    # Arrow's threads would change the order of the groups from run to run, and Spark plans one core a task.
    grouped = pa.concat_tables(tables).group_by(by, use_threads=False)
    sums = [("records", "sum"), ("bytes", "sum"), ("first", "min"), ("last", "max")]
    names = [f"{name}_{function}" for name, function in sums]
    table = grouped.aggregate(sums).select([*by, *names])
    return table.rename_columns([*by, *(name for name, _ in sums)])


def _cells_schema() -> Any:
    import pyarrow as pa

    numbers = ("cell", "records", "bytes", "first", "last")
    return pa.schema([("key", pa.binary()), *((name, pa.int64()) for name in numbers)])


def divide_by_key(table: Any, parts: int) -> Iterator[tuple[int, Any]]:
    """Divide cell counts by key into parts; empty parts are left out.

    Args:
        table: A table of `CellCounts`.
        parts: Their number.
    """
    import pyarrow as pa

    if parts == 1:
        yield 0, table
        return
    keys = table.column("key").combine_chunks().dictionary_encode()
    # Mixed, as a partition has only keys with one remainder of this hash.
    spread = murmur2(Keys.from_arrow(keys.dictionary)).astype(np.uint64) * _MIX >> np.uint64(32)
    part_of = (spread % np.uint64(parts)).astype(np.int64)
    # Records without a key have no hash: all of them go to part 0.
    codes = np.asarray(keys.indices.fill_null(-1))
    # Where no record has a key, there is nothing to look up in.
    part = np.where(codes >= 0, part_of[codes], 0) if len(part_of) else np.zeros(len(codes), np.int64)
    order = np.argsort(part, kind="stable")
    edges = np.searchsorted(part[order], np.arange(parts + 1))
    ordered = table.take(pa.array(order))
    for number in range(parts):
        if edges[number + 1] > edges[number]:
            yield number, ordered.slice(edges[number], edges[number + 1] - edges[number])


# 2^64 over the golden ratio: Fibonacci hashing (Knuth, The Art of Computer Programming, section 6.4).
_MIX = np.uint64(0x9E3779B97F4A7C15)


def add_batch(cells: CellCounts, batch: Any, replicates: int) -> None:
    """Add the records of a batch.

    Args:
        cells: The counts to add to.
        batch: An Arrow record batch with the columns `partition` and `replicate` (int32), `key` (binary, null
            for none), `size` (int64, bytes of key and value) and `at` (int64, milliseconds since 1970).
        replicates: The number of replicates.
    """
    partition, replicate = (
        batch.column(name).to_numpy().astype(np.int64) for name in ("partition", "replicate")
    )
    cell = partition * replicates + replicate
    cells.add_records(batch.column("key"), cell, batch.column("size"), batch.column("at"))


def group_cells(table: Any, partitions: int, replicates: int) -> Rows | None:
    """Group cell counts by key and partition; None where there is none.

    Args:
        table: A table of `CellCounts`.
        partitions: The topic's partition count.
        replicates: The number of replicates.
    """
    if not table.num_rows:
        return None
    cell, records, size, first, last = (
        table.column(name).to_numpy().astype(np.int64) for name in table.column_names[1:]
    )
    first_ms = np.full((partitions, replicates), NEVER)
    last_ms = np.full((partitions, replicates), -1, dtype=np.int64)
    # A cell may come several times, of which an assignment by index would keep the last.
    np.minimum.at(first_ms.reshape(-1), cell, first)
    np.maximum.at(last_ms.reshape(-1), cell, last)
    keys = table.column("key").combine_chunks()
    # Records without a key form a group of their own on each partition.
    encoded = keys.dictionary_encode(null_encoding="encode")
    # Key and partition in one number, so that one sort finds the pairs.
    pair = np.asarray(encoded.indices).astype(np.int64) * partitions + cell // replicates
    pairs, first_row, row = np.unique(pair, return_index=True, return_inverse=True)
    count = len(pairs)
    cells = row * replicates + cell % replicates
    earliest, latest = np.full(count, NEVER), np.full(count, -1, dtype=np.int64)
    np.minimum.at(earliest, row, first)
    np.maximum.at(latest, row, last)
    return Rows(
        keys.take(first_row),
        pairs % partitions,
        _sum_cells(cells, records, count, replicates),
        _sum_cells(cells, size, count, replicates),
        earliest,
        latest,
        first_ms,
        last_ms,
    )


def _sum_cells(cell: Int64s, values: npt.NDArray[Any], rows: int, replicates: int) -> Int64s:
    """Sum values by cell (row * replicates + replicate), into rows by replicates."""
    # bincount adds floats, which are exact up to 2 ** 53.
    total = np.bincount(cell, weights=values, minlength=rows * replicates)
    return total.reshape(rows, replicates).astype(np.int64)

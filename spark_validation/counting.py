"""Counting the records of a reducer's keys, in arrays."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_validation.hashing import PARTITIONERS, Int64s, Keys
from spark_validation.tally import (
    HOT_BY_BYTES,
    HOT_KEYS,
    MULTIPLICITIES,
    HotKey,
    Layout,
    Tally,
    hottest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

Bools: TypeAlias = npt.NDArray[np.bool_]

_COMPACT_ROWS = 1_000_000


def count(batches: Iterable[Any], layout: Layout) -> Tally:
    """Count the records of a reducer's keys.

    Args:
        batches: Arrow record batches of `partition` (int32), `slice` (int32), `key` (binary, null for none),
            `size` (int64, bytes of key and value) and `at` (int64, milliseconds since 1970). All records of a
            key are here.
        layout: The topic's.
    """
    tally = Tally.empty(layout)
    table = _grouped(batches, layout.slices)
    if table is None:
        return tally
    _Counting(table, layout, tally).run()
    return tally


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


class _Counting:
    """One pass over the grouped rows of a reducer."""

    def __init__(self, table: Any, layout: Layout, tally: Tally) -> None:
        self.layout = layout
        self.tally = tally
        self.weights = np.array(layout.weights)
        keys = table.column("key").combine_chunks()
        present = np.asarray(keys.is_valid())
        columns = {
            name: table.column(name).to_numpy() for name in ("cell", "records", "bytes", "first", "last")
        }
        self._totals(columns, present)
        encoded = keys.filter(keys.is_valid()).dictionary_encode()
        self.keys = Keys.of_arrow(encoded.dictionary)
        self.code = np.asarray(encoded.indices).astype(np.int64)
        self.cell, self.n, self.size, self.first, self.last = (
            column[present].astype(np.int64) for column in columns.values()
        )
        self.partition = self.cell // layout.slices
        self.slice = self.cell % layout.slices

    def _totals(self, columns: dict[str, Any], present: Bools) -> None:
        tally, shape = self.tally, self.tally.records.shape
        cell = columns["cell"].astype(np.int64)
        tally.records += self._by_cell(cell, columns["records"], shape)
        tally.bytes += self._by_cell(cell, columns["bytes"], shape)
        tally.null_records += self._by_cell(cell[~present], columns["records"][~present], shape)
        tally.null_bytes += self._by_cell(cell[~present], columns["bytes"][~present], shape)
        np.minimum.at(tally.first_ms.reshape(-1), cell, columns["first"])
        np.maximum.at(tally.last_ms.reshape(-1), cell, columns["last"])

    @staticmethod
    def _by_cell(cell: Int64s, what: Any, shape: tuple[int, ...]) -> Int64s:
        size = int(np.prod(shape))
        return np.bincount(cell, weights=what, minlength=size).reshape(shape).astype(np.int64)

    def run(self) -> None:
        if not len(self.keys):
            return
        hashes = [of(self.keys) for of in PARTITIONERS.values()]
        self._multiplicities()
        fits = self._fits(hashes)
        self._earlier(hashes[0], fits[0])
        self._place(hashes, fits)
        self._hot(hashes[0])

    def _multiplicities(self) -> None:
        tally, count = self.tally, len(self.keys)
        records = np.bincount(self.code, weights=self.n, minlength=count).astype(np.int64)
        tally.distinct += count
        tally.multiplicity += np.bincount(np.minimum(records, MULTIPLICITIES) - 1, minlength=MULTIPLICITIES)
        on = np.unique(self.code * self.layout.partitions + self.partition)
        tally.keys += np.bincount(on % self.layout.partitions, minlength=self.layout.partitions)
        shared = np.bincount(on // self.layout.partitions, minlength=count) > 1
        tally.shared_keys += int(shared.sum())
        tally.shared_records += int(records[shared].sum())
        seen = np.unique(self.code * self.layout.slices + self.slice) // self.layout.slices
        tally.incidence += np.bincount(np.bincount(seen, minlength=count) - 1, minlength=self.layout.slices)

    def _fits(self, hashes: list[Int64s]) -> list[Bools]:
        """For each partitioner the rows that lie where it puts them."""
        tally, shape = self.tally, self.tally.records.shape
        fits = [hashed[self.code] % self.layout.partitions == self.partition for hashed in hashes]
        for number, fit in enumerate(fits):
            tally.fits[number] += self._by_cell(self.cell[fit], self.n[fit], shape)
        none = ~np.logical_or.reduce(fits)
        tally.fits_none += self._by_cell(self.cell[none], self.n[none], shape)
        return fits

    def _earlier(self, hashed: Int64s, fit: Bools) -> None:
        tally = self.tally
        row_hash = hashed[self.code]
        for older in range(1, len(tally.earlier) + 1):
            was = row_hash % older == self.partition
            before, after = was & ~fit, fit & ~was
            if before.any():
                tally.earlier[older - 1] += self.n[before].sum()
                tally.earlier_last_ms[older - 1] = max(
                    tally.earlier_last_ms[older - 1], self.last[before].max()
                )
            if after.any():
                tally.later[older - 1] += self.n[after].sum()
                tally.later_first_ms[older - 1] = min(
                    tally.later_first_ms[older - 1], self.first[after].min()
                )

    def _place(self, hashes: list[Int64s], fits: list[Bools]) -> None:
        """Place each key by the partitioner that put it where it lies; by murmur2 if none did."""
        by_time = np.argsort(self.last, kind="stable")
        current = np.zeros(len(self.keys), dtype=np.int64)
        current[self.code[by_time]] = self.partition[by_time]
        chosen = hashes[0].copy()
        unplaced = np.ones(len(self.keys), dtype=bool)
        for hashed, fit in zip(hashes, fits, strict=True):
            here = np.zeros(len(self.keys), dtype=bool)
            here[self.code[fit]] = True
            here &= unplaced
            chosen[here] = hashed[here]
            unplaced &= ~here
        census = np.array(self.layout.census)[self.partition]
        column = np.where(census, self.layout.slices, self.slice)
        weight = self.weights[self.partition]
        columns = self.layout.slices + 1
        for count, placement in self.tally.placements.items():
            to = chosen % count
            moved = to != current
            placement.keys_moved += int(moved.sum())
            cell, size = to[self.code] * columns + column, count * columns
            placement.records += np.bincount(cell, self.n * weight, size).reshape(count, columns)
            placement.bytes += np.bincount(cell, self.size * weight, size).reshape(count, columns)
            rows = moved[self.code]
            placement.records_moved += np.bincount(column[rows], (self.n * weight)[rows], columns)

    def _hot(self, hashed: Int64s) -> None:
        weight = self.weights[self.partition]
        records = np.bincount(self.code, weights=self.n * weight, minlength=len(self.keys))
        size = np.bincount(self.code, weights=self.size * weight, minlength=len(self.keys))
        chosen = np.union1d(_most(records, HOT_KEYS, hashed), _most(size, HOT_BY_BYTES, hashed))
        rows_of = np.flatnonzero(np.isin(self.code, chosen))
        for code in chosen.tolist():
            rows = rows_of[self.code[rows_of] == code]
            shape = self.tally.records.shape
            key = self.keys.at(code)
            self.tally.hot.append(
                HotKey(
                    hashlib.sha256(key).hexdigest(),
                    len(key),
                    key if self.layout.keep_keys else None,
                    self._by_cell(self.cell[rows], self.n[rows], shape),
                    self._by_cell(self.cell[rows], self.size[rows], shape),
                )
            )
        self.tally.hot = hottest(self.tally.hot, self.weights)


def _most(values: npt.NDArray[Any], count: int, hashed: Int64s) -> Int64s:
    """Where the largest values are; of equal ones not the first that arrived, but the smallest hash."""
    if len(values) <= count:
        return np.arange(len(values))
    least = np.partition(values, len(values) - count)[-count]
    above = np.flatnonzero(values > least)
    level = np.flatnonzero(values == least)
    room = count - len(above)
    return np.concatenate([above, level[np.argpartition(hashed[level], room - 1)[:room]]])

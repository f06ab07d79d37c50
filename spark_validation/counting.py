"""Counting the records of a reducer's keys, in arrays."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_validation.hashing import PARTITIONERS, Int64s, Keys
from spark_validation.tally import HOT_BY_BYTES, HOT_KEYS, MULTIPLICITIES, HotKey, Layout, Tally, hottest

if TYPE_CHECKING:
    from spark_validation.rows import Rows

Bools: TypeAlias = npt.NDArray[np.bool_]


def count(rows: Rows | None, layout: Layout) -> Tally:
    """Count the records of a reducer's keys.

    Args:
        rows: All records of these keys; None where there is none.
        layout: The topic's.
    """
    tally = Tally.empty(layout)
    if rows is not None:
        _Counting(rows, layout, tally).run()
    return tally


class _Counting:
    """One pass over the rows of a reducer; rows without a key are only part of the totals."""

    def __init__(self, rows: Rows, layout: Layout, tally: Tally) -> None:
        self.layout = layout
        self.tally = tally
        self.weights = np.array(layout.weights)
        present = np.asarray(rows.keys.is_valid())
        everything = np.ones(len(present), dtype=bool)
        self.partition, self.records, self.bytes = rows.partition, rows.records, rows.bytes
        tally.records += self._by_partition(self.records, everything)
        tally.bytes += self._by_partition(self.bytes, everything)
        tally.null_records += self._by_partition(self.records, ~present)
        tally.null_bytes += self._by_partition(self.bytes, ~present)
        np.minimum(tally.first_ms, rows.first_ms, out=tally.first_ms)
        np.maximum(tally.last_ms, rows.last_ms, out=tally.last_ms)
        encoded = rows.keys.filter(rows.keys.is_valid()).dictionary_encode()
        self.keys = Keys.of_arrow(encoded.dictionary)
        self.code = np.asarray(encoded.indices).astype(np.int64)
        if not present.all():
            self.partition, self.records, self.bytes = (
                column[present] for column in (self.partition, self.records, self.bytes)
            )
        self.first, self.last = rows.first[present], rows.last[present]
        self.n = self.records.sum(axis=1)

    def _by_partition(self, what: Int64s, chosen: Bools) -> Int64s:
        """The sum of the chosen rows, by partition and slice."""
        shape = self.tally.records.shape
        total = np.empty(shape, dtype=np.int64)
        partition = self.partition[chosen]
        for number in range(shape[1]):
            total[:, number] = np.bincount(partition, what[chosen, number], shape[0])
        return total

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
        tally.keys += np.bincount(self.partition, minlength=self.layout.partitions)
        shared = np.bincount(self.code, minlength=count) > 1
        tally.shared_keys += int(shared.sum())
        tally.shared_records += int(records[shared].sum())
        seen = np.zeros(count, dtype=np.int64)
        for number in range(self.layout.slices):
            here = np.zeros(count, dtype=bool)
            here[self.code[self.records[:, number] > 0]] = True
            seen += here
        tally.incidence += np.bincount(seen - 1, minlength=self.layout.slices)

    def _fits(self, hashes: list[Int64s]) -> list[Bools]:
        """For each partitioner the rows that lie where it puts them."""
        tally = self.tally
        fits = [hashed[self.code] % self.layout.partitions == self.partition for hashed in hashes]
        for number, fit in enumerate(fits):
            tally.fits[number] += self._by_partition(self.records, fit)
        tally.fits_none += self._by_partition(self.records, ~np.logical_or.reduce(fits))
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
        records, size = self._columns(self.records), self._columns(self.bytes)
        for count, placement in self.tally.placements.items():
            to = chosen % count
            moved = to != current
            placement.keys_moved += int(moved.sum())
            of_row, leaving = to[self.code], moved[self.code]
            for number, (n, b) in enumerate(zip(records, size, strict=True)):
                placement.records[:, number] += np.bincount(of_row, n, count)
                placement.bytes[:, number] += np.bincount(of_row, b, count)
                placement.records_moved[number] += n[leaving].sum()

    def _columns(self, what: Int64s) -> list[npt.NDArray[np.float64]]:
        """The weighted columns of a placement: a replicate each, and then what was read whole."""
        census = np.array(self.layout.census)[self.partition]
        sampled = np.where(census, 0.0, self.weights[self.partition])
        whole = np.where(census, self.weights[self.partition] * what.sum(axis=1), 0.0)
        return [*(what[:, number] * sampled for number in range(self.layout.slices)), whole]

    def _hot(self, hashed: Int64s) -> None:
        weight, keys = self.weights[self.partition], len(self.keys)
        records = np.bincount(self.code, weights=self.n * weight, minlength=keys)
        size = np.bincount(self.code, weights=self.bytes.sum(axis=1) * weight, minlength=keys)
        chosen = np.union1d(_most(records, HOT_KEYS, hashed), _most(size, HOT_BY_BYTES, hashed))
        rows_of = np.flatnonzero(np.isin(self.code, chosen))
        for code in chosen.tolist():
            rows = rows_of[self.code[rows_of] == code]
            key = self.keys.at(code)
            by_records, by_bytes = np.zeros((2, *self.tally.records.shape), dtype=np.int64)
            by_records[self.partition[rows]] = self.records[rows]
            by_bytes[self.partition[rows]] = self.bytes[rows]
            self.tally.hot.append(
                HotKey(
                    hashlib.sha256(key).hexdigest(),
                    len(key),
                    key if self.layout.keep_keys else None,
                    by_records,
                    by_bytes,
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

"""Records as the counting sees them, and the same counts made slowly, one record after another."""

import hashlib
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from spark_validation import counting
from spark_validation.hashing import PARTITIONERS, Int64s, Keys, hash_all, mix_hashes
from spark_validation.key_counts import (
    HOT_BY_BYTES,
    MISFIT_COLUMNS,
    MISFITS,
    MULTIPLICITIES,
    SUFFIXES,
    CountsLayout,
    HotKey,
    KeyCounts,
    KeyPlacement,
    takes_suffix,
)

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("replicate", pa.int32()),
        ("key", pa.binary()),
        ("size", pa.int64()),
        ("at", pa.int64()),
    ]
)


class Record(NamedTuple):
    """One record that was read."""

    partition: int
    replicate: int
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


def count(batches: Iterable[Any], layout: CountsLayout) -> KeyCounts:
    """Return the counts of Arrow batches of records."""
    cells = counting.CellCounts()
    for batch in batches:
        counting.add_batch(cells, batch, layout.replicates)
    rows = counting.group_cells(cells.table(), layout.partitions, layout.replicates)
    return counting.count_rows(rows, layout)


def hashes(key: bytes) -> list[int]:
    """Return the number that each partitioner takes modulo the partition count."""
    return [int(of(Keys.from_list([key]))[0]) for of in PARTITIONERS.values()]


def tally_records(records: Iterable[Record], layout: CountsLayout) -> KeyCounts:
    """Count as the documentation of `counting.count` describes it."""
    counts = KeyCounts.empty(layout)
    of_key: dict[bytes, list[Record]] = defaultdict(list)
    for record in records:
        cell = record.partition, record.replicate
        counts.records[cell] += 1
        counts.bytes[cell] += record.size
        counts.first_ms[cell] = min(counts.first_ms[cell], record.at)
        counts.last_ms[cell] = max(counts.last_ms[cell], record.at)
        if record.key is None:
            counts.null_records[cell] += 1
            counts.null_bytes[cell] += record.size
        else:
            of_key[record.key].append(record)
    for key, mine in of_key.items():
        _take_key(counts, layout, key, mine)
    counts.hot.sort(key=lambda hot: (-float(hot.records.sum(axis=1) @ np.array(layout.weights)), hot.digest))
    return counts


def _take_key(counts: KeyCounts, layout: CountsLayout, key: bytes, mine: list[Record]) -> None:
    partitions = Counter(record.partition for record in mine)
    counts.distinct += 1
    counts.shared_keys += len(partitions) > 1
    counts.shared_records += len(mine) if len(partitions) > 1 else 0
    counts.multiplicity[min(len(mine), MULTIPLICITIES) - 1] += 1
    counts.incidence[len({record.replicate for record in mine}) - 1] += 1
    hashed = hashes(key)
    hot = HotKey(
        hashlib.sha256(key).hexdigest(),
        len(key),
        key if layout.keep_keys else None,
        np.zeros_like(counts.records),
        np.zeros_like(counts.records),
        _count_suffixed(layout, key),
        takes_suffix(key),
    )
    counts.hot.append(hot)
    for partition in partitions:
        counts.keys[partition] += 1
        there = [record for record in mine if record.partition == partition]
        counts.squares += [_square(layout, there, 1), _square(layout, there, 0)]
    for record in mine:
        cell = record.partition, record.replicate
        hot.records[cell] += 1
        hot.bytes[cell] += record.size
        fits = [value % layout.partitions == record.partition for value in hashed]
        for number, fit in enumerate(fits):
            counts.fits[(number, *cell)] += fit
        counts.fits_none[cell] += not any(fits)
    found = [*counts.misfits.tolist(), *_misfits(key, partitions, mine, layout)]
    counts.misfits = np.array(sorted(found)[:MISFITS], dtype=np.int64).reshape(-1, len(MISFIT_COLUMNS))
    _place_key(counts, layout, hashed, mine)


def _square(layout: CountsLayout, there: list[Record], each: int) -> float:
    """The square of what a key has on a partition: a pair of windows stands for all such pairs."""
    weight, windows = layout.weights[there[0].partition], layout.replicates
    pair = weight * (weight * windows - 1) / max(1, windows - 1)
    by_window: Counter[int] = Counter()
    for record in there:
        by_window[record.replicate] += each or record.size
    sizes = [*by_window.values()]
    single, both = sum(size**2 for size in sizes), 2 * sum(a * b for a, b in itertools.combinations(sizes, 2))
    return weight * single + pair * both


def _misfits(
    key: bytes, partitions: Iterable[int], mine: list[Record], layout: CountsLayout
) -> Iterator[list[int]]:
    hashed = [int(values[0]) for values in hash_all(Keys.from_list([key]))]
    order = int(mix_hashes([np.array([value], dtype=np.int64) for value in hashed])[0])
    for partition in partitions:
        if any(value % layout.partitions == partition for value in hashes(key)):
            continue
        times = [record.at for record in mine if record.partition == partition]
        yield [order, *hashed, partition, len(times), min(times), max(times)]


def _partitioner(layout: CountsLayout, hashed: list[int], mine: list[Record]) -> int:
    """The first that put the key's latest record where it lies, or an older one; else murmur2."""
    latest = max(mine, key=lambda record: record.at).partition
    return next(
        (
            number
            for places in ({latest}, {record.partition for record in mine})
            for number, value in enumerate(hashed)
            if value % layout.partitions in places
        ),
        0,
    )


def _count_suffixed(layout: CountsLayout, key: bytes) -> dict[int, Int64s]:
    salted = Keys.from_list([key, *(key + f"#{suffix}".encode() for suffix in range(SUFFIXES))])
    return {number: of(salted) % layout.partitions for number, of in enumerate(PARTITIONERS.values())}


def _place_key(counts: KeyCounts, layout: CountsLayout, hashed: list[int], mine: list[Record]) -> None:
    mixture = hashed[_partitioner(layout, hashed, mine)]
    for count, placement in counts.placements.items():
        _place_on(placement, layout, mixture % count, mine)
        for number, difference in counts.differences.items():
            changed = difference.setdefault(count, KeyPlacement.empty(count, layout.replicates))
            _place_on(changed, layout, hashed[number] % count, mine)
            _place_on(changed, layout, mixture % count, mine, sign=-1)


def _place_on(
    placement: KeyPlacement, layout: CountsLayout, to: int, mine: list[Record], sign: int = 1
) -> None:
    current = max(mine, key=lambda record: record.at).partition
    placement.keys_moved += sign * (to != current)
    for record in mine:
        weight = sign * layout.weights[record.partition]
        column = layout.replicates if layout.read_whole[record.partition] else record.replicate
        placement.records[to, column] += weight
        placement.bytes[to, column] += record.size * weight
        placement.records_moved[column] += weight if to != current else 0


def assert_same(one: KeyCounts, other: KeyCounts) -> None:
    """Two tallies hold the same; what is weighted, but for rounding."""
    for field in fields(KeyCounts):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name == "placements":
            assert mine.keys() == theirs.keys()
            for count in mine:
                assert_placed_alike(mine[count], theirs[count])
        elif field.name == "differences":
            assert mine.keys() == theirs.keys()
            for number, count in itertools.product(mine, one.placements):
                name = [*PARTITIONERS][number]
                assert_placed_alike(one.placed_by(count, name), other.placed_by(count, name))
        elif field.name == "hot":
            assert [(h.digest, h.length, h.key, h.is_text) for h in mine] == [
                (h.digest, h.length, h.key, h.is_text) for h in theirs
            ]
            for key, same in zip(mine, theirs, strict=True):
                np.testing.assert_array_equal(key.records, same.records)
                np.testing.assert_array_equal(key.bytes, same.bytes)
                assert key.suffixed.keys() == same.suffixed.keys()
                for number, partitions in key.suffixed.items():
                    np.testing.assert_array_equal(partitions, same.suffixed[number])
        elif field.name == "squares":
            np.testing.assert_allclose(mine, theirs)
        else:
            np.testing.assert_array_equal(mine, theirs, err_msg=field.name)


def assert_placed_alike(one: KeyPlacement, other: KeyPlacement) -> None:
    for name in ("records", "bytes", "records_moved"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-6, err_msg=name)
    assert one.keys_moved == other.keys_moved


def draw_records(number: int, keys: int, layout: CountsLayout, seed: int = 5) -> list[Record]:
    """Records with a key of `keys`, one of ten without; the first key has about a third."""
    place = random.Random(seed)
    return [
        Record(
            place.randrange(layout.partitions),
            place.randrange(layout.replicates),
            None if place.random() < 0.1 else b"k%d" % (place.randrange(keys) * (place.random() > 0.3)),
            place.randrange(500),
            at,
        )
        for at in range(number)
    ]


LAYOUT = CountsLayout(6, 4, (1.0, 2.0, 1.0, 3.5, 2.0, 1.0), (True, False) * 3, (6, 9, 12))


@st.composite
def samples(draw: st.DrawFn) -> tuple[list[Record], CountsLayout]:
    """Records of at most 25 keys, so that all of them are looked at one by one, and of distinct times."""
    partitions, replicates = draw(st.integers(1, 7)), draw(st.integers(1, 5))
    layout = CountsLayout(
        partitions,
        replicates,
        weights=tuple(draw(st.lists(st.floats(1, 50), min_size=partitions, max_size=partitions))),
        read_whole=tuple(draw(st.lists(st.booleans(), min_size=partitions, max_size=partitions))),
        candidates=tuple(draw(st.sets(st.integers(1, 20), max_size=3))),
        keep_keys=draw(st.booleans()),
    )
    keys = draw(st.lists(st.none() | st.binary(max_size=6), min_size=1, max_size=HOT_BY_BYTES))
    drawn = draw(
        st.lists(
            st.tuples(
                st.integers(0, partitions - 1),
                st.integers(0, replicates - 1),
                st.sampled_from(keys),
                st.integers(0, 10**7),
            ),
            max_size=60,
        )
    )
    times = draw(st.permutations(range(len(drawn))))
    return [Record(*remaining, at) for remaining, at in zip(drawn, times, strict=True)], layout

"""The counts of a topic's keys: mergeable, and small however many keys there are.

Each reducer holds all records of its keys, and counts them into one `KeyCounts`; the driver adds these up.
"""

from __future__ import annotations

import io
from collections import defaultdict
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_validation.hashing import HASHES, PARTITIONERS, Int64s, reduce_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# Each candidate costs every reducer a placement of all its keys, in time and in memory.
_MAX_COUNTS = 8
_UP_TO = 4
_LARGE = 1024
"""A partition count above which only multiples are tried."""


def candidate_counts(partitions: int, requested: Sequence[int]) -> tuple[int, ...]:
    """Choose partition counts to place keys on: those requested, the present one, and larger ones for advice.

    These are multiples (a key then moves only to new partitions), and counts with many divisors (consumer
    groups of many sizes then get equal parts), up to four times the present count.

    Raises:
        ValueError: A requested count is below 1.
    """
    for count in requested:
        if count < 1:
            raise ValueError(f"{count} is not a partition count: it must be at least 1")
    if partitions < 1:
        return tuple(sorted({*requested}))
    # 2, 3, 4 and 1.5 times the present count, in the order of preference: only _MAX_COUNTS are kept.
    multiples = [partitions * halves // 2 for halves in (4, 6, 8, 3) if partitions * halves % 2 == 0]
    between = range(partitions + 1, _UP_TO * partitions) if partitions <= _LARGE else ()
    divisible = sorted(between, key=lambda count: (-_count_divisors(count), count))
    chosen = list(dict.fromkeys([partitions, *multiples, *divisible]))[:_MAX_COUNTS]
    return tuple(sorted({*chosen, *requested}))


def _count_divisors(count: int) -> int:
    # Divisors come in pairs, but for the root of a square.
    return sum(2 - (low * low == count) for low in range(1, int(count**0.5) + 1) if count % low == 0)


Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

HOT_KEYS = 50
"""The number of most frequent keys that are examined one by one."""
MULTIPLICITIES = 12
"""The largest number of records of a key for which keys are counted separately."""
MISFITS = 1_000
"""The most keys kept that no partitioner puts where they lie, to try earlier partition counts on them."""
MISFIT_COLUMNS = ("order", *HASHES, "partition", "records", "first_ms", "last_ms")
SUFFIXES = 64
"""The number of suffixes tried with a frequent key: on a dozen partitions they reach every one."""
MAX_SALTED_KEY_BYTES = 1024
"""The most bytes of a key that is tried with suffixes."""
HOT_BY_BYTES = 25
"""The number of keys with the most bytes that are examined, too."""
NEVER = np.iinfo(np.int64).max
"""A timestamp where there is none."""


@dataclass(frozen=True, slots=True)
class CountsLayout:
    """The layout of key counts, which all reducers of one topic share.

    Attributes:
        partitions: The topic's partition count.
        replicates: The number of replicates of the sample.
        weights: The number of records that one that was read stands for (partitions).
        read_whole: For each partition whether it is read whole.
        candidates: Partition counts to place the keys on.
        keep_keys: Whether the bytes of hot keys may leave the reducer.
    """

    partitions: int
    replicates: int
    weights: tuple[float, ...]
    read_whole: tuple[bool, ...]
    candidates: tuple[int, ...] = ()
    keep_keys: bool = False


@dataclass(slots=True, eq=False)
class HotKey:
    """A frequent key and its records.

    Attributes:
        digest: SHA-256 of the key, as hexadecimal text.
        length: Bytes of the key.
        key: The key itself; None unless it may be shown.
        records: Its records in the sample, by partition and replicate.
        bytes: Their keys' and values' bytes, alike.
        suffixed: By the number of each partitioner that may be the topic's, the partition on which it puts
            the key, and then the key with each suffix of `suffix` (1 + SUFFIXES); none for a key of more than
            MAX_SALTED_KEY_BYTES bytes.
        is_text: Whether it takes a suffix (`takes_suffix`).
    """

    digest: str
    length: int
    key: bytes | None
    records: Int64s
    bytes: Int64s
    suffixed: dict[int, Int64s]
    is_text: bool = True

    @property
    def key_hash(self) -> str:
        """The name of the key in reports: the first 12 digits of its hash."""
        return self.digest[:12]

    def mean_size(self, by: str) -> float:
        """Return the mean bytes of its records; 1 by records."""
        return 1.0 if by == "records" else float(self.bytes.sum()) / max(1, int(self.records.sum()))


def estimate_squares(counts: Int64s, weights: Floats) -> Floats:
    """Estimate the squares of totals from a sample of windows (Horvitz and Thompson 1952).

    A window is in the sample with the probability f = 1 / weight, and two are with f² (G - 1) / (G - f), if G
    were read. The square of the weighted count would be far too high where few windows meet a key.

    Args:
        counts: What was counted of each total (totals by replicates).
        weights: The number of records that one that was read stands for (totals).
    """
    replicates = counts.shape[1]
    single = np.einsum("ij,ij->i", counts, counts, dtype=np.float64)
    pairs = counts.sum(axis=1, dtype=np.float64) ** 2 - single
    return np.asarray(weights * (single + pairs * (weights * replicates - 1) / max(1, replicates - 1)))


def suffix(number: int) -> str:
    """Return the text that makes one of a key's salts when it is appended to the key."""
    return f"#{number}"


def takes_suffix(key: bytes) -> bool:
    """Return whether a key is plain text: consumers could not decode a binary key or JSON with a suffix."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return False
    return text.isprintable() and not text.startswith(("{", "[", '"'))


@dataclass(slots=True, eq=False)
class KeyPlacement:
    """The sampled keys placed on another number of partitions.

    All are weighted: they stand for the records of the topic. The last column holds what comes from
    partitions that were read whole, the others hold one replicate each.

    Attributes:
        records: Records by new partition and replicate (count by (replicates + 1)).
        records_moved: Records of keys that change their partition, by replicate (replicates + 1).
        keys_moved: Keys that change their partition, of the keys in the sample.
    """

    records: Floats
    bytes: Floats
    records_moved: Floats
    keys_moved: int

    @classmethod
    def empty(cls, count: int, replicates: int) -> KeyPlacement:
        """Return a placement without keys on so many partitions."""
        records, size = np.zeros((2, count, replicates + 1))
        return cls(records, size, np.zeros(replicates + 1), 0)

    def add(self, other: KeyPlacement) -> None:
        """Add the placement of other keys."""
        self.records += other.records
        self.bytes += other.bytes
        self.records_moved += other.records_moved
        self.keys_moved += other.keys_moved


@dataclass(slots=True, eq=False)
class KeyCounts:
    """The key counts of a sample: of what was read, not of the topic.

    Arrays are of partitions by replicates (int64) unless said otherwise.

    Attributes:
        bytes: Bytes of keys and values.
        null_records: Records without a key.
        first_ms: The earliest timestamp, in milliseconds since 1970; the largest int64 where there is none.
        last_ms: The latest; -1 where there is none.
        keys: Distinct keys in the sample by partition (partitions).
        shared_keys: Keys that lie on more than one partition.
        shared_records: Records of these keys.
        multiplicity: Distinct keys with 1, 2, … records (MULTIPLICITIES; the last counts all that have more):
            the frequency counts f_k of Chao 1984.
        incidence: Distinct keys that are in 1, 2, … replicates (replicates): the incidence
            frequency counts, to which Chao 1987 applies.
        squares: The estimated sums of squares of keys' records, and of their bytes (2).
        fits: For each partitioner of hashing.PARTITIONERS, records with a key that lie where it puts them
            (partitioners by partitions by replicates).
        fits_none: Records with a key that lie where none of them puts them.
        misfits: A random sample of the keys with records where no partitioner puts them, one row for each
            such partition: those that come first in an order that mixes their hashes (MISFITS at most by
            MISFIT_COLUMNS: an order, each of hashing.HASHES, the partition, the
            records there, and their earliest and latest timestamp).
        placements: By candidate: each key placed by the partitioner that put its latest records where they
            lie, or else older ones.
        differences: What to add to these if one partitioner places every key: by its number, and then by
            candidate. None for a partitioner that is not the topic's, and no candidate where no key differs.
        hot: The most frequent keys by records and by bytes, weighted; most records first.
    """

    records: Int64s
    bytes: Int64s
    null_records: Int64s
    null_bytes: Int64s
    first_ms: Int64s
    last_ms: Int64s
    keys: Int64s
    distinct: int
    shared_keys: int
    shared_records: int
    multiplicity: Int64s
    incidence: Int64s
    squares: Floats
    fits: Int64s
    fits_none: Int64s
    misfits: Int64s
    placements: dict[int, KeyPlacement]
    differences: dict[int, dict[int, KeyPlacement]]
    hot: list[HotKey]

    @classmethod
    def empty(cls, layout: CountsLayout) -> KeyCounts:
        """Return the counts of no records."""
        shape = layout.partitions, layout.replicates

        def zeros(*shape: int) -> Int64s:
            return np.zeros(shape, dtype=np.int64)

        return cls(
            records=zeros(*shape),
            bytes=zeros(*shape),
            null_records=zeros(*shape),
            null_bytes=zeros(*shape),
            first_ms=np.full(shape, NEVER),
            last_ms=np.full(shape, -1, dtype=np.int64),
            keys=zeros(layout.partitions),
            distinct=0,
            shared_keys=0,
            shared_records=0,
            multiplicity=zeros(MULTIPLICITIES),
            incidence=zeros(layout.replicates),
            squares=np.zeros(2),
            fits=zeros(len(PARTITIONERS), *shape),
            fits_none=zeros(*shape),
            misfits=zeros(0, len(MISFIT_COLUMNS)),
            placements={count: KeyPlacement.empty(count, layout.replicates) for count in layout.candidates},
            differences={number: {} for number in range(len(PARTITIONERS))},
            hot=[],
        )

    def merge(self, other: KeyCounts, layout: CountsLayout) -> None:
        """Add the counts of another reducer, which has other keys."""
        for field in fields(self):
            value, added = getattr(self, field.name), getattr(other, field.name)
            if field.name == "first_ms":
                np.minimum(value, added, out=value)
            elif field.name == "last_ms":
                np.maximum(value, added, out=value)
            elif field.name == "misfits":
                self.misfits = first_misfits(np.concatenate([value, added]))
            elif field.name not in _NESTED:
                # Even distinct keys add up: all records of a key are in one reducer.
                setattr(self, field.name, value + added)
        for count, placement in self.placements.items():
            placement.add(other.placements[count])
        self.differences = {
            number: own for number, own in self.differences.items() if number in other.differences
        }
        for number, own in self.differences.items():
            for count, difference in other.differences[number].items():
                if count in own:
                    own[count].add(difference)
                else:
                    own[count] = difference
        self.hot = hottest([*self.hot, *other.hot], np.array(layout.weights))

    def placed_by(self, count: int, partitioner: str | None) -> KeyPlacement:
        """Return the keys on a candidate as one partitioner places them all.

        Args:
            partitioner: Its name; None for `placements`, which are returned too where reducers found that it
                is not the topic's.
        """
        mixture = self.placements[count]
        number = -1 if partitioner is None else list(PARTITIONERS).index(partitioner)
        difference = self.differences.get(number, {}).get(count)
        if difference is None:
            return mixture
        # Weights are no integers: a difference to 0 may be a rounding error below it.
        return KeyPlacement(
            (mixture.records + difference.records).clip(0),
            (mixture.bytes + difference.bytes).clip(0),
            (mixture.records_moved + difference.records_moved).clip(0),
            mixture.keys_moved + difference.keys_moved,
        )

    def find_hot(self, key_hash: str | None) -> HotKey | None:
        """Return the frequent key of a name in reports; None if there is none."""
        return next((key for key in self.hot if key.key_hash == key_hash), None)


_NESTED = {"placements", "differences", "hot"}
"""The fields of `KeyCounts` that are no arrays or numbers."""


def first_misfits(rows: Int64s) -> Int64s:
    """Return the rows that come first in their order: the same of all keys, however they were divided."""
    return rows[np.lexsort((rows[:, MISFIT_COLUMNS.index("partition")], rows[:, 0]))[:MISFITS]]


def reduce_misfits(rows: Int64s) -> list[Int64s]:
    """Return for each partitioner what it takes modulo a partition count for each row of misfits."""
    return reduce_all([rows[:, MISFIT_COLUMNS.index(name)].astype(np.uint32) for name in HASHES])


def hottest(keys: list[HotKey], weights: Floats) -> list[HotKey]:
    """Return the keys with the most records, and those with the most bytes; most records first."""
    by_records = [float(key.records.sum(axis=1) @ weights) for key in keys]
    by_bytes = [float(key.bytes.sum(axis=1) @ weights) for key in keys]
    # Equal keys by their digest: reducers end in any order, and results must not depend on it.
    order = sorted(range(len(keys)), key=lambda n: (-by_records[n], keys[n].digest))
    heavy = sorted(range(len(keys)), key=lambda n: (-by_bytes[n], keys[n].digest))[:HOT_BY_BYTES]
    chosen = {*order[:HOT_KEYS], *heavy}
    return [keys[n] for n in order if n in chosen]


def pack(counts: KeyCounts) -> bytes:
    """Return counts as bytes: arrays in NumPy's own format, without pickled objects."""
    arrays: dict[str, Any] = {}
    for field in fields(counts):
        if field.name not in _NESTED:
            arrays[field.name] = np.asarray(getattr(counts, field.name))
    for count, placement in counts.placements.items():
        for field in fields(placement):
            arrays[f"placement/{count}/{field.name}"] = np.asarray(getattr(placement, field.name))
    for number, difference in counts.differences.items():
        # Few keys differ in most topics: most cells are 0.
        values = np.concatenate([np.zeros(0), *(_values(difference[count]) for count in sorted(difference))])
        cells = np.flatnonzero(values)
        arrays[f"difference/{number}"] = np.stack([cells, values[cells]])
    for number, key in enumerate(counts.hot):
        cells = np.flatnonzero(key.records.reshape(-1))
        arrays[f"hot/{number}/digest"] = np.frombuffer(bytes.fromhex(key.digest), np.uint8)
        arrays[f"hot/{number}/cells"] = np.stack(
            [cells, key.records.reshape(-1)[cells], key.bytes.reshape(-1)[cells]]
        )
        arrays[f"hot/{number}/length"] = np.array([key.length, key.key is not None, key.is_text])
        arrays[f"hot/{number}/key"] = np.frombuffer(key.key or b"", np.uint8)
    # One array for all keys: an entry takes more bytes than its content.
    arrays["suffixed"] = np.array(
        [
            [number, partitioner, *partitions]
            for number, key in enumerate(counts.hot)
            for partitioner, partitions in key.suffixed.items()
        ],
        dtype=np.int32,
    ).reshape(-1, 3 + SUFFIXES)
    # Hashes have 32 bits.
    hashes = slice(1, 1 + len(HASHES))
    arrays["misfits"] = np.delete(counts.misfits, hashes, axis=1)
    arrays["misfit_hashes"] = counts.misfits[:, hashes].astype(np.uint32)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def unpack(data: bytes, layout: CountsLayout) -> KeyCounts:
    """Return the counts that `pack` wrote."""
    # To unpickle an object would run what its writer put into it.
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        counts = KeyCounts.empty(layout)
        for field in fields(counts):
            if field.name not in _NESTED:
                value = arrays[field.name]
                setattr(counts, field.name, int(value) if value.ndim == 0 else value)
        counts.misfits = np.insert(
            counts.misfits, [1] * len(HASHES), arrays["misfit_hashes"].astype(np.int64), axis=1
        )
        for count, placement in counts.placements.items():
            for field in fields(placement):
                value = arrays[f"placement/{count}/{field.name}"]
                setattr(placement, field.name, int(value) if value.ndim == 0 else value)
        counts.differences = {
            number: _unpack_difference(arrays[f"difference/{number}"], layout)
            for number in counts.differences
            if f"difference/{number}" in arrays
        }
        counts.hot = list(_unpack_hot_keys(arrays, counts.records.shape))
    return counts


def _values(placement: KeyPlacement) -> Floats:
    """Return all numbers of a placement in one array."""
    return np.concatenate([np.ravel(getattr(placement, field.name)) for field in fields(placement)])


def _unpack_difference(packed: Floats, layout: CountsLayout) -> dict[int, KeyPlacement]:
    cells, nonzero = packed
    if not len(cells):
        return {}
    difference = {count: KeyPlacement.empty(count, layout.replicates) for count in sorted(layout.candidates)}
    values = np.zeros(sum(len(_values(placement)) for placement in difference.values()))
    values[cells.astype(np.int64)] = nonzero
    begin = 0
    for placement in difference.values():
        for array in (placement.records, placement.bytes, placement.records_moved):
            array.reshape(-1)[:] = values[begin : begin + array.size]
            begin += array.size
        placement.keys_moved = int(values[begin])
        begin += 1
    return difference


def _unpack_hot_keys(arrays: Any, shape: tuple[int, ...]) -> Iterator[HotKey]:
    number = 0
    suffixed: defaultdict[int, dict[int, Int64s]] = defaultdict(dict)
    for hot, partitioner, *partitions in arrays["suffixed"].tolist():
        suffixed[hot][partitioner] = np.array(partitions, dtype=np.int64)
    while f"hot/{number}/digest" in arrays:
        cells, records, size = arrays[f"hot/{number}/cells"]
        by_records, by_bytes = np.zeros((2, int(np.prod(shape))), dtype=np.int64)
        by_records[cells], by_bytes[cells] = records, size
        length, shown, is_text = arrays[f"hot/{number}/length"]
        key = arrays[f"hot/{number}/key"].tobytes() if shown else None
        digest = arrays[f"hot/{number}/digest"].tobytes().hex()
        shaped = by_records.reshape(shape), by_bytes.reshape(shape)
        yield HotKey(digest, int(length), key, *shaped, suffixed[number], bool(is_text))
        number += 1

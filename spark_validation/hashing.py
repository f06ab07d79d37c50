"""The hashes by which Kafka's clients choose a partition for a key, over many keys at once.

Each function takes keys as Arrow keeps them: one buffer of bytes, and where each key begins and ends.
Sources: Kafka's `org.apache.kafka.common.utils.Utils.murmur2`; librdkafka's `rd_crc32` (partitioner
`consistent`) and `rd_fnv1a` (partitioner `fnv1a`, which is Sarama's).
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

UInt32s: TypeAlias = npt.NDArray[np.uint32]
Int64s: TypeAlias = npt.NDArray[np.int64]

_M = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)
_CRC_TABLE = np.array([zlib.crc32(bytes([byte])) ^ zlib.crc32(b"\0") for byte in range(256)], dtype=np.uint32)


class Keys:
    """Keys as one buffer of bytes.

    Attributes:
        data: The bytes of all keys.
        starts: Where each key begins in `data`.
        lengths: How many bytes each key has.
    """

    __slots__ = ("data", "lengths", "starts")

    def __init__(self, data: npt.NDArray[np.uint8], starts: Int64s, lengths: Int64s) -> None:
        self.data = data
        self.starts = starts
        self.lengths = lengths

    @classmethod
    def of(cls, keys: list[bytes]) -> Keys:
        """From a list of keys."""
        lengths = np.array([len(key) for key in keys], dtype=np.int64)
        starts = np.concatenate(([0], np.cumsum(lengths)))[:-1].astype(np.int64)
        return cls(np.frombuffer(b"".join(keys), dtype=np.uint8), starts, lengths)

    @classmethod
    def of_arrow(cls, array: Any) -> Keys:
        """From an Arrow array of type binary without nulls; the bytes are not copied."""
        _, offsets_buffer, data_buffer = array.buffers()
        count, first = len(array), array.offset
        offsets = np.frombuffer(offsets_buffer, dtype=np.int32, count=first + count + 1)[first:]
        data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
        ends = offsets.astype(np.int64)
        return cls(data, ends[:-1], np.diff(ends))

    def __len__(self) -> int:
        return len(self.lengths)

    def at(self, index: int) -> bytes:
        """One key."""
        start = int(self.starts[index])
        return self.data[start : start + int(self.lengths[index])].tobytes()

    def steps(self, width: int) -> Iterator[tuple[int, Int64s]]:
        """For each step of `width` bytes: its offset in a key, and the keys that have all of it."""
        longest_first = np.argsort(-self.lengths, kind="stable")
        whole = self.lengths[longest_first] // width
        ascending = whole[::-1]
        for step in range(int(whole[0]) if len(whole) else 0):
            having = len(whole) - int(np.searchsorted(ascending, step + 1))
            yield step * width, longest_first[:having]


def murmur2(keys: Keys) -> UInt32s:
    """Return Kafka's murmur2 of each key, as an unsigned number (keys)."""
    hashes = _SEED ^ keys.lengths.astype(np.uint32)
    for offset, having in keys.steps(4):
        at = keys.starts[having] + offset
        word = keys.data[at].astype(np.uint32)
        for byte in (1, 2, 3):
            word |= keys.data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
        word *= _M
        word ^= word >> np.uint32(24)
        word *= _M
        hashes[having] = hashes[having] * _M ^ word
    rest = keys.lengths % 4
    tail = keys.starts + keys.lengths - rest
    for byte in (2, 1, 0):
        having = np.flatnonzero(rest > byte)
        hashes[having] ^= keys.data[tail[having] + byte].astype(np.uint32) << np.uint32(8 * byte)
    having = np.flatnonzero(rest > 0)
    hashes[having] *= _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes


def crc32(keys: Keys) -> UInt32s:
    """Return the CRC32 (IEEE) of each key, as zlib computes it (keys)."""
    hashes = np.full(len(keys), 0xFFFFFFFF, dtype=np.uint32)
    for offset, having in keys.steps(1):
        register = hashes[having]
        byte = keys.data[keys.starts[having] + offset]
        hashes[having] = _CRC_TABLE[(register ^ byte) & np.uint32(0xFF)] ^ register >> np.uint32(8)
    return ~hashes


def fnv1a(keys: Keys) -> UInt32s:
    """Return the 32-bit FNV-1a of each key (keys)."""
    hashes = np.full(len(keys), 2166136261, dtype=np.uint32)
    for offset, having in keys.steps(1):
        byte = keys.data[keys.starts[having] + offset]
        hashes[having] = (hashes[having] ^ byte) * np.uint32(16777619)
    return hashes


def _positive(hashes: UInt32s) -> Int64s:
    """Cut off the sign bit, as Kafka's `Utils.toPositive` does."""
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64)


def _absolute(hashes: UInt32s) -> Int64s:
    """The absolute value of the signed number."""
    return np.abs(hashes.astype(np.int32).astype(np.int64))


def _keep_unsigned(hashes: UInt32s) -> Int64s:
    return hashes.astype(np.int64)


def mixed(hashes: Sequence[Int64s]) -> Int64s:
    """Mix several hashes of each key into one of 63 bits, whose order says nothing of any of them (keys).

    The finalizer of SplitMix64 (Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*,
    2014).
    """
    state: npt.NDArray[Any] = np.zeros(len(hashes[0]), dtype=np.uint64)
    for hashed in hashes:
        state = (state << np.uint64(32) | state >> np.uint64(32)) ^ hashed.astype(np.uint64)
        state = (state ^ state >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ state >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return (state >> np.uint64(1)).astype(np.int64)


_HASHES: Mapping[str, Callable[[Keys], UInt32s]] = {"murmur2": murmur2, "crc32": crc32, "fnv1a": fnv1a}
_REDUCTIONS: Mapping[str, tuple[str, Callable[[UInt32s], Int64s]]] = {
    "murmur2": ("murmur2", _positive),
    "crc32": ("crc32", _keep_unsigned),
    "fnv1a": ("fnv1a", _absolute),
    "fnv1a_masked": ("fnv1a", _positive),
    "fnv1a_unsigned": ("fnv1a", _keep_unsigned),
}
"""By name, the hash of a partitioner, and how it makes a number of it that is not negative. The first is what
Java clients do; then librdkafka's default, and Sarama's (of librdkafka `fnv1a`, of kafka-go `Hash`). Sarama's
NewReferenceHashPartitioner and kafka-go's ReferenceHash cut off the sign instead, and franz-go's SaramaHasher
takes the hash as unsigned (IBM/sarama partitioner.go, segmentio/kafka-go balancer.go, twmb/franz-go
pkg/kgo/partitioner.go)."""
INDEPENDENT = 3.5
"""So many independent partitioners fit a key by chance as often as these do: the three of FNV-1a put half of
all keys, those whose hash is below 2^31, on the same partition."""


HASHES = tuple(_HASHES)
"""The names of the hashes, of which PARTITIONERS make numbers in their own ways."""


def hash_all(keys: Keys) -> list[UInt32s]:
    """Return each of HASHES of each key (hashes of keys)."""
    return [hash_keys(keys) for hash_keys in _HASHES.values()]


def reduce_all(hashes: Sequence[UInt32s]) -> list[Int64s]:
    """Return for each of PARTITIONERS what it takes modulo the partition count (partitioners of keys).

    Args:
        hashes: Each of HASHES of each key.
    """
    return [reduce(hashes[HASHES.index(name)]) for name, reduce in _REDUCTIONS.values()]


def hash_by(partitioner: str, keys: Keys) -> Int64s:
    """Return what one of PARTITIONERS takes modulo the partition count (keys)."""
    name, reduce = _REDUCTIONS[partitioner]
    return reduce(_HASHES[name](keys))


PARTITIONERS: Mapping[str, Callable[[Keys], Int64s]] = {name: partial(hash_by, name) for name in _REDUCTIONS}
"""The known partitioners by name: what each takes modulo the partition count."""


def are_alike(one: str, other: str) -> bool:
    """Return whether two partitioners have the same hash, and put half of all keys on the same partition."""
    return _REDUCTIONS[one][0] == _REDUCTIONS[other][0]

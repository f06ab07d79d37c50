"""The hashes by which Kafka's clients choose a partition for a key, over many keys at once.

Keys are taken as Arrow keeps them: one buffer of bytes, and where each key begins and ends.
Sources: Kafka's `org.apache.kafka.common.utils.Utils.murmur2`; librdkafka's `rd_crc32` (partitioner
`consistent`) and `rd_fnv1a` (partitioner `fnv1a`, which is Sarama's); the specification of xxHash.
"""

from __future__ import annotations

import zlib
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

UInt32s: TypeAlias = npt.NDArray[np.uint32]
Int64s: TypeAlias = npt.NDArray[np.int64]

# The multiplier of murmur2, and the seed that Kafka uses: clients must agree on both.
_M = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)
# zlib inverts the register at the beginning and at the end; the CRC of zeros alone cancels both.
_CRC_TABLES = [
    np.array(
        [zlib.crc32(bytes([byte]) + b"\0" * zeros) ^ zlib.crc32(b"\0" * (zeros + 1)) for byte in range(256)],
        np.uint32,
    )
    for zeros in range(4)
]
"""The CRC of each byte in an empty register, followed by 0 to 3 zero bytes."""
_XX = np.array([2654435761, 2246822519, 3266489917, 668265263, 374761393], dtype=np.uint32)
"""The five primes of xxHash."""
_XX_LANES = np.array([2654435761 + 2246822519, 2246822519, 0, -2654435761]).astype(np.uint32)
"""The initial values of its four lanes, for the seed 0."""


class Keys:
    """Keys as one buffer of bytes.

    Attributes:
        data: The bytes of all keys.
        starts: Where each key begins in `data`.
        lengths: The bytes of each key.
    """

    __slots__ = ("data", "lengths", "starts")

    def __init__(self, data: npt.NDArray[np.uint8], starts: Int64s, lengths: Int64s) -> None:
        self.data = data
        self.starts = starts
        self.lengths = lengths

    @classmethod
    def from_list(cls, keys: list[bytes]) -> Keys:
        """Make keys from a list."""
        lengths = np.array([len(key) for key in keys], dtype=np.int64)
        starts = np.concatenate(([0], np.cumsum(lengths)))[:-1].astype(np.int64)
        return cls(np.frombuffer(b"".join(keys), dtype=np.uint8), starts, lengths)

    @classmethod
    def from_arrow(cls, array: Any) -> Keys:
        """Make keys from an Arrow array of type binary without nulls; the bytes are not copied."""
        _, offsets_buffer, data_buffer = array.buffers()
        # A slice shares the buffers of the whole array, and begins at its own offset.
        count, first = len(array), array.offset
        offsets = np.frombuffer(offsets_buffer, dtype=np.int32, count=first + count + 1)[first:]
        # Arrow may leave out the buffer where all keys are empty.
        data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
        ends = offsets.astype(np.int64)
        return cls(data, ends[:-1], np.diff(ends))

    def __len__(self) -> int:
        return len(self.lengths)

    def key_at(self, index: int) -> bytes:
        """Return the key at an index."""
        start = int(self.starts[index])
        return self.data[start : start + int(self.lengths[index])].tobytes()

    def blocks(self) -> Iterator[Keys]:
        """Divide the keys into blocks, whose words stay in a processor's cache."""
        for begin in range(0, len(self), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            yield Keys(self.data, self.starts[block], self.lengths[block])


# All hashes of a million keys of 36 bytes take 0.24 s of CPU time in such blocks, and 0.44 s at once.
_BLOCK = 2**16


class _Words:
    """Keys cut into words of four bytes, the longest key first: what all hashes read.

    Attributes:
        order: The keys by length, the longest first.
        lengths: Their lengths, in this order.
        words: For each offset of four bytes, the words of the keys that reach it, little-endian, with zeros
            for the bytes behind the end of a key; and the number of keys that have each of the four bytes.
    """

    __slots__ = ("lengths", "order", "words")

    def __init__(self, keys: Keys) -> None:
        # By length, the keys that reach a word are a slice, and no mask has to be applied.
        self.order = np.argsort(-keys.lengths, kind="stable")
        self.lengths = keys.lengths[self.order]
        self.words: list[tuple[UInt32s, list[int]]] = []
        starts = keys.starts[self.order]
        for offset in range(0, int(self.lengths[0]) if len(keys) else 0, 4):
            longer_counts = [self.count_longer(offset + byte) for byte in range(4)]
            word = np.zeros(longer_counts[0], dtype=np.uint32)
            for byte, count in enumerate(longer_counts):
                word[:count] |= keys.data[starts[:count] + (offset + byte)].astype(np.uint32) << np.uint32(
                    8 * byte
                )
            self.words.append((word, longer_counts))

    def count_longer(self, length: int) -> int:
        """Return the number of keys that have more bytes than this."""
        return len(self.lengths) - int(np.searchsorted(self.lengths[::-1], length, side="right"))

    def restore_order(self, hashes: UInt32s) -> UInt32s:
        """Return hashes in the order of the keys."""
        restored = np.empty_like(hashes)
        restored[self.order] = hashes
        return restored


def _byte(words: UInt32s, number: int) -> UInt32s:
    return words >> np.uint32(8 * number) & np.uint32(0xFF)


def _murmur2(keys: _Words, multiply: Callable[[UInt32s], UInt32s], *, repeats_tail: bool) -> UInt32s:
    """Return murmur2 of each key.

    Args:
        multiply: Multiplies by the constant of murmur2.
        repeats_tail: Whether the last bytes, fewer than four, are taken for a word, too.
    """
    hashes = _SEED ^ keys.lengths.astype(np.uint32)
    for word, longer_counts in keys.words:
        reach, whole = len(word), longer_counts[3]
        taken = reach if repeats_tail else whole
        mixed_word = multiply(word[:taken])
        mixed_word ^= mixed_word >> np.uint32(24)
        hashes[:taken] = multiply(hashes[:taken]) ^ multiply(mixed_word)
        # murmur2 takes the last bytes, fewer than four, without mixing them first.
        hashes[whole:reach] = multiply(hashes[whole:reach] ^ word[whole:])
    hashes ^= hashes >> np.uint32(13)
    hashes = multiply(hashes)
    return hashes ^ hashes >> np.uint32(15)


def _murmur2_of_kafkajs(keys: _Words) -> UInt32s:
    """Return the murmur2 of kafkajs's LegacyPartitioner, which was its default before version 2.

    It multiplies signed numbers as JavaScript does, rounded to 53 bits, and takes the last bytes twice.
    """

    def multiply(values: UInt32s) -> UInt32s:
        # A product in JavaScript is a double, here below 2^63, of which `^` and `>>>` keep the low 32 bits.
        return (values.view(np.int32) * float(_M)).astype(np.int64).astype(np.uint32)

    return _murmur2(keys, multiply, repeats_tail=True)


def _crc32(keys: _Words) -> UInt32s:
    """Return the CRC32 (IEEE) of each key, as zlib computes it: four bytes at a time by four tables.

    Kounavis and Berry, *A Systematic Approach to Building High Performance Software-Based CRC Generators*,
    2005.
    """
    hashes = np.full(len(keys.lengths), 0xFFFFFFFF, dtype=np.uint32)
    for word, longer_counts in keys.words:
        whole = longer_counts[3]
        register = hashes[:whole] ^ word[:whole]
        hashes[:whole] = 0
        # The first byte of a word is followed by three others: it takes the table with three zero bytes.
        for byte, table in enumerate(reversed(_CRC_TABLES)):
            hashes[:whole] ^= table[_byte(register, byte)]
        for byte in range(3):
            partial = slice(whole, longer_counts[byte])
            at = _byte(hashes[partial], 0) ^ _byte(word[partial], byte)
            hashes[partial] = _CRC_TABLES[0][at] ^ hashes[partial] >> np.uint32(8)
    return ~hashes


def _fnv1a(keys: _Words) -> UInt32s:
    """Return the 32-bit FNV-1a of each key."""
    # The offset basis and the prime of 32-bit FNV (Fowler, Noll and Vo).
    hashes = np.full(len(keys.lengths), 2166136261, dtype=np.uint32)
    for word, longer_counts in keys.words:
        for byte, count in enumerate(longer_counts):
            hashes[:count] ^= _byte(word[:count], byte)
            hashes[:count] *= np.uint32(16777619)
    return hashes


def _xxhash32(keys: _Words) -> UInt32s:
    """Return the 32-bit xxHash of each key, with the seed 0: of four words at a time, of words, of bytes."""
    stripes = range(len(keys.words) // 4)
    # Only whole stripes of 16 bytes go through the lanes.
    striped = [keys.count_longer(16 * stripe + 15) for stripe in stripes]
    # Keys of less than a stripe have no lanes: by the specification they begin with seed + prime 5.
    hashes = np.full(len(keys.lengths), _XX[4], dtype=np.uint32)
    if striped:
        lanes = np.repeat(_XX_LANES[:, None], striped[0], axis=1)
        for number, (word, _) in enumerate(keys.words[: 4 * len(striped)]):
            count = striped[number // 4]
            lane = lanes[number % 4, :count]
            lane[:] = _rotate(lane + word[:count] * _XX[1], 13) * _XX[0]
        hashes[: striped[0]] = sum(_rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    hashes += keys.lengths.astype(np.uint32)
    for number, (word, longer_counts) in enumerate(keys.words):
        done = striped[number // 4] if number // 4 < len(striped) else 0
        whole = slice(done, longer_counts[3])
        hashes[whole] = _rotate(hashes[whole] + word[whole] * _XX[2], 17) * _XX[3]
        for byte in range(3):
            partial = slice(longer_counts[3], longer_counts[byte])
            hashes[partial] = _rotate(hashes[partial] + _byte(word[partial], byte) * _XX[4], 11) * _XX[0]
    for shift, multiplier in ((15, _XX[1]), (13, _XX[2])):
        hashes ^= hashes >> np.uint32(shift)
        hashes *= multiplier
    return hashes ^ hashes >> np.uint32(16)


def _rotate(values: UInt32s, by: int) -> UInt32s:
    return values << np.uint32(by) | values >> np.uint32(32 - by)


def _positive(hashes: UInt32s) -> Int64s:
    """Cut off the sign bit, as Kafka's `Utils.toPositive` does."""
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64)


def _absolute(hashes: UInt32s) -> Int64s:
    """Return the absolute value of the signed number."""
    # In 64 bits, as the absolute value of -2^31 has no place in 32.
    return np.abs(hashes.astype(np.int32).astype(np.int64))


def _keep_unsigned(hashes: UInt32s) -> Int64s:
    return hashes.astype(np.int64)


def mix_hashes(hashes: Sequence[Int64s]) -> Int64s:
    """Mix several hashes of each key into one of 63 bits, whose order is independent of each (keys).

    The finalizer of SplitMix64 (Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*,
    2014).
    """
    state: npt.NDArray[Any] = np.zeros(len(hashes[0]), dtype=np.uint64)
    for hashed in hashes:
        state = (state << np.uint64(32) | state >> np.uint64(32)) ^ hashed.astype(np.uint64)
        state = (state ^ state >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ state >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    # The order is kept in a column of int64, and must not be negative.
    return (state >> np.uint64(1)).astype(np.int64)


_HASHES: Mapping[str, Callable[[_Words], UInt32s]] = {
    "murmur2": partial(_murmur2, multiply=lambda values: values * _M, repeats_tail=False),
    "crc32": _crc32,
    "fnv1a": _fnv1a,
    "murmur2_kafkajs": _murmur2_of_kafkajs,
    "xxhash32": _xxhash32,
}
_REDUCTIONS: Mapping[str, tuple[str, Callable[[UInt32s], Int64s]]] = {
    "murmur2": ("murmur2", _positive),
    "crc32": ("crc32", _keep_unsigned),
    "fnv1a": ("fnv1a", _absolute),
    "fnv1a_masked": ("fnv1a", _positive),
    "fnv1a_unsigned": ("fnv1a", _keep_unsigned),
    "murmur2_kafkajs": ("murmur2_kafkajs", _positive),
    "xxhash32": ("xxhash32", _keep_unsigned),
}
"""By name, the hash of a partitioner, and how it makes a number of it that is not negative. The first is what
Java clients do; then librdkafka's default, and Sarama's (of librdkafka `fnv1a`, of kafka-go `Hash`). Sarama's
NewReferenceHashPartitioner and kafka-go's ReferenceHash cut off the sign instead, and franz-go's SaramaHasher
takes the hash as unsigned (IBM/sarama partitioner.go, segmentio/kafka-go balancer.go, twmb/franz-go
pkg/kgo/partitioner.go). The last two are kafkajs's LegacyPartitioner (tulios/kafkajs
src/producer/partitioners/legacy) and the DefaultPartitioner of kafka-rust (kafka-rust/kafka-rust
src/producer.rs)."""

HASHES = tuple(_HASHES)
"""The names of the hashes, which PARTITIONERS reduce to numbers in their own ways."""


def hash_all(keys: Keys) -> list[UInt32s]:
    """Return each of HASHES of each key (hashes of keys)."""
    return _hash(keys, HASHES)


def _hash(keys: Keys, names: Sequence[str]) -> list[UInt32s]:
    blocks = [np.empty((len(names), 0), dtype=np.uint32)]
    for block in keys.blocks():
        words = _Words(block)
        blocks.append(np.stack([words.restore_order(_HASHES[name](words)) for name in names]))
    return list(np.concatenate(blocks, axis=1))


def murmur2(keys: Keys) -> UInt32s:
    """Return Kafka's murmur2 of each key, as an unsigned number (keys)."""
    return _hash(keys, ["murmur2"])[0]


def reduce_all(hashes: Sequence[UInt32s]) -> list[Int64s]:
    """Return for each of PARTITIONERS what it takes modulo the partition count (partitioners of keys).

    Args:
        hashes: Each of HASHES of each key.
    """
    return [reduce(hashes[HASHES.index(name)]) for name, reduce in _REDUCTIONS.values()]


def hash_by(partitioner: str, keys: Keys) -> Int64s:
    """Return what one of PARTITIONERS takes modulo the partition count (keys)."""
    name, reduce = _REDUCTIONS[partitioner]
    return reduce(_hash(keys, [name])[0])


PARTITIONERS: Mapping[str, Callable[[Keys], Int64s]] = {name: partial(hash_by, name) for name in _REDUCTIONS}
"""The known partitioners by name: what each takes modulo the partition count."""


def are_alike(one: str, other: str) -> bool:
    """Return whether two partitioners have the same hash, and put half of all keys on the same partition."""
    return _REDUCTIONS[one][0] == _REDUCTIONS[other][0]


@cache
def chance_of_none(partitions: int) -> float:
    """Return the probability that none of PARTITIONERS puts a key where it lies by chance.

    Different hashes are independent. Those that make numbers of the same one are not: below 2^31 all agree,
    and above it depends on the remainder of the hash. So they are counted, over all remainders.
    """
    remainders = np.arange(partitions, dtype=np.uint32)
    hashes = np.concatenate([remainders, remainders + np.uint32(2**31)])
    probability = 1.0
    for name in HASHES:
        reduced = [
            reduce(hashes) % partitions for hash_name, reduce in _REDUCTIONS.values() if hash_name == name
        ]
        chosen = np.sort(np.stack(reduced), axis=0)
        distinct = 1 + np.count_nonzero(np.diff(chosen, axis=0), axis=0)
        probability *= 1 - float(np.mean(distinct)) / partitions
    return probability

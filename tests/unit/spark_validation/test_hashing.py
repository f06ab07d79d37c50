"""The hashes are those of the clients, bit for bit."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_validation.hashing import (
    HASHES,
    PARTITIONERS,
    Keys,
    UInt32s,
    chance_of_none,
    hash_all,
    murmur2,
    reduce_all,
)
from tests.support.skew.hashing import SMALLEST


def hashes_by(name: str, keys: list[bytes]) -> UInt32s:
    return hash_all(Keys.from_list(keys))[HASHES.index(name)]


def test_smallest_signed_hash_matches_librdkafka() -> None:
    assert hashes_by("fnv1a", [SMALLEST]) == 2**31
    assert PARTITIONERS["fnv1a"](Keys.from_list([SMALLEST])) == 2**31


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_hash_does_not_depend_on_other_keys(keys: list[bytes]) -> None:
    for of in PARTITIONERS.values():
        together = of(Keys.from_list(keys)).tolist()
        assert together == [of(Keys.from_list([key]))[0] for key in keys]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=9)), max_size=20), st.data())
def test_sliced_arrow_array_is_read_with_offset(keys: list[bytes | None], data: st.DataObject) -> None:
    array = pa.array(keys, pa.binary())
    begin = data.draw(st.integers(0, len(keys)))
    end = data.draw(st.integers(begin, len(keys)))
    present = array[begin:end].drop_null()
    expected = [key for key in keys[begin:end] if key is not None]
    found = Keys.from_arrow(present)
    assert [found.key_at(number) for number in range(len(found))] == expected
    assert murmur2(found).tolist() == murmur2(Keys.from_list(expected)).tolist()


def test_bytes_of_an_arrow_array_are_not_copied() -> None:
    array = pa.array([b"one", b"two"], pa.binary())
    data = Keys.from_arrow(array).data
    assert data.ctypes.data == array.buffers()[2].address


VECTORS = json.loads(
    (Path(__file__).parents[2] / "support" / "skew" / "partitioner_vectors.json").read_text()
)


@pytest.mark.parametrize("vector", VECTORS["clients"], ids=lambda vector: vector["client"])
def test_partitions_match_client_vectors(vector: dict[str, Any]) -> None:
    keys = Keys.from_list([bytes.fromhex(key) for key in VECTORS["keys"]])
    hashed = PARTITIONERS[vector["partitioner"]](keys)
    for partitions, placed in zip(VECTORS["counts"], vector["partitions"], strict=True):
        assert (hashed % partitions).tolist() == placed


def test_each_partitioner_has_client_vector() -> None:
    assert {vector["partitioner"] for vector in VECTORS["clients"]} == {*PARTITIONERS}


def test_keys_of_several_blocks_are_hashed_individually() -> None:
    keys = [b"%d" % number for number in range(2**16 + 3)]
    for hashed in hash_all(Keys.from_list(keys)):
        assert len(hashed) == len(keys)
    for name in HASHES:
        assert hashes_by(name, keys)[-3:].tolist() == hashes_by(name, keys[-3:]).tolist()
    assert hashes_by("crc32", keys).tolist() == [zlib.crc32(key) for key in keys]


@pytest.mark.parametrize("partitions", [2, 5, 12, 200])
def test_chance_of_no_matching_partitioner_matches_simulation(partitions: int) -> None:
    """The ways to take FNV-1a agree on half of all keys, and more often where the count is even."""
    keys = Keys.from_list([b"key-%d" % number for number in range(200_000)])
    lies = np.random.default_rng(partitions).integers(0, partitions, len(keys))
    fits = [hashed % partitions == lies for hashed in reduce_all(hash_all(keys))]
    found = 1 - np.logical_or.reduce(fits).mean()
    expected = chance_of_none(partitions)
    assert found == pytest.approx(expected, abs=4 * (expected * (1 - expected) / len(keys)) ** 0.5)

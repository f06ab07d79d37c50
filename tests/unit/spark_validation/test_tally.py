"""Tallies add up."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_validation.hashing import Keys, crc32
from spark_validation.key_counts import HOT_BY_BYTES, HOT_KEYS, MOST_EARLIER, HotKey, Layout, Tally, hottest
from tests.support.skew_records import Record, assert_same, batches, count, is_empty
from tests.unit.spark_validation.test_counting import LAYOUT, drawn, samples


def parted(records: list[Record], parts: int) -> list[list[Record]]:
    """Records by reducer: all of a key, and all without one, in one place."""
    found: list[list[Record]] = [[] for _ in range(parts)]
    for record in records:
        found[int(crc32(Keys.of([record.key or b""]))[0]) % parts].append(record)
    return found


def merged(records: list[Record], layout: Layout, parts: int) -> Tally:
    total = Tally.empty(layout)
    for part in parted(records, parts):
        total.merge(count(batches(part), layout), layout)
    return total


@given(samples(), st.integers(1, 5))
def test_the_counts_of_all_reducers_are_the_counts_of_all_records(
    sample: tuple[list[Record], Layout], parts: int
) -> None:
    records, layout = sample
    assert_same(merged(records, layout, parts), count(batches(records), layout))


def test_it_is_so_for_many_keys_of_which_few_are_kept() -> None:
    # Each key has its own number of records and of bytes, so that it is clear which are kept.
    many = [Record(k % 6, k % 4, b"k%d" % k, k + at, at) for k in range(300) for at in range(k % 97 + 1)]
    records = many + drawn(500, 5, LAYOUT)
    whole, sums = count(batches(records), LAYOUT), merged(records, LAYOUT, 7)
    assert whole.distinct == 300
    assert_weighted_alike(whole, sums)


def assert_weighted_alike(one: Tally, other: Tally) -> None:
    for field in fields(Tally):
        if field.name not in {"placements", "hot"}:
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))
    weights = np.array(LAYOUT.weights)
    for count_of in ("records", "bytes"):
        mine, theirs = (
            sorted(float(getattr(key, count_of).sum(axis=1) @ weights) for key in tally.hot)[-HOT_BY_BYTES:]
            for tally in (one, other)
        )
        np.testing.assert_allclose(mine, theirs)


def test_merging_nothing_changes_nothing() -> None:
    records = drawn(1_000, 30, LAYOUT)
    tally = count(batches(records), LAYOUT)
    tally.merge(Tally.empty(LAYOUT), LAYOUT)
    assert_same(tally, count(batches(records), LAYOUT))


def test_an_empty_tally_is_empty() -> None:
    assert is_empty(Tally.empty(LAYOUT))


def test_earlier_counts_are_not_looked_for_in_topics_of_very_many_partitions() -> None:
    def looked_for(partitions: int) -> int:
        flags = (True,) * partitions
        return len(Tally.empty(Layout(partitions, 4, (1.0,) * partitions, flags)).earlier)

    assert looked_for(MOST_EARLIER) == MOST_EARLIER - 1
    assert looked_for(MOST_EARLIER + 1) == 0
    assert looked_for(1) == 0


def hot(number: int, records: int, size: int) -> HotKey:
    return HotKey(f"{number:064x}", 8, None, np.array([[records]]), np.array([[size]]))


def test_keys_with_most_records_come_first_and_equal_ones_by_digest() -> None:
    keys = [hot(3, 5, 1), hot(2, 9, 1), hot(1, 5, 1)]
    assert [key.digest[-1] for key in hottest(keys, np.array([1.0]))] == ["2", "1", "3"]


def test_so_many_keys_are_kept_and_no_more() -> None:
    keys = [hot(n, 1_000 - n, n) for n in range(500)]
    kept = hottest(keys, np.array([1.0]))
    numbers = [int(key.digest, 16) for key in kept]
    assert numbers == [*range(HOT_KEYS), *range(500 - HOT_BY_BYTES, 500)]

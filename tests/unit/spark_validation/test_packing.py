"""A tally survives the way from a reducer to the driver."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given

from spark_validation.key_counts import Layout, Tally, pack, unpack
from tests.support.skew_records import Record, assert_same, batches, count
from tests.unit.spark_validation.test_counting import samples


@given(samples())
def test_what_is_unpacked_is_what_was_packed(sample: tuple[list[Record], Layout]) -> None:
    records, layout = sample
    tally = count(batches(records), layout)
    assert_same(unpack(pack(tally), layout), tally)


@given(samples())
def test_unpacked_tallies_can_be_merged(sample: tuple[list[Record], Layout]) -> None:
    records, layout = sample
    total = Tally.empty(layout)
    total.merge(unpack(pack(count(batches(records), layout)), layout), layout)
    assert_same(total, count(batches(records), layout))


def test_an_empty_tally_can_be_packed() -> None:
    layout = Layout(3, 4, (1.0,) * 3, (True,) * 3, (6,))
    assert_same(unpack(pack(Tally.empty(layout)), layout), Tally.empty(layout))


def test_an_empty_key_that_may_be_shown_is_not_taken_for_a_hidden_one() -> None:
    records = [Record(0, 0, b"", 1, 1)]
    for shown, key in ((True, b""), (False, None)):
        layout = Layout(1, 1, (1.0,), (True,), keep_keys=shown)
        assert unpack(pack(count(batches(records), layout)), layout).hot[0].key == key


def test_a_pickle_is_not_unpacked() -> None:
    layout = Layout(1, 1, (1.0,), (True,))
    with pytest.raises(ValueError, match="allow_pickle"):
        unpack(pickle.dumps("anything"), layout)


def test_a_topic_of_many_partitions_stays_small() -> None:
    """Of 120 partitions; the driver reads one such a reducer."""
    layout = Layout(120, 16, (1.0,) * 120, (True,) * 120, (120, 240))
    records = [Record(n % 120, n % 16, b"%d" % (n % 400), 100, n) for n in range(20_000)]
    assert len(pack(count(batches(records, 5_000), layout))) < 1_500_000

"""The number of distinct keys of a topic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spark_validation.estimates import distinct_keys
from spark_validation.intervals import Weighting
from spark_validation.results import Estimate
from tests.support.skew_simulation import (
    SimulatedTopic,
    drawn,
    empty,
    few_keys,
    named,
    null_keys,
    produced,
    uniform,
    zipf,
)


def estimate(topic: SimulatedTopic, records: int, seed: int = 0) -> tuple[Estimate, int]:
    tally, plan, _ = drawn(topic, records=records, seed=seed)
    return distinct_keys(tally, Weighting.of(plan)), tally.distinct


def test_a_topic_that_was_read_whole_has_as_many_as_were_counted() -> None:
    topic = zipf(20_000)
    assert estimate(topic, 20_000) == (Estimate.exact(topic.distinct), topic.distinct)


@pytest.mark.parametrize("keys", [1_000, 5_000, 20_000])
def test_keys_that_are_spread_evenly_are_estimated_well(keys: int) -> None:
    topic = uniform(100_000, keys)
    found, seen = estimate(topic, 10_000)
    assert found.value == pytest.approx(topic.distinct, rel=0.15)
    assert seen <= found.low <= found.value <= found.high


def test_few_keys_are_found_to_be_few() -> None:
    found, _ = estimate(few_keys(), 10_000)
    assert found.value == found.low == 10
    assert found.high < 100


def test_keys_of_one_moment_each_may_be_many_more_than_were_seen() -> None:
    """Each is seen often, in one window: counted by records alone, none would be missing."""
    topic = produced(np.repeat(np.arange(10_000), 10), named(10_000), 12)
    found, seen = estimate(topic, 10_000)
    assert seen < 3_000 < found.value
    assert found.low <= 10_000 <= found.high


def test_there_are_no_more_keys_than_records() -> None:
    topic = produced(np.random.default_rng(1).permutation(50_000), named(50_000), 12)
    found, seen = estimate(topic, 5_000)
    assert seen < found.low <= found.value <= found.high <= 50_000
    assert found.high == pytest.approx(50_000, rel=0.01)


def test_records_without_a_key_are_no_key() -> None:
    topic = null_keys(40_000, 10, share=1.0)
    found, seen = estimate(topic, 4_000)
    assert (found.value, found.low, seen) == (0.0, 0.0, 0)


def test_a_sample_of_nobody_knows_what_has_a_finite_interval() -> None:
    tally, plan, _ = drawn(uniform(100_000, 5_000), records=10_000)
    found = distinct_keys(tally, replace(Weighting.of(plan), fraction=0.0))
    assert tally.distinct < found.low < 5_000 < found.high < 20_000


def test_an_empty_topic_has_none() -> None:
    assert estimate(empty(), 100) == (Estimate.exact(0.0), 0)

"""Estimates of partitions, keys and distinct keys."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from spark_validation import estimates
from spark_validation.estimates import estimate_distinct_keys
from spark_validation.intervals import Weighting
from spark_validation.results import Estimate
from spark_validation.windows import plan_windows
from tests.support.skew.simulation import (
    SimulatedTopic,
    build_topic,
    count_sample,
    draw_sample,
    name_keys,
    spans,
    uniform,
)


def test_hottest_key_is_first_with_hash_and_partition() -> None:
    topic = uniform(60_000, hot=0.3)
    counts, plan, _ = draw_sample(topic, records=6_000)
    first, *remaining = estimates.estimate_hot_keys(counts, Weighting.from_plan(plan))
    assert first.key_hash == hashlib.sha256(b"customer-0").hexdigest()[:12]
    assert (first.key_length, first.key) == (10, None)
    assert first.share.low < topic.share(0) < first.share.high
    assert first.partitions == (int(topic.records.argmax()),)
    assert first.slices_seen == plan.replicates
    assert 1.0 <= first.peak < 1.2
    assert len(remaining) == 19
    assert all(first.share.value > key.share.value for key in remaining)


def test_key_text_is_kept_only_on_request() -> None:
    topic = build_topic([0, 1] * 50, ["größe".encode(), b"\xff\x00"], 3)
    plan = plan_windows(spans(topic), records=100, seed=0)
    shown, _ = count_sample(topic, plan, keep_keys=True)
    hidden, _ = count_sample(topic, plan)
    assert {key.key for key in estimates.estimate_hot_keys(shown, Weighting.from_plan(plan))} == {
        "größe",
        "\\xff\x00",
    }
    assert {key.key for key in estimates.estimate_hot_keys(hidden, Weighting.from_plan(plan))} == {None}


# --- the number of distinct keys of a topic ---------------------------------------------------------


def estimate(topic: SimulatedTopic, records: int, seed: int = 0) -> tuple[Estimate, int]:
    counts, plan, _ = draw_sample(topic, records=records, seed=seed)
    return estimate_distinct_keys(counts, Weighting.from_plan(plan)), counts.distinct


def test_number_of_short_lived_keys_exceeds_keys_read() -> None:
    """Each is seen often, in one window: counted by records alone, none would be missing."""
    topic = build_topic(np.repeat(np.arange(10_000), 10), name_keys(10_000), 12)
    found, seen = estimate(topic, 10_000)
    assert seen < 3_000 < found.value
    assert found.low <= 10_000 <= found.high


def test_number_of_keys_does_not_exceed_records() -> None:
    topic = build_topic(np.random.default_rng(1).permutation(50_000), name_keys(50_000), 12)
    found, seen = estimate(topic, 5_000)
    assert seen < found.low <= found.value <= found.high <= 50_000
    assert found.high == pytest.approx(50_000, rel=0.01)


def test_zero_fraction_sample_has_finite_interval() -> None:
    counts, plan, _ = draw_sample(uniform(100_000, 5_000), records=10_000)
    found = estimate_distinct_keys(counts, replace(Weighting.from_plan(plan), fraction=0.0))
    assert counts.distinct < found.low < 5_000 < found.high < 20_000

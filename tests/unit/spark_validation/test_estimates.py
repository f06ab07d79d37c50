"""Estimates of keys, and predictions of other partition counts against the same records on these."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from spark_validation import estimates
from spark_validation.estimates import estimate_distinct_keys
from spark_validation.intervals import Weighting
from spark_validation.predictions import what_if
from spark_validation.results import Estimate
from spark_validation.windows import plan_windows
from tests.support.skew.analysis import FULL, analyse_topic, place_by_prefix
from tests.support.skew.simulation import (
    NULL,
    SimulatedTopic,
    build_topic,
    count_sample,
    draw_sample,
    hash_keys,
    name_keys,
    place_records,
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


RECORDS = 100_000
KEYS = 5_000
SAMPLE = 10_000
READ = pytest.mark.parametrize(
    ("records", "seeds"),
    [
        (FULL, range(1)),
        (SAMPLE, range(1)),
        pytest.param(SAMPLE, range(1, 5), marks=pytest.mark.nightly("more samples")),
    ],
    ids=["full", "sample", "more samples"],
)


def test_prediction_with_two_partitioners_keeps_partitioner_of_key() -> None:
    topic = uniform(RECORDS, KEYS, crc32=0.4)
    counts, plan, _ = draw_sample(topic, records=FULL, candidates=(24,))
    assert counts.placed_by(24, "crc32").records.tolist() != counts.placements[24].records.tolist()
    mixture = what_if(24, counts.placements[24], counts, Weighting.from_plan(plan))
    assert analyse_topic(topic).what_if[1] == mixture


def to_one_partition(partitions: int) -> SimulatedTopic:
    """A producer sends 30 % of the records to partition 0 itself; murmur2 places the others."""
    random = np.random.default_rng(0)
    codes = random.integers(0, KEYS, RECORDS)
    at = hash_keys("murmur2", name_keys(KEYS))[codes] % partitions
    return place_records(np.where(random.random(RECORDS) < 0.3, 0, at), codes, name_keys(KEYS), partitions)


def few_batches(partitions: int) -> SimulatedTopic:
    """Of the records 80 % have no key, and go to partitions in 25 long batches."""
    random = np.random.default_rng(3)
    codes = random.integers(0, KEYS, RECORDS)
    codes[random.random(RECORDS) < 0.8] = NULL
    at = hash_keys("murmur2", name_keys(KEYS))[codes] % partitions
    batch = random.integers(0, partitions, 25)[np.arange(RECORDS) * 25 // RECORDS]
    return place_records(np.where(codes == NULL, batch, at), codes, name_keys(KEYS), partitions)


@READ
@pytest.mark.parametrize(
    ("produced_on", "reason"),
    [
        (
            place_by_prefix,
            "% of the records with a key are on partitions that no known partitioner (murmur2, CRC32",
        ),
        (to_one_partition, "% of the records with a key are on partitions that no known partitioner"),
        (few_batches, "cannot be predicted: they differ between partitions"),
    ],
)
def test_invalid_prediction_is_withheld(produced_on: type, reason: str, records: int, seeds: range) -> None:
    topic: SimulatedTopic = produced_on(12)
    counts, plan, _ = draw_sample(topic, records=records, candidates=(24,))
    promised = what_if(24, counts.placements[24], counts, Weighting.from_plan(plan)).max_mean_ratio
    came_out = produced_on(24).ratio()
    # It would have been far off; so it is not given.
    assert came_out > promised.high + 0.5
    for seed in seeds:
        result = analyse_topic(topic, records, seed)
        assert result.what_if == ()
        assert reason in (result.what_if_withheld or "")
        assert not [sentence for sentence in result.advice if "counts tried" in sentence]

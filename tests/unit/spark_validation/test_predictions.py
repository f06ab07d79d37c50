"""Predictions of other partition counts, checked by placing the same records on these."""

import numpy as np
import pytest

from spark_validation.intervals import Weighting
from spark_validation.predictions import what_if
from tests.support.skew.analysis import FULL, analyse_topic, place_by_prefix
from tests.support.skew.simulation import (
    NULL,
    SimulatedTopic,
    draw_sample,
    hash_keys,
    name_keys,
    place_records,
    uniform,
)

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

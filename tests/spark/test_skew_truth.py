"""What is said of a topic against what a plain consumer counts of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from pyspark.sql import SparkSession

from kafkaform.devcluster.cluster import DevCluster
from spark_validation.job import JobSettings
from spark_validation.results import Estimate, TopicResult
from tests.support.skew_producers import (
    PARTITIONS,
    RECORDS,
    Scene,
    consumed,
    create_topic,
    result_of,
    send,
    skewed,
    spans,
)

__all__ = ["skewed"]

pytestmark = pytest.mark.timeout(120, func_only=True)  # not what starts Spark or Kafka

SAMPLE = JobSettings(records=20_000, seed=1, show_keys=True)
OTHER_SAMPLE = JobSettings(records=20_000, seed=2, show_keys=True)
FULL = JobSettings(full=True, show_keys=True, what_if=(24,))

DIAGNOSES = {
    "uniform": "balanced",
    "loaded": "balanced",
    "zipf-0.8": "hot_keys",
    "zipf-1.0": "hot_keys",
    "zipf-1.1": "hot_keys",
    "zipf-1.5": "hot_keys",
    "hot": "hot_keys",
    "empty-key": "hot_keys",
    "few": "few_keys",
    "null": "null_keys",
    "mixed": "mixed_partitioners",
    "repartitioned": "repartitioned",
    "split": "repartitioned",
    "bursty": "bursty",
    "late-5": "bursty",
    "late-2": "bursty",
}
FREQUENT = ("zipf-0.8", "zipf-1.1", "zipf-1.5", "hot", "few", "bursty")
"""Scenes with keys that have far more than their share."""
EVERY_DAY = ("hot", "null", "mixed", "repartitioned", "bursty")
"""Five causes of skew; the other scenes are nightly."""
MORE = pytest.mark.nightly("more scenes than those of EVERY_DAY; unit tests have simulations of all of them")

Analysed: TypeAlias = "Callable[[str, JobSettings], TopicResult]"
OfScene: TypeAlias = "Callable[[str], Scene]"


def some_nightly(names: Iterable[str]) -> list[Any]:
    """Parameters of a test: these scenes, those beyond EVERY_DAY marked as nightly."""
    return [name if name in EVERY_DAY else pytest.param(name, marks=MORE) for name in names]


@pytest.fixture(scope="module")
def analysed(spark: SparkSession, kafka: DevCluster, skewed: OfScene) -> Analysed:
    """The result of a scene, by its name."""
    servers = kafka.bootstrap_servers
    done: dict[tuple[str, JobSettings], TopicResult] = {}

    def of(name: str, settings: JobSettings) -> TopicResult:
        if (name, settings) not in done:
            topic = skewed(name).topic
            done[name, settings] = result_of(
                spark,
                topic,
                spans(servers, topic, PARTITIONS),
                {"bootstrap.servers": servers},
                settings,
            )
        return done[name, settings]

    return of


@pytest.mark.parametrize("settings", [FULL, SAMPLE], ids=["full", "sample"])
@pytest.mark.parametrize("scene", some_nightly(DIAGNOSES))
def test_the_diagnosis_is_the_right_one(analysed: Analysed, scene: str, settings: JobSettings) -> None:
    result = analysed(scene, settings)
    assert result.diagnosis == DIAGNOSES[scene], result.causes
    assert result.sample.mode == ("full" if settings.full else "sample")
    assert result.sample.records == RECORDS if settings.full else 15_000 < result.sample.records < 25_000


@pytest.mark.parametrize("settings", [FULL, SAMPLE], ids=["full", "sample"])
@pytest.mark.parametrize(
    "scene", some_nightly(["uniform", "loaded", "zipf-1.1", "hot", "few", "mixed", "repartitioned"])
)
def test_nothing_is_said_that_is_not_so(analysed: Analysed, scene: str, settings: JobSettings) -> None:
    """These have no bursts, no keys that are missing, and one cause."""
    names = [cause.name for cause in analysed(scene, settings).causes]
    assert names == [DIAGNOSES[scene]]


@pytest.mark.parametrize("scene", some_nightly(DIAGNOSES))
def test_a_full_count_is_that_of_a_consumer_to_the_record(
    analysed: Analysed, skewed: OfScene, scene: str
) -> None:
    result, truth = analysed(scene, FULL), skewed(scene).truth
    for partition in result.partitions:
        number = partition.partition
        assert partition.log_records == partition.sampled_records == truth.records[number]
        assert partition.records == Estimate.exact(truth.records[number])
        assert partition.bytes == Estimate.exact(truth.sizes[number])
        assert partition.null_records == truth.nulls[number]
        assert partition.distinct_keys == sum(1 for at in truth.keys.values() if number in at)
        assert partition.share.value == pytest.approx(truth.records[number] / RECORDS, abs=1e-12)
    assert result.distinct_keys == Estimate.exact(len(truth.keys))
    assert result.null_key_share == Estimate.exact(truth.nulls.total() / RECORDS)
    assert result.by_records.max_mean_ratio.value == pytest.approx(truth.max_mean_ratio)


@pytest.mark.parametrize("scene", some_nightly(DIAGNOSES))
def test_a_full_count_has_the_most_frequent_keys_and_their_counts(
    analysed: Analysed, skewed: OfScene, scene: str
) -> None:
    result, truth = analysed(scene, FULL), skewed(scene).truth
    counts = truth.of_keys
    found = []
    for hot in result.hot_keys:
        assert hot.key is not None
        key = hot.key.encode()
        assert hot.key_hash == hashlib.sha256(key).hexdigest()[:12]
        assert hot.share.low == hot.share.value == hot.share.high
        assert hot.share.value * RECORDS == pytest.approx(counts[key], abs=1e-6)
        assert set(hot.partitions) == set(truth.keys[key])
        found.append(counts[key])
    assert found[:10] == [records for _, records in counts.most_common(10)]


def test_the_shares_of_partitioners_are_those_of_the_producers(analysed: Analysed) -> None:
    """Each wrote half; a twelfth of the other's records lie where it would have put them."""
    # They wrote in turn, 3,000 records at a time: windows see more of the one or of the other.
    for settings, near in ((FULL, 0.005), (SAMPLE, 0.06)):
        shares = analysed("mixed", settings).partitioners
        assert shares["other"] == 0.0
        for name in ("murmur2", "crc32"):
            assert shares[name] == pytest.approx(0.5 + 0.5 / PARTITIONS, abs=near)


@pytest.mark.parametrize("scene", some_nightly(DIAGNOSES))
def test_a_sample_knows_the_records_of_partitions_exactly(
    analysed: Analysed, skewed: OfScene, scene: str
) -> None:
    truth = skewed(scene).truth
    result = analysed(scene, SAMPLE)
    for partition in result.partitions:
        assert partition.records.value == pytest.approx(truth.records[partition.partition])
    assert result.by_records.max_mean_ratio.value == pytest.approx(truth.max_mean_ratio)


@pytest.mark.parametrize(
    "scenes",
    [[name for name in FREQUENT if name in EVERY_DAY], pytest.param(FREQUENT, marks=MORE)],
    ids=["some", "all"],
)
def test_intervals_of_samples_cover_the_truth(
    analysed: Analysed, skewed: OfScene, scenes: Sequence[str]
) -> None:
    """At least nine of ten; how often they do over hundreds of draws is simulated elsewhere."""
    covers = []
    for scene, settings in [*((scene, SAMPLE) for scene in scenes), ("hot", OTHER_SAMPLE)]:
        result, truth = analysed(scene, settings), skewed(scene).truth
        shares = {hot.key: hot.share for hot in result.hot_keys}
        for key, records in truth.of_keys.most_common(3):
            if records < RECORDS / 100:
                continue
            share = shares[key.decode()]
            assert share.high - share.low < 0.2
            covers.append(share.low <= records / RECORDS <= share.high)
        covers.append(result.distinct_keys.low <= len(truth.keys) <= result.distinct_keys.high)
        for partition in result.partitions:
            size = partition.bytes
            covers.append(size.low - 1e-6 <= truth.sizes[partition.partition] <= size.high + 1e-6)
    assert np.mean(covers) >= 0.9


def test_the_hot_key_is_within_its_interval(analysed: Analysed, skewed: OfScene) -> None:
    truth = skewed("hot").truth.of_keys[b"hot"] / RECORDS
    for settings in (SAMPLE, OTHER_SAMPLE):
        hot = analysed("hot", settings).hot_keys[0]
        assert hot.key == "hot"
        assert hot.share.low <= truth <= hot.share.high
        assert hot.share.high - hot.share.low < 0.05


@pytest.mark.parametrize("name", some_nightly(["hot", "zipf-1.1"]))
def test_what_is_foretold_of_more_partitions_is_what_producers_then_do(
    analysed: Analysed, skewed: OfScene, kafka: DevCluster, name: str
) -> None:
    scene = skewed(name)
    more = scene.topic + ".24"
    create_topic(kafka.bootstrap_servers, more, 24)
    send(kafka.bootstrap_servers, more, scene.truth.of_keys.elements())
    then = consumed(kafka.bootstrap_servers, more, 24)
    foretold = {one.partitions: one for one in analysed(name, FULL).what_if}[24]
    assert foretold.max_mean_ratio.value == pytest.approx(max(then.records.values()) * 24 / RECORDS)
    moved = [key for key in then.keys if set(then.keys[key]) != set(scene.truth.keys[key])]
    assert foretold.keys_moved == pytest.approx(len(moved) / len(then.keys))
    assert foretold.records_moved.value == pytest.approx(
        sum(then.keys[key].total() for key in moved) / RECORDS
    )


def test_a_partition_increase_is_dated_and_counted(analysed: Analysed, skewed: OfScene) -> None:
    broken = sum(1 for at in skewed("repartitioned").truth.keys.values() if len(at) > 1)
    cause = analysed("repartitioned", FULL).causes[0]
    assert f"{broken:,} sampled keys" in cause.evidence
    assert "puts them with 6: the partition count was increased" in cause.evidence

"""Analyses of topics are compared with the counts of a plain consumer."""

import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TypeAlias

import pytest
from pyspark.sql import SparkSession

from kafkaform.devcluster.cluster import DevCluster
from spark_validation.errors import SkewError
from spark_validation.job import TopicRequest, run_topics
from spark_validation.options import JobSettings
from spark_validation.results import Estimate, RepartitionFacts, SkewLimits, TopicResult
from tests.support.skew.producers import (
    PARTITIONS,
    RECORDS,
    SPARSE,
    Key,
    Scene,
    consume_truth,
    create_topic,
    make_scenes,
    messages,
    read_spans,
    send,
)

SAMPLE = JobSettings(records=20_000, seed=1, show_keys=True, what_if=(24,))
FULL = JobSettings(full=True, show_keys=True, what_if=(24,))
CAUSES: Mapping[str, tuple[str, ...]] = {
    "uniform": ("balanced",),
    "compacted": ("balanced",),
    "zipf-1.1": ("hot_keys",),
    "hot": ("hot_keys",),
    "late-5": ("bursty", "hot_keys"),
    "null": ("null_keys",),
    "mixed": ("mixed_partitioners",),
    "repartitioned": ("repartitioned",),
    "crc32-split": ("repartitioned", "hot_keys"),
}
"""The causes of each scene, the diagnosis first; simulations have more, with their evidence and advice."""
EACH_SCENE = pytest.mark.parametrize("scene", CAUSES)
FULL_AND_SAMPLE = pytest.mark.parametrize("settings", [FULL, SAMPLE], ids=["full", "sample"])


Analysed: TypeAlias = "Callable[[str, JobSettings], TopicResult]"


@pytest.fixture(scope="module")
def skewed(kafka: DevCluster) -> Iterator[Mapping[str, Scene]]:
    """The scenes by their names."""
    with make_scenes(kafka.bootstrap_servers) as scenes:
        yield scenes


@pytest.fixture(scope="module")
def analysed(spark: SparkSession, kafka: DevCluster, skewed: Mapping[str, Scene]) -> Analysed:
    """The result of a scene, by its name and what is read: one job reads all scenes that are asked for."""
    servers = kafka.bootstrap_servers

    @cache
    def results(settings: JobSettings) -> Mapping[str, TopicResult | SkewError]:
        topics = [scene.topic for scene in skewed.values()]
        requests = [TopicRequest(topic, read_spans(servers, topic), SkewLimits()) for topic in topics]
        return run_topics(spark, requests, {"bootstrap.servers": servers}, settings)

    def get_result(name: str, settings: JobSettings) -> TopicResult:
        result = results(settings)[skewed[name].topic]
        assert isinstance(result, TopicResult), result
        return result

    return get_result


@FULL_AND_SAMPLE
@EACH_SCENE
def test_scene_has_expected_causes(analysed: Analysed, scene: str, settings: JobSettings) -> None:
    result = analysed(scene, settings)
    assert tuple(cause.name for cause in result.causes) == CAUSES[scene]
    assert bool(result.what_if) is (scene != "null")
    assert result.sample.mode == ("full" if settings.full else "sample")
    assert settings.full or 15_000 < result.sample.records < 25_000


@EACH_SCENE
def test_full_count_equals_count_read(analysed: Analysed, skewed: Mapping[str, Scene], scene: str) -> None:
    result, truth = analysed(scene, FULL), skewed[scene].truth
    total = truth.records.total()
    assert result.sample.records == total
    for partition in result.partitions:
        number = partition.partition
        assert partition.log_records == partition.end_offset - partition.start_offset
        assert partition.log_records == truth.records[number] or scene in SPARSE
        assert partition.sampled_records == truth.records[number]
        assert partition.records == Estimate.exact(truth.records[number])
        assert partition.bytes == Estimate.exact(truth.sizes[number])
        assert partition.null_records == truth.nulls[number]
        assert partition.distinct_keys == sum(1 for at in truth.keys.values() if number in at)
        assert partition.share.value == pytest.approx(truth.records[number] / total, abs=1e-12)
    assert result.distinct_keys == Estimate.exact(len(truth.keys))
    assert result.null_key_share == Estimate.exact(truth.nulls.total() / total)
    assert result.by_records.max_mean_ratio.value == pytest.approx(truth.max_mean_ratio)


@EACH_SCENE
def test_full_count_has_most_frequent_keys(
    analysed: Analysed, skewed: Mapping[str, Scene], scene: str
) -> None:
    result, truth = analysed(scene, FULL), skewed[scene].truth
    counts, total = truth.of_keys, truth.records.total()
    keys = {key.decode("utf-8", "backslashreplace"): key for key in counts}
    shown = {}
    for hot in result.hot_keys:
        assert hot.key is not None
        key = keys[hot.key]
        assert hot.key_hash == hashlib.sha256(key).hexdigest()[:12]
        assert hot.share.low == hot.share.value == hot.share.high
        assert hot.share.value * total == pytest.approx(counts[key], abs=1e-6)
        assert set(hot.partitions) == set(truth.keys[key])
        shown[key] = max(hot.share.value, hot.byte_share.value)
    # By the larger of a key's shares of records and of bytes.
    least = min(shown.values())
    assert all(records / total <= least + 1e-9 for key, records in counts.items() if key not in shown)


def test_partitioner_shares_match_producers(analysed: Analysed) -> None:
    """Each wrote half; a twelfth of the other's records lie where it would have put them."""
    # They wrote in turn, 3,000 records at a time: windows see more of the one or of the other.
    for settings, near in ((FULL, 0.005), (SAMPLE, 0.06)):
        shares = analysed("mixed", settings).partitioners
        assert shares["other"] == 0.0
        for name in ("murmur2", "crc32"):
            assert shares[name] == pytest.approx(0.5 + 0.5 / PARTITIONS, abs=near)


@pytest.mark.parametrize("scene", [name for name in CAUSES if name not in SPARSE])
def test_partition_records_are_exact(analysed: Analysed, skewed: Mapping[str, Scene], scene: str) -> None:
    truth = skewed[scene].truth
    result = analysed(scene, SAMPLE)
    for partition in result.partitions:
        assert partition.records.value == pytest.approx(truth.records[partition.partition])
    assert result.by_records.max_mean_ratio.value == pytest.approx(truth.max_mean_ratio)


@pytest.mark.parametrize(
    ("name", "partitioner", "near"),
    [
        ("hot", "murmur2_random", 1e-6),
        ("zipf-1.1", "murmur2_random", 1e-6),
        # A key without a record since the increase may lie where another partitioner puts it, by chance.
        ("repartitioned", "murmur2_random", 0.03),
        ("crc32-split", "consistent", 1e-6),
    ],
)
def test_predicted_partition_counts_match_producers(
    analysed: Analysed,
    skewed: Mapping[str, Scene],
    kafka: DevCluster,
    name: str,
    partitioner: str,
    near: float,
) -> None:
    """The same keys, by the partitioner that is at work now."""
    scene, servers = skewed[name], kafka.bootstrap_servers
    larger_topic = scene.topic + ".24"
    create_topic(servers, larger_topic, 24)
    send(servers, larger_topic, scene.truth.of_keys.elements(), partitioner)
    then = consume_truth(servers, larger_topic, 24)
    ratio, byte_ratio = (max(n.values()) * 24 / n.total() for n in (then.records, then.sizes))
    newest = newest_partitions(servers, scene.topic)
    moved = [key for key in then.keys if newest[key] not in then.keys[key]]
    predicted, sampled = (
        next(case for case in analysed(name, settings).what_if if case.partitions == 24)
        for settings in (FULL, SAMPLE)
    )
    assert predicted.max_mean_ratio.value == pytest.approx(ratio, rel=near)
    assert predicted.byte_max_mean_ratio.value == pytest.approx(byte_ratio, rel=near)
    assert predicted.keys_moved == pytest.approx(len(moved) / len(then.keys), rel=near)
    assert predicted.records_moved.value == pytest.approx(
        sum(then.keys[key].total() for key in moved) / RECORDS, rel=near
    )

    assert sampled.max_mean_ratio.low <= ratio <= sampled.max_mean_ratio.high
    assert sampled.byte_max_mean_ratio.low <= byte_ratio <= sampled.byte_max_mean_ratio.high


def newest_partitions(servers: str, topic: str) -> dict[Key, int | None]:
    """Return the offset of the newest record of each key."""
    times: dict[Key, int] = {}
    found: dict[Key, int | None] = {}
    for message in messages(servers, topic, PARTITIONS):
        key, (_, at) = message.key(), message.timestamp()
        if at >= times.get(key, 0):
            times[key], found[key] = at, message.partition()
    return found


def test_partition_increase_is_found_by_shared_keys(analysed: Analysed, skewed: Mapping[str, Scene]) -> None:
    broken = sum(1 for at in skewed["repartitioned"].truth.keys.values() if len(at) > 1)
    cause = analysed("repartitioned", FULL).causes[0]
    assert isinstance(cause.facts, RepartitionFacts)
    assert cause.facts.shared_keys == broken
    assert [increase.earlier for increase in cause.facts.increases] == [6]


def test_null_key_share_is_near_truth(analysed: Analysed, skewed: Mapping[str, Scene]) -> None:
    """Within twice its interval: producers send other batches in each run, and one of 20 intervals misses."""
    truth = skewed["null"].truth.nulls.total() / RECORDS
    for settings in (SAMPLE, FULL):
        share = analysed("null", settings).null_key_share
        assert 2 * share.low - share.value <= truth <= 2 * share.high - share.value
        assert share.high - share.low < 0.2


@pytest.mark.parametrize(("name", "partitioner"), [("hot", "murmur2_random"), ("crc32-split", "consistent")])
def test_salted_keys_have_promised_ratio(
    analysed: Analysed, skewed: Mapping[str, Scene], kafka: DevCluster, name: str, partitioner: str
) -> None:
    scene, servers = skewed[name], kafka.bootstrap_servers
    result = analysed(name, FULL)
    advice = next(sentence for sentence in result.advice if "suffixes" in sentence)
    promised = re.search(r"the fullest then has ([0-9.]+) times the mean", advice)
    assert promised is not None
    suffixes = {
        digest: itertools.cycle(re.findall(r"#\d+", listed))
        for digest, listed in re.findall(r"([0-9a-f]{12}) into \d+ (?:salts )?\(([^)]*)\)", advice)
    }
    assert len(suffixes) == len(re.findall(r"\binto \d+", advice))

    def salt_key(key: bytes) -> bytes:
        salts = suffixes.get(hashlib.sha256(key).hexdigest()[:12])
        return key + next(salts).encode() if salts else key

    topic = scene.topic + ".salted"
    create_topic(servers, topic, PARTITIONS)
    send(servers, topic, map(salt_key, scene.truth.of_keys.elements()), partitioner)
    then = consume_truth(servers, topic, PARTITIONS)
    assert then.max_mean_ratio == pytest.approx(float(promised[1]), abs=0.006)
    assert then.max_mean_ratio <= 1.5 < scene.truth.max_mean_ratio

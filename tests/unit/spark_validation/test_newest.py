import hashlib
from dataclasses import replace

import numpy as np
import pytest

from spark_validation.analysis import LogFacts
from spark_validation.policy import judge, limits_of
from spark_validation.results import BurstFacts, TopicResult
from tests.support.skew.analysis import FULL, analyse_topic
from tests.support.skew.simulation import (
    NULL,
    START_MS,
    SimulatedTopic,
    build_topic,
    counted_by_offsets,
    hot_over_time,
    name_keys,
    offsets_by_time,
    select_since,
    spread_over,
    uniform,
)

HOUR = 3_600_000
ENDED = hot_over_time(lambda at: np.where(at < 12, 0.3, 0.0), 24)
BEGAN = hot_over_time(lambda at: np.where(at < 20, 0.0, 0.3), 24)
STEADY = hot_over_time(lambda at: np.full(len(at), 0.3), 24)
NEVER = hot_over_time(lambda at: np.zeros(len(at)), 24)
"""A key that has 30 % of the records of 24 hours: for 12 hours, for the last four, always, and never."""


def analyse_newest(topic: SimulatedTopic, records: int = FULL, *, offsets: bool = True) -> TopicResult:
    log = LogFacts(count_between=counted_by_offsets(topic) if offsets else None)
    return analyse_topic(topic, records, log=log)


@pytest.mark.parametrize("topic", [ENDED, BEGAN, STEADY, NEVER])
@pytest.mark.parametrize(("records", "offsets"), [(FULL, True), (FULL, False), (12_000, True)])
def test_newest_part_matches_written_records(topic: SimulatedTopic, records: int, offsets: bool) -> None:
    result = analyse_newest(topic, records, offsets=offsets)
    newest = result.now
    assert newest is not None
    truth = select_since(topic, newest.since_ms)
    # An hour has 2,000 of the records, too few for 12 partitions.
    assert START_MS + 21 * HOUR < newest.since_ms < START_MS + 22 * HOUR
    assert newest.record_ratio.value == pytest.approx(truth.ratio(), rel=1e-9 if offsets else 0.15)
    assert newest.byte_ratio.value == pytest.approx(truth.byte_ratio(), rel=0.15)
    digest = hashlib.sha256(topic.keys[0]).hexdigest()[:12]
    for key in result.hot_keys:
        if key.key_hash == digest:
            assert key.now is not None
            assert key.now.value == pytest.approx(truth.share(0), abs=0.03)


@pytest.mark.parametrize("topic", [uniform(1_000), hot_over_time(lambda at: np.zeros(len(at)), 24, 3_000)])
def test_newest_part_with_few_records_is_not_measured(topic: SimulatedTopic) -> None:
    result = analyse_newest(topic)
    assert result.now is None
    for policy in ({"maxPartitionRatio": 2}, {"maxKeyShare": 0.2}):
        assert judge(result, limits_of({**policy, "of": "now"})).status == "unknown"
        assert judge(result, limits_of(policy)).status == "pass"


NIGHTS = hot_over_time(lambda at: np.where((at % 24 >= 2) & (at % 24 < 4), 0.9, 0.0), 7 * 24)
"""A key that has 90 % of the records from 2 to 4 h of each night of a week."""


@pytest.mark.parametrize("records", [FULL, 8_000])
def test_nightly_hot_key_has_peak_by_offsets(records: int) -> None:
    log = LogFacts(count_between=counted_by_offsets(NIGHTS), offsets_at=offsets_by_time(NIGHTS))
    result = analyse_topic(NIGHTS, records, log=log)
    cause = next(cause for cause in result.causes if cause.name == "bursty")
    assert isinstance(cause.facts, BurstFacts)
    assert cause.facts.key_hash == result.hot_keys[0].key_hash
    assert result.hot_keys[0].peak == pytest.approx(0.9 / NIGHTS.share(0), rel=0.25)
    assert (cause.times, cause.until_ms) == (7, None)
    assert result.shortest_ms is not None
    assert result.shortest_ms < 1.1 * HOUR


@pytest.mark.parametrize(
    "records",
    [
        8_000,
        pytest.param(20_000, marks=pytest.mark.nightly("larger samples")),
        pytest.param(4_000, marks=pytest.mark.nightly("smaller samples")),
    ],
)
def test_sample_with_few_nights_counts_every_night(records: int) -> None:
    """A draw has between 3 and 13 % of its records of the key."""
    log = LogFacts(count_between=counted_by_offsets(NIGHTS), offsets_at=offsets_by_time(NIGHTS))
    for draw in range(6):
        causes = analyse_topic(NIGHTS, records, draw, log=log).causes
        assert max((cause.times, cause.until_ms is None) for cause in causes if cause.times) == (7, True)


@pytest.mark.parametrize("partition", [7, 3])
def test_misleading_times_of_partition_are_not_burst(partition: int) -> None:
    """The clock of the producer of one early record is ahead until shortly before the end."""
    ahead = STEADY.times[partition].copy()
    ahead[2] = STEADY.times[partition][-1] - HOUR // 2
    topic = replace(STEADY, times=tuple(ahead if n == partition else at for n, at in enumerate(STEADY.times)))
    log = LogFacts(count_between=counted_by_offsets(STEADY), offsets_at=offsets_by_time(topic))
    for records in (FULL, 8_000):
        (cause,) = analyse_topic(topic, records, log=log).causes
        assert (cause.name, cause.since_ms, cause.until_ms, cause.times) == ("hot_keys", None, None, None)


HALF = np.arange(48_000) < 24_000


def kinds(began: bool) -> dict[str, tuple[SimulatedTopic, str]]:
    """Topics of which half of the time has a cause, by its kind; and a word of the advice on it."""
    random = np.random.default_rng(0)
    codes, there = random.integers(1, 5_000, 48_000), HALF ^ began
    some = there & (random.random(len(codes)) < 0.3)
    nulls = build_topic(np.where(some, NULL, codes), name_keys(5_000), 12)
    codes[random.random(len(codes)) < 0.02] = 7
    heavy = build_topic(codes, name_keys(5_000), 12, sizes=np.where(there & (codes == 7), 5_000, 200))
    return {
        "null_keys": (spread_over(nulls, 24), "add a key"),
        "hot_keys": (spread_over(heavy, 24), "split key"),
    }


@pytest.mark.parametrize("records", [FULL, 12_000])
@pytest.mark.parametrize("began", [True, False])
@pytest.mark.parametrize("name", ["null_keys", "hot_keys"])
def test_causes_have_times_and_current_advice(name: str, began: bool, records: int) -> None:
    topic, advice = kinds(began)[name]
    result = analyse_newest(topic, records)
    cause = next(cause for cause in result.causes if cause.name == name)
    held, second = (cause.since_ms, cause.until_ms) if began else (cause.until_ms, cause.since_ms)
    assert second is None
    assert held == pytest.approx(START_MS + 12 * HOUR, abs=1.6 * HOUR)
    assert (advice in " ".join(result.advice)) is began

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from spark_validation.analysis import LogFacts
from spark_validation.policy import limits_of, verdict
from spark_validation.results import SkewLimits, TopicResult
from tests.support.skew.analysis import FULL, analysed
from tests.support.skew.simulation import (
    START_MS,
    SimulatedTopic,
    counted_by_offsets,
    hot_over_time,
    uniform,
    written_since,
)

HOUR = 3_600_000
ENDED = hot_over_time(lambda at: np.where(at < 12, 0.3, 0.0), 24)
BEGAN = hot_over_time(lambda at: np.where(at < 20, 0.0, 0.3), 24)
STEADY = hot_over_time(lambda at: np.full(len(at), 0.3), 24)
NEVER = hot_over_time(lambda at: np.zeros(len(at)), 24)
"""A key that has 30 % of the records of 24 hours: for 12 hours, for the last four, always, and never."""


def measured(topic: SimulatedTopic, records: int = FULL, *, offsets: bool = True) -> TopicResult:
    log = LogFacts(count_between=counted_by_offsets(topic) if offsets else None)
    return analysed(topic, records, log=log)


@pytest.mark.parametrize("topic", [ENDED, BEGAN, STEADY, NEVER])
@pytest.mark.parametrize(("records", "offsets"), [(FULL, True), (FULL, False), (12_000, True)])
def test_the_newest_part_has_the_shares_of_what_was_written_then(
    topic: SimulatedTopic, records: int, offsets: bool
) -> None:
    result = measured(topic, records, offsets=offsets)
    newest = result.now
    assert newest is not None
    truth = written_since(topic, newest.since_ms)
    # An hour has 2,000 of the records, too few for 12 partitions.
    assert START_MS + 21 * HOUR < newest.since_ms < START_MS + 22 * HOUR
    assert newest.record_ratio.value == pytest.approx(truth.ratio(), rel=1e-9 if offsets else 0.15)
    assert newest.byte_ratio.value == pytest.approx(truth.byte_ratio(), rel=0.15)
    digest = hashlib.sha256(topic.keys[0]).hexdigest()[:12]
    for key in result.hot_keys:
        if key.key_hash == digest:
            assert key.now is not None
            assert key.now.value == pytest.approx(truth.share(0), abs=0.03)


def test_the_last_hour_is_the_newest_part_where_it_has_enough_records() -> None:
    newest = measured(hot_over_time(lambda at: np.full(len(at), 0.3), 15)).now
    assert newest is not None
    assert newest.since_ms == pytest.approx(START_MS + 14 * HOUR, abs=HOUR / 20)


@pytest.mark.parametrize("topic", [uniform(1_000), hot_over_time(lambda at: np.zeros(len(at)), 24, 3_000)])
def test_a_part_of_too_few_records_is_not_measured(topic: SimulatedTopic) -> None:
    result = measured(topic)
    assert result.now is None
    for policy in ({"maxPartitionRatio": 2}, {"maxKeyShare": 0.2}):
        assert verdict(result, limits_of({**policy, "of": "now"})).status == "unknown"
        assert verdict(result, limits_of(policy)).status == "pass"


@pytest.mark.parametrize(
    ("topic", "period", "now"),
    [(ENDED, "fail", "warn"), (BEGAN, "warn", "fail"), (STEADY, "fail", "fail"), (NEVER, "pass", "pass")],
)
@pytest.mark.parametrize(
    "limits",
    [SkewLimits(max_partition_ratio=1.6), SkewLimits(max_key_share=0.12), SkewLimits(1.6, by="bytes")],
)
def test_a_policy_is_about_the_period_or_about_now_and_says_where_they_disagree(
    topic: SimulatedTopic, period: str, now: str, limits: SkewLimits
) -> None:
    result = measured(topic)
    for of, status in (("period", period), ("now", now)):
        judged = verdict(
            result, SkewLimits(limits.max_partition_ratio, limits.max_key_share, None, limits.by, of)
        )
        assert judged.status == status, judged
        assert any("skew.of" in reason for reason in judged.reasons) is (period != now)

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from spark_validation.advice import advise, salts
from spark_validation.analysis import analyse
from spark_validation.hashing import PARTITIONERS, Keys
from spark_validation.imbalance import expected_ratio, keys_needed, likely_ratio, most_partitions
from spark_validation.results import Estimate, GroupResult, MemberShare, SkewLimits, TopicResult, WhatIf
from tests.support.skew_simulation import (
    SimulatedTopic,
    bursts,
    drawn,
    empty,
    few_keys,
    hot_key,
    mixed_partitioners,
    named,
    null_keys,
    produced,
    repartitioned,
    uniform,
    zipf,
)

KEYS = 10_000


def analysed(topic: SimulatedTopic, limits: SkewLimits | None = None, records: int = 10**9) -> TopicResult:
    count = topic.partitions
    counts, plan, layout = drawn(topic, records=records, candidates=(count, 2 * count, 4 * count))
    mode = "full" if plan.full else "sample"
    return analyse("orders", counts, plan, layout, mode=mode, limits=limits or SkewLimits())


def said(result: TopicResult, about: str) -> str:
    found = [sentence for sentence in result.advice if about in sentence]
    assert len(found) == 1, result.advice
    return found[0]


def ratio_of(keys: list[bytes], shares: list[float], partitions: int) -> float:
    """The ratio when murmur2 places keys of given shares."""
    at = PARTITIONERS["murmur2"](Keys.of(keys)) % partitions
    return float(np.bincount(at, weights=shares, minlength=partitions).max() * partitions / sum(shares))


@pytest.mark.parametrize("make", [uniform, empty])
def test_nothing_is_advised_where_nothing_is_wrong(make: type) -> None:
    assert analysed(make()).advice == ()


@pytest.mark.parametrize(
    ("share", "partitions", "limits", "goal"),
    [
        (0.3, 12, SkewLimits(), 1.5),
        (0.3, 12, SkewLimits(max_partition_ratio=2.0), 2.0),
        (0.15, 24, SkewLimits(max_partition_ratio=1.6, max_key_share=0.02), 1.6),
        (0.5, 6, SkewLimits(max_partition_ratio=1.8), 1.8),
    ],
)
def test_after_splitting_a_key_into_the_salts_advised_the_policy_is_kept(
    share: float, partitions: int, limits: SkewLimits, goal: float
) -> None:
    result = analysed(hot_key(300_000, KEYS, partitions, share=share), limits)
    count = int(re.findall(r"into (\d+) salts", said(result, "split key"))[0])
    rest = list(named(KEYS))[1:]
    reached = []
    for seed in range(40):
        salted = [f"customer-0/{seed}#{number}".encode() for number in range(count)]
        shares = [share / count] * count + [(1 - share) / len(rest)] * len(rest)
        reached.append(ratio_of(salted + rest, shares, partitions))
    assert np.mean(np.array(reached) <= goal) >= 0.9
    assert share / count <= (limits.max_key_share or 1.0)
    # And the advice is no waste: with a third of them the policy would not be kept so often.
    third = max(1, count // 3)
    fewer = [
        ratio_of(
            [f"customer-0/{seed}#{number}".encode() for number in range(third)] + rest,
            [share / third] * third + [(1 - share) / len(rest)] * len(rest),
            partitions,
        )
        for seed in range(40)
    ]
    assert np.mean(np.array(fewer) <= goal) < 0.9 or share / third > (limits.max_key_share or 1.0)


def test_several_frequent_keys_are_split_so_that_the_policy_is_kept() -> None:
    topic = zipf(300_000, KEYS, s=1.3)
    result = analysed(topic, SkewLimits(max_partition_ratio=2.5))
    sentence = said(result, "split key")
    assert "the next " not in sentence
    counts = [int(text) for text in re.findall(r"into (\d+)", sentence)]
    assert len(counts) > 1
    weights = np.arange(1, KEYS + 1) ** -1.3
    shares = list(weights / weights.sum())
    reached = []
    for seed in range(40):
        keys, parts = list(named(KEYS))[len(counts) :], shares[len(counts) :]
        for rank, count in enumerate(counts):
            keys += [f"{seed}/{rank}#{number}".encode() for number in range(count)]
            parts += [shares[rank] / count] * count
        reached.append(ratio_of(keys, parts, 12))
    assert np.mean(np.array(reached) <= 2.5) >= 0.9


def test_salts_that_cannot_suffice_are_not_advised() -> None:
    assert salts([0.1], 2.0, 12, ratio=1.5) is None
    assert salts([0.1], 1.05, 12, ratio=1.5, key_share=0.03) is not None


def test_a_key_above_the_policy_is_split_though_partitions_are_even() -> None:
    topic = hot_key(300_000, KEYS, share=0.01)
    assert analysed(topic).advice == ()
    assert "into 2 salts" in said(analysed(topic, SkewLimits(max_key_share=0.006)), "key share of 0.6 %")


def test_more_partitions_are_no_help_against_one_key() -> None:
    sentence = said(analysed(hot_key(300_000, KEYS)), "More partitions will not help")
    assert "gives it this many times the mean by records: 7.2 on 24 and 14.4 on 48 partitions" in sentence


def test_a_count_that_surely_lowers_the_ratio_is_advised_with_what_it_moves() -> None:
    result = analysed(few_keys(300_000, 40, 9))
    now = result.by_records.max_mean_ratio.value
    better = WhatIf(18, Estimate(1.2, 1.1, 1.3), Estimate.exact(1.2), 0.5, Estimate.exact(0.52))
    worse = replace(better, partitions=36, max_mean_ratio=Estimate(1.6, 1.5, 1.7))
    limits = SkewLimits()
    (sentence,) = (
        one for one in advise(replace(result, what_if=(better, worse)), limits) if "counts tried" in one
    )
    assert (
        f"18 partitions have the lowest ratio by records: 1.20 (1.10 to 1.30) instead of {now:.2f}"
        in sentence
    )
    assert "50 % of the keys move, with 52 % of the records" in sentence
    unsure = replace(better, max_mean_ratio=Estimate(1.2, 1.1, now + 0.1))
    fewer = replace(better, partitions=6)
    for what_if in ((unsure,), (fewer,), (replace(better, max_mean_ratio=Estimate.exact(now - 0.05)),)):
        assert not [one for one in advise(replace(result, what_if=what_if), limits) if "counts tried" in one]


def test_few_keys_are_told_how_many_partitions_they_fill() -> None:
    sentence = said(analysed(few_keys(100_000)), "equally frequent keys stay within a ratio of 1.5")
    assert "10 equally frequent keys stay within a ratio of 1.5 on at most 3 partitions" in sentence
    random = np.random.default_rng(0)

    def mean_ratio(keys: int, partitions: int) -> float:
        return float(
            np.mean(
                [
                    np.bincount(random.integers(0, partitions, keys)).max() * partitions / keys
                    for _ in range(2_000)
                ]
            )
        )

    needed = int(re.findall(r"12 partitions need about (\d+) keys", sentence)[0])
    assert mean_ratio(10, 3) < 1.5 < mean_ratio(10, 4)
    assert mean_ratio(needed, 12) == pytest.approx(1.5, abs=0.03)


def test_null_keys_are_told_both_ways_out() -> None:
    sentence = said(analysed(null_keys(100_000, share=0.5)), "keyed: false")
    assert "add a key to the 50" in sentence


def test_a_second_partitioner_is_told_its_setting() -> None:
    assert "librdkafka" in said(analysed(mixed_partitioners(200_000, KEYS)), "partitioner=murmur2_random")
    only = analysed(mixed_partitioners(200_000, KEYS, share=1.0))
    assert "Keep every producer on the same partitioner" in said(only, "consistent_random")
    ignoring = replace(
        analysed(mixed_partitioners(200_000, KEYS)),
        partitioners={"murmur2": 0.5, "crc32": 0.085, "fnv1a": 0.084, "other": 0.42},
    )
    assert "partitioner.ignore.keys" in advise(ignoring, SkewLimits())[0]


def test_a_partition_increase_is_told_what_it_affects() -> None:
    result = analysed(repartitioned(200_000, KEYS, 12, before=6))
    assert "25" in said(result, "Until retention has removed the records from before the increase")
    # The ratio that old records leave is no reason for more partitions.
    assert not [one for one in result.advice if "counts tried" in one]


def test_a_burst_points_at_its_key() -> None:
    result = analysed(bursts(300_000, KEYS), records=30_000)
    assert result.hot_keys[0].key_hash in said(result, "Check what writes key")


def test_members_beyond_the_effective_parallelism_are_of_no_use() -> None:
    result = analysed(hot_key(300_000, KEYS))
    even = tuple(MemberShare((number,), 1 / 12) for number in range(12))
    group = GroupResult("checkout", "range", (*even, MemberShare((), 0.0)), 1.0)
    skewed = advise(replace(result, groups=(group,)), SkewLimits())
    assert "Group checkout: 1 of its 13 members get no partition of this topic under range." in skewed
    (sentence,) = (one for one in skewed if "members are useful" in one)
    parallelism = result.by_records.effective_parallelism.value
    assert f"only {int(np.ceil(parallelism))} of its 13 members are useful" in sentence
    balanced = analysed(uniform(300_000, KEYS))
    few = replace(group, members=even[:6])
    assert advise(replace(balanced, groups=(few,)), SkewLimits()) == ()


@pytest.mark.parametrize(("keys", "partitions"), [(10, 12), (100, 12), (1_000, 12), (50, 120), (5_000, 3)])
def test_the_fullest_of_equal_keys_is_as_drawn(keys: int, partitions: int) -> None:
    random = np.random.default_rng(1)
    drawn_ratios = [
        np.bincount(random.integers(0, partitions, keys)).max() * partitions / keys for _ in range(3_000)
    ]
    assert expected_ratio(keys, partitions) == pytest.approx(np.mean(drawn_ratios), rel=0.06)
    assert np.mean(np.array(drawn_ratios) <= likely_ratio(keys, partitions)) >= 0.87


def test_the_expected_ratio_falls_with_keys_without_a_jump() -> None:
    ratios = [expected_ratio(keys, 12) for keys in (2, 10, 100, 1_000, 59_000, 61_000, 10**7)]
    assert ratios == sorted(ratios, reverse=True)
    assert expected_ratio(5, 1) == 1.0
    assert most_partitions(keys_needed(12, 1.5), 1.5, 100) == 12


def test_no_advice_shows_a_key() -> None:
    topics = (hot_key(50_000, 500), bursts(50_000, 500), produced([0, 1], [b"customer-1", b"customer-2"], 3))
    for topic in topics:
        assert not [one for one in analysed(topic).advice if "customer-" in one]

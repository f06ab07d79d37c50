"""Tests of the coverage of 95 % intervals: over many samples each, of topics whose truth is known."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import pytest

from spark_validation import estimates, predictions
from spark_validation.analysis import AnalysisContext, analyse
from spark_validation.intervals import Weighting
from spark_validation.key_counts import KeyCounts
from spark_validation.results import Estimate, SkewLimits, TopicResult
from spark_validation.windows import SamplePlan, plan_windows
from tests.support.nightly import select_daily
from tests.support.skew.simulation import (
    NULL,
    SimulatedTopic,
    abort_transactions,
    add_keys_over_time,
    add_sizes,
    build_topic,
    bursts,
    clean_log,
    count_sample,
    draw_sample,
    spans,
    uniform,
    zipf,
)

RECORDS = 120_000
SAMPLE = 12_000
HELD = 0.9
"""How often an interval must hold the truth; nominally it is 0.95."""

DRAWS = (40, pytest.param(200, marks=pytest.mark.nightly("200 samples of each topic")))
SIMULATION = pytest.mark.nightly("40 samples of each topic")

Judged = list[tuple[float, Estimate]]
"""The truth and the estimate, for each draw."""


@pytest.fixture(params=DRAWS)
def draws(request: pytest.FixtureRequest) -> int:
    """Return the number of samples; by day enough for an interval that is wrong to be seen."""
    return int(request.param)


def measure_coverage(judged: Judged) -> float:
    """Return how often the truth is in the interval, but for rounding."""
    return sum(found.low * (1 - 1e-9) <= truth <= found.high * (1 + 1e-9) for truth, found in judged) / len(
        judged
    )


@SIMULATION
@pytest.mark.parametrize("size", [2_000, 12_000, 40_000])
@pytest.mark.parametrize("exponent", [None, 0.8, 1.1])
def test_intervals_of_listed_keys_allow_for_selection(exponent: float | None, size: int) -> None:
    """The keys that look the most frequent are listed: chance has brought some of them there."""
    topic = uniform(RECORDS, 20_000) if exponent is None else zipf(RECORDS, s=exponent)
    codes = {hashlib.sha256(key).hexdigest()[:12]: code for code, key in enumerate(topic.keys)}
    judged: Judged = []
    for seed in range(10):
        counts, plan, _ = draw_sample(topic, records=size, seed=seed)
        for key in estimates.estimate_hot_keys(counts, Weighting.from_plan(plan)):
            if key.share.value < 0.01:
                judged.append((topic.share(codes[key.key_hash]), key.share))
                judged.append((topic.byte_share(codes[key.key_hash]), key.byte_share))
    assert len(judged) > 40
    assert measure_coverage(judged) >= HELD


@dataclass(frozen=True)
class Sampled:
    """A topic of known distribution.

    Attributes:
        widest: How wide intervals may be on average, by what is measured.
        key: The code of a key that is more frequent than the others.
        count: The partition count that is predicted.
    """

    topic: Callable[[], SimulatedTopic]
    widest: Mapping[str, float]
    key: int | None = None
    count: int = 24


TOPICS = {
    "zipf": Sampled(
        lambda: zipf(RECORDS, s=1.1), {"hot key": 0.02, "ratio by bytes": 0.6, "what-if": 0.4}, key=0
    ),
    "bursts": Sampled(lambda: bursts(RECORDS, stretches=10, length=0.015), {"hot key": 0.2}, key=0),
    "keys of one moment each": Sampled(
        lambda: build_topic([n // 6 for n in range(RECORDS)], [b"%d" % n for n in range(20_000)], 12), {}
    ),
    # 60 % of the transactions failed, for a while each time, on one key: its partition has half of the
    # offsets, and a twelfth of the records in stretches far between.
    "aborted": Sampled(
        lambda: abort_transactions(RECORDS, hot=0.01),
        {"ratio": 8.0, "what-if": 6.0, "hot key": 0.1, "distinct keys": 25_000},
        key=0,
    ),
    # 87 % of the offsets are empty: hardly any record in the old half, all of them in the newest part.
    "compacted": Sampled(
        lambda: clean_log(uniform(RECORDS, 8_000, hot=0.02), dirty=0.06),
        {"ratio": 2.6, "what-if": 3.0, "hot key": 0.15, "distinct keys": 14_000},
        key=0,
    ),
    "growing key space": Sampled(
        lambda: add_keys_over_time(RECORDS),
        {"ratio by bytes": 0.25, "what-if": 0.22, "hot key": 0.005, "distinct keys": 50_000},
        key=0,
    ),
    "sticky nulls": Sampled(
        lambda: uniform(RECORDS, null=0.4, sticky_batch=400),
        {"ratio by bytes": 0.27, "what-if": 0.7, "distinct keys": 22_000, "null share": 0.2},
    ),
    "200 partitions": Sampled(
        lambda: uniform(RECORDS, 20_000, 200),
        {"ratio by bytes": 1.2, "what-if": 1.0, "what-if by bytes": 2.1, "distinct keys": 45_000},
        count=400,
    ),
}
EACH_TOPIC = pytest.mark.parametrize("name", select_daily(TOPICS, ["zipf"], "40 samples of each topic"))


def analyse_coverage(topic: SimulatedTopic, plan: SamplePlan, count: int) -> tuple[TopicResult, KeyCounts]:
    counts, layout = count_sample(topic, plan, (count,))
    return analyse("t", counts, plan, layout, AnalysisContext(mode="sample", limits=SkewLimits())), counts


@cache
def sample_draws(name: str, draws: int) -> Mapping[str, Judged]:
    """The estimates of first samples."""
    case, topic = TOPICS[name], add_sizes(TOPICS[name].topic())
    truths = {
        "ratio": topic.ratio(),
        "ratio by bytes": topic.byte_ratio(),
        "what-if": topic.ratio_on(case.count),
        "what-if by bytes": topic.byte_ratio_on(case.count),
        "distinct keys": float(topic.distinct),
        "null share": topic.share(NULL),
    }
    shares = topic.bytes / topic.bytes.sum()
    judged: dict[str, Judged] = defaultdict(list)
    for seed in range(draws):
        plan = plan_windows(spans(topic), records=SAMPLE, seed=seed)
        result, counts = analyse_coverage(topic, plan, case.count)
        weighting = Weighting.from_plan(plan, counts.records)
        what_if = predictions.what_if(case.count, counts.placements[case.count], counts, weighting)
        found = {
            "ratio": result.by_records.max_mean_ratio,
            "ratio by bytes": result.by_bytes.max_mean_ratio,
            "what-if": what_if.max_mean_ratio,
            "what-if by bytes": what_if.byte_max_mean_ratio,
            "distinct keys": result.distinct_keys,
            "null share": result.null_key_share,
        }
        for measure, estimate in found.items():
            judged[measure].append((truths[measure], estimate))
        judged["byte shares"] += [(float(shares[p.partition]), p.byte_share) for p in result.partitions]
        if case.key is not None:
            digest = hashlib.sha256(topic.keys[case.key]).hexdigest()
            # A key that is not among the hot ones has no interval.
            of_key = [key.share for key in result.hot_keys if digest.startswith(key.key_hash)]
            judged["hot key"] += [(topic.share(case.key), share) for share in of_key]
    return judged


@EACH_TOPIC
def test_interval_covers_truth(name: str, draws: int) -> None:
    for measure, judged in sample_draws(name, draws).items():
        assert len(judged) >= draws / 2
        assert measure_coverage(judged) >= HELD, measure


@EACH_TOPIC
def test_interval_is_narrow_enough(name: str, draws: int) -> None:
    judged = sample_draws(name, draws)
    for measure, widest in TOPICS[name].widest.items():
        widths = [found.high - found.low for _, found in judged[measure]]
        assert sum(widths) / len(widths) < widest, measure


@SIMULATION
@pytest.mark.parametrize("size", [2_000, 5_000])
@pytest.mark.parametrize("dirty", [0.02, 0.1])
def test_small_sample_of_even_compacted_log_is_balanced(dirty: float, size: int, draws: int) -> None:
    topic = add_sizes(clean_log(uniform(RECORDS), dirty=dirty))
    diagnoses = [
        analyse_coverage(topic, plan_windows(spans(topic), records=size, seed=seed), 24)[0].diagnosis
        for seed in range(draws)
    ]
    assert diagnoses.count("balanced") >= 0.95 * draws

"""Skew reports as rules and plans meet them, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from kafkaform import rules
from kafkaform.core.model import Desired, FieldValue, Intent
from kafkaform.core.values import replace
from spark_validation.results import (
    Estimate,
    GroupResult,
    HotKeyResult,
    Imbalance,
    MemberShare,
    PartitionResult,
    SampleResult,
    SkewCause,
    SkewReport,
    TopicResult,
    WhatIf,
)
from tests.support.plans.scenes import declare_topic

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MADE = "2026-11-20T11:00:00Z"

SURE = Estimate(2.4, 2.3, 2.5)
"""A ratio that is surely above 2, and surely below 3."""
UNSURE = Estimate(2.1, 1.9, 2.3)
"""A ratio that may be above 2."""
FINE = Estimate(1.2, 1.1, 1.3)


def imbalance(ratio: Estimate) -> Imbalance:
    some = Estimate(0.5, 0.4, 0.6)
    return Imbalance(ratio, some, some, some, some)


def partition(number: int, of: int, *, null_records: int = 0) -> PartitionResult:
    """One of some partitions; the last is the fullest by records, the first by bytes."""
    up, down = Estimate.exact(0.1 + number / of), Estimate.exact(1.0 - number / of)
    whole = Estimate.exact(1000.0)
    return PartitionResult(
        number, 1000, 10_000, 0, 1000, 100, whole, up, whole, down, null_records, distinct_keys=50
    )


def hot(
    digest: str, share: Estimate, byte_share: Estimate | None = None, key: str | None = None
) -> HotKeyResult:
    """A frequent key, whose hash is a digit again and again."""
    return HotKeyResult(digest * 12, 9, key, share, byte_share or share, (1,), 20, 1.5)


def what_if(partitions: int, ratio: Estimate, byte_ratio: Estimate | None = None) -> WhatIf:
    return WhatIf(partitions, ratio, byte_ratio or ratio, 0.482, Estimate(0.61, 0.57, 0.65))


def build_result(
    name: str = "a",
    partitions: int = 3,
    *,
    ratio: Estimate = FINE,
    byte_ratio: Estimate | None = None,
    diagnosis: str = "balanced",
    evidence: str = "the figures that show it.",
    distinct: Estimate | None = None,
    null_share: float = 0.0,
    hot_keys: Sequence[HotKeyResult] = (),
    what_ifs: Sequence[WhatIf] = (),
    advice: Sequence[str] = (),
) -> TopicResult:
    """A topic as an analysis leaves it: before rules have looked at it."""
    sample = SampleResult("sample", 3000, 3000, 90_000, 60, 20, None, 1, None, 0.01, ("compacted",))
    return TopicResult(
        name,
        diagnosis,
        (SkewCause(diagnosis, evidence, 0.9),),
        tuple(advice),
        sample,
        tuple(partition(number, partitions) for number in range(partitions)),
        imbalance(ratio),
        imbalance(byte_ratio or ratio),
        distinct or Estimate(5000.0, 4500.0, 5600.0),
        1800,
        Estimate.exact(null_share),
        {"murmur2": 1.0, "crc32": 0.3, "fnv1a": 0.3, "other": 0.0},
        tuple(hot_keys),
        tuple(what_ifs),
        (GroupResult("g", "range", (MemberShare((0, 1), 0.6), MemberShare((), 0.0)), 2.0),),
    )


def empty(name: str = "a", partitions: int = 3) -> TopicResult:
    nothing = Estimate.exact(0.0)
    return replace(
        build_result(name, partitions, diagnosis="empty"),
        by_records=imbalance(nothing),
        by_bytes=imbalance(nothing),
        distinct_keys=nothing,
        sampled_distinct_keys=0,
        partitioners={},
        groups=(),
    )


def report(*topics: TopicResult, cluster_id: str | None = "memory", created_at: str = MADE) -> SkewReport:
    return SkewReport("0.1.0", cluster_id, None, created_at, topics)


def declare_policy(
    name: str = "a",
    partitions: int = 3,
    *,
    keyed: bool | None = None,
    waivers: Mapping[str, str] | None = None,
    configs: Mapping[str, FieldValue] | None = None,
    **policy: object,
) -> Desired:
    """A topic with a skew policy (by the names of manifests)."""
    topic = declare_topic(name, partitions)
    intent = Intent(keyed=keyed, waivers=waivers or {}, spec={"skew": policy})
    return replace(topic, intent=intent, state={**(topic.state or {}), **(configs or {})})


def scene(topic: Desired | None, *results: TopicResult) -> rules.RuleContext:
    """Build the context of rules."""
    return rules.RuleContext(
        (topic,) if topic is not None else (), skew={result.name: result for result in results}
    )

"""Skew reports as rules and plans meet them: what they judge is given, all else is that of a sample."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from kafkaform import rules
from kafkaform.core.model import Desired, FieldValue, Intent
from kafkaform.core.values import replace
from spark_validation.results import (
    Estimate,
    HotKeyResult,
    Imbalance,
    SkewCause,
    SkewReport,
    TopicResult,
    WhatIf,
)
from tests.support.plans.scenes import declare_topic
from tests.support.skew import samples

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MADE = "2026-11-20T11:00:00Z"

SURE = Estimate(2.4, 2.3, 2.5)
"""A ratio that is surely above 2, and surely below 3."""
UNSURE = Estimate(2.1, 1.9, 2.3)
"""A ratio that may be above 2."""
FINE = Estimate(1.2, 1.1, 1.3)


def imbalance(ratio: Estimate) -> Imbalance:
    return replace(samples.imbalance([0.5, 0.3, 0.2]), max_mean_ratio=ratio)


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
    """A topic before rules have looked at it; its last partition is the fullest, and the first by bytes."""
    made = samples.topic(
        name,
        range(1, partitions + 1),
        diagnosis,
        causes=[SkewCause(diagnosis, evidence, 0.9)],
        advice=advice,
        hot_keys=hot_keys,
        what_if=what_ifs,
    )
    opposite = (partition.share for partition in reversed(made.partitions))
    return replace(
        made,
        partitions=tuple(
            replace(partition, byte_share=share)
            for partition, share in zip(made.partitions, opposite, strict=True)
        ),
        by_records=imbalance(ratio),
        by_bytes=imbalance(byte_ratio or ratio),
        distinct_keys=distinct or Estimate(5000.0, 4500.0, 5600.0),
        sampled_distinct_keys=1800,
        null_key_share=Estimate.exact(null_share),
    )


def empty(name: str = "a", partitions: int = 3) -> TopicResult:
    return samples.empty(name, partitions)


def report(*topics: TopicResult, cluster_id: str | None = "memory", created_at: str = MADE) -> SkewReport:
    made = samples.report(*topics, created_at=created_at)
    return replace(made, cluster_id=cluster_id, cluster_name=None)


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

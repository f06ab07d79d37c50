"""The `skew:` policy of a topic's manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaform.core.model import Intent
    from spark_validation.results import Estimate, Limits, TopicResult

_FIELDS = {
    "maxPartitionRatio": "max_partition_ratio",
    "maxKeyShare": "max_key_share",
    "minDistinctKeys": "min_distinct_keys",
}


def limits_of(intent: Intent) -> Limits | None:
    """The limits that a manifest sets; None where it sets none (`by` alone is no limit)."""
    policy = intent.spec.get("skew")
    if not isinstance(policy, Mapping):
        return None
    from spark_validation.results import Limits  # which few topics need

    limits = {name: policy[field] for field, name in _FIELDS.items() if policy.get(field) is not None}
    return Limits(**limits, by=policy_unit(intent)) if limits else None


def policy_unit(intent: Intent) -> str:
    """What a topic's skew is judged by: `records`, unless its policy says `bytes`."""
    policy = intent.spec.get("skew")
    return str(policy.get("by", "records")) if isinstance(policy, Mapping) else "records"


def ratio_of(result: TopicResult, by: str) -> Estimate:
    """The fullest partition over the mean, by `records` or `bytes`."""
    return (result.by_bytes if by == "bytes" else result.by_records).max_mean_ratio

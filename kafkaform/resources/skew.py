"""The `skew:` policy of a topic, and what a measurement of its records says of a partition increase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.model import Create, Delete, Update
from spark_validation.policy import FIELDS, key_share_of, percent, ratio, ratio_of, share

if TYPE_CHECKING:
    from kafkaform.core.model import Change, Intent
    from spark_validation.results import (
        Estimate,
        SkewLimits,
        TopicResult,
        WhatIf,
    )


def limits_of(intent: Intent) -> SkewLimits | None:
    """The limits that a manifest sets; None where it sets none (`by` alone is no limit)."""
    policy = intent.spec.get("skew")
    if not isinstance(policy, Mapping):
        return None
    from spark_validation.results import SkewLimits  # which few topics need

    limits = {name: policy[field] for field, name in FIELDS.items() if policy.get(field) is not None}
    return SkewLimits(**limits, by=policy_unit(intent)) if limits else None


def policy_unit(intent: Intent) -> str:
    """What a topic's skew is judged by: `records`, unless its policy says `bytes`."""
    policy = intent.spec.get("skew")
    return str(policy.get("by", "records")) if isinstance(policy, Mapping) else "records"


_DIFFERS = 0.05
"""By so much the ratio of the log differs from that of its keys on the present count to be worth saying."""
_HOT_KEYS = "hot_keys"
"""The cause that no partition count mends: a key has one partition."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A partition increase, as predicted.

    Attributes:
        before: The fullest partition over the mean at the present count, as predicted too; as measured in a
            report without that; None if it has neither.
        after: The same at the planned count.
        lies: The same as the log lies, where older records make it differ from `before`; else None.
        keys_moved: The share of the sampled keys that change their partition, 0 to 1; None if the present
            count is another than the measured one.
        records_moved: The share of the records whose key does; None likewise.
        hot_key: The share of the most frequent key where hot keys are a cause of the skew; else None.
    """

    before: Estimate | None
    after: Estimate
    lies: Estimate | None
    keys_moved: float | None
    records_moved: Estimate | None
    hot_key: Estimate | None

    @property
    def improves(self) -> bool:
        """Whether the fullest partition is predicted to be nearer to the mean than it is now."""
        return self.before is not None and self.after.value < self.before.value


def increase(change: Change) -> tuple[int, int] | None:
    """The partition counts before and after a change that raises it; None for any other change."""
    match change:
        case Update(fields=fields):
            for field in fields:
                before, after = field.before, field.after
                raised = isinstance(before, int) and isinstance(after, int) and before < after
                if field.path == "partitions" and raised:
                    return int(before or 0), int(after or 0)
        case Create() | Delete():
            pass
    return None


def predicted(result: TopicResult, before: int, after: int, by: str) -> Prediction | None:
    """What is predicted of an increase; None if the planned count was not computed.

    Args:
        result: The measurement.
        before: The present partition count.
        after: The planned one.
        by: What a ratio is of: `records` or `bytes`.
    """
    computed = {what_if.partitions: what_if for what_if in result.what_if}
    planned, present = computed.get(after), computed.get(before)
    if planned is None:
        return None
    measured = len(result.partitions) == before
    log = ratio_of(result, by) if measured else None
    now = _ratio(present, by) if present is not None else log
    hot = result.hot_keys and any(cause.name == _HOT_KEYS for cause in result.causes)
    return Prediction(
        now,
        _ratio(planned, by),
        log if log and now and abs(log.value - now.value) >= _DIFFERS else None,
        planned.keys_moved if measured else None,
        planned.records_moved if measured else None,
        max((key_share_of(key, by) for key in result.hot_keys), key=lambda found: found.value)
        if hot
        else None,
    )


def worded(prediction: Prediction) -> str:
    """The prediction in one clause."""
    told = []
    if prediction.keys_moved is not None and prediction.records_moved is not None:
        told.append(
            f"{percent(prediction.keys_moved)} of the sampled keys with {share(prediction.records_moved)} of "
            "the records move"
        )
    start = f"from {ratio(prediction.before)} " if prediction.before is not None else ""
    lies = f" (in the log it has {ratio(prediction.lies)} now)" if prediction.lies is not None else ""
    told.append(f"the fullest partition goes {start}to {ratio(prediction.after)} times the mean{lies}")
    hot = ""
    if prediction.hot_key is not None:
        hot = f"; one key has {share(prediction.hot_key)}, which no partition count divides"
    return f"as measured, {' and '.join(told)}{hot}"


def _ratio(what_if: WhatIf, by: str) -> Estimate:
    return what_if.byte_max_mean_ratio if by == "bytes" else what_if.max_mean_ratio

"""The `skew:` policy of a topic, and the predicted effect of a partition increase on its skew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkaform.core.model import Change, Create, Delete, Intent, Recreate, ResourceRef, Update
from kafkaform.core.values import Value, field
from spark_validation.figures import percent
from spark_validation.policy import CHOICES, FIELDS, key_share_of, ratio, ratio_of, share

if TYPE_CHECKING:
    from spark_validation.results import Estimate, SkewLimits, TopicResult, WhatIf

_DIFFERS = 0.05
"""The least difference to report between the measured ratio and the one predicted for the present count."""
# No partition count removes this cause, as all records of a key are in one partition.
_HOT_KEYS = "hot_keys"


class SkewFacts(Value):
    """The measurements of topics that a plan uses.

    Attributes:
        results: The measurement of each topic; empty without a skew report.
    """

    results: Mapping[ResourceRef, TopicResult] = field(default_factory=dict)


def limits_of(intent: Intent) -> SkewLimits | None:
    """Return the limits that a manifest sets; None without any (`by` or `of` alone is no limit)."""
    policy = intent.spec.get("skew")
    if not isinstance(policy, Mapping):
        return None
    from spark_validation.results import SkewLimits  # few topics need it

    limits = {name: policy[field] for field, name in FIELDS.items() if policy.get(field) is not None}
    of = str(policy.get("of", CHOICES["of"][0]))
    return SkewLimits(**limits, by=policy_unit(intent), of=of) if limits else None


def policy_unit(intent: Intent) -> str:
    """Return the unit of a topic's skew: `records`, unless its policy sets `bytes`."""
    policy = intent.spec.get("skew")
    return str(policy.get("by", "records")) if isinstance(policy, Mapping) else "records"


class Prediction(Value):
    """The predicted effect of a partition increase.

    Attributes:
        before: The ratio of the fullest partition to the mean at the present count: as predicted, or, if the
            report does not have that, as measured; None if it has neither.
        after: The predicted ratio at the planned count.
        measured_ratio: The measured ratio, if older records make it differ from `before`; else None.
        keys_moved: The share of the sampled keys that change their partition, 0 to 1; None if the present
            count is not the measured one.
        records_moved: The share of the records of these keys; None as for `keys_moved`.
        hot_key: The share of the most frequent key, if hot keys are a cause of the skew; else None.
    """

    before: Estimate | None
    after: Estimate
    measured_ratio: Estimate | None
    keys_moved: float | None
    records_moved: Estimate | None
    hot_key: Estimate | None

    @property
    def improves(self) -> bool:
        """True if the ratio of the fullest partition to the mean is predicted to fall."""
        return self.before is not None and self.after.value < self.before.value


def increase(change: Change) -> tuple[int, int] | None:
    """Return the partition counts before and after an increase; None for any other change."""
    match change:
        case Update(fields=fields):
            for field in fields:
                before, after = field.before, field.after
                raised = isinstance(before, int) and isinstance(after, int) and before < after
                if field.path == "partitions" and raised:
                    return int(before or 0), int(after or 0)
        case Create() | Delete() | Recreate():
            pass
    return None


def predict_increase(result: TopicResult, before: int, after: int, by: str) -> Prediction | None:
    """Predict the effect of an increase; None if the report does not have the planned count.

    Args:
        before: The present partition count.
        after: The planned one.
        by: The unit of a ratio: `records` or `bytes`.
    """
    computed = {what_if.partitions: what_if for what_if in result.what_if}
    planned, present = computed.get(after), computed.get(before)
    if planned is None:
        return None
    # Partitions may have been added since the measurement: its shares are those of another count then.
    measured = len(result.partitions) == before
    # Records that were written with an earlier partition count stay where they are, so the log may differ
    # from a prediction.
    log = ratio_of(result, by) if measured else None
    now = _ratio(present, by) if present is not None else log
    hot = result.hot_keys and any(
        cause.name == _HOT_KEYS and cause.until_ms is None for cause in result.causes
    )
    return Prediction(
        now,
        _ratio(planned, by),
        log if log and now and abs(log.value - now.value) >= _DIFFERS else None,
        planned.keys_moved if measured else None,
        planned.records_moved if measured else None,
        max((key_share_of(key, by) for key in result.hot_keys), key=lambda estimate: estimate.value)
        if hot
        else None,
    )


def describe_prediction(prediction: Prediction) -> str:
    """Describe a prediction in one clause."""
    parts = []
    if prediction.keys_moved is not None and prediction.records_moved is not None:
        parts.append(
            f"{percent(prediction.keys_moved)} of the sampled keys with {share(prediction.records_moved)} of "
            "the records move"
        )
    start = f"from {ratio(prediction.before)} " if prediction.before is not None else ""
    log = prediction.measured_ratio
    now = f" (in the log it has {ratio(log)} now)" if log is not None else ""
    parts.append(f"the fullest partition goes {start}to {ratio(prediction.after)} times the mean{now}")
    hot = ""
    if prediction.hot_key is not None:
        hot = f"; one key has {share(prediction.hot_key)}, which no partition count divides"
    return f"as measured, {' and '.join(parts)}{hot}"


def _ratio(what_if: WhatIf, by: str) -> Estimate:
    return what_if.byte_max_mean_ratio if by == "bytes" else what_if.max_mean_ratio

"""What a measurement of records says of a partition increase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.model import Create, Delete, Update
from kafkaform.resources.skew_policy import ratio_of
from kafkaform.resources.skew_wording import percent, ratio, share

if TYPE_CHECKING:
    from kafkaform.core.model import Change
    from spark_validation.results import Estimate, TopicResult, WhatIf

_HOT_KEYS = "hot_keys"
"""The cause that no partition count mends: a key has one partition."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A partition increase, as predicted.

    Attributes:
        before: The fullest partition over the mean at the present count; None if it was not measured.
        after: The same at the planned count.
        keys_moved: The share of the sampled keys that change their partition, 0 to 1; None if the present
            count is another than the measured one.
        records_moved: The share of the records whose key does; None likewise.
        hot_key: The share of the most frequent key where hot keys are a cause of the skew; else None.
    """

    before: Estimate | None
    after: Estimate
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
    now = ratio_of(result, by) if measured else _ratio(present, by) if present is not None else None
    hot = result.hot_keys and any(cause.name == _HOT_KEYS for cause in result.causes)
    return Prediction(
        now,
        _ratio(planned, by),
        planned.keys_moved if measured else None,
        planned.records_moved if measured else None,
        _key_share(result, by) if hot else None,
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
    told.append(f"the fullest partition goes {start}to {ratio(prediction.after)} times the mean")
    hot = ""
    if prediction.hot_key is not None:
        hot = f"; one key has {share(prediction.hot_key)}, which no partition count divides"
    return f"as measured, {' and '.join(told)}{hot}"


def _ratio(what_if: WhatIf, by: str) -> Estimate:
    return what_if.byte_max_mean_ratio if by == "bytes" else what_if.max_mean_ratio


def _key_share(result: TopicResult, by: str) -> Estimate:
    shares = [key.byte_share if by == "bytes" else key.share for key in result.hot_keys]
    return max(shares, key=lambda found: found.value)

"""The `skew:` policy of a topic, what a measurement of its records says of a partition increase.

Estimates are never so rounded that a limit seems kept that is not, or the other way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.model import Create, Delete, Update

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaform.core.model import Change, Intent
    from spark_validation.results import (
        Estimate,
        SkewLimits,
        TopicResult,
        WhatIf,
    )


_FIELDS = {
    "maxPartitionRatio": "max_partition_ratio",
    "maxKeyShare": "max_key_share",
    "minDistinctKeys": "min_distinct_keys",
}


def limits_of(intent: Intent) -> SkewLimits | None:
    """The limits that a manifest sets; None where it sets none (`by` alone is no limit)."""
    policy = intent.spec.get("skew")
    if not isinstance(policy, Mapping):
        return None
    from spark_validation.results import SkewLimits  # which few topics need

    limits = {name: policy[field] for field, name in _FIELDS.items() if policy.get(field) is not None}
    return SkewLimits(**limits, by=policy_unit(intent)) if limits else None


def policy_unit(intent: Intent) -> str:
    """What a topic's skew is judged by: `records`, unless its policy says `bytes`."""
    policy = intent.spec.get("skew")
    return str(policy.get("by", "records")) if isinstance(policy, Mapping) else "records"


def ratio_of(result: TopicResult, by: str) -> Estimate:
    """The fullest partition over the mean, by `records` or `bytes`."""
    return (result.by_bytes if by == "bytes" else result.by_records).max_mean_ratio


_MOST_PLACES = 12


def ratio(estimate: Estimate, limit: float | None = None) -> str:
    """`2.41 (2.3 to 2.53)`; without an interval where it is exact."""
    return _worded(estimate, lambda number: plain(number, limit))


def share(estimate: Estimate, limit: float | None = None) -> str:
    """`31.4 % (29 to 33.8 %)` of a share of 0 to 1."""
    text = _worded(estimate, lambda number: percent(number, limit).removesuffix(" %"))
    value, opening, interval = text.partition(" (")
    return f"{value} %{opening}{interval[:-1]} %)" if opening else f"{value} %"


def count(estimate: Estimate) -> str:
    """`1,200 (1,100 to 1,310)`."""
    return _worded(estimate, lambda number: f"{number:,.0f}")


def plain(number: float, limit: float | None = None) -> str:
    """A number to two places, and to more where it would else look like the limit that it is not."""
    return _fixed(number, limit, 2)


def percent(number: float, limit: float | None = None) -> str:
    """A share of 0 to 1 in percent, to one place or more."""
    return f"{_fixed(number * 100, None if limit is None else limit * 100, 1)} %"


def _worded(estimate: Estimate, written: Callable[[float], str]) -> str:
    value, low, high = written(estimate.value), written(estimate.low), written(estimate.high)
    return value if low == high == value else f"{value} ({low} to {high})"


def _fixed(number: float, limit: float | None, places: int) -> str:
    text = f"{number:,.{places}f}"
    while places < _MOST_PLACES and (
        (number != 0 and float(text.replace(",", "")) == 0)
        or (limit is not None and number != limit and text == f"{limit:,.{places}f}")
    ):
        places += 1
        text = f"{number:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


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
    lies = f" (in the log it has {ratio(prediction.lies)} now)" if prediction.lies is not None else ""
    told.append(f"the fullest partition goes {start}to {ratio(prediction.after)} times the mean{lies}")
    hot = ""
    if prediction.hot_key is not None:
        hot = f"; one key has {share(prediction.hot_key)}, which no partition count divides"
    return f"as measured, {' and '.join(told)}{hot}"


def _ratio(what_if: WhatIf, by: str) -> Estimate:
    return what_if.byte_max_mean_ratio if by == "bytes" else what_if.max_mean_ratio


def _key_share(result: TopicResult, by: str) -> Estimate:
    shares = [key.byte_share if by == "bytes" else key.share for key in result.hot_keys]
    return max(shares, key=lambda found: found.value)

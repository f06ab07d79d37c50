"""A topic against its skew policy: which limits it breaks, and how surely.

A limit is surely broken where the whole interval of 95 % lies beyond it, and perhaps where the limit lies
within. Estimates are never so rounded that a limit seems kept that is not, or the other way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from spark_validation import figures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_validation.results import Estimate, HotKeyResult, SkewLimits, SkewVerdict, TopicResult


FIELDS = {
    "maxPartitionRatio": "max_partition_ratio",
    "maxKeyShare": "max_key_share",
    "minDistinctKeys": "min_distinct_keys",
}
"""The names of limits in manifests and policies, and those of SkewLimits."""

_BOUNDS = {"maxPartitionRatio": (1.0, None), "maxKeyShare": (0.0, 1.0), "minDistinctKeys": (1, None)}
NOW = "now"
CHOICES = {"by": ("records", "bytes"), "of": ("period", NOW)}
"""What limits are about, by the names of manifests and of SkewLimits: the default first."""

MIN_RECORDS = 300
"""The fewest records whose spread is judged."""

_NOT_KNOWN = "not known"
NO_RECORD = "there is no record to judge"
NEWEST_UNKNOWN = (
    "the last hour and the last tenth of the records have too few to judge, or times do not show these"
)
TOO_LITTLE = f"there are fewer than {MIN_RECORDS} records, which is too little data to judge"


@dataclass(frozen=True, slots=True)
class BrokenLimit:
    """A limit that is not surely kept.

    Attributes:
        name: Its name in FIELDS, such as `maxPartitionRatio`.
        message: The sentence that reports it.
        estimate: The measured value.
        certain: Whether the limit is surely broken.
        empty_key: Whether the empty key breaks it.
        contradicted: Whether the part of the log that the policy does not judge has the opposite result.
    """

    name: str
    message: str
    estimate: Estimate
    certain: bool
    empty_key: bool = False
    contradicted: bool = False


def limits_of(policy: Mapping[str, object]) -> SkewLimits:
    """Return the limits of a policy, by the names and within the bounds of the manifest's schema.

    Args:
        policy: The policy of a manifest; numbers may be text.

    Raises:
        ValueError: A name or a value is wrong, or there is no limit.
    """
    from spark_validation.results import SkewLimits  # which plans do not need

    unknown = sorted(policy.keys() - FIELDS.keys() - CHOICES.keys())
    if unknown:
        raise ValueError(f"unknown {unknown[0]!r}; use {', '.join((*FIELDS, *CHOICES))}")
    chosen = {name: str(policy.get(name, default)) for name, (default, _) in CHOICES.items()}
    for name, value in chosen.items():
        if value not in CHOICES[name]:
            raise ValueError(f"{name} must be {' or '.join(CHOICES[name])}, not {value!r}")
    limits: dict[str, float] = {}
    for name in FIELDS.keys() & policy.keys():
        least, most = _BOUNDS[name]
        kind = int if name == "minDistinctKeys" else float
        try:
            number = kind(str(policy[name]))
        except ValueError:
            raise ValueError(f"{name} must be a number, not {policy[name]!r}") from None
        # 0 is within the bounds of a share, and infinity above every least value: neither limits anything.
        if not (least <= number <= (most or inf)) or number in {0, inf}:
            raise ValueError(f"{name} cannot be {policy[name]}")
        limits[FIELDS[name]] = number
    if not limits:
        raise ValueError(f"it sets none of {', '.join(FIELDS)}")
    return SkewLimits(**limits, **chosen)  # type: ignore[arg-type]  # minDistinctKeys was made an int


def judge(result: TopicResult, limits: SkewLimits) -> SkewVerdict:
    """Return the verdict on a topic by its limits."""
    from spark_validation.results import SkewVerdict  # which plans do not need

    if (reason := explain_unjudged(result)) is not None:
        return SkewVerdict("pass", (reason,))
    broken = tuple(find_broken_limits(result, limits))
    unknown = explain_unknown_ratio(result, limits)
    status = "fail" if any(limit.certain for limit in broken) else "warn" if broken else "pass"
    if unknown is not None and status != "fail":
        status = "unknown"
    return SkewVerdict(status, (*(limit.message for limit in broken), *([unknown] if unknown else [])))


def explain_unjudged(result: TopicResult) -> str | None:
    """Return why a topic is not judged by any limit; None if it is."""
    return {"empty": NO_RECORD, "too_little_data": TOO_LITTLE}.get(result.diagnosis)


def is_inconclusive(result: TopicResult) -> bool:
    """Return whether a judged topic lacks what was asked for: its spread, or the verdict on a limit."""
    return result.spread == _NOT_KNOWN or (result.policy is not None and result.policy.status == "unknown")


def explain_unknown_ratio(result: TopicResult, limits: SkewLimits) -> str | None:
    """Return the sentence on a limit of the ratio that cannot be checked; None if there is no such limit."""
    from spark_validation.wording import state_unknown_ratio

    reason = result.arrivals_unknown or (result.bytes_unknown if limits.by == "bytes" else None)
    if limits.of == NOW:
        reason = None if result.now is not None else NEWEST_UNKNOWN
    # Keys are those of the records that were read, whatever is known of the others.
    share = limits.max_key_share if limits.of == NOW else None
    if reason is None or (limits.max_partition_ratio or share) is None:
        return None
    return state_unknown_ratio(result.name, limits.max_partition_ratio, limits.by, reason)


def find_broken_limits(result: TopicResult, limits: SkewLimits) -> Iterator[BrokenLimit]:
    """Yield the limits that a topic with records breaks, surely or perhaps.

    Limits that are surely broken in the whole period and surely kept in its newest part, or the other way,
    are in doubt too: the policy may have to be about the other.
    """
    opposite = replace(limits, of="period" if limits.of == NOW else NOW)
    broken, opposite_broken = (
        {limit.name: limit for limit in _find_broken(result, judged)} for judged in (limits, opposite)
    )
    yield from broken.values()
    if result.now is None or explain_unknown_ratio(result, limits) is not None:
        return
    from spark_validation.wording import state_disagreement

    for name in sorted(broken.keys() ^ opposite_broken.keys()):
        limit = (broken | opposite_broken)[name]
        if limit.certain:
            message = state_disagreement(result.name, name, now=(name in broken) == (limits.of == NOW))
            yield replace(limit, message=message, certain=False, contradicted=True)


def judge_now(result: TopicResult) -> TopicResult:
    """Return a result with the shares and ratios of the newest part of the log, of which that is known."""
    newest = result.now
    if newest is None:
        return result
    shares = zip(result.partitions, newest.shares, newest.byte_shares, strict=True)
    return replace(
        result,
        partitions=tuple(replace(own, share=share, byte_share=of_bytes) for own, share, of_bytes in shares),
        by_records=replace(result.by_records, max_mean_ratio=newest.record_ratio),
        by_bytes=replace(result.by_bytes, max_mean_ratio=newest.byte_ratio),
        hot_keys=tuple(
            replace(key, share=key.now or key.share, byte_share=key.byte_now or key.byte_share)
            for key in result.hot_keys
        ),
    )


def _find_broken(result: TopicResult, limits: SkewLimits) -> Iterator[BrokenLimit]:
    if limits.of == NOW:
        if result.now is None:
            limits = replace(limits, max_key_share=None)
        result = judge_now(result)
    if limits.max_partition_ratio is not None and explain_unknown_ratio(result, limits) is None:
        yield from _check_partition_ratio(result, limits.max_partition_ratio, limits)
    if limits.max_key_share is not None:
        yield from _check_key_share(result, limits.max_key_share, limits)
    if limits.min_distinct_keys is not None:
        yield from _check_distinct_keys(result, limits.min_distinct_keys)


def _check_partition_ratio(result: TopicResult, limit: float, limits: SkewLimits) -> Iterator[BrokenLimit]:
    from spark_validation.wording import name_diagnosis, state_ratio  # which plans do not need

    estimate = ratio_of(result, limits.by)
    if estimate.high <= limit:
        return
    shares = {
        partition.partition: partition.byte_share if limits.by == "bytes" else partition.share
        for partition in result.partitions
    }
    fullest = max(shares, key=lambda number: shares[number].value)
    cause = name_diagnosis(result.diagnosis)
    message = state_ratio(result.name, fullest, ratio(estimate, limit), _name_unit(limits), limit, cause)
    # Only an interval that is wholly beyond the limit breaks it for certain: chance must not fail a check.
    yield BrokenLimit("maxPartitionRatio", message, estimate, certain=estimate.low > limit)


def _name_unit(limits: SkewLimits) -> str:
    return f"{limits.by} of the newest part of the log" if limits.of == NOW else limits.by


def _check_key_share(result: TopicResult, limit: float, limits: SkewLimits) -> Iterator[BrokenLimit]:
    from spark_validation.wording import state_key_share

    shares = [(key_share_of(key, limits.by), key) for key in result.hot_keys]
    beyond = [pair for pair in shares if pair[0].low > limit]
    suspects = beyond or [pair for pair in shares if pair[0].high > limit]
    if not suspects:
        return
    worst, key = max(suspects, key=lambda pair: pair[0].value)
    message = state_key_share(
        result.name,
        key,
        share(worst, limit),
        _name_unit(limits),
        limit,
        others=len(suspects) - 1 if beyond else 0,
    )
    yield BrokenLimit("maxKeyShare", message, worst, bool(beyond), empty_key=not key.key_length)


def _check_distinct_keys(result: TopicResult, limit: int) -> Iterator[BrokenLimit]:
    from spark_validation.wording import state_distinct_keys

    estimate = result.distinct_keys
    if estimate.low < limit:
        message = state_distinct_keys(result.name, count(estimate), limit)
        yield BrokenLimit("minDistinctKeys", message, estimate, certain=estimate.high < limit)


def key_share_of(key: HotKeyResult, by: str) -> Estimate:
    """Return the share of a key, by `records` or `bytes`."""
    return key.byte_share if by == "bytes" else key.share


def ratio_of(result: TopicResult, by: str) -> Estimate:
    """Return the fullest partition over the mean, by `records` or `bytes`."""
    return (result.by_bytes if by == "bytes" else result.by_records).max_mean_ratio


def ratio(estimate: Estimate, limit: float | None = None) -> str:
    """Format a ratio as `2.41 (2.30 to 2.53)`, without an interval where it is exact."""
    return figures.format_estimate(estimate, lambda number: figures.ratio(number, limit))


def share(estimate: Estimate, limit: float | None = None) -> str:
    """Format a share of 0 to 1 as `31.4 % (29 to 33.8 %)`."""
    return figures.format_estimate(estimate, lambda number: figures.percent(number, limit))


def count(estimate: Estimate) -> str:
    """Format a count as `1,200 (1,100 to 1,310)`."""
    return figures.format_estimate(estimate, figures.count)

"""A topic against its skew policy: which limits it breaks, and how surely.

A limit is surely broken where the whole interval of 95 % lies beyond it, and perhaps where the limit lies
within. Estimates are never so rounded that a limit seems kept that is not, or the other way.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from spark_validation.arrivals import FEWEST_RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from spark_validation.results import Estimate, HotKeyResult, SkewLimits, SkewVerdict, TopicResult


FIELDS = {
    "maxPartitionRatio": "max_partition_ratio",
    "maxKeyShare": "max_key_share",
    "minDistinctKeys": "min_distinct_keys",
}
"""The names of limits in manifests and policies, and those of SkewLimits."""

_BOUNDS = {"maxPartitionRatio": (1.0, None), "maxKeyShare": (0.0, 1.0), "minDistinctKeys": (1, None)}
_UNITS = ("records", "bytes")

NO_RECORD = "there is no record to judge"
TOO_LITTLE = f"there are fewer than {FEWEST_RECORDS} records, which is too little data to judge"


@dataclass(frozen=True, slots=True)
class BrokenLimit:
    """A limit that is not surely kept.

    Attributes:
        name: As FIELDS has it, such as `maxPartitionRatio`.
        message: The sentence that says so.
        estimate: What was measured.
        certain: Whether the limit is surely broken.
        empty_key: Whether the empty key breaks it.
    """

    name: str
    message: str
    estimate: Estimate
    certain: bool
    empty_key: bool = False


def limits_of(policy: Mapping[str, object]) -> SkewLimits:
    """Return the limits of a policy, by the names and within the bounds of the manifest's schema.

    Args:
        policy: As in a manifest; numbers may be text.

    Raises:
        ValueError: A name or a value is wrong, or there is no limit.
    """
    from spark_validation.results import SkewLimits  # which plans do without

    unknown = sorted(policy.keys() - FIELDS.keys() - {"by"})
    if unknown:
        raise ValueError(f"{unknown[0]!r} is none of {', '.join((*FIELDS, 'by'))}")
    by = policy.get("by", "records")
    if by not in _UNITS:
        raise ValueError(f"by is {' or '.join(_UNITS)}, not {by!r}")
    limits: dict[str, float] = {}
    for name in FIELDS.keys() & policy.keys():
        least, most = _BOUNDS[name]
        kind = int if name == "minDistinctKeys" else float
        try:
            number = kind(str(policy[name]))
        except ValueError:
            raise ValueError(f"{name} is a number, not {policy[name]!r}") from None
        if not (least <= number <= (most or inf)) or number in {0, inf}:
            raise ValueError(f"{name} cannot be {policy[name]}")
        limits[FIELDS[name]] = number
    if not limits:
        raise ValueError(f"it has none of {', '.join(FIELDS)}")
    return SkewLimits(**limits, by=str(by))  # type: ignore[arg-type]  # minDistinctKeys was made an int


def verdict(result: TopicResult, limits: SkewLimits) -> SkewVerdict:
    """Return how a topic stands to its limits."""
    from spark_validation.results import SkewVerdict  # which plans do without

    if (reason := not_judged(result)) is not None:
        return SkewVerdict("pass", (reason,))
    found = tuple(broken_limits(result, limits))
    status = "fail" if any(limit.certain for limit in found) else "warn" if found else "pass"
    return SkewVerdict(status, tuple(limit.message for limit in found))


def not_judged(result: TopicResult) -> str | None:
    """Return why a topic is not judged by any limit; None if it is."""
    return {"empty": NO_RECORD, "too_little_data": TOO_LITTLE}.get(result.diagnosis)


def broken_limits(result: TopicResult, limits: SkewLimits) -> Iterator[BrokenLimit]:
    """The limits that a topic with records breaks, surely or perhaps."""
    if limits.max_partition_ratio is not None:
        yield from _partition_ratio(result, limits.max_partition_ratio, limits.by)
    if limits.max_key_share is not None:
        yield from _key_share(result, limits.max_key_share, limits.by)
    if limits.min_distinct_keys is not None:
        yield from _distinct_keys(result, limits.min_distinct_keys)


def _partition_ratio(result: TopicResult, limit: float, by: str) -> Iterator[BrokenLimit]:
    found = ratio_of(result, by)
    if found.high <= limit:
        return
    shares = {one.partition: one.byte_share if by == "bytes" else one.share for one in result.partitions}
    fullest = max(shares, key=lambda number: shares[number].value)
    cause = result.diagnosis.replace("_", " ")
    message = (
        f"{result.name}: partition {fullest} has {ratio(found, limit)} times the mean {by}; the policy"
        f" allows {plain(limit)} (diagnosis: {cause})"
    )
    yield BrokenLimit("maxPartitionRatio", message, found, certain=found.low > limit)


def _key_share(result: TopicResult, limit: float, by: str) -> Iterator[BrokenLimit]:
    shares = [(key_share_of(key, by), key) for key in result.hot_keys]
    beyond = [pair for pair in shares if pair[0].low > limit]
    suspects = beyond or [pair for pair in shares if pair[0].high > limit]
    if not suspects:
        return
    worst, key = max(suspects, key=lambda pair: pair[0].value)
    more = len(suspects) - 1
    others = f"; {more} other key{'s are' if more > 1 else ' is'} above it too" if more and beyond else ""
    size = f"{key.key_length:,} byte{'' if key.key_length == 1 else 's'}"
    subject = f"the key {key.key_hash} ({size})" if key.key_length else "the empty key"
    message = (
        f"{result.name}: {subject} has {share(worst, limit)} of the {by}; the policy "
        f"allows {percent(limit)}{others}"
    )
    yield BrokenLimit("maxKeyShare", message, worst, bool(beyond), empty_key=not key.key_length)


def _distinct_keys(result: TopicResult, limit: int) -> Iterator[BrokenLimit]:
    found = result.distinct_keys
    if found.low < limit:
        keys = "distinct key" if count(found) == "1" else "distinct keys"
        message = f"{result.name} has {count(found)} {keys}; the policy asks for {limit:,}"
        yield BrokenLimit("minDistinctKeys", message, found, certain=found.high < limit)


def key_share_of(key: HotKeyResult, by: str) -> Estimate:
    """The share of a key, by `records` or `bytes`."""
    return key.byte_share if by == "bytes" else key.share


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

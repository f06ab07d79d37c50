"""Advice on a topic, computed from its result: sentences that name keys, counts and settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_validation.causes_placement import by_chance, misplaced_share, mixed_advice
from spark_validation.imbalance import expected_ratio, keys_needed, likely_ratio, most_partitions
from spark_validation.sampled_topic import LEAST_LIFT, STANDS_OUT, listed, percent, times_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_validation.causes_placement import Placement
    from spark_validation.results import (
        Estimate,
        GroupResult,
        HotKeyResult,
        SkewCause,
        SkewLimits,
        TopicResult,
        WhatIf,
    )


WORTH_MOVING = 0.1
"""By so much another partition count must lower the ratio, beyond the intervals, to be worth it."""
UNPLACED = 0.25
"""The share of records that no partitioner explains, from which predictions of other counts mean nothing."""
_STRAYS = 0.001


def advise(result: TopicResult, limits: SkewLimits, placement: Placement | None = None) -> tuple[str, ...]:
    """Sentences that follow from a result, the most telling cause's first.

    Args:
        result: With its causes.
        limits: The topic's policy; advice aims at a ratio of 1.5 where it has none.
        placement: Who placed the keys; None where that is not known.
    """
    names = [cause.name for cause in result.causes]
    if "empty" in names:
        return ()
    partitions = list(_partitions(result, limits))
    found = [
        sentence for cause in result.causes for sentence in _of(result, cause, limits, partitions, placement)
    ]
    if limits.max_key_share is not None and not {"hot_keys", "few_keys"} & set(names):
        found += _over_policy(result, limits)
    found += _another_partitioner(result, names)
    found += partitions
    for group in result.groups:
        found += _consumers(result, group)
    return tuple(found)


def _of(
    result: TopicResult,
    cause: SkewCause,
    limits: SkewLimits,
    partitions: list[str],
    placement: Placement | None,
) -> Iterator[str]:
    """Sentences for one cause; `partitions` are those on other partition counts."""
    match cause.name:
        case "hot_keys":
            yield from _hot(result, limits, partitions)
        case "bursty":
            yield from burst_advice(result, cause)
        case "few_keys":
            yield from _few(result, limits)
        case "null_keys":
            yield from _nulls(result)
        case "mixed_partitioners":
            yield from mixed_advice(result, placement)
        case "repartitioned":
            yield from _repartitioned(result, placement)
        case _:
            return


def _ratio(result: TopicResult, by: str) -> Estimate:
    return (result.by_bytes if by == "bytes" else result.by_records).max_mean_ratio


def _target(limits: SkewLimits) -> float:
    return limits.max_partition_ratio or REACHABLE_RATIO


def _hot(result: TopicResult, limits: SkewLimits, partitions: list[str]) -> Iterator[str]:
    by, target = limits.by, _target(limits)
    if _ratio(result, by).value <= target < _ratio(result, "bytes").value:
        by = "bytes"
    keys = hottest(result, by)
    key_share = limits.max_key_share if by == limits.by else None
    yield from salt_advice(result, keys, by, ratio=target, key_share=key_share)
    if keys and not partitions:
        yield from futile_partitions(result, keys[0], by, ratio=target)


def _over_policy(result: TopicResult, limits: SkewLimits) -> Iterator[str]:
    """Sentences on keys that make no skew, and yet have a larger share than the policy allows."""
    key_share = limits.max_key_share or 1.0
    over = [key for key in hottest(result, limits.by) if share_of(key, limits.by) > key_share]
    yield from salt_advice(result, over, limits.by, ratio=_target(limits), key_share=key_share)


def _few(result: TopicResult, limits: SkewLimits) -> Iterator[str]:
    keys, count, target = result.distinct_keys.value, len(result.partitions), _target(limits)
    fit = most_partitions(keys, target, count)
    if fit < count:
        yield (
            f"{keys:,.0f} equally frequent keys stay within a ratio of {target:g} on at most {fit} "
            f"partition{'s' if fit > 1 else ''}; {count} partitions need about "
            f"{keys_needed(count, target):,} keys. If order within each current key is not needed, choose a "
            f"finer key, such as one with a second field."
        )


def _nulls(result: TopicResult) -> Iterator[str]:
    share = result.null_key_share
    yield (
        f"If the order of related records matters, add a key to the {percent(share.value)} of records that "
        f"have none; if it does not, declare the topic `keyed: false`."
    )


def _another_partitioner(result: TopicResult, names: list[str]) -> Iterator[str]:
    """For a topic that one partitioner, not Java's, places: what keeps it so."""
    count = len(result.partitions)
    misplaced = 1 - result.partitioners.get("murmur2", 1.0)
    if {"mixed_partitioners", "repartitioned"} & {*names} or count <= 1 or misplaced < _STRAYS:
        return
    if by_chance(result.distinct_keys.value, count):
        return
    for name, setting in (("crc32", "consistent_random"), ("fnv1a", "fnv1a_random")):
        if 1 - result.partitioners.get(name, 0.0) < _STRAYS:
            yield (
                f"Keep every producer on the same partitioner (librdkafka's `{setting}`), or move all of "
                f"them to murmur2 at once: a Java producer with its default partitioner would put "
                f"{percent(misplaced)} of these records on other partitions."
            )
            return


def _repartitioned(result: TopicResult, placement: Placement | None) -> Iterator[str]:
    known = placement.repartition if placement else None
    misplaced = known.misplaced if known else misplaced_share(result)
    yield (
        f"Until retention has removed the records from before the increase, read these completely before "
        f"the newer ones wherever the order of a key matters: {percent(misplaced)} of the records "
        f"with a key are not on the partition that their key has now."
    )


def _partitions(result: TopicResult, limits: SkewLimits) -> Iterator[str]:
    """The count with the least predicted ratio, if that is lower than the present one for sure.

    Where earlier placements made the present ratio, the prediction for the present count is what another
    count has to beat.
    """
    count = len(result.partitions)

    def ratio(case: WhatIf) -> Estimate:
        return case.byte_max_mean_ratio if limits.by == "bytes" else case.max_mean_ratio

    names = {cause.name for cause in result.causes}
    replaced = bool({"repartitioned", "mixed_partitioners"} & names)
    if result.partitioners.get("other", 0.0) > UNPLACED and "repartitioned" not in names:
        return
    predicted = [ratio(case) for case in result.what_if if case.partitions == count]
    present = predicted[0] if replaced and predicted else _ratio(result, limits.by)
    larger = [case for case in result.what_if if case.partitions > count]
    if not larger:
        return
    best = min(larger, key=lambda case: (round(ratio(case).value, 2), case.partitions))
    lowest = ratio(best)
    if lowest.high < present.low and lowest.value <= present.value - WORTH_MOVING:
        yield (
            f"Of the counts tried, {best.partitions} partitions have the lowest ratio by {limits.by}: "
            f"{lowest.value:.2f} ({lowest.low:.2f} to {lowest.high:.2f}) instead of {present.value:.2f}; "
            f"{percent(best.keys_moved)} of the keys move, with {percent(best.records_moved.value)} of the "
            f"records, and the order of these keys breaks at that point."
        )


def _consumers(result: TopicResult, group: GroupResult) -> Iterator[str]:
    members = len(group.members)
    idle = sum(1 for member in group.members if not member.partitions)
    useful = max(1, math.ceil(result.by_records.effective_parallelism.value - 1e-9))
    if idle:
        yield (
            f"Group {group.name}: {idle} of its {members} members get no partition of this topic under "
            f"{group.assignor}."
        )
    if members - idle > useful:
        busiest = max(member.share for member in group.members)
        fullest = max(partition.share.value for partition in result.partitions)
        yield (
            f"Group {group.name}: only {useful} of its {members} members are useful, since one partition "
            f"alone has {percent(fullest)} of the records; its busiest member gets {percent(busiest)}."
        )


MOST_SALTS = 1_000
"""More salts than this for one key are no advice: who reads the key must read as many."""


@dataclass(frozen=True, slots=True)
class Salts:
    """A split of frequent keys into salts.

    Attributes:
        counts: For each key, into how many salts.
        ratio: What the fullest partition then is over the mean, in nine of ten cases at most.
    """

    counts: tuple[int, ...]
    ratio: float


def salts(
    shares: Sequence[float], rest: float, partitions: int, *, ratio: float, key_share: float | None = None
) -> Salts | None:
    """The fewest salts with which a topic keeps a ratio, and each salted key a share.

    Keys of shares s_k are split so that all salts are nearly alike: m_k = ceil(s_k / u) of share u at most.
    With S the sum of s_k and M of m_k, these M salts fall on partitions as equal keys do, so that in nine of
    ten cases the fullest partition has no more than L(M) times their mean (imbalance.likely_ratio). What is
    left has the ratio `rest` (R'). The largest sum is at most the sum of the largest:

        ratio <= S max(m_k u) / s_k L(M) + (1 - S) R'

    and u is made smaller until this is kept; then u <= key_share is kept too.

    Args:
        shares: Of the keys, 0 to 1.
        rest: The ratio of the topic without them.
        partitions: Its partition count.
        ratio: The largest ratio allowed.
        key_share: The largest share of one key allowed.

    Returns:
        None where no number of salts suffices: the rest alone is too uneven.
    """
    salted = sum(shares)
    unsalted = (1 - salted) * rest
    if salted + unsalted >= ratio:
        return None
    unit = min(max(shares), key_share or 1.0)
    while True:
        counts = tuple(max(1, math.ceil(share / unit - 1e-9)) for share in shares)
        largest = max(share / count for share, count in zip(shares, counts, strict=True))
        # Salts of unequal size count as so many of the largest, which are more than there are.
        alike = max(1, math.floor(salted / largest))
        reached = salted * likely_ratio(alike, partitions) + unsalted
        if reached <= ratio:
            return Salts(counts, reached)
        if max(counts) >= MOST_SALTS:
            return None
        # One salt more for the largest key, or a twentieth where there are many.
        unit = largest * min(max(counts) / (max(counts) + 1), 0.95)


REACHABLE_RATIO = 1.5
"""The ratio that advice aims at where no policy says another."""
_NAMED = 3
_BURST_PEAK = 2.0


def hottest(result: TopicResult, by: str) -> list[HotKeyResult]:
    """Keys that stand out by records or bytes, largest first."""
    keys = sorted(result.hot_keys, key=lambda key: -share_of(key, by))
    remaining = 1 - result.null_key_share.value
    found = []
    for number, key in enumerate(keys, start=1):
        share = share_of(key, by)
        remaining -= share
        others = max(1.0, result.distinct_keys.value - number)
        if share < STANDS_OUT * max(0.0, remaining) / others or share * len(result.partitions) < LEAST_LIFT:
            break
        found.append(key)
    return found


def share_of(key: HotKeyResult, by: str) -> float:
    """A key's share of the records or bytes."""
    return key.byte_share.value if by == "bytes" else key.share.value


def burst_advice(result: TopicResult, cause: SkewCause) -> Iterator[str]:
    """Name what to look at: the key in the evidence, or the partition if it names none."""
    for key in result.hot_keys:
        if key.key_hash in cause.evidence:
            peak = f", up to {key.peak:.1f} times its overall share" if key.peak >= _BURST_PEAK else ""
            yield (
                f"Check what writes key {key.key_hash} at that time: spread its writes over time, or size "
                f"consumers for its share during the burst{peak}."
            )
            return
    yield "Check what is written to that partition at that time: no single frequent key explains the burst."


def salt_advice(
    result: TopicResult, keys: list[HotKeyResult], by: str, *, ratio: float, key_share: float | None
) -> Iterator[str]:
    """Into how many salts keys must be split to keep a ratio, and a share of each key.

    As few salts in all as suffice, whichever number of the largest keys they take; see salts for the
    formula.
    """
    shares = [share_of(key, by) for key in keys]
    over = sum(1 for share in shares if key_share is not None and share > key_share)
    imbalance = result.by_bytes if by == "bytes" else result.by_records
    if not keys or (imbalance.max_mean_ratio.value <= ratio and not over):
        return
    aim = f"a ratio of {ratio:g} by {by}" + (f" and a key share of {percent(key_share)}" if key_share else "")
    best: Salts | None = None
    for number in range(max(1, over), len(keys) + 1):
        rest = ratio_without(result, keys[:number], by)
        split = salts(shares[:number], rest, len(result.partitions), ratio=ratio, key_share=key_share)
        if split is not None and (best is None or sum(split.counts) < sum(best.counts)):
            best = split
    if best is None:
        yield (
            f"Splitting the {len(keys)} most frequent keys is not enough for {aim}: without them, the "
            f"fullest partition still has {times_mean(ratio_without(result, keys, by))}."
        )
        return
    split_keys = [(key, many) for key, many in zip(keys, best.counts, strict=False) if many > 1]
    parts = [f"{key.key_hash} into {many}" for key, many in split_keys]
    more = split_keys[_NAMED:]
    if len(more) > 1:
        parts[_NAMED:] = [f"the next {len(more)} into {more[-1][1]} to {more[0][1]}"]
    noun = "keys" if len(parts) > 1 else "key"
    yield (
        f"To stay within {aim}, split {noun} {listed(parts)} salts: the fullest partition then has at most "
        f"{times_mean(best.ratio)} in nine out of ten cases; order is kept only within a salt."
    )


def ratio_without(result: TopicResult, keys: list[HotKeyResult], by: str) -> float:
    """The ratio of what is left without some keys.

    Where one of them lies on several partitions, its part on each is not known: then that of equal keys.
    """
    if any(len(key.partitions) > 1 for key in keys):
        return expected_ratio(max(1.0, result.distinct_keys.value - len(keys)), len(result.partitions))
    loads = {
        partition.partition: (partition.byte_share if by == "bytes" else partition.share).value
        for partition in result.partitions
    }
    for key in keys:
        for partition in key.partitions:
            loads[partition] = max(0.0, loads[partition] - share_of(key, by))
    total = sum(loads.values())
    return max(loads.values()) * len(loads) / total if total > 0 else 1.0


def futile_partitions(result: TopicResult, key: HotKeyResult, by: str, *, ratio: float) -> Iterator[str]:
    """Say that more partitions do not help: a key stays on one, with at least its share of the topic."""
    share, count = share_of(key, by), len(result.partitions)
    counts = [case.partitions for case in result.what_if if case.partitions > count] or [2 * count]
    if share * counts[-1] <= ratio:
        return
    bounds = [f"{share * many:.1f} on {many}" for many in dict.fromkeys((counts[0], counts[-1]))]
    yield (
        f"More partitions will not help: key {key.key_hash} stays on one of them, and alone gives it this "
        f"many times the mean by {by}: {listed(bounds)} partitions."
    )

"""Advice on a topic, computed from its result: sentences that name keys, counts and settings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from spark_validation.causes_burst import BURST_PEAK, ONGOING
from spark_validation.causes_placement import by_chance, misplaced_share, mixed_advice
from spark_validation.imbalance import keys_needed, most_partitions
from spark_validation.key_counts import suffix
from spark_validation.salts import MOST_SALTS, Split, split
from spark_validation.sampled_topic import LEAST_LIFT, STANDS_OUT, listed, named, percent, times_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    from spark_validation.salts import Loads


WORTH_MOVING = 0.1
"""By so much another partition count must lower the ratio, beyond the intervals, to be worth it."""
_STRAYS = 0.001


def advise(
    result: TopicResult, limits: SkewLimits, loads: Loads, placement: Placement | None = None
) -> tuple[str, ...]:
    """Sentences that follow from a result, the most telling cause's first.

    Args:
        result: With its causes.
        limits: The topic's policy; advice aims at a ratio of 1.5 where it has none.
        loads: By records and by bytes, what `salts.partition_loads` returns.
        placement: Who placed the keys; None where that is not known.
    """
    names = [cause.name for cause in result.causes]
    if {"empty", "too_little_data"} & {*names}:
        return ()
    partitions = list(_partitions(result, limits))
    found = [
        sentence
        for cause in result.causes
        for sentence in _of(result, cause, limits, partitions, loads, placement)
    ]
    if limits.max_key_share is not None and not {"hot_keys", "few_keys"} & set(names):
        found += _over_policy(result, limits, loads)
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
    loads: Loads,
    placement: Placement | None,
) -> Iterator[str]:
    """Sentences for one cause; `partitions` are those on other partition counts."""
    match cause.name:
        case "hot_keys":
            yield from _hot(result, limits, partitions, loads)
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


def _hot(result: TopicResult, limits: SkewLimits, partitions: list[str], loads: Loads) -> Iterator[str]:
    by, target = limits.by, _target(limits)
    if _ratio(result, by).value <= target < _ratio(result, "bytes").value:
        by = "bytes"
    keys = hottest(result, by)
    key_share = limits.max_key_share if by == limits.by else None
    yield from _empty_key(keys, by)
    yield from salt_advice(result, keys, loads, by, ratio=target, key_share=key_share)
    if keys and not partitions:
        yield from futile_partitions(result, keys[0], by, ratio=target)


def _over_policy(result: TopicResult, limits: SkewLimits, loads: Loads) -> Iterator[str]:
    """Sentences on keys that make no skew, and yet have a larger share than the policy allows."""
    key_share = limits.max_key_share or 1.0
    over = [key for key in hottest(result, limits.by) if share_of(key, limits.by) > key_share]
    if over:
        yield from _empty_key(over, limits.by)
        ratio = max(_target(limits), _ratio(result, limits.by).value)
        yield from salt_advice(result, over, loads, limits.by, ratio=ratio, key_share=key_share)


def _few(result: TopicResult, limits: SkewLimits) -> Iterator[str]:
    keys, count, target = result.distinct_keys.value, len(result.partitions), _target(limits)
    fit = most_partitions(keys, target, count)
    if fit < count:
        yield (
            f"{f'{keys:,.0f} equally frequent keys stay' if round(keys) > 1 else 'One key stays'} within a "
            f"ratio of {target:g} on at most {fit} "
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
                f"Keep every producer on the same partitioner (librdkafka's `{setting}`): a Java "
                f"producer with its default partitioner would put {percent(misplaced)} of these records on "
                "other partitions."
            )
            return


def _repartitioned(result: TopicResult, placement: Placement | None) -> Iterator[str]:
    known = placement.repartition if placement else None
    misplaced = known.misplaced if known else misplaced_share(result)
    last = "last " if known and known.increases[1:] else ""
    yield (
        f"Until retention has removed the records from before the {last}increase, read these completely "
        f"before the newer ones wherever the order of a key matters: {percent(misplaced)} of the records "
        f"with a key are not on the partition that their key has now."
    )


def _partitions(result: TopicResult, limits: SkewLimits) -> Iterator[str]:
    """The count with the least predicted ratio, if that is lower than the present one for sure.

    The prediction for the present count is what another count has to beat; and it must reach the goal.
    """
    count = len(result.partitions)

    def ratio(case: WhatIf) -> Estimate:
        return case.byte_max_mean_ratio if limits.by == "bytes" else case.max_mean_ratio

    predicted = [ratio(case) for case in result.what_if if case.partitions == count]
    present = predicted[0] if predicted else _ratio(result, limits.by)
    larger = [case for case in result.what_if if case.partitions > count]
    if not larger:
        return
    best = min(larger, key=lambda case: (round(ratio(case).value, 2), case.partitions))
    lowest = ratio(best)
    if lowest.value > _target(limits):
        return
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
            f"Group {group.name}: {idle} of its {members} members {'get' if idle > 1 else 'gets'} no "
            f"partition of this topic under {group.assignor}."
        )
    if members - idle > useful:
        busiest = max(member.share for member in group.members)
        fullest = max(partition.share.value for partition in result.partitions)
        yield (
            f"Group {group.name}: only {useful} of its {members} members "
            f"{'are' if useful > 1 else 'is'} useful, since one partition alone has {percent(fullest)} of "
            f"the records; its busiest member gets {percent(busiest)}."
        )


REACHABLE_RATIO = 1.5
"""The ratio that advice aims at where no policy says another."""
_NAMED = 3


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
    when = "now" if ONGOING in cause.evidence else "at that time"
    for key in result.hot_keys:
        if named(key) in cause.evidence.lower():
            peak = f", up to {key.peak:.3g} times its overall share" if key.peak >= BURST_PEAK else ""
            yield (
                f"Check what writes {named(key)} {when}: spread its writes over time, or size "
                f"consumers for its share during the burst{peak}."
            )
            return
    yield f"Check what is written to that partition {when}: no single frequent key explains the burst."


def salt_advice(
    result: TopicResult,
    keys: list[HotKeyResult],
    loads: Loads,
    by: str,
    *,
    ratio: float,
    key_share: float | None,
) -> Iterator[str]:
    """Into which salts keys must be split to keep a ratio, and a share of each key; see `salts.split`."""
    shares = [share_of(key, by) for key in keys]
    over = key_share is not None and any(share > key_share for share in shares)
    imbalance = result.by_bytes if by == "bytes" else result.by_records
    if imbalance.max_mean_ratio.value <= ratio and not over:
        return
    everything, salted = loads[by]
    chosen = [(key, salted[key.key_hash]) for key in keys if key.key_length and key.key_hash in salted]
    # Records with an empty key are advised to be sent without a key: then they are spread evenly.
    for key in keys:
        if not key.key_length and key.key_hash in salted:
            own = salted[key.key_hash].loads
            everything = everything - own + own.sum() / len(own)
    aim = f"a ratio of {ratio:g} by {by}" + (f" and a key share of {percent(key_share)}" if key_share else "")
    found = split(everything, [own for _, own in chosen], ratio=ratio, key_share=key_share)
    if found is None:
        yield _beyond_salts([key for key, _ in chosen], by, aim)
    elif found.salts:
        yield _split_sentence([key for key, _ in chosen], found, aim, result)


def _beyond_salts(keys: list[HotKeyResult], by: str, aim: str) -> str:
    finer = "choose a finer key for all, such as one with a second field"
    if not keys:
        return f"For {aim}, {finer}: no single key is worth splitting."
    own = f"{percent(share_of(keys[0], by))} of the {by}"
    subject = "frequent keys" if keys[1:] else named(keys[0])
    return (
        f"Splitting {subject} is not enough for {aim}, or would take more than {MOST_SALTS} salts: give "
        f"{named(keys[0])} ({own}) a topic of its own, or {finer}."
    )


def _split_sentence(keys: list[HotKeyResult], found: Split, aim: str, result: TopicResult) -> str:
    known = result.what_if_withheld is None
    divided = [(keys[number], chosen) for number, chosen in found.suffixes.items()]
    parts: list[str] = []
    for key, chosen in divided[:_NAMED]:
        noun = "" if parts else " salts"
        suffixes = f" ({listed([suffix(number) for number in chosen])})" if known else ""
        parts.append(f"{named(key)} into {len(chosen)}{noun}{suffixes}")
    counts = [len(chosen) for _, chosen in divided[_NAMED:]]
    if counts:
        into = f"{min(counts)} to {max(counts)} each" if min(counts) < max(counts) else f"{counts[0]} each"
        parts.append(f"{len(counts)} more keys into {into}" if counts[1:] else f"1 more key into {counts[0]}")
    if known:
        how = ", by appending these suffixes, chosen to lead to different partitions"
        if counts:
            how += " (choose those of the other keys likewise, by partitioner(key + suffix))"
    else:
        how = ", by suffixes that their partitioner puts on different partitions, the emptiest first"
    return (
        f"To stay within {aim}, split {listed(parts)}{how}: the fullest then has {times_mean(found.ratio)}. "
        "Order is kept only within a salt."
    )


def _empty_key(keys: list[HotKeyResult], by: str) -> Iterator[str]:
    """For a frequent key of no bytes, which nobody means."""
    for key in keys:
        if not key.key_length:
            yield (
                f"An empty key is a key: its {percent(share_of(key, by))} of the {by} are on one partition. "
                "Producers that mean no key should send null; such records are spread over all partitions."
            )


def futile_partitions(result: TopicResult, key: HotKeyResult, by: str, *, ratio: float) -> Iterator[str]:
    """Say that more partitions do not help, where one key alone exceeds the ratio on the least of them."""
    share, count = share_of(key, by), len(result.partitions)
    counts = [case.partitions for case in result.what_if if case.partitions > count] or [2 * count]
    if share * counts[0] <= ratio:
        return
    bounds = [f"{share * many:.1f} on {many}" for many in dict.fromkeys((counts[0], counts[-1]))]
    yield (
        f"More partitions will not help: {named(key)} stays on one of them, and alone gives it this "
        f"many times the mean by {by}: {listed(bounds)} partitions."
    )

"""What to do about a topic, computed from its result."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from spark_validation.observation import listed, percent, times_mean
from spark_validation.occupancy import keys_needed, most_partitions
from spark_validation.salting import salts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_validation.results import Estimate, GroupResult, HotKeyResult, Limits, TopicResult, WhatIf

REACHABLE_RATIO = 1.5
"""The ratio that advice aims at where no policy says another."""
WORTH_MOVING = 0.1
"""By so much another partition count must lower the ratio, beyond the intervals, to be worth it."""
STANDS_OUT = 3.0
"""As in causes_hot: a key is salted if it has so many times the average key's share."""
_STRAYS = 0.001
_TWO = 2


def advise(result: TopicResult, limits: Limits) -> tuple[str, ...]:
    """Sentences that follow from a result, the most telling cause's first.

    Args:
        result: With its causes.
        limits: The topic's policy; advice aims at a ratio of 1.5 where it has none.
    """
    names = [cause.name for cause in result.causes]
    found: list[str] = []
    for name in names:
        match name:
            case "hot_keys" | "bursty":
                found += _hot(result, limits, bursty=name == "bursty")
            case "few_keys":
                found += _few(result, limits)
            case "null_keys":
                found += _nulls(result)
            case "mixed_partitioners":
                found += _mixed(result)
            case "repartitioned":
                found += _repartitioned(result)
            case _:
                pass
    found += _another_partitioner(result, names)
    if "empty" not in names:
        found += _partitions(result, limits)
        for group in result.groups:
            found += _consumers(result, group)
    # Two causes may lead to the same sentence.
    return tuple(dict.fromkeys(found))


def _ratio(result: TopicResult, limits: Limits) -> Estimate:
    return (result.by_bytes if limits.by == "bytes" else result.by_records).max_mean_ratio


def _target(limits: Limits) -> float:
    return limits.max_partition_ratio or REACHABLE_RATIO


def _share(key: HotKeyResult, by: str) -> float:
    return key.byte_share.value if by == "bytes" else key.share.value


def _hottest(result: TopicResult, by: str) -> list[HotKeyResult]:
    """Keys that stand out, largest first."""
    keys = sorted(result.hot_keys, key=lambda key: -_share(key, by))
    left = 1 - result.null_key_share.value
    found = []
    for number, key in enumerate(keys, start=1):
        left -= _share(key, by)
        others = max(1.0, result.distinct_keys.value - number)
        if _share(key, by) < STANDS_OUT * max(0.0, left) / others:
            break
        found.append(key)
    return found


def _hot(result: TopicResult, limits: Limits, *, bursty: bool) -> Iterator[str]:
    by = limits.by
    if _ratio(result, limits).value <= _target(limits) and result.by_bytes.max_mean_ratio.value > _target(
        limits
    ):
        by = "bytes"
    keys = _hottest(result, by)
    if not keys:
        return
    count = len(result.partitions)
    largest = keys[0]
    if bursty and largest.peak > _TWO:
        yield (
            f"Look at what writes key {largest.key_hash} at the time given: its share is then "
            f"{largest.peak:.1f} times what it is overall, so size consumers for that, or spread its writes."
        )
    yield from _salting(result, limits, keys, by)
    share = _share(largest, by)
    if share * count > _target(limits):
        counts = [one.partitions for one in result.what_if if one.partitions > count] or [2 * count]
        bounds = [f"{share * many:.1f} times on {many}" for many in counts]
        yield (
            f"More partitions will not help: key {largest.key_hash} stays on one of them, which has at least "
            f"{share * count:.1f} times the mean by {by} on {count}, {listed(bounds)}."
        )


def _salting(result: TopicResult, limits: Limits, keys: list[HotKeyResult], by: str) -> Iterator[str]:
    """Split as few of the largest keys as suffices."""
    target, count = _target(limits), len(result.partitions)
    share_limit = limits.max_key_share if by == limits.by else None
    shares = [_share(key, by) for key in keys]
    over = sum(1 for share in shares if share_limit is not None and share > share_limit)
    ratio = (result.by_bytes if by == "bytes" else result.by_records).max_mean_ratio.value
    if ratio <= target and not over:
        return
    aim = f"a ratio of {target:g}" + (f" and a key share of {percent(share_limit)}" if share_limit else "")
    tried = [
        split
        for number in range(max(1, over), len(keys) + 1)
        if (rest := _ratio_without(result, keys[:number], by))
        and (split := salts(shares[:number], rest, count, ratio=target, key_share=share_limit))
    ]
    # The fewest salts in all: to split one more key can spare many salts of the first.
    split = min(tried, key=lambda one: sum(one.counts), default=None)
    if split is not None:
        parts = [f"{key.key_hash} into {many}" for key, many in zip(keys, split.counts, strict=False)]
        many = [part for part, salted in zip(parts, split.counts, strict=True) if salted > 1]
        yield (
            f"To keep {aim}, split key {listed(many)} salts (key#0, key#1, …): the fullest partition "
            f"then has about {times_mean(split.ratio)} at most; order is kept within a salt only."
        )
        return
    yield (
        f"Splitting the {len(keys)} most frequent keys that were seen is not enough for {aim}: without them "
        f"the fullest partition still has {times_mean(_ratio_without(result, keys, by))} of the rest."
    )


def _ratio_without(result: TopicResult, keys: list[HotKeyResult], by: str) -> float:
    """The ratio of what is left without keys, each taken from the partition where most of it lies."""
    left = [
        one.byte_share.value if by == "bytes" else one.share.value
        for one in sorted(result.partitions, key=lambda one: one.partition)
    ]
    for key in keys:
        if key.partitions:
            left[key.partitions[0]] = max(0.0, left[key.partitions[0]] - _share(key, by))
    total = sum(left)
    return max(left) * len(left) / total if total > 0 else 1.0


def _few(result: TopicResult, limits: Limits) -> Iterator[str]:
    keys, count, target = result.distinct_keys.value, len(result.partitions), _target(limits)
    fit = most_partitions(keys, target, count)
    if fit < count:
        yield (
            f"{keys:,.0f} equal keys keep a ratio of {target:g} on {fit} partition{'s' if fit > 1 else ''} "
            f"at most; {count} partitions take about {keys_needed(count, target):,} keys: choose a finer "
            f"key, such as one with a second field, if the order of each present key is not needed."
        )


def _nulls(result: TopicResult) -> Iterator[str]:
    share = result.null_key_share
    yield (
        f"If the order of related records matters, give a key to the {percent(share.value)} that have none; "
        f"if it does not, declare the topic `keyed: false`."
    )


def _misplaced(result: TopicResult) -> float:
    return 1 - result.partitioners.get("murmur2", 1.0)


def _mixed(result: TopicResult) -> Iterator[str]:
    foreign = _foreign(result)
    moved = percent(_misplaced(result))
    if foreign == "crc32":
        yield (
            "Set `partitioner=murmur2_random` in every librdkafka client that writes here, as Java's default "
            f"does: {moved} of the records with a key lie elsewhere now. The order of their keys breaks once "
            "at that point."
        )
    elif foreign == "fnv1a":
        yield (
            "Give the Sarama clients that write here a murmur2 partitioner, as Java's default is: "
            f"{moved} of the records with a key lie elsewhere now. The order of their keys breaks once at "
            "that point."
        )
    else:
        yield (
            f"Find the producers of the {moved} of the records with a key that murmur2 does not explain: "
            "they set `partitioner.ignore.keys`, a partitioner class of their own, or the partition itself."
        )


def _foreign(result: TopicResult) -> str:
    """The partitioner, other than murmur2, that fits most beyond chance."""
    chance = 1 / max(1, len(result.partitions))
    beyond = {
        name: fit - chance
        for name, fit in result.partitioners.items()
        if name not in {"murmur2", "other"} and fit - chance > chance * _misplaced(result)
    }
    return max(beyond, key=lambda name: beyond[name], default="other")


def _another_partitioner(result: TopicResult, names: list[str]) -> Iterator[str]:
    """For a topic that one partitioner, not Java's, places: what keeps it so."""
    if "mixed_partitioners" in names or len(result.partitions) < _TWO or _misplaced(result) < _STRAYS:
        return
    for name, setting in (("crc32", "consistent_random"), ("fnv1a", "fnv1a_random")):
        if 1 - result.partitioners.get(name, 0.0) < _STRAYS:
            yield (
                f"Keep every producer on the partitioner of the others (librdkafka's `{setting}`), or move "
                f"all to murmur2 at one time: a Java producer with its default puts "
                f"{percent(_misplaced(result))} of these records elsewhere."
            )
            return


def _repartitioned(result: TopicResult) -> Iterator[str]:
    yield (
        f"Until retention has removed the records from before the increase, which have "
        f"{percent(_misplaced(result))} of those with a key on other partitions than now, read them to their "
        f"end before those from after it wherever the order of a key matters."
    )


def _partitions(result: TopicResult, limits: Limits) -> Iterator[str]:
    """The count with the least predicted ratio, if that is lower than the present one for sure."""
    now, count = _ratio(result, limits), len(result.partitions)

    def ratio(one: WhatIf) -> Estimate:
        return one.byte_max_mean_ratio if limits.by == "bytes" else one.max_mean_ratio

    larger = [one for one in result.what_if if one.partitions > count]
    if not larger or now.value <= 1:
        return
    best = min(larger, key=lambda one: (round(ratio(one).value, 2), one.partitions))
    gain = ratio(best)
    if gain.high < now.low and gain.value <= now.value - WORTH_MOVING:
        yield (
            f"Of the counts tried, {best.partitions} partitions have the least ratio: {gain.value:.2f} "
            f"({gain.low:.2f} to {gain.high:.2f}) after {now.value:.2f}; {percent(best.keys_moved)} of the "
            f"keys move, with {percent(best.records_moved.value)} of the records, and the order of these "
            f"keys breaks at that point."
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
        fullest = max(one.share.value for one in result.partitions)
        yield (
            f"Group {group.name}: {useful} of its {members} members are of use, since one partition alone "
            f"has {percent(fullest)} of the records; its busiest member gets {percent(busiest)}."
        )

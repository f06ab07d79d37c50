"""What to do about a topic, computed from its result."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from spark_validation import salting
from spark_validation.imbalance import keys_needed, most_partitions
from spark_validation.observation import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_validation.results import Cause, Estimate, GroupResult, Limits, TopicResult, WhatIf

WORTH_MOVING = 0.1
"""By so much another partition count must lower the ratio, beyond the intervals, to be worth it."""
UNPLACED = 0.25
"""The share of records that no partitioner explains, from which predictions of other counts mean nothing."""
_STRAYS = 0.001
_TWO = 2


def advise(result: TopicResult, limits: Limits) -> tuple[str, ...]:
    """Sentences that follow from a result, the most telling cause's first.

    Args:
        result: With its causes.
        limits: The topic's policy; advice aims at a ratio of 1.5 where it has none.
    """
    names = [cause.name for cause in result.causes]
    if "empty" in names:
        return ()
    partitions = list(_partitions(result, limits))
    found = [sentence for cause in result.causes for sentence in _of(result, cause, limits, partitions)]
    if limits.max_key_share is not None and not {"hot_keys", "few_keys"} & set(names):
        found += _over_policy(result, limits)
    found += _another_partitioner(result, names)
    found += partitions
    for group in result.groups:
        found += _consumers(result, group)
    return tuple(found)


def _of(result: TopicResult, cause: Cause, limits: Limits, partitions: list[str]) -> Iterator[str]:
    """What one cause asks for; `partitions` is what is said of other partition counts."""
    match cause.name:
        case "hot_keys":
            yield from _hot(result, limits, partitions)
        case "bursty":
            yield from salting.bursting(result, cause)
        case "few_keys":
            yield from _few(result, limits)
        case "null_keys":
            yield from _nulls(result)
        case "mixed_partitioners":
            yield from _mixed(result)
        case "repartitioned":
            yield from _repartitioned(result)
        case _:
            return


def _ratio(result: TopicResult, by: str) -> Estimate:
    return (result.by_bytes if by == "bytes" else result.by_records).max_mean_ratio


def _target(limits: Limits) -> float:
    return limits.max_partition_ratio or salting.REACHABLE_RATIO


def _hot(result: TopicResult, limits: Limits, partitions: list[str]) -> Iterator[str]:
    by, target = limits.by, _target(limits)
    if _ratio(result, by).value <= target < _ratio(result, "bytes").value:
        by = "bytes"
    keys = salting.hottest(result, by)
    key_share = limits.max_key_share if by == limits.by else None
    yield from salting.salting(result, keys, by, ratio=target, key_share=key_share)
    if keys and not partitions:
        yield from salting.no_help(result, keys[0], by, ratio=target)


def _over_policy(result: TopicResult, limits: Limits) -> Iterator[str]:
    """Keys that make no skew, and yet have more than the policy allows."""
    most = limits.max_key_share or 1.0
    over = [key for key in salting.hottest(result, limits.by) if salting.share_of(key, limits.by) > most]
    yield from salting.salting(result, over, limits.by, ratio=_target(limits), key_share=most)


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
    """The count with the least predicted ratio, if that is lower than the present one for sure.

    Where earlier placements made the present ratio, the prediction for the present count is what another
    count has to beat.
    """
    count = len(result.partitions)

    def ratio(one: WhatIf) -> Estimate:
        return one.byte_max_mean_ratio if limits.by == "bytes" else one.max_mean_ratio

    names = {cause.name for cause in result.causes}
    replaced = bool({"repartitioned", "mixed_partitioners"} & names)
    if result.partitioners.get("other", 0.0) > UNPLACED and "repartitioned" not in names:
        return
    same = [ratio(one) for one in result.what_if if one.partitions == count]
    now = same[0] if replaced and same else _ratio(result, limits.by)
    larger = [one for one in result.what_if if one.partitions > count]
    if not larger:
        return
    best = min(larger, key=lambda one: (round(ratio(one).value, 2), one.partitions))
    then = ratio(best)
    if then.high < now.low and then.value <= now.value - WORTH_MOVING:
        yield (
            f"Of the counts tried, {best.partitions} partitions have the least ratio by {limits.by}: "
            f"{then.value:.2f} ({then.low:.2f} to {then.high:.2f}) after {now.value:.2f}; "
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
        fullest = max(one.share.value for one in result.partitions)
        yield (
            f"Group {group.name}: {useful} of its {members} members are of use, since one partition alone "
            f"has {percent(fullest)} of the records; its busiest member gets {percent(busiest)}."
        )

"""Advice on a topic: what follows from its causes, its counts and its policy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_validation import wording
from spark_validation.causes_placement import by_chance, misplaced_share, mixed_by_chance
from spark_validation.imbalance import keys_needed, most_partitions
from spark_validation.key_counts import suffix
from spark_validation.results import BurstFacts, Estimate
from spark_validation.salts import MOST_SALTS, split
from spark_validation.sampled_topic import LEAST_LIFT, NULLS_WORTH_NAMING, STANDS_OUT, max_over_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_validation.causes_placement import Placement
    from spark_validation.history import Histories
    from spark_validation.results import GroupResult, HotKeyResult, SkewCause, SkewLimits, TopicResult, WhatIf
    from spark_validation.salts import Loads


WORTH_MOVING = 0.1
"""The least decrease of the ratio, beyond the intervals, that makes another partition count worth it."""
_STRAYS = 0.001
"""Misplaced records below this share are strays, on which no advice is given."""


def advise(
    result: TopicResult,
    limits: SkewLimits,
    loads: Loads,
    placement: Placement | None = None,
    histories: Histories | None = None,
) -> tuple[str, ...]:
    """Return the advice that follows from a result, that on the main cause first.

    It is about what is written now: keys have the shares and partitions the loads of `loads`.

    Args:
        result: The result, with its causes.
        limits: The topic's policy; advice aims at a ratio of 1.5 where it has none.
        loads: The loads of `salts.partition_loads`, by `records` and `bytes`.
        placement: The partitioners that placed the keys; None if unknown.
        histories: Of the keys whose share is another one now; None if there are none.
    """
    names = [cause.name for cause in result.causes]
    if {"empty", "too_little_data"} & {*names}:
        return ()
    changed = {by: own for by, own in (histories or {}).items() if own}
    # Predictions for other counts are of the keys of the whole period.
    partitions = [] if changed else list(_advise_on_counts(result, limits))
    if changed:
        result = _replace_by_present(result, loads, changed)
    sentences = [
        sentence
        for cause in result.causes
        for sentence in _advise_on_cause(result, cause, limits, partitions, loads, placement)
    ]
    if not {"hot_keys", "few_keys"} & {*names}:
        if "repartitioned" in names and _stays_uneven(result, limits):
            sentences += _advise_on_hot_keys(result, limits, partitions, loads)
        elif limits.max_key_share is not None:
            sentences += _advise_on_policy(result, limits, loads)
    sentences += _advise_on_partitioner(result, names)
    sentences += partitions
    for group in result.groups:
        sentences += _advise_on_members(result, group)
    return tuple(sentences)


def _replace_by_present(result: TopicResult, loads: Loads, histories: Histories) -> TopicResult:
    """Return a result with the shares of keys and the fullest partitions of what is written now."""

    def now(key: HotKeyResult, by: str) -> Estimate:
        history = histories.get(by, {}).get(key.key_hash)
        return (
            (key.byte_share if by == "bytes" else key.share)
            if history is None
            else Estimate.exact(history.now)
        )

    return replace(
        result,
        hot_keys=tuple(
            replace(key, share=now(key, "records"), byte_share=now(key, "bytes")) for key in result.hot_keys
        ),
        **{
            name: replace(getattr(result, name), max_mean_ratio=Estimate.exact(max_over_mean(loads[by][0])))
            for name, by in (("by_records", "records"), ("by_bytes", "bytes"))
            if by in histories
        },
    )


def _advise_on_cause(
    result: TopicResult,
    cause: SkewCause,
    limits: SkewLimits,
    partitions: list[str],
    loads: Loads,
    placement: Placement | None,
) -> Iterator[str]:
    """Advise on one cause; `partitions` is the advice on other partition counts."""
    match cause.name:
        case "hot_keys":
            yield from _advise_on_hot_keys(result, limits, partitions, loads)
        case "bursty":
            if isinstance(cause.facts, BurstFacts):
                yield wording.advise_on_burst(cause.facts)
                if cause.facts.ongoing and "hot_keys" not in {other.name for other in result.causes}:
                    yield from _advise_on_hot_keys(result, limits, partitions, loads)
        case "few_keys":
            yield from _advise_on_few_keys(result, limits)
        case "null_keys" if cause.share_now is None or cause.share_now >= NULLS_WORTH_NAMING:
            yield wording.advise_on_null_keys(result.null_key_share.value)
        case "mixed_partitioners":
            yield from _advise_on_mix(result, placement)
        case "repartitioned":
            yield from _advise_on_increase(result, placement)
        case _:
            return


def _ratio(result: TopicResult, by: str) -> Estimate:
    return (result.by_bytes if by == "bytes" else result.by_records).max_mean_ratio


def _target(limits: SkewLimits) -> float:
    return limits.max_partition_ratio or REACHABLE_RATIO


def _advise_on_hot_keys(
    result: TopicResult, limits: SkewLimits, partitions: list[str], loads: Loads
) -> Iterator[str]:
    by, target = limits.by, _target(limits)
    if _ratio(result, by).value <= target < _ratio(result, "bytes").value:
        by = "bytes"
    keys = hottest(result, by)
    key_share = limits.max_key_share if by == limits.by else None
    yield from _advise_on_empty_key(keys, by)
    yield from salt_advice(result, keys, loads, by, ratio=target, key_share=key_share)
    if keys and not partitions:
        yield from futile_partitions(result, keys[0], by, ratio=target)


def _stays_uneven(result: TopicResult, limits: SkewLimits) -> bool:
    """Return whether a topic is too uneven once the records that an earlier count placed expire."""
    count = len(result.partitions)
    return any(
        _predicted_ratio(case, limits).low > _target(limits)
        for case in result.what_if
        if case.partitions == count
    )


def _predicted_ratio(case: WhatIf, limits: SkewLimits) -> Estimate:
    return case.byte_max_mean_ratio if limits.by == "bytes" else case.max_mean_ratio


def _advise_on_policy(result: TopicResult, limits: SkewLimits, loads: Loads) -> Iterator[str]:
    """Advise on keys that cause no skew but exceed the share that the policy allows."""
    key_share = limits.max_key_share or 1.0
    over = [key for key in hottest(result, limits.by) if share_of(key, limits.by) > key_share]
    if over:
        yield from _advise_on_empty_key(over, limits.by)
        ratio = max(_target(limits), _ratio(result, limits.by).value)
        yield from salt_advice(result, over, loads, limits.by, ratio=ratio, key_share=key_share)


def _advise_on_few_keys(result: TopicResult, limits: SkewLimits) -> Iterator[str]:
    keys, count, target = result.distinct_keys.value, len(result.partitions), _target(limits)
    fit = most_partitions(keys, target, count)
    if fit < count:
        yield wording.advise_finer_key(keys, count, target=target, fit=fit, needed=keys_needed(count, target))


def _advise_on_mix(result: TopicResult, placement: Placement | None) -> Iterator[str]:
    """Advise on several partitioners: only those at work now need a change."""
    mix = placement.mix if placement is not None else None
    misplaced = mix.misplaced if mix is not None else misplaced_share(result)
    if placement is None or mix is None:
        yield wording.find_producers(misplaced, "murmur2 does not explain")
        return
    if placement.ended:
        yield wording.advise_after_change(misplaced)
        return
    if mix.unknown:
        yield (
            wording.find_producers(misplaced, "murmur2 does not explain")
            if mix.shares_keys
            else wording.OWN_PARTITIONER
        )
        return
    if not placement.newest or not placement.newest.certain:
        yield wording.TOO_FEW_NEW
        return
    if placement.unknown_now and placement.strays:
        yield wording.find_stray_producer(placement.unknown, placement.strays)
    elif placement.unknown_now:
        yield wording.find_producers(placement.unknown, "no known partitioner explains")
    foreign = next((name for name in mix.shares if name not in {"murmur2", "other"}), None)
    few = mixed_by_chance(result.distinct_keys.value, len(result.partitions))
    if placement.mixed_now and foreign is not None and not few:
        yield wording.advise_one_partitioner(misplaced, foreign if "murmur2" in mix.shares else None)


def _advise_on_partitioner(result: TopicResult, names: list[str]) -> Iterator[str]:
    """Advise to keep the one partitioner of a topic, where that is not Java's."""
    count = len(result.partitions)
    misplaced = 1 - result.partitioners.get("murmur2", 1.0)
    if {"mixed_partitioners", "repartitioned"} & {*names} or count <= 1 or misplaced < _STRAYS:
        return
    if by_chance(result.distinct_keys.value, count):
        return
    for name, share in result.partitioners.items():
        if name != "other" and 1 - share < _STRAYS:
            yield wording.advise_same_partitioner(name, misplaced)
            return


def _advise_on_increase(result: TopicResult, placement: Placement | None) -> Iterator[str]:
    known = placement.repartition if placement else None
    misplaced = known.misplaced if known else misplaced_share(result)
    yield wording.advise_after_increase(misplaced, len(known.increases) if known else 1)


def _advise_on_counts(result: TopicResult, limits: SkewLimits) -> Iterator[str]:
    """Recommend the count with the lowest predicted ratio, if that is surely below the present one.

    It is compared with the prediction for the present count, and must reach the target.
    """
    count = len(result.partitions)
    predicted = [_predicted_ratio(case, limits) for case in result.what_if if case.partitions == count]
    present = predicted[0] if predicted else _ratio(result, limits.by)
    larger = [case for case in result.what_if if case.partitions > count]
    if not larger:
        return
    # Of counts with the same ratio to two places the smallest: each partition costs brokers and consumers.
    best = min(larger, key=lambda case: (round(_predicted_ratio(case, limits).value, 2), case.partitions))
    lowest = _predicted_ratio(best, limits)
    if lowest.value > _target(limits):
        return
    if lowest.high < present.low and lowest.value <= present.value - WORTH_MOVING:
        yield wording.advise_partition_count(best, lowest, present, limits.by)


def _advise_on_members(result: TopicResult, group: GroupResult) -> Iterator[str]:
    members = len(group.members)
    idle = sum(1 for member in group.members if not member.partitions)
    # A member cannot have less than one partition: the fullest one bounds how fast the group can be.
    useful = max(1, math.ceil(result.by_records.effective_parallelism.value - 1e-9))
    if idle:
        yield wording.count_idle_members(group.name, idle, members, group.assignor)
    if members - idle > useful:
        busiest = max(member.share for member in group.members)
        fullest = max(partition.share.value for partition in result.partitions)
        yield wording.count_useful_members(group.name, useful, members, fullest=fullest, busiest=busiest)


REACHABLE_RATIO = 1.5
"""The ratio that advice aims at where the policy sets none."""


def hottest(result: TopicResult, by: str) -> list[HotKeyResult]:
    """Return the keys that stand out by records or bytes, largest first."""
    keys = sorted(result.hot_keys, key=lambda key: -share_of(key, by))
    remaining = 1 - result.null_key_share.value
    hot = []
    for number, key in enumerate(keys, start=1):
        share = share_of(key, by)
        remaining -= share
        colder = max(1.0, result.distinct_keys.value - number)
        if share < STANDS_OUT * max(0.0, remaining) / colder or share * len(result.partitions) < LEAST_LIFT:
            break
        hot.append(key)
    return hot


def share_of(key: HotKeyResult, by: str) -> float:
    """Return a key's share of the records or bytes."""
    return key.byte_share.value if by == "bytes" else key.share.value


def salt_advice(
    result: TopicResult,
    keys: list[HotKeyResult],
    loads: Loads,
    by: str,
    *,
    ratio: float,
    key_share: float | None,
) -> Iterator[str]:
    """Advise how to split keys into salts that keep a ratio, and a share of each key (`salts.split`)."""
    shares = [share_of(key, by) for key in keys]
    over = key_share is not None and any(share > key_share for share in shares)
    everything, salted = loads[by]
    # Records that an earlier count placed may make the log more even than producers do now.
    if max(_ratio(result, by).value, max_over_mean(everything)) <= ratio and not over:
        return
    chosen = [(key, salted[key.key_hash]) for key in keys if key.key_length and key.key_hash in salted]
    # Other advice has records with an empty key sent without one: they are then spread evenly.
    for key in keys:
        if not key.key_length and key.key_hash in salted:
            own = salted[key.key_hash].loads
            everything = everything - own + own.sum() / len(own)
    goal = wording.name_goal(ratio, by, key_share)
    best = split(everything, [own for _, own in chosen], ratio=ratio, key_share=key_share)
    if best is None:
        largest = share_of(chosen[0][0], by) if chosen else 0.0
        yield wording.explain_no_split([key for key, _ in chosen], by, goal, largest, MOST_SALTS)
    elif best.salts:
        splits = [
            (chosen[number][0], [suffix(salt) for salt in salts]) for number, salts in best.suffixes.items()
        ]
        known = all(chosen[number][1].suffixed is not None for number in best.suffixes)
        yield wording.advise_split(splits, goal, best.ratio, known=known)


def _advise_on_empty_key(keys: list[HotKeyResult], by: str) -> Iterator[str]:
    """Advise to send null instead of a frequent empty key, which is hardly intended."""
    for key in keys:
        if not key.key_length:
            yield wording.advise_no_empty_key(share_of(key, by), by)


def futile_partitions(result: TopicResult, key: HotKeyResult, by: str, *, ratio: float) -> Iterator[str]:
    """Advise against more partitions where one key alone exceeds the ratio on the fewest of them."""
    share, count = share_of(key, by), len(result.partitions)
    counts = [case.partitions for case in result.what_if if case.partitions > count] or [2 * count]
    if share * counts[0] > ratio:
        yield wording.advise_against_partitions(key, share, by, (counts[0], counts[-1]))

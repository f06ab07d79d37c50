"""Advice on a topic: what follows from its causes, its counts and its policy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_validation import wording
from spark_validation.causes_placement import Placement, by_chance, misplaced_share, mixed_by_chance
from spark_validation.imbalance import keys_needed, most_partitions
from spark_validation.key_counts import suffix
from spark_validation.policy import key_share_of, ratio_of
from spark_validation.results import BurstFacts, Estimate, NullKeysFacts
from spark_validation.salts import MAX_SALTS, Split, TopicLoads, split
from spark_validation.sampled_topic import (
    MEASURES,
    MIN_HOT_KEY_LIFT,
    NULLS_WORTH_NAMING,
    STANDS_OUT,
    max_over_mean,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_validation.results import GroupResult, HotKeyResult, SkewCause, SkewLimits, TopicResult, WhatIf

WORTH_MOVING = 0.1
"""The least decrease of the ratio, beyond the intervals, that makes another partition count worth it."""
MIN_UNIQUE_KEY_SHARE = 0.5
"""From so many keys for each record on, a key has hardly more than one record."""
_STRAYS = 0.001
"""Misplaced records below this share are strays, on which no advice is given."""


def advise(
    result: TopicResult, limits: SkewLimits, loads: TopicLoads, placement: Placement | None = None
) -> tuple[str, ...]:
    """Return the advice that follows from a result, that on the main cause first.

    It is about what is written now: keys have the shares and partitions the loads of `loads`.

    Args:
        result: The result, with its causes.
        limits: The topic's policy; advice aims at a ratio of 1.5 where it has none.
        loads: The loads of `salts.partition_loads`.
        placement: The partitioners that placed the keys; None if unknown.
    """
    names = [cause.name for cause in result.causes]
    if {"empty", "too_little_data"} & {*names}:
        return ()
    # Predictions for other counts are of the keys of the whole period.
    partitions = [] if loads.histories else list(_advise_on_counts(result, limits))
    result = _replace_by_present(result, loads)
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
    # Keys that are hot by records and others by bytes are two causes, with the same advice.
    return tuple(dict.fromkeys(sentences))


def _replace_by_present(result: TopicResult, loads: TopicLoads) -> TopicResult:
    """Return a result with the shares of keys and the fullest partitions of what is written now."""

    def now(key: HotKeyResult, by: str) -> Estimate:
        history = loads.histories.get(by, {}).get(key.key_hash)
        if history is None:
            return key_share_of(key, by)
        return Estimate.exact(history.now)

    return replace(
        result,
        hot_keys=tuple(
            replace(key, share=now(key, "records"), byte_share=now(key, "bytes")) for key in result.hot_keys
        ),
        **{
            f"by_{by}": replace(
                getattr(result, f"by_{by}"), max_mean_ratio=Estimate.exact(max_over_mean(load))
            )
            for by, load in zip(MEASURES, loads.partitions, strict=True)
            if by in loads.histories
        },
    )


def _advise_on_cause(
    result: TopicResult,
    cause: SkewCause,
    limits: SkewLimits,
    partitions: list[str],
    loads: TopicLoads,
    placement: Placement | None,
) -> Iterator[str]:
    """Advise on one cause; `partitions` is the advice on other partition counts."""
    match cause.name:
        case "hot_keys":
            yield from _advise_on_hot_keys(result, limits, partitions, loads)
        case "bursty":
            if isinstance(cause.facts, BurstFacts):
                yield wording.advise_on_burst(cause.facts)
                if cause.facts.ongoing and "hot_keys" not in {each.name for each in result.causes}:
                    yield from _advise_on_hot_keys(result, limits, partitions, loads)
        case "few_keys":
            yield from _advise_on_few_keys(result, limits)
        case "null_keys" if cause.share_now is None or cause.share_now >= NULLS_WORTH_NAMING:
            chosen = cause.facts.chosen_partitions if isinstance(cause.facts, NullKeysFacts) else ()
            yield wording.advise_on_null_keys(result.null_key_share.value, chosen)
        case "mixed_partitioners":
            yield from _advise_on_mix(result, placement)
        case "repartitioned":
            yield from _advise_on_increase(result, placement)
        case _:
            return


def _target(limits: SkewLimits) -> float:
    return limits.max_partition_ratio or REACHABLE_RATIO


def _advise_on_hot_keys(
    result: TopicResult, limits: SkewLimits, partitions: list[str], loads: TopicLoads
) -> Iterator[str]:
    target = _target(limits)
    # Records that an earlier count placed may make the log more even than producers do now.
    over = [
        by
        for by, load in zip(MEASURES, loads.partitions, strict=True)
        if max(ratio_of(result, by).value, max_over_mean(load)) > target
    ]
    # A key's share is limited by the first measure.
    measures = sorted({*over} or {limits.by}, key=lambda by: by != limits.by)
    keys = _hottest_by(result, measures, loads)
    key_share = limits.max_key_share if measures[0] == limits.by else None
    if not keys and over and result.distinct_keys.value > MIN_UNIQUE_KEY_SHARE * _count_keyed(result):
        yield wording.explain_unique_keys(wording.name_goal(target, measures, None))
        return
    yield from _advise_on_empty_key(keys, measures[0])
    yield from salt_advice(keys, loads, measures, ratio=target, key_share=key_share)
    if not partitions:
        named: set[str] = set()
        for by in measures:
            hot = next(iter(_hottest_by(result, [by], loads)), None)
            if hot is not None and hot.key_hash not in named:
                named.add(hot.key_hash)
                yield from futile_partitions(result, hot, by, ratio=target)


def _count_keyed(result: TopicResult) -> float:
    """Return the records with a key."""
    written = sum(partition.records.value for partition in result.partitions)
    return written * (1 - result.null_key_share.value)


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


def _advise_on_policy(result: TopicResult, limits: SkewLimits, loads: TopicLoads) -> Iterator[str]:
    """Advise on keys that cause no skew but exceed the share that the policy allows."""
    key_share = limits.max_key_share or 1.0
    over = [key for key in hottest(result, limits.by) if share_of(key, limits.by) > key_share]
    if over:
        yield from _advise_on_empty_key(over, limits.by)
        load = loads.partitions[MEASURES.index(limits.by)]
        ratio = max(_target(limits), ratio_of(result, limits.by).value, max_over_mean(load))
        yield from salt_advice(over, loads, [limits.by], ratio=ratio, key_share=key_share)


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
    present = predicted[0] if predicted else ratio_of(result, limits.by)
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
        if (
            share < STANDS_OUT * max(0.0, remaining) / colder
            or share * len(result.partitions) < MIN_HOT_KEY_LIFT
        ):
            break
        hot.append(key)
    return hot


def share_of(key: HotKeyResult, by: str) -> float:
    """Return a key's share of the records or bytes."""
    return key.byte_share.value if by == "bytes" else key.share.value


def _hottest_by(result: TopicResult, measures: Sequence[str], loads: TopicLoads) -> list[HotKeyResult]:
    """Return the keys that stand out by any measure and can be split, largest first."""
    keys = {key.key_hash: key for by in measures for key in hottest(result, by)}
    return sorted(
        (key for key in keys.values() if key.key_hash in loads.keys),
        key=lambda key: -max(share_of(key, by) for by in measures),
    )


def salt_advice(
    keys: list[HotKeyResult],
    loads: TopicLoads,
    measures: Sequence[str],
    *,
    ratio: float,
    key_share: float | None,
) -> Iterator[str]:
    """Advise how to split keys into salts that keep a ratio by each measure, and a share of each key.

    Where no split keeps it by both, that by each is advised.
    """
    everything = loads.partitions
    chosen = [(key, loads.keys[key.key_hash]) for key in keys if key.key_length]
    # Other advice has records with an empty key sent without one: they are then spread evenly.
    for key in keys:
        if not key.key_length:
            own = loads.keys[key.key_hash].loads
            everything = everything - own + own.mean(axis=1, keepdims=True)
    salted = [own for _, own in chosen]

    def find_split(measures: Sequence[str], key_share: float | None) -> Split | None:
        indices = [MEASURES.index(by) for by in measures]
        return split(everything, salted, indices, ratio=ratio, key_share=key_share or 1.0)

    best = find_split(measures, key_share)
    if best is None and measures[1:]:
        first, second = find_split(measures[:1], key_share), find_split(measures[1:], None)
        if first or (second and key_share is None):
            yield from salt_advice(keys, loads, measures[:1], ratio=ratio, key_share=key_share)
            yield from salt_advice(keys, loads, measures[1:], ratio=ratio, key_share=None)
            return
    goal = wording.name_goal(ratio, measures, key_share)
    if best is None:
        by = measures[0]
        largest = max((share_of(key, by) for key, _ in chosen), default=0.0)
        yield wording.explain_no_split([key for key, _ in chosen], by, goal, largest, MAX_SALTS)
    elif best.salts:
        split_keys = [chosen[number][1] for number in best.suffixes]
        is_text = all(own.is_text for own in split_keys)
        known = all(own.suffixed is not None for own in split_keys)
        splits = [
            (chosen[number][0], [suffix(salt) if is_text else str(salt) for salt in salts])
            for number, salts in best.suffixes.items()
        ]
        after = wording.join_ratios(best.ratios, measures)
        if is_text:
            yield wording.advise_split(splits, goal, after, known=known)
        else:
            yield wording.advise_spread(splits, goal, after)


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

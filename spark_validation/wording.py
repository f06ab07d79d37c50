"""The words of an analysis: every sentence on causes, advice, notes and reasons, made from figures."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, assert_never

from spark_validation.figures import format_count, percent, ratio
from spark_validation.results import (
    PARTITIONER_NAMES,
    BalancedFacts,
    BurstFacts,
    EmptyFacts,
    Estimate,
    FewKeysFacts,
    HotKeyResult,
    HotKeysFacts,
    KeyShare,
    LittleDataFacts,
    MixedFacts,
    NullKeysFacts,
    OwnPlacement,
    PartitionIncrease,
    RepartitionFacts,
    SkewCause,
    Step,
    UnexplainedFacts,
    WhatIf,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_validation.arrivals import TopicArrivals

DIAGNOSES = {
    "balanced": "balanced",
    "hot_keys": "hot keys",
    "few_keys": "too few keys",
    "null_keys": "null keys",
    "mixed_partitioners": "mixed partitioners",
    "repartitioned": "repartitioned",
    "bursty": "bursty",
    "unknown": "cause not known",
    "too_little_data": "too little data",
    "empty": "empty",
}
"""The diagnoses in words."""
_MAX_KEYS = 3
"""The most keys that a sentence names."""
_MAX_STEPS = 3
"""The most partitions whose offsets a sentence gives."""
_MAX_PARTITIONS = 8
"""The most partitions that a note names one by one."""
_MAX_LOST = 5
_FEWER = "in a new topic that `succeeds` this one or, if the records may go, by `recreate` in the manifest"
_FINER_KEY = "choose a finer key for all, such as one with a second field"
# By hash: three of the seven partitioners differ only in what they make of FNV-1a's sign.
_HASH_NAMES = ("murmur2", "CRC32", "FNV-1a", "kafkajs's LegacyPartitioner", "xxHash32")
_HASHES = ", ".join(_HASH_NAMES)

_CLIENTS = {
    "crc32": "librdkafka clients",
    "fnv1a": "Sarama clients",
    "fnv1a_masked": "Go clients",
    "fnv1a_unsigned": "franz-go clients",
    "murmur2_kafkajs": "kafkajs producers",
    "xxhash32": "kafka-rust producers",
}
"""The clients whose default is each partitioner other than Java's."""

_JAVA_SETTINGS = {
    "crc32": "Set `partitioner=murmur2_random`",
    "murmur2_kafkajs": "Set `createPartitioner: Partitioners.JavaCompatiblePartitioner`",
}
"""The settings with which such clients place keys as Java's producer does."""

_OWN_SETTINGS = {
    "crc32": "librdkafka's `consistent_random`",
    "fnv1a": "librdkafka's `fnv1a_random`",
    "fnv1a_masked": "Sarama's `NewReferenceHashPartitioner`",
    "fnv1a_unsigned": "franz-go's `SaramaHasher`",
    "murmur2_kafkajs": "kafkajs's `Partitioners.LegacyPartitioner`",
    "xxhash32": "kafka-rust's `DefaultPartitioner`",
}
"""The setting that selects each partitioner other than Java's."""


# --- figures -------------------------------------------------------------------------------------------


def times_mean(number: float) -> str:
    """Return a ratio in words."""
    return f"{ratio(number)} times the mean"


def utc(milliseconds: float, *, within: float = 0.0) -> str:
    """Format a time as 2026-11-01 00:00:00 UTC, with milliseconds where they matter.

    Args:
        milliseconds: Since 1970.
        within: The milliseconds between it and the time that it is compared with: below a minute, they
            matter.
    """
    time = datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
    precise = "milliseconds" if 0 < within < 60_000 else "seconds"
    return f"{time.replace(tzinfo=None).isoformat(sep=' ', timespec=precise)} UTC"


def _format_span(start: float, end: float) -> tuple[str, str]:
    return utc(start, within=end - start), utc(end, within=end - start)


def join_items(items: Sequence[str], conjunction: str = "and") -> str:
    """Join items as `a`, `a and b`, or `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {conjunction} {items[-1]}"


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def name_diagnosis(name: str) -> str:
    """Return a diagnosis or a cause in words."""
    return DIAGNOSES.get(name) or name.replace("_", " ")


def name_key(key: HotKeyResult | KeyShare | BurstFacts) -> str:
    """Name a key within a sentence: by the start of its hash, or as the empty key."""
    return f"key {key.key_hash}" if key.key_length else "the empty key"


def _name_partitions(partitions: Sequence[int], most: int = _MAX_PARTITIONS) -> str:
    if len(partitions) > most:
        return f"{len(partitions)} partitions"
    return f"partition{'s' if partitions[1:] else ''} {join_items([str(number) for number in partitions])}"


# --- causes --------------------------------------------------------------------------------------------


def describe_cause(cause: SkewCause) -> str:
    """Return the facts of a cause as one sentence or more."""
    placement = _describe_placement(cause.placement) if cause.placement else ""
    return _describe_facts(cause) + _describe_history(cause) + placement


def _describe_history(cause: SkewCause) -> str:
    """Describe since when and until when a cause held; empty if it held all the time."""
    changes = [
        f"{verb} about {utc(at)}"
        for verb, at in (("began", cause.since_ms), ("ended", cause.until_ms))
        if at is not None
    ]
    when = " since then" if changes else " now"
    if not changes and cause.times is not None:
        often = f"was there {cause.times} times and comes back" if cause.times > 1 else "comes and goes"
        changes, when = [often], " then"
    if cause.share_now is not None:
        changes.append(f"has a share of {percent(cause.share_now)}{when}")
    return f" This {join_items(changes)}." if changes else ""


def _describe_facts(cause: SkewCause) -> str:
    match cause.facts:
        case None:
            return cause.evidence
        case EmptyFacts(read):
            return f"There are no records{' in the sample' if read else ''}."
        case LittleDataFacts(written, fewest):
            noun = "record was" if written == 1 else "records were"
            return f"{written:,} {noun} written in the period; fewer than {fewest} are too few to judge."
        case BalancedFacts() as facts:
            return _describe_balance(facts)
        case UnexplainedFacts() as facts:
            return _describe_unexplained(facts)
        case HotKeysFacts() as facts:
            return _describe_hot_keys(facts)
        case FewKeysFacts() as facts:
            return _describe_few_keys(facts)
        case NullKeysFacts() as facts:
            return _describe_null_keys(facts)
        case BurstFacts() as facts:
            return _describe_burst(facts)
        case MixedFacts() as facts:
            return _describe_mix(facts)
        case RepartitionFacts() as facts:
            return _describe_repartition(facts)
        case other:
            assert_never(other)


def _describe_balance(facts: BalancedFacts) -> str:
    if facts.partition_count == 1:
        return "The topic has only one partition."
    text = (
        f"The fullest partition has {times_mean(facts.record_ratio.value)} by records and "
        f"{ratio(facts.byte_ratio.value)} by bytes"
    )
    if facts.largest_key:
        text += f"; the most frequent key has {percent(facts.largest_key)} of the records"
    if facts.null_key_share.value:
        text += f"; {percent(facts.null_key_share.value)} have no key"
    if facts.by_chance is not None:
        text += f"; keys of these sizes reach {ratio(facts.by_chance)} by chance"
    return f"{text}."


def _describe_unexplained(facts: UnexplainedFacts) -> str:
    text = f"Partition {facts.fullest} has {times_mean(facts.ratio.value)} by {facts.by}"
    if facts.by == "bytes":
        text += f" (by records the fullest has {ratio(facts.record_ratio.value)})"
    if facts.reason == "keys_withheld":
        return f"{text}; the keys that cause it are not known."
    if facts.reason == "own_partitioner":
        return f"{text}, and no frequent key causes it."
    if facts.reason == "no_keys":
        return f"{text}, though no record has a key."
    # What a partition has is its number of keys times their mean size: one of the two is above the others'.
    larger = facts.ratio.value / max(facts.key_ratio, 1e-12)
    surplus = (
        f"it has {ratio(facts.key_ratio)} times as many keys as the mean partition"
        if facts.key_ratio > larger
        else f"its keys are {ratio(larger)} times as large as those of the mean partition"
    )
    return (
        f"{text}; no few keys cause it, but {surplus}: the largest has {percent(facts.largest_key)}, the "
        f"{facts.examined_keys} largest have {percent(facts.largest_keys)} of the {facts.by}."
    )


def _describe_hot_keys(facts: HotKeysFacts) -> str:
    keys, named = facts.keys, facts.keys[:_MAX_KEYS]
    if len(keys) == 1:
        subject, it = f"{_capitalise(name_key(keys[0]))} has", "it"
    else:
        # "Keys a, b and c", but "Key a and the empty key".
        noun = "keys " if all(key.key_length for key in named) else ""
        names = [
            f"{name_key(key).removeprefix('key ' if noun else '')} ({percent(key.share)})" for key in named
        ]
        further = len(keys) - len(named)
        joined = f"{', '.join(names)} and {further} more" if further else join_items(names)
        subject, it = f"{_capitalise(noun + joined)} have", "them"
    text = (
        f"{subject} {percent(sum(key.share for key in keys))} of the {facts.by}; the fullest partition, "
        f"{facts.fullest}, has {times_mean(facts.ratio.value)}, and would have {ratio(facts.ratio_without)} "
        f"without {it}."
    )
    return text + (
        f" By records the ratio is {ratio(facts.record_ratio.value)}." if facts.by == "bytes" else ""
    )


def _describe_few_keys(facts: FewKeysFacts) -> str:
    distinct, keyless = facts.distinct_keys.value, facts.keyless_partitions
    keys = f"{distinct:,.0f} distinct keys are" if round(distinct) > 1 else "One distinct key is"
    without = ""
    if keyless:
        without = f", and {f'{keyless} partitions have' if keyless > 1 else 'one partition has'} none"
    return (
        f"{keys} too few for {facts.partition_count} partitions{without}: even equally frequent keys would "
        f"by chance give the fullest partition {times_mean(facts.ratio_by_chance)}; it has "
        f"{ratio(facts.ratio.value)}{' by bytes' if facts.by == 'bytes' else ''}."
    )


def _describe_null_keys(facts: NullKeysFacts) -> str:
    share, spread = facts.null_key_share.value, f"spread {facts.spread}"
    if facts.chosen_partitions:
        spread = f"put on {_name_partitions(facts.chosen_partitions)} by their producers"
    if facts.spread == "in batches":
        spread += (
            f" (their share varies {ratio(facts.dispersion or 0)} times as much between windows as by chance)"
        )
    subject = "No record has a key" if share == 1 else f"{percent(share)} of the records have no key"
    return (
        f"{subject}; they are {spread}, with {ratio(facts.null_ratio)} times their mean on the "
        f"fullest partition, and have no order relative to each other."
    )


def _describe_burst(facts: BurstFacts) -> str:
    burst, usual = percent(facts.burst_share), percent(facts.usual_share)
    if facts.partition is None:
        return (
            f"{_capitalise(name_key(facts))} has {burst} of the {facts.by} in part {facts.part} of "
            f"{facts.parts} equal parts of the log (it occurs in {facts.parts_with_key} of them), and "
            f"{usual} overall."
        )
    start, end = _format_span(facts.start_ms, facts.end_ms)
    text = (
        f"Partition {facts.partition} got {burst} of the {facts.by} from {start} to {end} "
        f"({times_mean(facts.burst_share * facts.partition_count)}), and {usual} overall"
    )
    if facts.key_hash is not None:
        text += f"; {name_key(facts)} causes it"
        text += f", with up to {ratio(facts.key_peak)} times its overall share" if facts.key_peak else ""
    text += ". This lasts to the end of the log." if facts.ongoing else "."
    others = facts.other_partitions
    return text + (f" {format_count(others, 'other partition')} had bursts too." if others else "")


def _describe_mix(facts: MixedFacts) -> str:
    keys, chance = facts.shared_keys, percent(facts.chance)
    noun = f"{keys:,} sampled keys are" if keys > 1 else f"{'one' if keys else 'no'} sampled key is"
    shared = f"{noun} on several partitions{', which breaks the order of their records' if keys else ''}"
    if set(facts.partitioner_shares) == {"other"}:
        return (
            f"No known partitioner explains where the records are: {join_items(_HASH_NAMES)} each fit no "
            f"more of them than chance would ({chance}), and {shared}; such keys "
            f"have {percent(facts.shared_records)} of the records with a key: producers ignore the key or "
            "choose partitions themselves."
        )
    unknown = "an unknown partitioner"
    if facts.stray_partitions:
        unknown = f"producers that set {_name_partitions(facts.stray_partitions)} themselves"
    shares = [
        f"{PARTITIONER_NAMES.get(name, unknown)} {percent(share)}"
        for name, share in facts.partitioner_shares.items()
    ]
    return (
        f"{percent(facts.misplaced)} of the records with a key are not where "
        f"{PARTITIONER_NAMES[facts.main]} puts them; corrected for chance ({chance}), the records were "
        f"placed by: {join_items(shares)}; {shared}{_describe_extent(facts)}."
    )


def _describe_extent(facts: MixedFacts) -> str:
    """Describe in which part of the log misplaced records lie, and whether that has ended."""
    if facts.now is None:
        if not facts.parts:
            return ""
        if facts.last_part - facts.first_part + 1 == facts.parts:
            return "; misplaced records are in every part of the log"
        return (
            f"; misplaced records are in parts {facts.first_part} to {facts.last_part} of {facts.parts} "
            "equal parts of the log"
        )
    text = "; this ended"
    if facts.ended_after_ms is not None and facts.ended_before_ms is not None:
        after, before = _format_span(facts.ended_after_ms, facts.ended_before_ms)
        text += f" between {after} and {before}"
    text += f" ({_describe_offsets(facts.steps)})" if facts.steps else ""
    return f"{text}: all newer records are where {PARTITIONER_NAMES[facts.now]} puts them"


def _describe_repartition(facts: RepartitionFacts) -> str:
    increases = facts.increases
    counts = join_items([str(increase.earlier) for increase in increases], "or")
    explained = "all" if facts.explained > 0.999 else percent(facts.explained)
    earlier = list(dict.fromkeys(name for increase in increases for name in increase.partitioners))
    who = f"{join_items([_name_briefly(name) for name in earlier])} put" if earlier[1:] else "it puts"
    text = (
        f"{percent(facts.misplaced)} of the records with a key are not where "
        f"{_name_briefly(increases[-1].partitioners[0])} puts them with {facts.partition_count} partitions, "
        f"and {explained} of these are where {who} them with {counts}: the partition count was increased"
        f"{_describe_increases(increases)}"
    )
    if facts.steps:
        text += f"; by offset, {_describe_offsets(facts.steps)}"
    if facts.newer is not None:
        text += f"; newer records are where {PARTITIONER_NAMES[facts.newer]} puts them"
    keys = facts.shared_keys
    if not keys:
        return f"{text}; the next record of such a key goes to another partition, and its order breaks there."
    return (
        f"{text}; {keys:,} sampled key{'s are' if keys > 1 else ' is'} on several partitions, and the order "
        f"of a key's records breaks at {'these points' if increases[1:] else 'that point'}."
    )


def _name_briefly(partitioner: str) -> str:
    return "murmur2" if partitioner == "murmur2" else PARTITIONER_NAMES[partitioner]


def _describe_offsets(steps: Sequence[Step]) -> str:
    shown = [f"{step.partition} between {step.start:,} and {step.end:,}" for step in steps[:_MAX_STEPS]]
    if len(steps) > _MAX_STEPS:
        return f"in partition {', '.join(shown)}, and in {len(steps) - _MAX_STEPS} more"
    return f"in partition {join_items(shown)}"


def _describe_increases(increases: Sequence[PartitionIncrease]) -> str:
    if len(increases) == 1 and increases[0].known is None:
        return _describe_time(increases[0])
    each = [
        f" from {increase.earlier} to {increase.later}{_describe_time(increase)}" for increase in increases
    ]
    return ", and".join(each)


def _describe_time(increase: PartitionIncrease) -> str:
    last, first = increase.last_before_ms, increase.first_after_ms
    if increase.known is not None:
        since, until = utc(increase.known.since_ms), utc(increase.known.until_ms)
        at = f"at {since}" if since == until else f"between {since} and {until}"
        return f" {at} ({increase.known.source})"
    if last is None:
        return " (the time is unknown: timestamps do not show it)"
    if first is None:
        return f" after {utc(last)}"
    # Producers use the earlier count until their metadata is refreshed: the two times may overlap.
    after, before = _format_span(min(last, first), max(last, first))
    return f" between {after} and {before}"


def _describe_placement(placement: OwnPlacement) -> str:
    if placement.partitioner is not None and placement.java_misplaced is not None:
        return (
            f" All keys are where {PARTITIONER_NAMES[placement.partitioner]} puts them: a Java producer with "
            f"its default partitioner would put {percent(placement.java_misplaced)} of the keys on other "
            "partitions."
        )
    stays = "nearly all keys stay" if placement.shared_keys else "each key stays"
    return (
        f" No known partitioner ({_HASHES}) explains where the keys are, yet {stays} on one partition: "
        "producers choose partitions themselves."
    )


# --- advice --------------------------------------------------------------------------------------------


def advise_on_burst(facts: BurstFacts) -> str:
    """Advise what to check: the key that bursts, or else the partition."""
    when = "now" if facts.ongoing else "at that time"
    if facts.key_hash is None:
        return f"Check what is written to that partition {when}: no single frequent key explains the burst."
    times = f", up to {ratio(facts.key_peak)} times its overall share" if facts.key_peak else ""
    return (
        f"Check what writes {name_key(facts)} {when}: spread its writes over time, or size consumers for its "
        f"share during the burst{times}."
    )


def advise_finer_key(keys: float, partitions: int, *, target: float, fit: int, needed: int) -> str:
    """Advise a finer key, where so few keys keep the target ratio on fewer partitions only (`fit`)."""
    subject = f"{keys:,.0f} equally frequent keys stay" if round(keys) > 1 else "One key stays"
    return (
        f"{subject} within a ratio of {target:g} on at most {format_count(fit, 'partition')}; "
        f"{partitions} partitions need about {needed:,} keys. If order within each current key is not "
        f"needed, choose a finer key, such as one with a second field; or use fewer partitions, {_FEWER}."
    )


def advise_on_null_keys(share: float, chosen: Sequence[int]) -> str:
    """Advise to add a key, or to declare that there is none; or to leave the partition to the partitioner."""
    if chosen:
        return (
            f"Find the producer that sets {_name_partitions(chosen)} itself for records without a key, and "
            "let it leave the partition to its partitioner, which spreads them; if the order of related "
            f"records matters, add a key to the {percent(share)} of records that have none."
        )
    return (
        f"If the order of related records matters, add a key to the {percent(share)} of records that "
        f"have none; if it does not, declare the topic `keyed: false`."
    )


def advise_same_partitioner(partitioner: str, java_misplaced: float) -> str:
    """Advise to keep the one partitioner of a topic, which is not Java's."""
    return (
        f"Keep every producer on the same partitioner ({_OWN_SETTINGS[partitioner]}): a Java producer with "
        f"its default partitioner would put {percent(java_misplaced)} of these records on other partitions."
    )


def advise_after_increase(misplaced: float, increases: int) -> str:
    """Advise how to read records that an earlier partition count placed."""
    last = "last " if increases > 1 else ""
    return (
        f"Until retention has removed the records from before the {last}increase, read these completely "
        f"before the newer ones wherever the order of a key matters: {percent(misplaced)} of the records "
        f"with a key are not on the partition that their key has now."
    )


def advise_after_change(misplaced: float) -> str:
    """Advise how to read records that an earlier partitioner placed."""
    return (
        "No producer needs to change. Until retention has removed the older records, read these "
        f"completely before the newer ones wherever the order of a key matters: {percent(misplaced)} of the "
        "records with a key are not on the partition that their key has now."
    )


OWN_PARTITIONER = (
    "The producers' own partitioner decides how full partitions are: to even them out, let it divide "
    "the largest groups of keys, for example by hashing more of the key, or choose a finer key. The "
    "order of keys that move breaks at that point."
)
TOO_FEW_NEW = (
    "The newest records are too few to show whether several partitioners are still at work: read "
    "more records, or only new ones (`--since`), before any producer is changed."
)


def find_producers(share: float, explained_by: str) -> str:
    """Advise to find the producers of records that no known partitioner placed, or one does not explain."""
    return (
        f"Find the producers of the {percent(share)} of the records with a key that {explained_by}: "
        "they set `partitioner.ignore.keys`, use a custom partitioner class, or set the partition."
    )


def find_stray_producer(share: float, partitions: Sequence[int]) -> str:
    """Advise to find the producer that sets a few partitions itself."""
    return (
        f"Find the producer that sets {_name_partitions(partitions)} itself for {percent(share)} of the "
        "records with a key, and let it leave the partition to its partitioner."
    )


def advise_one_partitioner(misplaced: float, foreign: str | None) -> str:
    """Advise to give all producers the same partitioner: Java's instead of the foreign one, if given."""
    how = "Configure the same partitioner in every producer that writes"
    if foreign is not None:
        setting = _JAVA_SETTINGS.get(foreign, "Configure a murmur2 partitioner")
        how = f"{setting}, which matches Java's default, in the {_CLIENTS[foreign]} that write"
    return (
        f"{how} to this topic: {percent(misplaced)} of the records with a key are on other "
        "partitions now. The order of their keys breaks once, at the switch."
    )


def advise_partition_count(case: WhatIf, predicted: Estimate, present: Estimate, by: str) -> str:
    """Advise a partition count with a lower ratio than the present one."""
    return (
        f"Of the counts tried, {case.partitions} partitions have the lowest ratio by {by}: "
        f"{ratio(predicted.value)} ({ratio(predicted.low)} to {ratio(predicted.high)}) instead of "
        f"{ratio(present.value)}; {percent(case.keys_moved)} of the keys move, with "
        f"{percent(case.records_moved.value)} of the records, and the order of these keys breaks at that "
        f"point."
    )


def count_idle_members(group: str, idle: int, members: int, assignor: str) -> str:
    """State how many members of a group get no partition."""
    return (
        f"Group {group}: {idle} of its {members} members {'get' if idle > 1 else 'gets'} no "
        f"partition of this topic under {assignor}."
    )


def count_useful_members(group: str, useful: int, members: int, *, fullest: float, busiest: float) -> str:
    """State how many members of a group are useful beside the fullest partition."""
    return (
        f"Group {group}: only {useful} of its {members} members {'are' if useful > 1 else 'is'} useful, "
        f"since one partition alone has {percent(fullest)} of the records; its busiest member gets "
        f"{percent(busiest)}."
    )


def name_goal(most: float, measures: Sequence[str], key_share: float | None) -> str:
    """Name the limits that a split of keys is to keep."""
    share = f" and a key share of {percent(key_share)}" if key_share else ""
    return f"a ratio of {most:g} by {join_items(measures)}{share}"


def join_ratios(ratios: Sequence[float], measures: Sequence[str]) -> str:
    """Join the ratios of one or both measures."""
    texts = [ratio(value) for value in ratios]
    if len({*texts}) == 1:
        return f"{texts[0]} times the mean"
    return f"{texts[0]} times the mean by {measures[0]} and {texts[1]} by {measures[1]}"


def explain_unique_keys(goal: str) -> str:
    """Explain that keys of hardly more than one record each cannot be split."""
    return (
        f"For {goal}, make the largest records smaller, or use fewer partitions, {_FEWER}: keys have hardly "
        "more than one record each, and no split divides a record."
    )


def explain_no_split(
    keys: Sequence[HotKeyResult], by: str, goal: str, largest: float, most_salts: int
) -> str:
    """Explain that no split of keys reaches a goal.

    Args:
        keys: The keys that were tried, largest first.
        by: `records` or `bytes`.
        goal: The goal (`name_goal`).
        largest: The share of the largest key.
        most_salts: The most salts that are advised.
    """
    if not keys:
        return f"For {goal}, {_FINER_KEY}: no single key is worth splitting."
    subject = "frequent keys" if keys[1:] else name_key(keys[0])
    return (
        f"Splitting {subject} is not enough for {goal}, or would take more than {most_salts} salts: give "
        f"{name_key(keys[0])} ({percent(largest)} of the {by}) a topic of its own, or {_FINER_KEY}."
    )


def advise_split(
    splits: Sequence[tuple[HotKeyResult, Sequence[str]]], goal: str, after: str, *, known: bool
) -> str:
    """Advise to split keys into salts.

    Args:
        splits: Each key with the suffixes of its salts.
        goal: The goal (`name_goal`).
        after: The ratio after the split.
        known: Whether the partitioner is known, so that the suffixes hold for every producer.
    """
    parts: list[str] = []
    for key, suffixes in splits[:_MAX_KEYS]:
        noun = "" if parts else " salts"
        named = f" ({_join_suffixes(suffixes)})" if known else ""
        parts.append(f"{name_key(key)} into {len(suffixes)}{noun}{named}")
    counts = [len(suffixes) for _, suffixes in splits[_MAX_KEYS:]]
    if counts:
        into = f"{min(counts)} to {max(counts)} each" if min(counts) < max(counts) else f"{counts[0]} each"
        parts.append(f"{len(counts)} more keys into {into}" if counts[1:] else f"1 more key into {counts[0]}")
    how = ", by suffixes that their partitioner puts on different partitions, the emptiest first"
    if known:
        how = ", by appending these suffixes, chosen to lead to different partitions"
        if counts:
            how += " (choose those of the other keys likewise, by partitioner(key + suffix))"
    return (
        f"To stay within {goal}, split {join_items(parts)}{how}: the fullest then has {after}"
        ". Order is kept only within a salt."
    )


def _join_suffixes(suffixes: Sequence[str]) -> str:
    """Join suffixes, three or more in a row as `#0 to #4`."""
    runs: list[list[str]] = []
    for suffix in suffixes:
        if runs and int(suffix[1:]) == int(runs[-1][-1][1:]) + 1:
            runs[-1].append(suffix)
        else:
            runs.append([suffix])
    return join_items([item for run in runs for item in ([f"{run[0]} to {run[-1]}"] if run[2:] else run)])


def advise_spread(splits: Sequence[tuple[HotKeyResult, Sequence[str]]], goal: str, after: str) -> str:
    """Advise to spread keys that take no suffix; arguments as of `advise_split`, with partitions."""
    parts = [f"{name_key(key)} over partitions {join_items(partitions)}" for key, partitions in splits]
    return (
        f"To stay within {goal}, spread the records of {join_items(parts)}: these keys are binary or JSON, "
        "and no consumer could decode them with a suffix. Let a partitioner of your own choose these "
        "partitions in turn and keep the key as it is, or add a field to the key's own schema, with values "
        f"that its partitioner puts there. The fullest then has {after}. Order is kept only within one of "
        "them."
    )


def advise_no_empty_key(share: float, by: str) -> str:
    """Advise to send null instead of an empty key."""
    return (
        f"An empty key is a key: its {percent(share)} of the {by} are on one partition. "
        "Producers that mean no key should send null; such records are spread over all partitions."
    )


def advise_against_partitions(key: HotKeyResult, share: float, by: str, counts: Sequence[int]) -> str:
    """Advise against more partitions, as one key alone exceeds the ratio on each of these counts."""
    bounds = [f"{ratio(share * count)} on {count}" for count in dict.fromkeys(counts)]
    return (
        f"More partitions will not help: {name_key(key)} stays on one of them, and alone gives it this "
        f"many times the mean by {by}: {join_items(bounds)} partitions."
    )


# --- limits of a policy ----------------------------------------------------------------------------------


def state_ratio(topic: str, fullest: int, ratios: str, by: str, limit: float, cause: str) -> str:
    """State that the fullest partition is above the limit, or may be."""
    return (
        f"{topic}: partition {fullest} has {ratios} times the mean {by}; the policy"
        f" allows {limit:g} (diagnosis: {cause})"
    )


def state_key_share(topic: str, key: HotKeyResult, share: str, by: str, limit: float, *, others: int) -> str:
    """State that a key is above the limit, or may be; `others` counts further ones that surely are."""
    subject = (
        f"the key {key.key_hash} ({format_count(key.key_length, 'byte')})"
        if key.key_length
        else "the empty key"
    )
    exceeding = f"; {others} other key{'s are' if others > 1 else ' is'} above it too" if others else ""
    return f"{topic}: {subject} has {share} of the {by}; the policy allows {percent(limit)}{exceeding}"


def state_distinct_keys(topic: str, keys: str, limit: int) -> str:
    """State that there are fewer distinct keys than the limit, or may be."""
    return f"{topic} has {keys} distinct key{'' if keys == '1' else 's'}; the policy asks for {limit:,}"


def state_disagreement(topic: str, limit: str, *, now: bool) -> str:
    """State that a limit is kept only in the whole period, or only in its newest part.

    Args:
        limit: The name of the limit.
        now: Whether the newest part alone breaks it.
    """
    broken, kept = ("newest part of the log", "whole period") if now else ("whole period", "newest part")
    return (
        f"{topic}: the {broken} breaks {limit}, and the {kept} keeps it; `skew.of` says which of them the "
        "policy is about"
    )


# --- notes and reasons -----------------------------------------------------------------------------------

CONFIGS_UNKNOWN = (
    "This account could not read the topic's configs (DescribeConfigs): whether it is compacted and "
    "what its retention.bytes is are not known, so offsets without a record count as compacted ones."
)
MARKERS_COUNT = (
    "Transactions write to this topic, and partitions are counted by offsets: with at most one "
    "marker for each record, the ratio is between half and twice the one shown; aborted records "
    "count, too."
)
COMPACTED = (
    "Compaction has reached the end of the log, or transactions have left gaps like those of compaction: the "
    "remaining records do not show the shares of keys in what was written. `--watch 10m` counts the keys of "
    "new records."
)
REMOVED = (
    "The records of whole partitions have been removed: the remaining ones do not show the shares of keys in "
    "what was written. `--watch 10m` counts the keys of new records."
)


def note_added_partitions(first: int, last: int, since_ms: int) -> str:
    """State that the last partitions were added later."""
    added = f"Partitions {first} to {last} are" if first < last else f"Partition {last} is"
    return (
        f"{added} written to only since {utc(since_ms)}: the shares of partitions are of the "
        "records since then, and those of keys of all records that were read."
    )


def note_emptied_partitions(arrivals: TopicArrivals) -> str:
    """State that partitions keep next to no record."""
    partitions = arrivals.emptied
    records = sum(arrivals.ends[number] or 0 for number in partitions)
    known = arrivals.ratio_since_made
    # Offsets look the same after a deletion by hand and by retention.
    return (
        f"{_capitalise(_name_partitions(partitions))} had {format_count(records, 'record')} and "
        f"{'keep' if partitions[1:] else 'keeps'} next to none: if they were deleted by hand, what "
        "was written in the period is not known; the ratio since the topic was made"
        f"{'' if known is None else f', {ratio(known)},'} includes it."
    )


def note_unwritten_partitions(partitions: Sequence[int]) -> str:
    """State that partitions have no records."""
    return f"{_capitalise(_name_partitions(partitions))} {'have' if partitions[1:] else 'has'} no records."


def note_missing_records(records: int, offsets: int) -> str:
    """State how many of the offsets that were read have no record."""
    amount = "All" if records == 0 else percent(1.0 - records / offsets)
    return (
        f"{amount} of the {offsets:,} offsets read have no record: they were "
        "compacted, deleted or aborted, or are transaction markers."
    )


def note_few_windows(windows: int) -> str:
    """State that few windows were read from each partition."""
    return (
        f"Only {windows} windows were read from each partition: intervals are wide, and a key "
        "that is hot only for a short time may be missed."
    )


def note_removed_records(offsets: int, lost: int, partitions: Sequence[int]) -> str:
    """State that retention removed records during the reading."""
    named = ", ".join(str(partition) for partition in partitions[:_MAX_LOST])
    further = f" and {len(partitions) - _MAX_LOST} more" if len(partitions) > _MAX_LOST else ""
    return (
        f"retention removed records while the topic was being read: of {offsets:,} offsets requested,"
        f" up to {lost:,} were removed (partition{'s' if partitions[1:] else ''} {named}{further}); the "
        "oldest records are underrepresented"
    )


FILES_PARTIAL = (
    "the shares of partitions are those in the files: it is not known whether these contain the same part "
    "of each partition"
)
FILES_UNORDERED = (
    "the files have no offsets, so records were divided into replicates at random: intervals assume that "
    "records are independent, and are too narrow where the records of a key come together"
)


def note_assumed_partitions(count: int) -> str:
    """State the partition count that is assumed of records from files."""
    return (
        f"the topic is assumed to have {format_count(count, 'partition')}: its records are on no higher one"
    )


def explain_little_data(fewest: int) -> str:
    """Explain that nothing is predicted of so few records."""
    return f"There are fewer than {fewest} records."


def explain_unknown_partitioner(share: float) -> str:
    """Explain that keys cannot be placed on another partition count."""
    return (
        f"{percent(share)} of the records with a key are on partitions that no known partitioner ({_HASHES}) "
        "chose, so their partitions under another count cannot be predicted."
    )


def explain_uneven_nulls(share: float, null_ratio: float) -> str:
    """Explain that records without a key cannot be placed on another partition count."""
    return (
        f"How records without a key ({percent(share)}) would spread over another count cannot be predicted: "
        f"they differ between partitions by more than single records do by chance (the fullest has "
        f"{ratio(null_ratio)} times their mean), and would by more on twice as many."
    )


def explain_future_time(partition: int) -> str:
    """Explain that the log of a partition begins with a time in the future."""
    return f"the first record of partition {partition} has a time in the future"


def explain_later_time(partition: int, offset: int, records: int) -> str:
    """Explain that a record has a later time than many records after it."""
    return (
        f"offset {offset:,} of partition {partition} may have a later time than records after it: when "
        f"{records:,} records were written is not known"
    )


def explain_missing_records(partition: int, first: int, end: int) -> str:
    """Explain that the records around a time have been removed, or are far from in order."""
    return (
        f"partition {partition} has no record from offset {first:,} to {end - 1:,} that shows when these "
        "were written: compaction has removed them, or times are far from in order"
    )


def explain_marker(partition: int) -> str:
    """Explain that a transaction marker may have been found by its time."""
    return (
        f"the search by time may have found a transaction marker in partition {partition}, and markers have "
        "the broker's time, not that of their records"
    )


def explain_no_times(partition: int) -> str:
    """Explain that records cannot be found by time."""
    return f"records of partition {partition} have no times"


def explain_emptied(partition: int, records: int) -> str:
    """Explain that the fullest partition was emptied."""
    return f"partition {partition} keeps next to none of the {records:,} records that were written to it"


def explain_unread_bytes(partitions: Sequence[int]) -> str:
    """Explain that the bytes of partitions are estimated from records elsewhere."""
    return (
        f"no record of {_name_partitions(partitions)} can be read, and the mean size of the others stands "
        "for theirs"
    )


def explain_unknown_period(reason: str) -> str:
    """Explain that a period that was asked for is not known."""
    return f"How the records of this period are spread is not known: {reason}."


def state_unknown_ratio(topic: str, limit: float | None, by: str, reason: str) -> str:
    """State that a limit of the ratio, or of the share of a key, cannot be checked."""
    measure = "the share of a key" if limit is None else "the ratio"
    within = "its limit" if limit is None else f"{limit:g}"
    return f"{topic}: whether {measure} by {by} is within {within} is not known: {reason}"


def explain_no_leader(partition: int) -> str:
    """Explain that a partition could not be read."""
    return f"partition {partition} has no leader"

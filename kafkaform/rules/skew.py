"""Rules about the distribution of a topic's records over its partitions, now and after an increase.

They use a measurement of records. An estimate is compared by its 95 % interval: a limit is certainly broken
if the whole interval is beyond it, and possibly if it is within the interval.
"""

from __future__ import annotations

from functools import partial
from math import ceil
from statistics import median
from typing import TYPE_CHECKING

from kafkaform.core.model import Desired, Severity
from kafkaform.core.units import coarse_duration, rounded_size
from kafkaform.core.wording import command, counted, setting
from kafkaform.resources import topic_ref
from kafkaform.resources.skew import Prediction, increase, limits_of, predict_increase
from kafkaform.resources.succession import suggest_successor
from kafkaform.resources.topic.risk import explain_recreation
from kafkaform.rules.catalogue import Finding, RuleContext, RuleOfEach, Stage, Subject, rule
from kafkaform.rules.topic_partitions import EVEN_COUNTS
from spark_validation.policy import (
    FIELDS,
    NOW,
    BrokenLimit,
    count,
    explain_unjudged,
    explain_unknown_ratio,
    find_broken_limits,
    ratio,
    share,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_validation.results import TopicResult

_MUCH_SHORTER = 2.0
# From this share of records without a key on, keys do not decide how full partitions are.
_MAX_NULL_KEY_SHARE = 0.5


_ORDER_REMEDIES = {
    "mixed_partitioners": "see the advice of the skew report, which names the producers to change, if any",
    "repartitioned": "first read the older records to their end, or rewrite the keys into a new topic",
}
"""The causes of keys on several partitions, and what to do about each."""


class MeasuredTopic(Subject):
    """A measured topic, unless its manifest deletes it.

    Attributes:
        declared: Its manifest, if there is one.
        limits: The limits of the manifest.
    """

    def __init__(self, name: str, context: RuleContext) -> None:
        declared = context.declared.get(topic_ref(name))
        super().__init__(declared or topic_ref(name), context)
        self.declared, self.result = declared, context.skew[name]
        self.limits = limits_of(declared.intent) if declared is not None else None


def _list_measured(context: RuleContext) -> list[MeasuredTopic]:
    topics = [MeasuredTopic(name, context) for name in sorted(context.skew)]
    # There is nothing to mend in a topic that is to be deleted.
    return [topic for topic in topics if topic.declared is None or topic.declared.state is not None]


def _list_judged(context: RuleContext) -> list[MeasuredTopic]:
    """Return the topics without those that have too few records."""
    return [topic for topic in _list_measured(context) if explain_unjudged(topic.result) is None]


measured_rule = partial(RuleOfEach(_list_judged), stage=Stage.SKEW)


@measured_rule("KF501", Severity.ERROR, "skew.maxPartitionRatio")
def partition_ratio(topic: MeasuredTopic) -> Iterator[Finding]:
    """The fullest partition is further above the mean than the topic's policy allows.

    A group is as slow as the member that reads that partition. The limit is `skew.maxPartitionRatio` of
    the manifest. It is an error if the whole interval is above it, a warning if the limit is within, if
    the ratio is unknown, or in a plan. The diagnosis of `kafkaform skew` names what helps.
    """
    yield from _report_broken(topic, "maxPartitionRatio", lambda *_: _mend(topic.result))
    unknown = explain_unknown_ratio(topic.result, topic.limits) if topic.limits is not None else None
    if unknown is not None:
        again = command("skew", topic.name, options=("--watch", "10m"))
        yield Finding(unknown, f"count what is written from now on: {again}", Severity.WARNING)


@measured_rule("KF502", Severity.ERROR, "skew.maxKeyShare")
def key_share(topic: MeasuredTopic) -> Iterator[Finding]:
    """One key has a larger share of a topic than the topic's policy allows.

    All records of a key are on one partition, so more partitions do not help. A producer can split a key
    by a suffix (a salt), which loses the order of its records. The limit is `skew.maxKeyShare`; error and
    warning are as in KF501.
    """
    yield from _report_broken(topic, "maxKeyShare", _split)


@measured_rule("KF503", Severity.WARNING)
def distinct_keys(topic: MeasuredTopic) -> Iterator[Finding]:
    """A topic has fewer distinct keys than its partition count needs, or its policy asks for.

    A partition without a key stays empty, and few keys spread unevenly by chance. Certainly fewer than
    `skew.minDistinctKeys` are an error. Use a finer key, or fewer partitions: in a new topic, or by
    `recreate`.
    """
    if topic.limits is not None and topic.limits.min_distinct_keys is not None:
        yield from _report_broken(
            topic, "minDistinctKeys", lambda *_: "use a finer key", certain=Severity.ERROR, possible=None
        )
        return
    result, keys, partitions = topic.result, topic.result.distinct_keys, len(topic.result.partitions)
    evidence = _evidence(result, "few_keys")
    # Records without a key go to any partition, so with many of them no partition stays empty.
    if not evidence and 0 < keys.high < partitions and result.null_key_share.high < _MAX_NULL_KEY_SHARE:
        noun = "distinct key" if count(keys) == "1" else "distinct keys"
        evidence = [f"{count(keys)} {noun} for {partitions} partitions: some stay empty"]
    for sentence in evidence:
        live = topic.context.live.get(topic_ref(topic.name))
        way = f"; {explain_recreation(live.uid)}" if live is not None and live.uid is not None else ""
        hint = f"use a finer key, or fewer partitions in a new topic: {suggest_successor(topic.name)}{way}"
        yield Finding(f"{topic.name}: {sentence}", hint, path="partitions")


@measured_rule("KF504", Severity.WARNING, "keyed")
def keys_apart(topic: MeasuredTopic) -> Iterator[Finding]:
    """Keys of a topic lie on more than one partition: order per key is broken.

    Producers place keys differently (librdkafka as Java only with `partitioner=murmur2_random`), or
    partitions were added. Give all producers the same partitioner; order is restored once the older
    records have expired. With `keyed: false`, only a compacted topic is reported.
    """
    declared = topic.declared
    if declared is not None and declared.intent.keyed is False and not _compacted(declared):
        return
    for cause, remedy in _ORDER_REMEDIES.items():
        # A mix in which every key stayed in one partition breaks no order.
        if cause != "mixed_partitioners" or not topic.result.keys_stay:
            for sentence in _evidence(topic.result, cause):
                yield Finding(f"{topic.name}: {sentence}", remedy)


@measured_rule("KF505", Severity.WARNING, "keyed")
def null_keys(topic: MeasuredTopic) -> Iterator[Finding]:
    """A topic that is declared keyed has records without a key.

    They have no order among each other or relative to any other record. Find the producer that sets no key,
    or remove `keyed: true` from the manifest.
    """
    null_keys, declared = topic.result.null_key_share, topic.declared
    if declared is not None and declared.intent.keyed and null_keys.value > 0:
        text = f"{topic.name} is declared keyed, but {share(null_keys, 0)} of its records have no key"
        yield Finding(text, "set a key in every producer, or remove keyed: true")


@RuleOfEach(_list_measured)("KF510", Severity.WARNING, "config.retention.bytes", stage=Stage.SKEW)
def uneven_retention(topic: MeasuredTopic) -> Iterator[Finding]:
    """A partition keeps its records for less than half of the time that the others do.

    `retention.bytes` limits each partition, so it removes the records of the busiest one first: a
    consumer that is down for longer loses these alone. Use a larger `retention.bytes`, or a key that
    spreads its records.
    """
    # Takes 5 ms, and only a plan with --skew needs it.
    from spark_validation.arrivals import FEW_KEPT

    result = topic.result
    # The time of the measurement, the same for all partitions.
    until = result.arrivals[0].until_ms if result.arrivals else None
    kept = {
        partition.partition: until - partition.kept_since_ms
        for partition in result.partitions
        if until is not None and partition.kept_since_ms is not None and partition.kept_since_ms < until
    }
    # Only partitions whose first offset is no longer 0: a new partition, or one that is seldom written
    # to, keeps little without having been trimmed.
    trimmed = [
        partition
        for partition in result.partitions
        if partition.kept_from
        and partition.partition in kept
        and partition.end_offset - partition.kept_from >= FEW_KEPT
    ]
    if not trimmed:
        return
    # The median, as one partition that keeps very much would raise a mean.
    usual = median(kept.values())
    shortest = min(trimmed, key=lambda partition: kept[partition.partition])
    length = kept[shortest.partition]
    if length * _MUCH_SHORTER >= usual:
        return
    shorter = sum(1 for partition in trimmed if kept[partition.partition] * _MUCH_SHORTER < usual) - 1
    beside = f" (and {counted(shorter, 'more partition')} less than half of that)" if shorter else ""
    limit = result.retention_bytes
    yield Finding(
        f"{topic.name}: partition {shortest.partition} keeps {coarse_duration(length)}, the others "
        f"{coarse_duration(int(usual))}{beside}: {_explain_trimming(limit)}",
        _keep_longer(limit, usual / max(1, length)),
    )


def _explain_trimming(limit: int | None) -> str:
    if limit is None:
        return (
            "retention.bytes or a deletion by hand trims it; this account could not read the topic's configs"
        )
    if limit < 0:
        return "records were deleted from it by hand, as retention.bytes sets no limit"
    return f"retention.bytes ({rounded_size(limit)} a partition) trims it"


def _keep_longer(limit: int | None, factor: float) -> str:
    if limit is None:
        return "grant the account DESCRIBE_CONFIGS on the topic, and measure again"
    if limit < 0:
        return "consumers that still need these records cannot read them any more; check who deletes them"
    larger = setting("config.retention.bytes", f"{ceil(limit * factor / 2**20)}MiB")
    return f"to keep this partition for as long, write {larger}; or spread its records by a finer key"


def _report_broken(
    topic: MeasuredTopic,
    name: str,
    remedy: Callable[[BrokenLimit, float], str],
    *,
    certain: Severity | None = None,
    possible: Severity | None = Severity.WARNING,
) -> Iterator[Finding]:
    """Yield a finding if a topic breaks one of the limits of its manifest.

    Args:
        remedy: Returns the suggestion for a broken limit, and the ratio of the value to it.
        certain: The severity if the limit is certainly broken; None for the rule's own.
        possible: The severity if the limit is within the interval; None likewise.
    """
    for broken in find_broken_limits(topic.result, topic.limits) if topic.limits is not None else ():
        if broken.name == name:
            # The upper end of the interval: the advice has to hold for the worst case.
            times = broken.estimate.high / getattr(topic.limits, FIELDS[name])
            hint = remedy(broken, times) if broken.certain else _resolve_doubt(topic, broken)
            yield Finding(broken.message, hint, certain if broken.certain else possible, f"skew.{name}")


def _split(broken: BrokenLimit, times: float) -> str:
    if broken.empty_key:
        return "an empty key is a key, and all its records are on one partition: send null for no key"
    return f"split it over at least {ceil(times)} keys, or give it a topic of its own"


def format_hint(advice: str) -> str:
    """Return a sentence of advice as the suggestion of a finding, which begins in lower case."""
    return f"{advice[:1].lower()}{advice[1:].rstrip('.')}"


def _mend(result: TopicResult) -> str:
    if result.advice:
        return format_hint(result.advice[0])  # on the main cause
    return "see its diagnosis, or raise the limit in a reviewed commit"


def _resolve_doubt(topic: MeasuredTopic, broken: BrokenLimit) -> str:
    """Suggest how to determine on which side of a limit a value is."""
    if broken.contradicted and topic.limits is not None and topic.limits.of == NOW:
        return "write `skew: {of: period}` if the policy is about the whole period"
    if broken.contradicted:
        return "write `skew: {of: now}` if the policy is about what is written now, or measure with --since"
    look = command("skew", topic.name, options=("--records", "all"))
    return f"the limit lies within the interval; read every record: {look}"


def _evidence(result: TopicResult, name: str) -> list[str]:
    return [cause.evidence.rstrip(".") for cause in result.causes if cause.name == name]


def _compacted(topic: Desired) -> bool:
    return "compact" in str((topic.state or {}).get("config.cleanup.policy", ""))


_LIMIT = "raise skew.maxPartitionRatio in a reviewed commit"


@rule("KF506", Severity.ERROR, stage=Stage.FORECAST)
def forbidden_increase(context: RuleContext) -> Iterator[Finding]:
    """A partition increase is predicted to leave the fullest partition further above the mean than allowed.

    More partitions do not divide a hot key: the mean falls, and its partition stays as large. If the
    whole predicted interval is above `skew.maxPartitionRatio`, the change is refused. It is a warning if
    the limit is within, with `skew.of: now`, or if the increase improves a topic that is already above.
    """
    for planned in context.changes:
        counts, result = increase(planned.change), context.skew.get(planned.ref.name)
        subject = context.declared.get(planned.ref)
        limits = limits_of(subject.intent) if subject is not None else None
        if counts is None or result is None or limits is None or limits.max_partition_ratio is None:
            continue
        before, after = counts
        limit, prediction = limits.max_partition_ratio, predict_increase(result, before, after, limits.by)
        if prediction is None or prediction.after.high <= limit:
            continue
        sure, newest = prediction.after.low > limit, limits.of == NOW and result.now is not None
        narrowed = ("--since", "1h") if newest else ("--records", "all")
        look = command("skew", result.name, options=("--what-if", str(after), *narrowed))
        if newest:
            remedy = f"this is predicted from the whole period; predict from what is written now: {look}"
        elif sure:
            remedy = _remedy(result, after, limit, limits.by, prediction)
        else:
            remedy = f"the limit lies within the interval; read every record: {look}"
        yield Finding(
            f"{result.name}: with {after} partitions the fullest is predicted to have "
            f"{ratio(prediction.after, limit)} times the mean {limits.by}; the policy allows {limit:g}"
            + _compare(prediction, before, limit),
            remedy,
            # Refusing an increase that improves a topic beyond its limit would keep it as bad as it is.
            None if sure and not newest and not _mends(prediction, limit) else Severity.WARNING,
            "partitions",
            subject,
        )


def _mends(prediction: Prediction, limit: float) -> bool:
    return prediction.improves and prediction.before is not None and prediction.before.value > limit


def _compare(prediction: Prediction, before: int, limit: float) -> str:
    if prediction.before is None:
        return ""
    now = f", and it has {ratio(prediction.before, limit)} with {before} now"
    return f"{now}, which is worse" if _mends(prediction, limit) else now


def _remedy(result: TopicResult, after: int, limit: float, by: str, prediction: Prediction) -> str:
    """Suggest a partition count that keeps the limit, if one was computed."""
    if prediction.hot_key is not None:
        return f"split the hot key first: no partition count divides it; or {_LIMIT}"
    kept = [
        count
        for count in sorted(what_if.partitions for what_if in result.what_if)
        # Kafka cannot remove partitions, so fewer are no alternative.
        if count > len(result.partitions)
        and (alternative := predict_increase(result, len(result.partitions), count, by)) is not None
        and alternative.after.high <= limit
    ]
    if kept:
        nearest = min(kept, key=lambda count: abs(count - after))
        return f"write {setting('partitions', nearest)}, which is predicted to keep it; or {_LIMIT}"
    untried = [count for count in EVEN_COUNTS if count > len(result.partitions) and count != after][:4]
    counts = ",".join(map(str, untried or (2 * after, 3 * after)))
    look = command("skew", result.name, options=("--what-if", counts))
    return f"look for a count that keeps it: {look}; or {_LIMIT}"

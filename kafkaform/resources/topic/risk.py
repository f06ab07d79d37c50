"""The risk of a change of a Topic: of its partitions and replicas, of its deletion, and of its configs.

A judgement compares effective with effective values, so that taking away an own value is judged by the
default that comes into force. What a measurement of a topic's records says is added to the judgement of a
partition increase.
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm
from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkaform.core.model import SAFE, UNREAD_DATA, Risk, RiskAssessment
from kafkaform.core.units import rounded_size
from kafkaform.core.wording import counted, listed
from kafkaform.resources.skew import policy_unit, predicted, worded
from kafkaform.resources.topic import config_risk, live, placement
from kafkaform.resources.topic import operations as topic_operations
from kafkaform.resources.topic.config_risk import either_policy, integer, shown
from kafkaform.resources.topic.live import topic_facts

if TYPE_CHECKING:
    from kafkaform.core.model import Facts, Observed, ResourceRef
    from kafkaform.resources.base import UpdateContext

HAZARDS = frozenset(
    {
        "cleanup-policy",
        "cleanup-policy-removed",
        "compaction-lag-cut",
        "compaction-sooner",
        "compaction-start",
        "delete",
        "delete-by-name",
        "disk-space",
        "flush-interval",
        "local-retention-cut",
        "message-size-cut",
        "min-isr-cut",
        "min-isr-raise",
        "partition-decrease",
        "partition-increase",
        "partition-increase-compacted",
        "recompression",
        "remote-storage-delete",
        "remote-storage-off",
        "replica-move",
        "replication-factor",
        "replication-factor-cut",
        "retention-cut",
        "segment-cut",
        "timestamp-bound-cut",
        "timestamp-type",
        "tombstone-retention-cut",
        "unclean-election",
        "unknown-config",
        UNREAD_DATA,
    }
)
"""The names by which a change of a Topic can be consented to or forbidden."""

INCLUDES = MappingProxyType({"delete-by-name": "delete"})
"""See `Kind.includes`."""


def judge(path: str, context: UpdateContext) -> RiskAssessment:
    """Judge the change of one field."""
    match path:
        case "partitions":
            return measured(sized(_partitions(path, context), context.ref, context.facts), context)
        case live.REPLICATION_FACTOR:
            assessment = _replication_factor(path, context)
        case topic_operations.PLACEMENT:
            assessment = placement.judge(path, context)
        case _:
            assessment = config_risk.judge(path, context)
    return sized(assessment, context.ref, context.facts)


def judge_delete(observed: Observed, facts: Facts) -> RiskAssessment:
    """Judge the deletion of a topic: all of its records are destroyed.

    Brokers without topic ids (KIP-516) delete whatever has the name by then.
    """
    name, count = observed.ref.name, observed.state.get("partitions")
    assessment = RiskAssessment(
        Risk.DESTRUCTIVE,
        "delete",
        f"all records in the {counted(int(count or 0), 'partition')} of {name} are destroyed",
        "stop its producers and consumers first, and copy what is still needed",
    )
    assessment = sized(assessment, observed.ref, facts)
    if observed.uid is not None:
        return assessment
    by_name = "this cluster has no topic ids, so a topic made again under this name would be deleted, too"
    return replace(assessment, hazard="delete-by-name", reason=f"{assessment.reason}; {by_name}")


def sized(assessment: RiskAssessment, ref: ResourceRef, facts: Facts) -> RiskAssessment:
    """A judgement of what happens to data, with how much data that is where it is known."""
    size = facts.sizes.get(ref)
    if size is None or assessment.hazard not in _OF_DATA:
        return assessment
    if not size.unread:
        held = rounded_size(size.bytes)
        return replace(assessment, reason=f"{assessment.reason} (the topic holds {held})", figure=held)
    held = f"at least {rounded_size(size.bytes) if size.bytes else '0 B'}; {size.gap}"
    first = f"start {listed([f'broker {broker}' for broker in size.silent])}, then plan again"
    remedies = [first if size.silent else "see kafkaform doctor, then plan again", assessment.remedy]
    return replace(
        assessment,
        reason=f"{assessment.reason} (the topic holds {held})",
        remedy="; or ".join(filter(None, remedies)),
        data_unread=True,
        figure=held,
    )


_OF_DATA = frozenset(
    {
        "cleanup-policy",
        "compaction-lag-cut",
        "compaction-start",
        "delete",
        "partition-decrease",
        "partition-increase",
        "partition-increase-compacted",
        "replication-factor",
        "replication-factor-cut",
        "retention-cut",
    }
)


def measured(assessment: RiskAssessment, context: UpdateContext) -> RiskAssessment:
    """The judgement with what a skew report says of the planned count, where there is one that does."""
    result = topic_facts(context.facts).skew.get(context.ref)
    before, after = context.before.get("partitions"), context.after.get("partitions")
    if result is None or not isinstance(before, int) or not isinstance(after, int) or after <= before:
        return assessment
    found = predicted(result, before, after, policy_unit(context.intent))
    if found is None:
        return assessment
    told = worded(found)
    return replace(assessment, reason=f"{assessment.reason}; {told}" if assessment.reason else told)


def _percent_that_move(before: int, after: int) -> float:
    """The share of keys that change their partition with `hash mod count`, to one place after the point.

    Over one period of lcm(before, after) hashes, `h mod before == h mod after` holds for exactly
    min(before, after) of them (Chinese remainder theorem). Rounded down: it is never all of them.
    """
    period = lcm(before, after)
    return (period - min(before, after)) * 1000 // period / 10


def _partitions(path: str, context: UpdateContext) -> RiskAssessment:
    before, after = integer(context.before.get(path)), integer(context.after.get(path))
    if before is None or after is None:
        return SAFE
    name = context.ref.name
    if after < before:
        return RiskAssessment(
            Risk.IMPOSSIBLE,
            "partition-decrease",
            f"Kafka cannot remove partitions from a topic ({before} → {after}): their records would be lost",
            f"create a new topic with {counted(after, 'partition')}, such as the next version of {name}, "
            f"copy the records over, move producers and consumers, then delete {name}; "
            f"or write partitions: {before}",
        )
    moved = f"{_percent_that_move(before, after):g} % of keys move to another partition"
    if "compact" in either_policy(context, unknown={"compact"}):
        return RiskAssessment(
            Risk.DESTRUCTIVE,
            "partition-increase-compacted",
            f"{moved}: their old values stay on the old partition and compaction no longer removes them, "
            "so readers see two latest values for one key",
            f"create a new topic with {after} partitions and rewrite every key into it",
        )
    if context.intent.keyed is False:
        return SAFE
    assumed = "" if context.intent.keyed else " (if records have keys)"
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "partition-increase",
        f"{moved}{assumed}: order per key is broken between records before and after the change",
        "write keyed: false if order per key does not matter; or create a new topic and move over",
    )


def _replication_factor(path: str, context: UpdateContext) -> RiskAssessment:
    before, after = context.before.get(path), context.after.get(path)
    fewest_after, _ = (0, 0) if after is None else live.bounds(after)
    _, most_before = (None, None) if before is None else live.bounds(before)
    if fewest_after < 2 and (most_before is None or most_before > fewest_after):
        return RiskAssessment(
            Risk.DESTRUCTIVE,
            "replication-factor-cut",
            f"every partition goes from {shown(before)} replicas to {shown(after)}: its records are then "
            "on one broker only, and lost with it",
            "keep at least 2 where data must not be lost",
        )
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "replication-factor",
        f"every partition goes from {before} to {after} replicas: data is copied or dropped between brokers",
    )

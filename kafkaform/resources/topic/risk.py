"""The risk of a change of a Topic: of its partitions, replicas, deletion, and configs.

Effective values are compared, so that the removal of an own value is assessed by the default that replaces
it. The prediction of a skew report is added to the assessment of a partition increase.
"""

from __future__ import annotations

from math import lcm
from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkaform.core.model import SAFE, UNREAD_DATA, Risk, RiskAssessment, to_integer
from kafkaform.core.units import word_size
from kafkaform.core.values import replace
from kafkaform.core.wording import counted, listed, setting
from kafkaform.resources.groups import Group, RecreationFacts
from kafkaform.resources.replicas import facts as replica_facts
from kafkaform.resources.replicas import placement
from kafkaform.resources.skew import SkewFacts, describe_prediction, policy_unit, predict_increase
from kafkaform.resources.succession import suggest_successor
from kafkaform.resources.topic import config_risk
from kafkaform.resources.topic.config_risk import either_policy, format_known
from kafkaform.resources.topic.replication_factor import parse_range
from kafkaform.resources.topic.spec import RECREATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.core.model import Facts, Observed, Recreate, ResourceRef
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
        "down-conversion-off",
        "flush-interval",
        "local-retention-cut",
        "message-format",
        "message-size-cut",
        "min-isr-cut",
        "min-isr-raise",
        "partition-decrease",
        "partition-increase",
        "partition-increase-compacted",
        "recompression",
        "recreate",
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
"""Hazards that include another one; see `Hazards.includes`."""

# The hazards that lose, reorder or copy the topic's own records: reviewers ask how many.
_OF_DATA = frozenset(
    {
        "cleanup-policy",
        "compaction-lag-cut",
        "compaction-start",
        "delete",
        "partition-decrease",
        "partition-increase",
        "partition-increase-compacted",
        "recreate",
        "replication-factor",
        "replication-factor-cut",
        "retention-cut",
    }
)

_STOP_AND_COPY = "stop its producers and consumers first, and copy what is still needed"


def judge(path: str, context: UpdateContext) -> RiskAssessment:
    """Assess the change of one field."""
    match path:
        case "partitions":
            return add_prediction(
                add_size(_judge_partitions(path, context), context.ref, context.facts), context
            )
        case replica_facts.REPLICATION_FACTOR:
            assessment = _judge_replication_factor(path, context)
        case replica_facts.PLACEMENT:
            assessment = placement.judge(path, context)
        case _:
            assessment = config_risk.judge(path, context)
    return add_size(assessment, context.ref, context.facts)


def judge_delete(observed: Observed, facts: Facts) -> RiskAssessment:
    """Assess the deletion of a topic: all of its records are destroyed.

    Brokers without topic ids (KIP-516) delete any topic that has the name by then.
    """
    name, count = observed.ref.name, observed.state.get("partitions")
    assessment = RiskAssessment(
        Risk.DESTRUCTIVE,
        "delete",
        f"all records in the {counted(int(count or 0), 'partition')} of {name} are destroyed",
        _STOP_AND_COPY,
    )
    assessment = add_size(assessment, observed.ref, facts)
    # With an id, a topic that was created again under the name is not deleted.
    if observed.uid is not None:
        return assessment
    by_name = "this cluster has no topic ids, so a topic made again under this name would be deleted, too"
    return replace(assessment, hazard="delete-by-name", reason=f"{assessment.reason}; {by_name}")


def _forbid_while_read(active: Sequence[Group]) -> RiskAssessment:
    readers = listed([f"{group.name} ({counted(len(group.members), 'member')})" for group in active])
    return RiskAssessment(
        Risk.IMPOSSIBLE,
        "recreate",
        f"it is read by {readers}",
        f"stop the members of {'this group' if len(active) == 1 else 'these groups'}, then plan again",
    )


def judge_recreate(change: Recreate, facts: Facts) -> RiskAssessment:
    """Assess the deletion of a topic that is created again: its records and offsets are destroyed."""
    name, known = change.ref.name, facts.get(RecreationFacts)
    readers = sorted(group_name for group_name, group in known.groups.items() if name in group.topics)
    if active := [known.groups[reader] for reader in readers if known.groups[reader].active]:
        return _forbid_while_read(active)
    records = known.records.get(name)
    amount = "all records" if records is None else f"up to {counted(records, 'record')}"
    offsets = f", and the offsets of {listed(readers, noun='group')} in it" if readers else ""
    unread = f"; who reads it is not known in full: {known.unread}" if known.unread else ""
    assessment = RiskAssessment(
        Risk.DESTRUCTIVE,
        "recreate",
        f"{amount} in the {counted(int(change.before.get('partitions') or 0), 'partition')} of {name} are "
        f"destroyed{offsets}{unread}",
        _STOP_AND_COPY,
    )
    return add_size(assessment, change.ref, facts)


def add_size(assessment: RiskAssessment, ref: ResourceRef, facts: Facts) -> RiskAssessment:
    """Add the size of the topic to an assessment that concerns its data, if the size was read."""
    size = facts.sizes.get(ref)
    if size is None or assessment.hazard not in _OF_DATA:
        return assessment
    figure = word_size(size)
    if not size.unread:
        return replace(assessment, reason=f"{assessment.reason} (the topic holds {figure})", figure=figure)
    # A broker that is down holds data too, so the size is a lower limit.
    first = f"start {listed([f'broker {broker}' for broker in size.silent])}, then plan again"
    remedies = [first if size.silent else "see `kafkaform doctor`, then plan again", assessment.remedy]
    return replace(
        assessment,
        reason=f"{assessment.reason} (the topic holds {figure})",
        remedy="; or ".join(filter(None, remedies)),
        data_unread=True,
        figure=figure,
    )


def add_prediction(assessment: RiskAssessment, context: UpdateContext) -> RiskAssessment:
    """Add the prediction of a skew report for the planned partition count, if there is one."""
    result = context.facts.get(SkewFacts).results.get(context.ref)
    before, after = context.before.get("partitions"), context.after.get("partitions")
    if result is None or not isinstance(before, int) or not isinstance(after, int) or after <= before:
        return assessment
    prediction = predict_increase(result, before, after, policy_unit(context.intent))
    # KF507 reports that the count was not measured.
    if prediction is None:
        return assessment
    text = describe_prediction(prediction)
    return replace(assessment, reason=f"{assessment.reason}; {text}" if assessment.reason else text)


def _percent_that_move(before: int, after: int) -> float:
    """Return the percentage of keys that change their partition with `hash mod count`, to one decimal.

    Over one period of lcm(before, after) hashes, `h mod before == h mod after` holds for exactly
    min(before, after) of them (Chinese remainder theorem). Rounded down: it is never all of them.
    """
    # The known partitioners all take the hash of a key modulo the count.
    period = lcm(before, after)
    return (period - min(before, after)) * 1000 // period / 10


def _judge_partitions(path: str, context: UpdateContext) -> RiskAssessment:
    before, after = to_integer(context.before.get(path)), to_integer(context.after.get(path))
    if before is None or after is None:
        return SAFE
    name, size = context.ref.name, context.facts.sizes.get(context.ref)
    is_empty = size is not None and not size.unread and not size.bytes
    if after < before:
        lost = f" ({before} → {after}): their records would be lost"
        successor = f"{suggest_successor(name)} with {setting(path, after)}"
        keeping = "" if is_empty else f"or, to lose no record, {successor}; "
        return RiskAssessment(
            Risk.IMPOSSIBLE,
            "partition-decrease",
            f"Kafka cannot remove partitions from a topic{f': {before} → {after}' if is_empty else lost}",
            f"{explain_recreation(context.uid)}; {keeping}or write {setting(path, before)}",
        )
    moved = f"{_percent_that_move(before, after):g} % of keys move to another partition"
    # Declared `keyed: false` or not: a compacted topic has keys, as brokers refuse records without one.
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
    broken = "order per key is broken between records before and after the change"
    if is_empty:
        broken = "order per key is kept if no record is written before the change"
    return RiskAssessment(
        Risk.DISRUPTIVE,
        "partition-increase",
        f"{moved}{assumed}: {broken}",
        f"write `keyed: false` if order per key does not matter; or, to keep it, {suggest_successor(name)}",
    )


def explain_recreation(uid: str | None) -> str:
    """Return the way to fewer partitions under the same name, without the records."""
    if uid is None:
        return "`recreate` needs topic ids, which these brokers do not have (Kafka 2.8 does)"
    return f"if the records may go, write {setting(RECREATE, uid)} below `spec:`: the topic is created again"


def _judge_replication_factor(path: str, context: UpdateContext) -> RiskAssessment:
    before, after = context.before.get(path), context.after.get(path)
    fewest_after = 1 if after is None else parse_range(after)[0]
    most_before = None if before is None else parse_range(before)[1]
    noun = "replica" if str(after) == "1" else "replicas"
    change = f"every partition goes from {format_known(before)} to {format_known(after)} {noun}"
    # Some partitions may have one replica already; if any has more, its copies are lost.
    if fewest_after < 2 and (most_before is None or most_before > fewest_after):
        return RiskAssessment(
            Risk.DESTRUCTIVE,
            "replication-factor-cut",
            f"{change}: its records are then on one broker only, and lost with it",
            "keep at least 2 where data must not be lost",
        )
    return RiskAssessment(
        Risk.DISRUPTIVE, "replication-factor", f"{change}: data is copied or dropped between brokers"
    )

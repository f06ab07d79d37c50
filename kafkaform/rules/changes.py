"""Rules about the changes of a plan.

These rules check a change against the cluster's groups, or all changes together. The kind assesses the risk
of a single change; KF401 to KF403 give these assessments a code, so that a project can forbid them and
annotations can show them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafkaform.core.model import (
    Create,
    Delete,
    Desired,
    FieldChange,
    Recreate,
    Risk,
    Severity,
    Status,
    Update,
    assessments,
    risk_of,
    to_integer,
)
from kafkaform.core.wording import counted, listed, setting
from kafkaform.resources import TOPIC, is_topic, topic_ref
from kafkaform.resources.groups import Group, get_group
from kafkaform.resources.replicas.facts import MIN_ISR, PLACEMENT, REPLICATION_FACTOR, ReplicaFacts
from kafkaform.resources.replicas.layout import Layout, parse_assignment
from kafkaform.rules.catalogue import Finding, RuleContext, RuleOfEach, Stage, Subject, cache_result, rule
from kafkaform.rules.group_values import DeclaredGroup, group_rule, name_partitions, suggest_reset
from kafkaform.rules.topic_values import DeclaredTopic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kafkaform.core.partitions import Replicas
    from kafkaform.core.plans import PlannedChange


# With fewer topics, three of them would exceed the default limit of 30 %.
MIN_TOPICS_FOR_BRAKE = 10
"""The least number of topics of which a share is meaningful."""


HAZARDS = {"KF401": "partition-increase", "KF402": "partition-increase-compacted", "KF403": "retention-cut"}
"""The rules whose findings repeat the assessment of a change, and its hazard."""


class PlannedSubject(Subject):
    """A change of a plan."""

    def __init__(self, planned: PlannedChange, context: RuleContext) -> None:
        super().__init__(context.declared.get(planned.ref, planned.ref), context)
        self.planned = planned


def _list_changes(context: RuleContext) -> list[PlannedSubject]:
    return [PlannedSubject(planned, context) for planned in context.changes]


change_rule = partial(RuleOfEach(_list_changes), stage=Stage.CHANGES)


@change_rule("KF401", Severity.INFO)
def keys_move(topic: PlannedSubject) -> Iterator[Finding]:
    """A partition increase moves keys of a topic whose order per key may matter.

    Records of a key that moves are on two partitions, and may be read in any order. The plan says how
    many keys move. If order does not matter, write `keyed: false`. Set this rule to `error` to refuse
    such plans.
    """
    yield from _report_hazard(topic, HAZARDS["KF401"])


@change_rule("KF402", Severity.INFO)
def compacted_keys_move(topic: PlannedSubject) -> Iterator[Finding]:
    """A partition increase is planned on a compacted topic.

    A key that moves leaves its old value on the old partition forever. The plan asks for consent. To
    avoid it, create a new topic and rewrite every key into it.
    """
    yield from _report_hazard(topic, HAZARDS["KF402"])


@change_rule("KF403", Severity.INFO)
def retention_cut(topic: PlannedSubject) -> Iterator[Finding]:
    """A retention is cut: existing records are deleted.

    Segments in which every record is past the new retention are deleted within minutes. The plan asks for
    consent, and says how old records become and how much the topic holds.
    """
    yield from _report_hazard(topic, HAZARDS["KF403"])


@rule("KF404", Severity.ERROR, stage=Stage.CHANGES)
def blast_radius(context: RuleContext) -> Iterator[Finding]:
    """A plan puts a large share of the declared topics at risk at once.

    One wrong default can affect every topic. From ten topics on, changes that are not safe may affect at
    most `limits.blastRadius` of the existing ones (30 %); above it, all such changes are refused. Apply
    in smaller steps (`--target`), or raise the limit.
    """
    topics = (
        # A saved plan has no manifests, so all live topics are counted instead of the declared ones.
        [ref for ref in context.inventory if is_topic(ref)]
        if context.saved
        else [desired.ref for desired in context.of_kind(TOPIC.name) if desired.ref in context.live]
    )
    touched = [
        planned.ref
        for planned in context.changes
        if is_topic(planned.ref)
        and planned.status is not Status.REFUSED
        # A new topic puts no existing data at risk.
        and not isinstance(planned.change, Create)
        and risk_of(planned.change) > Risk.SAFE
    ]
    present = {*topics, *touched}
    # A part of the manifests has no meaningful total: with --target, one topic would be all of them.
    if context.subset or len(present) < MIN_TOPICS_FOR_BRAKE:
        return
    if len(touched) > context.limits.blast_radius * len(present):
        share, limit = 100 * len(touched) // len(present), 100 * context.limits.blast_radius
        yield Finding(
            f"{len(touched):,} of {counted(len(present), 'topic')} ({share} %) would be put at risk at once; "
            f"the limit is {limit:g} %",
            "apply in smaller steps with --target, or raise limits.blastRadius in a reviewed commit",
        )


@change_rule("KF405", Severity.WARNING)
def groups_affected(subject: PlannedSubject) -> Iterator[Finding]:
    """A change of a topic affects groups that read it.

    A group starts at `auto.offset.reset` in new partitions: with `latest`, the default, it skips what is
    written before it finds them. Stop the group, apply, commit the start of the new partitions with
    `kafkaform reset`, and start the group. With a topic, the offsets of its groups are deleted too.
    """
    # A group may have the name of a topic.
    has_readers = is_topic(subject.planned.ref)
    readers = _map_readers(subject.context).get(subject.name, []) if has_readers else []
    match subject.planned.change:
        case Delete() if readers:
            names = _name_groups(sorted(group.name for group in readers))
            text = f"deleting {subject.name} deletes the offsets of {names} in it"
            yield Finding(text, "stop these groups first")
        case Update(fields=fields):
            for field in fields:
                if field.path == "partitions":
                    yield from _find_skipping_groups(subject.name, field, readers)
        case _:
            pass


@cache_result
def _map_readers(context: RuleContext) -> dict[str, list[Group]]:
    """Return the live groups that read each topic, declared or not: they may have other owners."""
    by_topic: dict[str, list[Group]] = {}
    for group in context.groups.values():
        for topic in group.topics:
            by_topic.setdefault(topic, []).append(group)
    return by_topic


def _find_skipping_groups(topic: str, increase: FieldChange, readers: list[Group]) -> Iterator[Finding]:
    """Find the groups that would skip records of new partitions; share groups keep no committed offsets."""
    added = range(int(increase.before or 0), int(increase.after or 0))
    # KIP-932: the brokers start a share group in a new partition by share.auto.offset.reset.
    groups = [group for group in readers if group.protocol != "share"]
    # A running group finds new partitions once its metadata is refreshed: after metadata.max.age.ms at the
    # latest, 5 minutes by default.
    running = sorted(group.name for group in groups if group.active)
    # Without any offset in the topic, a group starts at auto.offset.reset in the old partitions as well.
    stopped = sorted(
        group.name
        for group in groups
        if not group.active and any(name == topic for name, _ in group.committed)
    )
    for names, moment, first_step in (
        (running, "written before members find them", "stop its members, apply, then, before they start"),
        (stopped, "written before members start", "apply, then, before its members start"),
    ):
        if names:
            same = f" (and the same for {listed(names[1:])})" if len(names) > 1 else ""
            yield Finding(
                f"{_name_groups(names)} {'has' if len(names) == 1 else 'have'} no committed offset "
                f"in the new partitions of {topic}: with auto.offset.reset=latest, records {moment} "
                "are skipped",
                f"{first_step}{same}: {suggest_reset(names[0], topic, added)}",
                path="partitions",
            )


@group_rule("KF406", Severity.WARNING, "topics", stage=Stage.CHANGES)
def partitions_without_offset(group: DeclaredGroup) -> Iterator[Finding]:
    """A group that exists has no offset in some partitions of a topic that it reads.

    A member starts there at its `auto.offset.reset`, and with `latest` skips the existing records. While
    the group has no member, `kafkaform reset` can set an offset.
    """
    live = group.live
    if live is None or live.protocol == "share":
        return
    start = group.declared_client.get("auto.offset.reset", "latest (the default of consumers)")
    for topic in sorted(live.topics & {*group.topics}):
        observed = group.context.live.get(topic_ref(topic))
        count = (to_integer(observed.state.get("partitions")) if observed is not None else None) or 0
        missing = [n for n in range(count) if (topic, n) not in live.committed]
        # Without an offset in any partition, the group has never read this topic, which is no gap.
        if missing and len(missing) < count:
            yield Finding(
                f"{group.name} has no offset in {name_partitions(missing)} of {topic}: "
                f"it starts there at auto.offset.reset={start}",
                f"stop its members, then: {suggest_reset(group.name, topic, missing)}",
            )


@change_rule("KF407", Severity.WARNING)
def moving_without_members(subject: PlannedSubject) -> Iterator[Finding]:
    """A group that is to be deleted or reset has no member, but its offsets just moved.

    A consumer that uses `assign()` joins no group, and commits all the same; it would overwrite the reset
    or read records twice. Stop it first. One that commits less than every 5 s is not found.
    """
    ref, context = subject.planned.ref, subject.context
    observed, later = context.live.get(ref), context.groups.get(ref.name)
    group = get_group(observed) if observed is not None else None
    # A group with members may not be changed anyway: its kind refuses that.
    if group is None or later is None or group.active:
        return
    before, after = group.committed, later.committed
    # Only partitions that had an offset before: a first commit in another one is compared with nothing.
    moved = sorted(p for p, offset in after.items() if before.get(p, offset) != offset)
    if moved:
        topic, partition = moved[0]
        yield Finding(
            f"{ref.name} looks empty, but its offset in {topic}:{partition} went from "
            f"{before[moved[0]]:,} to {after[moved[0]]:,} while this plan was made",
            "find the consumer that uses assign() with this group.id, and stop it first",
        )


def _report_hazard(subject: PlannedSubject, hazard: str) -> Iterator[Finding]:
    match subject.planned.change:
        case Update(fields=fields):
            for field in fields:
                if field.assessment.hazard == hazard:
                    text = f"{subject.name}: {field.assessment.reason}"
                    yield Finding(text, field.assessment.remedy, path=field.path)
        case Create() | Delete() | Recreate():
            for assessment in assessments(subject.planned.change):
                if assessment.hazard == hazard:
                    yield Finding(assessment.reason, assessment.remedy)


def _name_groups(names: Collection[str]) -> str:
    return f"group{'' if len(names) == 1 else 's'} {listed(names)}"


@change_rule("KF409", Severity.ERROR, waivable=False)
def writes_go_on(subject: PlannedSubject) -> Iterator[Finding]:
    """Writes with acks=all would stop once the plan is applied.

    Such writes need min.insync.replicas replicas in sync. So it must not rise above the replication
    factor, or above the replicas in sync of any partition, and the replication factor must not fall below
    it.
    """
    planned, desired = subject.planned, subject.about
    if not isinstance(desired, Desired) or planned.status is Status.REFUSED:
        return
    if isinstance(planned.change, Update):
        # A deferred field is not changed by the apply, so it stops no writes.
        fields = {field.path: field for field in planned.change.fields if field.deferred is None}
        if fields.keys() & {MIN_ISR, REPLICATION_FACTOR, PLACEMENT}:
            yield from _check_writes(DeclaredTopic(desired, subject.context), fields)


def _check_writes(topic: DeclaredTopic, fields: dict[str, FieldChange]) -> Iterator[Finding]:
    value, replicas = topic.find_effective("min.insync.replicas"), topic.count(REPLICATION_FACTOR)
    if value is None or value.number is None or replicas is None:
        return
    least = value.number
    changed = [path for path in (REPLICATION_FACTOR, MIN_ISR, PLACEMENT) if path in fields]
    # Replicas that move do not change these two numbers: that they do not fit each other is not caused by the
    # plan.
    if least > replicas and changed[0] != PLACEMENT:
        yield Finding(
            f"min.insync.replicas would be {value.shown} with {counted(replicas, 'replica')}: "
            "writes with acks=all stop",
            f"write {setting(MIN_ISR, max(1, replicas - 1))} in the same plan",
            path=changed[0],
        )
        return
    facts = topic.context.facts
    layout = facts.get(ReplicaFacts).layout if facts is not None else None
    if layout is None or topic.name not in layout.topics:
        return
    short = list(_find_short_partitions(topic.name, fields, layout, least))
    if short:
        yield Finding(
            f"writes with acks=all would stop: min.insync.replicas is {value.shown}, and {listed(short)}",
            "wait until the missing brokers are back: `kafkaform doctor --wait 10m`",
            path=changed[0],
        )


def _find_short_partitions(
    topic: str, fields: dict[str, FieldChange], layout: Layout, least: int
) -> Iterator[str]:
    """Describe the partitions in which too few replicas would be in sync, though enough are now."""
    placement, min_isr = fields.get(PLACEMENT), fields.get(MIN_ISR)
    # 1 is Kafka's own default, for an account that may not read the cluster's.
    before = least if min_isr is None else int(min_isr.effective_before or 1)
    after = parse_assignment(str(placement.after)) if placement is not None else ()
    for partition in layout.topics[topic]:
        number, isr = partition.partition, partition.isr
        target: Replicas = after[number] if after else layout.replicas((topic, number))
        running = (layout.reassigning or {}).get((topic, number))
        # Metadata shows the replicas that a reassignment adds as if they were there.
        held = {*partition.replicas} - (running.adding if running is not None else set())
        # Brokers require no more replicas than exist; an apply waits for those that it adds.
        enough_now = len(isr) >= min(before, len(held))
        stay = [broker for broker in target if broker in isr or broker not in held]
        if enough_now and len(stay) < min(least, len(target)):
            yield f"partition {number} would have {counted(len(stay), 'replica')} in sync"

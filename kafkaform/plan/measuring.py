"""Measurements that changes are assessed by: sizes of data, copies of replicas, the record, and groups.

Each request takes brokers time, so only what the changes of the plan need is read.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from kafkaform.core.errors import AuditError, ClusterError, NotOffered, PermissionDenied
from kafkaform.core.model import DataSize, Diagnostic, Recreate, Severity, Status, Update
from kafkaform.core.rights import WATCHING, grant
from kafkaform.core.values import replace
from kafkaform.core.wording import code
from kafkaform.plan.disk_planning import PlannedMove, check_disk_space
from kafkaform.plan.risk_assessment import is_risky
from kafkaform.resources import GROUP, TOPIC, is_topic, topic_ref
from kafkaform.resources.base import RecordFacts
from kafkaform.resources.groups import RecreationFacts
from kafkaform.resources.replicas.facts import PLACEMENT, ReplicaFacts, list_partitions
from kafkaform.resources.replicas.layout import parse_assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.audit.trail import Trail
    from kafkaform.cluster.protocol import AuditReader, ClusterReader, GroupReader, ResourceReader
    from kafkaform.config.settings import AuditSettings, ClusterSettings
    from kafkaform.core.model import Change, Facts, Observation, Observed, ResourceRef, Setting
    from kafkaform.plan.difference import Proposal
    from kafkaform.resources.replicas.moves import MoveOptions
    from kafkaform.rules import RuleContext

# A little longer than auto.commit.interval.ms of consumers, 5 s by default.
WATCH_S = 6.0
"""The seconds to watch the offsets of a group that looks empty."""
_DOUBT_MS = 3_600_000
"""The milliseconds after an apply that died for which offsets that are missing count as never committed."""


def measure(
    facts: Facts,
    proposals: Sequence[Proposal],
    observation: Observation,
    cluster: ClusterReader,
    target: ClusterSettings | None,
    options: MoveOptions,
    dropped: Collection[ResourceRef] = (),
) -> Facts:
    """Add to the facts all that changes are assessed by.

    Args:
        facts: The facts as they were read.
        proposals: The changes of the plan.
        observation: The reading of the cluster that the plan is made with.
        target: The settings of the cluster, such as where its record is; None if there are none.
        options: The options of moves.
        dropped: The resources that a branch no longer declares, whose sizes are read, too.
    """
    changes = [proposal.change for proposal in proposals]
    # The topics whose data is at risk, whatever their size; with prices, all of them.
    topics = [each for each in proposals if is_topic(each.ref)]
    priced = target is not None and target.costs is not None
    sized = [each.observed for each in topics if priced or is_risky(each, facts)]
    sized += [observation.resources.get(ref) for ref in sorted(dropped) if is_topic(ref)]
    facts = _add_sizes(facts, [*filter(None, sized)], cluster)
    facts = _add_recreations(facts, [each for each in topics if isinstance(each.change, Recreate)], cluster)
    facts = _add_recommits(facts, changes, observation, cluster, target.audit if target else None)
    moves = [
        PlannedMove(change.ref.name, parse_assignment(str(field.before)), parse_assignment(str(field.after)))
        for change in changes
        if isinstance(change, Update)
        for field in change.fields
        if field.path == PLACEMENT and field.before is not None and field.after is not None
    ]
    if not moves:
        return facts
    facts = measure_copies(facts, moves, cluster, options)
    retained = {
        change.ref.name
        for change in changes
        if isinstance(change, Update) and any("retention" in field.path for field in change.fields)
    }
    return check_disk_space(facts, moves, cluster, options, retained)


def _add_sizes(facts: Facts, touched: Sequence[Observed], cluster: ResourceReader) -> Facts:
    if not touched:
        return facts
    hint: str | None = f"if it lacks Describe on the cluster, grant it: {code(grant(WATCHING))}"
    try:
        sizes = cluster.sizes(touched)
        unsized = [resource for resource in touched if resource.ref not in sizes]
        why = f"the sizes of {len(unsized)} of them are not visible to this account" if unsized else None
    except (NotOffered, PermissionDenied) as error:
        sizes, why, hint = {}, error.message, error.hint
    except ClusterError as error:
        # All partitions count as unread, not as empty: without data, a deletion would be no loss to consent
        # to.
        counts = {resource.ref: int(resource.state.get("partitions") or 0) for resource in touched}
        sizes = {ref: DataSize(0, count, count) for ref, count in counts.items()}
        why, hint = error.message, error.hint
    if why is None:
        return replace(facts, sizes=sizes)
    note = Diagnostic("KF416", Severity.INFO, f"could not read the sizes of topics: {why}", suggestion=hint)
    return replace(facts, sizes=sizes, diagnostics=(*facts.diagnostics, note))


def _add_recreations(facts: Facts, proposals: Sequence[Proposal], cluster: ClusterReader) -> Facts:
    """Add to the facts the records of topics that are recreated, and the groups that read them."""
    if not proposals:
        return facts
    observed = [each.observed for each in proposals if each.observed is not None]
    partitions = [partition for topic in observed for partition in list_partitions(topic)]
    try:
        spans, reading = cluster.log_spans(partitions), cluster.groups()
    except ClusterError as error:
        return facts.add_part(RecreationFacts(unread=error.message))
    records: dict[str, int] = {}
    for (topic, _), span in spans.items():
        records[topic] = records.get(topic, 0) + span.end - span.start
    return facts.add_part(RecreationFacts(records, reading.groups, reading.unread))


def _add_recommits(
    facts: Facts,
    changes: Sequence[Change],
    observation: Observation,
    cluster: AuditReader,
    audit: AuditSettings | None,
) -> Facts:
    """Add to the facts the first offsets that an earlier apply committed and that are gone.

    What an apply whose result is not known was to commit is no loss if that was less than an hour ago: had it
    committed, the offsets would not have expired (`offsets.retention.minutes`). Longer ago, somebody may have
    used the group and deleted it, or changed that setting for a while: nothing shows it.
    """
    # Only in topics that exist, and stay: a new one has no records to skip or to read again.
    staying = observation.resources.keys() - {c.ref for c in changes if isinstance(c, Recreate)}
    offsets = {
        change.ref: {path: topic_ref(name) for path, name in first.items() if topic_ref(name) in staying}
        for change in changes
        if (first := GROUP.first_offsets(change))
    }
    if audit is None or not any(offsets.values()):
        return facts
    from kafkaform.audit.trail import read_trail  # most plans create no group

    try:
        trail = read_trail(cluster, audit, facts.cluster_id)
    except AuditError as error:
        note = Diagnostic("KF422", Severity.INFO, error.message, suggestion=error.hint)
        return replace(facts, diagnostics=(*facts.diagnostics, note))
    committed = {ref: _find_committed(ref, topics, trail, observation) for ref, topics in offsets.items()}
    if facts.offset_retention_ms is not None:
        # By the clock of this machine, whose error is small compared with the seven days of Kafka's default.
        oldest_ms = time.time_ns() // 1_000_000 - min(facts.offset_retention_ms, _DOUBT_MS)
        committed = {
            ref: {
                path: setting
                for path, setting in settings.items()
                if setting.certain or _parse_milliseconds(setting.at) <= oldest_ms
            }
            for ref, settings in committed.items()
        }
    lost = {ref: settings for ref, settings in committed.items() if settings}
    return facts.add_part(RecordFacts(lost)) if lost else facts


def _parse_milliseconds(at: str) -> float:
    """Return a time of the record in milliseconds since 1970; 0 if it cannot be parsed."""
    try:
        return datetime.fromisoformat(at).timestamp() * 1_000
    except ValueError:
        return 0.0


def _find_committed(
    ref: ResourceRef, topics: Mapping[str, ResourceRef], trail: Trail, observation: Observation
) -> dict[str, Setting]:
    """Find the latest commit of first offsets on record; one before the topic was replaced does not count."""
    committed = {}
    for path, topic in topics.items():
        uid = observation.resources[topic].uid
        settings = [
            setting
            for setting in trail.settings(ref, path)
            # An apply that died while it recreated the topic is continued.
            if not trail.replaced_since(topic, setting.at, uid)
            and not (setting.unended and trail.was_recreated_by(topic, setting.run))
        ]
        if settings:
            # A commit that is certain counts more than a later one without a result.
            committed[path] = next((setting for setting in settings if setting.certain), settings[0])
    return committed


def measure_copies(
    facts: Facts, moves: Sequence[PlannedMove], cluster: ClusterReader, options: MoveOptions
) -> Facts:
    """Add to the facts the sizes of copied replicas, and the throttles of brokers."""
    copied = [key for move in moves for key in move.added]
    known = replace(facts.get(ReplicaFacts), throttle=options.throttle)
    notes = list(facts.diagnostics)
    if copied:
        try:
            known = replace(known, partition_sizes=cluster.partition_sizes(copied))
        except ClusterError as error:
            text = f"could not read the sizes of the replicas to be moved: {error.message}"
            notes.append(Diagnostic("KF416", Severity.INFO, text, suggestion=error.hint))
        try:
            known = replace(known, throttles=cluster.throttles({name for name, _ in copied}))
        except ClusterError as error:
            text = f"could not read the present replication throttles: {error.message}"
            notes.append(Diagnostic("KF416", Severity.INFO, text, suggestion=error.hint))
    return replace(facts, diagnostics=tuple(notes)).add_part(known)


def read_groups_concerned(
    context: RuleContext,
    cluster: GroupReader,
    watch: Callable[[str], None] | None,
    dropped: Collection[ResourceRef] = (),
) -> tuple[RuleContext, tuple[Diagnostic, ...]]:
    """Add to the context of rules the groups that changes may affect; return notes on reading them too.

    Reading all groups takes long, so it waits until it is known which changes are allowed.

    Args:
        context: The context of rules, with the changes of the plan.
        watch: Receives a line before the offsets of a group that looks empty are watched for movement;
            None: no group is watched.
        dropped: The resources that a branch no longer declares.
    """
    changing = [planned.change for planned in context.changes if planned.status is not Status.REFUSED]
    readers = any(is_topic(change.ref) and TOPIC.affects_readers(change) for change in changing) or any(
        is_topic(ref) and ref in context.live for ref in dropped
    )
    watched = [
        change.ref.name for change in changing if GROUP.loses_offsets(change, context.live.get(change.ref))
    ]
    if not readers and not watched:
        return context, ()
    if watched and watch is not None:
        names = ", ".join(watched[:3]) + ("…" if len(watched) > 3 else "")
        watch(f"reading the offsets of {names} twice, {WATCH_S:.0f} s apart: a consumer may use assign()")
        time.sleep(WATCH_S)
    try:
        # Which groups read a topic is only known once all are read, so this takes long on clusters with many.
        reading = cluster.groups(None if readers else watched)
    except ClusterError as error:
        message = f"could not read the groups that consume these topics: {error.message}"
        return context, (Diagnostic("KF419", Severity.INFO, message, suggestion=error.hint),)
    message = f"some groups may be missing: {reading.unread}"
    notes = (Diagnostic("KF421", Severity.INFO, message),) if reading.unread else ()
    return replace(context, groups=reading.groups), notes

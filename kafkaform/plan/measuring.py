"""What changes touch, as far as it is needed to judge them: data, copies of replicas, the record, and groups.

Each answer takes the brokers time, so no more is asked than what concerns the changes of the plan.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from kafkaform.core.errors import AuditError, ClusterError, NotOffered, PermissionDenied
from kafkaform.core.layout import parse_assignment
from kafkaform.core.model import DataSize, Diagnostic, Severity, Status, Update
from kafkaform.core.rights import WATCHING, grant
from kafkaform.plan.disk_planning import PlannedMove, check_disk_space
from kafkaform.plan.planner import is_risky
from kafkaform.resources import KINDS
from kafkaform.resources.consumer_group.risk import GroupFacts
from kafkaform.resources.topic.live import topic_facts
from kafkaform.resources.topic.operations import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkaform.audit.trail import Trail
    from kafkaform.cluster.protocol import (
        AuditReader,
        ClusterReader,
        GroupReader,
        ResourceReader,
    )
    from kafkaform.config.settings import AuditSettings, ClusterSettings
    from kafkaform.core.groups import Group
    from kafkaform.core.model import (
        Change,
        Facts,
        Observation,
        Observed,
        PlannedChange,
        ResourceRef,
        Setting,
    )
    from kafkaform.core.moves import MoveOptions
    from kafkaform.plan.planner import Proposal

WATCH_S = 6.0
"""How long to watch the offsets of a group that looks empty: consumers commit every 5 s by default."""


def measure(
    facts: Facts,
    proposals: Sequence[Proposal],
    observation: Observation,
    cluster: ClusterReader,
    target: ClusterSettings | None,
    options: MoveOptions,
) -> Facts:
    """The facts with all that changes are judged by.

    Args:
        facts: The facts as they were read.
        proposals: What a plan would change.
        observation: The reading of the cluster that it is made with.
        cluster: The cluster.
        target: What the project says of it, such as where its record is; None if nothing.
        options: How an apply moves replicas.
    """
    changes = [proposal.change for proposal in proposals]
    facts = _with_sizes(facts, _risky(proposals, observation, facts), cluster)
    facts = _with_recommits(facts, changes, observation, cluster, target.audit if target else None)
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


def _risky(proposals: Iterable[Proposal], observation: Observation, facts: Facts) -> list[Observed]:
    """The resources with data of which something is at risk, whatever their size."""
    return [
        observation.resources[proposal.ref]
        for proposal in proposals
        if KINDS[proposal.ref.kind].placed
        and proposal.ref in observation.resources
        and is_risky(proposal, observation, facts)
    ]


def _with_sizes(facts: Facts, touched: Sequence[Observed], cluster: ResourceReader) -> Facts:
    if not touched:
        return facts
    hint: str | None = f"if it lacks Describe on the cluster, grant it: {grant(WATCHING)}"
    try:
        sizes = cluster.sizes(touched)
        untold = [resource for resource in touched if resource.ref not in sizes]
        why = f"the sizes of {len(untold)} of them are not visible to this account" if untold else None
    except (NotOffered, PermissionDenied) as error:
        sizes, why, hint = {}, error.message, error.hint
    except ClusterError as error:  # there may be data: consent must not rest on its absence
        counts = {resource.ref: int(resource.state.get("partitions") or 0) for resource in touched}
        sizes = {ref: DataSize(0, count, count) for ref, count in counts.items()}
        why, hint = error.message, error.hint
    if why is None:
        return replace(facts, sizes=sizes)
    note = Diagnostic("KF416", Severity.INFO, f"the sizes of topics were not read: {why}", suggestion=hint)
    return replace(facts, sizes=sizes, diagnostics=(*facts.diagnostics, note))


def _with_recommits(
    facts: Facts,
    changes: Iterable[Change],
    observation: Observation,
    cluster: AuditReader,
    audit: AuditSettings | None,
) -> Facts:
    """The facts with the first offsets of these changes that an earlier apply committed, and are gone.

    A commit makes the group. If there is no group, and an apply that wrote no result began less than
    `offsets.retention.minutes` ago, it died before it committed: the offsets cannot have expired since.
    """
    # Only in topics that there are already: a new one has nothing to skip.
    offsets = {
        change.ref: {path: topic for path, topic in first.items() if topic in observation.resources}
        for change in changes
        if (first := KINDS[change.ref.kind].first_offsets(change))
    }
    if audit is None or not any(offsets.values()):
        return facts
    from kafkaform.audit.trail import read_trail  # most plans make no group

    try:
        trail = read_trail(cluster, audit, facts.cluster_id)
    except AuditError as error:
        note = Diagnostic("KF422", Severity.INFO, error.message, suggestion=error.hint)
        return replace(facts, diagnostics=(*facts.diagnostics, note))
    found = {ref: _committed(ref, topics, trail) for ref, topics in offsets.items()}
    oldest_ms = time.time_ns() // 1_000_000 - (facts.offset_retention_ms or 0)
    for ref, settings in found.items():
        observed = observation.resources.get(ref)
        if facts.offset_retention_ms is not None and (observed is None or observed.live is None):
            found[ref] = {
                path: setting
                for path, setting in settings.items()
                if not setting.unended or _milliseconds(setting.at) <= oldest_ms
            }
    recommits = {ref: settings for ref, settings in found.items() if settings}
    return GroupFacts(recommits).beside(facts) if recommits else facts


def _milliseconds(at: str) -> float:
    """Return the milliseconds since 1970 of a time of the record; 0, which is long ago, if it is none."""
    try:
        return datetime.fromisoformat(at).timestamp() * 1_000
    except ValueError:
        return 0.0


def _committed(ref: ResourceRef, topics: Mapping[str, ResourceRef], trail: Trail) -> dict[str, Setting]:
    """What the latest apply committed, or may have; a topic made anew since has taken the offsets with it."""
    found = {}
    for path, topic in topics.items():
        settings = [
            setting for setting in trail.settings(ref, path) if not trail.replaced_since(topic, setting.at)
        ]
        if settings:
            found[path] = next((setting for setting in settings if setting.certain), settings[0])
    return found


def measure_copies(
    facts: Facts, moves: Sequence[PlannedMove], cluster: ClusterReader, options: MoveOptions
) -> Facts:
    """Return the facts with how much the copied replicas hold, and how fast brokers may copy them."""
    copied = [key for move in moves for key in move.added]
    known = replace(topic_facts(facts), throttle=options.throttle)
    notes = list(facts.diagnostics)
    if copied:
        try:
            known = replace(known, partition_sizes=cluster.partition_sizes(copied))
        except ClusterError as error:
            text = f"how much the replicas to be moved hold was not read: {error.message}"
            notes.append(Diagnostic("KF416", Severity.INFO, text, suggestion=error.hint))
        try:
            known = replace(known, throttles=cluster.throttles({name for name, _ in copied}))
        except ClusterError as error:
            text = f"the replication throttles that are set were not read: {error.message}"
            notes.append(Diagnostic("KF416", Severity.INFO, text, suggestion=error.hint))
    return known.beside(replace(facts, diagnostics=tuple(notes)))


def groups_concerned(
    changes: Iterable[PlannedChange],
    live: Mapping[ResourceRef, Observed],
    cluster: GroupReader,
    tell: Callable[[str], None],
    *,
    watch: bool,
) -> tuple[Mapping[str, Group], tuple[Diagnostic, ...]]:
    """The groups that changes may affect, and what is said of reading them.

    To read all groups for nothing would take long, so it is done once it is known what may be changed.

    Args:
        changes: The changes of a plan.
        live: The live resources.
        cluster: The cluster.
        tell: Is told what a person would otherwise wait for without knowing.
        watch: Whether to wait and see if the offsets of a group that looks empty still move.
    """
    changing = [planned.change for planned in changes if planned.status is not Status.REFUSED]
    readers = any(KINDS[change.ref.kind].concerns_readers(change) for change in changing)
    watched = [
        change.ref.name
        for change in changing
        if (observed := live.get(change.ref)) is not None
        and KINDS[change.ref.kind].is_watched(change, observed)
    ]
    if not readers and not watched:
        return {}, ()
    if watched and watch:
        names = ", ".join(watched[:3]) + ("…" if len(watched) > 3 else "")
        tell(f"reading the offsets of {names} twice, {WATCH_S:.0f} s apart: a consumer may use assign()")
        time.sleep(WATCH_S)
    try:
        reading = cluster.groups(None if readers else watched)
    except ClusterError as error:
        message = f"the groups that read the topics were not read: {error.message}"
        return {}, (Diagnostic("KF419", Severity.INFO, message, suggestion=error.hint),)
    message = f"not every group may be known: {reading.unread}"
    return reading.groups, (Diagnostic("KF421", Severity.INFO, message),) if reading.unread else ()

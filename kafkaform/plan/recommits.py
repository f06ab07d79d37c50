"""First offsets that a plan would commit, and that an earlier apply had committed: they are gone since."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaform.core.errors import AuditError
from kafkaform.core.groups import OFFSETS_PREFIX, partition_of
from kafkaform.core.model import Create, Delete, Diagnostic, ResourceRef, Severity, Update

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.audit.trail import Trail
    from kafkaform.cluster.protocol import AuditReader
    from kafkaform.config.settings import AuditSettings
    from kafkaform.core.model import Change, Facts, Observation, Plan, Setting


def with_recommits(
    facts: Facts, plan: Plan, observation: Observation, cluster: AuditReader, audit: AuditSettings | None
) -> Facts:
    """The facts with what the record says of first offsets in a plan; it is read only if there are any.

    Args:
        facts: The facts.
        plan: A plan that was made with them.
        observation: The reading of the cluster that it was made with.
        cluster: The cluster.
        audit: Where its record is; None: nobody says.
    """
    due = {change.ref: paths for change in plan.changes if (paths := _due(change.change, observation))}
    if not due or audit is None:
        return facts
    from kafkaform.audit.trail import read_trail  # most plans make no group

    try:
        trail = read_trail(cluster, audit, facts.cluster_id)
    except AuditError as error:
        note = Diagnostic("KF422", Severity.INFO, error.message, suggestion=error.hint)
        return replace(facts, diagnostics=(*facts.diagnostics, note))
    found = {ref: _committed(ref, paths, trail) for ref, paths in due.items()}
    recommits = {ref: settings for ref, settings in found.items() if settings}
    return replace(facts, recommits=recommits) if recommits else facts


def _due(change: Change, observation: Observation) -> Sequence[str]:
    """The first offsets of a change, in topics that there are already: a new one has nothing to skip."""
    return [path for path in first_offsets(change) if topic_of(path) in observation.resources]


def first_offsets(change: Change) -> Sequence[str]:
    """The paths of the first offsets that a change commits."""
    match change:
        case Create(state=state):
            paths = [*state]
        case Update(fields=fields):
            paths = [field.path for field in fields]
        case Delete():
            return ()
    return [path for path in paths if path.startswith(OFFSETS_PREFIX) and partition_of(path) is None]


def topic_of(path: str) -> ResourceRef:
    """The topic of a first offset."""
    return ResourceRef("Topic", path.removeprefix(OFFSETS_PREFIX))


def _committed(ref: ResourceRef, paths: Sequence[str], trail: Trail) -> dict[str, Setting]:
    """What the latest apply committed, or may have; a topic made anew since has taken the offsets with it."""
    found = {}
    for path in paths:
        topic = topic_of(path)
        settings = [one for one in trail.settings(ref, path) if not trail.replaced_since(topic, one.at)]
        if settings:
            found[path] = next((one for one in settings if one.certain), settings[0])
    return found

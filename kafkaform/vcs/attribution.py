"""Which changes of a plan a branch asks for, and which would be there without it: drift.

A reviewer answers for the edits of a branch. What the cluster owes to the manifests as they were before is
somebody else's, and must not be waved through with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaform.core.model import Create, Delete, Diagnostic, Origin, Severity, Undeclared, Update
from kafkaform.resources import KINDS
from kafkaform.resources.topic.operations import PLACEMENT
from kafkaform.resources.topic.replication import REPLICATION_FACTOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaform.core.model import Desired, FieldChange, Plan, PlannedChange, ResourceRef


def attributed(plan: Plan, earlier: Iterable[Desired], desired: Iterable[Desired]) -> Plan:
    """Say of every change of a plan where it comes from.

    Args:
        plan: The plan for what the manifests declare now.
        earlier: What they declared before the branch.
        desired: What they declare now.
    """
    before = {declared.ref: declared for declared in earlier}
    now = {declared.ref: declared for declared in desired}
    changes = tuple(_attributed(planned, before, now.get(planned.ref)) for planned in plan.changes)
    dropped = [ref for ref in sorted(before.keys() - now.keys()) if before[ref].state is not None]
    notes = [_dropped(ref) for ref in dropped if ref in plan.unmanaged]
    notes += [
        _handed_over(before[ref], now[ref])
        for ref in sorted(before.keys() & now.keys())
        if "" not in (teams := {before[ref].intent.team, now[ref].intent.team}) and len(teams) > 1
    ]
    return replace(plan, changes=changes, diagnostics=(*notes, *plan.diagnostics))


def _attributed(
    planned: PlannedChange, before: Mapping[ResourceRef, Desired], now: Desired | None
) -> PlannedChange:
    earlier = before.get(planned.ref)
    match planned.change:
        case Create(ref=ref, state=state):
            had = earlier.state if earlier is not None and earlier.state is not None else None
            equal = KINDS[ref.kind].equal
            same = (
                []
                if had is None
                else [path for path, value in state.items() if equal(path, had.get(path), value)]
            )
            return _from(planned, same, whole=had is not None and len(same) == len(state))
        case Update(fields=fields):
            same = [field.path for field in fields if earlier is not None and _stood(field, earlier, now)]
            return _from(planned, same, whole=len(same) == len(fields))
        case Delete():
            return _from(planned, [], whole=earlier is not None and earlier.state is None)


def _stood(field: FieldChange, earlier: Desired, now: Desired | None) -> bool:
    """Whether the manifest asked for this value of the field before, too."""
    if earlier.state is None:
        return False
    if field.path == PLACEMENT and now is not None:
        return _places(earlier) == _places(now)
    if field.path in earlier.state:
        return KINDS[earlier.ref.kind].equal(field.path, earlier.state[field.path], field.after)
    return field.after is None and earlier.intent.undeclared is Undeclared.RESET


def _places(declared: Desired) -> object:
    """All that a manifest says that decides where replicas are to be."""
    state = declared.state or {}
    counts = [state.get(path) for path in ("partitions", REPLICATION_FACTOR, PLACEMENT)]
    return counts, declared.intent.spec.get(PLACEMENT)


def _from(planned: PlannedChange, same: list[str], *, whole: bool) -> PlannedChange:
    if whole:
        return replace(planned, origin=Origin.DRIFT)
    if same:
        return replace(planned, origin=Origin.MIXED, earlier=tuple(same))
    return replace(planned, origin=Origin.BRANCH)


def _dropped(ref: ResourceRef) -> Diagnostic:
    return Diagnostic(
        "KF424",
        Severity.WARNING,
        f"{ref} is not declared any more: it stays on the cluster, and nobody manages it",
        None,
        "if it is to go, keep its manifest with `state: absent`; if it is to stay, this is all",
    )


def _handed_over(before: Desired, now: Desired) -> Diagnostic:
    """What is said of a resource that another team owns than before; it is about no change of the plan."""
    return Diagnostic(
        "KF440",
        Severity.WARNING,
        f"{now.ref} moves from team {before.intent.team} to {now.intent.team}",
        now.place("metadata.labels"),
        "have both teams approve it",
    )

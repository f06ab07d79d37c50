"""The comparison of a plan made now with the plan that was reviewed.

Only what an apply would carry out is compared: not wording, sizes, locations or findings, which vary, and not
the changes that neither plan carries out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaform.core.model import Create, Delete, FieldChange, Status, Undeclared, risk_of
from kafkaform.core.printable import clipped
from kafkaform.core.values import Value, replace
from kafkaform.plan.plan_header import PlanHeader, describe_environment
from kafkaform.resources import KINDS
from kafkaform.resources.base import field_order
from kafkaform.resources.replicas.facts import PLACEMENT
from kafkaform.resources.values import action_of, fields_of, format_value, label

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from kafkaform.core.model import Change, Desired, ResourceRef
    from kafkaform.core.plans import Consent, Plan, PlannedChange

    PlanWithHeader: TypeAlias = tuple[Plan, PlanHeader]

_DOES = {"create": "creates it", "update": "changes it", "delete": "deletes it", "recreate": "recreates it"}
_ELSEWHERE = "gets its replicas on other brokers than in the reviewed plan, because the cluster has changed"
_WAITS = {Status.NEEDS_CONSENT: "needs consent", Status.REFUSED: "is refused"}


class ReviewComparison(Value):
    """The comparison of a plan made now with the reviewed one; each entry is one printable line.

    Attributes:
        differences: Deviations from the reviewed plan: any of them stops an apply.
        notes: Reviewed changes that are done already, and new changes that an apply would not carry out.
        beyond: Whether an apply would carry out changes that are not in the reviewed plan, as after the merge
            of another branch that is not applied yet.
        separable: Whether all deviations are of resources that the reviewed plan does not change, so that an
            apply of the others only would match it.
    """

    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    beyond: bool = False
    separable: bool = False


def compare(reviewed: PlanWithHeader, now: PlanWithHeader, desired: Iterable[Desired]) -> ReviewComparison:
    """Compare what two plans would carry out.

    Args:
        reviewed: The plan that was reviewed.
        now: A plan for the same cluster, made now.
        desired: The manifests of the plan made now: they show whether a missing change is done or dropped.
    """
    (plan, header), (plan_now, header_now) = reviewed, now
    changes = {planned.ref: planned for planned in plan.changes}
    changes_now = {planned.ref: planned for planned in plan_now.changes}
    declared = {resource.ref: resource for resource in desired}
    findings = [_Finding(text) for text in _compare_headers(plan, header, plan_now, header_now)]
    for ref in sorted(changes.keys() | changes_now.keys()):
        findings_of_resource = _compare_resource(
            changes.get(ref), changes_now.get(ref), declared.get(ref), plan_now
        )
        findings += (
            replace(finding, text=f"{_clip(ref)} {finding.text}") for finding in findings_of_resource
        )
    findings += _compare_consents(plan, plan_now, {str(ref) for ref in changes})
    stopping = [finding for finding in findings if finding.stops]
    return ReviewComparison(
        tuple(finding.text for finding in stopping),
        tuple(finding.text for finding in findings if not finding.stops),
        any(finding.beyond for finding in stopping),
        bool(changes and stopping) and all(finding.separable for finding in stopping),
    )


class _Finding(Value):
    text: str
    stops: bool = True
    beyond: bool = False
    separable: bool = False


def _compare_headers(plan: Plan, header: PlanHeader, plan_now: Plan, header_now: PlanHeader) -> Iterator[str]:
    if plan.cluster_id != plan_now.cluster_id:
        ids = f"{_clip(plan.cluster_id)}; this is {_clip(plan_now.cluster_id)}"
        yield f"the reviewed plan is for the cluster {ids}"
    if header.environment != header_now.environment:
        expected, actual = (describe_environment(each.environment) for each in (header, header_now))
        yield f"the reviewed plan is for {expected}; this is {actual}"


def _compare_resource(
    before: PlannedChange | None, after: PlannedChange | None, declared: Desired | None, now: Plan
) -> Iterator[_Finding]:
    """Compare what two plans do to one resource."""
    if before is None:
        if after is not None:
            is_new = f"is not in the reviewed plan: an apply now {_action(after)}"
            yield _Finding(is_new, after.status is Status.PLANNED, beyond=True, separable=True)
    elif after is None:
        if before.status is Status.PLANNED:
            yield _describe_dropped(before, declared, now)
    elif Status.PLANNED not in {before.status, after.status}:
        return
    elif before.status is not after.status or action_of(before.change) != action_of(after.change):
        yield _Finding(
            f"is a different change: the reviewed plan {_action(before)}; an apply now {_action(after)}"
        )
    else:
        yield from _compare_change(before, after, declared, now)


def _describe_dropped(planned: PlannedChange, declared: Desired | None, now: Plan) -> _Finding:
    """Describe a change of the reviewed plan that would no longer be made."""
    fields = all(_is_done(field, planned.ref, declared, now) for field in _list_fields(planned))
    if fields and _is_there_or_gone(planned.change, declared, now):
        return _Finding("is already as the reviewed plan declares it", stops=False)
    return _Finding(
        f"would not change: the reviewed plan {_action(planned)}; an apply now leaves it unchanged"
    )


def _compare_change(
    before: PlannedChange, after: PlannedChange, declared: Desired | None, now: Plan
) -> Iterator[_Finding]:
    if _uid(before.change) != _uid(after.change):
        yield _Finding("was deleted and created again since the review")
    if risk_of(after.change) > risk_of(before.change):
        risks = f"{risk_of(before.change).label} in the reviewed plan, and {risk_of(after.change).label} now"
        yield _Finding(f"has a riskier change: {risks}")
    fields = {field.path: field for field in _list_fields(before)}
    fields_now = {field.path: field for field in _list_fields(after)}
    # A field that is deferred now is neither done nor changed by this apply: it is compared as missing.
    deferred = {field.path for field in fields_of(after.change) if field.deferred is not None}
    for path in sorted(fields.keys() | fields_now.keys(), key=field_order(KINDS[before.ref.kind])):
        reviewed, current = fields.get(path), fields_now.get(path)
        if reviewed is not None and path not in deferred and _is_chosen(path, declared):
            # The placement itself is not compared: it depends on the load of all brokers at the time of the
            # plan.
            if current is None:
                yield _Finding("already has its replicas placed", stops=False)
            elif reviewed.after != current.after:
                yield _Finding(_ELSEWHERE, stops=False)
            elif reviewed.before != current.before:
                yield _Finding("already has some of its replicas placed", stops=False)
        elif (
            reviewed is not None
            and current is None
            and path not in deferred
            and _is_done(reviewed, before.ref, declared, now)
        ):
            yield _Finding(f"already has {label(path)} {_value(reviewed, before, after=True)}", stops=False)
        else:
            yield from (
                _Finding(text, beyond=reviewed is None) for text in _compare_field(reviewed, current, before)
            )


def _is_chosen(path: str, declared: Desired | None) -> bool:
    """Return whether a plan places replicas by itself, without a manifest.

    Such a placement depends on the load of all brokers at the time. The number of replicas was reviewed.
    """
    return path == PLACEMENT and declared is not None and path not in (declared.state or {})


def _compare_field(
    reviewed: FieldChange | None, current: FieldChange | None, planned: PlannedChange
) -> Iterator[str]:
    """Yield the differences of one field."""
    if reviewed is not None and current is not None and not _begins_alike(reviewed, current, planned):
        was, is_ = (_value(field, planned, after=False) for field in (reviewed, current))
        yield f"now has {label(reviewed.path)} {is_}; it was {was} when the plan was reviewed"
    if reviewed is None:
        if current is not None:
            would = f"would get {label(current.path)} {_value(current, planned, after=True)}"
            yield f"{would}: the reviewed plan does not change that field"
    elif current is None:
        meant = _value(reviewed, planned, after=True)
        yield f"would keep its {label(reviewed.path)}: the reviewed plan sets it to {meant}"
    elif reviewed.after != current.after:
        meant, would_be = (_value(field, planned, after=True) for field in (reviewed, current))
        yield f"would get {label(reviewed.path)} {would_be}: the reviewed plan sets it to {meant}"


def _begins_alike(reviewed: FieldChange, current: FieldChange, planned: PlannedChange) -> bool:
    """Return whether a field has its reviewed value, or one from a part of the change."""
    return reviewed.before == current.before or KINDS[planned.ref.kind].field(reviewed.path).is_intermediate(
        reviewed, current.before
    )


def _compare_consents(plan: Plan, now: Plan, reviewed: Collection[str]) -> Iterator[_Finding]:
    """Yield the consents that only one of the plans has, except those for changes that are done already."""
    changing = {str(planned.ref) for planned in now.changes}
    for consent in plan.consents:
        if consent not in now.consents and consent.resource in changing:
            yield _Finding(f"{_consent(consent)} was given when the plan was reviewed, but is not given now")
    for consent in now.consents:
        if consent not in plan.consents:
            text = f"{_consent(consent)} was not given when the plan was reviewed"
            yield _Finding(text, separable=consent.resource not in reviewed)


def _is_done(field: FieldChange, ref: ResourceRef, declared: Desired | None, now: Plan) -> bool:
    """Return whether a field that an apply would no longer change has its target value.

    A field without a change is as the manifests declare it now; an undeclared config may have any value.
    """
    state = declared.state if declared is not None and declared.state is not None else {}
    if _is_chosen(field.path, declared):
        return True
    if declared is not None and field.path not in state:
        kept = declared.intent.undeclared is Undeclared.KEEP
        if kept or any(live.ref == ref and live.path == field.path for live in now.undeclared):
            return False
    return KINDS[ref.kind].field(field.path).equal(state.get(field.path), field.after)


def _is_there_or_gone(change: Change, declared: Desired | None, now: Plan) -> bool:
    """Return whether a resource without a change exists, or is gone, as after the reviewed change."""
    if change.ref in now.unknown:
        return False
    is_wanted = declared is not None and declared.state is not None
    if isinstance(change, Delete):
        return not is_wanted and change.ref not in now.unmanaged
    return is_wanted


def _list_fields(planned: PlannedChange) -> list[FieldChange]:
    """List the fields that an apply changes."""
    return [field for field in fields_of(planned.change) if field.deferred is None]


def _uid(change: Change) -> str | None:
    return None if isinstance(change, Create) else change.uid


def _action(planned: PlannedChange) -> str:
    if planned.status is Status.PLANNED:
        return _DOES[action_of(planned.change)]
    return f"leaves it unchanged, as the {action_of(planned.change)} {_WAITS[planned.status]}"


def _value(field: FieldChange, planned: PlannedChange, *, after: bool) -> str:
    return format_value(planned.ref.kind, field.path, field.after if after else field.before).short


def _consent(consent: Consent) -> str:
    return f"{_clip(consent.resource)}: consent to {_clip(consent.hazard)} ({clipped(consent.reason, 80)})"


def _clip(what: object) -> str:
    return clipped(str(what), 200)

"""Whether a plan made now does what an earlier one did that was reviewed, and nothing else.

Only what an apply would carry out is compared: not wording, sizes, places in files or findings, which vary,
and not what either plan leaves alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.core.model import Create, Delete, FieldChange, Status, Undeclared, risk_of
from kafkaform.core.printable import clipped
from kafkaform.resources import KINDS
from kafkaform.resources.topic.operations import PLACEMENT
from kafkaform.resources.values import action_of, fields_of, label, single

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkaform.core.model import Change, Consent, Desired, Plan, PlannedChange, ResourceRef
    from kafkaform.plan.plan_header import PlanHeader

    Made: TypeAlias = tuple[Plan, PlanHeader]

_DOES = {"create": "creates it", "update": "changes it", "delete": "deletes it"}
_ELSEWHERE = "gets its replicas on other brokers than in the reviewed plan, because the cluster has changed"
_WAITS = {Status.NEEDS_CONSENT: "needs consent", Status.REFUSED: "is refused"}


@dataclass(frozen=True, slots=True)
class ReviewComparison:
    """How a plan made now stands to the one that was reviewed; each entry is one printable line.

    Attributes:
        differences: What would be done otherwise than reviewed: any of them stops an apply.
        notes: What was reviewed and needs no doing any more, and what is new and is left alone.
        beyond: Whether something would be done of which the reviewed plan does not speak, as after the merge
            of another branch that is not applied yet.
    """

    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    beyond: bool = False


def compare(reviewed: Made, now: Made, desired: Iterable[Desired]) -> ReviewComparison:
    """Compare what two plans would do.

    Args:
        reviewed: The plan that was reviewed.
        now: One for the same cluster, made now.
        desired: The manifests that it was made from: they tell what is done already from what is no longer
            wanted.
    """
    (plan, made), (plan_now, made_now) = reviewed, now
    changes = {planned.ref: planned for planned in plan.changes}
    changes_now = {planned.ref: planned for planned in plan_now.changes}
    declared = {one.ref: one for one in desired}
    found = [_Finding(said) for said in _circumstances(plan, made, plan_now, made_now)]
    for ref in sorted(changes.keys() | changes_now.keys()):
        of_one = _resource(changes.get(ref), changes_now.get(ref), declared.get(ref), plan_now)
        found += (replace(finding, text=f"{_named(ref)} {finding.text}") for finding in of_one)
    found += (_Finding(said) for said in _consents(plan, plan_now))
    return ReviewComparison(
        tuple(finding.text for finding in found if finding.stops),
        tuple(finding.text for finding in found if not finding.stops),
        any(finding.beyond for finding in found if finding.stops),
    )


@dataclass(frozen=True, slots=True)
class _Finding:
    text: str
    stops: bool = True
    beyond: bool = False


def _circumstances(plan: Plan, made: PlanHeader, plan_now: Plan, made_now: PlanHeader) -> Iterator[str]:
    if plan.cluster_id != plan_now.cluster_id:
        ids = f"{_named(plan.cluster_id)}; this is {_named(plan_now.cluster_id)}"
        yield f"the reviewed plan is for the cluster {ids}"
    if made.environment != made_now.environment:
        one, other = (_environment(header.environment) for header in (made, made_now))
        yield f"the reviewed plan is for {one}; this is {other}"


def _resource(
    before: PlannedChange | None, after: PlannedChange | None, declared: Desired | None, now: Plan
) -> Iterator[_Finding]:
    """Compare what two plans do to one resource."""
    if before is None:
        if after is not None:
            is_new = f"is not in the reviewed plan: now an apply {_does(after)}"
            yield _Finding(is_new, after.status is Status.PLANNED, beyond=True)
    elif after is None:
        if before.status is Status.PLANNED:
            yield _no_more(before, declared, now)
    elif Status.PLANNED not in {before.status, after.status}:
        return
    elif before.status is not after.status or action_of(before.change) != action_of(after.change):
        yield _Finding(f"is another change: the reviewed plan {_does(before)}; now an apply {_does(after)}")
    else:
        yield from _change(before, after, declared, now)


def _no_more(planned: PlannedChange, declared: Desired | None, now: Plan) -> _Finding:
    """A change of the reviewed plan that would not be made any more."""
    fields = all(_is_done(field, planned.ref, declared, now) for field in _fields(planned))
    if fields and _is_there_or_gone(planned.change, declared, now):
        return _Finding("is as the reviewed plan would have it already", stops=False)
    return _Finding(f"would stay as it is: the reviewed plan {_does(planned)}; now an apply leaves it alone")


def _change(
    before: PlannedChange, after: PlannedChange, declared: Desired | None, now: Plan
) -> Iterator[_Finding]:
    if _uid(before.change) != _uid(after.change):
        yield _Finding("was deleted and created again since the review")
    if risk_of(after.change) > risk_of(before.change):
        risks = f"{risk_of(before.change).label} in the reviewed plan, and {risk_of(after.change).label} now"
        yield _Finding(f"has a riskier change: {risks}")
    fields = {field.path: field for field in _fields(before)}
    fields_now = {field.path: field for field in _fields(after)}
    deferred = {field.path for field in fields_of(after.change) if field.deferred is not None}
    for path in sorted(fields.keys() | fields_now.keys(), key=KINDS[before.ref.kind].field_order):
        one, other = fields.get(path), fields_now.get(path)
        if one is not None and path not in deferred and _is_chosen(path, declared):
            if other is None:
                yield _Finding("has its replicas placed already", stops=False)
            elif one.after != other.after:
                yield _Finding(_ELSEWHERE, stops=False)
            elif one.before != other.before:
                yield _Finding("has a part of its replicas placed already", stops=False)
        elif (
            one is not None
            and other is None
            and path not in deferred
            and _is_done(one, before.ref, declared, now)
        ):
            yield _Finding(f"has {label(path)} {_value(one, before, after=True)} already", stops=False)
        else:
            yield from (_Finding(text, beyond=one is None) for text in _field(one, other, before))


def _is_chosen(path: str, declared: Desired | None) -> bool:
    """Whether a plan says where replicas are to be, and no manifest does.

    It goes by what all brokers hold at the time. How many replicas there are to be was reviewed.
    """
    return path == PLACEMENT and declared is not None and path not in (declared.state or {})


def _field(one: FieldChange | None, other: FieldChange | None, planned: PlannedChange) -> Iterator[str]:
    """What differs in one field."""
    if one is not None and other is not None and not _begins_alike(one, other, planned):
        was, is_ = (_value(field, planned, after=False) for field in (one, other))
        yield f"has {label(one.path)} {is_} now, and had {was} when the plan was reviewed"
    if one is None:
        if other is not None:
            would = f"would get {label(other.path)} {_value(other, planned, after=True)}"
            yield f"{would}: the reviewed plan leaves that field alone"
    elif other is None:
        meant = _value(one, planned, after=True)
        yield f"would keep its {label(one.path)}: the reviewed plan sets it to {meant}"
    elif one.after != other.after:
        meant, would_be = (_value(field, planned, after=True) for field in (one, other))
        yield f"would get {label(one.path)} {would_be}: the reviewed plan sets it to {meant}"


def _begins_alike(one: FieldChange, other: FieldChange, planned: PlannedChange) -> bool:
    """Whether a field has the value that it was reviewed with, or what a part of the change made of it."""
    return one.before == other.before or KINDS[planned.ref.kind].on_the_way(one, other.before)


def _consents(plan: Plan, now: Plan) -> Iterator[str]:
    """Consents that one plan rests on and the other does not; those of what is done already do not count."""
    changing = {str(planned.ref) for planned in now.changes}
    for consent in plan.consents:
        if consent not in now.consents and consent.resource in changing:
            yield f"{_consent(consent)} counted when the plan was reviewed, and is not given now"
    for consent in now.consents:
        if consent not in plan.consents:
            yield f"{_consent(consent)} was not given when the plan was reviewed"


def _is_done(field: FieldChange, ref: ResourceRef, declared: Desired | None, now: Plan) -> bool:
    """Whether a field that an apply would no longer change has the value that it was to get.

    What has no change is as the manifests have it now; a config that they do not mention may be anything.
    """
    state = declared.state if declared is not None and declared.state is not None else {}
    if _is_chosen(field.path, declared):
        return True
    if declared is not None and field.path not in state:
        kept = declared.intent.undeclared is Undeclared.KEEP
        if kept or any(live.ref == ref and live.path == field.path for live in now.undeclared):
            return False
    return KINDS[ref.kind].equal(field.path, state.get(field.path), field.after)


def _is_there_or_gone(change: Change, declared: Desired | None, now: Plan) -> bool:
    """Whether a resource that has no change any more is there, or is gone, as it was to be."""
    if change.ref in now.unknown:
        return False
    is_wanted = declared is not None and declared.state is not None
    if isinstance(change, Delete):
        return not is_wanted and change.ref not in now.unmanaged
    return is_wanted


def _fields(planned: PlannedChange) -> list[FieldChange]:
    """The fields that an apply carries out."""
    return [field for field in fields_of(planned.change) if field.deferred is None]


def _uid(change: Change) -> str | None:
    return None if isinstance(change, Create) else change.uid


def _does(planned: PlannedChange) -> str:
    if planned.status is Status.PLANNED:
        return _DOES[action_of(planned.change)]
    return f"leaves it alone, as the {action_of(planned.change)} {_WAITS[planned.status]}"


def _value(field: FieldChange, planned: PlannedChange, *, after: bool) -> str:
    return single(planned.ref.kind, field.path, field.after if after else field.before).short


def _environment(name: str | None) -> str:
    return "no environment" if name is None else f"environment {_named(name)}"


def _consent(consent: Consent) -> str:
    return f"{_named(consent.resource)}: consent to {_named(consent.hazard)} ({clipped(consent.reason, 80)})"


def _named(what: object) -> str:
    return clipped(str(what), 200)

"""The limits of what may be done: what a project allows, consents, and which changes they let through."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkaform.core.errors import UsageError
from kafkaform.core.model import (
    Change,
    Consent,
    Create,
    Delete,
    Desired,
    Diagnostic,
    Facts,
    FieldChange,
    Observed,
    Plan,
    ResourceRef,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Update,
    assessments,
)
from kafkaform.core.wording import nearest
from kafkaform.resources import KINDS
from kafkaform.resources.consent import (
    ANNOTATION,
    WHY,
    Consents,
    Grant,
    allow_flags,
    annotation,
    consent_line,
    covering,
    split_head,
)
from kafkaform.resources.topic.live import topic_facts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from kafkaform.resources.base import Binding

OWN_PREFIX = "__kafkaform_"
"""What the names of kafkaform's own topics and groups start with."""

UNHEALTHY_REMEDY = "wait until kafkaform doctor --wait 10m returns, then apply again"


@dataclass(frozen=True, slots=True)
class Policy:
    """The permissions of a project and a cluster, besides what manifests say.

    Attributes:
        forbid: Hazards (globs) that are refused on this cluster whatever the consent, such as
            `partition-increase`.
        protected: Names (globs) of resources that are never deleted.
        ignore: Names (globs) of live resources that nobody declares and nobody is told of.
        owns: Names (globs) of the resources that pruning may delete.
        prune: Whether undeclared topics inside `owns` are to be deleted.
        allow: Consents given on the command line.
        blocked: What rules have against a resource: it is refused.
        brake: What a rule has against all that is not safe in this plan; None if nothing.
    """

    forbid: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    owns: tuple[str, ...] = ()
    prune: bool = False
    allow: tuple[Grant, ...] = ()
    blocked: Mapping[ResourceRef, tuple[Diagnostic, ...]] = field(default_factory=dict)
    brake: Diagnostic | None = None

    def allows(self, ref: ResourceRef, hazard: str) -> bool:
        """Tell whether a consent of the command line is for that hazard of that resource."""
        return any(grant.covers(ref, hazard) for grant in self.allow)

    def refusing(self, findings: Iterable[Diagnostic]) -> Policy:
        """The policy that refuses, too, what these findings of rules are errors of."""
        blocked = dict(self.blocked)
        brake = self.brake
        for found in findings:
            if found.severity is not Severity.ERROR:
                continue
            if found.ref is None:
                brake = found
            else:
                blocked[found.ref] = (*blocked.get(found.ref, ()), found)
        return replace(self, blocked=blocked, brake=brake)


@dataclass(frozen=True, slots=True)
class Riskier:
    """A risk of a change that is worse than a saved plan says.

    Attributes:
        text: What it is, in words.
        judgement: How it is judged now.
    """

    text: str
    assessment: RiskAssessment


def matches(name: str, globs: Collection[str]) -> bool:
    """Tell whether a name fits one of the globs (case matters, as in Kafka)."""
    return any(fnmatchcase(name, glob) for glob in globs)


def is_own(ref: ResourceRef) -> bool:
    """Tell whether kafkaform made a resource for itself: nobody has to declare or remove it."""
    return ref.name.startswith(OWN_PREFIX)


def effective_judgements(change: Change) -> tuple[RiskAssessment, ...]:
    """The judgements of what an apply would carry out."""
    match change:
        case Update(fields=fields):
            return tuple(f.assessment for f in fields if f.deferred is None)
        case Create() | Delete():
            return assessments(change)


def bindings(change: Change) -> Mapping[str, Sequence[Binding | None]]:
    """The hazards of a change that need consent, and what it has to be for at each of their places."""
    kind = KINDS[change.ref.kind]
    places: list[tuple[RiskAssessment, FieldChange | None]] = (
        [(field.assessment, field) for field in change.fields if field.deferred is None]
        if isinstance(change, Update)
        else [(change.assessment, None)]
    )
    needed: dict[str, list[Binding | None]] = {}
    for assessment, place in sorted(places, key=lambda place: place[0].hazard):
        if assessment.risk is Risk.DESTRUCTIVE:
            for hazard in kind.consents_of(assessment):
                needed.setdefault(hazard, []).append(kind.binding(change, place))
    return needed


def refusal(
    change: Change, desired: Desired, observed: Observed | None, facts: Facts, policy: Policy
) -> tuple[str, str | None] | None:
    """Return why a change must not be done whatever the consent, and what to do instead; None if it may.

    Args:
        change: The change.
        desired: What is declared of the resource.
        observed: The live resource; None if there is none.
        facts: What is known of the cluster.
        policy: What is allowed.
    """
    at_stake = effective_judgements(change)
    blocked = policy.blocked.get(change.ref, ())
    if policy.brake is not None and any(assessment.risk > Risk.SAFE for assessment in at_stake):
        blocked = (*blocked, policy.brake)
    if blocked:
        return refusal_by(blocked)
    if (reason := topic_facts(facts).unplaceable.get(change.ref)) is not None:
        return reason, None
    if observed is not None and (obstacle := KINDS[change.ref.kind].obstacle(change, observed)):
        return obstacle
    for assessment in at_stake:
        if assessment.risk is Risk.IMPOSSIBLE:
            return assessment.reason, assessment.remedy
    for assessment in at_stake:
        for hazard in KINDS[change.ref.kind].hazards_of(assessment):
            if hazard and matches(hazard, policy.forbid):
                return f"{hazard} is forbidden on this cluster", _FORBIDDEN
    match change:
        case Delete():
            return protection(desired, observed, policy)
        case Update(fields=fields) if not at_stake:
            return "; ".join(dict.fromkeys(f.deferred for f in fields if f.deferred)), None
    return None


_FORBIDDEN = "see `forbid:` in kafkaform.yaml (of any cluster, where --cluster names none)"


def protection(desired: Desired, observed: Observed | None, policy: Policy) -> tuple[str, str | None] | None:
    """Return why a resource must not be deleted, and what to do first; None if it may."""
    if observed is not None and observed.internal:
        return "it is internal to Kafka", "remove the manifest"
    if matches(desired.ref.name, policy.protected):
        return "its name is protected in kafkaform.yaml", "first change `protected:` in a reviewed commit"
    if desired.intent.deletion_protection:
        return "spec.deletionProtection is true", "first remove it in a reviewed commit"
    return None


def refusal_of_riskier(
    ref: ResourceRef, riskier: Iterable[Riskier], policy: Policy
) -> tuple[str, str | None] | None:
    """The refusal of what is riskier than a saved plan says, and not consented to now; None if nothing is."""
    found = [each for each in riskier if not policy.allows(ref, each.assessment.hazard)]
    if not found:
        return None
    remedy = "make a new plan, and review it"
    if all(each.assessment.risk is Risk.DESTRUCTIVE for each in found):
        hazards = dict.fromkeys(each.assessment.hazard for each in found)
        remedy = f"{remedy}; or consent to it as it is now: {allow_flags(ref, hazards)}"
    return f"riskier than in the plan: {'; '.join(each.text for each in found)}", remedy


def consented(change: Change, consents: Consents) -> tuple[Status, str | None, list[Consent]]:
    """Tell whether a change has every consent that it needs, what it waits for, and what it has."""
    needed = bindings(change)
    given = [
        consent for hazard, places in needed.items() if (consent := consents.find(change.ref, hazard, places))
    ]
    missing = sorted({*needed} - {consent.hazard for consent in given})
    if missing:
        return Status.NEEDS_CONSENT, f"needs consent to {', '.join(missing)}", given
    return Status.PLANNED, None, given


def idle_grants(grants: Iterable[Grant], plan: Plan, known: Collection[ResourceRef]) -> Iterator[str]:
    """Describe the consents of the command line that nothing in a plan needs: each may be a slip.

    Args:
        grants: The consents.
        plan: The plan.
        known: The resources that it covers, those without a change too.

    Raises:
        UsageError: One names a resource that the plan does not cover.
    """
    names = sorted({*map(str, known), *(str(change.ref) for change in plan.changes)})
    at_stake = {change.ref: {*bindings(change.change)} for change in plan.changes}
    for grant in grants:
        if grant == Grant("*", "*"):
            continue
        if not any(fnmatchcase(name, grant.resource) for name in names):
            near = nearest(grant.resource, names)
            meant = f"did you mean {near}?" if near else "write KIND/NAME as the plan does"
            if grant.is_exact:
                raise UsageError(f"{grant}: this plan covers no {grant.resource}", hint=meant)
            yield f"{grant} matches no resource of this plan: {meant}"
        elif not any(grant.covers(ref, hazard) for ref, hazards in at_stake.items() for hazard in hazards):
            matching = [found for ref, found in at_stake.items() if fnmatchcase(str(ref), grant.resource)]
            needed = sorted(set().union(*matching))
            instead = f"; what it matches needs {', '.join(needed)}" if needed else ""
            yield f"nothing in this plan needs {grant}{instead}"


def idle_consents(change: Change | None, desired: Desired) -> Iterator[Diagnostic]:
    """Describe the consents in a manifest that cover nothing: spent, or not for what is planned."""
    if desired.state is None and change is None:
        return  # a tombstone keeps its consent: what comes back by that id is to go again
    hazards = {assessment.hazard for assessment in assessments(change)} if change is not None else set()
    needed = bindings(change) if change is not None else {}
    hazards.update(needed)
    annotated = desired.intent.allow
    unread = {a.hazard for a in assessments(change) if a.data_unread} if change is not None else set()
    used = {covering(annotated, hazard, place) for hazard, places in needed.items() for place in places}
    for head in sorted(set(annotated) - used):
        hazard, bound = split_head(head)
        if hazard in unread:
            continue  # it is for the time when the data can be read
        places = needed.get(hazard, ())
        if places:
            if any(covering(annotated, hazard, place) for place in places) and bound:
                continue  # it is for another cluster, or for what was there before
            lines = [consent_line(hazard, place, annotated[head] if not bound else WHY) for place in places]
            said = (
                f"consents to {head}, which does not cover this one"
                if bound
                else (f"consents to {hazard} without naming the value or topic id, so it covers nothing")
            )
            others = [f"{other}: {reason}" for other, reason in annotated.items() if bound or other != head]
            remedy = f"if this one is meant, write {annotation([*others, *lines])} in metadata.annotations"
            yield Diagnostic(
                "KF417",
                Severity.WARNING,
                f"{desired.ref} {said}",
                desired.location,
                remedy,
                ref=desired.ref,
            )
        elif bound:
            yield Diagnostic(
                "KF417",
                Severity.INFO,
                f"{desired.ref} consents to {head}, which nothing in this plan needs any more",
                desired.location,
                f"remove it from {ANNOTATION} once it is applied on every cluster",
                ref=desired.ref,
            )
        elif hazard not in hazards:
            yield Diagnostic(
                "KF417",
                Severity.WARNING,
                f"{desired.ref} consents to {hazard}, which nothing in this plan needs",
                desired.location,
                f"remove it from {ANNOTATION}, or it will allow the next {hazard} without asking",
                ref=desired.ref,
            )


_FEW = 2
"""How many findings a refusal quotes; all of them are among the diagnostics of the plan."""


def refusal_by(blocked: Sequence[Diagnostic]) -> tuple[str, str | None]:
    """The reason and the remedy of a refusal by rules."""
    reasons = [f"{found.code}: {found.message}" for found in blocked[:_FEW]]
    if len(blocked) > _FEW:
        others = dict.fromkeys(found.code for found in blocked[_FEW:])
        reasons.append(f"and {', '.join(others)}, see the findings")
    remedies = dict.fromkeys(found.suggestion for found in blocked[:_FEW] if found.suggestion)
    return "; ".join(reasons), "; ".join(remedies) or None


def nothing_to_make(desired: Desired) -> Diagnostic:
    """Describe a resource that does not exist, and of which a manifest sets nothing."""
    return Diagnostic(
        "KF420",
        Severity.INFO,
        f"{desired.ref} does not exist, and its manifest sets nothing on the cluster",
        desired.location,
        "its first member creates it; so does an apply, once its manifest has first offsets or a config",
        ref=desired.ref,
    )


_OF_REPLICAS = frozenset({"partitions", "placement"})
"""The fields that say how many replicas there are, and where."""


def moves_data(change: Change) -> bool:
    """Tell whether a change destroys data, moves it, or has brokers make place for more of it."""
    match change:
        case Create():
            return False
        case Update(fields=fields):
            moves = any(field.path in _OF_REPLICAS and field.deferred is None for field in fields)
            return moves or any(
                assessment.risk >= Risk.DESTRUCTIVE for assessment in effective_judgements(change)
            )
        case Delete():
            return True


def hold_back(plan: Plan, findings: Collection[Diagnostic]) -> Plan:
    """A plan for a cluster that is not healthy: what destroys or places data is refused, the rest stands.

    Args:
        plan: The plan.
        findings: What is wrong with the cluster; empty: nothing is.
    """
    if not findings:
        return plan
    reason = f"the cluster is not healthy: {'; '.join(f'{f.code}: {f.message}' for f in findings)}"
    changes = tuple(
        replace(planned, status=Status.REFUSED, reason=reason, remedy=UNHEALTHY_REMEDY)
        if planned.status is Status.PLANNED and moves_data(planned.change)
        else planned
        for planned in plan.changes
    )
    return replace(plan, changes=changes)

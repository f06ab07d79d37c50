"""The gate: changes are planned, need consent, or are refused."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkaform import rules
from kafkaform.core.errors import UsageError
from kafkaform.core.model import (
    Change,
    Create,
    Delete,
    Desired,
    Diagnostic,
    Facts,
    FieldChange,
    Observed,
    ResourceRef,
    Risk,
    RiskAssessment,
    Status,
    Update,
    assessments,
)
from kafkaform.core.plans import Plan, PlannedChange, RequiredConsent
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import code, nearest
from kafkaform.plan.measuring import read_groups_concerned
from kafkaform.plan.policy import Policy, find_protection
from kafkaform.plan.risk_assessment import take_higher_risk
from kafkaform.resources import GROUP, KINDS, is_group
from kafkaform.resources.base import bind_consent
from kafkaform.resources.consent import Consents, Grant, allow_flags
from kafkaform.resources.name_globs import matches
from kafkaform.resources.replicas.facts import ReplicaFacts
from kafkaform.rules import RuleContext, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kafkaform.cluster.protocol import GroupReader
    from kafkaform.config.settings import Settings
    from kafkaform.core.plans import Binding
    from kafkaform.plan.difference import Proposal, RiskIncrease


UNHEALTHY_REMEDY = "wait until `kafkaform doctor --wait 10m` returns, then apply again"

_MAX_QUOTED_FINDINGS = 2
"""The most findings that a refusal quotes; all of them are among the diagnostics of the plan."""
_REPLICA_FIELDS = frozenset({"partitions", "placement"})
"""The fields that determine how many replicas there are, and where."""


def gate(
    proposals: Iterable[Proposal], live: Mapping[ResourceRef, Observed], facts: Facts, policy: Policy
) -> tuple[PlannedChange, ...]:
    """Decide whether each assessed change is planned, needs consent, or is refused.

    Returns:
        The changes with their status, and the consents that they need, in the order of the proposals.
    """
    return tuple(_gate(proposal, live.get(proposal.ref), facts, policy) for proposal in proposals)


def refuse_by_rules(
    proposals: Iterable[Proposal], gated: Iterable[PlannedChange], policy: Policy
) -> tuple[PlannedChange, ...]:
    """Refuse the changes that rules object to.

    Args:
        proposals: The assessed changes.
        gated: The same changes with their status.
        policy: The objections of rules to resources, and to all changes that are not safe.
    """
    return tuple(
        _refuse(proposal, *objection)
        if planned.status is not Status.REFUSED
        and (
            objection := next(
                filter(None, (find_objection(change, policy) for change in proposal.judged)), None
            )
        )
        else planned
        for proposal, planned in zip(proposals, gated, strict=True)
    )


def _gate(proposal: Proposal, observed: Observed | None, facts: Facts, policy: Policy) -> PlannedChange:
    desired = proposal.desired
    # Refusals come before consents: no consent allows what is impossible, forbidden or protected.
    refusals = (find_refusal(change, desired, observed, facts, policy) for change in proposal.judged)
    objection = next(filter(None, refusals), None) or refuse_increased_risk(
        proposal.ref, proposal.riskier, policy
    )
    if objection is not None:
        return _refuse(proposal, *objection)
    planned = proposal.planned
    earlier = {consent.hazard: consent.reason for consent in proposal.earlier}
    required = find_required_consents(
        planned.change, Consents(policy.allow, desired.intent.allow, earlier, planned.layer)
    )
    missing = sorted(consent.hazard for consent in required if consent.given is None)
    # A saved plan is judged without manifests, and the risk of a partition increase depends on this.
    if proposal.saved is None and isinstance(proposal.change, Update):
        planned = replace(planned, keyed=desired.intent.keyed)
    return replace(
        planned,
        status=Status.NEEDS_CONSENT if missing else Status.PLANNED,
        reason=f"needs consent to {', '.join(missing)}" if missing else None,
        remedy=None,
        consents=required,
    )


def _refuse(proposal: Proposal, reason: str, remedy: str | None) -> PlannedChange:
    planned = proposal.planned
    # Only the consents of the saved plan: a new one is not used up by a change that is refused.
    earlier = {consent.hazard: consent.reason for consent in proposal.earlier}
    return replace(
        planned,
        status=Status.REFUSED,
        reason=reason,
        remedy=remedy,
        consents=find_required_consents(planned.change, Consents((), earlier=earlier)),
    )


def list_open_changes(
    proposals: Iterable[Proposal], gated: Iterable[PlannedChange]
) -> tuple[PlannedChange, ...]:
    """List the changes as an apply would carry them out, each with the higher of both risks, for the rules.

    For a saved plan, these are the remaining changes.
    """
    return tuple(
        planned
        if proposal.saved is None
        else replace(planned, change=take_higher_risk(proposal.change, planned.change))
        for proposal, planned in zip(proposals, gated, strict=True)
    )


class Review(Value):
    """The result of gating changes.

    Attributes:
        gated: The changes with their status, consents and operations.
        open: The changes as an apply would carry them out: of a saved plan, the remaining ones.
        findings: The findings of rules.
        context: The context of rules, with the changes and the groups that they may affect.
    """

    gated: tuple[PlannedChange, ...]
    open: tuple[PlannedChange, ...]
    findings: tuple[Diagnostic, ...]
    context: RuleContext


def review_changes(
    proposals: Sequence[Proposal],
    context: RuleContext,
    policy: Policy,
    cluster: GroupReader,
    settings: Settings,
    watch: Callable[[str], None] | None,
    dropped: Collection[ResourceRef] = (),
) -> Review:
    """Gate changes by a policy and by consents, and run the rules about changes on those that pass.

    Args:
        proposals: The assessed changes.
        context: The context of rules, without the changes.
        policy: The policy.
        cluster: The cluster; the groups that changes may affect are read from it.
        settings: The severities of rules.
        watch: Receives a line before a group that looks empty is watched; None: no group is watched.
        dropped: The resources that a branch no longer declares, whose groups are read, too.
    """
    if context.facts is None:
        raise TypeError("changes are judged by what is known of a cluster")
    # Before the rules, which skip changes that are refused already; those that they object to are refused
    # afterwards.
    gated = gate(proposals, context.live, context.facts, policy)
    changes = list_open_changes(proposals, gated)
    change_context, notes = read_groups_concerned(replace(context, changes=changes), cluster, watch, dropped)
    findings = [*rules.check(change_context, settings.rules, (Stage.CHANGES, Stage.FORECAST))]
    gated = refuse_by_rules(proposals, gated, policy.refusing(findings))
    gated = tuple(
        planned
        # A refused change has no operations, so neither validation nor an apply can send any.
        if planned.status is Status.REFUSED
        else replace(planned, operations=KINDS[planned.ref.kind].operations(planned.change))
        for planned in gated
    )
    return Review(gated, list_open_changes(proposals, gated), (*findings, *notes), change_context)


def list_effective_assessments(change: Change) -> tuple[RiskAssessment, ...]:
    """Return the risk assessments of the fields that an apply would change."""
    match change:
        case Update(fields=fields):
            return tuple(f.assessment for f in fields if f.deferred is None)
        case Create() | Delete():
            return assessments(change)


def find_required_consents(change: Change, consents: Consents) -> tuple[RequiredConsent, ...]:
    """Find the consents that a change needs, each with the consent given for it, if any.

    Args:
        change: The assessed change.
        consents: The consents that may apply to its resource.
    """
    kind = KINDS[change.ref.kind]
    pairs: list[tuple[RiskAssessment, FieldChange | None]] = (
        # A deferred field is not carried out, so it needs no consent yet.
        [(field.assessment, field) for field in change.fields if field.deferred is None]
        if isinstance(change, Update)
        else [(change.assessment, None)]
    )
    needed: dict[str, list[Binding | None]] = {}
    for assessment, pair in sorted(pairs, key=lambda pair: pair[0].hazard):
        if assessment.risk is Risk.DESTRUCTIVE:
            for hazard in kind.hazards.to_consent(assessment):
                needed.setdefault(hazard, []).append(bind_consent(kind, change, pair))
    return tuple(
        RequiredConsent(hazard, tuple(bound), consents.find(change.ref, hazard, bound))
        for hazard, bound in needed.items()
    )


def resolve_consents(plan: Plan) -> Plan:
    """Resolve the consents that each change needs from those that the plan itself contains."""
    given: dict[str, dict[str, str]] = {}
    for consent in plan.consents:
        given.setdefault(consent.resource, {})[consent.hazard] = consent.reason
    return replace(
        plan,
        changes=tuple(
            replace(
                planned,
                consents=find_required_consents(
                    planned.change, Consents((), earlier=given.get(str(planned.ref), {}))
                ),
            )
            for planned in plan.changes
        ),
    )


def find_objection(change: Change, policy: Policy) -> tuple[str, str | None] | None:
    """Return the reason and remedy of the rules' objection to a change; None if there is none."""
    blocked = policy.blocked.get(change.ref, ())
    # The brake holds all changes that are not safe: their number was what tripped it.
    if policy.brake is not None and any(
        assessment.risk > Risk.SAFE for assessment in list_effective_assessments(change)
    ):
        blocked = (*blocked, policy.brake)
    return word_refusal(blocked) if blocked else None


def find_refusal(
    change: Change, desired: Desired, observed: Observed | None, facts: Facts, policy: Policy
) -> tuple[str, str | None] | None:
    """Return the reason and remedy if a change is refused regardless of consent; None otherwise.

    Args:
        change: The change.
        desired: The declared resource.
        observed: The live resource; None if there is none.
        facts: The facts of the cluster.
        policy: The policy.
    """
    if (objection := find_objection(change, policy)) is not None:
        return objection
    at_stake = list_effective_assessments(change)
    if (reason := facts.get(ReplicaFacts).unplaceable.get(change.ref)) is not None:
        return reason, None
    if observed is not None and is_group(change.ref) and (obstacle := GROUP.find_obstacle(change, observed)):
        return obstacle
    for assessment in at_stake:
        if assessment.risk is Risk.IMPOSSIBLE:
            return assessment.reason, assessment.remedy
    for assessment in at_stake:
        for hazard in KINDS[change.ref.kind].hazards.list_names(assessment):
            if hazard and matches(hazard, policy.forbid):
                return f"{hazard} is forbidden on this cluster", _FORBIDDEN
    match change:
        case Delete():
            return find_protection(desired, observed, policy)
        # Every field is deferred: an apply would have nothing to do.
        case Update(fields=fields) if not at_stake:
            return "; ".join(dict.fromkeys(f.deferred for f in fields if f.deferred)), None
    return None


_FORBIDDEN = "see `forbid:` in kafkaform.yaml (of every cluster, unless --cluster names one)"


def refuse_increased_risk(
    ref: ResourceRef, riskier: Iterable[RiskIncrease], policy: Policy
) -> tuple[str, str | None] | None:
    """Return the reason and remedy if risks are higher than in the saved plan, without new consent."""
    unconsented = [
        each
        for each in riskier
        if not all(policy.allows(ref, hazard) for hazard in (each.assessment.hazard, *each.assessment.also))
    ]
    if not unconsented:
        return None
    # Only destructive hazards can be consented to; a change that became disruptive or impossible needs a new
    # plan.
    remedy = "make a new plan, and review it"
    if all(each.assessment.risk is Risk.DESTRUCTIVE for each in unconsented):
        hazards = dict.fromkeys(hazard for each in unconsented for hazard in each.assessment.hazards)
        remedy = f"{remedy}; or consent to it as it is now: {code(allow_flags(ref, hazards))}"
    return f"riskier than in the plan: {'; '.join(each.text for each in unconsented)}", remedy


def word_refusal(blocked: Sequence[Diagnostic]) -> tuple[str, str | None]:
    """Word the reason and the remedy of a refusal by rules."""
    reasons = [finding.quote for finding in blocked[:_MAX_QUOTED_FINDINGS]]
    if len(blocked) > _MAX_QUOTED_FINDINGS:
        codes = dict.fromkeys(finding.code for finding in blocked[_MAX_QUOTED_FINDINGS:])
        reasons.append(f"and {', '.join(codes)}, see the findings")
    remedies = dict.fromkeys(
        finding.suggestion for finding in blocked[:_MAX_QUOTED_FINDINGS] if finding.suggestion
    )
    return "; ".join(reasons), "; ".join(remedies) or None


def find_idle_grants(grants: Iterable[Grant], plan: Plan, known: Collection[ResourceRef]) -> Iterator[str]:
    """Describe the consents of the command line that no change needs: each may be a mistake.

    Args:
        grants: The consents.
        plan: The plan.
        known: The resources that it covers, including those without a change.

    Raises:
        UsageError: A consent names a resource that the plan does not cover.
    """
    layers = {change.layer for change in plan.changes if change.layer}
    names = sorted({*map(str, known), *(str(change.ref) for change in plan.changes), *layers})
    at_stake = [(change, {required.hazard for required in change.consents}) for change in plan.changes]
    for grant in grants:
        # `--allow destructive` is for whatever the plan has, so it is never idle.
        if grant == Grant("*", "*"):
            continue
        if not any(fnmatchcase(name, grant.resource) for name in names):
            near = nearest(grant.resource, names)
            hint = f"did you mean {near}?" if near else "write KIND/NAME as the plan does"
            # A glob may be meant for other plans as well; an exact name that matches nothing is misspelt.
            if grant.is_exact:
                raise UsageError(f"{grant}: this plan covers no {grant.resource}", hint=hint)
            yield f"{grant} matches no resource of this plan: {hint}"
        elif not any(
            grant.covers(change.ref, hazard, change.layer)
            for change, hazards in at_stake
            for hazard in hazards
        ):
            names_all = replace(grant, hazard="*")
            matching = [
                hazards for change, hazards in at_stake if names_all.covers(change.ref, "", change.layer)
            ]
            needed = sorted(set().union(*matching))
            instead = f"; the resources that it matches need {', '.join(needed)}" if needed else ""
            yield f"nothing in this plan needs {grant}{instead}"


def moves_data(change: Change) -> bool:
    """Return whether a change destroys or moves data, or adds replicas."""
    match change:
        case Create():
            return False
        case Update(fields=fields):
            # New partitions need brokers that are up; moves may drop the last good copy.
            moves = any(field.path in _REPLICA_FIELDS and field.deferred is None for field in fields)
            return moves or any(
                assessment.risk >= Risk.DESTRUCTIVE for assessment in list_effective_assessments(change)
            )
        case Delete():
            return True


def refuse_while_unhealthy(plan: Plan, findings: Collection[Diagnostic]) -> Plan:
    """Refuse the changes that destroy or move data if the cluster is not healthy.

    Args:
        plan: The plan.
        findings: The problems of the cluster; empty if it is healthy.
    """
    if not findings:
        return plan
    reason = f"the cluster is not healthy: {'; '.join(finding.quote for finding in findings)}"
    changes = tuple(
        replace(planned, status=Status.REFUSED, reason=reason, remedy=UNHEALTHY_REMEDY)
        if planned.status is Status.PLANNED and moves_data(planned.change)
        else planned
        for planned in plan.changes
    )
    return replace(plan, changes=changes)

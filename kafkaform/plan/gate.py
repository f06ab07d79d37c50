"""The gate: changes are planned, need consent, or are refused."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

from kafkaform import rules
from kafkaform.core.errors import UsageError
from kafkaform.core.model import (
    Change,
    Create,
    Delete,
    Diagnostic,
    Facts,
    FieldChange,
    Recreate,
    ResourceRef,
    Risk,
    RiskAssessment,
    Status,
    Update,
    assessments,
)
from kafkaform.core.operations import Phase
from kafkaform.core.plans import Binding, Plan, PlannedChange, RequiredConsent
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import code, listed, nearest
from kafkaform.plan.measuring import read_groups_concerned
from kafkaform.plan.policy import Policy, find_protection
from kafkaform.plan.risk_assessment import take_higher_risk
from kafkaform.resources import GROUP, KINDS, topic_ref
from kafkaform.resources.base import bind_consent
from kafkaform.resources.consent import Consents, Grant, allow_flags
from kafkaform.resources.name_globs import matches
from kafkaform.resources.replicas.facts import ReplicaFacts
from kafkaform.resources.values import fields_of
from kafkaform.rules import RuleContext, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from kafkaform.cluster.protocol import GroupReader
    from kafkaform.config.settings import Settings
    from kafkaform.plan.difference import Proposal

Refusal: TypeAlias = "tuple[str, str | None]"
"""The reason why a change is refused, and the remedy."""

UNHEALTHY_REMEDY = "wait until `kafkaform doctor --wait 10m` returns, then apply again"

_MAX_QUOTED_FINDINGS = 2
"""The most findings that a refusal quotes; all of them are among the diagnostics of the plan."""
_REPLICA_FIELDS = frozenset({"partitions", "placement"})
"""The fields that determine how many replicas there are, and where."""


class GatedChange(Value):
    """A proposal, and what an apply will do with it.

    Attributes:
        proposal: The assessed change.
        planned: The whole change, with its status, consents and operations.
    """

    proposal: Proposal
    planned: PlannedChange

    @property
    def open(self) -> PlannedChange:
        """The change as an apply would carry it out: of a saved plan, the remaining one.

        Rules see it with the higher of both risks.
        """
        if self.proposal.saved is None:
            return self.planned
        return replace(self.planned, change=take_higher_risk(self.proposal.change, self.planned.change))


def gate(proposals: Iterable[Proposal], facts: Facts, policy: Policy) -> tuple[GatedChange, ...]:
    """Decide whether each assessed change is planned, needs consent, or is refused."""
    return tuple(
        _decide(proposal, next(_find_refusals(proposal, facts, policy), None), policy)
        for proposal in proposals
    )


def _decide(proposal: Proposal, refusal: Refusal | None, policy: Policy) -> GatedChange:
    """Set the status, consents and operations of a change."""
    planned, intent = proposal.planned, proposal.desired.intent
    earlier = {consent.hazard: consent.reason for consent in proposal.earlier}
    if refusal is None:
        consents = Consents(policy.allow, intent.allow, earlier, planned.layer)
        required = find_required_consents(planned.change, consents)
        missing = sorted(consent.hazard for consent in required if consent.given is None)
        status = Status.NEEDS_CONSENT if missing else Status.PLANNED
        reason, remedy = f"needs consent to {', '.join(missing)}" if missing else None, None
        operations = KINDS[planned.ref.kind].operations(planned.change)
    else:
        # No new consent: it is not used up by a change that is refused. And no operations, so neither
        # validation nor an apply can send any.
        required = find_required_consents(planned.change, Consents((), earlier=earlier))
        status, (reason, remedy), operations = Status.REFUSED, refusal, None
    return GatedChange(
        proposal,
        replace(
            planned, status=status, reason=reason, remedy=remedy, consents=required, operations=operations
        ),
    )


class Review(Value):
    """The result of gating changes.

    Attributes:
        gated: The changes with their status, consents and operations.
        findings: The findings of rules.
        context: The context of rules, with the changes and the groups that they may affect.
    """

    gated: tuple[GatedChange, ...]
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
        cluster: The cluster; the groups that changes may affect are read from it.
        settings: The severities of rules.
        watch: Receives a line before a group that looks empty is watched; None: no group is watched.
        dropped: The resources that a branch no longer declares, whose groups are read, too.
    """
    if context.facts is None:
        raise TypeError("changes are judged by what is known of a cluster")
    # Before the rules, which skip changes that are refused already; those that they object to are refused
    # afterwards.
    gated = gate(proposals, context.facts, policy)
    context = replace(context, changes=tuple(change.open for change in gated))
    context, notes = read_groups_concerned(context, cluster, watch, dropped)
    findings = [*rules.check(context, settings.rules, (Stage.CHANGES, Stage.FORECAST))]
    policy = policy.refusing(findings)
    gated = tuple(
        _decide(change.proposal, objection, policy)
        if change.planned.status is not Status.REFUSED
        and (objection := next(_find_objections(change.proposal, policy), None)) is not None
        else change
        for change in gated
    )
    gated = tuple(_keep_denials(_leave_out_kept_offsets(gated), policy))
    return Review(gated, (*findings, *notes), context)


def _leave_out_kept_offsets(gated: Sequence[GatedChange]) -> Iterator[GatedChange]:
    """Yield the changes without first offsets in topics whose recreation is refused: groups keep theirs."""
    kept = {
        change.planned.ref
        for change in gated
        if isinstance(change.planned.change, Recreate) and change.planned.status is Status.REFUSED
    }
    for each in gated:
        update = each.planned.change
        if isinstance(update, Update):
            first = GROUP.first_offsets(update)
            if all(topic_ref(first.get(field.path, "")) in kept for field in update.fields):
                continue
        yield each


def _keep_denials(gated: Iterable[GatedChange], policy: Policy) -> Iterator[GatedChange]:
    """Yield the changes; one that removes a denial is refused if its topic is to be deleted, and is not."""
    gated = [*gated]
    kept = {
        change.planned.ref
        for change in gated
        if isinstance(change.planned.change, Delete) and change.planned.status is not Status.PLANNED
    }
    for each in gated:
        operations = [o for o in each.planned.operations or () if o.phase is Phase.RELEASE]
        if waiting := sorted({str(ref) for o in operations for ref in o.needs if ref in kept}):
            reason = f"it stays until the deletion of {listed(waiting)} is applied"
            yield _decide(each.proposal, (reason, None), policy)
        else:
            yield each


def list_effective_assessments(change: Change) -> tuple[RiskAssessment, ...]:
    """Return the risk assessments of the fields that an apply would change."""
    match change:
        case Update(fields=fields):
            return tuple(f.assessment for f in fields if f.deferred is None)
        case Create() | Delete() | Recreate():
            return assessments(change)


def find_required_consents(change: Change, consents: Consents) -> tuple[RequiredConsent, ...]:
    """Find the consents that a change needs, each with the consent given for it, if any.

    Args:
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


def _find_objections(proposal: Proposal, policy: Policy) -> Iterator[Refusal]:
    """Yield the objections of rules to a change: to its resource, or to all changes that are not safe."""
    for change in proposal.judged:
        blocked = policy.blocked.get(change.ref, ())
        # The brake holds all changes that are not safe: their number was what tripped it.
        if policy.brake is not None and any(
            assessment.risk > Risk.SAFE for assessment in list_effective_assessments(change)
        ):
            blocked = (*blocked, policy.brake)
        if blocked:
            yield word_refusal(blocked)


def _find_refusals(proposal: Proposal, facts: Facts, policy: Policy) -> Iterator[Refusal]:
    """Yield the refusals of a change; the first of them counts.

    They come before consents: no consent allows what is impossible, forbidden or protected.
    """
    yield from _find_objections(proposal, policy)
    if (reason := facts.get(ReplicaFacts).unplaceable.get(proposal.ref)) is not None:
        yield reason, None
    for change in proposal.judged:
        at_stake = list_effective_assessments(change)
        if proposal.observed is not None:
            yield from filter(None, [GROUP.find_obstacle(change, proposal.observed)])
        yield from ((each.reason, each.remedy) for each in at_stake if each.risk is Risk.IMPOSSIBLE)
        for hazard in (name for each in at_stake for name in KINDS[change.ref.kind].hazards.list_names(each)):
            if matches(hazard, policy.forbid):
                yield f"{hazard} is forbidden on this cluster", _FORBIDDEN
        if isinstance(change, Delete | Recreate):
            yield from filter(None, [find_protection(proposal.desired, proposal.observed, policy)])
        # Every field is deferred: an apply would have nothing to do.
        elif not at_stake:
            yield "; ".join(dict.fromkeys(f.deferred for f in fields_of(change) if f.deferred)), None
    yield from _find_increased_risks(proposal, policy)


_FORBIDDEN = "see `forbid:` in kafkaform.yaml (of every cluster, unless --cluster names one)"


def _find_increased_risks(proposal: Proposal, policy: Policy) -> Iterator[Refusal]:
    """Yield the refusal of a change whose risks are higher than in the saved plan, without new consent."""
    ref, planned = proposal.ref, proposal.planned
    unconsented = [
        each
        for each in proposal.riskier
        if not all(
            policy.allows(planned, hazard) for hazard in (each.assessment.hazard, *each.assessment.also)
        )
    ]
    if not unconsented:
        return
    # Only destructive hazards can be consented to; a change that became disruptive or impossible needs a new
    # plan.
    remedy = "make a new plan, and review it"
    if all(each.assessment.risk is Risk.DESTRUCTIVE for each in unconsented):
        hazards = dict.fromkeys(hazard for each in unconsented for hazard in each.assessment.hazards)
        remedy = f"{remedy}; or consent to it as it is now: {code(allow_flags(ref, hazards))}"
    yield f"riskier than in the plan: {'; '.join(each.text for each in unconsented)}", remedy


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
        case Delete() | Recreate():
            return True


def refuse_while_unhealthy(plan: Plan, findings: Collection[Diagnostic]) -> Plan:
    """Refuse the changes that destroy or move data if the cluster is not healthy.

    Args:
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

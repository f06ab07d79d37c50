"""Re-entering the stages of a plan with the changes of a saved one: what is left of them is judged anew.

What was safe or allowed when the plan was made need not be so when it is applied. Risk is found out from
live values by the kinds' own judgements, and gated as for a new plan. What the saved plan says of risk can
only make the verdict stricter, so a plan that was edited gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kafkaform.apply.preconditions import Left, remaining
from kafkaform.core.model import (
    CONFIG_PREFIX,
    Change,
    Consent,
    Create,
    Delete,
    Desired,
    FieldChange,
    FieldValue,
    Intent,
    Plan,
    Risk,
    RiskAssessment,
    Status,
    Update,
)
from kafkaform.plan.planner import Proposal, context_of, gate, judge
from kafkaform.plan.policy import Riskier
from kafkaform.resources import KINDS
from kafkaform.resources.values import single

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkaform.core.model import Facts, Observation, PlannedChange, ResourceRef, State
    from kafkaform.plan.planner import GatedChanges
    from kafkaform.plan.policy import Policy
    from kafkaform.resources.base import Kind, UpdateContext


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a saved plan is judged by besides the live resources.

    Attributes:
        facts: What is known of the cluster.
        policy: What is allowed; its `allow` are the consents that are given now.
        intents: What manifests say of resources, where any are at hand; else the plan's word holds.
        judged: The reading of the cluster that the plan was judged by; None if it was not judged yet.
    """

    facts: Facts
    policy: Policy
    intents: Mapping[ResourceRef, Intent]
    judged: Observation | None = None

    def hold(self, plan: Plan, observation: Observation) -> bool:
        """Whether a reading shows of a plan's resources what it was judged by: the verdicts stand then."""
        judged = self.judged
        return judged is not None and all(
            judged.resources.get(ref) == observation.resources.get(ref)
            and judged.invisible.get(ref) == observation.invisible.get(ref)
            for ref in (planned.ref for planned in plan.changes if planned.status is not Status.REFUSED)
        )


def rejudged(plan: Plan, observation: Observation, grounds: Grounds) -> Plan:
    """The plan with the risks that its changes have now, and what may be done of it now.

    A change that is riskier than the plan says is refused, unless it is consented to now; one that the plan
    refuses stays refused. A change of which nothing is left to do, or that no longer fits the cluster, is as
    it was: nothing of it is carried out.

    Args:
        plan: The saved plan.
        observation: A reading of the cluster that covers its resources with all of their configs.
        grounds: What else it is judged by.
    """
    if grounds.hold(plan, observation):
        return plan
    proposals = judge_left(left_of(plan, observation, grounds.intents), observation, grounds.facts)
    return with_verdicts(plan, gate(proposals, observation, grounds.facts, grounds.policy))


def left_of(
    plan: Plan, observation: Observation, intents: Mapping[ResourceRef, Intent]
) -> tuple[Proposal, ...]:
    """What the cluster still lacks of a plan, as far as it may be done: it takes the place of a diff."""
    consents: dict[str, list[Consent]] = {}
    for consent in plan.consents:
        consents.setdefault(consent.resource, []).append(consent)
    proposals = []
    for planned in plan.changes:
        if planned.status is Status.REFUSED:
            continue
        left = remaining(planned.change, observation)
        if isinstance(left, Left) and left.change is not None:
            intent = intents.get(planned.ref) or Intent(keyed=planned.keyed)
            if intent.allow:
                intent = replace(intent, allow={})  # which count in a plan that is made of the manifests
            desired = Desired(planned.ref, None, intent, planned.location)
            earlier = tuple(consents.get(str(planned.ref), ()))
            proposals.append(Proposal(left.change, desired, planned, earlier=earlier))
    return tuple(proposals)


def judge_left(proposals: Iterable[Proposal], observation: Observation, facts: Facts) -> tuple[Proposal, ...]:
    """Judge what is left of a saved plan, and note what of it is riskier than the plan says."""
    return tuple(_compared(proposal, observation, facts) for proposal in judge(proposals, observation, facts))


def with_verdicts(plan: Plan, gated: GatedChanges) -> Plan:
    """The saved plan with what may be done of its changes now; those that nobody judged stay as they were."""
    verdicts = {planned.ref: planned for planned in gated.changes}
    kept = {str(planned.ref) for planned in plan.changes if planned.ref not in verdicts}
    consents = gated.consents.union(consent for consent in plan.consents if consent.resource in kept)
    return replace(
        plan,
        changes=tuple(verdicts.get(planned.ref, planned) for planned in plan.changes),
        consents=tuple(sorted(consents)),
    )


def open_changes(proposals: Iterable[Proposal], gated: GatedChanges) -> tuple[PlannedChange, ...]:
    """What rules look at: the changes as an apply would carry them out, at the worse of both judgements."""
    return tuple(
        planned
        if proposal.saved is None
        else replace(planned, change=_at_worst(proposal.change, planned.change))
        for proposal, planned in zip(proposals, gated.changes, strict=True)
    )


def _compared(proposal: Proposal, observation: Observation, facts: Facts) -> Proposal:
    """What is left of a change of a saved plan, beside what the plan says of it."""
    saved, now = proposal.saved, proposal.change
    if saved is None:
        raise TypeError(f"{proposal.ref}: not of a saved plan")
    riskier: list[Riskier] = []
    match saved.change, now:
        case Update(fields=earlier), Update(fields=fields):
            by_path = {field.path: field for field in earlier}
            context = partial(context_of, now, proposal.desired.intent, observation, facts)
            for field in fields:
                riskier += _riskier_field(KINDS[now.ref.kind], by_path[field.path], field, context)
        case Create(assessment=was), Create(assessment=assessment):
            riskier += _riskier("its creation", was, assessment)
        case Delete(assessment=was), Delete(assessment=assessment):
            riskier += _riskier("its deletion", was, assessment)
        case _:
            raise TypeError(f"{now.ref}: what is left of a change is another change")
    whole = replace(saved, change=_at_worst(saved.change, now))
    return Proposal(now, proposal.desired, whole, tuple(riskier), proposal.earlier)


def _riskier(what: str, was: RiskAssessment, now: RiskAssessment, because: str = "") -> Iterator[Riskier]:
    """What is worse than the plan says, or is another loss to consent to."""
    if now.risk > was.risk or (now.risk is Risk.DESTRUCTIVE and now.hazard != was.hazard):
        text = f"{what} is {_named(now)} now{because}, and {_named(was)} in the plan: {now.reason}"
        yield Riskier(text, now)


def _riskier_field(
    kind: Kind, was: FieldChange, now: FieldChange, context: Callable[[], UpdateContext]
) -> Iterator[Riskier]:
    name = was.path.removeprefix(CONFIG_PREFIX)
    found = [*_riskier(name, was.assessment, now.assessment)]
    if found:
        because = _because(kind, now.path, context())
        yield from _riskier(name, was.assessment, now.assessment, because) if because else found
    elif now.assessment.risk is Risk.DESTRUCTIVE and name != was.path:
        # The same loss, but not as large as the one that was consented to: a default has changed.
        sides = (was.effective_before, now.effective_before), (was.effective_after, now.effective_after)
        for (old, new), when in zip(sides, ("before", "after"), strict=True):
            if not kind.equal(now.path, old, new):
                values = (single(kind.name, now.path, value).short for value in (new, old))
                text = "the value of {} in force {} the change is {} now, and {} in the plan".format(
                    name, when, *values
                )
                yield Riskier(f"{text}: {now.assessment.reason}", now.assessment)


def _because(kind: Kind, path: str, context: UpdateContext) -> str:
    """The live values, besides the field's own and those that change with it, that a judgement rests on."""
    before, after = _Noting(context.before), _Noting(context.after)
    kind.judge(path, replace(context, before=before, after=after))
    values = [
        f"{other.removeprefix(CONFIG_PREFIX)} is {single(kind.name, other, value).short}"
        for other in sorted(before.asked | after.asked)
        if other != path and (value := context.before.get(other)) == context.after.get(other) is not None
    ]
    return f", as {' and '.join(values)}" if values else ""


class _Noting(Mapping[str, FieldValue]):
    """A state that notes which of its values somebody looks at."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.asked: set[str] = set()

    def __getitem__(self, path: str) -> FieldValue:
        self.asked.add(path)
        return self._state[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


def _named(assessment: RiskAssessment) -> str:
    hazard = f" ({assessment.hazard})" if assessment.hazard else ""
    return f"{assessment.risk.label}{hazard}"


def _at_worst(earlier: Change, now: Change) -> Change:
    """A change with what another one says of its fields: the values in force, and the worse judgement."""
    match earlier, now:
        case Update(), Update():
            judged = {field.path: field for field in now.fields}
            fields = tuple(
                FieldChange(
                    field.path,
                    field.before,
                    field.after,
                    found.effective_before,
                    found.effective_after,
                    _worse(field.assessment, found.assessment),
                    field.deferred,
                )
                if (found := judged.get(field.path)) is not None
                else field
                for field in earlier.fields
            )
            return Update(earlier.ref, earlier.uid, fields)
        case Create(), Create():
            return replace(earlier, assessment=_worse(earlier.assessment, now.assessment))
        case Delete(), Delete():
            return replace(earlier, assessment=_worse(earlier.assessment, now.assessment))
        case _:
            raise TypeError(f"{earlier.ref}: what is left of a change is another change")


def _worse(was: RiskAssessment, now: RiskAssessment) -> RiskAssessment:
    return was if was.risk > now.risk else now

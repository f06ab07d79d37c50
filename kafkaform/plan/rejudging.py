"""Judging an earlier plan again: what was safe or allowed when it was made need not be so when it is applied.

Risk is found out from live values by the kinds' own judgements, and gated as for a new plan. What the earlier
plan says of risk can only make the verdict stricter, so a plan that was edited gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

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
from kafkaform.plan.planner import Planner
from kafkaform.plan.policy import gate
from kafkaform.resources import KINDS
from kafkaform.resources.consent import Consents, allow_flags
from kafkaform.resources.values import single

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.core.model import Facts, Observation, PlannedChange, ResourceRef, State
    from kafkaform.plan.policy import Policy
    from kafkaform.resources.base import Kind, UpdateContext


@dataclass(frozen=True, slots=True)
class Grounds:
    """What an earlier plan is judged by besides the live resources.

    Attributes:
        facts: What is known of the cluster.
        policy: What is allowed; its `allow` are the consents that are given now.
        intents: What manifests say of resources, where any are at hand; else the plan's word holds.
    """

    facts: Facts
    policy: Policy
    intents: Mapping[ResourceRef, Intent]


def rejudged(plan: Plan, observation: Observation, grounds: Grounds) -> Plan:
    """The plan with the risks that its changes have now, and what may be done of it now.

    A change that is riskier than the plan says is refused, unless it is consented to now; one that the plan
    refuses stays refused. A change of which nothing is left to do, or that no longer fits the cluster, is as
    it was: nothing of it is carried out.

    Args:
        plan: The earlier plan.
        observation: A reading of the cluster that covers its resources with all of their configs.
        grounds: What else it is judged by.
    """
    given: dict[str, list[Consent]] = {}
    for consent in plan.consents:
        given.setdefault(consent.resource, []).append(consent)
    changes, consents = [], set[Consent]()
    for planned in plan.changes:
        earlier = given.get(str(planned.ref), [])
        change, counting = _again(planned, earlier, observation, grounds)
        changes.append(change)
        consents.update(counting)
    return replace(plan, changes=tuple(changes), consents=tuple(sorted(consents)))


def left_of(plan: Plan, observation: Observation) -> Plan:
    """The plan with nothing but what the cluster still lacks of it, as far as an apply may do that."""
    changes = tuple(
        replace(planned, change=left.change)
        for planned in plan.changes
        if planned.status is not Status.REFUSED
        and isinstance(left := remaining(planned.change, observation), Left)
        and left.change is not None
    )
    return replace(plan, changes=changes)


def _again(
    planned: PlannedChange, earlier: Sequence[Consent], observation: Observation, grounds: Grounds
) -> tuple[PlannedChange, Sequence[Consent]]:
    """One change as it is to be taken now, and the consents that count for it."""
    left = remaining(planned.change, observation)
    if planned.status is Status.REFUSED or not isinstance(left, Left) or left.change is None:
        return planned, earlier
    planner = Planner(observation, grounds.facts, grounds.policy)
    intent = grounds.intents.get(planned.ref, Intent(keyed=planned.keyed))
    now, found = _judged(left.change, intent, observation, grounds.facts, planner)
    change = _at_worst(planned.change, now)
    desired = Desired(planned.ref, None, intent, planned.location)
    riskier = [one for one in found if not grounds.policy.allows(planned.ref, one.judgement.hazard)]
    refusal = planner.refusal(now, desired) or planner.refusal(change, desired) or _told(planned.ref, riskier)
    if refusal is not None:
        reason, remedy = refusal
        return replace(planned, change=change, status=Status.REFUSED, reason=reason, remedy=remedy), earlier
    consents = Consents(grounds.policy.allow, earlier={consent.hazard: consent.reason for consent in earlier})
    status, waiting, counting = gate(change, consents)
    return replace(planned, change=change, status=status, reason=waiting, remedy=None), counting


@dataclass(frozen=True, slots=True)
class _Riskier:
    """What is worse about a change than the plan says, in words, and how it is judged now."""

    text: str
    judgement: RiskAssessment


def _judged(
    left: Change, intent: Intent, observation: Observation, facts: Facts, planner: Planner
) -> tuple[Change, list[_Riskier]]:
    """What is left of a change as it is judged now, and what of it is riskier than the plan says."""
    kind, ref = KINDS[left.ref.kind], left.ref
    match left:
        case Create(state=state):
            now = kind.judge_create(ref, state, facts)
            return replace(left, judgement=now), [*_compared("its creation", left.judgement, now)]
        case Delete():
            now = kind.judge_delete(ref, observation.resources[ref].state, facts)
            return replace(left, judgement=now), [*_compared("its deletion", left.judgement, now)]
        case Update(fields=fields):
            values = {field.path: field.before for field in fields}
            target = {field.path: field.after for field in fields}
            context = planner.context(observation.resources[ref], values, target, intent)
            judged = tuple(
                replace(
                    field,
                    effective_before=context.before.get(field.path),
                    effective_after=context.after.get(field.path),
                    judgement=kind.judge(field.path, context),
                )
                for field in fields
            )
            found = [
                one
                for was, field in zip(fields, judged, strict=True)
                for one in _compared_fields(kind, was, field, context)
            ]
            return replace(left, fields=judged), found
        case _:
            assert_never(left)


def _compared(what: str, was: RiskAssessment, now: RiskAssessment, because: str = "") -> Iterator[_Riskier]:
    """Whether a judgement is worse than that of the plan, or there is another loss to consent to."""
    if now.risk > was.risk or (now.risk is Risk.DESTRUCTIVE and now.hazard != was.hazard):
        text = f"{what} is {_named(now)} now{because}, and {_named(was)} in the plan: {now.reason}"
        yield _Riskier(text, now)


def _compared_fields(
    kind: Kind, was: FieldChange, now: FieldChange, context: UpdateContext
) -> Iterator[_Riskier]:
    name = was.path.removeprefix(CONFIG_PREFIX)
    found = [*_compared(name, was.judgement, now.judgement)]
    if found:
        because = _because(kind, now.path, context)
        yield from _compared(name, was.judgement, now.judgement, because) if because else found
    elif now.judgement.risk is Risk.DESTRUCTIVE and name != was.path:
        # The same loss, but not as large as the one that was consented to: a default has changed.
        sides = (was.effective_before, now.effective_before), (was.effective_after, now.effective_after)
        for (old, new), when in zip(sides, ("before", "after"), strict=True):
            if not kind.equal(now.path, old, new):
                values = (single(kind.name, now.path, value).short for value in (new, old))
                text = "the value of {} in force {} the change is {} now, and {} in the plan".format(
                    name, when, *values
                )
                yield _Riskier(f"{text}: {now.judgement.reason}", now.judgement)


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


def _named(judgement: RiskAssessment) -> str:
    hazard = f" ({judgement.hazard})" if judgement.hazard else ""
    return f"{judgement.risk.label}{hazard}"


def _told(ref: ResourceRef, riskier: Sequence[_Riskier]) -> tuple[str, str] | None:
    """The reason and the remedy of a refusal of what is riskier than the plan says; None if nothing is."""
    if not riskier:
        return None
    remedy = "make a new plan, and review it"
    if all(one.judgement.risk is Risk.DESTRUCTIVE for one in riskier):
        hazards = dict.fromkeys(one.judgement.hazard for one in riskier)
        remedy = f"{remedy}; or consent to it as it is now: {allow_flags(ref, hazards)}"
    return f"riskier than in the plan: {'; '.join(one.text for one in riskier)}", remedy


def _at_worst(earlier: Change, now: Change) -> Change:
    """A change with the present judgements of what is left of it, or the plan's where these are worse."""
    match earlier, now:
        case Update(), Update():
            judged = {field.path: field for field in now.fields}
            fields = tuple(
                replace(
                    field,
                    effective_before=found.effective_before,
                    effective_after=found.effective_after,
                    judgement=_worse(field.judgement, found.judgement),
                )
                if (found := judged.get(field.path)) is not None
                else field
                for field in earlier.fields
            )
            return replace(earlier, fields=fields)
        case Create(), Create():
            return replace(earlier, judgement=_worse(earlier.judgement, now.judgement))
        case Delete(), Delete():
            return replace(earlier, judgement=_worse(earlier.judgement, now.judgement))
        case _:
            raise TypeError(f"{earlier.ref}: what is left of a change is another change")


def _worse(was: RiskAssessment, now: RiskAssessment) -> RiskAssessment:
    return was if was.risk > now.risk else now

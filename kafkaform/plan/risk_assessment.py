"""The risk assessment of changes by live values, and its comparison with a saved plan.

A change that was safe or allowed when a plan was made need not be so when it is applied. The assessments in a
saved plan can only raise a risk, so editing them gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from kafkaform.core.model import (
    CONFIG_PREFIX,
    Change,
    Create,
    Delete,
    Desired,
    Facts,
    FieldChange,
    FieldValue,
    Observation,
    Recreate,
    Risk,
    RiskAssessment,
    State,
    Update,
    risk_of,
)
from kafkaform.core.values import replace
from kafkaform.plan.difference import Proposal, RiskIncrease
from kafkaform.resources import KINDS, TOPIC, is_group, is_topic, list_topics_read
from kafkaform.resources.base import Kind, PlanWide, UpdateContext, UsageFacts
from kafkaform.resources.values import format_value


def foresee(
    proposals: Iterable[Proposal], declared: Iterable[Desired], observation: Observation, facts: Facts
) -> Facts:
    """Return the facts with the effect of all changes together; see `PlanWide.foresee`.

    Args:
        declared: The declared resources, as far as manifests were read.
        observation: The reading of the cluster that the plan is made with.
        facts: The facts of the cluster.
    """
    changes = [proposal.change for proposal in proposals]
    groups = [group for group in declared if is_group(group.ref) and group.state is not None]
    names = frozenset(ref.name for ref in observation.inventory if is_group(ref))
    usage = UsageFacts(
        sorted(ref.name for ref in observation.inventory if is_topic(ref)),
        sorted(names.union(group.ref.name for group in groups)),
        names,
        {group.ref.name: list_topics_read(group) for group in groups},
    )
    facts = facts.add_part(usage)
    for kind in KINDS.having(PlanWide):
        facts = kind.foresee(changes, facts)
    return facts


def judge(proposals: Iterable[Proposal], facts: Facts) -> tuple[Proposal, ...]:
    """Assess the risk of changes by live values and the facts of the cluster.

    What remains of a saved plan is compared with its saved assessments; the higher of both risks applies.
    """
    return tuple(_judge(proposal, facts) for proposal in proposals)


def _judge(proposal: Proposal, facts: Facts) -> Proposal:
    now, saved = _assess_change(proposal, facts), proposal.saved
    # Constructed, as replace() takes twice as long and a plan may have thousands of changes.
    return Proposal(
        now,
        proposal.desired,
        proposal.observed,
        proposal.before,
        proposal.after,
        saved and replace(saved, change=take_higher_risk(saved.change, now)),
        tuple(_find_riskier(saved.change, now, proposal, facts)) if saved is not None else (),
        proposal.earlier,
    )


def _build_context(proposal: Proposal, facts: Facts) -> UpdateContext:
    uid = proposal.observed.uid if proposal.observed is not None else None
    return UpdateContext(proposal.ref, proposal.before, proposal.after, proposal.desired.intent, facts, uid)


def _assess_change(proposal: Proposal, facts: Facts) -> Change:
    change, kind = proposal.change, KINDS[proposal.ref.kind]
    match change:
        case Create(ref, state):
            return Create(ref, state, kind.judge(change, None, facts))
        case Delete(ref, uid, state):
            return Delete(ref, uid, state, kind.judge(change, proposal.observed, facts))
        case Recreate():
            return replace(change, assessment=TOPIC.judge_recreate(change, facts))
        case Update(ref, uid, fields):
            context = _build_context(proposal, facts)
            assessed = (
                FieldChange(
                    field.path,
                    field.before,
                    field.after,
                    context.before.get(field.path),
                    context.after.get(field.path),
                    kind.field(field.path).judge(context),
                    field.deferred,
                )
                for field in fields
            )
            return Update(ref, uid, tuple(assessed))
        case _:
            assert_never(change)


def is_risky(proposal: Proposal, facts: Facts) -> bool:
    """Return whether a change is not safe, before sizes are read: they are part of the reasons only."""
    return risk_of(_assess_change(proposal, facts)) > Risk.SAFE


def _find_riskier(saved: Change, now: Change, proposal: Proposal, facts: Facts) -> Iterator[RiskIncrease]:
    """Yield the risks of the remaining change that are higher than in the saved plan."""
    match saved, now:
        case Update(fields=earlier), Update(fields=fields):
            by_path = {field.path: field for field in earlier}
            for field in fields:
                yield from _compare_field(by_path[field.path], field, _build_context(proposal, facts))
        case Create(assessment=was), Create(assessment=assessment):
            yield from _compare_assessments("its creation", was, assessment)
        case Delete(assessment=was), Delete(assessment=assessment):
            yield from _compare_assessments("its deletion", was, assessment)
        case Recreate(assessment=was), Recreate(assessment=assessment):
            yield from _compare_assessments("its recreation", was, assessment)
        case Recreate(), Create():
            pass  # only the creation remains
        case _:
            raise TypeError(f"{now.ref}: what is left of a change is another change")


def _compare_assessments(
    what: str, was: RiskAssessment, now: RiskAssessment, because: str = ""
) -> Iterator[RiskIncrease]:
    """Yield an assessment that is worse than in the plan, or needs consent to another hazard."""
    # Consents are given by hazard, so another destructive hazard needs another one even at the same level.
    if now.risk > was.risk or (now.risk is Risk.DESTRUCTIVE and not {*now.hazards} <= {*was.hazards}):
        text = f"{what} is {_label(now)} now{because}, and {_label(was)} in the plan: {now.reason}"
        yield RiskIncrease(text, now)


def _compare_field(was: FieldChange, now: FieldChange, context: UpdateContext) -> Iterator[RiskIncrease]:
    kind, name = KINDS[context.ref.kind], was.path.removeprefix(CONFIG_PREFIX)
    increased = [*_compare_assessments(name, was.assessment, now.assessment)]
    if increased:
        because = _describe_causes(kind, now.path, context)
        yield from (
            _compare_assessments(name, was.assessment, now.assessment, because) if because else increased
        )
    elif now.assessment.risk is Risk.DESTRUCTIVE and name != was.path:
        # The hazard is the same, but a default has changed since the consent: the loss may be larger.
        sides = (was.effective_before, now.effective_before), (was.effective_after, now.effective_after)
        for (old, new), when in zip(sides, ("before", "after"), strict=True):
            if not kind.field(now.path).equal(old, new):
                values = (format_value(kind.name, now.path, value).short for value in (new, old))
                text = "the value of {} in force {} the change is {} now, and {} in the plan".format(
                    name, when, *values
                )
                yield RiskIncrease(f"{text}: {now.assessment.reason}", now.assessment)


def _describe_causes(kind: Kind, path: str, context: UpdateContext) -> str:
    """Describe the live values of other, unchanging fields that an assessment depends on."""
    # The assessment runs again on a state that records what is read: so the causes need no list of their own
    # that would have to be kept in step with the assessments.
    before, after = _RecordingState(context.before), _RecordingState(context.after)
    kind.field(path).judge(replace(context, before=before, after=after))
    values = [
        f"{dependency.removeprefix(CONFIG_PREFIX)} is {format_value(kind.name, dependency, value).short}"
        for dependency in sorted(before.read_paths | after.read_paths)
        # A field that changes as well is in the plan itself.
        if (value := context.before.get(dependency)) == context.after.get(dependency) is not None
    ]
    return f", as {' and '.join(values)}" if values else ""


class _RecordingState(Mapping[str, FieldValue]):
    """A state that records which of its values are read."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.read_paths: set[str] = set()

    def __getitem__(self, path: str) -> FieldValue:
        self.read_paths.add(path)
        return self._state[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


def _label(assessment: RiskAssessment) -> str:
    hazard = f" ({', '.join(assessment.hazards)})" if assessment.hazard else ""
    return f"{assessment.risk.label}{hazard}"


def take_higher_risk(earlier: Change, now: Change) -> Change:
    """Return the earlier change with the current effective values and the higher of both risks."""
    match earlier, now:
        case Update(), Update():
            current = {field.path: field for field in now.fields}
            fields = tuple(
                FieldChange(
                    field.path,
                    field.before,
                    field.after,
                    counterpart.effective_before,
                    counterpart.effective_after,
                    _select_worse(field.assessment, counterpart.assessment),
                    field.deferred,
                )
                if (counterpart := current.get(field.path)) is not None
                else field
                for field in earlier.fields
            )
            return Update(earlier.ref, earlier.uid, fields)
        case Create(), Create():
            return replace(earlier, assessment=_select_worse(earlier.assessment, now.assessment))
        case Delete(), Delete():
            return replace(earlier, assessment=_select_worse(earlier.assessment, now.assessment))
        case Recreate(), Recreate():
            return replace(earlier, assessment=_select_worse(earlier.assessment, now.assessment))
        case (Recreate(), Create()) | (Create(), Recreate()):
            return earlier  # only the creation remains
        case _:
            raise TypeError(f"{earlier.ref}: what is left of a change is another change")


# At the same level the present assessment is shown, as its reason has the present figures.
def _select_worse(was: RiskAssessment, now: RiskAssessment) -> RiskAssessment:
    return was if was.risk > now.risk else now

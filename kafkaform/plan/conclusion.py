"""The final stage of planning: a plan is built from the diff, the gated changes and the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Desired, Diagnostic, Facts, Severity, Status, assessments
from kafkaform.core.plans import AffectedConsumer, Plan, PlannedChange
from kafkaform.core.values import replace
from kafkaform.core.wording import code
from kafkaform.plan.difference import Diff, list_unmanaged, resource_order
from kafkaform.resources import KINDS, list_topics_read, topic_ref
from kafkaform.resources.base import PlanWide
from kafkaform.resources.consent import ANNOTATION, WHY, annotation, consent_line, find_covering, split_head
from kafkaform.resources.name_globs import matches
from kafkaform.resources.succession import SuccessionFacts, closing_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from kafkaform.plan.gate import GatedChange
    from kafkaform.plan.policy import Policy


_PLAN_WIDE_CODES = frozenset().union(*(kind.plan_wide_codes for kind in KINDS.having(PlanWide)))
"""The codes of notes about all changes of a plan together."""


def _note_together(planned: Iterable[PlannedChange], facts: Facts) -> Iterator[Diagnostic]:
    changes = [each.change for each in planned if each.status is not Status.REFUSED]
    for kind in KINDS.having(PlanWide):
        yield from kind.note_plan_wide(changes, facts)


def conclude(difference: Diff, gated: Iterable[GatedChange], facts: Facts, policy: Policy) -> Plan:
    """Build the plan from a diff, its gated changes and the diagnostics of both."""
    changing = {change.planned.ref: change.planned for change in gated}
    changes = tuple(changing.values())
    diagnostics = [*difference.diagnostics, *facts.diagnostics, *_note_together(changes, facts)]
    for desired in difference.compared:
        if desired.intent.allow:
            diagnostics += find_idle_consents(changing.get(desired.ref), desired)
    severities = list(Severity)
    return Plan(
        cluster_id=facts.cluster_id,
        changes=changes,
        # A resource that is not visible was not compared, so it does not count as unchanged.
        unchanged=len(difference.compared) - len(changes),
        unmanaged=tuple(list_unmanaged(difference.unmanaged, policy)),
        undeclared=difference.undeclared,
        consents=tuple(sorted({consent for planned in changes for consent in planned.given})),
        diagnostics=tuple(
            sorted(
                diagnostics, key=lambda d: (severities.index(d.severity), d.code, d.message, str(d.location))
            )
        ),
        unknown=difference.unknown,
        successions=facts.get(SuccessionFacts).planned,
    )


def conclude_saved(saved: Plan, gated: Sequence[GatedChange], facts: Facts) -> Plan:
    """Update the changes, consents and diagnostics of a saved plan.

    Args:
        saved: The plan; changes that were not assessed again stay as they are.
        gated: The changes that were assessed again, with their status.
        facts: The facts that they were assessed by.
    """
    gated_by_ref = {change.planned.ref: change.planned for change in gated}
    kept = {str(planned.ref) for planned in saved.changes if planned.ref not in gated_by_ref}
    consents = {consent for planned in gated_by_ref.values() for consent in planned.given}
    consents.update(consent for consent in saved.consents if consent.resource in kept)
    # What the changes do together is noted again, such as the total of copies at the throttle of this apply.
    notes = [diagnostic for diagnostic in saved.diagnostics if diagnostic.code not in _PLAN_WIDE_CODES]
    notes += [*facts.diagnostics, *_note_together((change.open for change in gated), facts)]
    return replace(
        saved,
        changes=tuple(gated_by_ref.get(planned.ref, planned) for planned in saved.changes),
        consents=tuple(sorted(consents)),
        diagnostics=tuple(dict.fromkeys(notes)),
        successions=facts.get(SuccessionFacts).planned,
    )


def find_idle_consents(planned: PlannedChange | None, desired: Desired) -> Iterator[Diagnostic]:
    """Describe the consents in a manifest that cover no planned change."""
    # A tombstone keeps its consent after the deletion: if the resource comes back with that id, it is deleted
    # again.
    if desired.state is None and planned is None:
        return
    assessed = assessments(planned.change) if planned is not None else ()
    needed = (
        {required.hazard: required.bindings for required in planned.consents} if planned is not None else {}
    )
    hazards = {assessment.hazard for assessment in assessed} | needed.keys()
    unread = {assessment.hazard for assessment in assessed if assessment.data_unread}
    annotated = desired.intent.allow
    used = {
        find_covering(annotated, hazard, binding)
        for hazard, bindings in needed.items()
        for binding in bindings
    }
    for head in sorted(set(annotated) - used):
        hazard, bound = split_head(head)
        if bound == f"of {closing_path(desired)}":
            continue  # it is for the ACL of everyone
        # The consent is used once the data can be read; until then, only one to `unread-data` counts.
        if hazard in unread:
            continue
        bindings = needed.get(hazard, ())
        if bindings:
            # It is for another cluster, or for an earlier value: the hazard here has a consent of its own.
            if any(find_covering(annotated, hazard, binding) for binding in bindings) and bound:
                continue
            # Two fields can have one scope, and another line may cover a part of them.
            lines = [
                consent_line(hazard, binding, annotated[head] if not bound else WHY)
                for binding in bindings
                if find_covering(annotated, hazard, binding) is None
            ]
            problem = (
                f"consents to {head}, which does not cover this one"
                if bound
                else (f"consents to {hazard} without naming the value or topic id, so it covers nothing")
            )
            kept = [
                f"{kept_head}: {reason}"
                for kept_head, reason in annotated.items()
                if bound or kept_head != head
            ]
            written = annotation(dict.fromkeys([*kept, *lines]))
            remedy = f"if this one is meant, write {code(written)} in metadata.annotations"
            if not lines:
                remedy = f"remove it from {ANNOTATION}: other lines cover all that needs consent"
            yield Diagnostic(
                "KF417",
                Severity.WARNING,
                f"{desired.ref} {problem}",
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


def narrow(plan: Plan, targets: Collection[str]) -> Plan:
    """Return the part of a plan whose resources (`KIND/NAME`) match one of the globs."""
    changes = tuple(change for change in plan.changes if matches(str(change.ref), targets))
    return replace(
        plan,
        changes=changes,
        subset=plan.subset or len(changes) < len(plan.changes),
        # A note about all changes together does not hold for a part of them.
        diagnostics=tuple(
            diagnostic
            for diagnostic in plan.diagnostics
            if (diagnostic.code not in _PLAN_WIDE_CODES or len(changes) == len(plan.changes))
            and (diagnostic.ref is None or matches(str(diagnostic.ref), targets))
        ),
        unknown=tuple(ref for ref in plan.unknown if matches(str(ref), targets)),
        undeclared=tuple(config for config in plan.undeclared if matches(str(config.ref), targets)),
        readers=_select_affected(plan.readers, changes),
        cost=None,
    )


def find_affected_consumers(
    changes: Iterable[PlannedChange], desired: Iterable[Desired]
) -> tuple[AffectedConsumer, ...]:
    """Find the declared groups that read a changing topic, sorted by name."""
    candidates = (
        AffectedConsumer(declared.ref, topics, declared.intent.team)
        for declared in desired
        if declared.state is not None and (topics := list_topics_read(declared))
    )
    return _select_affected(sorted(candidates, key=lambda consumer: resource_order(consumer.ref)), changes)


def _select_affected(
    consumers: Iterable[AffectedConsumer], changes: Iterable[PlannedChange]
) -> tuple[AffectedConsumer, ...]:
    """Select the consumers of topics that change, each with those topics only."""
    changing = {change.ref for change in changes}
    selected = (
        replace(consumer, topics=tuple(name for name in consumer.topics if topic_ref(name) in changing))
        for consumer in consumers
    )
    return tuple(consumer for consumer in selected if consumer.topics)

"""What a skew report adds to a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaform import rules
from kafkaform.core.model import Diagnostic, ResourceRef, Risk, Severity, risk_of
from kafkaform.core.wording import command
from kafkaform.resources.skew_policy import policy_unit
from kafkaform.resources.skew_prediction import increase, predicted, worded
from kafkaform.rules import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkaform.config.settings import Settings
    from kafkaform.core.model import Plan
    from kafkaform.rules import Scene
    from spark_validation.results import Report, TopicResult


def measured(report: Report | None) -> Mapping[ResourceRef, TopicResult]:
    """The topics of a report that have records."""
    topics = report.topics if report is not None else ()
    return {ResourceRef("Topic", one.name): one for one in topics if one.diagnosis != "empty"}


def as_it_is(scene: Scene, settings: Settings) -> Iterator[tuple[ResourceRef | None, Diagnostic]]:
    """What rules say of the declared topics as they are now.

    A broken policy is no reason to hold back a change that has nothing to do with it, such as a longer
    retention: an error is a warning here. `kafkaform skew` is where it is an error.
    """
    declared = {ref.name for ref in scene.declared if ref.kind == "Topic"}
    scene = replace(scene, skew={name: one for name, one in scene.skew.items() if name in declared})
    for ref, found in rules.check(scene, settings.rules, (Stage.SKEW,)):
        softer = found.severity is Severity.ERROR
        yield ref, replace(found, severity=Severity.WARNING) if softer else found


def notes(plan: Plan, scene: Scene, report: Report) -> Iterator[tuple[ResourceRef | None, Diagnostic]]:
    """What the report does not say, and what it says of increases that are safe."""
    if report.cluster_id is None:
        text = "the skew report names no cluster: it was made from files"
        yield None, Diagnostic("KF509", Severity.INFO, text)
    for planned in plan.changes:
        counts = increase(planned.change)
        if counts is None:
            continue
        name, (before, after) = planned.ref.name, counts
        declared = scene.declared.get(planned.ref)
        place = declared.place("partitions") if declared is not None else planned.location
        result = scene.skew.get(name)
        found = predicted(result, before, after, _unit(scene, planned.ref)) if result is not None else None
        if found is None:
            why = "is not in the skew report" if result is None else f"was not measured for {after}"
            yield (
                planned.ref,
                Diagnostic(
                    "KF507",
                    Severity.WARNING,
                    f"{name} goes from {before} to {after} partitions, and {why}: what that comes to is not "
                    "known",
                    place,
                    command("skew", name, options=("--what-if", str(after))),
                ),
            )
        elif risk_of(planned.change) is Risk.SAFE:
            text = f"{name} goes from {before} to {after} partitions: {worded(found)}"
            yield planned.ref, Diagnostic("KF508", Severity.INFO, text, place)


def _unit(scene: Scene, ref: ResourceRef) -> str:
    declared = scene.declared.get(ref)
    return policy_unit(declared.intent) if declared is not None else "records"

"""A skew report against the manifests: what rules find, and whether each topic keeps its policy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaform import rules
from kafkaform.core.model import ResourceRef, Severity
from kafkaform.resources.skew_policy import limits_of
from kafkaform.rules import Stage
from spark_validation.results import Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkaform.config.settings import Settings
    from kafkaform.core.model import Desired, Diagnostic
    from spark_validation.results import Limits, Report, TopicResult

_LIMITS = {"KF501": "max_partition_ratio", "KF502": "max_key_share", "KF503": "min_distinct_keys"}
"""Which limit a rule judges."""

Found = tuple[tuple[ResourceRef | None, "Diagnostic"], ...]


def skew_diagnostics(
    report: Report, desired: Sequence[Desired], settings: Settings, environment: str | None = None
) -> Found:
    """What rules say of the topics of a report, by severities and waivers of the project.

    Args:
        report: The measurement.
        desired: The declared resources; topics that none declares are judged without limits.
        settings: What the project says.
        environment: Whose overrides the desired resources have; None if none was chosen.
    """
    scene = settings.scene(tuple(desired), environment, subset=True)
    scene = replace(scene, skew={topic.name: topic for topic in report.topics})
    return tuple(rules.check(scene, settings.rules, (Stage.SKEW,)))


def judged(
    report: Report, desired: Sequence[Desired], settings: Settings, environment: str | None = None
) -> Report:
    """The report with the findings and the verdict of each topic; arguments as of `skew_diagnostics`."""
    declared = {one.ref: one for one in desired}
    found: dict[ResourceRef | None, list[Diagnostic]] = {}
    for ref, diagnostic in skew_diagnostics(report, desired, settings, environment):
        found.setdefault(ref, []).append(diagnostic)
    topics = []
    for topic in report.topics:
        ref = ResourceRef("Topic", topic.name)
        manifest, own = declared.get(ref), found.get(ref, [])
        limits = limits_of(manifest.intent) if manifest is not None and manifest.state is not None else None
        verdict = _verdict(topic, limits, own) if limits is not None else None
        findings = tuple(Finding(d.code, d.severity.value, _told(d), d.suggestion) for d in own)
        topics.append(replace(topic, findings=findings, policy=verdict))
    return replace(report, topics=tuple(topics))


def is_beyond_policy(report: Report) -> bool:
    """Whether a judged report holds an error: exit code 2 of `kafkaform skew`."""
    return any(one.severity == Severity.ERROR for topic in report.topics for one in topic.findings)


def _verdict(topic: TopicResult, limits: Limits, found: Iterable[Diagnostic]) -> Verdict:
    """How a topic stands to the limits of its manifest; other findings are not about them."""
    if topic.diagnosis == "empty":
        return Verdict("pass", ("there is no record to judge",))
    about = [d for d in found if d.code in _LIMITS and getattr(limits, _LIMITS[d.code]) is not None]
    severities = {d.severity for d in about}
    status = "fail" if Severity.ERROR in severities else "warn" if Severity.WARNING in severities else "pass"
    return Verdict(status, tuple(_told(d) for d in about))


def _told(diagnostic: Diagnostic) -> str:
    waived = f" (waived: {diagnostic.waived})" if diagnostic.waived is not None else ""
    return diagnostic.message + waived

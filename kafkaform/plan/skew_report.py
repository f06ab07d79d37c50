"""Skew reports: read, judged against the manifests, and beside a plan."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING

from kafkaform import rules
from kafkaform.core.errors import SkewReportError
from kafkaform.core.model import (
    Diagnostic,
    ResourceRef,
    Risk,
    Severity,
    risk_of,
)
from kafkaform.core.printable import clipped, printable
from kafkaform.core.schema_files import first_problem
from kafkaform.core.wording import command
from kafkaform.plan.plan_header import require_fresh
from kafkaform.resources.skew import increase, limits_of, policy_unit, predicted, worded
from kafkaform.resources.topic import topic_ref
from kafkaform.rules import Stage
from spark_validation.policy import not_judged
from spark_validation.results import FORMAT_VERSION, SkewFinding, SkewVerdict, from_document

if TYPE_CHECKING:
    from collections.abc import (
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from pathlib import Path

    from kafkaform.config.settings import Settings
    from kafkaform.core.model import Desired, Location, Plan
    from kafkaform.rules import RuleContext
    from spark_validation.results import SkewLimits, SkewReport, TopicResult


_AGAIN = "make it with `kafkaform skew --format json`"
_MEASURE = "measure again with kafkaform skew"
_LONG = 300


def read_skew_report(
    path: Path,
    *,
    max_age: timedelta | None = None,
    cluster_id: str | None = None,
    now: datetime | None = None,
) -> SkewReport:
    """Read a report and make sure that it is one, and fresh.

    Args:
        path: The file.
        max_age: How old it may be; None for any age.
        cluster_id: The cluster that it must be of; None for any. A report that names no cluster is taken.
        now: The time, with its zone; None for this moment.

    Raises:
        SkewReportError: It cannot be read, is no report, of a newer format, of another cluster, too old, or
            from the future.
    """
    report = parse_skew_report(_read(path), str(path))
    require_fresh(
        "the skew report",
        report.created_at,
        max_age,
        now or datetime.now(UTC),
        where=printable(str(path)),
        again=_MEASURE,
        error=SkewReportError,
    )
    if cluster_id is not None:
        require_cluster(report, cluster_id, f"{path}: ")
    return report


def parse_skew_report(text: str, file: str) -> SkewReport:
    """The report that a text holds.

    Args:
        text: The content of the file.
        file: Its name, for messages.

    Raises:
        SkewReportError: It is not JSON, no report, or of a newer format; the message names the first wrong
            place.
    """
    where = printable(file)
    try:
        document = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as error:
        raise SkewReportError(
            f"{where}:{error.lineno}:{error.colno}: not JSON: {error.msg}", hint=_AGAIN
        ) from error
    except (ValueError, RecursionError) as error:
        raise SkewReportError(
            f"{where}: not a skew report: a number or a nesting that none holds", hint=_AGAIN
        ) from error
    version = document.get("format_version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or type(version) is not int or version < 1:
        raise SkewReportError(f"{where}: not a skew report: it has no format_version", hint=_AGAIN)
    if version > FORMAT_VERSION:
        raise SkewReportError(
            f"{where}: the skew report has format {version}, but this kafkaform reads formats up to "
            f"{FORMAT_VERSION}",
            hint="use the version of kafkaform that made it, or a newer one",
        )
    wrong = first_problem("skew", document)
    if wrong is not None:
        raise SkewReportError(f"{where}: not a valid skew report: {clipped(wrong, _LONG)}", hint=_AGAIN)
    report = from_document(document)
    names = [topic.name for topic in report.topics]
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SkewReportError(
            f"{where}: not a valid skew report: topic {printable(twice)} is in it twice", hint=_AGAIN
        )
    return report


def require_cluster(report: SkewReport, cluster_id: str, where: str = "") -> None:
    """Raise a SkewReportError where the report is of another cluster."""
    if report.cluster_id is not None and report.cluster_id != cluster_id:
        named = f"{report.cluster_name} ({report.cluster_id})" if report.cluster_name else report.cluster_id
        raise SkewReportError(
            f"{printable(where)}the skew report is of cluster {printable(named)}, not of {cluster_id}",
            hint=f"{_MEASURE} on this cluster",
        )


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise SkewReportError(f"{printable(str(path))}: {error.strerror}", hint=_AGAIN) from error
    except UnicodeDecodeError as error:
        raise SkewReportError(f"{printable(str(path))}: not UTF-8, so no skew report", hint=_AGAIN) from error


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


_LIMITS = {"KF501": "max_partition_ratio", "KF502": "max_key_share", "KF503": "min_distinct_keys"}
"""Which limit a rule judges."""


def skew_diagnostics(
    report: SkewReport, desired: Sequence[Desired], settings: Settings, environment: str | None = None
) -> tuple[Diagnostic, ...]:
    """What rules say of the topics of a report, by severities and waivers of the project.

    Args:
        report: The measurement.
        desired: The declared resources; topics that none declares are judged without limits.
        settings: What the project says.
        environment: Whose overrides the desired resources have; None if none was chosen.
    """
    context = settings.rule_context(tuple(desired), environment, subset=True)
    context = replace(context, skew={topic.name: topic for topic in report.topics})
    return tuple(rules.check(context, settings.rules, (Stage.SKEW,)))


def judged(
    report: SkewReport, desired: Sequence[Desired], settings: Settings, environment: str | None = None
) -> SkewReport:
    """The report with the findings and the verdict of each topic; arguments as of `skew_diagnostics`."""
    declared = {one.ref: one for one in desired}
    found: dict[ResourceRef | None, list[Diagnostic]] = {}
    for diagnostic in skew_diagnostics(report, desired, settings, environment):
        found.setdefault(diagnostic.ref, []).append(diagnostic)
    topics = []
    for topic in report.topics:
        ref = topic_ref(topic.name)
        manifest, own = declared.get(ref), found.get(ref, [])
        limits = limits_of(manifest.intent) if manifest is not None and manifest.state is not None else None
        verdict = _verdict(topic, limits, own) if limits is not None else None
        findings = tuple(SkewFinding(d.code, d.severity.value, _told(d), d.suggestion) for d in own)
        topics.append(replace(topic, findings=findings, policy=verdict))
    return replace(report, topics=tuple(topics))


def is_beyond_policy(report: SkewReport) -> bool:
    """Whether a judged report holds an error: exit code 2 of `kafkaform skew`."""
    return any(one.severity == Severity.ERROR for topic in report.topics for one in topic.findings)


def _verdict(topic: TopicResult, limits: SkewLimits, found: Iterable[Diagnostic]) -> SkewVerdict:
    """How a topic stands to the limits of its manifest; other findings are not about them."""
    if (reason := not_judged(topic)) is not None:
        return SkewVerdict("pass", (reason,))
    about = [d for d in found if d.code in _LIMITS and getattr(limits, _LIMITS[d.code]) is not None]
    severities = {d.severity for d in about}
    status = "fail" if Severity.ERROR in severities else "warn" if Severity.WARNING in severities else "pass"
    return SkewVerdict(status, tuple(_told(d) for d in about))


def _told(diagnostic: Diagnostic) -> str:
    waived = f" (waived: {diagnostic.waived})" if diagnostic.waived is not None else ""
    return diagnostic.message + waived


def measured(report: SkewReport | None) -> Mapping[ResourceRef, TopicResult]:
    """The topics of a report that have enough records to be judged."""
    topics = report.topics if report is not None else ()
    return {topic_ref(one.name): one for one in topics if not_judged(one) is None}


def as_it_is(context: RuleContext, settings: Settings) -> Iterator[Diagnostic]:
    """What rules say of the declared topics as they are now.

    A broken policy is no reason to hold back a change that has nothing to do with it, such as a longer
    retention: an error is a warning here. `kafkaform skew` is where it is an error.
    """
    declared = {name: one for name, one in context.skew.items() if topic_ref(name) in context.declared}
    context = replace(context, skew=declared)
    for found in rules.check(context, settings.rules, (Stage.SKEW,)):
        softer = found.severity is Severity.ERROR
        yield replace(found, severity=Severity.WARNING) if softer else found


def notes(plan: Plan, context: RuleContext, report: SkewReport) -> Iterator[Diagnostic]:
    """What the report does not say, and what it says of increases that are safe."""
    if report.cluster_id is None:
        text = "the skew report names no cluster: it was made from files"
        yield Diagnostic("KF509", Severity.INFO, text)
    for planned in plan.changes:
        counts = increase(planned.change)
        if counts is None:
            continue
        name, (before, after) = planned.ref.name, counts
        declared = context.declared.get(planned.ref)
        place = declared.place("partitions") if declared is not None else planned.location
        result = context.skew.get(name)
        found = predicted(result, before, after, _unit(context, planned.ref)) if result is not None else None
        if found is None:
            yield replace(_not_predicted(name, before, after, result, place), ref=planned.ref)
        elif risk_of(planned.change) is Risk.SAFE:
            text = f"{name} goes from {before} to {after} partitions: {worded(found)}"
            yield Diagnostic("KF508", Severity.INFO, text, place, ref=planned.ref)


def _not_predicted(
    name: str, before: int, after: int, result: TopicResult | None, place: Location | None
) -> Diagnostic:
    grows = f"{name} goes from {before} to {after} partitions, and"
    if result is not None and result.what_if_withheld is not None:
        # Foreign text: a report may come from anywhere.
        why = clipped(result.what_if_withheld, _LONG).rstrip(".")
        return Diagnostic("KF507", Severity.WARNING, f"{grows} no prediction holds for it: {why}", place)
    why = "is not in the skew report" if result is None else f"was not measured for {after}"
    return Diagnostic(
        "KF507",
        Severity.WARNING,
        f"{grows} {why}: what that comes to is not known",
        place,
        command("skew", name, options=("--what-if", str(after))),
    )


def _unit(context: RuleContext, ref: ResourceRef) -> str:
    declared = context.declared.get(ref)
    return policy_unit(declared.intent) if declared is not None else "records"

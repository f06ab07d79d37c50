"""Skew reports: reading them, judging them against manifests, and adding them to plans."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kafkaform import rules
from kafkaform.core.errors import SkewReportError
from kafkaform.core.files import read_file
from kafkaform.core.model import Desired, Diagnostic, Location, ResourceRef, Risk, Severity, risk_of
from kafkaform.core.printable import clipped, printable
from kafkaform.core.schema_files import first_problem
from kafkaform.core.strict_json import NEWER_HINT, describe_violation, parse_document
from kafkaform.core.values import replace
from kafkaform.core.wording import command
from kafkaform.plan.plan_header import require_fresh
from kafkaform.resources import topic_ref
from kafkaform.resources.skew import describe_prediction, increase, limits_of, policy_unit, predict_increase
from kafkaform.rules import RuleContext, Stage
from spark_validation.policy import explain_unjudged, explain_unknown_ratio, is_inconclusive
from spark_validation.results import FORMAT_VERSION, SkewFinding, SkewVerdict, from_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kafkaform.config.settings import Settings
    from kafkaform.core.plans import Plan
    from spark_validation.results import SkewLimits, SkewReport, TopicResult

_NOUN = "skew report"
_AGAIN = "make it with `kafkaform skew --format json`"
_MEASURE = "measure again with `kafkaform skew`"
_MAX_REASON_LENGTH = 300

_LIMITS = {"KF501": "max_partition_ratio", "KF502": "max_key_share", "KF503": "min_distinct_keys"}
"""The limit that each rule checks."""


def read_skew_report(
    path: Path,
    *,
    max_age: timedelta | None = None,
    cluster_id: str | None = None,
    now: datetime | None = None,
) -> SkewReport:
    """Read and check a report.

    Args:
        max_age: The maximum age; None for any age.
        cluster_id: The required cluster; None for any. A report without a cluster is accepted.
        now: The time, with its zone; None for this moment.

    Raises:
        SkewReportError: It cannot be read, is not a report, has a newer format, is of another cluster, is too
            old, or is from the future.
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
    """Parse and check a report.

    Args:
        text: The content of the file.
        file: Its name, for messages.

    Raises:
        SkewReportError: It is not JSON, not a report, or has a newer format; the message names the first
            problem.
    """
    document = parse_document(text, file, SkewReportError, noun=_NOUN, again=_AGAIN, fractions=True)
    # Before the schema, which would report a field of the newer format instead.
    if (version := document["format_version"]) > FORMAT_VERSION:
        raise SkewReportError(
            f"{printable(file)}: the skew report has format {version}, but this kafkaform reads formats up "
            f"to {FORMAT_VERSION}",
            hint=NEWER_HINT,
        )
    wrong = first_problem("skew", document)
    if wrong is not None:
        raise SkewReportError(describe_violation(file, _NOUN, wrong), hint=_AGAIN)
    report = from_document(document)
    names = [topic.name for topic in report.topics]
    if len({*names}) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise SkewReportError(describe_violation(file, _NOUN, f"duplicate topic {duplicate}"), hint=_AGAIN)
    return report


def require_cluster(report: SkewReport, cluster_id: str, where: str = "") -> None:
    """Raise a SkewReportError if the report is of another cluster."""
    if report.cluster_id is not None and report.cluster_id != cluster_id:
        named = f"{report.cluster_name} ({report.cluster_id})" if report.cluster_name else report.cluster_id
        raise SkewReportError(
            f"{printable(where)}the skew report is of cluster {printable(named)}, not of {cluster_id}",
            hint=f"{_MEASURE} on this cluster",
        )


def _read(path: Path) -> str:
    try:
        return read_file(path).decode("utf-8")
    except OSError as error:
        raise SkewReportError(f"{printable(str(path))}: {error.strerror}", hint=_AGAIN) from error
    except UnicodeDecodeError as error:
        raise SkewReportError(describe_violation(str(path), _NOUN, "not UTF-8"), hint=_AGAIN) from error


def skew_diagnostics(
    report: SkewReport, desired: Sequence[Desired], settings: Settings, environment: str | None = None
) -> tuple[Diagnostic, ...]:
    """Check the topics of a report by the rules, severities and waivers of the project.

    Args:
        desired: The declared resources; undeclared topics have no limits.
        settings: The settings of the project.
        environment: The environment whose overrides were merged; None if none was chosen.
    """
    context = settings.build_rule_context(tuple(desired), environment, subset=True)
    context = replace(context, skew={topic.name: topic for topic in report.topics})
    return tuple(rules.check(context, settings.rules, (Stage.SKEW,)))


def judge_report(
    report: SkewReport, desired: Sequence[Desired], settings: Settings, environment: str | None = None
) -> SkewReport:
    """Add findings and verdicts to the topics of a report; arguments as for `skew_diagnostics`."""
    declared = {resource.ref: resource for resource in desired}
    findings_by_ref: dict[ResourceRef | None, list[Diagnostic]] = {}
    for diagnostic in skew_diagnostics(report, desired, settings, environment):
        findings_by_ref.setdefault(diagnostic.ref, []).append(diagnostic)
    topics = []
    for topic in report.topics:
        ref = topic_ref(topic.name)
        manifest, own = declared.get(ref), findings_by_ref.get(ref, [])
        limits = limits_of(manifest.intent) if manifest is not None and manifest.state is not None else None
        verdict = _build_verdict(topic, limits, own) if limits is not None else None
        findings = tuple(SkewFinding(d.code, d.severity.value, _format_message(d), d.suggestion) for d in own)
        topics.append(replace(topic, findings=findings, policy=verdict))
    return replace(report, topics=tuple(topics))


def is_unknown(report: SkewReport) -> bool:
    """Return whether a judged report lacks what was asked for: exit code 1 of `kafkaform skew`."""
    return any(map(is_inconclusive, report.topics))


def is_beyond_policy(report: SkewReport) -> bool:
    """Return whether a judged report contains an error: exit code 2 of `kafkaform skew`."""
    return any(finding.severity == Severity.ERROR for topic in report.topics for finding in topic.findings)


def _build_verdict(topic: TopicResult, limits: SkewLimits, found: Iterable[Diagnostic]) -> SkewVerdict:
    """Return the verdict on a topic by the limits of its manifest; other findings do not count."""
    # Too few records for a verdict do not break a limit.
    if (reason := explain_unjudged(topic)) is not None:
        return SkewVerdict("pass", (reason,))
    about = [d for d in found if d.code in _LIMITS and getattr(limits, _LIMITS[d.code]) is not None]
    severities = {d.severity for d in about}
    status = "fail" if Severity.ERROR in severities else "warn" if Severity.WARNING in severities else "pass"
    if status != "fail" and explain_unknown_ratio(topic, limits) is not None:
        status = "unknown"
    return SkewVerdict(status, tuple(_format_message(d) for d in about))


def _format_message(diagnostic: Diagnostic) -> str:
    waived = f" (waived: {diagnostic.waived})" if diagnostic.waived is not None else ""
    return diagnostic.message + waived


def index_measured_topics(report: SkewReport | None) -> Mapping[ResourceRef, TopicResult]:
    """Return the topics of a report that have enough records to be judged."""
    topics = report.topics if report is not None else ()
    return {topic_ref(topic.name): topic for topic in topics if explain_unjudged(topic) is None}


def check_present_skew(context: RuleContext, settings: Settings) -> Iterator[Diagnostic]:
    """Check the present skew of declared topics.

    Errors become warnings: a violated limit must not stop an unrelated change, such as a longer retention.
    `kafkaform skew` reports them as errors.
    """
    declared = {name: result for name, result in context.skew.items() if topic_ref(name) in context.declared}
    context = replace(context, skew=declared)
    for finding in rules.check(context, settings.rules, (Stage.SKEW,)):
        softer = finding.severity is Severity.ERROR
        yield replace(finding, severity=Severity.WARNING) if softer else finding


def find_notes(plan: Plan, context: RuleContext, report: SkewReport) -> Iterator[Diagnostic]:
    """Describe the gaps of the report, and its predictions for safe increases of partitions."""
    if report.cluster_id is None:
        text = "the skew report names no cluster: it was made from files"
        yield Diagnostic("KF509", Severity.INFO, text)
    for planned in plan.changes:
        counts = increase(planned.change)
        if counts is None:
            continue
        name, (before, after) = planned.ref.name, counts
        declared = context.declared.get(planned.ref)
        location = declared.locate("partitions") if declared is not None else planned.location
        result = context.skew.get(name)
        unit = policy_unit(declared.intent) if declared is not None else "records"
        prediction = None if result is None else predict_increase(result, before, after, unit)
        if prediction is None:
            yield replace(_describe_not_predicted(name, before, after, result, location), ref=planned.ref)
        elif risk_of(planned.change) is Risk.SAFE:
            text = f"{name} goes from {before} to {after} partitions: {describe_prediction(prediction)}"
            yield Diagnostic("KF508", Severity.INFO, text, location, ref=planned.ref)


def _describe_not_predicted(
    name: str, before: int, after: int, result: TopicResult | None, location: Location | None
) -> Diagnostic:
    grows = f"{name} goes from {before} to {after} partitions, and"
    if result is not None and result.what_if_withheld is not None:
        # Untrusted text: a report may come from anywhere.
        why = clipped(result.what_if_withheld, _MAX_REASON_LENGTH).rstrip(".")
        return Diagnostic("KF507", Severity.WARNING, f"{grows} no prediction holds for it: {why}", location)
    why = "is not in the skew report" if result is None else f"was not measured for {after}"
    return Diagnostic(
        "KF507",
        Severity.WARNING,
        f"{grows} {why}: its effect is not known",
        location,
        command("skew", name, options=("--what-if", str(after))),
    )

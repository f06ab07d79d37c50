"""A health report as text and Markdown for people, and as JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.printable import clipped
from kafkaform.core.wording import counted
from kafkaform.inspect.health_check import HealthReport, HealthVerdict, UncheckedRule
from kafkaform.report.diagnostics import finding_to_json
from kafkaform.report.document import (
    Item,
    ReportDocument,
    Role,
    Section,
    TextSpan,
    count_left_out,
    name_cluster,
)
from kafkaform.report.findings import ReportedFinding, abridge_findings
from kafkaform.report.markdown import LIMIT, write_markdown
from kafkaform.report.page import Page, render_page
from kafkaform.report.sections import Finding, describe_finding
from kafkaform.rules.health import find_offline, find_under_min_isr, find_under_replicated

if TYPE_CHECKING:
    from collections.abc import Sequence

VERDICTS = {
    HealthVerdict.HEALTHY: Role.GOOD,
    HealthVerdict.UNHEALTHY: Role.BAD,
    HealthVerdict.UNKNOWN: Role.WARNING,
}
_WORDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_NAME = 80


def figures(report: HealthReport) -> dict[str, int | None]:
    """Return the figures of a health report by name; None for an unknown one."""
    health = report.health
    return {
        "brokers": len(health.brokers),
        "topics": len(health.topics),
        "partitions": len(health.partitions),
        "offline_partitions": len(find_offline(health)),
        "under_replicated_partitions": len(find_under_replicated(health)),
        "under_min_isr_partitions": len(find_under_min_isr(health)),
        "reassigning_partitions": None if health.reassigning is None else len(health.reassigning),
        "groups": len(report.groups),
    }


def headline(report: HealthReport, name: str) -> str:
    """Return what was examined and the verdict: `cluster prod: 3 brokers, 90 topics: healthy`."""
    return f"cluster {clipped(name, _NAME)}: {_count_examined(report)}: {verdict_words(report)}"


def _count_examined(report: HealthReport) -> str:
    health = report.health
    examined = {
        "broker": health.brokers,
        "topic": health.topics,
        "partition": health.partitions,
        **({"group": report.groups} if report.groups else {}),
    }
    return ", ".join(counted(len(items), noun) for noun, items in examined.items())


def verdict_words(report: HealthReport) -> str:
    """Return the verdict and the number of findings by severity."""
    # A waived finding does not count: it was accepted, and the verdict ignores it.
    counts = Counter(finding.severity for finding in report.findings if finding.waived is None)
    parts = [counted(counts[severity], word) for severity, word in _WORDS.items() if counts[severity]]
    return f"{report.verdict}" + (f" ({', '.join(parts)})" if parts else "")


def render_health(
    report: HealthReport, name: str, *, verbose: bool = False, width: int | None = None
) -> Page:
    """Render a health report for a terminal.

    Args:
        name: The name of the cluster.
        verbose: List every finding of every rule.
        width: The columns at which text wraps; None for no wrapping.
    """
    findings = report.findings if verbose else abridge_findings(report.findings)
    return render_page(_build(report, name, findings), width=width)


def health_to_markdown(report: HealthReport, name: str, *, limit: int = LIMIT) -> str:
    """Return a health report as Markdown of at most `limit` characters, for an issue or a chat.

    A line counts whatever is left out.
    """
    return write_markdown(_build(report, name, report.findings), limit=limit)


def _build(report: HealthReport, name: str, findings: Sequence[Finding]) -> ReportDocument:
    see = "`kafkaform doctor --verbose` lists them"
    return ReportDocument(
        "kafkaform doctor",
        (
            Section(findings, describe_finding, count_left_out("finding", see), share=0.8),
            Section(report.unchecked, _describe_unchecked, count_left_out("rule", see)),
        ),
        TextSpan(verdict_words(report), VERDICTS[report.verdict]),
        (name_cluster(name, report.health.cluster_id or None), _count_examined(report)),
    )


def _describe_unchecked(rule: UncheckedRule) -> Item:
    role = Role.WARNING if rule.matters else Role.MUTED
    return Item(
        TextSpan(f"not checked {rule.code}", role),
        rule.what if rule.matters else f"{rule.what} (does not affect the verdict)",
    )


def health_to_json(report: HealthReport, name: str) -> str:
    """Return a health report as JSON; `healthy` is null if unknown."""
    # In KRaft, brokers may name any live broker as the controller; the leader of the quorum is the real one.
    quorum = report.health.quorum
    healthy = {HealthVerdict.HEALTHY: True, HealthVerdict.UNHEALTHY: False, HealthVerdict.UNKNOWN: None}
    content = {
        "cluster": {"id": report.health.cluster_id or None, "name": name},
        "healthy": healthy[report.verdict],
        "fail_on": report.fail_on.value,
        "controller": quorum.leader if quorum is not None else report.health.controller,
        "summary": figures(report),
        "diagnostics": [finding_to_json(ReportedFinding(finding)) for finding in report.findings],
        "unread": [
            {"code": rule.code, "reason": rule.what, "matters": rule.matters} for rule in report.unchecked
        ],
    }
    return json.dumps(content, indent=2) + "\n"

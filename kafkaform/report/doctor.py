"""A health report as text and Markdown for people, and as JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.printable import clipped
from kafkaform.core.wording import counted
from kafkaform.inspect.health_check import HealthVerdict
from kafkaform.report import notes
from kafkaform.report.diagnostics import as_json
from kafkaform.report.findings import Reported, abridged
from kafkaform.report.markdown import LIMIT
from kafkaform.report.markdown_escape import code, finding, prose, sentence
from kafkaform.report.page import FIELD_INDENT, PROSE, Page
from kafkaform.report.truncation import Block, fit_all, left_out_others
from kafkaform.rules.health import offline, under_min_isr, under_replicated

if TYPE_CHECKING:
    from kafkaform.inspect.health_check import HealthReport, UncheckedRule

VERDICTS = {
    HealthVerdict.HEALTHY: "bold green",
    HealthVerdict.UNHEALTHY: "bold red",
    HealthVerdict.UNKNOWN: "bold yellow",
}
_WORDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_NAME = 80


def figures(report: HealthReport) -> dict[str, int | None]:
    """A health report in numbers; None where it is not known."""
    health = report.health
    return {
        "brokers": len(health.brokers),
        "topics": len(health.topics),
        "partitions": len(health.partitions),
        "offline_partitions": len(offline(health)),
        "under_replicated_partitions": len(under_replicated(health)),
        "under_min_isr_partitions": len(under_min_isr(health)),
        "reassigning_partitions": None if health.reassigning is None else len(health.reassigning),
        "groups": len(report.groups),
    }


def headline(report: HealthReport, name: str) -> str:
    """What was looked at, and the verdict: `cluster prod: 3 brokers, 90 topics, 270 partitions: healthy`."""
    health = report.health
    looked_at = {
        "broker": health.brokers,
        "topic": health.topics,
        "partition": health.partitions,
        **({"group": report.groups} if report.groups else {}),
    }
    seen = ", ".join(counted(len(things), noun) for noun, things in looked_at.items())
    return f"cluster {clipped(name, _NAME)}: {seen}: {verdict_words(report)}"


def verdict_words(report: HealthReport) -> str:
    """Return the verdict, with the number of findings."""
    return f"{report.verdict}{_tally(report)}"


def render_health(
    report: HealthReport, name: str, *, verbose: bool = False, width: int | None = None
) -> Page:
    """Word a health report.

    Args:
        report: What was found.
        name: What the reader calls the cluster.
        verbose: List every finding, also where one rule has many.
        width: Where to wrap prose, in columns; None leaves it in whole lines.
    """
    page = Page(width)
    lead, _, verdict = headline(report, name).rpartition(": ")
    if page.fits(f"{lead}: {verdict}"):
        page.line(f"{lead}: ", (verdict, VERDICTS[report.verdict]))
    else:
        page.note("", f"{lead}:", indent=0)
        page.line((verdict, VERDICTS[report.verdict]), indent=2)
    notes.listing(page, report.findings if verbose else abridged(report.findings))
    for rule in report.unchecked:
        style = "yellow" if rule.matters else "dim"
        what = clipped(rule.what, PROSE)
        if page.fits(f"  not checked {rule.code}  {what}"):
            page.line((f"not checked {rule.code}", style), f"  {what}", indent=2)
        else:
            page.line((f"not checked {rule.code}", style), indent=2)
            page.note("", what, indent=FIELD_INDENT)
    return page


def health_to_json(report: HealthReport, name: str) -> str:
    """Write a health report for programs; `healthy` is null where that is not known."""
    quorum = report.health.quorum
    healthy = {HealthVerdict.HEALTHY: True, HealthVerdict.UNHEALTHY: False, HealthVerdict.UNKNOWN: None}
    content = {
        "cluster": {"id": report.health.cluster_id or None, "name": name},
        "healthy": healthy[report.verdict],
        "fail_on": report.fail_on.value,
        "controller": quorum.leader if quorum is not None else report.health.controller,
        "summary": figures(report),
        "diagnostics": [as_json(Reported(finding)) for finding in report.findings],
        "unread": [
            {"code": rule.code, "reason": rule.what, "matters": rule.matters} for rule in report.unchecked
        ],
    }
    return json.dumps(content, indent=2) + "\n"


def health_to_markdown(report: HealthReport, name: str, *, limit: int = LIMIT) -> str:
    """Write a health report for an issue or a chat, in at most `limit` characters.

    Nothing is left out without a line that says how much.
    """
    lead, _, verdict = headline(report, name).rpartition(": ")
    cluster = f" Its id is {code(report.health.cluster_id, 80)}." if report.health.cluster_id else ""
    head = f"## kafkaform doctor: {prose(verdict)}\n\n{sentence(lead[:1].upper() + lead[1:])}{cluster}\n"
    see = "`kafkaform doctor --verbose` lists them"
    blocks = (
        Block("\n", report.findings, finding, left_out_others("finding", see), share=0.8),
        Block("\n### Not checked\n\n", report.unchecked, _unchecked_item, left_out_others("rule", see)),
    )
    return head + fit_all(blocks, limit - len(head))


def _unchecked_item(rule: UncheckedRule) -> str:
    matters = "" if rule.matters else " It does not decide whether the cluster is healthy."
    return f"- {code(rule.code)}: {sentence(rule.what)}{matters}\n"


def _tally(report: HealthReport) -> str:
    counts = Counter(finding.severity for finding in report.findings if finding.waived is None)
    parts = [counted(counts[severity], word) for severity, word in _WORDS.items() if counts[severity]]
    return f" ({', '.join(parts)})" if parts else ""

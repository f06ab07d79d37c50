"""A checkup as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.printable import clipped
from kafkaform.core.wording import counted
from kafkaform.inspect.health_check import Verdict
from kafkaform.report import notes
from kafkaform.report.diagnostics import as_json
from kafkaform.report.findings import Reported, abridged
from kafkaform.report.page import FIELD_INDENT, PROSE, Page
from kafkaform.rules.health import offline, under_min_isr, under_replicated

if TYPE_CHECKING:
    from rich.text import Text

    from kafkaform.inspect.health_check import Checkup

_VERDICTS = {Verdict.HEALTHY: "bold green", Verdict.UNHEALTHY: "bold red", Verdict.UNKNOWN: "bold yellow"}
_WORDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_NAME = 80


def figures(checkup: Checkup) -> dict[str, int | None]:
    """A checkup in numbers; None where it is not known."""
    health = checkup.health
    return {
        "brokers": len(health.brokers),
        "topics": len(health.topics),
        "partitions": len(health.partitions),
        "offline_partitions": len(offline(health)),
        "under_replicated_partitions": len(under_replicated(health)),
        "under_min_isr_partitions": len(under_min_isr(health)),
        "reassigning_partitions": None if health.reassigning is None else len(health.reassigning),
        "groups": len(checkup.groups),
    }


def headline(checkup: Checkup, name: str) -> str:
    """What was looked at, and the verdict: `cluster prod: 3 brokers, 90 topics, 270 partitions: healthy`."""
    health = checkup.health
    looked_at = {
        "broker": health.brokers,
        "topic": health.topics,
        "partition": health.partitions,
        **({"group": checkup.groups} if checkup.groups else {}),
    }
    seen = ", ".join(counted(len(things), noun) for noun, things in looked_at.items())
    return f"cluster {clipped(name, _NAME)}: {seen}: {checkup.verdict}{_tally(checkup)}"


def render_checkup(checkup: Checkup, name: str, *, verbose: bool = False, width: int | None = None) -> Text:
    """Word a checkup.

    Args:
        checkup: What was found.
        name: What the reader calls the cluster.
        verbose: List every finding, also where one rule has many.
        width: Where to wrap prose, in columns; None leaves it in whole lines.
    """
    page = Page(width)
    lead, _, verdict = headline(checkup, name).rpartition(": ")
    if page.fits(f"{lead}: {verdict}"):
        page.line(f"{lead}: ", (verdict, _VERDICTS[checkup.verdict]))
    else:
        page.note("", f"{lead}:", indent=0)
        page.line((verdict, _VERDICTS[checkup.verdict]), indent=2)
    notes.listing(page, checkup.findings if verbose else abridged(checkup.findings))
    for untold in checkup.untold:
        style = "yellow" if untold.matters else "dim"
        what = clipped(untold.what, PROSE)
        if page.fits(f"  not told {untold.code}  {what}"):
            page.line((f"not told {untold.code}", style), f"  {what}", indent=2)
        else:
            page.line((f"not told {untold.code}", style), indent=2)
            page.note("", what, indent=FIELD_INDENT)
    return page.text


def checkup_to_json(checkup: Checkup, name: str) -> str:
    """A checkup for programs, with a line break at the end; `healthy` is null where it could not be told."""
    quorum = checkup.health.quorum
    healthy = {Verdict.HEALTHY: True, Verdict.UNHEALTHY: False, Verdict.UNKNOWN: None}
    content = {
        "cluster": {"id": checkup.health.cluster_id or None, "name": name},
        "healthy": healthy[checkup.verdict],
        "fail_on": checkup.fail_on.value,
        "controller": quorum.leader if quorum is not None else checkup.health.controller,
        "summary": figures(checkup),
        "diagnostics": [as_json(Reported(finding)) for finding in checkup.findings],
        "unread": [
            {"code": untold.code, "reason": untold.what, "matters": untold.matters}
            for untold in checkup.untold
        ],
    }
    return json.dumps(content, indent=2) + "\n"


def _tally(checkup: Checkup) -> str:
    counts = Counter(finding.severity for finding in checkup.findings if finding.waived is None)
    parts = [counted(counts[severity], word) for severity, word in _WORDS.items() if counts[severity]]
    return f" ({', '.join(parts)})" if parts else ""

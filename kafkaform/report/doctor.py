"""A checkup as text for people and as JSON for programs."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from kafkaform.checkup import Verdict
from kafkaform.model import Severity
from kafkaform.report.diagnostics import as_json
from kafkaform.report.findings import Reported
from kafkaform.report.printable import clipped, printable
from kafkaform.rules.health_partitions import offline, under_min_isr, under_replicated
from kafkaform.wording import counted

if TYPE_CHECKING:
    from kafkaform.checkup import Checkup
    from kafkaform.model import Diagnostic

_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "dim"}
_VERDICTS = {Verdict.HEALTHY: "bold green", Verdict.UNHEALTHY: "bold red", Verdict.UNKNOWN: "bold yellow"}
_WORDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_PROSE = 1200
_NAME = 80
_LEAST_ROOM = 20


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


def render_checkup(checkup: Checkup, name: str, *, width: int | None = None) -> Text:
    """Word a checkup.

    Args:
        checkup: What was found.
        name: What the reader calls the cluster.
        width: Where to wrap prose, in columns; None leaves it in whole lines.
    """
    lead, _, verdict = headline(checkup, name).rpartition(": ")
    text = Text.assemble(f"{lead}: ", (verdict, _VERDICTS[checkup.verdict]))
    for finding in checkup.findings:
        _finding(text, finding, width)
    for untold in checkup.untold:
        style = "yellow" if untold.matters else "dim"
        text.append("\n  ")
        text.append(f"not told {untold.code}", style)
        _prose(text, clipped(untold.what, _PROSE), "", width, first=len(f"  not told {untold.code}  "))
    return text


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


def _finding(text: Text, finding: Diagnostic, width: int | None) -> None:
    lead = f"{'waived' if finding.waived else finding.severity.value} {finding.code}"
    where = f"{finding.location}: " if finding.location else ""
    text.append("\n  ")
    text.append(lead, _STYLES[finding.severity])
    _prose(text, where + clipped(finding.message, _PROSE), "", width, first=len(f"  {lead}  "))
    more = f"because: {finding.waived}" if finding.waived else finding.suggestion
    if more:
        text.append("\n")
        _prose(text, clipped(more, _PROSE), "dim", width, first=0)


def _prose(text: Text, prose: str, style: str, width: int | None, *, first: int) -> None:
    """Add a paragraph: behind what the line has already, the rest of it and all others indented."""
    indent = " " * 6
    lines = [printable(prose)]
    if width is not None and width - len(indent) >= _LEAST_ROOM:
        lines = textwrap.wrap(
            lines[0],
            width,
            initial_indent=" " * (first or len(indent)),
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines[0] = lines[0].lstrip(" ")
    text.append("  " if first else indent)
    text.append("\n".join(lines), style)

"""Findings in every format that commands offer."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.printable import plain_quotes, printable, wrapped
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.report.findings import Reported, Workspace
    from kafkaform.rules import Note, Rule

_INDENT = "    "
FORMATS = ("text", "json", "github", "sarif")
ANNOTATING = frozenset({"github", "sarif"})
"""The formats that put findings on the lines of files, problems of the input too."""


def render(
    found: Sequence[Reported],
    output_format: str,
    workspace: Workspace,
    *,
    known: Mapping[str, Rule | Note],
    about: Mapping[str, object] | None = None,
    width: int | None = None,
) -> str:
    """The findings in one of FORMATS, each line ended.

    Args:
        found: The findings.
        output_format: The format.
        workspace: What paths are relative to, where others than people read them.
        known: What explains the codes.
        about: What the JSON says besides the findings.
        width: Where to wrap text, in columns; None leaves each finding in one line.
    """
    match output_format:
        case "json":
            content = {**(about or {}), "diagnostics": [as_json(one) for one in found]}
            return json.dumps(content, indent=2) + "\n"
        case "sarif":
            from kafkaform.report.sarif import sarif_log

            return sarif_log(found, known, workspace)
        case "github":
            from kafkaform.report.github import commands

            return "".join(f"{line}\n" for line in commands(found, workspace))
        case _:
            lines = [as_line(one) for one in found]
            if width is not None:
                lines = [part for line in lines for part in wrapped(line, width, _INDENT)]
            return "".join(f"{line}\n" for line in lines)


def as_line(one: Reported) -> str:
    """A finding in one line for people."""
    diagnostic = one.diagnostic
    where = f"{diagnostic.location}: " if diagnostic.location else ""
    code = f"{diagnostic.code} " if diagnostic.code else ""
    hint = f" ({diagnostic.suggestion})" if diagnostic.suggestion else ""
    waived = f" (waived: {diagnostic.waived})" if diagnostic.waived is not None else ""
    text = f"{where}{diagnostic.severity.value}: {code}{one.message}{hint}{waived}"
    return plain_quotes(printable(text))


def as_json(one: Reported) -> dict[str, object]:
    """A finding for programs; `code` is null for a problem of the input."""
    diagnostic = one.diagnostic
    place = diagnostic.location
    return {
        "code": diagnostic.code or None,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "source": {"file": place.file, "line": place.line, "column": place.column} if place else None,
        "suggestion": diagnostic.suggestion,
        "waived": diagnostic.waived,
        "environments": list(one.environments) or None,
    }


def has_errors(found: Sequence[Reported]) -> bool:
    """Whether a finding is an error that nobody has waived."""
    return any(one.diagnostic.severity is Severity.ERROR for one in _open(found))


def tally(found: Sequence[Reported]) -> list[str]:
    """How many of each, such as `1 error`, `2 warnings`, `1 waived`; empty if there are none."""
    counts = Counter(one.diagnostic.severity for one in _open(found))
    words = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
    parts = [counted(counts[severity], word) for severity, word in words.items() if counts[severity]]
    waived = len(found) - counts.total()
    return [*parts, f"{waived:,} waived"] if waived else parts


def _open(found: Sequence[Reported]) -> list[Reported]:
    return [one for one in found if one.diagnostic.waived is None]

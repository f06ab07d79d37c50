"""Findings as text, JSON, GitHub's workflow commands, and SARIF 2.1.0 for code scanning services.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/sarif-v2.1.0-errata01-os.html
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import quote

from kafkaform import __version__
from kafkaform.core.model import Diagnostic, Location, Severity
from kafkaform.core.printable import MAX_LINE_LENGTH, clipped, printable, wrap_text
from kafkaform.core.wording import counted
from kafkaform.plan.summary import summary_sentence
from kafkaform.report.findings import FurtherFindings, abridge_findings, divide_findings, wrap_findings
from kafkaform.rules import Note, Rule, list_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkaform.core.plans import Plan
    from kafkaform.report.findings import ChangedFiles, ReportedFinding, Workspace

_INVALID_INPUT_SUMMARY = "A file is not valid."
_INDENT = "    "
_PLACES = 3
"""The most places that are listed of further findings."""


def findings_to_text(
    findings: Sequence[ReportedFinding], *, width: int | None = None, verbose: bool = False
) -> str:
    """Write a line for each finding, wrapped at `width` columns; None for no wrapping.

    Unless `verbose` is set, a rule with many warnings or notes has the places of most of them in one line.
    """
    reported = {finding.diagnostic: finding for finding in findings}
    lines = [
        _format_further(each) if isinstance(each, FurtherFindings) else format_finding(reported[each])
        for each in (reported if verbose else abridge_findings(reported))
    ]
    if width is not None:
        lines = [part for line in lines for part in wrap_text(line, width, _INDENT)]
    return "".join(f"{line}\n" for line in lines)


def _format_further(further: FurtherFindings) -> str:
    locations = [
        f"{location.file}:{location.line}" for each in further.findings if (location := each.location)
    ]
    where = ", ".join(["", *locations[:_PLACES], *(["…"] if len(locations) > _PLACES else [])])
    return printable(
        f"{_INDENT}{len(further.findings):,} more of {further.code}{where} (--verbose lists them)"
    )


def findings_to_json(
    findings: Sequence[ReportedFinding], *, about: Mapping[str, object] | None = None
) -> str:
    """Return findings as JSON, after the members `about` the run."""
    content = {**(about or {}), "diagnostics": [finding_to_json(finding) for finding in findings]}
    return json.dumps(content, indent=2) + "\n"


class CodeCount(NamedTuple):
    """The number of open and of waived findings of one rule, with the worst severity."""

    code: str | None
    severity: str
    findings: int
    waived: int
    summary: str


def count_codes(findings: Sequence[ReportedFinding], known: Mapping[str, Rule | Note]) -> list[CodeCount]:
    """Count the findings of each rule, the most first."""
    groups: dict[str, list[Diagnostic]] = {}
    for finding in findings:
        groups.setdefault(finding.diagnostic.code, []).append(finding.diagnostic)
    counts = []
    for code, group in groups.items():
        waived = sum(each.waived is not None for each in group)
        # A waived finding is an info, whatever the rule.
        severity = min((each.severity for each in group), key=_ORDER.index)
        summary = known[code].summary if code in known else _INVALID_INPUT_SUMMARY
        counts.append(CodeCount(code or None, severity.value, len(group) - waived, waived, summary))
    return sorted(counts, key=lambda count: (-count.findings, -count.waived, count.code or ""))


def statistics_to_text(findings: Sequence[ReportedFinding], *, known: Mapping[str, Rule | Note]) -> str:
    """Write a line for each rule with its findings, severity and summary, the most first."""
    counts = count_codes(findings, known)
    width = max((len(f"{count.findings:,}") for count in counts), default=0)
    return "".join(
        printable(
            f"{count.findings:>{width},}  {count.code or 'invalid':<7}  {count.severity:<7}  {count.summary}"
            + (f" ({count.waived:,} waived)" if count.waived else "")
        )
        + "\n"
        for count in counts
    )


def statistics_to_json(findings: Sequence[ReportedFinding], *, known: Mapping[str, Rule | Note]) -> str:
    """Return the counts as JSON, the most first; `code` is null for invalid input."""
    return json.dumps([count._asdict() for count in count_codes(findings, known)], indent=2) + "\n"


def findings_to_github(findings: Sequence[ReportedFinding], *, workspace: Workspace) -> str:
    """Write an annotation for each finding that is not waived."""
    return "".join(f"{line}\n" for line in write_commands(findings, workspace))


def plan_to_github(plan: Plan, *, workspace: Workspace, changed: ChangedFiles | None = None) -> str:
    """Write the findings of a plan as annotations, and its summary.

    Args:
        workspace: The folder that paths are relative to.
        changed: The files whose findings come first within a severity; None for no preference.
    """
    findings = divide_findings(plan)
    # Within a severity this order is kept below, so lines that the pull request changes are among the ten
    # errors and ten warnings that GitHub shows of a step.
    relevant = changed.first(findings.relevant) if changed is not None else findings.relevant
    # One line for all findings on unchanged resources: as annotations they would take the places of those
    # that this branch caused.
    unchanged = f"Also {findings.unchanged.sentence()}\n" if findings.unchanged else ""
    annotations = findings_to_github(wrap_findings(relevant), workspace=workspace)
    return f"{annotations}{unchanged}{summary_sentence(plan)}\n"


def plan_to_sarif(plan: Plan, *, policies: Mapping[str, Rule] | None = None, workspace: Workspace) -> str:
    """Write all findings of a plan: a scanner closes an alert that is missing from the log.

    Args:
        policies: The project's policies by code.
        workspace: The folder that paths are relative to.
    """
    # A policy of the project is described like a rule: without it, the alert would have a code and no
    # explanation.
    known: dict[str, Rule | Note] = {**list_entries(), **(policies or {})}
    return findings_to_sarif(wrap_findings(plan.diagnostics), known=known, workspace=workspace)


def format_finding(finding: ReportedFinding) -> str:
    """Format a finding as one line of text."""
    diagnostic = finding.diagnostic
    where = f"{diagnostic.location}: " if diagnostic.location else ""
    code = f"{diagnostic.code} " if diagnostic.code else ""
    hint = f" ({diagnostic.suggestion})" if diagnostic.suggestion else ""
    waived = f" (waived: {diagnostic.waived})" if diagnostic.waived is not None else ""
    text = f"{where}{diagnostic.severity.value}: {code}{finding.message}{hint}{waived}"
    return clipped(text, MAX_LINE_LENGTH)


def finding_to_json(finding: ReportedFinding) -> dict[str, object]:
    """Convert a finding for JSON; `code` is null for an invalid input."""
    diagnostic = finding.diagnostic
    location = diagnostic.location
    return {
        "code": diagnostic.code or None,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "source": location._asdict() if location else None,
        "suggestion": diagnostic.suggestion,
        "waived": diagnostic.waived,
        "environments": list(finding.environments) or None,
    }


def has_errors(findings: Sequence[ReportedFinding]) -> bool:
    """Return whether a finding is an error and is not waived."""
    return any(finding.diagnostic.severity is Severity.ERROR for finding in _list_open(findings))


def count_findings(findings: Sequence[ReportedFinding]) -> list[str]:
    """Count findings by severity: `1 error`, `2 warnings`, `1 waived`."""
    counts = Counter(finding.diagnostic.severity for finding in _list_open(findings))
    # Info is called a note in text, as in SARIF; JSON keeps the name of the severity.
    words = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
    parts = [counted(counts[severity], word) for severity, word in words.items() if counts[severity]]
    waived = len(findings) - counts.total()
    return [*parts, f"{waived:,} waived"] if waived else parts


def _list_open(findings: Sequence[ReportedFinding]) -> list[ReportedFinding]:
    return [finding for finding in findings if finding.diagnostic.waived is None]


_Json: TypeAlias = dict[str, object]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
INVALID_INPUT = "invalid-input"
"""The rule id of problems of the input."""
# The version is part of the name: results of another way to compute it would not match, and be new alerts.
FINGERPRINT = "kafkaform/v1"

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_INVALID_INPUT = {
    "id": INVALID_INPUT,
    "shortDescription": {"text": _INVALID_INPUT_SUMMARY},
    "fullDescription": {"text": "A manifest or the configuration file is not valid."},
    "defaultConfiguration": {"level": "error"},
}


def findings_to_sarif(
    findings: Sequence[ReportedFinding], *, known: Mapping[str, Rule | Note], workspace: Workspace
) -> str:
    """Write the SARIF log of one run.

    Args:
        known: The rules and notes by code.
        workspace: The folder that paths are relative to.
    """
    # Only rules with findings, in a fixed order: the same findings give the same file.
    rules = sorted({finding.diagnostic.code or INVALID_INPUT for finding in findings})
    digests: Counter[str] = Counter()
    run: _Json = {
        "tool": {
            "driver": {
                "name": "kafkaform",
                "version": __version__,
                "rules": [_describe_rule(code, known) for code in rules],
            }
        },
        "invocations": [{"executionSuccessful": INVALID_INPUT not in rules}],
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding, rules, workspace, digests) for finding in findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _describe_rule(code: str, known: Mapping[str, Rule | Note]) -> _Json:
    if code == INVALID_INPUT:
        return dict(_INVALID_INPUT)
    entry = known.get(code)
    if (
        entry is None
    ):  # from a plug-in or a policy that is not installed here, as in a plan saved on another machine
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": entry.summary},
        "fullDescription": {"text": entry.explanation},
        "help": {"text": entry.explanation},
        "defaultConfiguration": {"level": _LEVELS[entry.severity]},
    }


def _sarif_result(
    finding: ReportedFinding, rules: list[str], workspace: Workspace, digests: Counter[str]
) -> _Json:
    diagnostic = finding.diagnostic
    code = diagnostic.code or INVALID_INPUT
    hint = f" ({diagnostic.suggestion})" if diagnostic.suggestion else ""
    location = diagnostic.location
    result: _Json = {
        "ruleId": code,
        "ruleIndex": rules.index(code),
        "level": _LEVELS[diagnostic.severity],
        "message": {"text": finding.message + hint},
    }
    if location is not None:
        region = {"startLine": location.line, "startColumn": location.column}
        artifact = {"uri": _uri(workspace.path(location.file))}
        result["locations"] = [{"physicalLocation": {"artifactLocation": artifact, "region": region}}]
    result["partialFingerprints"] = {FINGERPRINT: _fingerprint(finding, location, workspace, digests)}
    # SARIF 2.1.0, 3.27.23: either all results have suppressions or none has.
    result["suppressions"] = (
        []
        if diagnostic.waived is None
        else [{"kind": "inSource", "status": "accepted", "justification": diagnostic.waived}]
    )
    return result


def _fingerprint(
    finding: ReportedFinding, location: Location | None, workspace: Workspace, digests: Counter[str]
) -> str:
    """Return a digest of rule, file and message, which survives moved lines; equal ones are numbered."""
    from hashlib import sha256  # loads OpenSSL, which only SARIF needs

    file = workspace.path(location.file) if location else ""
    # Without the line: it moves with every edit above it, and a moved finding is not a new alert.
    parts = (finding.diagnostic.code, file, finding.message)
    # The name of a file that is not UTF-8 has surrogates, which would not encode otherwise.
    digest = sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    # Two equal fingerprints would be one alert, and closing it would close both findings.
    digests[digest] += 1
    return f"{digest}:{digests[digest]}"


def _uri(path: str) -> str:
    """Return a relative URI reference, or a file URI for a file outside of the workspace."""
    # Services match relative references with the files of a checkout; a file outside of it needs its scheme.
    if path.startswith("/"):
        return PurePosixPath(path).as_uri()
    return quote(path, safe="/", errors="surrogateescape")


_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_ORDER = list(_COMMANDS)
# The escapes of GitHub's own toolkit: a line break would end the command, and the rest of a message could be
# a command of its own. In properties, a comma would start the next one, and two colons the message.
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}
_DATA_TABLE, _PROPERTY_TABLE = str.maketrans(_DATA), str.maketrans(_PROPERTY)


def write_commands(findings: Iterable[ReportedFinding], workspace: Workspace) -> Iterator[str]:
    """Write a line for each finding, the worst first: GitHub shows only ten of a kind per step.

    Waived findings are left out: they were decided once and would repeat in every pull request.
    """
    open_findings = [finding for finding in findings if finding.diagnostic.waived is None]
    # The sort is stable: within a severity, the order of the caller stays.
    for finding in sorted(open_findings, key=lambda finding: _ORDER.index(finding.diagnostic.severity)):
        yield _write_annotation(finding, workspace)


def _write_annotation(finding: ReportedFinding, workspace: Workspace) -> str:
    diagnostic = finding.diagnostic
    # Without a place GitHub shows the annotation on the page of the run alone, where the title says which
    # rule it is.
    properties = {"title": printable(diagnostic.code or "invalid input")}
    if location := diagnostic.location:
        properties = {
            "file": workspace.path(location.file),
            "line": str(location.line),
            "col": str(location.column),
            **properties,
        }
    attributes = ",".join(f"{name}={value.translate(_PROPERTY_TABLE)}" for name, value in properties.items())
    # The suggestion is a line of its own: an escaped line break is one in the annotation.
    lines = [finding.message, diagnostic.suggestion or ""]
    text = "\n".join(clipped(line, MAX_LINE_LENGTH) for line in lines if line).translate(_DATA_TABLE)
    return f"::{_COMMANDS[diagnostic.severity]} {attributes}::{text}"

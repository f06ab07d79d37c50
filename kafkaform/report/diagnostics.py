"""Findings as text, JSON, GitHub's workflow commands, and SARIF 2.1.0 for code scanning services.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/sarif-v2.1.0-errata01-os.html
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from kafkaform import __version__
from kafkaform.core.model import Severity
from kafkaform.core.printable import plain_quotes, printable, wrapped
from kafkaform.core.wording import counted
from kafkaform.plan.summary import summary_sentence
from kafkaform.report.findings import everywhere, of_plan
from kafkaform.rules import entries

if TYPE_CHECKING:
    from collections.abc import (
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from kafkaform.core.model import Location, Plan
    from kafkaform.report.findings import ChangedFiles, Reported, Workspace
    from kafkaform.rules import Note, Rule


_INDENT = "    "


def findings_to_text(found: Sequence[Reported], *, width: int | None = None) -> str:
    """Write a line for each finding; `width` is where to wrap it, None leaves it in one line."""
    lines = [as_line(finding) for finding in found]
    if width is not None:
        lines = [part for line in lines for part in wrapped(line, width, _INDENT)]
    return "".join(f"{line}\n" for line in lines)


def findings_to_json(found: Sequence[Reported], *, about: Mapping[str, object] | None = None) -> str:
    """Write findings for programs, after what else is to be said `about` the run."""
    content = {**(about or {}), "diagnostics": [as_json(finding) for finding in found]}
    return json.dumps(content, indent=2) + "\n"


def findings_to_github(found: Sequence[Reported], *, workspace: Workspace) -> str:
    """Write an annotation for each finding that is not waived."""
    return "".join(f"{line}\n" for line in commands(found, workspace))


def plan_to_github(plan: Plan, *, workspace: Workspace, changed: ChangedFiles | None = None) -> str:
    """Write the findings of a plan as annotations, and its summary.

    Args:
        plan: The plan.
        workspace: What paths are relative to.
        changed: The files whose findings come first among those that are as severe; None: no file does.
    """
    found = of_plan(plan)
    relevant = changed.first(found.relevant) if changed is not None else found.relevant
    others = f"Also {found.elsewhere.sentence(printable)}\n" if found.elsewhere else ""
    annotations = findings_to_github(everywhere(relevant), workspace=workspace)
    return f"{annotations}{others}{summary_sentence(plan)}\n"


def plan_to_sarif(plan: Plan, *, policies: Mapping[str, Rule] | None = None, workspace: Workspace) -> str:
    """Write all findings of a plan: a scanner takes an alert that is missing for one that was fixed.

    Args:
        plan: The plan.
        policies: The project's own policies, which explain their codes.
        workspace: What paths are relative to.
    """
    known: dict[str, Rule | Note] = {**entries(), **(policies or {})}
    return findings_to_sarif(everywhere(plan.diagnostics), known=known, workspace=workspace)


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


_Json: TypeAlias = dict[str, object]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
INVALID_INPUT = "invalid-input"
"""The rule id of what is wrong with the input itself."""
FINGERPRINT = "kafkaform/v1"

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_INVALID_INPUT = {
    "id": INVALID_INPUT,
    "shortDescription": {"text": "A file is not valid."},
    "fullDescription": {"text": "A manifest or the configuration file is not valid."},
    "defaultConfiguration": {"level": "error"},
}


def findings_to_sarif(
    found: Sequence[Reported], *, known: Mapping[str, Rule | Note], workspace: Workspace
) -> str:
    """Write the log of one run.

    Args:
        found: The findings.
        known: What explains their codes.
        workspace: What paths are relative to.
    """
    rules = sorted({one.diagnostic.code or INVALID_INPUT for one in found})
    seen: Counter[str] = Counter()
    run: _Json = {
        "tool": {
            "driver": {
                "name": "kafkaform",
                "version": __version__,
                "rules": [_descriptor(code, known) for code in rules],
            }
        },
        "invocations": [{"executionSuccessful": INVALID_INPUT not in rules}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, rules, workspace, seen) for one in found],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _descriptor(code: str, known: Mapping[str, Rule | Note]) -> _Json:
    if code == INVALID_INPUT:
        return dict(_INVALID_INPUT)
    entry = known.get(code)
    if entry is None:  # of a plug-in or a policy that is not here, as in a plan that was saved elsewhere
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": entry.summary},
        "fullDescription": {"text": entry.explanation},
        "help": {"text": entry.explanation},
        "defaultConfiguration": {"level": _LEVELS[entry.severity]},
    }


def _result(one: Reported, rules: list[str], workspace: Workspace, seen: Counter[str]) -> _Json:
    diagnostic = one.diagnostic
    code = diagnostic.code or INVALID_INPUT
    hint = f" ({diagnostic.suggestion})" if diagnostic.suggestion else ""
    place = diagnostic.location
    result: _Json = {
        "ruleId": code,
        "ruleIndex": rules.index(code),
        "level": _LEVELS[diagnostic.severity],
        "message": {"text": one.message + hint},
    }
    if place is not None:
        region = {"startLine": place.line, "startColumn": place.column}
        artifact = {"uri": _uri(workspace.path(place.file))}
        result["locations"] = [{"physicalLocation": {"artifactLocation": artifact, "region": region}}]
    result["partialFingerprints"] = {FINGERPRINT: _fingerprint(one, place, workspace, seen)}
    # The standard wants this on all results or on none.
    result["suppressions"] = (
        []
        if diagnostic.waived is None
        else [{"kind": "inSource", "status": "accepted", "justification": diagnostic.waived}]
    )
    return result


def _fingerprint(one: Reported, place: Location | None, workspace: Workspace, seen: Counter[str]) -> str:
    """What stays as it is when lines move: the rule, the file, the message; equal ones are numbered."""
    from hashlib import sha256  # which loads OpenSSL: SARIF alone needs it

    file = workspace.path(place.file) if place else ""
    parts = (one.diagnostic.code, file, one.message)
    digest = sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    seen[digest] += 1
    return f"{digest}:{seen[digest]}"


def _uri(path: str) -> str:
    """A URI reference: relative, or with its scheme for a file outside of the workspace."""
    if path.startswith("/"):
        return PurePosixPath(path).as_uri()
    return quote(path, safe="/", errors="surrogateescape")


_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_ORDER = list(_COMMANDS)
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}
_DATA_TABLE, _PROPERTY_TABLE = str.maketrans(_DATA), str.maketrans(_PROPERTY)


def commands(found: Iterable[Reported], workspace: Workspace) -> Iterator[str]:
    """A line for each finding, the worst first: GitHub shows only the first ten of a kind and step.

    Waived findings are left out: what was decided once need not be read in every pull request.
    """
    open_ones = [one for one in found if one.diagnostic.waived is None]
    for one in sorted(open_ones, key=lambda one: _ORDER.index(one.diagnostic.severity)):
        yield _annotation(one, workspace)


def _annotation(one: Reported, workspace: Workspace) -> str:
    diagnostic = one.diagnostic
    properties = {"title": printable(diagnostic.code or "invalid input")}
    if place := diagnostic.location:
        properties = {
            "file": workspace.path(place.file),
            "line": str(place.line),
            "col": str(place.column),
            **properties,
        }
    told = ",".join(f"{name}={value.translate(_PROPERTY_TABLE)}" for name, value in properties.items())
    lines = [one.message, diagnostic.suggestion or ""]
    text = "\n".join(plain_quotes(printable(line)) for line in lines if line).translate(_DATA_TABLE)
    return f"::{_COMMANDS[diagnostic.severity]} {told}::{text}"

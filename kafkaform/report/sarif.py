"""Findings in SARIF 2.1.0, the format that code scanning services take.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/sarif-v2.1.0-errata01-os.html
"""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from kafkaform import __version__
from kafkaform.core.model import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.core.model import Location
    from kafkaform.report.findings import Reported, Workspace
    from kafkaform.rules import Note, Rule

_Json: TypeAlias = dict[str, object]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
INVALID_INPUT = "invalid-input"
"""The rule id of what is wrong with the input itself."""
FINGERPRINT = "kafkaform/v1"

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_INVALID_INPUT = {
    "id": INVALID_INPUT,
    "shortDescription": {"text": "A file cannot be read as what it should be."},
    "fullDescription": {"text": "A manifest or the configuration file is not valid."},
    "defaultConfiguration": {"level": "error"},
}


def sarif_log(found: Sequence[Reported], known: Mapping[str, Rule | Note], workspace: Workspace) -> str:
    """A log of one run.

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

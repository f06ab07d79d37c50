"""Findings as workflow commands of GitHub Actions, which show them on the lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.printable import plain_quotes, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkaform.report.findings import Reported, Workspace

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

"""What several reports in Markdown have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.report.markdown_escape import code, prose

if TYPE_CHECKING:
    from kafkaform.core.model import Diagnostic, Location, ResourceRef


def place(location: Location | None, *, cell: bool = False) -> str:
    """Where something stands, as code; nothing where that is not known."""
    return code(f"{location.file}:{location.line}", cell=cell) if location else ""


def finding(diagnostic: Diagnostic) -> str:
    """A finding as an item of a list."""
    where = f" {place(diagnostic.location)}" if diagnostic.location else ""
    lead = "waived" if diagnostic.waived else diagnostic.severity.value
    parts = [f"{lead} {code(diagnostic.code)}{where}: {sentence(diagnostic.message)}"]
    if diagnostic.waived:
        parts.append(f"Because: {sentence(diagnostic.waived)}")
    elif diagnostic.suggestion:
        parts.append(f"Suggestion: {sentence(diagnostic.suggestion)}")
    return f"- {' '.join(parts)}\n"


def sentence(text: str) -> str:
    """Foreign prose with a full stop."""
    return f"{prose(text.rstrip().rstrip('.'))}."


def resource(ref: ResourceRef) -> str:
    """A resource as an item of a list."""
    return f"- {code(str(ref))}\n"

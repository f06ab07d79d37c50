"""The catalogue of rules, and the explanation of a rule, as text and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.printable import printable, wrap_text
from kafkaform.core.values import Value
from kafkaform.rules import Note, Rule
from kafkaform.rules.waivers import WAIVER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_OFF = "off"
_NEEDS = {
    "manifests": "the manifests; run by validate, plan and apply",
    "live": "the manifests and the live resources; run by plan and apply",
    "changes": "the changes of a plan; run by plan and apply",
    "health": "the live cluster; run by doctor, and before apply",
    "skew": "a measurement of records; run by skew, and by plan --skew",
    "forecast": "the changes of a plan and a measurement of records; run by plan --skew",
}


class CatalogueEntry(Value):
    """A rule or note and its configuration in this project.

    Attributes:
        entry: The rule or note.
        origin: `kafkaform`, the configuration file, or the plug-in that defines it.
        in_force: The configured severity or `off`; the rule's own severity if none is configured.
    """

    entry: Rule | Note
    origin: str
    in_force: str

    @property
    def kind(self) -> str:
        """`rule`, `policy` or `note`."""
        if isinstance(self.entry, Note):
            return "note"
        return "policy" if self.entry.code.startswith("policy/") else "rule"

    @property
    def stage(self) -> str | None:
        """The stage whose data it needs; None for a note."""
        return self.entry.stage.value if isinstance(self.entry, Rule) else None

    @property
    def waivable(self) -> bool:
        """True if a manifest can waive it."""
        return isinstance(self.entry, Rule) and self.entry.waivable


def rules_to_text(listed: Collection[CatalogueEntry]) -> str:
    """Write a line for each code."""
    width = max(len(listing.entry.code) for listing in listed)
    lines = (
        f"{listing.entry.code:<{width}}  {listing.in_force:<8} {listing.entry.summary}" for listing in listed
    )
    return "\n".join(map(printable, lines))


def rules_to_json(listed: Collection[CatalogueEntry]) -> str:
    """Return the catalogue as JSON."""
    return json.dumps([_entry_to_json(listing) for listing in listed], indent=2)


def rule_to_json(listing: CatalogueEntry) -> str:
    """Return one entry as JSON."""
    return json.dumps(_entry_to_json(listing), indent=2)


def rule_to_text(listing: CatalogueEntry, *, width: int | None = None) -> str:
    """Explain a rule; prose is wrapped at `width` columns."""
    entry = listing.entry
    default = (
        "" if listing.in_force == entry.severity.value else f", {entry.severity.value} unless configured"
    )
    lines = [f"{entry.code} ({listing.in_force}{default})", "", *_paragraphs(entry.explanation, width), ""]
    if listing.stage is not None:
        lines.append(f"needs      {_NEEDS[listing.stage]}")
    if listing.origin != "kafkaform":
        lines.append(f"from       {listing.origin}")
    if listing.kind == "note":
        lines.append("severity   fixed: this is a note, not a rule")
        return "\n".join(map(printable, lines))
    # The example must differ from what holds, or it would change nothing.
    example = Severity.INFO if listing.in_force != Severity.INFO.value else Severity.WARNING
    lines.append(f"severity   rules: {{{entry.code}: {example.value}}} in kafkaform.yaml, or {_OFF}")
    waiver = f'metadata.annotations: {{{WAIVER_PREFIX}{entry.code}: "why it is acceptable here"}}'
    lines.append(f"waiver     {waiver if listing.waivable else 'none: fix what it reports'}")
    return "\n".join(map(printable, lines))


def _paragraphs(explanation: str, width: int | None) -> Iterator[str]:
    """Yield the lines of an explanation, wrapped at `width`; lists and indented text stay as they are."""
    for number, paragraph in enumerate(explanation.split("\n\n")):
        if number:
            yield ""
        lines = [printable(line) for line in paragraph.splitlines()]
        # Lists, tables and examples are laid out by hand; joined into one paragraph, they could not be read.
        if width is None or any(line.startswith((" ", "-", "|")) for line in lines):
            yield from lines
        else:
            yield from wrap_text(" ".join(lines), width)


def _entry_to_json(listing: CatalogueEntry) -> dict[str, object]:
    return {
        "code": listing.entry.code,
        "kind": listing.kind,
        "severity": listing.entry.severity.value,
        "in_force": listing.in_force,
        "stage": listing.stage,
        "waivable": listing.waivable,
        "origin": listing.origin,
        "summary": listing.entry.summary,
        "explanation": listing.entry.explanation,
    }

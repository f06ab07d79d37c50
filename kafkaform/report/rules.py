"""The catalogue of rules, and the explanation of one of them, as text and JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.model import Severity
from kafkaform.core.printable import plain_quotes, printable, wrapped
from kafkaform.rules import Note, Rule, notes

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


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A code, and what holds of it in this repository.

    Attributes:
        entry: The rule or note.
        origin: `kafkaform`, the configuration file, or the plug-in that it comes from.
        in_force: The severity that the project gave it, `off` too; that of the rule where it gave none.
    """

    entry: Rule | Note
    origin: str
    in_force: str

    @property
    def kind(self) -> str:
        """What it is."""
        if isinstance(self.entry, Note):
            return "note"
        return "policy" if self.entry.code.startswith("policy/") else "rule"

    @property
    def stage(self) -> str | None:
        """What it needs; None for a note."""
        return self.entry.stage.value if isinstance(self.entry, Rule) else None

    @property
    def waivable(self) -> bool:
        """Whether a manifest can have it overlook itself."""
        return isinstance(self.entry, Rule) and self.entry.waivable


def rules_to_text(listed: Collection[CatalogueEntry]) -> str:
    """Write a line for each code."""
    width = max(len(listing.entry.code) for listing in listed)
    lines = (
        f"{listing.entry.code:<{width}}  {listing.in_force:<8} {listing.entry.summary}" for listing in listed
    )
    return "\n".join(map(printable, lines))


def rules_to_json(listed: Collection[CatalogueEntry]) -> str:
    """Write the catalogue for programs."""
    return json.dumps([_json(listing) for listing in listed], indent=2)


def rule_to_json(listing: CatalogueEntry) -> str:
    """Write one entry for programs."""
    return json.dumps(_json(listing), indent=2)


def rule_to_text(listing: CatalogueEntry, *, width: int | None = None) -> str:
    """Explain a rule, with its prose wrapped at `width`."""
    entry = listing.entry
    own = "" if listing.in_force == entry.severity.value else f", {entry.severity.value} unless configured"
    lines = [f"{entry.code} ({listing.in_force}{own})", "", *_paragraphs(entry.explanation, width), ""]
    if listing.stage is not None:
        lines.append(f"needs      {_NEEDS[listing.stage]}")
    if listing.origin != "kafkaform":
        lines.append(f"from       {listing.origin}")
    if listing.kind == "note":
        lines.append("severity   fixed: this is a note, not a rule")
        return "\n".join(map(printable, lines))
    other = Severity.INFO if listing.in_force != Severity.INFO.value else Severity.WARNING
    lines.append(f"severity   rules: {{{entry.code}: {other.value}}} in kafkaform.yaml, or {_OFF}")
    waiver = f'metadata.annotations: {{{notes.PREFIX}{entry.code}: "why it is acceptable here"}}'
    lines.append(f"waiver     {waiver if listing.waivable else 'none: Kafka would still refuse it'}")
    return "\n".join(map(printable, lines))


def _paragraphs(explanation: str, width: int | None) -> Iterator[str]:
    """An explanation in lines of a terminal, or its own; lists and what is indented stay as they are."""
    for number, paragraph in enumerate(explanation.split("\n\n")):
        if number:
            yield ""
        lines = [plain_quotes(printable(line)) for line in paragraph.splitlines()]
        if width is None or any(line.startswith((" ", "-", "|")) for line in lines):
            yield from lines
        else:
            yield from wrapped(plain_quotes(printable(" ".join(paragraph.splitlines()))), width)


def _json(listing: CatalogueEntry) -> dict[str, object]:
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

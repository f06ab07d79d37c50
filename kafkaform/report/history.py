"""The record of applies as terminal text and as JSON; all of it is foreign text."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kafkaform.core.printable import clipped
from kafkaform.core.wording import command, counted, short_commit, spans
from kafkaform.report.equal_changes import gathered, subject_of, without_name
from kafkaform.report.page import FIELD_INDENT, PROSE, Page
from kafkaform.report.text import SYMBOLS
from kafkaform.resources.values import Transition, described, label, set_first, single

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from kafkaform.audit.entries import AuditEntry, AuditRecord, RecordedField

FORMAT_VERSION = 1
UNKNOWN = "result unknown (killed, or still running)"
_OPEN = "may have been done; the next apply that finds it done records the result"

_DONE = {"create": "created", "update": "updated", "delete": "deleted"}
_ENDS = {
    "already": "already in place",
    "failed": "FAILED",
    "moved": "not applied (somebody else changed it first)",
    "not_tried": "not tried",
}
_MOST_FIELDS = 12
_FEW_FIELDS = 3
_WORD = 120
_NAME = 280


def render_history(
    entries: Sequence[AuditEntry], earlier: int, *, verbose: bool = True, width: int | None = None
) -> Page:
    """Word changes apply by apply, in the order in which they are given.

    Args:
        entries: The changes.
        earlier: How many more there are that are not shown.
        verbose: Whether every field and consent has a line of its own.
        width: Where to wrap prose, in columns; None leaves it in whole lines.
    """
    page = Page(width)
    clusters = len({entry.cluster_id for entry in entries})
    for _, applied in groupby(entries, key=lambda entry: entry.run):
        changes = list(applied)
        if not page.is_empty:
            page.line()
        _apply(page, changes[0], named=clusters > 1)
        changes.sort(key=lambda entry: _number(entry.id))
        for group in [[entry] for entry in changes] if verbose else gathered(changes, _equality):
            _change(page, group, verbose=verbose)
    if not entries:
        page.line("No matching change is recorded.")
    if earlier or (entries and not verbose):
        page.line()
    if earlier:
        page.note("", f"and {counted(earlier, 'earlier change')}: see --limit", "dim", indent=0)
    if entries and not verbose:
        some = f"{command('history', str(entries[0].ref))} or {command('history', entries[0].run)}"
        page.note("", f"every field: {some}, or --verbose for all", "dim", indent=0)
    return page


def history_to_json(entries: Sequence[AuditEntry], log: AuditRecord) -> str:
    """The same for programs, with a line break at the end."""
    content = {
        "format_version": FORMAT_VERSION,
        "changes": [_document(entry) for entry in entries],
        "problems": list(log.problems),
    }
    return json.dumps(content, indent=2) + "\n"


def result_of(entry: AuditEntry) -> str:
    """How a change ended, in a few words."""
    if entry.outcome is None:
        return f"{entry.action}: {UNKNOWN}"
    if entry.outcome.result == "applied":
        return _DONE[entry.action]
    return f"{entry.action} {_ENDS[entry.outcome.result]}"


def _number(change_id: str) -> int:
    return int(change_id.rpartition(".")[2])


def _apply(page: Page, entry: AuditEntry, *, named: bool) -> None:
    time = entry.at[:19].replace("T", " ")
    parts = [f"{time} UTC", f"{clipped(entry.who, _WORD)} on {clipped(entry.host, _WORD)}"]
    if entry.commit:
        parts.append(f"commit {clipped(short_commit(entry.commit), _WORD)}")
    if entry.environment:
        parts.append(f"environment {clipped(entry.environment, _WORD)}")
    if named:
        parts.append(f"cluster {clipped(entry.cluster_id, _WORD)}")
    about = "  ".join(parts)
    if page.fits(f"{entry.run}  {about}"):
        page.line((entry.run, "bold"), "  ", about)
    else:
        page.line((entry.run, "bold"), f"  {parts[0]}")
        page.note("", "  ".join(parts[1:]), indent=2)
    if entry.url:
        page.line((clipped(entry.url, PROSE), "dim"), indent=2)


def _equality(entry: AuditEntry) -> Hashable:
    """All that is said of a change in brief, but for its number and the name of the resource."""
    outcome = entry.outcome
    said = None if outcome is None else without_name(outcome.message, entry.ref.name)
    parts = tuple(field.path for field in entry.carried_out), tuple(field.path for field in entry.in_doubt)
    return entry.ref.kind, result_of(entry), entry.fields, entry.consents, said, parts


def _change(page: Page, group: Sequence[AuditEntry], *, verbose: bool) -> None:
    """Word a change, or equal changes of several resources: what happened once, and every name."""
    entry = group[0]
    fine = entry.outcome is not None and entry.outcome.result in {"applied", "already"}
    symbol, style = SYMBOLS[entry.action] if fine else ("?" if entry.outcome is None else "!", "red")
    title = f"{entry.id}  ", clipped(str(entry.ref), _NAME), f"  {result_of(entry)}"
    message = entry.outcome.message if entry.outcome is not None else ""
    if len(group) > 1:
        numbers = spans(_number(one.id) for one in group)
        title = f"{entry.run}.{numbers}  ", clipped(subject_of([one.ref for one in group]), _NAME), title[2]
        message = without_name(message, entry.ref.name)
    brief = "" if verbose else _brief(entry)
    fits = page.fits(f"    {''.join(title)}{brief}")
    page.line(
        (symbol, f"bold {style}"),
        f" {title[0]}",
        (title[1], "bold"),
        title[2],
        (brief if fits else "", "dim"),
        indent=2,
    )
    if brief and not fits:
        page.note("", brief.removeprefix(": ").strip(), "dim", indent=FIELD_INDENT)
    if len(group) > 1:
        page.note("", ", ".join(clipped(one.ref.name, _NAME) for one in group), indent=FIELD_INDENT)
    if entry.outcome is None:
        page.note("", f"this {_OPEN}", indent=FIELD_INDENT)
    elif message:
        page.note("", clipped(message, PROSE), indent=FIELD_INDENT)
    unsure = {field.path for field in entry.in_doubt} if entry.outcome is not None else set()
    if unsure:
        page.note("", f"what is not known {_OPEN}", indent=FIELD_INDENT)
    if verbose:
        _details(page, entry, "  (already in place)" if fine else "  (not done)", unsure)


def _brief(entry: AuditEntry) -> str:
    """What a line says of the fields of a change: values of the few of an update, else how many there are."""
    consents = ", ".join(hazard for hazard, _ in entry.consents)
    consented = f" (with consent to {consents})" if consents else ""
    if entry.action == "update" and len(entry.fields) <= _FEW_FIELDS:
        values = ", ".join(f"{label(field.path)} {_short(entry, field)}" for field in entry.fields)
        return f": {values}{consented}" if values else consented
    count = f": {counted(len(entry.fields), 'field')}" if entry.fields and entry.action != "delete" else ""
    return f"{count}{consented}"


def _short(entry: AuditEntry, field: RecordedField) -> str:
    """What an update made of a field, without raw values."""
    told = _transition(entry, field)
    if isinstance(told, Transition) and told.told:
        return told.told
    sides = (single(entry.ref.kind, field.path, value).short for value in (field.before, field.after))
    return " → ".join(sides)


def _details(page: Page, entry: AuditEntry, apart: str, unsure: Collection[str]) -> None:
    """Every field and consent of a change; `apart` is said of fields that were not carried out."""
    done = {field.path for field in entry.carried_out}
    for field in entry.fields[:_MOST_FIELDS]:
        left_out = apart if (done or unsure) and field.path not in done else ""
        if field.path in unsure:
            left_out = "  (unknown)"
        words = f"{label(field.path)}: {_transition(entry, field)}"
        if page.fits(" " * FIELD_INDENT + words + left_out):
            page.line(words, (left_out, "dim"), indent=FIELD_INDENT)
        else:
            page.note("", words + left_out, indent=FIELD_INDENT)
    if len(entry.fields) > _MOST_FIELDS:
        more = counted(len(entry.fields) - _MOST_FIELDS, "more field")
        page.line((f"and {more}: see --format json", "dim"), indent=FIELD_INDENT)
    for hazard, reason in entry.consents:
        page.note("consent: ", f"{hazard}: {clipped(reason, PROSE)}", "dim", indent=FIELD_INDENT)


def _transition(entry: AuditEntry, field: RecordedField) -> Transition | str:
    before, after = (single(entry.ref.kind, field.path, value) for value in (field.before, field.after))
    match entry.action:
        case "create":
            return set_first(entry.ref.kind, field.path, field.after)
        case "delete":
            return Transition(before, None)
        case "update" if field.before is not None and (
            told := described(entry.ref.kind, field.path, field.before, field.after)
        ):
            return Transition(None, None, *told)
        case _ if field.before is None or field.after is None:
            return f"{before} → {after}"
        case _:
            return Transition(before, after)


def _document(entry: AuditEntry) -> dict[str, Any]:
    outcome = entry.outcome
    done = {field.path for field in entry.carried_out}
    unsure = {field.path for field in entry.in_doubt}
    return {
        "id": entry.id,
        "run": entry.run,
        "at": entry.at,
        "who": entry.who,
        "host": entry.host,
        "ci": entry.ci,
        "url": entry.url,
        "commit": entry.commit,
        "plan": entry.plan,
        "tool_version": entry.tool_version,
        "cluster": entry.cluster_id,
        "environment": entry.environment,
        "kind": entry.ref.kind,
        "name": entry.ref.name,
        "uid": entry.uid,
        "action": entry.action,
        "risk": entry.risk,
        "result": outcome.result if outcome is not None else None,
        "message": (outcome.message or None) if outcome is not None else None,
        "concluded_at": outcome.at if outcome is not None else None,
        "fields": [
            {
                "path": field.path,
                "before": field.before,
                "after": field.after,
                "done": field.path in done,
                "in_doubt": field.path in unsure,
                "cut": field.cut,
            }
            for field in entry.fields
        ],
        "consent": [{"hazard": hazard, "reason": reason} for hazard, reason in entry.consents],
    }

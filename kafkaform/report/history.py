"""The record of applies as terminal text and as JSON; all of it is foreign text."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kafkaform.report.page import FIELD_INDENT, PROSE, Page
from kafkaform.report.printable import clipped
from kafkaform.report.text import SYMBOLS
from kafkaform.report.values import Transition, label, single
from kafkaform.wording import counted, short_commit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from kafkaform.audit.entries import Entry, Log, RecordedField

FORMAT_VERSION = 1
UNKNOWN = "result unknown (killed, or still running)"
_OPEN = "may have been done; the next apply that finds it so writes the result"

_DONE = {"create": "created", "update": "updated", "delete": "deleted"}
_ENDS = {
    "already": "was so already",
    "failed": "FAILED",
    "moved": "moved before its turn",
    "not_tried": "not tried",
}
_MOST_FIELDS = 12
_WORD = 120
_NAME = 280


def render_history(entries: Sequence[Entry], earlier: int, *, width: int | None = None) -> Text:
    """Word changes apply by apply, in the order in which they are given.

    Args:
        entries: The changes.
        earlier: How many more there are that are not shown.
        width: Where to wrap prose, in columns; None leaves it in whole lines.
    """
    page = Page(width)
    clusters = len({entry.cluster_id for entry in entries})
    for _, applied in groupby(entries, key=lambda entry: entry.run):
        changes = list(applied)
        if not page.is_empty:
            page.line()
        _apply(page, changes[0], named=clusters > 1)
        for entry in sorted(changes, key=lambda entry: _number(entry.id)):
            _change(page, entry)
    if not entries:
        page.line("No such change is on record.")
    if earlier:
        page.line()
        page.line((f"and {counted(earlier, 'earlier change')}: see --limit", "dim"))
    return page.text


def history_to_json(entries: Sequence[Entry], log: Log) -> str:
    """The same for programs, with a line break at the end."""
    content = {
        "format_version": FORMAT_VERSION,
        "changes": [_document(entry) for entry in entries],
        "problems": list(log.problems),
    }
    return json.dumps(content, indent=2) + "\n"


def result_of(entry: Entry) -> str:
    """How a change ended, in a few words."""
    if entry.outcome is None:
        return f"{entry.action}: {UNKNOWN}"
    if entry.outcome.result == "applied":
        return _DONE[entry.action]
    return f"{entry.action} {_ENDS[entry.outcome.result]}"


def _number(change_id: str) -> int:
    return int(change_id.rpartition(".")[2])


def _apply(page: Page, entry: Entry, *, named: bool) -> None:
    time = entry.at[:19].replace("T", " ")
    parts = [f"{time} UTC", f"{clipped(entry.who, _WORD)} on {clipped(entry.host, _WORD)}"]
    if entry.commit:
        parts.append(f"commit {clipped(short_commit(entry.commit), _WORD)}")
    if entry.environment:
        parts.append(f"environment {clipped(entry.environment, _WORD)}")
    if named:
        parts.append(f"cluster {clipped(entry.cluster_id, _WORD)}")
    page.line((entry.run, "bold"), "  ", "  ".join(parts))
    if entry.url:
        page.line((clipped(entry.url, PROSE), "dim"), indent=2)


def _change(page: Page, entry: Entry) -> None:
    fine = entry.outcome is not None and entry.outcome.result in {"applied", "already"}
    symbol, style = SYMBOLS[entry.action] if fine else ("?" if entry.outcome is None else "!", "red")
    page.line(
        (symbol, f"bold {style}"),
        f" {entry.id}  ",
        (clipped(str(entry.ref), _NAME), "bold"),
        f"  {result_of(entry)}",
        indent=2,
    )
    if entry.outcome is None:
        page.note("", f"this {_OPEN}", indent=FIELD_INDENT)
    elif entry.outcome.message:
        page.note("", clipped(entry.outcome.message, PROSE), indent=FIELD_INDENT)
    unsure = {field.path for field in entry.in_doubt} if entry.outcome is not None else set()
    if unsure:
        page.note("", f"what is not known {_OPEN}", indent=FIELD_INDENT)
    done = {field.path for field in entry.carried_out}
    apart = "  (was so already)" if fine else "  (not done)"
    for field in entry.fields[:_MOST_FIELDS]:
        left_out = apart if (done or unsure) and field.path not in done else ""
        if field.path in unsure:
            left_out = "  (not known)"
        page.line(f"{label(field.path)}: {_transition(entry, field)}", (left_out, "dim"), indent=FIELD_INDENT)
    if len(entry.fields) > _MOST_FIELDS:
        more = counted(len(entry.fields) - _MOST_FIELDS, "more field")
        page.line((f"and {more}: see --format json", "dim"), indent=FIELD_INDENT)
    for hazard, reason in entry.consents:
        page.note("consent: ", f"{hazard}: {clipped(reason, PROSE)}", "dim", indent=FIELD_INDENT)


def _transition(entry: Entry, field: RecordedField) -> Transition | str:
    before, after = (single(entry.ref.kind, field.path, value) for value in (field.before, field.after))
    match entry.action:
        case "create":
            return Transition(None, after)
        case "delete":
            return Transition(before, None)
        case _ if field.before is None or field.after is None:
            return f"{before} → {after}"
        case _:
            return Transition(before, after)


def _document(entry: Entry) -> dict[str, Any]:
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

"""The record of applies as terminal text and as JSON; all of it is untrusted text."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kafkaform.core.printable import clipped
from kafkaform.core.wording import command, counted, short_commit, spans
from kafkaform.report.document import Role, TextSpan
from kafkaform.report.equal_changes import describe_subject, group_equal, mask_name
from kafkaform.report.page import FIELD_INDENT, PROSE, Page
from kafkaform.report.sections import SYMBOLS
from kafkaform.resources.values import Transition, describe_field, format_value, label, set_first

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from kafkaform.audit.entries import AuditEntry, AuditRecord, RecordedField

FORMAT_VERSION = 1
UNKNOWN = "result unknown (killed, or still running)"
_OPEN = "may have been applied; if so, the next apply records the result"

_DONE = {"create": "created", "update": "updated", "delete": "deleted", "recreate": "recreated"}
_RESULT_WORDS = {
    "already": "already in place",
    "failed": "FAILED",
    "moved": "not applied (it was changed since the plan)",
    "not_tried": "not tried",
}
_MAX_FIELDS = 12
_SHOWN_FIELDS = 3
_MAX_DETAIL_LENGTH = 120
_MAX_NAME_LENGTH = 280


def render_history(
    entries: Sequence[AuditEntry], earlier: int, *, verbose: bool = True, width: int | None = None
) -> Page:
    """Render changes grouped by apply, in the given order.

    Args:
        earlier: The number of earlier changes that are not in `entries`.
        verbose: Whether every field and consent gets a line.
        width: The columns at which prose wraps; None for no wrapping.
    """
    page = Page(width)
    clusters = len({entry.cluster_id for entry in entries})
    for _, applied in groupby(entries, key=lambda entry: entry.run):
        changes = list(applied)
        if not page.is_empty:
            page.line()
        _add_apply(page, changes[0], with_cluster=clusters > 1)
        # Changes come newest first, but those of one apply are read in the order in which they were made.
        changes.sort(key=lambda entry: _change_number(entry.id))
        for group in [[entry] for entry in changes] if verbose else group_equal(changes, _equality_key):
            _add_change(page, group, verbose=verbose)
    if not entries:
        page.line("No matching change is recorded.")
    if earlier or (entries and not verbose):
        page.line()
    if earlier:
        page.note("", f"and {counted(earlier, 'earlier change')}: see --limit", "dim", indent=0)
    if entries and not verbose:
        commands = f"{command('history', str(entries[0].ref))} or {command('history', entries[0].run)}"
        page.note("", f"every field: {commands}, or --verbose for all", "dim", indent=0)
    return page


def history_to_json(entries: Sequence[AuditEntry], log: AuditRecord) -> str:
    """Return the record as JSON, with a trailing newline."""
    content = {
        "format_version": FORMAT_VERSION,
        "changes": [_change_to_json(entry) for entry in entries],
        "problems": list(log.problems),
    }
    return json.dumps(content, indent=2) + "\n"


def describe_result(entry: AuditEntry) -> str:
    """Describe how a change ended in a few words."""
    if entry.outcome is None:
        return f"{entry.action}: {UNKNOWN}"
    if entry.outcome.result == "applied":
        return _DONE[entry.action]
    return f"{entry.action} {_RESULT_WORDS[entry.outcome.result]}"


def _change_number(change_id: str) -> int:
    # As numbers: as texts, 10 would come before 9.
    return int(change_id.rpartition(".")[2])


def _add_apply(page: Page, entry: AuditEntry, *, with_cluster: bool) -> None:
    time = entry.at[:19].replace("T", " ")
    parts = [
        f"{time} UTC",
        f"{clipped(entry.who, _MAX_DETAIL_LENGTH)} on {clipped(entry.host, _MAX_DETAIL_LENGTH)}",
    ]
    if entry.commit:
        parts.append(f"commit {clipped(short_commit(entry.commit), _MAX_DETAIL_LENGTH)}")
    if entry.environment:
        parts.append(f"environment {clipped(entry.environment, _MAX_DETAIL_LENGTH)}")
    if with_cluster:
        parts.append(f"cluster {clipped(entry.cluster_id, _MAX_DETAIL_LENGTH)}")
    details = "  ".join(parts)
    if page.fits(f"{entry.run}  {details}"):
        page.line((entry.run, "bold"), "  ", details)
    else:
        page.line((entry.run, "bold"), f"  {parts[0]}")
        page.note("", "  ".join(parts[1:]), indent=2)
    if entry.url:
        page.line((clipped(entry.url, PROSE), "dim"), indent=2)


def _equality_key(entry: AuditEntry) -> Hashable:
    """Return all that is printed of a change in brief except its number and the name of the resource."""
    outcome = entry.outcome
    message = None if outcome is None else mask_name(outcome.message, entry.ref.name)
    parts = tuple(field.path for field in entry.carried_out), tuple(field.path for field in entry.in_doubt)
    return (
        entry.ref.kind,
        describe_result(entry),
        entry.fields,
        entry.consents,
        message,
        parts,
        entry.successions,
    )


def _add_change(page: Page, group: Sequence[AuditEntry], *, verbose: bool) -> None:
    """Add a change, or equal changes of several resources: the result once, and every name."""
    entry = group[0]
    # A result that is not known gets a question mark: it may have been applied.
    fine = entry.outcome is not None and entry.outcome.result in {"applied", "already"}
    sign = SYMBOLS[entry.action] if fine else TextSpan("?" if entry.outcome is None else "!", Role.VERY_BAD)
    symbol, style = sign.text, sign.role.style.removeprefix("bold ")
    title = f"{entry.id}  ", clipped(str(entry.ref), _MAX_NAME_LENGTH), f"  {describe_result(entry)}"
    message = entry.outcome.message if entry.outcome is not None else ""
    if len(group) > 1:
        numbers = spans(_change_number(member.id) for member in group)
        title = (
            f"{entry.run}.{numbers}  ",
            clipped(describe_subject([member.ref for member in group]), _MAX_NAME_LENGTH),
            title[2],
        )
        message = mask_name(message, entry.ref.name)
    brief = "" if verbose else _format_brief(entry)
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
        page.note(
            "", ", ".join(clipped(member.ref.name, _MAX_NAME_LENGTH) for member in group), indent=FIELD_INDENT
        )
    if entry.outcome is None:
        page.note("", f"this change {_OPEN}", indent=FIELD_INDENT)
    elif message:
        page.note("", clipped(message, PROSE), indent=FIELD_INDENT)
    if entry.outcome is not None and entry.outcome.steps and entry.outcome.result != "applied":
        page.note("done: ", ", ".join(entry.outcome.steps), indent=FIELD_INDENT)
    for step in entry.successions:
        words = f"{step.step}, {step.successor} succeeds {step.predecessor}"
        page.note("succession: ", clipped(words, PROSE), indent=FIELD_INDENT)
    if verbose and entry.outcome is not None and entry.outcome.live:
        numbers = ", ".join(f"{name} {number:,}" for name, number in entry.outcome.live.items())
        page.note("", clipped(numbers, PROSE), indent=FIELD_INDENT)
    in_doubt = {field.path for field in entry.in_doubt} if entry.outcome is not None else set()
    if in_doubt:
        page.note("", f"unknown fields {_OPEN}", indent=FIELD_INDENT)
    if verbose:
        _add_details(page, entry, "  (already in place)" if fine else "  (not done)", in_doubt)


def _format_brief(entry: AuditEntry) -> str:
    """Return the values of a short update, the number of fields otherwise, and the consents."""
    consents = ", ".join(hazard for hazard, _ in entry.consents)
    consented = f" (with consent to {consents})" if consents else ""
    # The values of a create or of a long update would fill the screen; their number says how much there is to
    # look up.
    # A recreated topic has most of its fields again.
    fields = [f for f in entry.fields if entry.action == "update" or f.before != f.after]
    if entry.action in {"update", "recreate"} and len(fields) <= _SHOWN_FIELDS:
        values = ", ".join(f"{label(field.path)} {_format_short(entry, field)}" for field in fields)
        return f": {values}{consented}" if values else consented
    count = f": {counted(len(entry.fields), 'field')}" if entry.fields and entry.action != "delete" else ""
    return f"{count}{consented}"


def _format_short(entry: AuditEntry, field: RecordedField) -> str:
    """Format the change of a field without raw values."""
    transition = _describe_transition(entry, field)
    if isinstance(transition, Transition) and transition.text:
        return transition.text
    sides = (format_value(entry.ref.kind, field.path, value).short for value in (field.before, field.after))
    return " → ".join(sides)


def _add_details(page: Page, entry: AuditEntry, undone_mark: str, in_doubt: Collection[str]) -> None:
    """Add every field and consent of a change; `undone_mark` marks fields that were not carried out."""
    done = {field.path for field in entry.carried_out}
    for field in entry.fields[:_MAX_FIELDS]:
        # Fields are marked only if some were carried out or are unknown: otherwise the result already speaks
        # for all.
        left_out = undone_mark if (done or in_doubt) and field.path not in done else ""
        if field.path in in_doubt:
            left_out = "  (unknown)"
        words = f"{label(field.path)}: {_describe_transition(entry, field)}"
        if page.fits(" " * FIELD_INDENT + words + left_out):
            page.line(words, (left_out, "dim"), indent=FIELD_INDENT)
        else:
            page.note("", words + left_out, indent=FIELD_INDENT)
    if len(entry.fields) > _MAX_FIELDS:
        further_fields = counted(len(entry.fields) - _MAX_FIELDS, "more field")
        page.line((f"and {further_fields}: see --format json", "dim"), indent=FIELD_INDENT)
    for hazard, reason in entry.consents:
        page.note("consent: ", f"{hazard}: {clipped(reason, PROSE)}", "dim", indent=FIELD_INDENT)


def _describe_transition(entry: AuditEntry, field: RecordedField) -> Transition | str:
    before, after = (format_value(entry.ref.kind, field.path, value) for value in (field.before, field.after))
    match entry.action:
        case "create":
            return set_first(entry.ref.kind, field.path, field.after)
        case "delete":
            return Transition(before, None)
        case "update" if field.before is not None and (
            description := describe_field(entry.ref.kind, field.path, field.before, field.after)
        ):
            return Transition(None, None, *description)
        case _ if field.before is None or field.after is None:
            return f"{before} → {after}"
        case _:
            return Transition(before, after)


def _change_to_json(entry: AuditEntry) -> dict[str, Any]:
    outcome = entry.outcome
    done = {field.path for field in entry.carried_out}
    in_doubt = {field.path for field in entry.in_doubt}
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
        **({"live": dict(outcome.live)} if outcome is not None and outcome.live else {}),
        **({"steps": list(outcome.steps)} if outcome is not None and outcome.steps else {}),
        "concluded_at": outcome.at if outcome is not None else None,
        "fields": [
            {
                "path": field.path,
                "before": field.before,
                "after": field.after,
                "done": field.path in done,
                "in_doubt": field.path in in_doubt,
                "cut": field.cut,
            }
            for field in entry.fields
        ],
        "consent": [{"hazard": hazard, "reason": reason} for hazard, reason in entry.consents],
        "successions": [
            {"from": step.predecessor, "to": step.successor, "step": step.step} for step in entry.successions
        ],
    }

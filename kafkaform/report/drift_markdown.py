"""Drift as Markdown for the body of an issue: what to do with each resource, and length bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.core.model import Severity
from kafkaform.inspect.drift import Form
from kafkaform.plan.plan_header import ADDRESSES, provenance
from kafkaform.report.drift_ways import BY_HAND, UNDECLARED_FIRST, accepting, line_words, restoring
from kafkaform.report.drift_wording import (
    declared_words,
    form_words,
    headline,
    live_words,
    risks,
    since_field,
    since_whole,
    summary_sentence,
)
from kafkaform.report.markdown import LEAST, LIMIT
from kafkaform.report.markdown_escape import code, finding, place, resource, sentence
from kafkaform.report.truncation import Block, fit_all, left_out_others
from kafkaform.resources.values import label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.inspect.drift import Drift, FieldDrift, ResourceDrift
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.report.drift_ways import Reach, Way

_FEW_UNMANAGED = 100
_SEE = "`kafkaform drift --verbose` lists them"
_CELL = 120
_LONGEST_COMMAND = 800


def render_drift_markdown(drift: Drift, header: PlanHeader, reach: Reach, *, limit: int = LIMIT) -> str:
    """Word drift for an issue on GitHub, in at most `limit` characters.

    Nothing is left out without a line that says how much. No time of the run is in it: an issue is updated
    when there is something new.

    Raises:
        ValueError: `limit` is below 6,000.
    """
    if limit < LEAST:
        raise ValueError(f"{limit:,} characters are too few for drift; allow at least {LEAST:,}")
    head = _head(drift, header)
    return head + fit_all(_blocks(drift, reach), limit - len(head))


def _head(drift: Drift, header: PlanHeader) -> str:
    cluster = code(drift.plan.cluster_id, 80)
    if header.cluster_name:
        cluster = f"{code(header.cluster_name, 80)} ({cluster})"
    environment = f" · environment {code(header.environment, 80)}" if header.environment else ""
    made_with = "".join(f" · {word} {code(value, ADDRESSES)}" for word, value in provenance(header).items())
    unrecorded = (
        f"\nTime of the change not known: {sentence(drift.unrecorded)}\n"
        if drift.unrecorded is not None
        else ""
    )
    return (
        f"## kafkaform drift: {headline(drift)}\n\nCluster {cluster}{environment}{made_with}\n\n"
        f"**{summary_sentence(drift)}**\n{unrecorded}"
    )


def _blocks(drift: Drift, reach: Reach) -> tuple[Block[Any], ...]:
    unmanaged = drift.unmanaged or ()
    findings = [note for note in drift.notes if note.severity is not Severity.INFO]
    notes = [note for note in drift.notes if note.severity is Severity.INFO]
    return (
        Block(
            "\n### Not visible to this account\n\nThey may or may not exist.\n\n",
            drift.unknown,
            resource,
            left_out_others("resource", _SEE),
            share=0.2,
        ),
        Block(
            "\n### Not as declared\n\n",
            drift.resources,
            lambda drifted: _resource(drifted, drift, reach),
            left_out_others("resource", _SEE),
            brief=_brief,
            share=0.8,
        ),
        Block("\n### Findings\n\n", findings, finding, left_out_others("finding", _SEE), share=0.5),
        Block(
            f"\n<details><summary>Not managed by any manifest: {len(unmanaged):,}</summary>\n\n",
            unmanaged,
            resource,
            left_out_others("resource", "`kafkaform drift --verbose` lists them"),
            "\n</details>\n",
            share=0.5,
            most=_FEW_UNMANAGED,
        ),
        Block(
            f"\n<details><summary>Notes: {len(notes):,}</summary>\n\n",
            notes,
            finding,
            left_out_others("note", _SEE),
            "\n</details>\n",
        ),
    )


def _brief(drifted: ResourceDrift) -> str:
    """One line, for when there are many."""
    what = form_words(drifted) or ", ".join(code(label(one.change.path), _CELL) for one in drifted.fields)
    return f"- {code(str(drifted.ref), 280)}: {what}\n"


def _resource(drifted: ResourceDrift, drift: Drift, reach: Reach) -> str:
    ref = code(str(drifted.ref), 280)
    if drifted.form is Form.DIFFERS:
        head = f"#### {ref}\n\n| Field | Manifest | Live | Where |\n| --- | --- | --- | --- |\n"
        head += "".join(_row(drifted, one) for one in drifted.fields)
        items = _since(drifted)
    else:
        head = f"#### {ref}: {form_words(drifted)}\n"
        where = drifted.desired.location
        items = [f"Declared at {place(where)}."] if where is not None else []
        items += [f"Since: {sentence(since)}"] if (since := since_whole(drifted)) else []
    restore = restoring(drifted, drift, reach)
    items += _way("Restore the cluster", restore, risks(drifted), UNDECLARED_FIRST)
    items += _way("Accept it in the manifest", accepting(drifted, reach), (), BY_HAND)
    return f"{head}\n" + "".join(f"- {item}\n" for item in items) + "\n"


def _since(drifted: ResourceDrift) -> list[str]:
    """What is recorded of the fields, each thing once."""
    fields: dict[str, list[str]] = {}
    for one in drifted.fields:
        if since := since_field(drifted.ref, one):
            fields.setdefault(since, []).append(code(label(one.change.path), _CELL))
    return [f"{', '.join(names)} since: {sentence(since)}" for since, names in fields.items()]


def _row(drifted: ResourceDrift, one: FieldDrift) -> str:
    cells = (
        code(label(one.change.path), _CELL, cell=True),
        code(declared_words(drifted.ref, one), _CELL, cell=True),
        code(live_words(drifted.ref, one), _CELL, cell=True),
        place(one.place, cell=True) if one.keys is not None else "",
    )
    return f"| {' | '.join(cells)} |\n"


def _way(lead: str, way: Way, more: Sequence[str], by_hand: str) -> list[str]:
    """A way to settle it, as one item of a list with items below it."""
    below = [f"Why: {sentence(way.reason)}"] if way.reason else []
    below += [f"Risk: {sentence(text)}" for text in more]
    below += [f"Instead: {sentence(way.instead)}"] if way.instead else []
    if way.lines:
        below.append("".join([by_hand, *(f"\n    - {code(line_words(line), 400)}" for line in way.lines)]))
    command = code(way.command, _LONGEST_COMMAND) if way.command else "no command does this"
    return ["\n  - ".join([f"{lead}: {command}", *below])]

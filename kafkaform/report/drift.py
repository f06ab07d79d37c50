"""Drift for an operator on call and for an issue: declared and live values, and what to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.inspect.drift import Drift, DriftVerdict, FieldDrift, Form, ResourceDrift
from kafkaform.report.document import (
    Block,
    Column,
    Item,
    Paragraph,
    ReportDocument,
    Role,
    Section,
    Subsection,
    Table,
    TextSpan,
    Verbatim,
    count_left_out,
    list_codes,
)
from kafkaform.report.drift_wording import (
    describe_field_since,
    describe_form,
    describe_resource_since,
    format_declared,
    format_live,
    headline,
    list_risks,
    summary_sentence,
)
from kafkaform.report.findings import abridge_findings
from kafkaform.report.markdown import LIMIT, write_markdown
from kafkaform.report.page import Page, render_page
from kafkaform.report.remediation import (
    BY_HAND,
    UNDECLARED_FIRST,
    describe_line,
    plan_acceptance,
    plan_restoration,
)
from kafkaform.report.sections import (
    describe_context,
    is_noted,
    list_findings,
    list_notes,
    list_unknown,
    list_unmanaged,
)
from kafkaform.report.truncation import Category, divide_listed, find_category, summarise_alike
from kafkaform.resources.values import label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.report.remediation import CommandContext, Remediation

_ROLES = {
    DriftVerdict.CLEAN: Role.VERY_GOOD,
    DriftVerdict.DRIFT: Role.VERY_BAD,
    DriftVerdict.UNKNOWN: Role.VERY_WARNING,
}
_SUMMED_UP = {"create": "missing", "update": "that differ"}
_SEE = "`kafkaform drift --verbose` lists them"
_COLUMNS = (Column("Field"), Column("Manifest", least=12), Column("Live", least=8), Column("Where"))
_VALUE = 120
_COMMAND = 800


def render_drift(
    drift: Drift,
    header: PlanHeader,
    context: CommandContext,
    *,
    verbose: bool = False,
    width: int | None = None,
) -> Page:
    """Render drift for a terminal.

    Args:
        header: The cluster and the configuration it was compared with, for the first line.
        context: The arguments of the commands that settle it.
        verbose: List everything instead of counting what is alike.
        width: The columns at which text wraps; None for no wrapping.
    """
    listed, summed_up = divide_listed(drift.resources, _count_key, verbose=verbose)
    sentences = [
        # Only resources with a planned change are counted, which `_count_key` has made sure of.
        Paragraph(summarise_alike(_SUMMED_UP[action], [d.planned for d in alike if d.planned is not None]))
        for (action, _), alike in summed_up.items()
    ]
    return render_page(_build(drift, listed, sentences, header, context), width=width, verbose=verbose)


def render_drift_markdown(
    drift: Drift, header: PlanHeader, context: CommandContext, *, limit: int = LIMIT
) -> str:
    """Return drift as Markdown of at most `limit` characters, for an issue on GitHub.

    A line counts whatever is left out. The time of the run is not in it, so that an issue is only updated
    when something is new.

    Raises:
        ValueError: `limit` is below 6,000.
    """
    return write_markdown(_build(drift, drift.resources, (), header, context), limit=limit)


def _build(
    drift: Drift,
    resources: Sequence[ResourceDrift],
    sentences: Sequence[Paragraph],
    header: PlanHeader,
    context: CommandContext,
) -> ReportDocument:
    about, origin = describe_context(header, drift.plan.cluster_id)
    blocks: list[Block | Section[Any]] = [
        # At most 70 % of the room: what could not be compared must have a place below, too.
        Section(
            resources,
            lambda drifted: _describe_resource(drifted, context),
            count_left_out("resource", _SEE),
            brief=_describe_briefly,
            share=0.7,
        ),
        *sentences,
        list_unknown(drift.unknown, _SEE),
        list_findings(abridge_findings([note for note in drift.notes if not is_noted(note)]), _SEE),
        list_unmanaged(drift.unmanaged or (), _SEE, most=100),
        list_notes([note for note in drift.notes if is_noted(note)], _SEE),
    ]
    if drift.unrecorded is not None:
        blocks.append(Paragraph(TextSpan(drift.unrecorded, Role.MUTED), "Time of the change not known"))
    summary = TextSpan(summary_sentence(drift), _ROLES[drift.verdict])
    return ReportDocument("kafkaform drift", blocks, headline(drift), about, origin, summary)


def _count_key(drifted: ResourceDrift) -> Category | None:
    """Return the key under which drift is counted; None unless it is safe to restore and all declared."""
    # A config that nothing declares needs a decision, and its lines for the manifest.
    undeclared = any(field.left_alone for field in drifted.fields)
    return None if drifted.planned is None or undeclared else find_category(drifted.planned)


def _describe_briefly(drifted: ResourceDrift) -> Item:
    """Return one line, used when not everything fits."""
    name = TextSpan(str(drifted.ref), Role.NAME)
    if form := describe_form(drifted):
        return Item(name, [form])
    return Item(name, list_codes((label(field.change.path) for field in drifted.fields), _VALUE))


def _describe_resource(drifted: ResourceDrift, context: CommandContext) -> Subsection:
    blocks: list[Block] = []
    if drifted.form is Form.DIFFERS:
        rows = [_list_cells(drifted, field) for field in drifted.fields]
        shown = len(_COLUMNS) if any(location.text for *_, location in rows) else -1
        blocks.append(Table(_COLUMNS[:shown], [row[:shown] for row in rows]))
        blocks += _describe_times(drifted)
    else:
        if location := drifted.desired.location:
            blocks.append(Item("declared", TextSpan(f"{location.file}:{location.line}", Role.PLACE)))
        if since := describe_resource_since(drifted):
            blocks.append(Item("since", since))
    restore = plan_restoration(drifted, context)
    # Both ways are always shown: which one is right, only a reader can decide.
    blocks.append(_describe_remediation("restore", restore, list_risks(drifted), UNDECLARED_FIRST))
    blocks.append(_describe_remediation("accept", plan_acceptance(drifted, context), (), BY_HAND))
    form = TextSpan(describe_form(drifted), Role.VERY_BAD)
    return Subsection(TextSpan(str(drifted.ref), Role.NAME), blocks, form)


def _list_cells(drifted: ResourceDrift, field: FieldDrift) -> tuple[TextSpan, ...]:
    location = field.location if field.keys is not None else None
    return (
        TextSpan(label(field.change.path), Role.CODE),
        TextSpan(format_declared(drifted.ref, field), Role.CODE, _VALUE),
        TextSpan(format_live(drifted.ref, field), Role.UNEXPECTED, _VALUE),
        TextSpan(f"{location.file}:{location.line}" if location else "", Role.PLACE),
    )


def _describe_times(drifted: ResourceDrift) -> list[Item]:
    """Describe since when the fields differ, and why some are not restored yet; equal texts share an item."""
    # Fields that one apply set differ since the same time, and would repeat a long sentence each.
    fields: dict[tuple[str, str], list[str]] = {}
    for field in drifted.fields:
        for lead, text in (
            (" since", describe_field_since(drifted.ref, field)),
            (" later", field.change.deferred),
        ):
            if text:
                fields.setdefault((lead, text), []).append(label(field.change.path))
    return [
        Item([*list_codes(names, _VALUE), lead], text, gap=": ") for (lead, text), names in fields.items()
    ]


def _describe_remediation(
    lead: str, remediation: Remediation, risk_texts: Sequence[str], by_hand: str
) -> Item:
    reasons = (("why", remediation.reason), *(("risk", text) for text in risk_texts))
    below: list[Paragraph | Verbatim | Item] = [
        Paragraph(TextSpan(text, Role.MUTED), reason)
        for reason, text in (*reasons, ("instead", remediation.instead))
        if text
    ]
    if remediation.lines:
        below.append(
            Item(by_hand, below=[Verbatim(describe_line(line), limit=400) for line in remediation.lines])
        )
    # Without a command the reason below is the answer, and the lead must still stand there.
    if remediation.command is None:
        return Item(lead, TextSpan("no command does this", Role.MUTED), below)
    return Item(lead, TextSpan(remediation.command, Role.CODE, _COMMAND), below)

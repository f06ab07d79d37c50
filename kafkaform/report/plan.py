"""Rendering a plan for a terminal, with the fields of each change, and for a pull request, as a table.

What decides the verdict comes first: errors, what a branch causes besides changes, and changes that are held
back. What many resources share is said once. The last line of a terminal repeats the verdict in numbers.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.cells import cell_len

from kafkaform.core.model import Create, Delete, Risk, Status, Update, assessments, risk_of
from kafkaform.core.plans import ChangeOrigin, Consent, Plan, PlannedChange, UndeclaredConfig
from kafkaform.core.printable import clipped
from kafkaform.core.wording import counted, short_commit
from kafkaform.plan.summary import describe_audience, describe_cost, headline, summarise, summary_sentence
from kafkaform.report.document import (
    Column,
    Item,
    Paragraph,
    ReportDocument,
    Role,
    Section,
    Subsection,
    TextSpan,
    Verbatim,
    count_left_out,
    list_codes,
    mark_code,
)
from kafkaform.report.equal_changes import Entry, equal_changes, group_equal, share_refusals
from kafkaform.report.findings import MANY_IN_FULL, abridge_findings, divide_findings, refer_to_findings
from kafkaform.report.markdown import LIMIT, write_markdown
from kafkaform.report.page import Page, render_page
from kafkaform.report.sections import (
    SYMBOLS,
    describe_context,
    is_noted,
    list_findings,
    list_notes,
    list_unknown,
    list_unmanaged,
)
from kafkaform.report.truncation import SEE, divide_listed, find_category, left_out_changes, summarise_alike
from kafkaform.resources import consent
from kafkaform.resources.values import Transition, action_of, format_value, is_deferred, label, list_differing

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from kafkaform.core.model import FieldChange, ResourceRef, RiskAssessment
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.report.document import Block, Inline, Row
    from kafkaform.report.findings import PlanFindings

Below: TypeAlias = "Paragraph | Verbatim | Item"
Spans: TypeAlias = "list[str | TextSpan]"

RISK_ROLES = {
    Risk.SAFE: Role.TEXT,
    Risk.DISRUPTIVE: Role.WARNING,
    Risk.DESTRUCTIVE: Role.BAD,
    Risk.IMPOSSIBLE: Role.VERY_BAD,
}
_STATUS_ROLES = {Status.NEEDS_CONSENT: Role.VERY_WARNING, Status.REFUSED: Role.VERY_BAD}
# Instead of the sign of the action, which is not going to happen.
_HELD = TextSpan("!", Role.VERY_BAD)
_ORIGINS = {
    ChangeOrigin.BRANCH: TextSpan("this branch"),
    ChangeOrigin.DRIFT: TextSpan("earlier", Role.STRONG),
    ChangeOrigin.MIXED: TextSpan("both", Role.STRONG),
}
EACH_ANNOTATION = "in metadata.annotations of each manifest; `kafkaform plan --verbose` lists the lines"
"""Where to write consents that differ between resources whose changes are otherwise equal."""

# A row of the table is for an overview. What it cuts is in "Changes in full", and `_is_cut` finds it by the
# same two limits.
_MAX_FIELDS = 3
_MAX_CELL = 90
_MAX_DETAIL = 600
_MAX_UNDECLARED = 20
# A reviewer needs only a sample of the unmanaged resources: the plan does not touch them.
_MAX_UNMANAGED = 30
# An entry is shown or left out as a whole. Larger groups are split, so that at least a part of them fits.
_MAX_PER_ENTRY = 100
# Where the names of many resources are listed in another section.
_MAX_NAMES = 3
# The names that may stand before the reason why their changes are held back.
_NAMES_IN_HEAD = 20
# Fewer entries with the same reason are clearer if each has it.
_MIN_SHARED = 3


def render_plan(
    plan: Plan, header: PlanHeader | None = None, *, verbose: bool = False, width: int | None = None
) -> Page:
    """Render a plan for a terminal.

    Args:
        header: The origin of the plan, for the first line.
        verbose: List everything instead of counting what is alike.
        width: The width, in columns, at which text wraps; None for no wrapping.
    """
    findings = divide_findings(plan)
    *held, planned = _order_changes(plan, findings)
    listed, summed_up = divide_listed(planned, find_category, verbose=verbose)
    # All places start at one column, unless a long name would push it too far.
    changes = (*chain(*held), *listed)
    column = min(64, max((cell_len(str(c.ref)) for c in changes), default=0) + 8)

    # With --verbose each change is an entry of its own, so that a search for a name finds its reason beside
    # it.
    def group(changes: Sequence[PlannedChange]) -> Sequence[Entry]:
        return [Entry.create([c]) for c in changes] if verbose else equal_changes(changes, list_given)

    shared, entries = share_refusals(group([*chain(*held)]), least=_MIN_SHARED if not verbose else None)
    blocks = (
        *_list_decisive(findings, shared),
        *(
            Section(part, lambda entry: _describe_change(entry, column, verbose=verbose))
            for part in (entries, group(listed))
        ),
        *(Paragraph(summarise_alike(f"to {action}", alike)) for (action, _), alike in summed_up.items()),
        *_list_context(plan, findings, verbose=verbose),
    )
    return render_page(_build(plan, header, blocks), width=width, verbose=verbose)


def render_plan_markdown(plan: Plan, header: PlanHeader | None = None, *, limit: int = LIMIT) -> str:
    """Return a plan as Markdown of at most `limit` characters, for a comment on GitHub.

    What decides the verdict comes first and is cut last. A line counts whatever is left out.

    Raises:
        ValueError: `limit` is below 6,000.
    """
    findings = divide_findings(plan)
    # The details repeat what the table shows in brief, so they come last and are the first to be cut.
    *changes, in_full = _list_changes(plan, findings)
    blocks = (*changes, *_list_context(plan, findings), in_full)
    return write_markdown(_build(plan, header, blocks, with_commit=True), limit=limit)


def _build(
    plan: Plan,
    header: PlanHeader | None,
    blocks: Sequence[Block | Section[Any]],
    *,
    with_commit: bool = False,
) -> ReportDocument:
    context, origin = describe_context(header, plan.cluster_id)
    # A comment may be older than the last commit of its pull request. A terminal shows the commit of a saved
    # plan in a line of its own.
    if with_commit and header and header.commit:
        context.append(["commit ", TextSpan(short_commit(header.commit), Role.CODE)])
    summary = summarise(plan)
    if plan.cost is not None and plan.changes:
        blocks = (Paragraph(describe_cost(plan.cost)), *blocks)
    role = Role.VERY_WARNING if summary.needs_consent or summary.unknown else Role.STRONG
    # An error of a rule fails the plan even if every change could be applied, so the summary has the style of
    # a refusal.
    if summary.refused or plan.open_errors:
        role = Role.VERY_BAD
    return ReportDocument(
        "kafkaform plan", blocks, headline(plan), context, origin, TextSpan(summary_sentence(plan), role)
    )


def _order_changes(plan: Plan, findings: PlanFindings) -> list[list[PlannedChange]]:
    """Return the changes by status, refused ones first, those that are not applied in full before others."""
    return [
        sorted(
            (refer_to_findings(change, findings.decisive) for change in plan.select_by_status(status)),
            key=lambda change: not is_deferred(change),
        )
        for status in reversed(Status)
    ]


def _list_decisive(findings: PlanFindings, shared: Sequence[Entry]) -> Iterable[Section[Any]]:
    """Yield what decides the verdict besides changes, and reasons that many refused changes share."""
    yield list_findings(abridge_findings(findings.decisive), SEE, title="Errors")
    yield Section(
        shared,
        lambda entry: Item(
            [TextSpan("refused", Role.BAD), f" {counted(len(entry.changes), 'change')}"],
            entry.shown.reason or "",
            notes=[Paragraph(entry.shown.remedy, "instead")] if entry.shown.remedy else (),
            gap=": ",
        ),
        title="Refused for the same reason",
    )
    yield list_findings(abridge_findings(findings.caused, MANY_IN_FULL), SEE, title="Caused by this branch")


def _list_context(
    plan: Plan, plan_findings: PlanFindings, *, verbose: bool = False
) -> Iterable[Block | Section[Any]]:
    """Yield what follows the changes: findings, owners, and what is not seen, declared or managed."""
    if verbose:
        listed = {*plan_findings.decisive, *plan_findings.caused}
        yield list_findings([finding for finding in plan.diagnostics if finding not in listed], SEE)
    else:
        shown = [finding for finding in plan_findings.remaining if not is_noted(finding)]
        sentences = [plan_findings.unchanged.sentence()] if plan_findings.unchanged else []
        yield list_findings([*abridge_findings(shown), *sentences], SEE)
        yield list_notes([finding for finding in plan_findings.remaining if is_noted(finding)], SEE)
    if audience := mark_code(lambda mark: describe_audience(plan, mark)):
        yield Paragraph(audience)
    yield list_unknown(plan.unknown, SEE)
    yield Section(
        plan.undeclared,
        _describe_undeclared,
        count_left_out("config", SEE),
        title="Configs that no manifest declares",
        subtitle="reported, not changed",
        share=0.3,
        few=_MAX_UNDECLARED,
        most=_MAX_UNDECLARED // 2,
        folded=True,
    )
    yield list_unmanaged(plan.unmanaged, SEE, most=_MAX_UNMANAGED)


def _describe_undeclared(config: UndeclaredConfig) -> Item:
    value = f"{label(config.path)} = {format_value(config.ref.kind, config.path, config.value)}"
    return Item(TextSpan(str(config.ref), Role.CODE), TextSpan(value, Role.CODE, 300))


# --- what both formats say of a change -----------------------------------------------------------------


def _explain_status(entry: Entry) -> list[Paragraph]:
    """Return the remedy, and for an update that is held back a note that none of it is applied."""
    planned = entry.shown
    # The reason of the status is written by the callers, because each format has its own place for it.
    below = [Paragraph(planned.remedy, "instead")] if planned.remedy else []
    if planned.status is not Status.PLANNED and isinstance(planned.change, Update):
        condition = "without consent, " if planned.status is Status.NEEDS_CONSENT else ""
        them = "this resource" if len(entry.changes) == 1 else "these resources"
        below.append(Paragraph(f"{condition}no change to {them} is applied"))
    return below


def _explain_risk(assessment: RiskAssessment, planned: PlannedChange) -> list[Paragraph]:
    """Return the reason and the remedy of a risk, except those that the status shows already."""
    below = []
    # A refusal or a missing consent often has the risk as its reason, and would repeat it word for word.
    if assessment.reason and assessment.reason != planned.reason:
        below.append(Paragraph(assessment.reason, "why"))
    if assessment.remedy and assessment.remedy != planned.remedy:
        below.append(
            # A remedy of what cannot be done is another way to the goal; of what can be done, a safer one.
            Paragraph(assessment.remedy, "instead" if assessment.risk is Risk.IMPOSSIBLE else "safer")
        )
    return below


def _explain_field(field: FieldChange, planned: PlannedChange) -> list[Paragraph]:
    below = _explain_risk(field.assessment, planned)
    # Of a refused change, nothing is applied later either.
    if field.deferred is not None and planned.status is not Status.REFUSED:
        below.insert(0, Paragraph(TextSpan(field.deferred, Role.PENDING), "not applied yet"))
    return below


def _request_consent(entry: Entry) -> list[Paragraph | Verbatim]:
    """Return the flags, and the line of a manifest, that give the missing consents."""
    missing = entry.changes[0].missing
    if not missing:
        return []
    scope, flags = entry.allow_flags(missing)
    requested: list[Paragraph | Verbatim] = [
        # Room for the flags of every resource: a command that is cut cannot be pasted.
        Verbatim(flags, f"consent{scope and f' {scope}'}", _MAX_DETAIL * len(entry.changes))
    ]
    lines = {write_annotation(change) for change in entry.changes}
    # Without a place in a manifest there is no line to write.
    if entry.shown.location and len(lines) == 1:
        requested.append(Verbatim(lines.pop(), "or in metadata.annotations", _MAX_DETAIL))
    elif entry.shown.location:
        requested.append(Paragraph(EACH_ANNOTATION, "or"))
    return requested


def write_annotation(planned: PlannedChange) -> str:
    """Return the manifest line that consents to a change; the author fills in the reasons.

    Consents that the manifest already has are repeated, as there is only one annotation.
    """
    # The missing consents first: they are the part to write. A consent of --allow is not in the manifest, so
    # there is nothing to repeat.
    lines = [
        consent.consent_line(
            required.hazard, binding, required.given.reason if required.given else consent.WHY
        )
        for required in sorted(planned.consents, key=lambda required: required.given is None)
        if required.given is None or required.given.reason != consent.BY_FLAG
        for binding in required.bindings
    ]
    return consent.annotation(lines)


def list_given(planned: PlannedChange) -> Hashable:
    """Return the given consents as a key by which equal changes are grouped."""
    return tuple((given.hazard, given.reason) for given in planned.given)


# --- a terminal ----------------------------------------------------------------------------------------


def _describe_change(entry: Entry, column: int, *, verbose: bool) -> Subsection:
    planned = entry.shown
    first, *further = _list_titles(entry, column)
    # Each name was clipped before: the default limit must not cut the list of them.
    names = [Paragraph(TextSpan(line, limit=len(line) + 1)) for line in _list_names(entry)]
    # Of what is held back, hundreds of names would hide the reason.
    blocks: list[Below] = [*names] if _is_planned(entry) else []
    if verdict := _format_verdict(planned):
        blocks.append(Paragraph(TextSpan(verdict, _STATUS_ROLES.get(planned.status, Role.MUTED))))
    blocks += _explain_status(entry)
    if planned.origin in {ChangeOrigin.DRIFT, ChangeOrigin.MIXED}:
        earlier = (
            f": {', '.join(map(label, planned.earlier))}" if planned.origin is ChangeOrigin.MIXED else ""
        )
        blocks.append(Paragraph(TextSpan(f"not caused by this branch{earlier}", Role.FOREIGN)))
    # The risk of a create or a delete is that of the whole change; its fields have none of their own.
    if not isinstance(planned.change, Update):
        assessment = planned.change.assessment
        if tag := _tag_risk(assessment):
            blocks.append(Paragraph(tag))
        blocks += _explain_risk(assessment, planned)
    blocks += _list_fields(entry, verbose=verbose)
    for given in entry.changes[0].given:
        blocks.append(Paragraph(TextSpan(given.reason, Role.GOOD), f"consent given to {given.hazard}"))
    blocks += [*_request_consent(entry), *([] if _is_planned(entry) else names)]
    return Subsection(first.head, blocks, first.text, further=further, gap=first.gap)


def _list_titles(entry: Entry, column: int) -> Iterable[Item]:
    """Yield a line for each resource with its manifest; for many, one line."""
    symbol = SYMBOLS[action_of(entry.shown.change)] if entry.shown.status is Status.PLANNED else _HELD
    if entry.is_long:
        titles = [(entry.subject, entry.location)]
    else:
        # Each resource with its own line of a manifest, so that an editor can jump to it.
        locations = (c.location and f"{c.location.file}:{c.location.line}" for c in entry.changes)
        titles = [(title, location or "") for title, location in zip(entry.titles(), locations, strict=True)]
    for title, location in titles:
        gap = " " * max(2, column - cell_len(title) - 4)
        yield Item(
            [symbol, " ", TextSpan(title, Role.NAME, _MAX_DETAIL)], TextSpan(location, Role.PLACE), gap=gap
        )


def _list_names(entry: Entry) -> list[str]:
    """Return the names of many resources: a line for each where their values differ."""
    if not entry.is_long:
        return []
    titles = entry.titles(short=True)
    return titles if entry.varied else [", ".join(titles)]


def _format_verdict(planned: PlannedChange) -> str:
    match planned.status:
        case Status.PLANNED:
            return planned.reason or ""
        case Status.NEEDS_CONSENT:
            return planned.reason or "needs consent"
        case Status.REFUSED:
            return f"{action_of(planned.change)} refused: {planned.reason or 'for the reasons below'}"


def _list_fields(entry: Entry, *, verbose: bool) -> Iterable[Item]:
    rows = [
        (field, label(field.path), entry.transition(field)) for field in list_differing(entry.shown.change)
    ]
    brief = not verbose and isinstance(entry.shown.change, Create)
    # Values stand below each other, unless a long name would push them to the far right: such a name just
    # pushes its own.
    column = max(20, min(36, max((cell_len(name) for _, name, _ in rows), default=0))) + 2
    for field, name, value in rows:
        below = _explain_field(field, entry.shown)
        # Hundreds of partitions would hide the fields after them; they are listed only with --verbose.
        below += [Paragraph(description) for description in value.each if verbose]
        text = _style_transition(value, brief=brief)
        gap = " " * max(2, column - cell_len(name))
        yield Item([TextSpan(name)], text, below, gap=gap, mark=_tag_risk(field.assessment))


def _style_transition(value: Transition, *, brief: bool) -> Spans:
    if value.text:
        return [f"{value.text}; --verbose lists them" if brief and value.each else value.text]
    sides: Spans = [part for side in value.sides for part in (TextSpan(" → ", Role.MUTED), side.short)][1:]
    return [*sides, TextSpan(f" ({value.raw})", Role.MUTED)] if value.raw else sides


def _tag_risk(assessment: RiskAssessment) -> Inline:
    hazard = f": {', '.join(assessment.hazards)}" if assessment.hazard else ""
    tag = TextSpan(f"{assessment.risk.label}{hazard}", RISK_ROLES[assessment.risk])
    return () if assessment.risk is Risk.SAFE else tag


# --- Markdown ------------------------------------------------------------------------------------------


def _list_changes(plan: Plan, plan_findings: PlanFindings) -> Iterable[Section[Any]]:
    """Yield the sections on changes: held back, consents given, not of this branch, the table, risks.

    The last section has the fields that the table leaves out.
    """
    stated = plan_findings.stated
    ordered = [*chain(*_order_changes(plan, plan_findings))]

    def gather(changes: Iterable[PlannedChange]) -> list[Entry]:
        # Also by consents and by rules: both are printed with an entry, so they must hold for all of it.
        return equal_changes(changes, lambda c: (list_given(c), tuple(stated.get(c.ref, ()))))

    shared, rows = share_refusals(gather(ordered), least=_MIN_SHARED)
    yield from _list_decisive(plan_findings, shared)
    yield Section(
        [
            (entry, part)
            for entry in rows
            if entry.shown.status is not Status.PLANNED
            for part in entry.split(_MAX_PER_ENTRY)
        ],
        lambda pair: _describe_held(pair[0], pair[1], stated),
        lambda skipped: _count_changes("")([part for _, part in skipped]),
        title="Held back",
        brief=lambda pair: _describe_held_briefly(pair[1]),
    )
    yield Section(
        [
            group[at : at + _MAX_PER_ENTRY]
            for group in group_equal(
                plan.consents, lambda given: (given.resource.partition("/")[0], given.hazard, given.reason)
            )
            for at in range(0, len(group), _MAX_PER_ENTRY)
        ],
        _describe_consents,
        # An entry may have a hundred consents: each counts, not the entry.
        lambda skipped: count_left_out("consent", SEE)([given for group in skipped for given in group]),
        title="Consent given",
        share=0.3,
    )
    yield Section(
        [
            part
            for entry in gather(c for c in ordered if c.origin in {ChangeOrigin.DRIFT, ChangeOrigin.MIXED})
            for part in entry.split(_MAX_PER_ENTRY)
        ],
        _describe_foreign,
        _count_changes(""),
        title="Not caused by this branch",
        subtitle="they were due before it: the cluster was changed, or the manifests were not applied; "
        "approving this plan approves them too",
        share=0.3,
    )
    columns = [Column(""), *map(Column, ("Resource", "Change", "Risk", "Origin", "Manifest"))]
    # Without a base to compare with, the origin is unknown for all changes, and the column would be empty.
    with_origin = any(c.origin is not None for c in ordered)
    kept = [i for i, column in enumerate(columns) if with_origin or column.header != "Origin"]

    def write_row(entry: Entry) -> Row:
        cells = _list_cells(entry)
        return [cells[i] for i in kept]

    # Not all of the room: a row only names the risks, which are explained below.
    yield Section(
        # The names of what is held back are in the section above.
        [part for entry in rows for part in (entry.split(_MAX_PER_ENTRY) if _is_planned(entry) else [entry])],
        write_row,
        _count_changes(""),
        title="Changes",
        columns=[columns[i] for i in kept],
        share=0.7,
    )
    yield Section(
        [
            # Those of changes that are held back are in the first section.
            (entry, risk)
            for entry in rows
            if entry.shown.status is Status.PLANNED
            for risk in _list_risks(entry, stated, with_names=True)
        ],
        lambda pair: pair[1],
        # Risks of equal changes are one item, but each change counts.
        lambda skipped: count_left_out("risk", SEE)([c for entry, _ in skipped for c in entry.changes]),
        title="Risks",
        share=0.5,
    )
    yield Section(
        [part for entry in rows if _is_cut(entry) for part in entry.split(_MAX_PER_ENTRY)],
        _describe_details,
        _count_changes("details of "),
        title="Changes in full",
        share=0.8,
        folded=True,
    )


def _count_changes(what: str) -> Callable[[Sequence[Entry]], str]:
    return lambda skipped: left_out_changes(
        (action_of(planned.change) for entry in skipped for planned in entry.changes), what
    )


def _name_resources(entry: Entry, few: int | None = None) -> Spans:
    """Name the resources of an entry; a long list starts with the count, and ends after a few if given."""
    # The count first: a reader should not have to count the names in a cell.
    names: Spans = [f"{entry.subject}: "] if entry.is_long else []
    named = entry.changes[: few if entry.is_long else None]
    for number, (planned, figure) in enumerate(zip(named, entry.figures, strict=False)):
        names += [", " if number else "", TextSpan(str(planned.ref), Role.CODE)]
        names += [f" ({figure})"] if figure else []
    omitted = len(entry.changes) - len(named)
    return [*names, f" and {omitted:,} more"] if omitted else names


def _is_planned(entry: Entry) -> bool:
    return entry.shown.status is Status.PLANNED


def _describe_held_briefly(entry: Entry, names: Sequence[str | TextSpan] = ()) -> Item:
    status = entry.shown.status
    verdict = TextSpan("needs consent" if status is Status.NEEDS_CONSENT else "refused", Role.STRONG)
    location: Spans = [" (", TextSpan(entry.location, Role.PLACE), ")"] if entry.location else []
    return Item(
        [verdict, f": {action_of(entry.shown.change)} ", *(names or _name_resources(entry)), *location]
    )


def _describe_held(entry: Entry, part: Entry, stated: Mapping[ResourceRef, Sequence[str]]) -> Item:
    """Describe a part of the changes that are held back; only the first part has what all of them share."""
    brief = _describe_held_briefly(part)
    if part.changes[0] is not entry.changes[0]:
        return Item(brief.head, "as above")
    hazards = list_codes(entry.changes[0].missing)
    below = [*_list_risks(entry, stated), *_explain_status(entry), *_request_consent(entry)]
    # Hazards are what consent is given to; without any, as in a refusal, the reason stands here.
    text = hazards or entry.shown.reason or ""
    if len(entry.changes) <= _NAMES_IN_HEAD:
        return Item(brief.head, text, below)
    # Before a hundred names, as a reader looks for it first.
    head = _describe_held_briefly(entry, [entry.subject]).head
    return Item(head, text, [*below, Item(_name_resources(part))])


def _list_risks(
    entry: Entry, stated: Mapping[ResourceRef, Sequence[str]], *, with_names: bool = False
) -> list[Item]:
    """Return an item for every assessment beyond "safe", and for every field that does not change yet."""
    planned = entry.shown
    # Below a change that is held back, its name stands already.
    names: Spans = [*_name_resources(entry, _MAX_NAMES), ": " if entry.is_long else " "] if with_names else []
    assessed: list[tuple[str | TextSpan, RiskAssessment, list[Paragraph]]]
    if isinstance(planned.change, Update):
        assessed = [
            (
                TextSpan(f"{label(f.path)}: {entry.transition(f).short}", Role.CODE),
                f.assessment,
                _explain_field(f, planned),
            )
            for f in planned.change.fields
        ]
    else:
        assessment = planned.change.assessment
        assessed = [(action_of(planned.change), assessment, _explain_risk(assessment, planned))]
    items = []
    # The rules behind a reason stand once, at the first risk of a change.
    codes = "".join(f", {code}" for code in stated.get(planned.ref, ()))
    for name, assessment, notes in assessed:
        # A safe field can still have a note, such as that it is not applied yet.
        if notes or assessment.risk is not Risk.SAFE:
            hazards: Spans = [
                part for hazard in assessment.hazards for part in (" ", TextSpan(hazard, Role.CODE))
            ]
            items.append(Item([*names, name], [assessment.risk.label, *hazards, codes], notes=notes))
            codes = ""
    return items


def _describe_consents(consents: Sequence[Consent]) -> Item:
    """Describe consents to a hazard. Approving the plan approves them: an apply does not ask again."""
    names = list_codes(given.resource for given in consents)
    return Item([*names, ": ", TextSpan(consents[0].hazard, Role.CODE)], consents[0].reason)


def _describe_foreign(entry: Entry) -> Item:
    # If all of it is from elsewhere, its fields need not be named.
    fields = entry.shown.earlier if entry.shown.origin is ChangeOrigin.MIXED else ()
    action = f"{action_of(entry.shown.change)} "
    return Item([action, *_name_resources(entry)], list_codes(map(label, fields)))


def _list_cells(entry: Entry) -> list[Inline]:
    planned = entry.shown
    action = action_of(planned.change)
    held = planned.status is not Status.PLANNED
    risk: Spans = [TextSpan(planned.status.value.replace("_", " "), Role.STRONG), ", "] if held else []
    risk.append(risk_of(planned.change).label)
    # One hazard can concern several fields; the dict keeps each once, in order.
    hazards = dict.fromkeys(hazard for a in assessments(planned.change) for hazard in a.hazards)
    for hazard in [*hazards][:_MAX_FIELDS]:
        risk += [", ", TextSpan(hazard, Role.CODE, 60)]
    if is_deferred(planned):
        risk.append(", not yet applied in full")
    return [
        TextSpan("!" if held else SYMBOLS[action].text, Role.CODE),
        _name_resources(entry, None if _is_planned(entry) else _MAX_NAMES),
        [action, *_list_values(entry)],
        risk,
        _ORIGINS[planned.origin] if planned.origin else "",
        TextSpan(entry.location, Role.PLACE),
    ]


def _list_values(entry: Entry) -> Spans:
    """Return the first fields of a change with their values in brief; none for a delete."""
    # A delete loses all fields; to list a few of them would look as if only these were lost.
    fields = () if isinstance(entry.shown.change, Delete) else list_differing(entry.shown.change)
    shown = (f"{label(f.path)}: {entry.transition(f).short}" for f in fields[:_MAX_FIELDS])
    values = [" " if fields else "", *list_codes(shown, _MAX_CELL)]
    return [*values, f" and {len(fields) - _MAX_FIELDS:,} more"] if len(fields) > _MAX_FIELDS else values


def _is_cut(entry: Entry) -> bool:
    """Return whether the table leaves out or cuts a field of a change."""
    fields = list_differing(entry.shown.change)
    if isinstance(entry.shown.change, Delete):
        return bool(fields)
    return len(fields) > _MAX_FIELDS or any(
        # A value with `each` is shortened to a count in the table.
        value.each or len(f"{label(field.path)}: {value.short}") > _MAX_CELL
        for field in fields
        for value in (entry.transition(field),)
    )


def _describe_details(entry: Entry) -> Item:
    transitions = ((field, entry.transition(field)) for field in list_differing(entry.shown.change))
    values = (f"{label(field.path)}: {'; '.join(value.each) or value}" for field, value in transitions)
    action = f"{action_of(entry.shown.change)} "
    return Item([action, *_name_resources(entry)], list_codes(values, _MAX_DETAIL))


# --- saved plans ---------------------------------------------------------------------------------------


def render_provenance(header: PlanHeader) -> Page:
    """Render a line on the time, tool version and commit of a saved plan."""
    commit = f", commit {short_commit(header.commit)}" if header.commit else ""
    # Minutes are enough to recognise a plan; the file has the time in full.
    time = header.created_at[:16].replace("T", " ")
    made = f"Plan saved {time} UTC by kafkaform {header.tool_version}{commit}."
    return _dim_line(clipped(made, 400))


def render_signature(header: PlanHeader, *, verified: bool) -> Page:
    """Render a line on the signature of a saved plan: its purpose, its key, and whether it was verified."""
    if header.signature is None:
        return _dim_line("Not signed.")
    purpose = "no stated purpose" if header.signed_for is None else header.signed_for.purpose
    ref = header.signed_for.ref if header.signed_for is not None else None
    claim = f"signed for {purpose}{f' (of {clipped(ref, 200)})' if ref else ''}"
    claim += f" with the key {header.signature.key}"
    # Only a verified signature proves anything. Without a key to check it, the line must not read as a
    # promise.
    if verified:
        return _dim_line(f"{claim[0].upper()}{claim[1:]}, and not changed since.")
    return _dim_line(f"Claims to be {claim}; not verified.")


def _dim_line(line: str) -> Page:
    page = Page(None)
    page.line((line, "dim"))
    return page

"""A plan as Markdown for a pull request: what is held back first, then a row for each change; length bounded.

Each fact has one place: why a change is held back or risky is said under that heading and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.core.model import (
    ChangeOrigin,
    Create,
    Delete,
    Diagnostic,
    Risk,
    Severity,
    Status,
    Update,
    assessments,
    risk_of,
)
from kafkaform.core.wording import FEW, counted, short_commit
from kafkaform.plan.plan_header import ADDRESSES, provenance
from kafkaform.plan.summary import concerned, headline, summary_sentence
from kafkaform.report.equal_changes import equal_changes, gathered
from kafkaform.report.findings import More, abridged, of_plan, refer_to_findings
from kafkaform.report.markdown_escape import code, finding, prose, resource, sentence
from kafkaform.report.notes import EACH_ANNOTATION, ConsentLedger, annotation
from kafkaform.report.truncation import Block, fit_all, left_out_changes, left_out_others
from kafkaform.resources.values import action_of, fields_of, is_deferred, label, single

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkaform.core.model import (
        Consent,
        FieldChange,
        Plan,
        PlannedChange,
        ResourceRef,
        RiskAssessment,
        UndeclaredConfig,
    )
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.report.equal_changes import Entry

LIMIT = 60_000
"""GitHub takes comments of up to 65,536 characters; the rest is for what a workflow adds."""
LEAST = 6_000
"""What headings and notes alone may need."""

_SYMBOLS = {"create": "+", "update": "~", "delete": "-"}
_IN_ROW = 3
_CELL = 90
_TABLE = """
### Changes

| | Resource | Change | Risk | Manifest |
| --- | --- | --- | --- | --- |
"""
_TABLE_WITH_ORIGIN = """
### Changes

| | Resource | Change | Risk | Origin | Manifest |
| --- | --- | --- | --- | --- | --- |
"""
_FOREIGN = (
    "\n### Not caused by this branch\n\nThese changes were due before this branch: "
    "somebody changed the cluster, or the manifests were not applied. "
    "Approving this plan approves them too.\n\n"
)
_ORIGINS = {
    ChangeOrigin.BRANCH: "this branch",
    ChangeOrigin.DRIFT: "**earlier**",
    ChangeOrigin.MIXED: "**both**",
}

_FEW_UNMANAGED = 30
"""A reviewer wants to see what sort of topics nobody declares, not all of them."""
_FEW_UNDECLARED = 10
_MOST_IN_ENTRY = 100
"""How many resources an entry has, so that of very many at least some fit."""


def render_markdown(plan: Plan, header: PlanHeader | None = None, *, limit: int = LIMIT) -> str:
    """Word a plan for a comment on GitHub, in at most `limit` characters.

    What needs consent or is refused comes first and is cut last. Nothing is left out without a line that
    says how much.

    Raises:
        ValueError: `limit` is below 6,000.
    """
    if limit < LEAST:
        raise ValueError(f"{limit:,} characters are too few for a plan; allow at least {LEAST:,}")
    head = _head(plan, header)
    return head + fit_all(_blocks(plan), limit - len(head))


def _head(plan: Plan, header: PlanHeader | None) -> str:
    cluster = code(plan.cluster_id, 80)
    if header and header.cluster_name:
        cluster = f"{code(header.cluster_name, 80)} ({cluster})"
    context = [f"Cluster {cluster}"]
    if header and header.environment:
        context.append(f"environment {code(header.environment, 80)}")
    if header and header.commit:
        context.append(f"commit {code(short_commit(header.commit))}")
    context += [f"{word} {code(value, ADDRESSES)}" for word, value in provenance(header).items()]
    summary = summary_sentence(plan, prose)
    return f"## kafkaform plan: {headline(plan)}\n\n{' · '.join(context)}\n\n**{summary}**\n"


def _blocks(plan: Plan) -> tuple[Block[Any], ...]:
    ledger = ConsentLedger(plan)
    found = of_plan(plan)
    ordered = [
        refer_to_findings(change, found.shown)
        for status in reversed(Status)
        for change in plan.with_status(status)
    ]

    def gather(changes: Iterable[PlannedChange]) -> list[Entry]:
        return equal_changes(
            changes, lambda c: (ledger.terms(c), tuple(found.said.get(c.ref, ()))), most=_MOST_IN_ENTRY
        )

    rows = gather(ordered)
    foreign = gather(c for c in ordered if c.origin in {ChangeOrigin.DRIFT, ChangeOrigin.MIXED})
    told = any(c.origin is not None for c in ordered)
    held = [entry for entry in rows if entry.shown.status is not Status.PLANNED]
    planned = [entry for entry in rows if entry.shown.status is Status.PLANNED]
    consents = gathered(
        plan.consents,
        lambda one: (one.resource.partition("/")[0], one.hazard, one.reason),
        most=_MOST_IN_ENTRY,
    )
    loud = [d for d in found.shown if d.severity is not Severity.INFO or d.waived]
    notes = [d for d in found.shown if d.severity is Severity.INFO and not d.waived]
    quiet = [_notes_elsewhere(found.notes)] if found.notes else []
    elsewhere = [f"- {found.elsewhere.sentence(code)}.\n"] if found.elsewhere else []
    findings = [*map(_finding, abridged(loud)), *elsewhere, *quiet]
    concerned_by = [text] if (text := concerned(plan, code)) else []
    fuller = [entry for entry in rows if _has_more(entry)]
    number_fuller = sum(len(entry.changes) for entry in fuller)
    return (
        Block(
            "\n### Held back\n\n",
            held,
            lambda entry: _held(entry, ledger, found.said),
            _left_out(""),
            brief=_held_brief,
        ),
        Block("\n### Consent given\n\n", consents, _consent, _left_out_consents, share=0.3),
        Block(_FOREIGN, foreign, _foreign, _left_out(""), share=0.3),
        Block(
            _TABLE_WITH_ORIGIN if told else _TABLE,
            rows,
            lambda entry: _row(entry, told=told),
            _left_out(""),
            share=0.5,
        ),
        Block(
            "\n",
            concerned_by,
            lambda text: f"{text[0].upper()}{text[1:]}.\n",
            lambda _: "… owners and readers left out",
            share=0.3,
        ),
        Block(
            "\n### Risks\n\n",
            [(entry, risk) for entry in planned for risk in _risks(entry, found.said)],
            lambda risk: f"- {_names(risk[0])} {risk[1]}\n",
            lambda skipped: left_out_others("risk")([c for entry, _ in skipped for c in entry.changes]),
            share=0.5,
        ),
        Block("\n### Findings\n\n", findings, str, left_out_others("finding"), share=0.3),
        Block(
            "\n### Not visible to this account\n\nThey may or may not exist. They are not changed.\n\n",
            plan.unknown,
            resource,
            left_out_others("resource"),
            share=0.3,
        ),
        Block(
            f"\n<details><summary>Configs that no manifest declares: {len(plan.undeclared):,}</summary>\n\n"
            "On declared resources; reported, not changed.\n\n",
            plan.undeclared,
            _undeclared,
            left_out_others("config"),
            "\n</details>\n",
            share=0.3,
            most=_FEW_UNDECLARED,
        ),
        Block(
            f"\n<details><summary>All fields of {counted(number_fuller, 'change')}</summary>\n\n",
            fuller,
            _details,
            _left_out("details of "),
            "\n</details>\n",
            share=0.8,
        ),
        Block(
            f"\n<details><summary>Notes: {len(notes):,}</summary>\n\n",
            notes,
            finding,
            left_out_others("note"),
            "\n</details>\n",
            share=0.5,
        ),
        Block(
            f"\n<details><summary>Not managed by any manifest: {len(plan.unmanaged):,}</summary>\n\n",
            plan.unmanaged,
            lambda ref: f"{code(str(ref))} ",
            left_out_others("resource"),
            "\n\n</details>\n",
            most=_FEW_UNMANAGED,
        ),
    )


def _left_out(what: str) -> Callable[[Sequence[Entry]], str]:
    return lambda skipped: left_out_changes(
        (action_of(planned.change) for entry in skipped for planned in entry.changes), what
    )


def _left_out_consents(skipped: Sequence[Sequence[Consent]]) -> str:
    return left_out_others("consent")([consent for same in skipped for consent in same])


def _names(entry: Entry, *, cell: bool = False) -> str:
    """Every resource of an entry; of many, how many there are first."""
    lead = f"{entry.subject}: " if entry.is_long else ""
    figures = [f" ({figure})" if figure else "" for figure in map(prose, entry.figures)]
    refs = [code(str(planned.ref), cell=cell) for planned in entry.changes]
    shown = map("".join, zip(refs, figures, strict=True))
    return f"{lead}{', '.join(shown)}"


# --- what is held back -----------------------------------------------------------------------------


def _held_brief(entry: Entry) -> str:
    verdict = "needs consent" if entry.shown.status is Status.NEEDS_CONSENT else "refused"
    source = f" ({code(entry.place)})" if entry.place else ""
    return f"- **{verdict}**: {action_of(entry.shown.change)} {_names(entry)}{source}\n"


def _held(entry: Entry, ledger: ConsentLedger, said: Mapping[ResourceRef, Sequence[str]]) -> str:
    planned, first = entry.shown, entry.changes[0]
    missing = ledger.missing(first)
    lines = [_held_brief(entry).rstrip("\n")]
    if missing:
        lines[0] += f": {', '.join(map(code, missing))}"
    elif planned.reason:
        lines[0] += f": {sentence(planned.reason)}"
    if planned.remedy:
        lines.append(f"Instead: {sentence(planned.remedy)}")
    lines += _risks(entry, said)
    if isinstance(planned.change, Update):
        without = " without consent" if planned.status is Status.NEEDS_CONSENT else ""
        lines.append(f"No change to this resource is applied{without}.")
    if missing:
        annotations = {annotation(one, missing, ledger.given(one)) for one in entry.changes}
        annotated = f", or in `metadata.annotations`: {code(annotations.pop(), 600)}"
        if annotations:  # there are others
            annotated = f", or {prose(EACH_ANNOTATION)}"
        whom, flags = entry.allow_flags(missing)
        annotated = annotated if planned.location else ""
        lines.append(f"To consent{whom and f' {whom}'}: {code(flags, 600 * len(entry.changes))}{annotated}")
    return "\n  - ".join(lines) + "\n"


def _risks(entry: Entry, said: Mapping[ResourceRef, Sequence[str]]) -> list[str]:
    """A line for every judgement that is not just "safe", and for every field that does not change yet."""
    planned = entry.shown
    match planned.change:
        case Create(assessment=assessment) | Delete(assessment=assessment):
            judged = [(action_of(planned.change), assessment)]
        case Update(fields=fields):
            judged = [(code(f"{label(f.path)}: {entry.transition(f).short}"), f.assessment) for f in fields]
    risky = [(what, j) for what, j in judged if j.risk is not Risk.SAFE or j.reason]
    codes = ", ".join(map(code, said.get(planned.ref, ())))
    lines = [
        f"{what}: {_judgement(j, planned)}{f' ({codes})' if codes and number == 0 else ''}"
        for number, (what, j) in enumerate(risky)
    ]
    lines += [
        f"{code(label(f.path))} does not change yet: {sentence(f.deferred)}"
        for f in fields_of(planned.change)
        if f.deferred is not None
    ]
    return lines


def _judgement(assessment: RiskAssessment, planned: PlannedChange) -> str:
    parts = [f"{assessment.risk.label}{f' {code(assessment.hazard)}' if assessment.hazard else ''}."]
    if assessment.reason and assessment.reason != planned.reason:
        parts.append(f"Why: {sentence(assessment.reason)}")
    if assessment.remedy and assessment.remedy != planned.remedy:
        lead = "Instead" if assessment.risk is Risk.IMPOSSIBLE else "Safer"
        parts.append(f"{lead}: {sentence(assessment.remedy)}")
    return " ".join(parts)


# --- the table -------------------------------------------------------------------------------------


def _consent(same: Sequence[Consent]) -> str:
    """Whoever approves a plan answers for these: nothing asks again."""
    resources = ", ".join(code(one.resource) for one in same)
    return f"- {resources}: {code(same[0].hazard)}. {sentence(same[0].reason)}\n"


def _foreign(entry: Entry) -> str:
    what = f"{action_of(entry.shown.change)} {_names(entry)}"
    if entry.shown.origin is ChangeOrigin.MIXED:
        what += f": {', '.join(code(label(path)) for path in entry.shown.earlier)}"
    return f"- {what}\n"


def _row(entry: Entry, *, told: bool) -> str:
    planned = entry.shown
    action = action_of(planned.change)
    symbol = _SYMBOLS[action] if planned.status is Status.PLANNED else "!"
    cells = (
        f"`{symbol}`",
        _names(entry, cell=True),
        _change_cell(entry, action),
        _risk_cell(planned),
        *((_ORIGINS[planned.origin] if planned.origin else "",) if told else ()),
        code(entry.place, cell=True) if entry.place else "",
    )
    return f"| {' | '.join(cells)} |\n"


def _change_cell(entry: Entry, action: str) -> str:
    change = entry.shown.change
    fields = () if isinstance(change, Delete) else fields_of(change)
    shown = [code(_field(f, entry.transition(f).short), _CELL, cell=True) for f in fields[:_IN_ROW]]
    more = f" and {len(fields) - _IN_ROW:,} more" if len(fields) > _IN_ROW else ""
    return f"{action} {', '.join(shown)}{more}".rstrip()


def _risk_cell(planned: PlannedChange) -> str:
    risk = risk_of(planned.change).label
    parts = (
        [risk]
        if planned.status is Status.PLANNED
        else [f"**{planned.status.value.replace('_', ' ')}**", risk]
    )
    hazards = dict.fromkeys(j.hazard for j in assessments(planned.change) if j.hazard)
    parts += [code(hazard, 60, cell=True) for hazard in list(hazards)[:_IN_ROW]]
    if is_deferred(planned):
        parts.append("not yet applied in full")
    return ", ".join(parts)


# --- findings, details and lists -------------------------------------------------------------------


def _finding(found: Diagnostic | More) -> str:
    if isinstance(found, Diagnostic):
        return finding(found)
    names = [code(str(ref)) for ref in found.refs[:FEW]]
    on = f": {', '.join(names)}{', …' if len(found.refs) > FEW else ''}" if names else ""
    return f"- {found.severity.value} {code(found.code)}: {len(found.found):,} more{on}\n"


def _notes_elsewhere(count: int) -> str:
    listing = f"{code('kafkaform plan --verbose')} lists {'it' if count == 1 else 'them'}"
    return f"- {counted(count, 'note')} on unchanged resources: {listing}.\n"


def _has_more(entry: Entry) -> bool:
    """Whether the table does not show all fields of a change in full."""
    fields = fields_of(entry.shown.change)
    if isinstance(entry.shown.change, Delete):
        return bool(fields)
    return len(fields) > _IN_ROW or any(
        shown.each or len(_field(field, shown.short)) > _CELL
        for field in fields
        for shown in (entry.transition(field),)
    )


def _details(entry: Entry) -> str:
    shown = []
    for field in fields_of(entry.shown.change):
        value = entry.transition(field)
        shown.append(code(_field(field, "; ".join(value.each) or str(value)), 600))
    return f"- {action_of(entry.shown.change)} {_names(entry)}: {', '.join(shown)}\n"


def _field(field: FieldChange, shown: str) -> str:
    return f"{label(field.path)}: {shown}"


def _undeclared(config: UndeclaredConfig) -> str:
    shown = f"{label(config.path)} = {single(config.ref.kind, config.path, config.value)}"
    return f"- {code(str(config.ref))} {code(shown, 300)}\n"

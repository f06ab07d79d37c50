"""A plan as Markdown for a pull request: what is held back first, details folded, length bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.model import Create, Delete, Origin, Risk, Severity, Status, Update, judgements, risk_of
from kafkaform.report.budget import Block, fit_all, left_out_changes, left_out_others
from kafkaform.report.changes import action_of, fields_of, is_deferred
from kafkaform.report.consents import Ledger, allow_flags, annotation
from kafkaform.report.markdown_escape import code, code_block, html
from kafkaform.report.markdown_items import finding, place, resource, sentence
from kafkaform.report.summary import headline, summary_sentence
from kafkaform.report.values import label, single, worded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaform.model import (
        Consent,
        FieldChange,
        Judgement,
        Plan,
        PlannedChange,
        UndeclaredConfig,
    )
    from kafkaform.plan_file import PlanHeader

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

| | Resource | Change | Risk | From | Manifest |
| --- | --- | --- | --- | --- | --- |
"""
_FOREIGN = (
    "\n### Not from this branch\n\nThe manifests asked for these before it, and the cluster differs: "
    "somebody changed it, or an apply is due. Whoever approves this plan approves them too.\n\n"
)
_ORIGINS = {Origin.BRANCH: "this branch", Origin.DRIFT: "**before it**", Origin.MIXED: "**both**"}

_FEW_UNMANAGED = 30
"""A reviewer wants to see what sort of topics nobody declares, not all of them."""


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
        context.append(f"commit {code(header.commit[:12])}")
    return f"## kafkaform plan: {headline(plan)}\n\n{' · '.join(context)}\n\n**{summary_sentence(plan)}**\n"


def _blocks(plan: Plan) -> tuple[Block[Any], ...]:
    ledger = Ledger(plan)
    ordered = [c for status in reversed(Status) for c in plan.with_status(status)]
    foreign = [c for c in ordered if c.origin in {Origin.DRIFT, Origin.MIXED}]
    told = any(c.origin is not None for c in ordered)
    held = [c for c in ordered if c.status is not Status.PLANNED]
    findings = [d for d in plan.diagnostics if d.severity is not Severity.INFO or d.waived]
    notes = [d for d in plan.diagnostics if d.severity is Severity.INFO and not d.waived]
    undeclared = (
        "\n### Configs that no manifest declares\n\nOn declared resources; reported, not touched.\n\n"
    )
    unmanaged = f"\n<details><summary>Not managed by any manifest: {len(plan.unmanaged):,}</summary>\n\n"
    return (
        Block(
            "\n### Held back\n\n",
            held,
            lambda planned: _held(planned, ledger),
            _left_out(""),
            brief=_held_brief,
        ),
        Block("\n### Consent given\n\n", plan.consents, _consent, left_out_others("consent"), share=0.3),
        Block(_FOREIGN, foreign, _foreign, _left_out(""), share=0.3),
        Block(
            "\n### Not visible to this account\n\nThey may exist or not, and are left alone.\n\n",
            plan.unknown,
            resource,
            left_out_others("resource"),
            share=0.3,
        ),
        Block("\n### Findings\n\n", findings, finding, left_out_others("finding"), share=0.3),
        Block(
            _TABLE_WITH_ORIGIN if told else _TABLE,
            ordered,
            lambda planned: _row(planned, told=told),
            _left_out(""),
            share=0.5,
        ),
        Block(undeclared, plan.undeclared, _undeclared, left_out_others("config"), share=0.3),
        Block(
            f"\n<details><summary>Notes: {len(notes):,}</summary>\n\n",
            notes,
            finding,
            left_out_others("note"),
            "\n</details>\n",
            share=0.2,
        ),
        Block(
            unmanaged,
            plan.unmanaged,
            resource,
            left_out_others("resource"),
            "\n</details>\n",
            share=0.2,
            most=_FEW_UNMANAGED,
        ),
        Block(
            "\n### Details\n\n", ordered, lambda planned: _details(planned, ledger), _left_out("details of ")
        ),
    )


def _left_out(what: str) -> Callable[[Sequence[PlannedChange]], str]:
    return lambda skipped: left_out_changes((action_of(c.change) for c in skipped), what)


# --- what is held back -----------------------------------------------------------------------------


def _held_brief(planned: PlannedChange) -> str:
    verdict = "needs consent" if planned.status is Status.NEEDS_CONSENT else "refused"
    source = f" ({place(planned.location)})" if planned.location else ""
    return f"- **{verdict}**: {action_of(planned.change)} {code(str(planned.ref))}{source}\n"


def _held(planned: PlannedChange, ledger: Ledger) -> str:
    missing = ledger.missing(planned)
    lines = [_held_brief(planned).rstrip("\n")]
    if missing:
        lines[0] += f": {', '.join(map(code, missing))}"
    elif planned.reason:
        lines[0] += f": {sentence(planned.reason)}"
    if planned.remedy:
        lines.append(f"Instead: {sentence(planned.remedy)}")
    lines += _risks(planned)
    if isinstance(planned.change, Update):
        without = " without consent" if planned.status is Status.NEEDS_CONSENT else ""
        lines.append(f"Nothing of this resource is applied{without}.")
    if missing:
        annotated = (
            f", or in `metadata.annotations`: {code(annotation(planned, missing), 600)}"
            if planned.location
            else ""
        )
        lines.append(f"To consent: {code(allow_flags(planned, missing), 600)}{annotated}")
    return "\n  - ".join(lines) + "\n"


def _risks(planned: PlannedChange) -> list[str]:
    """A line for every judgement that is not just "safe"."""
    match planned.change:
        case Create(judgement=judgement) | Delete(judgement=judgement):
            judged = [("Risk", judgement)]
        case Update(fields=fields):
            judged = [
                (code(f"{label(f.path)}: {worded(planned.change, f).short}"), f.judgement) for f in fields
            ]
    return [f"{what}: {_judgement(j, planned)}" for what, j in judged if j.risk is not Risk.SAFE or j.reason]


def _judgement(judgement: Judgement, planned: PlannedChange) -> str:
    parts = [f"{judgement.risk.label}{f' {code(judgement.hazard)}' if judgement.hazard else ''}."]
    if judgement.reason and judgement.reason != planned.reason:
        parts.append(f"Why: {sentence(judgement.reason)}")
    if judgement.remedy and judgement.remedy != planned.remedy:
        lead = "Instead" if judgement.risk is Risk.IMPOSSIBLE else "Safer"
        parts.append(f"{lead}: {sentence(judgement.remedy)}")
    return " ".join(parts)


# --- the table -------------------------------------------------------------------------------------


def _consent(consent: Consent) -> str:
    """Whoever approves a plan answers for these: nothing asks again."""
    return f"- {code(consent.resource)}: {code(consent.hazard)}. {sentence(consent.reason)}\n"


def _foreign(planned: PlannedChange) -> str:
    what = f"{action_of(planned.change)} {code(str(planned.ref))}"
    if planned.origin is Origin.MIXED:
        what += f": {', '.join(code(label(path)) for path in planned.earlier)}"
    return f"- {what}\n"


def _row(planned: PlannedChange, *, told: bool) -> str:
    action = action_of(planned.change)
    symbol = _SYMBOLS[action] if planned.status is Status.PLANNED else "!"
    cells = (
        f"`{symbol}`",
        code(str(planned.ref), cell=True),
        _change_cell(planned, action),
        _risk_cell(planned),
        *((_ORIGINS[planned.origin] if planned.origin else "",) if told else ()),
        place(planned.location, cell=True),
    )
    return f"| {' | '.join(cells)} |\n"


def _change_cell(planned: PlannedChange, action: str) -> str:
    fields = () if isinstance(planned.change, Delete) else fields_of(planned.change)
    shown = [
        code(f"{label(f.path)}: {worded(planned.change, f).short}", _CELL, cell=True)
        for f in fields[:_IN_ROW]
    ]
    more = f" and {len(fields) - _IN_ROW:,} more" if len(fields) > _IN_ROW else ""
    return f"{action} {', '.join(shown)}{more}".rstrip()


def _risk_cell(planned: PlannedChange) -> str:
    risk = risk_of(planned.change).label
    parts = (
        [risk]
        if planned.status is Status.PLANNED
        else [f"**{planned.status.value.replace('_', ' ')}**", risk]
    )
    hazards = dict.fromkeys(j.hazard for j in judgements(planned.change) if j.hazard)
    parts += [code(hazard, 60, cell=True) for hazard in list(hazards)[:_IN_ROW]]
    if is_deferred(planned):
        parts.append("not carried out in full yet")
    return ", ".join(parts)


# --- details and lists -----------------------------------------------------------------------------


def _details(planned: PlannedChange, ledger: Ledger) -> str:
    fields = fields_of(planned.change)
    held = "" if planned.status is Status.PLANNED else f" ({planned.status.value.replace('_', ' ')})"
    notes = [f"- {line}" for line in _risks(planned)]
    notes += [
        f"- {code(label(f.path))} does not change yet: {sentence(f.deferred)}"
        for f in fields
        if f.deferred is not None
    ]
    notes += [f"- Consent given to {code(c.hazard)}: {sentence(c.reason)}" for c in ledger.given(planned)]
    name = html(str(planned.ref), 280)
    parts = [f"<details><summary>{action_of(planned.change)} <code>{name}</code>{held}</summary>"]
    if fields:
        parts.append(code_block("diff", [line for f in fields for line in _diff(planned, f)]))
    if notes:
        parts.append("\n".join(notes))
    return "\n\n".join([*parts, "</details>"]) + "\n"


def _diff(planned: PlannedChange, field: FieldChange) -> list[str]:
    shown = worded(planned.change, field)
    sides = (("-", shown.before), ("+", shown.after))
    return [f"{sign} {label(field.path)}: {side}" for sign, side in sides if side is not None]


def _undeclared(config: UndeclaredConfig) -> str:
    shown = f"{label(config.path)} = {single(config.ref.kind, config.path, config.value)}"
    return f"- {code(str(config.ref))} {code(shown, 300)}\n"

"""A plan as terminal text: pure, styled by rich, one line a fact; the CLI decides on colour and prints it.

Print it with `soft_wrap`, so that pipes and files get whole lines.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, TypeAlias

from rich.cells import cell_len
from rich.text import Text

from kafkaform.model import Create, Delete, Risk, Severity, Status, Update
from kafkaform.report.changes import action_of, fields_of
from kafkaform.report.consents import Ledger, allow_flags, annotation
from kafkaform.report.printable import clipped, printable
from kafkaform.report.summary import summarise, summary_sentence
from kafkaform.report.values import label, single, worded
from kafkaform.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkaform.model import Diagnostic, FieldChange, Judgement, Plan, PlannedChange
    from kafkaform.plan_file import PlanHeader
    from kafkaform.report.values import Transition

Part: TypeAlias = str | tuple[str, str]
"""Plain text, or text and a style."""

SYMBOLS = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}
RISK_STYLES = {Risk.DISRUPTIVE: "yellow", Risk.DESTRUCTIVE: "red", Risk.IMPOSSIBLE: "bold red"}
SEVERITY_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "dim"}

_PROSE = 1200  # characters of one reason or message; more than that is not prose
_FEW = 5
_SOME = 20
_FIELD_INDENT = 6
_NOTE_INDENT = 8


def render_plan(
    plan: Plan, header: PlanHeader | None = None, *, verbose: bool = False, width: int | None = None
) -> Text:
    """Word a whole plan; what is held back comes last, where a terminal shows it.

    Args:
        plan: The plan.
        header: Where the plan is from, for the first line.
        verbose: List everything, also what is usually only counted.
        width: Where to wrap prose, in columns; None leaves it in whole lines.
    """
    page = _Page(width)
    _headline(page, plan, header)
    ledger = Ledger(plan)
    ordered = [c for status in Status for c in plan.with_status(status)]
    # One column for all sources, but no further out than a long name or two may push it.
    column = min(64, max((cell_len(str(c.ref)) for c in ordered), default=0) + 8)
    for planned in ordered:
        _change(page, planned, ledger, column)
    _undeclared(page, plan, verbose=verbose)
    _unknown(page, plan, verbose=verbose)
    _unmanaged(page, plan, verbose=verbose)
    _diagnostics(page, plan.diagnostics, verbose=verbose)
    if page.has_body:
        page.line()
    s = summarise(plan)
    style = "bold red" if s.refused else "bold yellow" if s.needs_consent or s.unknown else "bold"
    page.line((summary_sentence(plan), style))
    return page.text


def render_provenance(header: PlanHeader) -> Text:
    """One line on when, by what and from which commit a saved plan was made."""
    commit = f" from commit {header.commit}" if header.commit else ""
    made = f"Saved plan of {header.created_at}, made by kafkaform {header.tool_version}{commit}."
    return Text(clipped(made, 400), style="dim")


class _Page:
    """Lines under construction; every piece of text passes the gate against control characters here."""

    def __init__(self, width: int | None) -> None:
        self.text = Text()
        self.has_body = False
        self._width = width

    def line(self, *parts: Part, indent: int = 0) -> None:
        """Add one line."""
        if self.text:
            self.text.append("\n")
        self.text.append(" " * indent)
        for part in parts:
            text, style = (part, "") if isinstance(part, str) else part
            self.text.append(printable(text), style)

    def fits(self, text: str) -> bool:
        """Whether a line of this text is not broken by the terminal."""
        return self._width is None or cell_len(text) <= self._width

    def note(self, lead: str, prose: str, style: str = "", *, indent: int = _NOTE_INDENT) -> None:
        """Add a paragraph under a hanging lead."""
        text = printable(prose)
        room = None if self._width is None else self._width - indent - len(lead)
        lines = [text]
        if room is not None and room >= _SOME:
            lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
        for number, line in enumerate(lines):
            self.line((lead if number == 0 else " " * len(lead), "dim"), (line, style), indent=indent)

    def section(self, *parts: Part) -> None:
        """Start a block: a blank line, and its title."""
        self.has_body = True
        self.line()
        self.line(*parts, indent=2)


def _headline(page: _Page, plan: Plan, header: PlanHeader | None) -> None:
    cluster = clipped(plan.cluster_id, 80)
    if header and header.cluster_name:
        cluster = f"{clipped(header.cluster_name, 80)} ({cluster})"
    parts = ["kafkaform plan", f"cluster {cluster}"]
    if header and header.environment:
        parts.append(f"environment {clipped(header.environment, 80)}")
    page.line((parts[0], "bold"), " · " + " · ".join(parts[1:]))


def _change(page: _Page, planned: PlannedChange, ledger: Ledger, column: int) -> None:
    change = planned.change
    action = action_of(change)
    symbol, style = SYMBOLS[action]
    held = planned.status is not Status.PLANNED
    title = clipped(str(change.ref), 280)
    parts: list[Part] = [
        ("!" if held else symbol, "bold red" if held else f"bold {style}"),
        " ",
        (title, "bold"),
    ]
    if planned.location:
        gap = " " * max(2, column - cell_len(title) - 4)
        parts.append((f"{gap}{planned.location.file}:{planned.location.line}", "dim"))
    page.section(*parts)
    _verdict(page, planned, action)
    _judgement_of_whole(page, planned)
    _fields(page, planned)
    for consent in ledger.given(planned):
        given = f"to {clipped(consent.hazard, 120)}: {clipped(consent.reason, _PROSE)}"
        page.note("consent given ", given, "green", indent=_FIELD_INDENT)
    missing = ledger.missing(planned)
    if missing:
        page.note("consent: ", allow_flags(planned, missing), indent=_FIELD_INDENT)
        if planned.location:
            page.note("     or: ", f"in metadata.annotations: {annotation(missing)}", indent=_FIELD_INDENT)


def _verdict(page: _Page, planned: PlannedChange, action: str) -> None:
    reason = clipped(planned.reason or "", _PROSE)
    match planned.status:
        case Status.PLANNED:
            verdict, style, held = reason, "dim", ""
        case Status.NEEDS_CONSENT:
            verdict, style, held = reason or "needs consent", "bold yellow", "without it, "
        case Status.REFUSED:
            verdict, style, held = f"{action} refused: {reason or 'for the reasons below'}", "bold red", "so "
    if verdict:
        page.note("", verdict, style, indent=_FIELD_INDENT)
    if planned.remedy:
        page.note("instead: ", clipped(planned.remedy, _PROSE), indent=_FIELD_INDENT)
    if held and isinstance(planned.change, Update):
        page.note("", f"{held}nothing of this resource is applied", indent=_FIELD_INDENT)


def _judgement_of_whole(page: _Page, planned: PlannedChange) -> None:
    match planned.change:
        case Create(judgement=judgement) | Delete(judgement=judgement):
            if judgement.risk is not Risk.SAFE:
                page.line((_risk_tag(judgement), RISK_STYLES[judgement.risk]), indent=_FIELD_INDENT)
            _reasons(page, judgement, planned)
        case Update():
            pass


def _fields(page: _Page, planned: PlannedChange) -> None:
    rows = [(field, label(field.path), worded(planned.change, field)) for field in fields_of(planned.change)]
    names = min(36, max((cell_len(name) for _, name, _ in rows), default=0))
    values = min(48, max((cell_len(str(shown)) for _, _, shown in rows), default=0))
    for field, name, shown in rows:
        parts: list[Part] = [name.ljust(max(names, 20)), "  ", *_styled(shown)]
        tags = _tags(field)
        if tags:
            parts += [" " * max(3, values - cell_len(str(shown)) + 3), *tags]
        page.line(*parts, indent=_FIELD_INDENT)
        if field.deferred is not None:
            page.note("", clipped(field.deferred, _PROSE), "cyan")
        _reasons(page, field.judgement, planned)


def _styled(shown: Transition) -> Iterable[Part]:
    for number, side in enumerate(shown.sides):
        if number:
            yield " → ", "dim"
        yield side.short
    if shown.raw:
        yield f" ({shown.raw})", "dim"


def _tags(field: FieldChange) -> list[Part]:
    risk = field.judgement.risk
    tags: list[Part] = []
    if risk is not Risk.SAFE:
        tags.append((_risk_tag(field.judgement), RISK_STYLES[risk]))
    if field.deferred is not None:
        tags += [" · " if tags else "", ("not carried out yet", "cyan")]
    return tags


def _risk_tag(judgement: Judgement) -> str:
    return f"{judgement.risk.label}: {judgement.hazard}" if judgement.hazard else judgement.risk.label


def _reasons(page: _Page, judgement: Judgement, planned: PlannedChange) -> None:
    if judgement.reason and judgement.reason != planned.reason:
        page.note("", clipped(judgement.reason, _PROSE))
    if judgement.remedy and judgement.remedy != planned.remedy:
        lead = "instead: " if judgement.risk is Risk.IMPOSSIBLE else "safer: "
        page.note(lead, clipped(judgement.remedy, _PROSE))


def _undeclared(page: _Page, plan: Plan, *, verbose: bool) -> None:
    if not plan.undeclared:
        return
    page.section(
        ("Configs that no manifest declares", "bold"), " (on declared resources; reported, not touched)"
    )
    rows = [(str(u.ref), f"{label(u.path)} = {single(u.ref.kind, u.path, u.value)}") for u in plan.undeclared]
    shown = rows if verbose else rows[:_SOME]
    widest = min(48, max(len(name) for name, _ in shown))
    for name, value in shown:
        page.line(clipped(name, 280).ljust(widest), "  ", value, indent=_FIELD_INDENT)
    _rest(page, len(rows) - len(shown))


def _unknown(page: _Page, plan: Plan, *, verbose: bool) -> None:
    if not plan.unknown:
        return
    page.section(("Not visible to this account", "bold yellow"), " (they may exist or not; left alone)")
    shown = plan.unknown if verbose else plan.unknown[:_SOME]
    for ref in shown:
        page.line(clipped(str(ref), 280), indent=_FIELD_INDENT)
    _rest(page, len(plan.unknown) - len(shown))


def _unmanaged(page: _Page, plan: Plan, *, verbose: bool) -> None:
    count = len(plan.unmanaged)
    if not count:
        return
    title: Part = (f"Not managed by any manifest: {counted(count, 'resource')}", "bold")
    if verbose:
        page.section(title)
        for ref in plan.unmanaged:
            page.line(clipped(str(ref), 280), indent=_FIELD_INDENT)
        return
    few = ", ".join(clipped(str(ref), 120) for ref in plan.unmanaged[:_FEW])
    more = f", … {count - _FEW:,} more; --verbose lists them" if count > _FEW else ""
    page.section(title)
    page.note("", f"{few}{more}", "dim", indent=_FIELD_INDENT)


def _diagnostics(page: _Page, diagnostics: Sequence[Diagnostic], *, verbose: bool) -> None:
    shown = [d for d in diagnostics if verbose or d.severity is not Severity.INFO or d.waived is not None]
    if shown:
        page.has_body = True
        page.line()
    for diagnostic in shown:
        where = f"{diagnostic.location}: " if diagnostic.location else ""
        lead = f"{'waived' if diagnostic.waived else diagnostic.severity.value} {diagnostic.code}"
        message = clipped(diagnostic.message, _PROSE)
        alone = page.fits(f"  {lead}  {where}{message}")
        page.line(
            (lead, SEVERITY_STYLES[diagnostic.severity]),
            "  ",
            (where, "dim"),
            message if alone else "",
            indent=2,
        )
        if not alone:
            page.note("", message, indent=_FIELD_INDENT)
        if diagnostic.waived:
            page.note("because: ", clipped(diagnostic.waived, _PROSE), "dim", indent=_FIELD_INDENT)
        elif diagnostic.suggestion:
            page.note("", clipped(diagnostic.suggestion, _PROSE), "dim", indent=_FIELD_INDENT)
    hidden = len(diagnostics) - len(shown)
    if hidden:
        page.has_body = True
        page.line()
        page.line((f"{counted(hidden, 'note')} more (--verbose lists them)", "dim"), indent=2)


def _rest(page: _Page, count: int) -> None:
    if count:
        page.line((f"… {count:,} more (--verbose lists them)", "dim"), indent=_FIELD_INDENT)

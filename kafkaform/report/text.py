"""A plan as terminal text: pure, styled by rich, one line a fact; the CLI decides on colour and prints it.

Print it with `soft_wrap`, so that pipes and files get whole lines.

How the signature of a saved plan is told.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.cells import cell_len

from kafkaform.core.model import (
    ChangeOrigin,
    Create,
    Delete,
    Risk,
    Status,
    Update,
)
from kafkaform.core.printable import clipped
from kafkaform.core.wording import short_commit
from kafkaform.plan.plan_header import ADDRESSES, provenance
from kafkaform.plan.summary import summarise, summary_sentence
from kafkaform.report import notes
from kafkaform.report.equal_changes import Entry, equal_changes
from kafkaform.report.findings import of_plan, refer_to_findings
from kafkaform.report.notes import EACH_ANNOTATION, ConsentLedger, annotation
from kafkaform.report.page import (
    FIELD_INDENT,
    NOTE_INDENT,
    PROSE,
    Page,
)
from kafkaform.report.truncation import divided, more_alike, sort_of
from kafkaform.resources.values import action_of, fields_of, label, single

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkaform.core.model import (
        FieldChange,
        Plan,
        PlannedChange,
        RiskAssessment,
    )
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.report.page import Part
    from kafkaform.resources.values import Transition


SYMBOLS = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}
RISK_STYLES = {Risk.DISRUPTIVE: "yellow", Risk.DESTRUCTIVE: "red", Risk.IMPOSSIBLE: "bold red"}


def render_plan(
    plan: Plan, header: PlanHeader | None = None, *, verbose: bool = False, width: int | None = None
) -> Page:
    """Word a whole plan; what is held back comes last, where a terminal shows it.

    Args:
        plan: The plan.
        header: Where the plan is from, for the first line.
        verbose: List everything, also what is usually only counted.
        width: Where to wrap prose, in columns; None leaves it in whole lines.
    """
    page = Page(width)
    _headline(page, plan, header)
    ledger, found = ConsentLedger(plan), of_plan(plan)
    listed, summed_up = divided(plan.with_status(Status.PLANNED), sort_of, verbose=verbose)
    held = [
        refer_to_findings(change, found.shown)
        for status in Status
        if status is not Status.PLANNED
        for change in plan.with_status(status)
    ]
    # One column for all sources, but no further out than a long name or two may push it.
    column = min(64, max((cell_len(str(c.ref)) for c in (*listed, *held)), default=0) + 8)
    for entry in _entries(listed, ledger, verbose=verbose):
        _change(page, entry, ledger, column, verbose=verbose)
    for (action, _), changes in summed_up.items():
        page.line()
        page.note("", more_alike(f"to {action}", changes), indent=2)
    for entry in _entries(held, ledger, verbose=verbose):
        _change(page, entry, ledger, column, verbose=verbose)
    notes.findings_of_plan(page, plan, verbose=verbose)
    notes.owners(page, plan)
    notes.unknown(page, plan.unknown)
    _undeclared(page, plan, verbose=verbose)
    notes.unmanaged(page, plan.unmanaged, verbose=verbose)
    if page.has_body:
        page.line()
    s = summarise(plan)
    refused = s.refused or plan.open_errors
    style = "bold red" if refused else "bold yellow" if s.needs_consent or s.unknown else "bold"
    page.line((summary_sentence(plan), style))
    return page


def render_provenance(header: PlanHeader) -> Page:
    """One line on when, by what and from which commit a saved plan was made."""
    commit = f", commit {short_commit(header.commit)}" if header.commit else ""
    time = header.created_at[:16].replace("T", " ")
    made = f"Plan saved {time} UTC by kafkaform {header.tool_version}{commit}."
    return _dimmed(clipped(made, 400))


def _headline(page: Page, plan: Plan, header: PlanHeader | None) -> None:
    cluster = clipped(plan.cluster_id, 80)
    if header and header.cluster_name:
        cluster = f"{clipped(header.cluster_name, 80)} ({cluster})"
    parts = ["kafkaform plan", f"cluster {cluster}"]
    if header and header.environment:
        parts.append(f"environment {clipped(header.environment, 80)}")
    page.line((parts[0], "bold"), " · " + " · ".join(parts[1:]))
    if made_with := provenance(header):
        words = (f"{word} {clipped(value, ADDRESSES)}" for word, value in made_with.items())
        page.note("", " · ".join(words), "dim", indent=2)


def _entries(changes: Sequence[PlannedChange], ledger: ConsentLedger, *, verbose: bool) -> list[Entry]:
    """Gather equal changes, unless all are wanted."""
    return [Entry.of([planned]) for planned in changes] if verbose else equal_changes(changes, ledger.terms)


def _change(page: Page, entry: Entry, ledger: ConsentLedger, column: int, *, verbose: bool) -> None:
    planned, first = entry.shown, entry.changes[0]
    action = action_of(planned.change)
    _titles(page, entry, action, column)
    _verdict(page, planned, action)
    _origin(page, planned)
    _judgement_of_whole(page, planned)
    _fields(page, entry, verbose=verbose)
    for consent in ledger.given(first):
        given = f"to {clipped(consent.hazard, 120)}: {clipped(consent.reason, PROSE)}"
        page.note("consent given ", given, "green", indent=FIELD_INDENT)
    missing = ledger.missing(first)
    if missing:
        whom, flags = entry.allow_flags(missing)
        page.verbatim(f"consent{whom and f' {whom}'}: ", flags)
        lines = {annotation(one, missing, ledger.given(one)) for one in entry.changes}
        if planned.location and len(lines) == 1:
            page.verbatim("     or: in metadata.annotations: ", lines.pop())
        elif planned.location:
            page.note("     or: ", EACH_ANNOTATION, indent=FIELD_INDENT)


def _titles(page: Page, entry: Entry, action: str, column: int) -> None:
    """A line for each resource with its manifest; of many, a line for all and their names below it."""
    symbol, style = SYMBOLS[action]
    held = entry.shown.status is not Status.PLANNED
    lead: list[Part] = [("!" if held else symbol, "bold red" if held else f"bold {style}"), " "]
    if entry.is_long:
        _title(page, lead, entry.subject, clipped(entry.place, 280), column, first=True)
        titles = entry.titles(short=True)
        for line in titles if entry.varied else [", ".join(titles)]:
            page.note("", line, indent=FIELD_INDENT)
        return
    for number, (planned, title) in enumerate(zip(entry.changes, entry.titles(), strict=True)):
        source = f"{planned.location.file}:{planned.location.line}" if planned.location else ""
        _title(page, lead, title, source, column, first=number == 0)


def _title(page: Page, lead: Sequence[Part], title: str, source: str, column: int, *, first: bool) -> None:
    gaps = " " * max(2, column - cell_len(title) - 4), "  "
    gap = next((gap for gap in gaps if page.fits(title, gap, source, indent=4)), None)
    parts = [*lead, (title, "bold")]
    if source and gap is not None:
        parts.append((f"{gap}{source}", "dim"))
    if first:
        page.section(*parts)
    else:
        page.line(*parts, indent=2)
    if source and gap is None:
        page.line((source, "dim"), indent=FIELD_INDENT)


def _verdict(page: Page, planned: PlannedChange, action: str) -> None:
    reason = clipped(planned.reason or "", PROSE)
    match planned.status:
        case Status.PLANNED:
            verdict, style, held = reason, "dim", ""
        case Status.NEEDS_CONSENT:
            verdict, style, held = reason or "needs consent", "bold yellow", "without consent, "
        case Status.REFUSED:
            verdict, style, held = f"{action} refused: {reason or 'for the reasons below'}", "bold red", "so "
    if verdict:
        page.note("", verdict, style, indent=FIELD_INDENT)
    if planned.remedy:
        page.note("instead: ", clipped(planned.remedy, PROSE), indent=FIELD_INDENT)
    if held and isinstance(planned.change, Update):
        page.note("", f"{held}no change to this resource is applied", indent=FIELD_INDENT)


def _origin(page: Page, planned: PlannedChange) -> None:
    match planned.origin:
        case ChangeOrigin.DRIFT:
            told = "not caused by this branch"
        case ChangeOrigin.MIXED:
            told = f"not caused by this branch: {', '.join(map(label, planned.earlier))}"
        case ChangeOrigin.BRANCH | None:
            return
    page.note("", clipped(told, PROSE), "magenta", indent=FIELD_INDENT)


def _judgement_of_whole(page: Page, planned: PlannedChange) -> None:
    match planned.change:
        case Create(assessment=assessment) | Delete(assessment=assessment):
            if assessment.risk is not Risk.SAFE:
                page.line((_risk_tag(assessment), RISK_STYLES[assessment.risk]), indent=FIELD_INDENT)
            _reasons(page, assessment, planned)
        case Update():
            pass


def _fields(page: Page, entry: Entry, *, verbose: bool) -> None:
    planned = entry.shown
    rows = [(field, label(field.path), entry.transition(field)) for field in fields_of(planned.change)]
    if not verbose and isinstance(planned.change, Create):
        rows = [(field, name, _abridged(shown)) for field, name, shown in rows]
    names = min(36, max((cell_len(name) for _, name, _ in rows), default=0))
    values = min(48, max((cell_len(str(shown)) for _, _, shown in rows), default=0))
    for field, name, shown in rows:
        parts: list[Part] = [name.ljust(max(names, 20)), "  ", *_styled(shown)]
        tags = _tags(field)
        gaps = [" " * max(3, values - cell_len(str(shown)) + 3), "   "] if tags else [""]
        beside = next((gap for gap in gaps if page.fits(*parts, gap, *tags, indent=FIELD_INDENT)), None)
        if beside is not None:
            page.line(*parts, beside, *tags, indent=FIELD_INDENT)
        else:  # the terminal would break it within a word
            if page.fits(*parts, indent=FIELD_INDENT):
                page.line(*parts, indent=FIELD_INDENT)
            else:
                page.line(name, indent=FIELD_INDENT)
                page.note("", str(shown))
            if tags:
                page.line(*tags, indent=NOTE_INDENT)
        if field.deferred is not None:
            page.note("", clipped(field.deferred, PROSE), "cyan")
        _reasons(page, field.assessment, planned)
        if verbose:
            for told in shown.each:
                page.note("", told)


def _abridged(shown: Transition) -> Transition:
    return replace(shown, told=f"{shown.told}; --verbose lists them") if shown.each else shown


def _styled(shown: Transition) -> Iterable[Part]:
    if shown.told:
        yield shown.told
        return
    for number, side in enumerate(shown.sides):
        if number:
            yield " → ", "dim"
        yield side.short
    if shown.raw:
        yield f" ({shown.raw})", "dim"


def _tags(field: FieldChange) -> list[Part]:
    risk = field.assessment.risk
    tags: list[Part] = []
    if risk is not Risk.SAFE:
        tags.append((_risk_tag(field.assessment), RISK_STYLES[risk]))
    if field.deferred is not None:
        tags += [" · " if tags else "", ("not applied yet", "cyan")]
    return tags


def _risk_tag(assessment: RiskAssessment) -> str:
    return f"{assessment.risk.label}: {assessment.hazard}" if assessment.hazard else assessment.risk.label


def _reasons(page: Page, assessment: RiskAssessment, planned: PlannedChange) -> None:
    if assessment.reason and assessment.reason != planned.reason:
        page.note("", clipped(assessment.reason, PROSE))
    if assessment.remedy and assessment.remedy != planned.remedy:
        lead = "instead: " if assessment.risk is Risk.IMPOSSIBLE else "safer: "
        page.note(lead, clipped(assessment.remedy, PROSE))


def _undeclared(page: Page, plan: Plan, *, verbose: bool) -> None:
    if not plan.undeclared:
        return
    page.section(
        ("Configs that no manifest declares", "bold"), " (on declared resources; reported, not changed)"
    )
    rows = [(str(u.ref), f"{label(u.path)} = {single(u.ref.kind, u.path, u.value)}") for u in plan.undeclared]
    shown = rows if verbose else rows[: notes.SOME]
    widest = min(48, max(len(name) for name, _ in shown))
    for name, value in shown:
        page.line(clipped(name, 280).ljust(widest), "  ", value, indent=FIELD_INDENT)
    notes.rest(page, len(rows) - len(shown))


def render_signature(made: PlanHeader, *, verified: bool) -> Page:
    """One line on who signed a saved plan, what for, and whether anybody looked."""
    if made.signature is None:
        return _dimmed("Not signed.")
    purpose = "no stated purpose" if made.signed_for is None else made.signed_for.purpose
    ref = made.signed_for.ref if made.signed_for is not None else None
    told = (
        f"signed for {purpose}{f' (of {clipped(ref, 200)})' if ref else ''} with the key {made.signature.key}"
    )
    if verified:
        return _dimmed(f"{told[0].upper()}{told[1:]}, and not changed since.")
    return _dimmed(f"Claims to be {told}; not verified.")


def _dimmed(line: str) -> Page:
    page = Page(None)
    page.line((line, "dim"))
    return page

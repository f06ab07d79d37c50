"""What a report lists beside the differences.

Those are findings, owners, what was not seen, what nobody declares, and consents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import (
    Risk,
    Severity,
    Status,
    Update,
    assessments,
)
from kafkaform.core.printable import clipped, plain_quotes
from kafkaform.core.wording import counted
from kafkaform.plan.policy import bindings
from kafkaform.plan.summary import concerned
from kafkaform.report.findings import More, abridged, of_plan
from kafkaform.report.page import FIELD_INDENT, PROSE
from kafkaform.resources import KINDS, consent

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from kafkaform.core.model import (
        Consent,
        Diagnostic,
        Plan,
        PlannedChange,
        ResourceRef,
    )
    from kafkaform.report.page import Page, Part


SEVERITY_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "dim"}
SOME = 20
"""How many lines a list has, unless all are wanted."""
_FEW = 5
EACH_ANNOTATION = "in metadata.annotations of each manifest; kafkaform plan --verbose lists the lines"
"""Where consents are written that differ between resources whose changes are equal otherwise."""


def owners(page: Page, plan: Plan) -> None:
    """Say which teams own what changes, and which groups of which teams read it."""
    if told := concerned(plan, lambda name: clipped(name, 120)):
        _begin(page)
        page.note("", told, "dim", indent=2)


def unknown(page: Page, refs: Sequence[ResourceRef]) -> None:
    """List all declared resources of which the account cannot tell whether they exist."""
    if not refs:
        return
    page.section(("Not visible to this account", "bold yellow"), " (they may or may not exist; not changed)")
    for ref in refs:
        page.line(clipped(str(ref), 280), indent=FIELD_INDENT)


def unmanaged(page: Page, refs: Sequence[ResourceRef], *, verbose: bool) -> None:
    """List the resources that nobody declares: a few, unless all are wanted."""
    count = len(refs)
    if not count:
        return
    title: Part = (f"Not managed by any manifest: {counted(count, 'resource')}", "bold")
    if verbose:
        page.section(title)
        for ref in refs:
            page.line(clipped(str(ref), 280), indent=FIELD_INDENT)
        return
    few = ", ".join(clipped(str(ref), 120) for ref in refs[:_FEW])
    more = f", … {count - _FEW:,} more; --verbose lists them" if count > _FEW else ""
    page.section(title)
    page.note("", f"{few}{more}", "dim", indent=FIELD_INDENT)


def findings(page: Page, diagnostics: Sequence[Diagnostic], *, verbose: bool) -> None:
    """List findings; of those that only inform, how many there are, unless all are wanted."""
    shown = [d for d in diagnostics if verbose or _is_shown(d)]
    if shown:
        _begin(page)
    listing(page, shown)
    _hidden(page, len(diagnostics) - len(shown))


def findings_of_plan(page: Page, plan: Plan, *, verbose: bool) -> None:
    """List the findings of what changes, and one line on those of what does not."""
    if verbose:
        if plan.diagnostics:
            _begin(page)
        listing(page, plan.diagnostics)
        return
    found = of_plan(plan)
    shown = [d for d in found.shown if _is_shown(d)]
    if shown:
        _begin(page)
    listing(page, abridged(shown))
    if found.elsewhere:
        _begin(page)
        page.note("", found.elsewhere.sentence(), SEVERITY_STYLES[Severity.WARNING], indent=2)
    _hidden(page, len(found.shown) - len(shown) + found.notes)


_UNVALIDATED = "KF414"
"""The note that says why the last line of a plan is "Not validated by the brokers."."""


def _is_shown(diagnostic: Diagnostic) -> bool:
    informs = diagnostic.severity is Severity.INFO and diagnostic.code != _UNVALIDATED
    return not informs or diagnostic.waived is not None


def _begin(page: Page) -> None:
    page.has_body = True
    page.line()


def listing(page: Page, shown: Sequence[Diagnostic | More]) -> None:
    """Add findings, each with what to do about it."""
    for diagnostic in shown:
        if isinstance(diagnostic, More):
            _more(page, diagnostic)
            continue
        lead = f"{'waived' if diagnostic.waived else diagnostic.severity.value} {diagnostic.code}"
        place = str(diagnostic.location) if diagnostic.location else ""
        message = plain_quotes(clipped(diagnostic.message, PROSE))
        alone = page.fits(f"  {lead}  {place}: {message}")
        where = f"{place}: " if place and alone else place
        page.line(
            (lead, SEVERITY_STYLES[diagnostic.severity]),
            "  " if where or alone else "",
            (where, "dim"),
            message if alone else "",
            indent=2,
        )
        if not alone:
            page.note("", message, indent=FIELD_INDENT)
        if diagnostic.waived:
            page.note("because: ", clipped(diagnostic.waived, PROSE), "dim", indent=FIELD_INDENT)
        elif diagnostic.suggestion:
            page.note("", clipped(diagnostic.suggestion, PROSE), "dim", indent=FIELD_INDENT)


def _more(page: Page, more: More) -> None:
    names = ", ".join(clipped(str(ref), 120) for ref in more.refs[:_FEW])
    named = f": {names}{', …' if len(more.refs) > _FEW else ''}" if names else ""
    page.line((f"{more.severity.value} {more.code}", SEVERITY_STYLES[more.severity]), indent=2)
    page.note("", f"{len(more.found):,} more{named} (--verbose lists them)", indent=FIELD_INDENT)


def _hidden(page: Page, count: int) -> None:
    if count:
        _begin(page)
        page.line((f"{counted(count, 'more note')} (--verbose lists them)", "dim"), indent=2)


def rest(page: Page, count: int) -> None:
    """Say how many lines were left out."""
    if count:
        page.line((f"… {count:,} more (--verbose lists them)", "dim"), indent=FIELD_INDENT)


class ConsentLedger:
    """The consents of one plan by resource."""

    def __init__(self, plan: Plan) -> None:
        self._by_resource: dict[str, list[Consent]] = {}
        for given in plan.consents:
            self._by_resource.setdefault(given.resource, []).append(given)

    def given(self, planned: PlannedChange) -> tuple[Consent, ...]:
        """The consents that the change got."""
        return tuple(self._by_resource.get(str(planned.ref), ()))

    def terms(self, planned: PlannedChange) -> Hashable:
        """What has been consented to, for changes that are equal apart from their resources."""
        return tuple((consent.hazard, consent.reason) for consent in self.given(planned))

    def missing(self, planned: PlannedChange) -> tuple[str, ...]:
        """The hazards that still need consent; none unless the change waits for it."""
        if planned.status is not Status.NEEDS_CONSENT:
            return ()
        if isinstance(planned.change, Update):
            due = [f.assessment for f in planned.change.fields if f.deferred is None]
        else:
            due = list(assessments(planned.change))
        given = {one.hazard for one in self.given(planned)}
        kind = KINDS[planned.ref.kind]
        needed = (h for j in due if j.risk is Risk.DESTRUCTIVE and j.hazard for h in kind.consents_of(j))
        return tuple(dict.fromkeys(hazard for hazard in needed if hazard not in given))


def annotation(planned: PlannedChange, hazards: tuple[str, ...], given: tuple[Consent, ...]) -> str:
    """The line of a manifest that consents, to be pasted; the reasons are for its author to write.

    Args:
        planned: The change.
        hazards: The hazards that still need consent.
        given: The consents that it has: those of the manifest are repeated, as there is one annotation.
    """
    reasons = {one.hazard: one.reason for one in given if one.reason != consent.BY_FLAG}
    reasons |= dict.fromkeys(hazards, consent.WHY)
    places = bindings(planned.change)
    lines = [consent.consent_line(h, place, why) for h, why in reasons.items() for place in places.get(h, ())]
    return consent.annotation(lines)

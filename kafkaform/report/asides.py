"""What a report lists beside the differences: what was not seen, what nobody declares, findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.model import Severity
from kafkaform.report.page import FIELD_INDENT, PROSE
from kafkaform.report.printable import clipped
from kafkaform.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.model import Diagnostic, ResourceRef
    from kafkaform.report.page import Page, Part

SEVERITY_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "dim"}
SOME = 20
"""How many lines a list has, unless all are wanted."""
_FEW = 5


def unknown(page: Page, refs: Sequence[ResourceRef], *, verbose: bool) -> None:
    """List the declared resources of which the account cannot tell whether they exist."""
    if not refs:
        return
    page.section(("Not visible to this account", "bold yellow"), " (they may exist or not; left alone)")
    shown = refs if verbose else refs[:SOME]
    for ref in shown:
        page.line(clipped(str(ref), 280), indent=FIELD_INDENT)
    rest(page, len(refs) - len(shown))


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
    shown = [d for d in diagnostics if verbose or d.severity is not Severity.INFO or d.waived is not None]
    if shown:
        page.has_body = True
        page.line()
    for diagnostic in shown:
        where = f"{diagnostic.location}: " if diagnostic.location else ""
        lead = f"{'waived' if diagnostic.waived else diagnostic.severity.value} {diagnostic.code}"
        message = clipped(diagnostic.message, PROSE)
        alone = page.fits(f"  {lead}  {where}{message}")
        page.line(
            (lead, SEVERITY_STYLES[diagnostic.severity]),
            "  ",
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
    hidden = len(diagnostics) - len(shown)
    if hidden:
        page.has_body = True
        page.line()
        page.line((f"{counted(hidden, 'note')} more (--verbose lists them)", "dim"), indent=2)


def rest(page: Page, count: int) -> None:
    """Say how many lines were left out."""
    if count:
        page.line((f"… {count:,} more (--verbose lists them)", "dim"), indent=FIELD_INDENT)

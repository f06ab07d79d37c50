"""Drift as terminal text, for somebody who was woken by it: what is, what was meant, and the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from kafkaform.core.printable import clipped
from kafkaform.inspect.drift import DriftVerdict, Form
from kafkaform.plan.plan_header import ADDRESSES, provenance
from kafkaform.report import notes
from kafkaform.report.drift_ways import BY_HAND, UNDECLARED_FIRST, accepting, line_words, restoring
from kafkaform.report.drift_wording import (
    declared_words,
    form_words,
    live_words,
    risks,
    since_field,
    since_whole,
    summary_sentence,
)
from kafkaform.report.page import FIELD_INDENT, PROSE, Page
from kafkaform.report.truncation import divided, more_alike, sort_of
from kafkaform.resources.values import label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.inspect.drift import Drift, FieldDrift, ResourceDrift
    from kafkaform.plan.plan_header import PlanHeader
    from kafkaform.report.drift_ways import Reach, Way
    from kafkaform.report.page import Part
    from kafkaform.report.truncation import Sort


_STYLES = {
    DriftVerdict.CLEAN: "bold green",
    DriftVerdict.DRIFT: "bold red",
    DriftVerdict.UNKNOWN: "bold yellow",
}
_SUMMED_UP = {"create": "missing", "update": "that differ"}
_WIDEST_NAME = 36


def render_drift(
    drift: Drift, header: PlanHeader, reach: Reach, *, verbose: bool = False, width: int | None = None
) -> Page:
    """Word drift; the verdict comes last, where a terminal shows it.

    Args:
        drift: What drifted.
        header: Which cluster, and what it was compared with, for the first line.
        reach: How the commands that settle it get at both.
        verbose: List everything, also what is usually only counted.
        width: Where to wrap prose, in columns; None leaves it in whole lines.
    """
    page = Page(width)
    _headline(page, drift, header)
    listed, summed_up = divided(drift.resources, _sort, verbose=verbose)
    for drifted in listed:
        _resource(page, drifted, drift, reach)
    for (action, _), alike in summed_up.items():
        changes = [drifted.planned for drifted in alike if drifted.planned is not None]
        page.line()
        page.note("", more_alike(_SUMMED_UP[action], changes), indent=2)
    notes.unknown(page, drift.unknown)
    notes.unmanaged(page, drift.unmanaged or (), verbose=verbose)
    notes.findings(page, drift.notes, verbose=verbose)
    if drift.unrecorded is not None:
        page.line()
        page.note("", f"Time of the change not known: {clipped(drift.unrecorded, PROSE)}", "dim", indent=2)
    if page.has_body:
        page.line()
    page.line((summary_sentence(drift), _STYLES[drift.verdict]))
    return page


def _sort(drifted: ResourceDrift) -> Sort | None:
    """Sort drift by what it is counted with; None unless restoring it is safe, and all of it declared."""
    undeclared = any(field.left_alone for field in drifted.fields)
    return None if drifted.planned is None or undeclared else sort_of(drifted.planned)


def _headline(page: Page, drift: Drift, header: PlanHeader) -> None:
    cluster = clipped(drift.plan.cluster_id, 80)
    if header.cluster_name:
        cluster = f"{clipped(header.cluster_name, 80)} ({cluster})"
    environment = f" · environment {clipped(header.environment, 80)}" if header.environment else ""
    page.line(("kafkaform drift", "bold"), f" · cluster {cluster}{environment}")
    if made_with := provenance(header):
        words = (f"{word} {clipped(value, ADDRESSES)}" for word, value in made_with.items())
        page.note("", " · ".join(words), "dim", indent=2)


def _resource(page: Page, drifted: ResourceDrift, drift: Drift, reach: Reach) -> None:
    form = form_words(drifted)
    place = drifted.desired.location
    page.section(
        (clipped(str(drifted.ref), 280), "bold"),
        (f"  {form}" if form else "", "bold red"),
        (f"  {place.file}:{place.line}" if place and not drifted.fields else "", "dim"),
    )
    if drifted.form is not Form.DIFFERS and (since := since_whole(drifted)):
        page.note("since    ", clipped(since, PROSE), "dim", indent=FIELD_INDENT)
    names = min(_WIDEST_NAME, max((cell_len(label(one.change.path)) for one in drifted.fields), default=0))
    for one in drifted.fields:
        _field(page, drifted, one, names)
    _way(page, "restore: ", restoring(drifted, drift, reach), risks(drifted), UNDECLARED_FIRST)
    _way(page, " accept: ", accepting(drifted, reach), (), BY_HAND)


def _field(page: Page, drifted: ResourceDrift, one: FieldDrift, names: int) -> None:
    ref, indent = drifted.ref, FIELD_INDENT + names + 2
    name = label(one.change.path).ljust(names)
    declared = declared_words(ref, one)
    parts: list[Part] = [f"{name}  ", ("manifest  ", "dim"), declared]
    if one.place is not None and one.keys is not None:
        parts.append((f"   {one.place.file}:{one.place.line}", "dim"))
    page.line(*parts, indent=FIELD_INDENT)
    page.line(("live      ", "dim"), (live_words(ref, one), "yellow"), indent=indent)
    if since := since_field(ref, one):
        page.note("since     ", clipped(since, PROSE), "dim", indent=indent)
    if one.change.deferred is not None:
        page.note("          ", clipped(one.change.deferred, PROSE), "cyan", indent=indent)


def _way(page: Page, lead: str, way: Way, more: Sequence[str], by_hand: str) -> None:
    """The command first, and whole, so that it can be copied."""
    said: list[tuple[str, bool]] = [(way.command, True)] if way.command else []
    said += [(clipped(text, PROSE), False) for text in (way.reason, way.instead, *more) if text]
    if way.lines:
        said += [(by_hand, False), *((f"  {line_words(line)}", True) for line in way.lines)]
    for number, (text, verbatim) in enumerate(said):
        start = lead if number == 0 else " " * len(lead)
        if verbatim:
            page.line((start, "dim"), text, indent=FIELD_INDENT)
        else:
            page.note(start, text, "dim", indent=FIELD_INDENT)

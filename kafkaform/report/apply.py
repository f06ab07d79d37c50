"""What became of an apply, as terminal text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.apply_result import AGAIN, Result
from kafkaform.core.model import Plan, Update
from kafkaform.core.printable import clipped
from kafkaform.core.wording import counted, listed
from kafkaform.report.equal_changes import Entry, gathered, without_name
from kafkaform.report.notes import ConsentLedger
from kafkaform.report.page import FIELD_INDENT, PROSE, Page
from kafkaform.report.text import SYMBOLS
from kafkaform.report.truncation import divided, more_alike, sort_of
from kafkaform.resources.values import action_of, label, single

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from kafkaform.core.apply_result import ApplyReport, ResourceResult
    from kafkaform.core.operations import Operation
    from kafkaform.report.page import Part
    from kafkaform.report.truncation import Sort

FORMAT_VERSION = 1

_DONE = {"create": "created", "update": "updated", "delete": "deleted"}
_ALREADY = {"create": "already exists", "update": "already in place", "delete": "already deleted"}
_WORDS = {
    Result.ALREADY: "already done",
    Result.MOVED: "moved since the plan",
    Result.FAILED: "FAILED",
    Result.REFUSED: "refused",
    Result.NEEDS_CONSENT: "needs consent",
    Result.NOT_TRIED: "not tried",
}
_STYLES = {
    Result.APPLIED: "green",
    Result.ALREADY: "dim",
    Result.NOT_TRIED: "yellow",
    Result.NEEDS_CONSENT: "yellow",
    Result.REFUSED: "red",
    Result.MOVED: "red",
    Result.FAILED: "bold red",
}
"""In the order in which they are shown: what needs somebody comes last, where a terminal shows it."""
_SUMMED_UP = {Result.APPLIED, Result.ALREADY, Result.NOT_TRIED}
"""Where many are alike; whatever needs somebody is listed."""

_NEXT = {
    Result.FAILED: f"fix what failed, then {AGAIN}",
    Result.NOT_TRIED: AGAIN,
    Result.MOVED: "make a new plan and review it: somebody else changed these resources",
    Result.NEEDS_CONSENT: "if the loss is intended, give consent in the manifest or on the command line",
    Result.REFUSED: "follow the advice of each refusal",
}
_NO_CONSENTS = ConsentLedger(Plan(cluster_id=""))


def render_apply(report: ApplyReport, *, verbose: bool = False, width: int | None = None) -> Page:
    """Word what became of each resource; then a summary, and what to do next.

    Args:
        report: The report.
        verbose: List everything, also what is usually only counted.
        width: Where to wrap prose, in columns; None leaves it in whole lines.
    """
    page = Page(width)
    for result in _STYLES:
        results = [one for one in report.results if one.result is result]
        listed, summed_up = divided(results, _sort, verbose=verbose)
        for group in [[one] for one in listed] if verbose else gathered(listed, _equality):
            _headline(page, group)
            for lead, prose in _details(group[0]):
                text = prose if len(group) == 1 else without_name(prose, group[0].planned.ref.name)
                page.note(lead, clipped(text, PROSE), indent=FIELD_INDENT)
            if result is Result.NEEDS_CONSENT:
                entry = Entry.of([one.planned for one in group])
                whom, flags = entry.allow_flags(_NO_CONSENTS.missing(group[0].planned))
                page.verbatim(f"consent{whom and f' {whom}'}: ", flags)
        for ((action, _), message, hint), alike in summed_up.items():
            what = _DONE[action] if result is Result.APPLIED else _WORDS[result]
            page.note("", more_alike(what, [one.planned for one in alike]), indent=2)
            for lead, prose in (("", message), ("hint: ", hint or "")):
                if prose:
                    page.note(lead, clipped(prose, PROSE), indent=FIELD_INDENT)
    if report.results:
        page.line()
    page.note("", _summary(report), "bold" if report.complete else "bold red", indent=0)
    for step in _next_steps(report):
        page.note("next: ", step, indent=2)
    return page


def _sort(one: ResourceResult) -> tuple[Sort, str, str | None] | None:
    """Sort a result by what it is counted with; None where somebody has to look at it."""
    sort = sort_of(one.planned)
    half_done = one.deferred or (one.result is Result.NOT_TRIED and one.done)
    if sort is None or half_done or one.result not in _SUMMED_UP:
        return None
    return sort, one.message, one.hint


def apply_to_json(report: ApplyReport) -> str:
    """The report for programs."""
    return (
        json.dumps(
            {
                "format_version": FORMAT_VERSION,
                "complete": report.complete,
                "interrupted": report.interrupted,
                "unknown": [{"kind": ref.kind, "name": ref.name} for ref in report.unknown],
                "errors": [
                    {"code": found.code, "resource": str(found.ref or "") or None, "message": found.message}
                    for found in report.errors
                ],
                "summary": {result.value: count for result, count in _counts(report).items()},
                "results": [
                    {
                        "kind": one.planned.ref.kind,
                        "name": one.planned.ref.name,
                        "action": action_of(one.planned.change),
                        "result": one.result.value,
                        "message": one.message or None,
                        "hint": one.hint,
                        "done": [describe(operation) for operation in one.done],
                        "not_done": [describe(operation) for operation in one.not_done],
                        "not_carried_out": [field.path for field in one.deferred],
                    }
                    for one in report.results
                ],
            },
            indent=2,
        )
        + "\n"
    )


def describe(operation: Operation) -> str:
    """What an operation sets, in a few printable words."""
    kind = operation.ref.kind
    return operation.words(lambda path, value: f"{label(path)} = {single(kind, path, value)}")


def _equality(one: ResourceResult) -> Hashable:
    """What is said of a result, but for the name of the resource."""
    name = one.planned.ref.name
    details = tuple((lead, without_name(prose, name)) for lead, prose in _details(one))
    needed = _NO_CONSENTS.missing(one.planned)
    return one.planned.ref.kind, action_of(one.planned.change), details, _listed(one.done), needed


def _headline(page: Page, group: Sequence[ResourceResult]) -> None:
    one = group[0]
    action = action_of(one.planned.change)
    style = _STYLES[one.result]
    if one.result is Result.APPLIED:
        symbol, symbol_style = SYMBOLS[action]
        word = _DONE[action]
    elif one.result is Result.ALREADY:
        symbol, symbol_style = "=", style
        word = _ALREADY[action]
    else:
        symbol, symbol_style = "!", style
        word = f"{action} {_WORDS[one.result]}"
    entry = Entry.of([result.planned for result in group])
    done = _listed(one.done) if one.result is Result.APPLIED and action != "delete" else ""
    place = clipped(entry.place, 280) if symbol == "!" else ""
    name = clipped(entry.subject, 280)
    beside = f": {done}" if done else f"  {place}" if place else ""
    fits = page.fits(f"    {name}  {word}{beside}")
    parts: list[Part] = [(symbol, f"bold {symbol_style}"), " ", (name, "bold"), (f"  {word}", style)]
    page.line(*parts, (beside if fits else "", "dim"), indent=2)
    if beside and not fits:
        page.note("", done or place, "dim", indent=FIELD_INDENT)
    if len(group) > 1:
        page.note("", ", ".join(entry.titles(short=True)), indent=FIELD_INDENT)


def _details(one: ResourceResult) -> Iterator[tuple[str, str]]:
    if one.message:
        yield "", one.message
    if one.hint and one.result is not Result.NEEDS_CONSENT:
        yield "instead: " if one.result is Result.REFUSED else "hint: ", one.hint
    if one.result is not Result.APPLIED and isinstance(one.planned.change, Update):
        if one.done:
            yield "done: ", _listed(one.done)
        if one.not_done:
            yield "not done: ", _listed(one.not_done)
    for field in one.deferred:
        yield f"{label(field.path)} not applied yet: ", field.deferred or ""


def _listed(operations: Iterable[Operation]) -> str:
    return ", ".join(map(describe, operations))


def _counts(report: ApplyReport) -> dict[Result, int]:
    counts = Counter(one.result for one in report.results)
    return {result: counts[result] for result in Result}


def _summary(report: ApplyReport) -> str:
    actions = Counter(action_of(one.planned.change) for one in report.results if one.result is Result.APPLIED)
    counts = _counts(report)
    parts = [f"{actions[action]:,} {word}" for action, word in _DONE.items() if actions[action]]
    parts += [f"{counts[result]:,} {word}" for result, word in _WORDS.items() if counts[result]]
    deferred = sum(len(one.deferred) for one in report.results)
    if deferred:
        parts.append(f"{counted(deferred, 'field')} not applied yet")
    if report.unknown:
        parts.append(f"{len(report.unknown):,} not visible to this account")
    if report.errors:
        parts.append(f"{counted(len(report.errors), 'error')} of rules")
    start = "Interrupted" if report.interrupted else "Apply"
    end = "Verified by reading the cluster again." if report.complete else "Not complete."
    return f"{start}: {', '.join(parts)}. {end}" if parts else f"{start}: nothing to do."


def _next_steps(report: ApplyReport) -> Iterator[str]:
    present = {one.result for one in report.results}
    if Result.FAILED in present:
        present.discard(Result.NOT_TRIED)  # which is said by then
    yield from (step for result, step in _NEXT.items() if result in present)
    if report.errors:
        codes = listed([*dict.fromkeys(found.code for found in report.errors)])
        yield f"correct what rules report as errors: {codes}"

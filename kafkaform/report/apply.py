"""The results of an apply as terminal text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.apply_result import RETRY_HINT, ApplyReport, ResourceResult, Result
from kafkaform.core.model import Recreate, Update
from kafkaform.core.values import replace
from kafkaform.core.wording import counted, listed
from kafkaform.plan.summary import word_consent_count
from kafkaform.report.document import (
    Inline,
    Item,
    Paragraph,
    ReportDocument,
    Role,
    Section,
    TextSpan,
    Verbatim,
    count_left_out,
    name_cluster,
)
from kafkaform.report.equal_changes import Entry, group_equal, mask_identity
from kafkaform.report.markdown import LIMIT, write_markdown
from kafkaform.report.page import Page, render_page
from kafkaform.report.sections import SYMBOLS
from kafkaform.report.truncation import Category, divide_listed, find_category, summarise_alike
from kafkaform.resources.values import action_of, format_value, label

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from kafkaform.core.operations import Operation

FORMAT_VERSION = 1

_DONE = {"create": "created", "update": "updated", "delete": "deleted", "recreate": "recreated"}
_ALREADY = {
    "create": "already exists",
    "update": "already in place",
    "delete": "already deleted",
    "recreate": "already recreated",
}
_WORDS = {
    Result.ALREADY: "already done",
    Result.MOVED: "moved since the plan",
    Result.FAILED: "FAILED",
    Result.REFUSED: "refused",
    Result.NEEDS_CONSENT: "needs consent",
    Result.NOT_TRIED: "not tried",
}
_ROLES = {
    Result.APPLIED: Role.GOOD,
    Result.ALREADY: Role.MUTED,
    Result.NOT_TRIED: Role.WARNING,
    Result.NEEDS_CONSENT: Role.WARNING,
    Result.REFUSED: Role.BAD,
    Result.MOVED: Role.BAD,
    Result.FAILED: Role.VERY_BAD,
}
"""In the order of display: results that need attention come last, above the prompt."""
_SUMMED_UP = {Result.APPLIED, Result.ALREADY, Result.NOT_TRIED}
"""Results that are only counted when many are alike."""

_NEXT = {
    Result.FAILED: f"fix what failed, then {RETRY_HINT}",
    Result.NOT_TRIED: RETRY_HINT,
    Result.MOVED: "make a new plan and review it: these resources were changed since the plan",
    Result.NEEDS_CONSENT: "if the loss is intended, give consent in the manifest or on the command line",
    Result.REFUSED: "follow the advice of each refusal",
}


def render_apply(report: ApplyReport, *, verbose: bool = False, width: int | None = None) -> Page:
    """Render the result of each resource, a summary and the next steps.

    Args:
        verbose: List everything instead of counting what is alike.
        width: The columns at which prose wraps; None for no wrapping.
    """
    return render_page(_build(report, verbose=verbose), width=width)


def apply_to_markdown(report: ApplyReport, cluster: str | None = None, *, limit: int = LIMIT) -> str:
    """Return the report as Markdown of at most `limit` characters, for a comment on GitHub."""
    context = [] if cluster is None else [name_cluster(cluster, None)]
    document = replace(_build(report), title="kafkaform apply", context=context)
    return write_markdown(document, limit=limit)


def _build(report: ApplyReport, *, verbose: bool = False) -> ReportDocument:
    items: list[Item] = []
    for result in _ROLES:
        results = [outcome for outcome in report.results if outcome.result is result]
        listed, summed_up = divide_listed(results, _count_key, verbose=verbose)
        # With --verbose each result stands alone, as each change does in the plan.
        groups = [[outcome] for outcome in listed] if verbose else group_equal(listed, _equality_key)
        items += map(_describe_result, groups)
        for ((action, _), message, hint), alike in summed_up.items():
            phrase = _DONE[action] if result is Result.APPLIED else _WORDS[result]
            details = (("", message), ("hint", hint or ""))
            below = [Paragraph(text, lead) for lead, text in details if text]
            items.append(Item(summarise_alike(phrase, [outcome.planned for outcome in alike]), below=below))
    blocks = (
        Section(items, lambda item: item, count_left_out("result", "see `kafkaform apply`")),
        Section([*_next_steps(report)], lambda step: Paragraph(step, "next")),
    )
    summary = TextSpan(summarise_apply(report), Role.STRONG if report.complete else Role.VERY_BAD)
    return ReportDocument("", blocks, summary=summary)


def _count_key(outcome: ResourceResult) -> tuple[Category, str, str | None] | None:
    """Return the key under which a result is counted; None for one that needs attention."""
    category = find_category(outcome.planned)
    # A change that was carried out in part needs a look, whatever its risk was.
    half_done = outcome.deferred or (outcome.result is Result.NOT_TRIED and outcome.done)
    if category is None or half_done or outcome.result not in _SUMMED_UP:
        return None
    return category, outcome.message, outcome.hint


def apply_to_json(report: ApplyReport) -> str:
    """Return the report as JSON."""
    return (
        json.dumps(
            {
                "format_version": FORMAT_VERSION,
                "complete": report.complete,
                "interrupted": report.interrupted,
                "unknown": [{"kind": ref.kind, "name": ref.name} for ref in report.unknown],
                "errors": [
                    {
                        "code": finding.code,
                        "resource": str(finding.ref or "") or None,
                        "message": finding.message,
                    }
                    for finding in report.errors
                ],
                "summary": {result.value: count for result, count in _count_results(report).items()},
                "results": [
                    {
                        "kind": outcome.planned.ref.kind,
                        "name": outcome.planned.ref.name,
                        "action": action_of(outcome.planned.change),
                        "result": outcome.result.value,
                        "message": outcome.message or None,
                        "hint": outcome.hint,
                        "done": [describe(operation) for operation in outcome.done],
                        "not_done": [describe(operation) for operation in outcome.not_done],
                        "not_carried_out": [field.path for field in outcome.deferred],
                    }
                    for outcome in report.results
                ],
            },
            indent=2,
        )
        + "\n"
    )


def describe(operation: Operation) -> str:
    """Describe what an operation sets in a printable phrase."""
    kind = operation.ref.kind
    return operation.words(lambda path, value: f"{label(path)} = {format_value(kind, path, value)}")


def _equality_key(outcome: ResourceResult) -> Hashable:
    """Return all that is printed of a result except the name of the resource."""
    details = tuple((lead, mask_identity(prose, outcome.planned)) for lead, prose in _list_details(outcome))
    return (
        outcome.planned.ref.kind,
        action_of(outcome.planned.change),
        details,
        _join_operations(outcome.done),
        outcome.planned.missing,
    )


def _describe_result(group: Sequence[ResourceResult]) -> Item:
    """Describe a result, or equal ones of several resources."""
    outcome = group[0]
    action = action_of(outcome.planned.change)
    role = _ROLES[outcome.result]
    entry = Entry.create([result.planned for result in group])
    text: Inline = ()
    gap = "  "
    match outcome.result:
        case Result.APPLIED:
            symbol, word, gap = SYMBOLS[action], _DONE[action], ": "
            text = [TextSpan(_join_operations(outcome.done), Role.MUTED)] if action != "delete" else ()
        case Result.ALREADY:
            symbol, word = TextSpan("=", role), _ALREADY[action]
        case _:
            symbol, word = TextSpan("!", role), f"{action} {_WORDS[outcome.result]}"
            text = [TextSpan(entry.location, Role.PLACE)]
    below: list[Paragraph | Verbatim | Item] = []
    if len(group) > 1:
        names = ", ".join(entry.titles(short=True))
        # The names were clipped one by one; the default limit must not cut their list.
        below.append(Paragraph(TextSpan(names, limit=len(names) + 1)))
    for lead, detail in _list_details(outcome):
        below.append(Paragraph(detail if len(group) == 1 else mask_identity(detail, outcome.planned), lead))
    if outcome.result is Result.NEEDS_CONSENT:
        scope, flags = entry.allow_flags(outcome.planned.missing)
        below.append(Verbatim(flags, f"consent{scope and f' {scope}'}"))
    return Item(
        [symbol, " ", TextSpan(entry.subject, Role.NAME), "  ", TextSpan(word, role)], text, below, gap=gap
    )


def _list_details(outcome: ResourceResult) -> Iterator[tuple[str, str]]:
    if outcome.message:
        yield "", outcome.message
    if outcome.hint and outcome.result is not Result.NEEDS_CONSENT:
        yield "instead" if outcome.result is Result.REFUSED else "hint", outcome.hint
    if outcome.result is not Result.APPLIED and isinstance(outcome.planned.change, Update | Recreate):
        if outcome.done:
            yield "done", _join_operations(outcome.done)
        if outcome.in_doubt:
            yield "may be done", _join_operations(outcome.in_doubt)
        if not_done := [operation for operation in outcome.not_done if operation not in outcome.in_doubt]:
            yield "not done", _join_operations(not_done)
    for field in outcome.deferred:
        yield f"{label(field.path)} not applied yet", field.deferred or ""


def _join_operations(operations: Iterable[Operation]) -> str:
    return ", ".join(map(describe, operations))


def _count_results(report: ApplyReport) -> dict[Result, int]:
    counts = Counter(outcome.result for outcome in report.results)
    return {result: counts[result] for result in Result}


def summarise_apply(report: ApplyReport) -> str:
    """Return the result of an apply in a sentence."""
    actions = Counter(
        action_of(outcome.planned.change) for outcome in report.results if outcome.result is Result.APPLIED
    )
    counts = _count_results(report)
    parts = [f"{actions[action]:,} {word}" for action, word in _DONE.items() if actions[action]]
    parts += [
        word_consent_count(counts[result]) if result is Result.NEEDS_CONSENT else f"{counts[result]:,} {word}"
        for result, word in _WORDS.items()
        if counts[result]
    ]
    deferred = sum(len(outcome.deferred) for outcome in report.results)
    if deferred:
        parts.append(f"{counted(deferred, 'field')} not applied yet")
    if report.unknown:
        parts.append(f"{len(report.unknown):,} not visible")
    if report.errors:
        parts.append(f"{counted(len(report.errors), 'error')} of rules")
    start = "Interrupted" if report.interrupted else "Apply"
    # Complete means that the cluster was read again, not that brokers accepted the requests.
    end = "Verified by reading the cluster again." if report.complete else "Not complete."
    return f"{start}: {', '.join(parts)}. {end}" if parts else f"{start}: nothing to do."


def _next_steps(report: ApplyReport) -> Iterator[str]:
    present = {outcome.result for outcome in report.results}
    if Result.FAILED in present:
        present.discard(Result.NOT_TRIED)  # the step for FAILED includes it
    yield from (step for result, step in _NEXT.items() if result in present)
    if report.errors:
        codes = listed([*dict.fromkeys(finding.code for finding in report.errors)])
        yield f"correct what rules report as errors: {codes}"

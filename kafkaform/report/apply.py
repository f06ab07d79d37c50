"""What became of an apply, as terminal text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, assert_never

from rich.text import Text

from kafkaform.model import AddPartitions, AlterConfigs, CreateTopic, DeleteTopic, Update
from kafkaform.outcome import Result
from kafkaform.report.changes import action_of
from kafkaform.report.printable import printable

if TYPE_CHECKING:
    from kafkaform.model import Operation
    from kafkaform.outcome import ApplyReport, ResourceResult

FORMAT_VERSION = 1

_DONE = {"create": "created", "update": "updated", "delete": "deleted"}
_WORDS = {
    Result.ALREADY: "was so already",
    Result.MOVED: "moved since the plan",
    Result.FAILED: "FAILED",
    Result.REFUSED: "refused",
    Result.NEEDS_CONSENT: "needs consent",
    Result.NOT_TRIED: "not tried",
}
_STYLES = {
    Result.APPLIED: "green",
    Result.ALREADY: "dim",
    Result.MOVED: "red",
    Result.FAILED: "bold red",
    Result.REFUSED: "red",
    Result.NEEDS_CONSENT: "yellow",
    Result.NOT_TRIED: "yellow",
}


def render_apply(report: ApplyReport) -> Text:
    """One line for each resource, its reason below it, and a summary last."""
    text = Text()
    for one in report.results:
        text.append("  ")
        text.append(printable(f"{one.planned.ref}"), style="bold")
        text.append(f"  {_word(one)}", style=_STYLES[one.result])
        details = ", ".join(describe(operation) for operation in one.done)
        if details and isinstance(one.planned.change, Update):
            text.append(printable(f": {details}"), style="dim")
        text.append("\n")
        if one.message:
            text.append(printable(f"      {one.message}") + "\n")
        if one.hint:
            text.append(printable(f"      instead: {one.hint}") + "\n", style="dim")
        for deferred in one.deferred:
            text.append(
                printable(f"      {deferred.path} not carried out: {deferred.deferred}") + "\n",
                style="yellow",
            )
    text.append(_summary(report), style="bold" if report.complete else "bold red")
    return text


def apply_to_json(report: ApplyReport) -> str:
    """The report for programs."""
    return (
        json.dumps(
            {
                "format_version": FORMAT_VERSION,
                "complete": report.complete,
                "interrupted": report.interrupted,
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
    """An operation in a few words."""
    match operation:
        case CreateTopic(partitions=partitions):
            return f"created with {partitions} partitions"
        case AlterConfigs(set=given, unset=unset):
            return ", ".join(
                [*(f"{name}={value}" for name, value in given.items()), *(f"{n} unset" for n in unset)]
            )
        case AddPartitions(present=present, total=total):
            return f"partitions {present} → {total}"
        case DeleteTopic():
            return "deleted"
        case _:
            assert_never(operation)


def _word(one: ResourceResult) -> str:
    if one.result is not Result.APPLIED:
        return _WORDS[one.result]
    return _DONE[action_of(one.planned.change)]


def _counts(report: ApplyReport) -> dict[Result, int]:
    counts = Counter(one.result for one in report.results)
    return {result: counts[result] for result in Result}


def _summary(report: ApplyReport) -> str:
    done = Counter(
        _DONE[action_of(one.planned.change)] for one in report.results if one.result is Result.APPLIED
    )
    parts = [f"{count} {word}" for word, count in done.items()]
    counts = _counts(report)
    parts += [f"{counts[result]} {word.lower()}" for result, word in _WORDS.items() if counts[result]]
    deferred = sum(len(one.deferred) for one in report.results if one.result is Result.APPLIED)
    if deferred:
        parts.append(f"{deferred} fields not carried out yet")
    start = "Interrupted" if report.interrupted else "Apply"
    end = "; verified." if report.complete else "."
    return f"{start}: {', '.join(parts) or 'nothing to do'}{end}"

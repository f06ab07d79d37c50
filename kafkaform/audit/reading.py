"""From lines to entries; what is damaged, or of a later format, is told and left out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkaform.audit.entries import Entry, Log, Outcome, RecordedField, ThrottleEntry
from kafkaform.audit.record import FORMAT_VERSION
from kafkaform.core.model import ResourceRef
from kafkaform.core.schema_files import fits
from kafkaform.core.throttles import Rates, ThrottledReplicas, Throttles
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def read_log(lines: Iterable[str], where: str) -> Log:
    """Read lines of the record; of two that say the same of a change, the first counts.

    Of what the first result was unsure of, a later one can say that it was carried out.

    Args:
        lines: Oldest first.
        where: What they are from, for messages.
    """
    intents: dict[str, dict[int, Any]] = {}
    results: dict[str, dict[int, Any]] = {}
    later_results: dict[str, list[Any]] = {}
    throttles: dict[str, ThrottleEntry] = {}
    damaged: list[int] = []
    later: list[int] = []
    for number, line in enumerate(lines, 1):
        document = _parsed(line)
        version = document.get("format_version") if document is not None else None
        if type(version) is int and version > FORMAT_VERSION:
            later.append(number)
        elif document is None or not fits("audit", document):
            damaged.append(number)
        elif document["record"] == "throttle":
            _take_in(throttles, document)
        else:
            of = intents if document["record"] == "intent" else results
            first = of.setdefault(document["id"], {}).setdefault(document.get("part", 1), document)
            if of is results and first is not document:
                later_results.setdefault(document["id"], []).append(document)
    entries = tuple(_entry(intents[key], results.get(key), later_results.get(key, ())) for key in intents)
    orphans = [result[min(result)] for key, result in results.items() if key not in intents]
    problems = [
        _problem(damaged, where, "damaged, or no record of kafkaform"),
        _problem(later, where, f"of a format later than {FORMAT_VERSION}: read it with a newer kafkaform"),
        f"{where}: {counted(len(orphans), 'result')} without an intent" if orphans else "",
        *(f"{where}: a part of {entry.id} is missing" for entry in entries if not entry.whole),
    ]
    return Log(entries, tuple(filter(None, problems)), tuple(throttles.values()))


def merged(first: Log, second: Log) -> Log:
    """Two readings of what was written down twice, by time; what both have, the first has right."""
    known = {entry.id for entry in first.entries}
    more = [entry for entry in second.entries if entry.id not in known]
    entries = first.entries
    if more:
        entries = tuple(sorted((*entries, *more), key=lambda entry: entry.at))
    throttles = {entry.id: entry for entry in first.throttles}
    for entry in second.throttles:
        known_one = throttles.get(entry.id, entry)
        throttles[entry.id] = replace(known_one, removed=known_one.removed or entry.removed)
    in_order = sorted(throttles.values(), key=lambda entry: entry.at)
    return Log(entries, (*first.problems, *second.problems), tuple(in_order))


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _problem(numbers: Sequence[int], where: str, what: str) -> str:
    """What is wrong with some lines; the first of them is named."""
    if not numbers:
        return ""
    more = f", and {len(numbers) - 1:,} more" if len(numbers) > 1 else ""
    return f"{where}: record {numbers[0]}{more}: left out, as {what}"


def _entry(parts: Mapping[int, Any], results: Mapping[int, Any] | None, later: Sequence[Any]) -> Entry:
    first = parts[min(parts)]
    ci = first["ci"] or {}
    fields = tuple(
        RecordedField(field["path"], field["before"], field["after"], bool(field.get("cut")))
        for number in sorted(parts)
        for field in parts[number]["fields"]
    )
    return Entry(
        id=first["id"],
        run=first["run"],
        at=first["at"],
        who=first["who"],
        host=first["host"],
        ci=ci.get("system"),
        url=ci.get("url"),
        commit=first["commit"],
        plan=first["plan"],
        tool_version=first["tool_version"],
        cluster_id=first["cluster"],
        environment=first["environment"],
        ref=ResourceRef(first["kind"], first["name"]),
        uid=first["uid"],
        action=first["action"],
        risk=first["risk"],
        fields=fields,
        consents=tuple((consent["hazard"], consent["reason"]) for consent in first["consent"]),
        outcome=_settled(_outcome(results), later, fields) if results else None,
        whole=set(parts) == set(range(1, first.get("parts", 1) + 1)),
    )


def _take_in(throttles: dict[str, ThrottleEntry], document: Mapping[str, Any]) -> None:
    """Note that throttles were announced, or taken off; what says it first counts."""
    key = document["id"]
    if document["state"] == "set":
        entry = ThrottleEntry(key, document["run"], document["at"], document["cluster"], _throttles(document))
        throttles.setdefault(key, entry)
    elif key in throttles:
        throttles[key] = replace(throttles[key], removed=True)


def _throttles(document: Mapping[str, Any]) -> Throttles:
    return Throttles(
        {one["id"]: Rates(one["leader"], one["follower"]) for one in document["brokers"]},
        {
            one["name"]: ThrottledReplicas(frozenset(one["leader"]), frozenset(one["follower"]))
            for one in document["topics"]
        },
    )


def _outcome(parts: Mapping[int, Any]) -> Outcome:
    first = parts[min(parts)]
    done = frozenset[str]().union(*(part["done"] for part in parts.values()))
    unsure = frozenset[str]().union(*(part.get("unsure", ()) for part in parts.values()))
    return Outcome(first["result"], first["at"], first["message"] or "", done, unsure - done)


def _settled(outcome: Outcome, later: Sequence[Any], fields: Sequence[RecordedField]) -> Outcome:
    """An outcome with what later results say of the fields that it was unsure of."""
    for document in later:
        found = outcome.unsure.intersection(document["done"])
        if found:
            done = outcome.done | found
            whole = all(field.path in done for field in fields)
            message = "; ".join(filter(None, (outcome.message, document["message"])))
            result = document["result"] if whole else outcome.result
            outcome = Outcome(result, outcome.at, message, done, outcome.unsure - found)
    return outcome

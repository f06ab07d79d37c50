"""The record as it is read back: what each apply meant to do, and what became of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafkaform.audit.record import FORMAT_VERSION, settled_lines
from kafkaform.core.model import ResourceRef
from kafkaform.core.moves import Rates, ThrottledReplicas, Throttles
from kafkaform.core.schema_files import fits
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkaform.core.model import FieldValue


@dataclass(frozen=True, slots=True)
class RecordedField:
    """One field of a recorded change; `cut`: a value of many pages, of which only the start was kept."""

    path: str
    before: FieldValue
    after: FieldValue
    cut: bool = False


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What became of a recorded change.

    Attributes:
        result: One of `kafkaform.audit.record.RESULTS`.
        at: When that was known (RFC 3339 in UTC).
        message: Why, where it did not go through.
        done: The paths of the fields that were carried out, also where others were not.
        unsure: Those of which no answer came: they may have been carried out or not.
    """

    result: str
    at: str
    message: str = ""
    done: frozenset[str] = frozenset()
    unsure: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change of one apply; all text in it may have been written by anybody who may write to the record.

    Attributes:
        id: The id of the change, `RUN.NUMBER`.
        run: The id of the apply.
        at: When it was about to be carried out (RFC 3339 in UTC).
        who: Whoever applied.
        host: Where.
        ci: The CI system; None if it was none.
        url: The page of the CI job.
        commit: The Git commit of the manifests.
        plan: The digest of the plan.
        tool_version: The version of kafkaform.
        cluster_id: The cluster.
        environment: Whose overrides held.
        ref: The resource.
        uid: The identity of the resource that was to be updated or deleted.
        action: `create`, `update` or `delete`.
        risk: The worst risk.
        fields: What was to change.
        consents: Hazards that somebody consented to, with the reasons.
        outcome: What became of it; None if nobody lived to write that down.
        whole: Whether all parts of it are there.
    """

    id: str
    run: str
    at: str
    who: str
    host: str
    ci: str | None
    url: str | None
    commit: str | None
    plan: str | None
    tool_version: str
    cluster_id: str
    environment: str | None
    ref: ResourceRef
    uid: str | None
    action: str
    risk: str
    fields: tuple[RecordedField, ...]
    consents: tuple[tuple[str, str], ...] = ()
    outcome: AuditResult | None = None
    whole: bool = True

    def settled(self, at: str, by: str) -> Iterator[str]:
        """Lines that say that the change, whose outcome was in doubt, was found on the cluster."""
        done = [field.path for field in self.fields]
        return settled_lines(self.id, self.ref, done, at, by, concluded=self.outcome is not None)

    @property
    def carried_out(self) -> tuple[RecordedField, ...]:
        """The fields that were changed for sure."""
        done = self.outcome.done if self.outcome is not None else frozenset()
        return tuple(field for field in self.fields if field.path in done)

    @property
    def in_doubt(self) -> tuple[RecordedField, ...]:
        """The fields that were changed or not: nobody knows."""
        if self.outcome is None:
            return self.fields
        unsure = self.outcome.unsure - self.outcome.done
        return tuple(field for field in self.fields if field.path in unsure)

    @property
    def is_open(self) -> bool:
        """Whether a later apply may yet find out what became of it."""
        return self.outcome is None or bool(self.in_doubt)

    @property
    def took_place(self) -> bool:
        """Whether anything of it was changed for sure."""
        if self.outcome is None:
            return False
        return self.outcome.result == "applied" or not self.outcome.done.isdisjoint(
            field.path for field in self.fields
        )

    @property
    def may_have_taken_place(self) -> bool:
        """Whether anything of it was changed, or may have been: no answer came, or no result was written."""
        return self.is_open or self.took_place


@dataclass(frozen=True, slots=True)
class ThrottleEntry:
    """Throttles that an apply was about to set.

    Attributes:
        id: The id, `RUN.NUMBER`.
        run: The id of the apply.
        at: When it was about to set them (RFC 3339 in UTC).
        cluster_id: The cluster.
        throttles: The throttles.
        removed: Whether they were taken off since.
    """

    id: str
    run: str
    at: str
    cluster_id: str
    throttles: Throttles
    removed: bool = False


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A reading of the record.

    Attributes:
        entries: Oldest first.
        problems: What of it could not be read, a line each.
        throttles: What applies throttled, oldest first.
    """

    entries: tuple[AuditEntry, ...] = ()
    problems: tuple[str, ...] = ()
    throttles: tuple[ThrottleEntry, ...] = ()


def read_log(lines: Iterable[str], where: str) -> AuditRecord:
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
        _problem(damaged, where, "damaged, or not a record of kafkaform"),
        _problem(later, where, f"of a format later than {FORMAT_VERSION}: read it with a newer kafkaform"),
        f"{where}: {counted(len(orphans), 'result')} without an intent" if orphans else "",
        *(f"{where}: a part of {entry.id} is missing" for entry in entries if not entry.whole),
    ]
    return AuditRecord(entries, tuple(filter(None, problems)), tuple(throttles.values()))


def merged(first: AuditRecord, second: AuditRecord) -> AuditRecord:
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
    return AuditRecord(entries, (*first.problems, *second.problems), tuple(in_order))


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


def _entry(parts: Mapping[int, Any], results: Mapping[int, Any] | None, later: Sequence[Any]) -> AuditEntry:
    first = parts[min(parts)]
    ci = first["ci"] or {}
    fields = tuple(
        RecordedField(field["path"], field["before"], field["after"], bool(field.get("cut")))
        for number in sorted(parts)
        for field in parts[number]["fields"]
    )
    return AuditEntry(
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


def _outcome(parts: Mapping[int, Any]) -> AuditResult:
    first = parts[min(parts)]
    done = frozenset[str]().union(*(part["done"] for part in parts.values()))
    unsure = frozenset[str]().union(*(part.get("unsure", ()) for part in parts.values()))
    return AuditResult(first["result"], first["at"], first["message"] or "", done, unsure - done)


def _settled(outcome: AuditResult, later: Sequence[Any], fields: Sequence[RecordedField]) -> AuditResult:
    """An outcome with what later results say of the fields that it was unsure of."""
    for document in later:
        found = outcome.unsure.intersection(document["done"])
        if found:
            done = outcome.done | found
            whole = all(field.path in done for field in fields)
            message = "; ".join(filter(None, (outcome.message, document["message"])))
            result = document["result"] if whole else outcome.result
            outcome = AuditResult(result, outcome.at, message, done, outcome.unsure - found)
    return outcome

"""The entries of the audit record as read back: the intended changes of each apply, and their outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.audit.record import FORMAT_VERSION, render_confirmation
from kafkaform.core.model import FieldValue, ResourceRef
from kafkaform.core.schema_files import fits
from kafkaform.core.strict_json import MalformedJson, parse_json
from kafkaform.core.values import Value, field, replace
from kafkaform.core.wording import counted
from kafkaform.resources.replicas.moves import Rates, ThrottledReplicas, Throttles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


class RecordedField(Value):
    """One field of a recorded change; `cut`: only a part of a long value was kept, or its digest."""

    path: str
    before: FieldValue
    after: FieldValue
    cut: bool = False


class AuditResult(Value):
    """The outcome of a recorded change.

    Attributes:
        result: One of `kafkaform.audit.record.RESULTS`.
        at: When the result was recorded (RFC 3339 in UTC).
        message: The reason, where the change did not succeed.
        done: The paths of the fields that were changed, also where others were not.
        in_doubt: The paths of the fields for which no response came: they may have been changed or not.
        live: Numbers of the changed resource, by name.
        steps: The steps of a recreation that were done, in order: `delete-offsets`, `delete`, `create`.
    """

    result: str
    at: str
    message: str = ""
    done: frozenset[str] = frozenset()
    in_doubt: frozenset[str] = frozenset()
    live: Mapping[str, int] = field(default_factory=dict)
    steps: tuple[str, ...] = ()


class SuccessionStep(Value):
    """The step of a succession that a recorded change takes, such as `first offsets`."""

    predecessor: str
    successor: str
    step: str


class AuditEntry(Value):
    """One change of one apply; its text is untrusted, as others may have write access to the record.

    Attributes:
        id: The id of the change, `RUN.NUMBER`.
        run: The id of the apply.
        at: When it was about to be carried out (RFC 3339 in UTC).
        who: The user that applied.
        host: The machine that applied.
        ci: The CI system; None outside of CI.
        url: The page of the CI job.
        commit: The Git commit of the manifests.
        plan: The digest of the plan.
        tool_version: The version of kafkaform.
        environment: The environment whose overrides were merged.
        uid: The identity of the resource that was to be updated or deleted.
        action: `create`, `update`, `delete` or `recreate`.
        fields: The fields to change.
        consents: Pairs of a hazard that was consented to and the reason given.
        outcome: The result; None if the apply ended before it could write one.
        complete: Whether all parts of a split intent were read.
        successions: The steps of successions that it takes.
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
    complete: bool = True
    successions: tuple[SuccessionStep, ...] = ()

    def render_confirmation(self, at: str, by: str) -> Iterator[str]:
        """Render a result for this change in doubt, which apply `by` found on the cluster."""
        done = [field.path for field in self.fields]
        return render_confirmation(self.id, self.ref, done, at, by, concluded=self.outcome is not None)

    @property
    def carried_out(self) -> tuple[RecordedField, ...]:
        """The fields that were certainly changed."""
        done = self.outcome.done if self.outcome is not None else frozenset()
        return tuple(field for field in self.fields if field.path in done)

    @property
    def in_doubt(self) -> tuple[RecordedField, ...]:
        """The fields that may have been changed or not."""
        if self.outcome is None:
            return self.fields
        in_doubt = self.outcome.in_doubt - self.outcome.done
        return tuple(field for field in self.fields if field.path in in_doubt)

    @property
    def is_open(self) -> bool:
        """True if a later apply may still find out its outcome."""
        return self.outcome is None or bool(self.in_doubt)

    @property
    def took_place(self) -> bool:
        """True if at least one field was certainly changed, or a topic deleted to be recreated."""
        if self.outcome is None:
            return False
        changed = not self.outcome.done.isdisjoint(field.path for field in self.fields)
        return self.outcome.result == "applied" or changed or "delete" in self.outcome.steps

    @property
    def may_have_taken_place(self) -> bool:
        """True if a field was changed, or may have been: no response came, or no result was written."""
        return self.is_open or self.took_place


class ThrottleEntry(Value):
    """Throttles that an apply was about to set.

    Attributes:
        id: The id, `RUN.NUMBER`.
        run: The id of the apply.
        at: When it was about to set them (RFC 3339 in UTC).
        removed: Whether they were removed since.
    """

    id: str
    run: str
    at: str
    cluster_id: str
    throttles: Throttles
    removed: bool = False


class AuditRecord(Value):
    """The audit record as read.

    Attributes:
        entries: Oldest first.
        problems: The parts that could not be read, one line each.
        throttles: The throttles that applies set, oldest first.
    """

    entries: tuple[AuditEntry, ...] = ()
    problems: tuple[str, ...] = ()
    throttles: tuple[ThrottleEntry, ...] = ()


def parse_record(lines: Iterable[str], where: str) -> AuditRecord:
    """Parse lines of the record.

    Of several intents or results of a change, the first one counts. A later result can still confirm fields
    that the first one left in doubt.

    Args:
        lines: Oldest first.
        where: Their source, for messages.
    """
    intents: dict[str, dict[int, Any]] = {}
    results: dict[str, dict[int, Any]] = {}
    later_results: dict[str, list[Any]] = {}
    throttles: dict[str, ThrottleEntry] = {}
    damaged: list[int] = []
    later: list[int] = []
    for number, line in enumerate(lines, 1):
        document = _parse_line(line)
        version = document.get("format_version") if document is not None else None
        # Before the schema: a line of a later format is not damaged, and is reported differently.
        if type(version) is int and version > FORMAT_VERSION:
            later.append(number)
        elif document is None or not fits("audit", document):
            damaged.append(number)
        elif document["record"] == "throttle":
            _record_throttle(throttles, document)
        else:
            documents = intents if document["record"] == "intent" else results
            # The first one counts, as everybody who may write to the topic can add another one later.
            first = documents.setdefault(document["id"], {}).setdefault(document.get("part", 1), document)
            if documents is results and first is not document:
                later_results.setdefault(document["id"], []).append(document)
    entries = tuple(
        _parse_entry(intents[key], results.get(key), later_results.get(key, ())) for key in intents
    )
    orphans = [result[min(result)] for key, result in results.items() if key not in intents]
    problems = [
        _describe_skipped(damaged, where, "damaged, or not a record of kafkaform"),
        _describe_skipped(later, where, f"the format is newer than {FORMAT_VERSION}; use a newer kafkaform"),
        f"{where}: {counted(len(orphans), 'result')} without an intent" if orphans else "",
        *(f"{where}: a part of {entry.id} is missing" for entry in entries if not entry.complete),
    ]
    return AuditRecord(entries, tuple(filter(None, problems)), tuple(throttles.values()))


def merge_records(first: AuditRecord, second: AuditRecord) -> AuditRecord:
    """Merge two copies of one record, ordered by time; for entries that both have, `first` wins."""
    # An apply writes the same lines to all of its sinks, so equal ids are copies.
    known = {entry.id for entry in first.entries}
    additional = [entry for entry in second.entries if entry.id not in known]
    # Times are sorted only to merge: within one copy, the order of the lines is the order of the applies,
    # whatever the clocks of their machines.
    entries = first.entries
    if additional:
        entries = tuple(sorted((*entries, *additional), key=lambda entry: entry.at))
    throttles = {entry.id: entry for entry in first.throttles}
    for entry in second.throttles:
        existing = throttles.get(entry.id, entry)
        throttles[entry.id] = replace(existing, removed=existing.removed or entry.removed)
    in_order = sorted(throttles.values(), key=lambda entry: entry.at)
    return AuditRecord(entries, (*first.problems, *second.problems), tuple(in_order))


def _parse_line(line: str) -> dict[str, Any] | None:
    try:
        document = parse_json(line)
    except MalformedJson:
        return None
    return document if isinstance(document, dict) else None


def _describe_skipped(numbers: Sequence[int], where: str, reason: str) -> str:
    if not numbers:
        return ""
    count = f" and {len(numbers) - 1:,} more" if len(numbers) > 1 else ""
    return f"{where}: skipped record {numbers[0]}{count}: {reason}"


def _parse_entry(
    parts: Mapping[int, Any], results: Mapping[int, Any] | None, later: Sequence[Any]
) -> AuditEntry:
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
        outcome=_confirm_fields(_parse_result(results), later, fields) if results else None,
        # A part may be missing, as when an apply was killed between two messages.
        complete=set(parts) == set(range(1, first.get("parts", 1) + 1)),
        successions=tuple(
            SuccessionStep(step["from"], step["to"], step["step"]) for step in first.get("successions", ())
        ),
    )


def _record_throttle(throttles: dict[str, ThrottleEntry], document: Mapping[str, Any]) -> None:
    """Add throttles that were announced, or mark them as removed; the first announcement wins."""
    key = document["id"]
    if document["state"] == "set":
        entry = ThrottleEntry(
            key, document["run"], document["at"], document["cluster"], _parse_throttles(document)
        )
        throttles.setdefault(key, entry)
    elif key in throttles:
        throttles[key] = replace(throttles[key], removed=True)


def _parse_throttles(document: Mapping[str, Any]) -> Throttles:
    return Throttles(
        {broker["id"]: Rates(broker["leader"], broker["follower"]) for broker in document["brokers"]},
        {
            topic["name"]: ThrottledReplicas(frozenset(topic["leader"]), frozenset(topic["follower"]))
            for topic in document["topics"]
        },
    )


def _parse_result(parts: Mapping[int, Any]) -> AuditResult:
    first = parts[min(parts)]
    done = frozenset[str]().union(*(part["done"] for part in parts.values()))
    in_doubt = frozenset[str]().union(*(part.get("in_doubt", ()) for part in parts.values()))
    live = first.get("live", {})
    steps = tuple(first.get("steps", ()))
    return AuditResult(
        first["result"], first["at"], first["message"] or "", done, in_doubt - done, live, steps
    )


def _confirm_fields(
    outcome: AuditResult, later: Sequence[Any], fields: Sequence[RecordedField]
) -> AuditResult:
    """Move fields that later results confirm from `in_doubt` to `done`."""
    for document in later:
        confirmed = outcome.in_doubt.intersection(document["done"])
        if confirmed:
            done = outcome.done | confirmed
            # Only what was in doubt can be confirmed: fields that certainly failed stay failed.
            complete = all(field.path in done for field in fields)
            message = "; ".join(filter(None, (outcome.message, document["message"])))
            result = document["result"] if complete else outcome.result
            in_doubt = outcome.in_doubt - confirmed
            outcome = replace(outcome, result=result, message=message, done=done, in_doubt=in_doubt)
    return outcome

"""The reader of plan documents, which checks the schema (schemas/plan.schema.json) and consistency."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from kafkaform.core.errors import PlanFileError
from kafkaform.core.model import (
    Change,
    Create,
    Delete,
    Diagnostic,
    FieldChange,
    FieldValue,
    Location,
    Recreate,
    ResourceRef,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Update,
    risk_of,
)
from kafkaform.core.plans import (
    AffectedConsumer,
    ChangeOrigin,
    Consent,
    CostChange,
    Plan,
    PlannedChange,
    PlannedSuccession,
    UndeclaredConfig,
)
from kafkaform.core.printable import clipped, printable
from kafkaform.core.schema_files import first_problem
from kafkaform.core.strict_json import NEWER_HINT, Object, describe_violation, parse_document
from kafkaform.resources import KINDS, is_topic
from kafkaform.resources.replicas.facts import PLACEMENT
from kafkaform.resources.replicas.layout import format_assignment, parse_assignment

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOUN = "plan"
_AGAIN = "make it with `kafkaform plan --out FILE`"
SUBSET = "subset"
"""The member of a plan that covers only a part of the resources."""
COST = "cost"
SUCCESSIONS = "successions"
KEYED = "keyed"
"""The member of a change whose manifest declares whether order per key matters."""
DATA_UNREAD = "data_unread"
FIGURE = "figure"
ALSO = "also"
_RISKS = {risk.label: risk for risk in Risk}
_MAX_BROKER_ID = 2**31 - 1


class _Violation(Exception):  # noqa: N818 - internal: translated into a PlanFileError
    """A problem of a document, with its place."""


def parse_plan(text: str, file: str, *, newest: int) -> Object:
    """Parse strict JSON, and check that it is a plan of a supported format; raises PlanFileError."""
    document = parse_document(text, file, PlanFileError, noun=_NOUN, again=_AGAIN)
    if "plans" in document:
        raise PlanFileError(
            f"{printable(file)}: it is the set of the plans of several clusters",
            hint="apply it with --clusters, or use the plan of one cluster",
        )
    # Before the schema, which would report a field of the newer format instead.
    if (version := document["format_version"]) > newest:
        raise PlanFileError(
            f"{printable(file)}: the plan has format {version}, but this kafkaform reads formats up to "
            f"{newest}",
            hint=NEWER_HINT,
        )
    return document


def read_plan(document: Object, file: str) -> Plan:
    """Build the plan from a parsed document.

    Raises:
        PlanFileError: The document is not a plan of format 1; the message names the first wrong place.
    """
    # The schema comes first, so that the code below needs no checks of types. It checks only relations that a
    # schema cannot express.
    wrong = first_problem("plan", document)
    if wrong is None:
        try:
            return _build_plan(document)
        except _Violation as error:
            wrong = str(error)
    raise PlanFileError(describe_violation(file, _NOUN, wrong), hint=_AGAIN)


def _build_plan(document: Object) -> Plan:
    changes = tuple(
        _build_change(item, f"changes[{index}]") for index, item in enumerate(document["changes"])
    )
    _require_unique((str(change.ref) for change in changes), "changes", "more than one change of")
    return Plan(
        cluster_id=document["cluster"]["id"],
        changes=changes,
        unchanged=document["summary"]["unchanged"],
        unmanaged=_build_refs(document, "unmanaged"),
        undeclared=tuple(
            UndeclaredConfig(ref, item["path"], item["value"])
            for ref, item in zip(_build_refs(document, "undeclared"), document["undeclared"], strict=True)
        ),
        consents=tuple(
            Consent(item["resource"], item["hazard"], item["reason"]) for item in document["consent"]
        ),
        diagnostics=tuple(
            _build_diagnostic(item, f"diagnostics[{index}]")
            for index, item in enumerate(document["diagnostics"])
        ),
        broker_validated=document["broker_validated"],
        unknown=_build_refs(document, "unknown"),
        subset=document.get(SUBSET, False),
        readers=tuple(
            AffectedConsumer(ref, tuple(item["topics"]), item.get("team", ""))
            for ref, item in zip(_build_refs(document, "readers"), document.get("readers", ()), strict=True)
        ),
        unvalidated=_build_refs(document, "unvalidated"),
        cost=_build_cost(document[COST]) if COST in document else None,
        successions={
            item["successor"]: PlannedSuccession(item["predecessor"], item["quiet_ms"], item["recovery_ms"])
            for item in document.get(SUCCESSIONS, ())
        },
    )


def _build_cost(item: Object) -> CostChange:
    return CostChange(**{**item, "uncounted": tuple(item["uncounted"])})


def _build_change(item: Object, at: str) -> PlannedChange:
    ref = _build_ref(item, at)
    whole = RiskAssessment(
        _RISKS[item["risk"]],
        item["hazard"] or "",
        item["risk_reason"] or "",
        item["risk_remedy"],
        item.get(DATA_UNREAD, False),
        item.get(FIGURE, ""),
        tuple(item.get(ALSO, ())),
    )
    fields = tuple(map(_build_field, item["fields"]))
    _require_unique((field.path for field in fields), f"{at}.fields", "more than one field")
    change: Change
    match item["action"]:
        case "create":
            change = Create(ref, {field.path: field.after for field in fields}, whole)
        case "update":
            change = Update(ref, item["id"], fields)
        case "recreate":
            if not is_topic(ref):
                _fail(f"{at}.action", "only topics are recreated")
            before = {field.path: field.before for field in fields if field.before is not None}
            state = {field.path: field.after for field in fields if field.after is not None}
            change = Recreate(ref, item["id"], before, state, whole)
        case _:
            change = Delete(ref, item["id"], {field.path: field.before for field in fields}, whole)
    if not isinstance(change, Update):
        for index, field in enumerate(fields):
            # Otherwise an edited plan could show a deletion with fields that look safe.
            if field.assessment.risk is not whole.risk:
                _fail(f"{at}.fields[{index}].risk", "not the risk of the whole change")
    _check_placement(change, at)
    if whole.risk is not risk_of(change):
        _fail(f"{at}.risk", "not the worst risk of the fields")
    origin, earlier = _build_origin(item["origin"], at, fields) if "origin" in item else (None, ())
    return PlannedChange(
        change,
        Status(item["status"]),
        _build_location(item),
        item["reason"],
        item["remedy"],
        origin,
        earlier,
        item.get(KEYED),
        item.get("team", ""),
        item.get("layer", ""),
    )


def _build_field(item: Object) -> FieldChange:
    return FieldChange(
        path=item["path"],
        before=item["before"],
        after=item["after"],
        effective_before=item["effective_before"],
        effective_after=item["effective_after"],
        assessment=RiskAssessment(
            _RISKS[item["risk"]],
            item["hazard"] or "",
            item["reason"] or "",
            item["remedy"],
            item.get(DATA_UNREAD, False),
            item.get(FIGURE, ""),
            tuple(item.get(ALSO, ())),
        ),
        deferred=item["deferred"],
    )


def _check_placement(change: Change, at: str) -> None:
    """Refuse invalid replicas: they are strings that are parsed only later."""
    match change:
        case Update(fields=fields):
            sides = [[field.before, field.after] for field in fields if field.path == PLACEMENT]
        case Create(state=state) | Delete(state=state):
            sides = [[state[PLACEMENT]]] if PLACEMENT in state else []
        case Recreate(before=before, state=state):
            sides = [[side[PLACEMENT]] for side in (before, state) if PLACEMENT in side]
    for values in sides:
        counts = [_count_partitions(value) for value in values]
        if 0 in counts or counts != sorted(counts):
            _fail(f"{at}.fields", "an invalid placement, or one with fewer partitions than before")


def _count_partitions(value: FieldValue) -> int:
    """Return the number of partitions of a placement; 0 if it is not as `format_assignment` writes it."""
    try:
        assignment = parse_assignment(str(value))
    except ValueError:
        return 0
    known = max(map(max, assignment)) <= _MAX_BROKER_ID
    return len(assignment) if known and format_assignment(assignment) == value else 0


def _build_origin(
    item: Object, at: str, fields: tuple[FieldChange, ...]
) -> tuple[ChangeOrigin, tuple[str, ...]]:
    origin, earlier = ChangeOrigin(item["from"]), tuple(item["earlier"])
    if bool(earlier) != (origin is ChangeOrigin.MIXED) or not {field.path for field in fields}.issuperset(
        earlier
    ):
        _fail(f"{at}.origin.earlier", "not the fields that a mixed change has of its own")
    return origin, earlier


def _build_diagnostic(item: Object, at: str) -> Diagnostic:
    return Diagnostic(
        item["code"],
        Severity(item["severity"]),
        item["message"],
        _build_location(item),
        item["suggestion"],
        item["waived"],
        _build_ref(item["about"], f"{at}.about") if "about" in item else None,
        item.get("origin") == ChangeOrigin.BRANCH,
    )


def _build_refs(document: Object, key: str) -> tuple[ResourceRef, ...]:
    return tuple(_build_ref(item, f"{key}[{index}]") for index, item in enumerate(document.get(key, ())))


def _build_ref(item: Object, at: str) -> ResourceRef:
    if item["kind"] not in KINDS:
        _fail(f"{at}.kind", f"unknown kind {clipped(item['kind'], 60)!r}")
    return ResourceRef(item["kind"], item["name"])


def _build_location(item: Object) -> Location | None:
    source = item["source"]
    return None if source is None else Location(source["file"], source["line"], source.get("column", 1))


def _require_unique(names: Iterable[str], at: str, message: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            _fail(at, f"{message} {clipped(name, 200)}")
        seen.add(name)


def _fail(at: str, message: str) -> NoReturn:
    raise _Violation(f"{at}: {message}")

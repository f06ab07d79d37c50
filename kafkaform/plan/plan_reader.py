"""From a plan document to a `Plan`: what fits schemas/plan.schema.json, and does not contradict itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from kafkaform.core.errors import PlanFileError
from kafkaform.core.layout import format_assignment, parse_assignment
from kafkaform.core.model import (
    Change,
    ChangeOrigin,
    Consent,
    Create,
    Delete,
    Diagnostic,
    FieldChange,
    FieldValue,
    Location,
    Plan,
    PlannedChange,
    Reader,
    ResourceRef,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    UndeclaredConfig,
    Update,
    risk_of,
)
from kafkaform.core.printable import clipped, printable
from kafkaform.core.schema_files import first_problem
from kafkaform.resources import KINDS
from kafkaform.resources.topic.operations import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Iterable

Object: TypeAlias = dict[str, Any]

_AGAIN = "make it with `kafkaform plan --out`"
SUBSET = "subset"
"""The member that a plan of a part of the resources has, and no other."""
KEYED = "keyed"
"""The member of a change whose manifest says whether order per key matters."""
DATA_UNREAD = "data_unread"
FIGURE = "figure"
_RISKS = {risk.label: risk for risk in Risk}
_LONG = 300
_LARGEST_BROKER_ID = 2**31 - 1
_LARGEST = 2**63  # no number of Kafka's is larger


class _Violation(Exception):  # noqa: N818 - translated by whoever knows what was to be read
    """What is wrong with a document, and where."""


def parse_document(text: str, file: str, *, newest: int) -> Object:
    """Parse JSON that all readers take alike, and make sure that it is a plan of a format that is read here.

    No key is there twice (of two, readers of JSON differ in which one counts), and numbers are whole ones of
    at most 64 bits.

    Raises:
        PlanFileError: It is not.
    """
    where = printable(file)
    try:
        document = json.loads(
            text,
            parse_int=_whole,
            parse_float=_no_fraction,
            parse_constant=_no_fraction,
            object_pairs_hook=_distinct,
        )
    except json.JSONDecodeError as error:
        raise PlanFileError(
            f"{where}:{error.lineno}:{error.colno}: not JSON: {error.msg}", hint=_AGAIN
        ) from error
    except _Violation as error:
        raise PlanFileError(f"{where}: not a valid plan: {error}", hint=_AGAIN) from error
    except (ValueError, RecursionError) as error:
        raise PlanFileError(
            f"{where}: not a plan: a number or a nesting that no plan holds", hint=_AGAIN
        ) from error
    version = document.get("format_version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or type(version) is not int or version < 1:
        raise PlanFileError(f"{where}: not a kafkaform plan: it has no format_version", hint=_AGAIN)
    if version > newest:
        raise PlanFileError(
            f"{where}: the plan has format {version}, but this kafkaform reads formats up to {newest}",
            hint="apply it with the version of kafkaform that made it, or a newer one",
        )
    return document


def read_plan(document: Object, file: str) -> Plan:
    """Build the plan from a parsed document.

    Raises:
        PlanFileError: The document is not a plan of format 1; the message names the first wrong place.
    """
    wrong = first_problem("plan", document)
    if wrong is None:
        try:
            return _plan(document)
        except _Violation as error:
            wrong = str(error)
    raise PlanFileError(f"{printable(file)}: not a valid plan: {clipped(wrong, _LONG)}", hint=_AGAIN)


def _plan(document: Object) -> Plan:
    changes = tuple(_change(item, f"changes[{index}]") for index, item in enumerate(document["changes"]))
    _require_unique((str(change.ref) for change in changes), "changes", "more than one change of")
    return Plan(
        cluster_id=document["cluster"]["id"],
        changes=changes,
        unchanged=document["summary"]["unchanged"],
        unmanaged=_refs(document, "unmanaged"),
        undeclared=tuple(
            UndeclaredConfig(ref, item["path"], item["value"])
            for ref, item in zip(_refs(document, "undeclared"), document["undeclared"], strict=True)
        ),
        consents=tuple(
            Consent(item["resource"], item["hazard"], item["reason"]) for item in document["consent"]
        ),
        diagnostics=tuple(
            _diagnostic(item, f"diagnostics[{index}]") for index, item in enumerate(document["diagnostics"])
        ),
        broker_validated=document["broker_validated"],
        unknown=_refs(document, "unknown"),
        subset=SUBSET in document,
        readers=tuple(
            Reader(ref, tuple(item["topics"]), item.get("team", ""))
            for ref, item in zip(_refs(document, "readers"), document.get("readers", ()), strict=True)
        ),
    )


def _change(item: Object, at: str) -> PlannedChange:
    ref = _ref(item, at)
    whole = RiskAssessment(
        _RISKS[item["risk"]],
        item["hazard"] or "",
        item["risk_reason"] or "",
        item["risk_remedy"],
        item.get(DATA_UNREAD, False),
        item.get(FIGURE, ""),
    )
    fields = tuple(map(_field, item["fields"]))
    _require_unique((field.path for field in fields), f"{at}.fields", "more than one field")
    change: Change
    match item["action"]:
        case "create":
            change = Create(ref, {field.path: field.after for field in fields}, whole)
        case "update":
            change = Update(ref, item["id"], fields)
        case _:
            change = Delete(ref, item["id"], {field.path: field.before for field in fields}, whole)
    if not isinstance(change, Update):
        for index, field in enumerate(fields):
            if field.assessment.risk is not whole.risk:
                _fail(f"{at}.fields[{index}].risk", "not the risk of the whole change")
    _check_placement(change, at)
    if whole.risk is not risk_of(change):
        _fail(f"{at}.risk", "not the worst risk of the fields")
    origin, earlier = _origin(item["origin"], at, fields) if "origin" in item else (None, ())
    return PlannedChange(
        change,
        Status(item["status"]),
        _source(item),
        item["reason"],
        item["remedy"],
        origin,
        earlier,
        item.get(KEYED),
        item.get("team", ""),
    )


def _field(item: Object) -> FieldChange:
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
        ),
        deferred=item["deferred"],
    )


def _check_placement(change: Change, at: str) -> None:
    """Refuse replicas that nobody could carry out: they are texts that are parsed again later."""
    match change:
        case Update(fields=fields):
            sides = [[field.before, field.after] for field in fields if field.path == PLACEMENT]
        case Create(state=state) | Delete(state=state):
            sides = [[state[PLACEMENT]]] if PLACEMENT in state else []
    for values in sides:
        counts = [_partitions_of(value) for value in values]
        if 0 in counts or counts != sorted(counts):
            _fail(f"{at}.fields", "a placement that is not one, or has fewer partitions than before")


def _partitions_of(value: FieldValue) -> int:
    """How many partitions a placement has; 0 if it is none as `kafkaform.core.layout` writes it."""
    try:
        assignment = parse_assignment(str(value))
    except ValueError:
        return 0
    known = max(map(max, assignment)) <= _LARGEST_BROKER_ID
    return len(assignment) if known and format_assignment(assignment) == value else 0


def _origin(item: Object, at: str, fields: tuple[FieldChange, ...]) -> tuple[ChangeOrigin, tuple[str, ...]]:
    origin, earlier = ChangeOrigin(item["from"]), tuple(item["earlier"])
    if bool(earlier) != (origin is ChangeOrigin.MIXED) or not {field.path for field in fields}.issuperset(
        earlier
    ):
        _fail(f"{at}.origin.earlier", "not the fields that a mixed change has of its own")
    return origin, earlier


def _diagnostic(item: Object, at: str) -> Diagnostic:
    return Diagnostic(
        item["code"],
        Severity(item["severity"]),
        item["message"],
        _source(item),
        item["suggestion"],
        item["waived"],
        _ref(item["about"], f"{at}.about") if "about" in item else None,
    )


def _refs(document: Object, key: str) -> tuple[ResourceRef, ...]:
    return tuple(_ref(item, f"{key}[{index}]") for index, item in enumerate(document.get(key, ())))


def _ref(item: Object, at: str) -> ResourceRef:
    if item["kind"] not in KINDS:
        _fail(f"{at}.kind", f"no kind that this kafkaform knows: {clipped(item['kind'], 60)!r}")
    return ResourceRef(item["kind"], item["name"])


def _source(item: Object) -> Location | None:
    source = item["source"]
    return None if source is None else Location(source["file"], source["line"])


def _require_unique(names: Iterable[str], at: str, message: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            _fail(at, f"{message} {clipped(name, 200)}")
        seen.add(name)


def _fail(at: str, message: str) -> NoReturn:
    raise _Violation(f"{at}: {message}")


def _distinct(pairs: list[tuple[str, Any]]) -> Object:
    read = dict(pairs)
    if len(read) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Violation(f"the key {clipped(twice, 60)!r} is there twice")
    return read


def _whole(number: str) -> int:
    value = int(number)
    if abs(value) > _LARGEST:
        raise ValueError(number)
    return value


def _no_fraction(number: str) -> NoReturn:
    raise ValueError(number)

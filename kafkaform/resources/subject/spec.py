"""A Subject's spec: its schema and compatibility level.

spec["schemaType"]     str, one of schema.TYPES; AVRO by default
spec["schema"]         str: the text, also of a file that the manifest names
spec["references"]     list of {"name", "subject", "version"}, as in the manifest
spec["compatibility"]  str, a level
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kafkaform.core.model import FieldValue, Intent, Observed, State
from kafkaform.resources.base import Layer, ReportProblem, Written
from kafkaform.resources.subject.fields import COMPATIBILITY, PURGED, SCHEMA, STATE
from kafkaform.resources.subject.schema import (
    AVRO,
    SUFFIXES,
    RegisteredSchema,
    SchemaReference,
    compact,
    parse_value,
    write_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_LATEST = "latest"


def normalise(layer: Mapping[str, object], _report: ReportProblem) -> Layer:
    """Return a spec as it is: the type of its schema may be in another layer."""
    return dict(layer)


def resolve(layer: Layer, report: ReportProblem) -> tuple[State | None, Intent]:
    """Split a merged Subject spec into the desired state (None: absent) and the intent."""
    intent = Intent(deletion_protection=bool(layer.get("deletionProtection", False)), spec=layer)
    if layer.get(STATE) == "absent":
        return None, intent
    if layer.get(STATE) == PURGED:
        if intent.deletion_protection:
            report((STATE,), "deletionProtection prevents `state: purged`", "remove one of them")
        return {STATE: PURGED}, intent
    state: dict[str, FieldValue] = {}
    text = layer.get(SCHEMA)
    if not isinstance(text, str):
        report((), "spec.schema is missing", "write the schema, or `schema: {file: PATH}`")
    else:
        schema_type = cast("str", layer.get("schemaType", AVRO))
        try:
            registered = RegisteredSchema(compact(text, schema_type), schema_type, _parse_references(layer))
            state[SCHEMA] = registered.to_value()
        except ValueError as error:
            report((SCHEMA,), f"schema: {error}", None)
    if (level := layer.get(COMPATIBILITY)) is not None:
        state[COMPATIBILITY] = cast("str", level)
    return state, intent


def _parse_references(layer: Layer) -> tuple[SchemaReference, ...]:
    return tuple(
        SchemaReference(entry["name"], entry["subject"], None if version == _LATEST else int(version))
        for entry in cast("list[dict[str, Any]]", layer.get("references", []))
        for version in (entry.get("version", _LATEST),)
    )


def write(observed: Observed, _config: Mapping[str, object], _under: Mapping[str, object]) -> Written:
    """Return the spec with the latest version."""
    schema = parse_value(observed.state.get(SCHEMA))
    if schema is None:
        return Written({}, ("schema: the registry returned none",))
    spec: dict[str, object] = {} if schema.type == AVRO else {"schemaType": schema.type}
    spec[SCHEMA] = write_text(schema)
    if schema.references:
        spec["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version or _LATEST}
            for each in schema.references
        ]
    if (level := observed.state.get(COMPATIBILITY)) is not None:
        spec[COMPATIBILITY] = level
    return Written(spec, suffixes={SCHEMA: SUFFIXES[schema.type]})

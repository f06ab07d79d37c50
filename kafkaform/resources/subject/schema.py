"""A registered schema as the value of a field, and what differs between two of them.

The value is JSON text: `{"schemaType": ..., "schema": ..., "references": [...]}`. Two schemas are equal if
they differ in white space and the order of keys alone; a registry knows more equal forms, such as
`{"type": "string"}` and `"string"`, and its reader compares by them.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from kafkaform.core.values import Value
from kafkaform.core.wording import counted, listed, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkaform.core.model import FieldValue

AVRO, JSON, PROTOBUF = TYPES = ("AVRO", "JSON", "PROTOBUF")
SUFFIXES = {AVRO: ".avsc", JSON: ".json", PROTOBUF: ".proto"}
"""The end of the name of a file with a schema of each type."""

_NAMED = frozenset({"record", "error", "enum", "fixed"})
_MAX_DESCRIBED = 5
"""The most differences that a description names."""


class SchemaReference(Value):
    """A schema of another subject that a schema uses.

    Attributes:
        name: The name by which the schema uses it.
        version: Its version; None for the latest.
    """

    name: str
    subject: str
    version: int | None = None


class RegisteredSchema(Value):
    """A schema with its type and references.

    Attributes:
        text: The schema; JSON without white space, or the text of a Protobuf file.
        type: One of `TYPES`.
        references: The schemas that it uses.
        kept: The digest, if only that is known, as of a large schema in the record of applies.
    """

    text: str
    type: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    kept: str = ""

    @property
    def sha256(self) -> str:
        """The digest of its value."""
        return self.kept or sha256(self.to_value().encode()).hexdigest()

    @property
    def digest(self) -> str:
        """Eight digits by which people tell schemas apart."""
        return self.sha256[:8]

    def to_value(self) -> str:
        """Return the value of the field."""
        references = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in self.references
        ]
        value = {"schemaType": self.type, "schema": self.text, "references": references}
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_value(value: FieldValue) -> RegisteredSchema | None:
    """Return the schema of a value; None without one."""
    if not isinstance(value, str):
        return None
    try:
        data = json.loads(value)
        if "sha256" in data:
            return RegisteredSchema("", data["schemaType"], kept=data["sha256"])
        references = tuple(SchemaReference(**reference) for reference in data["references"])
        return RegisteredSchema(data["schema"], data["schemaType"], references)
    except (KeyError, TypeError, ValueError):
        return None  # the text of a manifest, or of a record that others have written


def shorten(value: str) -> str:
    """Return the value of a schema of which only the digest is kept."""
    schema = parse_value(value)
    if schema is None:
        return value[:0]
    return json.dumps({"schemaType": schema.type, "sha256": schema.sha256})


def compact(text: str, schema_type: str) -> str:
    """Return a schema in the form of `RegisteredSchema.text`.

    Raises:
        ValueError: It is not valid JSON, or not an Avro schema; says where. Or the type is unknown.
    """
    if schema_type not in TYPES:
        raise ValueError(f"{quoted(schema_type)} is none of {', '.join(TYPES)}")
    if schema_type == PROTOBUF:
        return text.strip() + "\n"
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} in line {error.lineno}") from None
    if schema_type == AVRO and (problem := next(_find_avro_problems(data, "", set()), None)) is not None:
        raise ValueError(problem)
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def write_text(schema: RegisteredSchema) -> str:
    """Return a schema as people write it in a file."""
    if schema.type == PROTOBUF:
        return schema.text
    return json.dumps(json.loads(schema.text), ensure_ascii=False, indent=2) + "\n"


def are_equal(a: FieldValue, b: FieldValue) -> bool:
    """Return whether two values are the same schema."""
    if a == b or a is None or b is None:
        return a == b
    first, second = parse_value(a), parse_value(b)
    return (
        first is not None
        and second is not None
        and first.type == second.type
        and (
            _are_equal_texts(first, second)
            if not (first.kept or second.kept)
            else first.sha256 == second.sha256
        )
    )


def _are_equal_texts(first: RegisteredSchema, second: RegisteredSchema) -> bool:
    return _normalise(first) == _normalise(second) and have_equal_references(first, second)


def _normalise(schema: RegisteredSchema) -> str:
    return schema.text if schema.type == PROTOBUF else json.dumps(json.loads(schema.text), sort_keys=True)


def have_equal_references(a: RegisteredSchema, b: RegisteredSchema) -> bool:
    """Return whether two schemas have the same references; the latest version is equal to each.

    A newer version of a referenced schema is no reason to register a new one of the schema that uses it.
    """
    if len(a.references) != len(b.references):
        return False
    pairs = zip(sorted(a.references, key=_get_name), sorted(b.references, key=_get_name), strict=True)
    return all(
        (first.name, first.subject) == (second.name, second.subject)
        and (None in (first.version, second.version) or first.version == second.version)
        for first, second in pairs
    )


def _get_name(reference: SchemaReference) -> str:
    return reference.name


# --- Avro ---------------------------------------------------------------------------------------------


def _find_avro_problems(schema: object, path: str, known: set[str]) -> Iterator[str]:
    """Yield what is not an Avro schema; a name that is not defined may be that of a reference."""
    where = f"{path}: " if path else ""
    if isinstance(schema, str):
        return
    if isinstance(schema, list):
        for branch in schema:
            yield from _find_avro_problems(branch, path, known)
        return
    if not isinstance(schema, dict) or "type" not in schema:
        yield f"{where}it is not an Avro schema: a type is missing"
        return
    kind = schema["type"]
    if isinstance(kind, dict | list):
        yield from _find_avro_problems(kind, path, known)
    elif kind in _NAMED:
        yield from _find_named_problems(schema, path, known)
    elif kind in ("array", "map"):
        below = "items" if kind == "array" else "values"
        yield from _find_avro_problems(schema.get(below), _join(path, below), known)
    elif kind == "object":
        yield f"{where}it is a JSON Schema: write `schemaType: JSON`"


def _find_named_problems(schema: Mapping[str, Any], path: str, known: set[str]) -> Iterator[str]:
    where, kind, name = f"{path}: " if path else "", schema["type"], schema.get("name")
    if not isinstance(name, str) or not name:
        yield f"{where}this {kind} has no name"
    elif name in known:
        yield f"{where}{quoted(name)} is defined twice"
    else:
        known.add(name)
    if kind in ("record", "error"):
        yield from _find_field_problems(schema.get("fields"), path, known)
    elif kind == "enum" and not isinstance(schema.get("symbols"), list):
        yield f"{where}this enum has no symbols"


def _find_field_problems(fields: object, path: str, known: set[str]) -> Iterator[str]:
    if not isinstance(fields, list):
        yield f"{path or 'the record'} has no list of fields"
        return
    names: set[str] = set()
    for field in fields:
        name = field.get("name") if isinstance(field, dict) else None
        if not isinstance(name, str):
            yield f"{path or 'the record'} has a field without a name"
        elif name in names:
            yield f"{_join(path, name)} is declared twice"
        else:
            names.add(name)
            yield from _find_avro_problems(field.get("type"), _join(path, name), known)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# --- differences --------------------------------------------------------------------------------------


def describe_difference(before: RegisteredSchema, after: RegisteredSchema) -> str:
    """Describe what differs, field by field if both are of Avro or JSON Schema."""
    if before.type != after.type:
        return f"schemaType {before.type} → {after.type}"
    differences = [*_list_differences(before, after)]
    if not have_equal_references(before, after):
        differences.append("references changed")
    if not differences:
        return "documentation or order changed"
    further = len(differences) - _MAX_DESCRIBED
    shown = "; ".join(differences[:_MAX_DESCRIBED])
    return f"{shown}; and {counted(further, 'further difference')}" if further > 0 else shown


def _list_differences(before: RegisteredSchema, after: RegisteredSchema) -> Iterator[str]:
    if before.type == PROTOBUF:
        old, new = before.text.splitlines(), after.text.splitlines()
        added, removed = [line for line in new if line not in old], [line for line in old if line not in new]
        if added or removed:
            yield f"{counted(len(added), 'line')} added, {len(removed)} removed"
        return
    flatten = _flatten_avro if before.type == AVRO else _flatten_json
    old_fields = dict(flatten(json.loads(before.text), ""))
    new_fields = dict(flatten(json.loads(after.text), ""))
    for path in [*old_fields, *(path for path in new_fields if path not in old_fields)]:
        old_field, new_field = old_fields.get(path), new_fields.get(path)
        if old_field == new_field:
            continue
        name = f"field {path}" if path else "schema"
        if new_field is None:
            yield f"{name} removed"
        elif old_field is None:
            yield f"{name} added: {new_field}"
        else:
            yield f"{name}: {old_field} → {new_field}"


def _flatten_avro(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield each field of a schema with its type and default, records before the fields in them."""
    for record in _list_records(schema):
        for field in record["fields"]:
            below = _join(path, field["name"])
            default = f"default {json.dumps(field['default'])}" if "default" in field else "no default"
            yield below, f"{_name_type(field['type'])}, {default}"
            yield from _flatten_avro(field["type"], below)
    if not path and not _list_records(schema):
        yield "", _name_type(schema)


def _list_records(schema: Any) -> list[Mapping[str, Any]]:
    """Return the records that a type is, or has as branches, items or values."""
    if isinstance(schema, list):
        return [record for branch in schema for record in _list_records(branch)]
    if not isinstance(schema, dict):
        return []
    if schema.get("type") in ("record", "error"):
        return [schema]
    return _list_records(schema.get("items") or schema.get("values") or schema.get("type"))


def _name_type(schema: Any) -> str:
    """Return a type in one line, such as `array of string` or `null or long`."""
    if isinstance(schema, list):
        return " or ".join(map(_name_type, schema))
    if not isinstance(schema, dict):
        return str(schema)
    kind = schema["type"]
    if logical := schema.get("logicalType"):
        return f"{_name_type(kind)} ({logical})"
    match kind:
        case "array":
            return f"array of {_name_type(schema['items'])}"
        case "map":
            return f"map of {_name_type(schema['values'])}"
        case "enum":
            return f"enum of {listed(cast('Sequence[str]', schema['symbols']))}"
        case "record" | "error" | "fixed":
            return str(schema["name"])
        case _:
            return _name_type(kind)


def _flatten_json(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield each property of a JSON Schema with its type, and whether it is required."""
    if not isinstance(schema, dict):
        return
    required = schema.get("required", ())
    for name, below in schema.get("properties", {}).items():
        kind = below.get("type", below.get("$ref", "any")) if isinstance(below, dict) else "any"
        yield _join(path, name), f"{kind}, {'required' if name in required else 'optional'}"
        yield from _flatten_json(below, _join(path, name))

"""The JSON Schemas, the one validator of documents, and the one explanation of what does not match.

jsonschema decides. jsonschema-rs, which is a hundred times as fast, spares it the valid documents. Schemas
are in the installed package, or beside it in a source checkout.
"""

from __future__ import annotations

import functools
import json
import re
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kafkaform.core.errors import KafkaformError
from kafkaform.core.printable import clipped
from kafkaform.core.values import Value
from kafkaform.core.wording import join_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

_PACKAGE = Path(__file__).resolve().parents[1]
# In a wheel, the schemas are package data; in a checkout or an editable install, a folder beside the package.
FOLDERS = (_PACKAGE / "schemas", _PACKAGE.parent / "schemas")


_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "null",
}
_BOUNDS = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than"}
_RULES = {
    "minLength": "must not be empty",
    "minItems": "must not be empty",
    "minProperties": "must not be empty",
    "uniqueItems": "contains a duplicate",
}
_MAX_KEY_LENGTH = 60


@functools.cache
def load_schema(name: str) -> dict[str, Any]:
    """Read `<name>.schema.json`; the result is shared, so treat it as read-only.

    Raises:
        KafkaformError: The schema is missing or cannot be read: the installation is broken.
    """
    for folder in FOLDERS:
        path = folder / f"{name}.schema.json"
        try:
            schema = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise KafkaformError(
                f"cannot read the JSON Schema {path}: {error}", hint="install kafkaform again"
            ) from error
        if isinstance(schema, dict):
            return schema
    folders = join_words(map(str, FOLDERS))
    raise KafkaformError(
        f"the JSON Schema {name!r} is not part of this installation (looked in {folders})",
        hint="install kafkaform again",
    )


@functools.cache
def find_marked(name: str, keyword: str) -> frozenset[str]:
    """Return the properties of a schema that have a keyword of ours, at any depth.

    Args:
        keyword: `x-secret`: the value is a reference to a secret. `x-verbatim`: scalars below it keep their
            source text, which the kind interprets. `x-required`: a manifest or the defaults must set it.
            `x-file`: the value may be `{file: PATH}`, and is then the text of that file. `x-unit`: text and
            numbers are a `duration` or a `size`.
    """
    whole = load_schema(name)
    return frozenset(_find_marked(whole, whole["$defs"], keyword))


def _find_marked(part: object, definitions: Mapping[str, Any], keyword: str) -> Iterator[str]:
    if isinstance(part, list):
        for item in part:
            yield from _find_marked(item, definitions, keyword)
    elif isinstance(part, dict):
        properties = part.get("properties")
        for field, schema in properties.items() if isinstance(properties, dict) else ():
            target = schema.get("$ref", "").removeprefix("#/$defs/")
            if definitions.get(target, schema).get(keyword):
                yield field
        for below in part.values():
            yield from _find_marked(below, definitions, keyword)


class FieldSchema(Value):
    """A field of a schema, with its references followed.

    Attributes:
        path: Its path, such as `spec.retention`; empty for the whole document.
        required: Whether the field above must have it.
    """

    path: str
    schema: Mapping[str, Any]
    required: bool = False


def find_field(name: str, path: str) -> FieldSchema:
    """Find the field of a schema at a path, such as `spec.config.retention.ms`.

    Args:
        path: The names of fields, separated by dots; those of lists and of mappings by name are the fields of
            their items.

    Raises:
        UnknownFieldError: There is no such field.
    """
    field, remaining = FieldSchema("", load_schema(name)), path
    while remaining:
        fields = list_fields(name, field)
        # A name may contain dots, as those of Kafka's configs do.
        step = max((each for each in fields if f"{remaining}.".startswith(f"{each}.")), key=len, default=None)
        if step is None:
            raise UnknownFieldError(field.path, remaining, tuple(fields))
        field, remaining = fields[step], remaining[len(step) + 1 :]
    return field


def list_fields(name: str, field: FieldSchema) -> dict[str, FieldSchema]:
    """Return the fields below a field of a schema by name."""
    below = _follow(name, field.schema)
    while not below.get("properties"):
        # A list has the fields of its items, and a mapping by name those of its values.
        item = below.get("items") or below.get("additionalProperties")
        if not isinstance(item, dict):
            return {}
        below = _follow(name, item)
    return {
        key: FieldSchema(
            f"{field.path}.{key}".removeprefix("."), _follow(name, schema), key in below.get("required", ())
        )
        for key, schema in below["properties"].items()
    }


def _follow(name: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part of a schema with what its reference adds; its own description comes first."""
    while "$ref" in schema:
        target = load_schema(name)["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        schema = {**target, **{keyword: value for keyword, value in schema.items() if keyword != "$ref"}}
    return schema


class UnknownFieldError(LookupError):
    """A field that a schema does not have.

    Attributes:
        parent: The path of the field above.
        name: The name, or the rest of the path.
        known: The fields that it has.
    """

    def __init__(self, parent: str, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name)
        self.parent, self.name, self.known = parent, name, known


def describe_type(schema: Mapping[str, Any]) -> str:
    """Return the type of a field in words: `a duration or a mapping`, `a list of texts`, `report | keep`."""
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    types = schema.get("type", "object")
    types = [types] if isinstance(types, str) else types
    words = [_TYPES[each] for each in types]
    if unit := schema.get("x-unit"):
        words = [
            f"a {unit}",
            *(_TYPES[each] for each in types if each not in {"string", "integer", "number"}),
        ]
    items = schema.get("items")
    if "array" in types and isinstance(items, dict) and isinstance(items.get("type"), str):
        plural = {"string": "texts", "integer": "whole numbers", "object": "mappings", "array": "lists"}
        words = [w if w != _TYPES["array"] else f"a list of {plural[items['type']]}" for w in words]
    return join_words(words, "or")


def find_errors(name: str, value: object) -> list[ValidationError]:
    """Return everything by which a value does not match a schema; a number such as `3.0` is not whole."""
    if _is_surely_valid(name, value):
        return []
    return list(_load_validator(name).iter_errors(value))


def fits(name: str, value: object) -> bool:
    """Return whether a value matches a schema."""
    return not find_errors(name, value)


def first_problem(name: str, document: object) -> str | None:
    """Return the most relevant problem with its path, such as `changes[3].id: must be null`; None if valid.

    It contains no value: a report may hold keys, which are personal data.
    """
    errors = find_errors(name, document)
    if not errors:
        return None
    from jsonschema.exceptions import best_match

    error = best_match(errors)
    place, value = error.json_path.removeprefix("$").removeprefix("."), cast("Any", error.instance)
    match error.validator:
        case "required":
            missing = next(key for key in cast("Any", error.validator_value) if key not in value)
            place, text = f"{place}.{missing}".removeprefix("."), "missing"
        case "additionalProperties":
            known = cast("Any", error.schema).get("properties", {})
            text = f"unknown key {clipped(min(key for key in value if key not in known), _MAX_KEY_LENGTH)!r}"
        case "dependentRequired":
            place = min(cast("Any", error.validator_value))
            text = describe_error(error)
        case _:
            text = describe_error(error)
    return f"{place or 'the document'}: {text}"


def describe_error(error: ValidationError) -> str:
    """Return what is wrong with one value, without the value: `must be a whole number`."""
    rule, limit = str(error.validator), cast("Any", error.validator_value)
    match rule:
        case "type":
            names = [_TYPES[name] for name in ([limit] if isinstance(limit, str) else limit)]
            return f"must be {' or '.join(filter(None, [', '.join(names[:-1]), names[-1]]))}"
        case "enum":
            return f"must be {'one of ' if len(limit) > 1 else ''}{', '.join(map(str, limit))}"
        case "const":
            return f"must be {str(limit).lower() if isinstance(limit, bool) else limit}"
        case "dependentRequired":
            return f"requires {join_words(limit[min(limit)])}"
        case "pattern":
            return f"does not match {limit}"
        case _ if rule in _BOUNDS:
            return f"must be {_BOUNDS[rule]} {limit}"
        case _:
            return _RULES.get(rule, f"does not match its schema ({rule})")


def _is_surely_valid(name: str, value: object) -> bool:
    """Return whether the quick validator accepts a value, and jsonschema would too."""
    is_valid, schema = _load_quick_validator(name)
    try:
        return is_valid(value) and not (_has_whole_float(value) and _may_be_inexact(value, schema))
    except (TypeError, ValueError):
        # Rust's text is UTF-8, which has no unpaired surrogates, and its numbers have 64 bits.
        return False


def _has_whole_float(value: object) -> bool:
    below = [value]
    # The list grows while it is walked; recursion would be slower.
    for each in below:
        if isinstance(each, dict):
            below.extend(each.values())
        elif isinstance(each, list):
            below.extend(each)
        elif isinstance(each, float) and each.is_integer():
            return True
    return False


def _may_be_inexact(value: object, schema: Any) -> bool:
    """Return whether a number such as `3.0` stands where the schema does not say that any number may."""
    if isinstance(value, float):
        return value.is_integer() and "number" not in schema.get("type", ())
    if isinstance(value, dict):
        known, additional = schema.get("properties", {}), schema.get("additionalProperties")
        return any(_may_be_inexact(below, known.get(key, additional) or {}) for key, below in value.items())
    return isinstance(value, list) and any(_may_be_inexact(item, schema.get("items", {})) for item in value)


@functools.cache
def _load_quick_validator(name: str) -> tuple[Callable[[object], bool], Any]:
    # jsonschema_rs imports decimal from Rust, and panics on a Ctrl-C during that: seen in 2 of 25 tries.
    import decimal  # noqa: F401

    from jsonschema_rs import Draft202012Validator

    schema = load_inlined_schema(name)
    return Draft202012Validator(schema).is_valid, schema


@functools.cache
def _load_validator(name: str) -> Draft202012Validator:
    # Takes 0.07 s, and few valid documents need it.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import extend

    def check_pattern(_: object, pattern: str, value: object, __: object) -> Iterator[ValidationError]:
        # In Python, `$` also matches before a line break at the end; in JSON Schema it does not.
        if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
            yield ValidationError("does not match")

    def is_whole(_: object, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", is_whole)
    strict = extend(Draft202012Validator, {"pattern": check_pattern}, type_checker=types)  # type: ignore[no-untyped-call]
    return cast("Draft202012Validator", strict(load_inlined_schema(name)))


@functools.cache
def load_inlined_schema(name: str) -> dict[str, Any]:
    """Return a schema with its references replaced: following them takes most of the time of a check."""
    whole = load_schema(name)
    return cast("dict[str, Any]", _inline_references(whole, whole))


def _inline_references(schema: Any, whole: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inline_references(item, whole) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inlined = {
        k: _inline_references(v, whole) for k, v in schema.items() if k not in {"$ref", "$defs", "$id"}
    }
    if "$ref" in schema:
        steps = schema["$ref"].removeprefix("#/").split("/")
        inlined |= _inline_references(functools.reduce(getitem, steps, whole), whole)
    return inlined

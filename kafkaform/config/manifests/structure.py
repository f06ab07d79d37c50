"""Checking a document against its JSON Schema, with messages that say where and what was meant."""

from __future__ import annotations

from functools import cache, reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from kafkaform.core.errors import Problem
from kafkaform.core.schema_files import acceptor, load_schema
from kafkaform.core.wording import nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from jsonschema import Draft202012Validator
    from jsonschema_rs import Draft202012Validator as Draft202012Acceptor

    from kafkaform.config.manifests.yaml12 import Data, Document, Path

_Steps: TypeAlias = tuple[str | int, ...]
_Finding: TypeAlias = tuple[_Steps | None, Problem]
"""A problem, and the path of what must go for it to be gone; None where something is missing."""

_KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "null",
}
_LONG = 200
_LONGEST_NUMBER = 19
_FEW = 6
_SPOKEN = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
"""What YAML 1.1 read as true and false."""
_BOUNDS = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than"}
_PLAIN = {
    "minLength": "must not be empty",
    "minItems": "must not be empty",
    "minProperties": "must not be empty",
    "uniqueItems": "contains a duplicate",
}


def structure_problems(
    document: Document, schema: str, *, part: str | None = None, path: Path = ()
) -> list[Problem]:
    """What is wrong with a document by a schema, each once; empty if it fits.

    Args:
        document: The document.
        schema: The schema's name.
        part: Which of its `$defs` to check against, instead of all of it.
        path: Which value of the document to check, instead of all of it.
    """
    problems = {problem for _, problem in _findings(document, schema, part, path)}
    return sorted(problems, key=lambda p: (p.location is None, p.location, p.message))


def sound_part(document: Document, schema: str, *, part: str | None = None, path: Path = ()) -> Data:
    """The value without everything that its schema refuses, so that the rest can be checked further.

    What the schema requires may still be missing; None if nothing is left.
    """
    culprits = {culprit for culprit, _ in _findings(document, schema, part, path) if culprit is not None}
    return _without(_value(document, path), culprits, tuple(path))


def _without(value: Data, culprits: Set[_Steps], at: _Steps) -> Data:
    if at in culprits:
        return None
    if isinstance(value, dict):
        return {
            key: _without(below, culprits, (*at, key))
            for key, below in value.items()
            if (*at, key) not in culprits
        }
    if isinstance(value, list):
        return [
            _without(below, culprits, (*at, index))
            for index, below in enumerate(value)
            if (*at, index) not in culprits
        ]
    return value


def _value(document: Document, path: Path) -> Data:
    value: Any = document.data
    for step in path:
        value = value[step]
    return cast("Data", value)


def _findings(document: Document, schema: str, part: str | None, path: Path) -> Iterator[_Finding]:
    value = _value(document, path)
    if _accepts(schema, part, value):
        return
    for error in _validator(schema, part).iter_errors(value):
        yield from _explained(error, document, (*path, *error.absolute_path), _schema(schema, part))
    for at, number in _inexact(value, _schema(schema, part), tuple(path)):
        message = f"{_dotted(at)} must be a whole number, and is written as a fraction or with an exponent"
        yield at, Problem(message, document.locate(at), f"write {int(number)}")


def _inexact(value: Data, schema: Any, at: _Steps) -> Iterator[tuple[_Steps, float]]:
    """Numbers such as `1e3` and `3.0` where the schema has whole numbers, which these are to JSON Schema."""
    if isinstance(value, float):
        if schema.get("type") == "integer" and value.is_integer():
            yield at, value
    elif isinstance(value, dict):
        others = schema.get("additionalProperties")
        for name, below in value.items():
            known = schema.get("properties", {}).get(name, others)
            if isinstance(known, dict):
                yield from _inexact(below, known, (*at, name))
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, below in enumerate(value):
            yield from _inexact(below, schema["items"], (*at, index))


def _has_float(value: Data) -> bool:
    """Whether a number is written as a fraction or with an exponent; in most documents there is none."""
    below = [value]
    for each in below:
        if isinstance(each, dict):
            below.extend(each.values())
        elif isinstance(each, list):
            below.extend(each)
        elif isinstance(each, float):
            return True
    return False


def _accepts(schema: str, part: str | None, value: Data) -> bool:
    """Whether a value fits, found out fifty times as fast as what is wrong with one that does not."""
    if _has_float(value) and next(_inexact(value, _schema(schema, part), ()), None) is not None:
        return False
    try:
        return _acceptor(schema, part).is_valid(value)
    except (TypeError, ValueError):  # a number or text that only Python knows: it is judged the slow way
        return False


@cache
def _acceptor(schema: str, part: str | None) -> Draft202012Acceptor:
    return acceptor(_schema(schema, part))


@cache
def _validator(schema: str, part: str | None) -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # 0.07 s that only bad input needs

    return Draft202012Validator(_schema(schema, part))


@cache
def _schema(schema: str, part: str | None) -> dict[str, Any]:
    whole = load_schema(schema)
    return cast("dict[str, Any]", _inlined(whole if part is None else whole["$defs"][part], whole))


def _inlined(schema: Any, whole: dict[str, Any]) -> Any:
    """The schema with its references replaced: to follow them takes most of the time of a check."""
    if isinstance(schema, list):
        return [_inlined(item, whole) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inlined = {k: _inlined(v, whole) for k, v in schema.items() if k not in {"$ref", "$defs", "$id"}}
    if "$ref" in schema:
        steps = schema["$ref"].removeprefix("#/").split("/")
        inlined |= _inlined(reduce(getitem, steps, whole), whole)
    return inlined


def _explained(error: Any, document: Document, path: _Steps, schema: Any) -> Iterator[_Finding]:
    """What a `jsonschema.ValidationError` says, for people; `schema` is the whole one."""
    rule, limit = error.validator, error.validator_value
    if rule == "additionalProperties":
        known = error.schema.get("properties", {})
        for extra in set(error.instance) - set(known):
            message = f"unknown field {quoted(extra)}{_inside(path)}"
            yield _unknown((*path, extra), document, message, known, _home(str(extra), schema))
    elif rule == "required":
        for field in set(limit) - set(error.instance):
            only = error.schema.get("properties", {}).get(field, {}).get("const")
            hint = None if only is None else f"write {field}: {only}"
            yield None, Problem(f"{_dotted((*path, field))} is missing", document.locate(path), hint)
    else:
        message, hint = _refused(rule, limit, error)
        yield path, Problem(f"{_dotted(path)} {message}", document.locate(path), hint)


def _home(name: str, schema: Any) -> str | None:
    """Where the schema has a field of this name, nearest to the top; None if it has none."""
    level: list[tuple[_Steps, Any]] = [((), schema)]
    while level:
        below: list[tuple[_Steps, Any]] = []
        for path, found in level:
            properties = found.get("properties", {})
            if name in properties:
                return (
                    f"it belongs in {_dotted(path)}"
                    if path
                    else "it belongs to the top level: indent it less"
                )
            below += [((*path, step), part) for step, part in properties.items()]
        level = below
    return None


def _unknown(
    path: _Steps, document: Document, message: str, known: dict[str, Any], home: str | None
) -> _Finding:
    near = nearest(str(path[-1]), known)
    hint = home or (f"did you mean {near!r}?" if near else f"known here: {', '.join(sorted(known))}")
    return path, Problem(message, document.locate(path, key=True), hint)


def _refused(rule: str, limit: Any, error: Any) -> tuple[str, str | None]:
    """What is wrong with one value, and a hint."""
    hint: str | None = None
    if rule in _PLAIN:
        return _PLAIN[rule], None
    if rule == "type":
        names = [_KINDS[name] for name in ([limit] if isinstance(limit, str) else limit)]
        wanted = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        types = frozenset([limit] if isinstance(limit, str) else limit)
        hint = _retyped(error.instance, types, error)
    elif rule in {"enum", "const"}:
        choices = [str(choice) for choice in (limit if rule == "enum" else [limit])]
        wanted = f"{'one of ' if len(choices) > 1 else ''}{', '.join(choices)}"
        near = nearest(str(error.instance), choices)
        if near:
            return f"must be {wanted}, not {_shown(error.instance)}", f"did you mean {near!r}?"
    elif rule in _BOUNDS:
        wanted = f"{_BOUNDS[rule]} {limit}"
    else:
        return f"does not fit the schema: {error.message}", None
    return f"must be {wanted}, not {_shown(error.instance)}", hint


def _retyped(value: object, wanted: Set[str], error: Any) -> str | None:
    """How a value of the wrong type was probably meant."""
    path = list(error.absolute_path)
    match value:
        case bool() | int() | float() if "string" in wanted:
            return f"quote it, as in '{_shown(value)}'"
        case str() if "boolean" in wanted and value.lower() in _SPOKEN:
            return f"write {_SPOKEN[value.lower()]}"
        case str() if "integer" in wanted and value.isascii() and value.isdigit():
            return f"write {int(value)} without quotes" if len(value) < _LONGEST_NUMBER else None
        case str() | int() if "array" in wanted:
            return f"write a list: [{_shown(value) if isinstance(value, int) else value}]"
        case list() if "object" in wanted:
            return "write lines `name: value` without dashes"
        case dict() if value and path[-2:-1] == ["config"] and "." not in path[-1]:
            return f"write the name in one piece: {path[-1]}.{next(iter(value))}"
        case str() | int() if wanted == {"object"} and 0 < len(error.schema.get("properties", ())) <= _FEW:
            return f"its fields: {', '.join(sorted(error.schema['properties']))}"
        case _:
            return None


def _dotted(path: _Steps) -> str:
    name = ".".join(map(str, path))
    return (name if name.isprintable() and len(name) <= _LONG else quoted(name)) or "the document"


def _inside(path: _Steps) -> str:
    return f" in {_dotted(path)}" if path else ""


def _shown(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return quoted(value)
        case _:
            text = str(value)
            return text if len(text) <= _LONG else f"{text[:20]}…"

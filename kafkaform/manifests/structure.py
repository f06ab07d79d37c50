"""Checking a document against its JSON Schema, with messages that say where and what was meant."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from kafkaform.errors import Problem
from kafkaform.schema_files import load_schema
from kafkaform.spelling import nearest

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

    from kafkaform.manifests.yaml12 import Document, Path

_KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "null",
}


def structure_problems(
    document: Document, schema: str, *, part: str | None = None, path: Path = ()
) -> list[Problem]:
    """What is wrong with a document by a schema; empty if it fits.

    Args:
        document: The document.
        schema: The schema's name.
        part: Which of its `$defs` to check against, instead of all of it.
        path: Which value of the document to check, instead of all of it.
    """
    value: Any = document.data
    for step in path:
        value = value[step]
    validator = _validator(schema, part)
    problems = [
        problem for error in validator.iter_errors(value) for problem in _problems(error, document, path)
    ]
    return sorted(problems, key=lambda p: (p.location is None, p.location, p.message))


@cache
def _validator(schema: str, part: str | None) -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - 0.07 s that --help does not need

    whole = load_schema(schema)
    if part is None:
        return Draft202012Validator(whole)
    return Draft202012Validator({"$defs": whole["$defs"], "$ref": f"#/$defs/{part}"})


def _problems(error: ValidationError, document: Document, prefix: Path) -> Iterator[Problem]:
    path = [*prefix, *error.absolute_path]
    name = _dotted(path)
    match error.validator:
        case "additionalProperties":
            known = error.schema.get("properties", {})
            for extra in sorted(set(error.instance) - set(known), key=str):
                near = nearest(extra, known)
                hint = f"did you mean {near!r}?" if near else f"known here: {', '.join(sorted(known))}"
                place = document.locate([*path, extra], key=True)
                yield Problem(f"unknown field {extra!r}{_inside(path)}", place, hint)
        case "required":
            missing = [field for field in error.validator_value if field not in error.instance]
            for field in missing:
                yield Problem(f"{_dotted([*path, field])} is missing", document.locate(path))
        case "type":
            allowed = error.validator_value
            names = [_KINDS[t] for t in ([allowed] if isinstance(allowed, str) else allowed)]
            message = f"{name} must be {' or '.join(names)}, not {_shown(error.instance)}"
            yield Problem(message, document.locate(path))
        case "enum" | "const":
            choices = error.validator_value if error.validator == "enum" else [error.validator_value]
            near = nearest(str(error.instance), [str(choice) for choice in choices])
            hint = f"did you mean {near!r}?" if near else None
            listed = ", ".join(map(str, choices))
            message = f"{name} must be {'one of ' if len(choices) > 1 else ''}{listed}, not {_shown(error.instance)}"
            yield Problem(message, document.locate(path), hint)
        case "minimum" | "maximum" | "exclusiveMinimum":
            bound = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than"}[error.validator]
            message = f"{name} must be {bound} {error.validator_value}, not {_shown(error.instance)}"
            yield Problem(message, document.locate(path))
        case _:
            yield Problem(f"{name}: {error.message}", document.locate(path))


def _dotted(path: list[Any]) -> str:
    return ".".join(str(step) for step in path) or "the document"


def _inside(path: list[Any]) -> str:
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
        case str() if len(value) > 60:
            return f"{value[:57]!r}…"
        case _:
            return repr(value)

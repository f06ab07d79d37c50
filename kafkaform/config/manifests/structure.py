"""The check of a document against its JSON Schema, with the place of each problem and a hint."""

from __future__ import annotations

from functools import reduce
from itertools import compress
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaform.config.manifests.other_names import fold_name, suggest_field
from kafkaform.config.manifests.templates import find_placeholder
from kafkaform.config.manifests.yaml12 import Data, Document
from kafkaform.core.errors import Problem
from kafkaform.core.schema_files import describe_error, find_errors, load_inlined_schema
from kafkaform.core.wording import count_shared, nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

_Steps: TypeAlias = tuple[str | int, ...]
_Finding: TypeAlias = tuple[_Steps, Problem]
"""A problem, and the path of the value to remove so that nothing sees it."""

_MAX_VALUE_LENGTH = 200
# The digits of a 64-bit number.
_MAX_NUMBER_DIGITS = 19
_MAX_NAMED_FIELDS = 6
_YAML11_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
"""The booleans of YAML 1.1."""
_SHOWN = frozenset({"type", "enum", "const", "minimum", "maximum", "exclusiveMinimum"})
"""The rules whose problems show the value."""


def check_structure(document: Document, schema: str) -> tuple[list[Problem], Document]:
    """Find the problems of a document by a schema, each once, and return it without what they are about.

    What is left is for further checks, and keeps its places in the file. A mapping goes with a field that it
    requires, unless it is the document, its metadata or its spec; if all is rejected, the data is None.
    """
    findings = [*_find_problems(document, schema)]
    problems = sorted(
        {problem for _, problem in findings}, key=lambda p: (p.location is None, p.location, p.message)
    )
    while findings:
        # Removed, not defaulted: checks of the remaining fields must not see values that nobody wrote.
        size, document = document.size, _copy_without(document, {culprit for culprit, _ in findings})
        if document.size == size:
            break
        findings = [*_find_problems(document, schema)]
    return problems, document


def _copy_without(document: Document, culprits: Set[_Steps]) -> Document:
    if () in culprits:
        return Document(document.file, None, document.marks[:2])
    marks: list[int] = []
    places = iter(zip(document.marks[::2], document.marks[1::2], strict=True))

    def keep_place(is_kept: bool) -> None:
        place = next(places)
        marks.extend(place if is_kept else ())

    def copy(value: Data, at: _Steps, is_kept: bool) -> Data:
        keep_place(is_kept)
        if isinstance(value, dict):
            mapping: dict[str, Data] = {}
            for key, below in value.items():
                keeps = is_kept and (*at, key) not in culprits
                keep_place(keeps)
                copied = copy(below, (*at, key), keeps)
                mapping |= {key: copied} if keeps else {}
            return mapping
        if isinstance(value, list):
            kept = [is_kept and (*at, index) not in culprits for index in range(len(value))]
            copies = [copy(item, (*at, index), kept[index]) for index, item in enumerate(value)]
            return [*compress(copies, kept)]
        return value

    return Document(document.file, copy(document.data, (), True), marks)


def _find_problems(document: Document, schema: str) -> Iterator[_Finding]:
    for error in find_errors(schema, document.data):
        yield from _explain_error(error, document, tuple(error.absolute_path), load_inlined_schema(schema))


def _explain_error(error: Any, document: Document, path: _Steps, schema: Any) -> Iterator[_Finding]:
    """Translate a `jsonschema.ValidationError` for users; `schema` is the whole schema."""
    rule, limit = error.validator, error.validator_value
    types = error.schema.get("type", ())
    if types != "object" and (template := find_placeholder(document, path, error.instance)) is not None:
        yield path, Problem(template.message, document.locate(path))
    elif rule == "additionalProperties":
        known = error.schema.get("properties", {})
        parent = f" in {_join_path(path)}" if path else ""
        # jsonschema reports all unknown fields as one error of their mapping.
        for extra in set(error.instance) - set(known):
            message = f"unknown field {quoted(extra)}{parent}"
            yield _explain_unknown_field((*path, extra), document, message, known, schema)
    elif rule == "required":
        # One error of jsonschema for each field, and each has all of them: duplicates are removed by the
        # caller.
        for field in set(limit) - set(error.instance):
            only = error.schema.get("properties", {}).get(field, {}).get("const")
            hint = None if only is None else f"write {field}: {only}"
            # Other checks can do without what a document, its metadata or its spec lacks.
            culprit = path if len(path) > 1 else (*path, field)
            yield culprit, Problem(f"{_join_path((*path, field))} is missing", document.locate(path), hint)
    elif "propertyNames" in error.absolute_schema_path:
        named = (*path, error.instance)
        message = f"{_join_path(path)} has the invalid name {quoted(error.instance)}"
        yield named, Problem(f"{message}: it {describe_error(error)}", document.locate(named, key=True))
    else:
        message = describe_error(error) + (f", not {_display(error.instance)}" if rule in _SHOWN else "")
        problem = Problem(
            f"{_join_path(path)} {message}", document.locate(path), _suggest(error, path, schema)
        )
        yield path, problem


def _suggest(error: Any, path: _Steps, schema: Any) -> str | None:
    """Return a hint with the probable intention of a value."""
    rule, limit = error.validator, error.validator_value
    if rule in {"enum", "const"}:
        near = nearest(str(error.instance), map(str, limit if rule == "enum" else [limit]))
        return f"did you mean {near!r}?" if near else None
    if rule != "type":
        return None
    wanted = frozenset([limit] if isinstance(limit, str) else limit)
    if (hint := _suggest_value(error.instance, wanted, error)) is not None:
        return hint
    *above, step, _ = error.absolute_schema_path if len(error.absolute_schema_path) > 1 else (None, None)
    # Only where the mapping has names of its own: those of the user may equal any field.
    if step == "additionalProperties" and "properties" in reduce(getitem, above, schema):
        return _find_home(path, schema)
    return None


def _find_home(path: _Steps, schema: Any) -> str | None:
    """Return a hint with the place of a field that has the name of an unknown one; None if there is none.

    Case and separators do not matter: people write `bootstrapServers`.
    """
    folded = fold_name(str(path[-1]))
    homes: dict[_Steps, str] = {}
    level: list[tuple[_Steps, Any]] = [((), schema)]
    while level:
        below: list[tuple[_Steps, Any]] = []
        for place, part in level:
            for known, field in part.get("properties", {}).items():
                below.append(((*place, known), field))
                if fold_name(known) == folded:
                    homes[place] = known
            if isinstance(part.get("additionalProperties"), dict):
                # Within a cluster, the place is in the same one.
                same = len(path) - 1 > len(place) and path[: len(place)] == place
                below.append(((*place, path[len(place)] if same else "NAME"), part["additionalProperties"]))
        level = below
    if not homes:
        return None
    # The topmost of the places beside which the field stands, or else of all.
    place = max(homes, key=lambda place: (count_shared(place, path), -len(place)))
    renamed = "" if homes[place] == path[-1] else f", as {homes[place]}"
    if not place:
        return f"it belongs to the top level{renamed}: indent it less"
    return f"it belongs in {_join_path(place)}{renamed}"


def _explain_unknown_field(
    path: _Steps, document: Document, message: str, known: dict[str, Any], schema: Any
) -> _Finding:
    name = str(path[-1])
    near = nearest(name, known)
    hint = (
        suggest_field(name, known)
        or _find_home(path, schema)
        or (f"did you mean {near!r}?" if near else f"known fields: {', '.join(sorted(known))}")
    )
    return path, Problem(message, document.locate(path, key=True), hint)


def _suggest_value(value: object, wanted: Set[str], error: Any) -> str | None:
    """Return a hint with the probable intention of a value of the wrong type."""
    path = list(error.absolute_path)
    match value:
        case float() if "integer" in wanted and value.is_integer():
            return f"write {int(value)}"
        case bool() | int() | float() if "string" in wanted:
            return f"quote it, as in '{_display(value)}'"
        case str() if "boolean" in wanted and value.lower() in _YAML11_BOOLEANS:
            return f"write {_YAML11_BOOLEANS[value.lower()]}"
        case str() if "integer" in wanted and value.isascii() and value.isdigit():
            return f"write {int(value)} without quotes" if len(value) < _MAX_NUMBER_DIGITS else None
        case str() | int() if "array" in wanted:
            return f"write a list: [{_display(value) if isinstance(value, int) else value}]"
        case list() if "object" in wanted:
            return "write lines `name: value` without dashes"
        case dict() if value and path[-2:-1] == ["config"] and "." not in path[-1]:
            return f"write the name in one piece: {path[-1]}.{next(iter(value))}"
        case str() | int() if (
            wanted == {"object"} and 0 < len(error.schema.get("properties", ())) <= _MAX_NAMED_FIELDS
        ):
            return f"its fields: {', '.join(sorted(error.schema['properties']))}"
        case _:
            return None


def _join_path(path: _Steps) -> str:
    name = ".".join(map(str, path))
    return (name if name.isprintable() and len(name) <= _MAX_VALUE_LENGTH else quoted(name)) or "the document"


def _display(value: object) -> str:
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
            return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:20]}…"

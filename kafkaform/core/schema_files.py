"""The JSON Schemas, and the validation of documents against them.

jsonschema-rs validates, fifty times as fast as jsonschema; only the latter explains a failure well. The
schemas are in the installed package, or beside it in a source checkout.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kafkaform.core.errors import KafkaformError
from kafkaform.core.printable import clipped
from kafkaform.core.wording import join_words

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema_rs import Draft202012Validator

_PACKAGE = Path(__file__).resolve().parents[1]
# In a wheel, the schemas are package data; in a checkout or an editable install, a folder beside the package.
FOLDERS = (_PACKAGE / "schemas", _PACKAGE.parent / "schemas")


_TYPES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}


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


def acceptor(schema: dict[str, Any]) -> Draft202012Validator:
    """Return a fast validator for a schema that does not explain failures."""
    # jsonschema_rs imports decimal from Rust, and panics on a Ctrl-C during that: seen in 2 of 25 tries.
    import decimal  # noqa: F401

    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator(schema)


def fits(name: str, document: object) -> bool:
    """Return whether a document matches a schema."""
    try:
        return _load_acceptor(name).is_valid(document)
    except (TypeError, ValueError):
        # Rust's text is UTF-8, which has no unpaired surrogates; JSON can contain them as escapes.
        return next(_load_validator(name).iter_errors(document), None) is None


def first_problem(name: str, document: object) -> str | None:
    """Return the most relevant problem with its path, such as `changes[3].id: must be null`; None if valid.

    It contains no value: a report may hold keys, which are personal data.
    """
    if fits(name, document):
        return None
    from jsonschema.exceptions import best_match

    error = best_match(_load_validator(name).iter_errors(document))
    # The libraries differ in text that ends with a line break: in Python, `$` matches before it.
    if error is None:
        return "the document does not match its schema"
    return _describe_error(error, error.json_path.removeprefix("$").removeprefix("."))


@functools.cache
def _load_acceptor(name: str) -> Draft202012Validator:
    return acceptor(load_schema(name))


@functools.cache
def _load_validator(name: str) -> Any:
    from jsonschema import Draft202012Validator  # takes 0.07 s, and only invalid documents need it

    return Draft202012Validator(load_schema(name))


def _describe_error(error: ValidationError, place: str) -> str:
    rule, wanted, value = (
        str(error.validator),
        cast("Any", error.validator_value),
        cast("Any", error.instance),
    )
    match rule:
        case "required":
            place = f"{place}.{next(key for key in wanted if key not in value)}".removeprefix(".")
            text = "missing"
        case "additionalProperties":
            known = cast("Any", error.schema).get("properties", {})
            text = f"unknown key {clipped(min(key for key in value if key not in known), 60)!r}"
        case "type":
            *most, last = [_TYPES[name] for name in ([wanted] if isinstance(wanted, str) else wanted)]
            text = f"must be {', '.join(most)}{' or ' if most else ''}{last}"
        case "enum":
            text = f"must be one of {', '.join(map(str, wanted))}"
        case "const":
            text = f"must be {wanted}"
        case "minimum":
            text = f"must be at least {wanted}"
        case "minLength" | "minItems":
            text = "must not be empty"
        case "dependentRequired":
            place, text = min(wanted), f"requires {', '.join(wanted[min(wanted)])}"
        case "pattern":
            text = f"does not match {wanted}"
        case _:
            text = f"does not match its schema ({rule})"
    return f"{place or 'the document'}: {text}"

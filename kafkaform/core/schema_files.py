"""The JSON Schemas: where they are, whether a document fits one, and what is wrong with one that does not.

jsonschema-rs says whether, fifty times as fast as jsonschema, which says what. The schemas are in the
installed package, or beside it in a source checkout.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kafkaform.core.errors import KafkaformError
from kafkaform.core.printable import clipped

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema_rs import Draft202012Validator

_PACKAGE = Path(__file__).resolve().parents[1]
# A wheel carries the schemas as package data; in a checkout (and an editable install) they are its sibling.
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
        KafkaformError: There is no such schema, or it cannot be read: the installation is broken.
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
    looked = " and ".join(str(folder) for folder in FOLDERS)
    raise KafkaformError(
        f"the JSON Schema {name!r} is not part of this installation (looked in {looked})",
        hint="install kafkaform again",
    )


def acceptor(schema: dict[str, Any]) -> Draft202012Validator:
    """A validator that says quickly whether a value fits a schema, and nothing of what is wrong with one."""
    # jsonschema_rs imports it from Rust, and panics where a Ctrl-C comes meanwhile: seen in 2 of 25 tries.
    import decimal  # noqa: F401

    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator(schema)


def fits(name: str, document: object) -> bool:
    """Whether a document fits a schema."""
    try:
        return _acceptor(name).is_valid(document)
    except (TypeError, ValueError):  # a number or text that only Python knows: it is judged the slow way
        return next(_validator(name).iter_errors(document), None) is None


def first_problem(name: str, document: object) -> str | None:
    """The problem that explains most, with its place, such as `changes[3].id: must be null`.

    It repeats no value: a report may hold keys, which are personal data. None if the document fits.
    """
    if fits(name, document):
        return None
    from jsonschema.exceptions import best_match

    error = best_match(_validator(name).iter_errors(document))
    if error is None:  # as a text with a line break at its end, which `$` means in Python, and not elsewhere
        return "the document: not of the form that its schema has"
    return _worded(error, error.json_path.removeprefix("$").removeprefix("."))


@functools.cache
def _acceptor(name: str) -> Draft202012Validator:
    return acceptor(load_schema(name))


@functools.cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator  # 0.07 s that only bad input needs

    return Draft202012Validator(load_schema(name))


def _worded(error: ValidationError, place: str) -> str:
    rule, wanted, value = (
        str(error.validator),
        cast("Any", error.validator_value),
        cast("Any", error.instance),
    )
    what = f"does not have the form of one ({rule})"
    match rule:
        case "required":
            place = f"{place}.{next(key for key in wanted if key not in value)}".removeprefix(".")
            what = "missing"
        case "additionalProperties":
            known = cast("Any", error.schema).get("properties", {})
            what = f"unknown key {clipped(min(key for key in value if key not in known), 60)!r}"
        case "type":
            *most, last = [_TYPES[name] for name in ([wanted] if isinstance(wanted, str) else wanted)]
            what = f"must be {', '.join(most)}{' or ' if most else ''}{last}"
        case "enum":
            what = f"must be one of {', '.join(map(str, wanted))}"
        case "const":
            what = f"must be {wanted}"
        case "minimum":
            what = f"must be at least {wanted}"
        case "minLength" | "minItems":
            what = "must not be empty"
        case "dependentRequired":
            place, what = min(wanted), f"must not be there without {', '.join(wanted[min(wanted)])}"
        case "pattern":
            what = f"does not match {wanted}"
        case _:
            what = f"does not fit its schema ({rule})"
    return f"{place or 'the document'}: {what}"

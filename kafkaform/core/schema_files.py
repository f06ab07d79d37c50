"""Where the JSON Schemas are: in the installed package, or beside it in a source checkout."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaform.core.errors import KafkaformError

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

_PACKAGE = Path(__file__).resolve().parents[1]
# A wheel carries the schemas as package data; in a checkout (and an editable install) they are its sibling.
FOLDERS = (_PACKAGE / "schemas", _PACKAGE.parent / "schemas")


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

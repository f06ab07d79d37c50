"""The JSON Schemas: valid, up to date, and of use to editors."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[3]
SCHEMAS = sorted((ROOT / "schemas").glob("*.json"))


def read(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text("utf-8"))
    return schema


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_schemas_are_valid_with_local_references(path: Path) -> None:
    schema = json.loads(path.read_text("utf-8"))
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(schema)):
        target = schema
        assert reference.startswith("#/")
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]


CONFIG = Draft202012Validator(read("config"))


def count_errors(**document: object) -> int:
    """Count what is wrong with a configuration."""
    head = {"apiVersion": "kafkaform/v1", "kind": "Config"}
    return len(list(CONFIG.iter_errors({**head, **document})))


@pytest.mark.parametrize(
    ("kind", "spec", "is_valid"),
    [
        ("ClientQuota", {"config": {"request_percentage": 50}}, True),
        ("ClientQuota", {"config": {"request_percentage": 50}, "entity": {"user": "alice"}}, False),
        ("Topic", {"partitions": 3, "overrides": {"dev": {"partitions": 1}}}, True),
        ("Topic", {"partitons": 3}, False),
        ("Topic", {"overrides": {"dev": {"partitons": 3}}}, False),
        # No default can make every topic a tombstone.
        ("Topic", {"state": "absent"}, False),
        ("Topic", {"overrides": {"dev": {"state": "absent"}}}, False),
    ],
)
def test_schema_checks_defaults_as_spec(kind: str, spec: dict[str, object], is_valid: bool) -> None:
    assert count_errors(defaults={kind: spec}) == (0 if is_valid else 1)

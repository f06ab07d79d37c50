"""The JSON Schemas: valid, up to date, and of use to editors."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kafkaform.config.client_properties.table import ALIASES, PROPERTIES
from kafkaform.core import kafka_configs
from kafkaform.resources import KINDS

ROOT = Path(__file__).parents[3]
SCHEMAS = sorted((ROOT / "schemas").glob("*.json"))


def read(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text("utf-8"))
    return schema


@pytest.fixture
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_schemas", ROOT / "scripts" / "generate_schemas.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(generator: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["generate_schemas.py", *arguments])
    code: int = generator.main()
    return code


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_is_a_valid_schema_of_2020_12(path: Path) -> None:
    schema = json.loads(path.read_text("utf-8"))
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_every_reference_leads_somewhere_in_the_same_file(path: Path) -> None:
    schema = json.loads(path.read_text("utf-8"))

    def references(value: object) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [r for item in value.values() for r in references(item)]
        return [r for item in value for r in references(item)] if isinstance(value, list) else []

    for reference in references(schema):
        target = schema
        assert reference.startswith("#/")
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]


def test_every_kind_has_defaults_in_the_schema_of_the_configuration() -> None:
    # Every kind has its place in the config file.
    config = Draft202012Validator(read("config"))
    for kind in KINDS:
        document = {
            "apiVersion": "kafkaform/v1",
            "kind": "Config",
            "defaults": {kind: {"deletionProtection": True}},
            "policies": [{"name": "p", "kind": kind, "message": "No.", "require": {"labels": ["team"]}}],
        }
        assert list(config.iter_errors(document)) == []
        remaining = json.loads(json.dumps(document).replace(f'"{kind}"', f'"{kind}s"'))
        assert len(list(config.iter_errors(remaining))) == 2
    # A quotas limits can be defaults and its entity cannot.
    config = Draft202012Validator(read("config"))
    document = {"apiVersion": "kafkaform/v1", "kind": "Config"}
    limits: dict[str, object] = {"config": {"request_percentage": 50}}
    assert list(config.iter_errors({**document, "defaults": {"ClientQuota": limits}})) == []
    limits["entity"] = {"user": "alice"}
    assert len(list(config.iter_errors({**document, "defaults": {"ClientQuota": limits}}))) == 1


def test_stale_file_is_found_and_written_anew(
    generator: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in SCHEMAS:
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(generator, "FOLDER", tmp_path)
    topic = tmp_path / "topic.schema.json"
    whole = topic.read_text("utf-8")
    stale = whole.replace('"retention.ms"', '"retention.secs"')
    assert stale != whole
    topic.write_text(stale, "utf-8")
    assert run(generator, monkeypatch, "--check") == 1
    assert "topic.schema.json: stale" in capsys.readouterr().out
    assert topic.read_text("utf-8") == stale
    assert run(generator, monkeypatch) == 0
    assert topic.read_text("utf-8") == whole


def test_editors_know_every_config_its_default_and_every_client_property() -> None:
    # Editors know every config that a manifest may set.
    config = read("topic")["$defs"]["config"]["properties"]
    known = {key.name for key in kafka_configs.topic_configs().values() if not key.internal}
    assert (
        set(config)
        == (known | kafka_configs.retired_configs("topics").keys()) - kafka_configs.REASSIGNMENT_KEYS
    )
    assert config["retention.ms"]["default"] == "7d"
    assert "discard old log segments" in config["retention.ms"]["description"]
    assert config["cleanup.policy"]["examples"] == ["compact", "delete"]
    # Every default that editors offer means the default.
    config = read("topic")["$defs"]["config"]["properties"]
    for name, key in kafka_configs.topic_configs().items():
        if "default" in config.get(name, {}):
            offered = config[name]["default"]
            text = str(offered).lower() if isinstance(offered, bool) else str(offered)
            assert kafka_configs.canonical(key, text) == kafka_configs.canonical(key, str(key.default)), name
    client = read("config")["$defs"]["client"]["properties"]
    assert set(client) == set(PROPERTIES) | set(ALIASES)
    assert "SASL_SSL" in client["security.protocol"]["examples"]


def test_defaults_of_a_configuration_are_checked_as_a_spec() -> None:
    validator = Draft202012Validator(read("config"))

    def accepts(topic: dict[str, object]) -> bool:
        document = {"apiVersion": "kafkaform/v1", "kind": "Config", "defaults": {"Topic": topic}}
        return validator.is_valid(document)

    assert accepts({"partitions": 3, "overrides": {"dev": {"partitions": 1}}})
    assert not accepts({"partitons": 3})
    assert not accepts({"overrides": {"dev": {"partitons": 3}}})


@pytest.mark.parametrize("topic", [{"state": "absent"}, {"overrides": {"dev": {"state": "absent"}}}])
def test_no_default_can_make_every_topic_a_tombstone(topic: dict[str, object]) -> None:
    document = {"apiVersion": "kafkaform/v1", "kind": "Config", "defaults": {"Topic": topic}}
    assert not Draft202012Validator(read("config")).is_valid(document)

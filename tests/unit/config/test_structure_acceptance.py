"""The quick validator spares jsonschema only what jsonschema accepts, and does not fail."""

import copy
from typing import Any, cast

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaform.config.manifests.loader import VERBATIM
from kafkaform.config.manifests.yaml12 import Data, read_documents
from kafkaform.core import schema_files
from kafkaform.core.errors import Problem
from kafkaform.core.schema_files import load_schema
from kafkaform.resources import KINDS
from tests.support.cli.project import ROOT

SCHEMAS = {"Config": "config"} | {name: kind.schema for name, kind in KINDS.items()}
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 3.0, 0.5, 1.5, -0.0, 1e300, 5e-324),
    *(2**53 + 1, 2**63, 2**64, 10**50, -(10**50)),
    *("", "a", "1", "true", "7d", "-1", "present", "\ud800", "\x00", "é", "x" * 300, "a\n", "7d\n"),
    *([], [""], ["a", "a"], {}, {"a": 1}, {"": None}),
]


def examples() -> list[tuple[str, Data]]:
    """The schema and the data of every document of this repository."""
    found: list[tuple[str, Data]] = []
    problems: list[Problem] = []
    for file in [ROOT / "kafkaform.yaml", *sorted((ROOT / "topics").rglob("*.yaml"))]:
        for document in read_documents(file.read_bytes(), file.name, problems.append, verbatim=VERBATIM):
            assert isinstance(document.data, dict)
            found.append((SCHEMAS[str(document.data["kind"])], document.data))
    assert problems == []
    return found


EXAMPLES = examples()


def refused(schema: str, value: Any) -> bool:
    return next(schema_files._load_validator(schema).iter_errors(value), None) is not None


@pytest.mark.parametrize(("schema", "data"), EXAMPLES)
def test_valid_example_is_accepted_by_fast_check(schema: str, data: Data) -> None:
    assert schema_files._is_surely_valid(schema, data)


@st.composite
def mutate_document(draw: st.DrawFn) -> tuple[str, Any]:
    """A document of this repository in which a few values are others, are gone, or stand where none was."""
    schema, original = draw(st.sampled_from(EXAMPLES))
    data: Any = copy.deepcopy(original)
    known = sorted(set(_names(load_schema(schema))))
    for _ in range(draw(st.integers(1, 3))):
        node: Any = data
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys or draw(st.integers(0, 9)) == 0:
                key: Any = draw(st.sampled_from(known))
                break
            key = draw(st.sampled_from(keys))
            below = node[key]
            if not isinstance(below, dict | list) or draw(st.booleans()):
                break
            node = below
        value = draw(st.sampled_from(ODD) | st.text(max_size=4) | st.integers() | st.floats(allow_nan=False))
        if isinstance(node, dict):
            if key in node and draw(st.integers(0, 3)) == 0:
                del node[key]
            else:
                node[str(key)] = copy.deepcopy(value)
        elif isinstance(key, int):
            node[key] = copy.deepcopy(value)
    return schema, data


def _names(schema: Any) -> list[str]:
    """Every name of a property in a schema."""
    if isinstance(schema, list):
        return [name for item in schema for name in _names(item)]
    if not isinstance(schema, dict):
        return []
    own = list(cast("dict[str, Any]", schema.get("properties", {})))
    return own + [name for below in schema.values() for name in _names(below)]


@given(mutate_document())
@example(
    ("topic", {"apiVersion": "kafkaform/v1", "kind": "Topic", "metadata": {"name": "\ud800"}, "spec": {}})
)
@example(("topic", {"kind": "Topic", "spec": {"partitions": 10**50}}))
def test_fast_check_accepts_nothing_that_full_check_refuses(changed: tuple[str, Any]) -> None:
    schema, data = changed
    if schema_files._is_surely_valid(schema, data):
        assert not refused(schema, data), yaml.safe_dump(data)

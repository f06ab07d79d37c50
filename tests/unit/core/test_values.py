"""Values: copies, comparison, and what their classes and dataclasses must not share."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass

import pytest

from kafkaform.core.values import HiddenValue, Value, compare_fields, field, replace
from tests.support.sources import parse_sources


class Point(Value):
    """A point."""

    x: int
    labels: dict[str, int] = field(default_factory=dict)
    note: str = ""

    __eq__, __hash__ = compare_fields("x")


class Password(HiddenValue):
    """A secret."""

    text: str


@dataclass(frozen=True)
class Size:
    """A dataclass, as of spark_validation."""

    width: int


def test_replaced_value_is_immutable_copy() -> None:
    point = Point(1, note="a")
    assert replace(point, x=2) == Point(2)
    assert replace(Size(1), width=2) == Size(2)
    with pytest.raises(AttributeError, match="immutable"):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        replace(point, z=1)
    assert Point(1).labels is not Point(1).labels


def test_values_are_compared_by_compared_fields() -> None:
    assert Point(1, note="a") == Point(1, note="b")
    assert len({Point(1, note="a"), Point(1, note="b"), Point(2)}) == 2
    assert Point(1) != Size(1)


def test_secret_field_is_hidden_in_repr() -> None:
    assert repr(Password("x")) == "Password(<hidden>)"


def test_field_function_matches_class_kind() -> None:
    # msgspec's `field` in a dataclass, and the other way round, silently is the default value.
    mixed = []
    for path, nodes in parse_sources("kafkaform").items():
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        sources = {alias.name: node.module for node in imports for alias in node.names}
        for node in nodes:
            if not isinstance(node, ast.ClassDef) or "field" not in sources:
                continue
            decorated = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
            expected = "dataclasses" if decorated else "kafkaform.core.values"
            calls = {getattr(call.func, "id", "") for call in ast.walk(node) if isinstance(call, ast.Call)}
            if "field" in calls and sources["field"] != expected:
                mixed.append(f"{path}: {node.name}")
    assert mixed == []


def find_classes(package: str) -> dict[str, list[str]]:
    found = defaultdict(list)
    for path, nodes in parse_sources(package).items():
        for node in nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{path}:{node.lineno}")
    return found


def test_public_class_names_are_unique() -> None:
    ours, theirs = find_classes("kafkaform"), find_classes("spark_validation")
    assert {name: places for name, places in [*ours.items(), *theirs.items()] if len(places) > 1} == {}
    # The name that spark_validation, which knows nothing of kafkaform, still has in common with it.
    assert ours.keys() & theirs.keys() <= {"Placement"}

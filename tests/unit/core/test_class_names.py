"""A name of a public class means one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import kafkaform
import spark_validation

TESTING = Path(kafkaform.__file__).parent / "cluster" / "testing"
SHARED = {"Placement"}
"""Names that spark_validation, which knows nothing of kafkaform, still has in common with it."""


def classes(package: Path) -> dict[str, list[str]]:
    """The places that define each public class of a package."""
    found = defaultdict(list)
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{file}:{node.lineno}")
    return found


def test_each_public_class_has_a_name_of_its_own() -> None:
    ours = classes(Path(kafkaform.__file__).parent)
    production = {
        name: [place for place in places if not place.startswith(str(TESTING))]
        for name, places in ours.items()
    }
    assert {name: places for name, places in production.items() if len(places) > 1} == {}
    theirs = classes(Path(spark_validation.__file__).parent)
    assert {name: places for name, places in theirs.items() if len(places) > 1} == {}
    assert production.keys() & theirs.keys() <= SHARED

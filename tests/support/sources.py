"""The sources of the product, parsed once for all tests that read them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def parse_sources(package: str) -> Mapping[str, Sequence[ast.AST]]:
    """Return all nodes of each file of a package, by its path."""
    return {
        str(path.relative_to(ROOT)): [*ast.walk(ast.parse(path.read_text("utf-8")))]
        for path in sorted((ROOT / package).rglob("*.py"))
    }

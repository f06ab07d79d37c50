"""Every place in a JSON document, for tests that change one of them."""

from __future__ import annotations

from typing import Any


def places(node: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all values, that of the whole among them."""
    if isinstance(node, dict):
        children: Any = node.items()
    elif isinstance(node, list):
        children = enumerate(node)
    else:
        return [path]
    return [path, *(found for key, child in children for found in places(child, (*path, key)))]

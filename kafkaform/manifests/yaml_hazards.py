"""What YAML allows and a manifest does not: tags, odd or duplicate keys, alias bombs, deep nesting."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

import yaml

from kafkaform.errors import Problem
from kafkaform.model import Location
from kafkaform.spelling import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NODES = 250_000
"""The most values a document may have once its aliases are expanded (an alias bomb has millions)."""
MAX_DEPTH = 100
"""How deep collections may nest, aliases followed; the C parser recurses, and would overflow its stack."""
UNTAGGED = ""
"""What the tag of a node is that has none in the file."""

_COMPACT_NESTING = re.compile(r"([-?:] +){50}")


class TooDeep(Exception):  # noqa: N818 - the reader of a file turns it into its problem
    """Carries the problem of a file that nests too deep."""

    def __init__(self, place: Location) -> None:
        self.problem = _too_deep(place)


def _too_deep(place: Location) -> Problem:
    return Problem(f"collections nest more than {MAX_DEPTH} deep", place, "flatten it")


def place_of(file: str, at: yaml.Node | yaml.Event) -> Location:
    """Where a node or an event starts."""
    mark = cast("yaml.Mark", at.start_mark)  # only what a program builds has none
    return Location(file, mark.line + 1, mark.column + 1)


def check_depth(text: str, file: str) -> None:
    """Refuse deep nesting from the event stream, which does not recurse.

    The stream is only read where deep nesting is possible at all: that many opening brackets, an
    indentation that deep, or a run of dashes. What slips through is at most a few times the limit, which
    the C parser survives and `node_problems` finds.
    """
    brackets = text.count("[") + text.count("{")
    if brackets <= MAX_DEPTH and " " * MAX_DEPTH not in text and not _COMPACT_NESTING.search(text):
        return
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CBaseLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise TooDeep(place_of(file, event))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def node_problems(root: yaml.Node, file: str) -> Iterator[Problem]:
    """What YAML allows and a manifest does not: tags, odd or duplicate keys, alias bombs, deep nesting."""
    sizes: dict[int, int] = {}
    heights: dict[int, int] = {}
    open_nodes: set[int] = set()

    def walk(node: yaml.Node) -> Iterator[Problem]:
        if id(node) in sizes:
            return
        if id(node) in open_nodes:
            yield Problem("an alias contains itself", place_of(file, node), "write the value out")
            return
        open_nodes.add(id(node))
        if node.tag != UNTAGGED:
            tag = quoted(node.tag.replace("tag:yaml.org,2002:", "!!"))
            hint = "write the plain value, in quotes if it is meant as text"
            yield Problem(f"the tag {tag} is not allowed", place_of(file, node), hint)
        if isinstance(node, yaml.MappingNode):
            yield from _key_problems(node, file)
        size = height = 1
        for child in _children(node):
            yield from walk(child)
            size += sizes.get(id(child), 1)
            height = max(height, 1 + heights.get(id(child), 0))
        open_nodes.discard(id(node))
        sizes[id(node)], heights[id(node)] = size, height

    yield from walk(root)
    place = place_of(file, root)
    if heights[id(root)] > MAX_DEPTH + 1:  # a scalar counts as one
        yield _too_deep(place)
    if sizes[id(root)] > MAX_NODES:
        message = f"aliases expand to {sizes[id(root)]:,} values (at most {MAX_NODES:,})"
        yield Problem(message, place, "write the values out, or split the file")


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    """The nodes right below a node, keys too."""
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            yield key_node
            yield value_node
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _key_problems(node: yaml.MappingNode, file: str) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for key_node, _ in node.value:
        place = place_of(file, key_node)
        if not isinstance(key_node, yaml.ScalarNode):
            yield Problem("a key must be plain text", place)
        elif key_node.value == "<<" and not key_node.style:
            yield Problem("merge keys (<<) are not part of YAML 1.2", place, "write the fields out")
        elif key_node.value in first:
            hint = f"first given in line {first[key_node.value]}; keep one of the two"
            yield Problem(f"duplicate key {quoted(key_node.value)}", place, hint)
        else:
            first[key_node.value] = place.line

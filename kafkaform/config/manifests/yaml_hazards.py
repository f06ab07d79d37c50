"""What YAML allows and a manifest does not: tags, odd or duplicate keys, alias bombs, deep nesting.

Whoever may open a pull request chooses what is read here, so each limit is checked while the parser runs,
before the value that exceeds it is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import yaml

from kafkaform.core.errors import Problem
from kafkaform.core.model import Location
from kafkaform.core.spelling import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NODES = 250_000
"""The most values a document may have, keys counted, and aliases as often as they are used."""
MAX_FILE_NODES = 1_000_000
"""The most values all documents of a file may have together."""
MAX_DOCUMENTS = 20_000
"""The most documents of a file."""
MAX_DEPTH = 100
"""How deep collections may nest, aliases followed; the C parser recurses, and would overflow its stack."""
UNTAGGED = ""
"""What the tag of a node is that has none in the file."""


class LimitExceeded(Exception):  # noqa: N818 - the reader of a file turns it into its problem
    """Carries the problem of a file that is read no further."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def may_exceed_limits(text: str) -> bool:
    """Whether a text is so long, or has so many signs that begin a collection, that values must be counted.

    A level of nesting takes one of these signs at least, and no text has more values than four for each
    character, as where `?` is a mapping with an empty key and an empty value.
    """
    return 4 * len(text) > MAX_NODES or sum(map(text.count, "[{-:?")) > MAX_DEPTH


class Composer(yaml.CBaseLoader):
    """libyaml's parser for a text that cannot exceed the limits; a node that has no tag there gets none.

    Attributes:
        file: The file's name, for locations.
        documents: The number of documents that were begun.
        nodes: The number of values in the present document; aliases count once they are expanded.
        earlier: The number of values in the documents before it.
    """

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self.file = file
        self.documents = 0
        self.nodes = 0
        self.earlier = 0

    def next_document(self) -> yaml.Node:
        """The root of the next document; only where `check_node` says that there is one."""
        self.documents += 1
        self.earlier += self.nodes
        self.nodes = 0
        node = cast("yaml.Node", self.get_node())
        if self.documents > MAX_DOCUMENTS:
            message = f"the file holds more than {MAX_DOCUMENTS:,} documents"
            raise LimitExceeded(Problem(message, place_of(self.file, node), "split it"))
        return node

    def resolve(self, kind: type[yaml.Node], value: str, implicit: object) -> str:  # noqa: ARG002
        """The tag of a node that has none; libyaml's binding calls this."""
        return UNTAGGED


class LimitedComposer(Composer):
    """The same for any text: it stops at the limits, for which it calls Python for each value."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self._depth = 0

    def descend_resolver(self, parent: yaml.Node | None, index: object) -> None:  # noqa: ARG002
        """Count a node; libyaml's binding calls this before it builds one."""
        self.nodes += 1
        self._depth += 1
        if parent is not None:
            if self._depth > MAX_DEPTH + 1:  # a scalar counts as one
                raise LimitExceeded(_too_deep(place_of(self.file, parent)))
            check_size(self.nodes, self.earlier, parent, self.file)

    def ascend_resolver(self) -> None:
        """Leave a node; libyaml's binding calls this after it built one."""
        self._depth -= 1


def place_of(file: str, at: yaml.Node | yaml.Event) -> Location:
    """Where a node or an event starts."""
    mark = cast("yaml.Mark", at.start_mark)  # only what a program builds has none
    return Location(file, mark.line + 1, mark.column + 1)


def _too_deep(place: Location) -> Problem:
    return Problem(f"collections nest more than {MAX_DEPTH} deep", place, "flatten it")


def check_size(nodes: int, earlier: int, node: yaml.Node, file: str) -> None:
    """Refuse a document, or a file, of too many values.

    Args:
        nodes: The values of the document so far.
        earlier: The values of the documents before it.
        node: What is named as the place.
        file: The file's name.

    Raises:
        LimitExceeded: There are too many.
    """
    if nodes > MAX_NODES:
        message, hint = f"a document has more than {MAX_NODES:,} values", "write several, in several files"
    elif earlier + nodes > MAX_FILE_NODES:
        message, hint = f"the documents of this file have more than {MAX_FILE_NODES:,} values", "split it"
    else:
        return
    raise LimitExceeded(Problem(message, place_of(file, node), hint))


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
        size, height = 1, 0
        for child in _children(node):
            yield from walk(child)
            size += sizes.get(id(child), 1)
            height = max(height, heights.get(id(child), 0))
        open_nodes.discard(id(node))
        sizes[id(node)] = size
        heights[id(node)] = height + isinstance(node, yaml.CollectionNode)

    yield from walk(root)
    place = place_of(file, root)
    if heights[id(root)] > MAX_DEPTH:
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
            hint = "quote the value if the braces are meant as text; {{ … }} is not expanded"
            yield Problem("a key must be plain text", place, hint)
        elif key_node.value == "<<" and not key_node.style:
            yield Problem("merge keys (<<) are not part of YAML 1.2", place, "write the fields out")
        elif key_node.value in first:
            hint = f"first given in line {first[key_node.value]}; keep one of the two"
            yield Problem(f"duplicate key {quoted(key_node.value)}", place, hint)
        else:
            first[key_node.value] = place.line

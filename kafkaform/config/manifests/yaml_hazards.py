"""What YAML allows and a manifest does not, and what is wrong with text that is no YAML.

Whoever may open a pull request chooses what is read here, so each limit is checked while the parser runs,
before the value that exceeds it is built.

What is wrong with text that is no YAML, in the words of whoever wrote it, and what to do about it.

The parser says what it expected next ("did not find expected key"), which is true and of no help: what to
mend is nearly always an indentation, a missing space after a colon, or a value that needs quotes. libyaml
has no codes for its errors, so that its texts are what tells them apart; one that is not known is shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

import yaml

from kafkaform.core.errors import Problem
from kafkaform.core.model import Location
from kafkaform.core.wording import counted, quoted

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
            message = f"the file contains more than {MAX_DOCUMENTS:,} documents"
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
    return Problem(f"collections are nested more than {MAX_DEPTH} deep", place, "flatten it")


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
            hint = "write the plain value, quoted if it is text"
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
            hint = "quote the value if the braces are text; {{ … }} is not expanded"
            yield Problem("a key must be plain text", place, hint)
        elif key_node.value == "<<" and not key_node.style:
            yield Problem("merge keys (<<) are not part of YAML 1.2", place, "write the fields out")
        elif key_node.value in first:
            hint = f"first used in line {first[key_node.value]}; keep one of the two"
            yield Problem(f"duplicate key {quoted(key_node.value)}", place, hint)
        else:
            first[key_node.value] = place.line


_QUOTE = "put the value in quotes"
_PAIR = "write `name: value`, with a space after the colon"
_PLAIN = {
    "did not find expected node content": ("unexpected {}", f"remove it, or {_QUOTE}"),
    "found character that cannot start any token": ("a value cannot begin with {}", _QUOTE),
    "found unknown escape character": (
        "unknown escape in double quotes",
        "use single quotes, where a backslash has no special meaning",
    ),
    "found undefined alias": (
        "the alias has no anchor",
        "define it with & above in the same document, or quote the value if * is text",
    ),
    "did not find expected <document start>": (
        "this line is indented less than the first one, or follows the end of the document",
        "begin all of apiVersion, kind, metadata and spec in column 1",
    ),
}
"""What the parser says where the place is all that there is to know, in our words, with a hint."""
_NO_SPACE = re.compile(r"\s*(?:- +)*[A-Za-z][\w.-]*:[^\s:/]")
_VALUE_BEFORE = re.compile(r"(?:[^'\"#]*[^\s'\"#])?:\s+\S")


def syntax_problem(error: yaml.MarkedYAMLError, file: str, text: str) -> Problem:
    """The problem of a file that the parser refused."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem(f"not valid YAML: {_raw(error)}", Location(file))
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    place = Location(file, mark.line + 1, mark.column + 1)
    if "\t" in line[: _indent(line)]:
        return Problem("a tab cannot indent YAML", place, "indent with spaces")
    char = line[mark.column : mark.column + 1]
    opened = error.context_mark
    start = Location(file, opened.line + 1, opened.column + 1) if opened is not None else place
    match error.problem:
        case "mapping values are not allowed in this context":
            return _second_colon(lines, mark.line, mark.column, place)
        case "did not find expected key" | "did not find expected '-' indicator":
            return _outside(lines, mark.line, place)
        case "found unexpected end of stream":
            return Problem("a quote is opened and never closed", start, "close it, or quote the whole value")
        case "did not find expected ',' or '}'" | "did not find expected ',' or ']'":
            message = f"a ',' or '{error.problem[-2]}' is missing before this"
            return Problem(
                message, place, f"the bracket is opened in line {start.line}, column {start.column}"
            )
        case "did not find expected node content" if not char:
            return Problem("the file ends inside of brackets", place, "close them")
        case "could not find expected ':'":
            dashes = set(_at(lines, start.line - 1).strip()) == {"-"}
            hint = "a line of exactly three dashes separates documents" if dashes else _PAIR
            return Problem("this line has no value", start, hint)
        case problem if problem in _PLAIN:
            message, hint = _PLAIN[problem]
            return Problem(message.format(quoted(char)), place, hint)
        case _:
            return Problem(f"not valid YAML: {_raw(error)}", place)


def _second_colon(lines: list[str], number: int, column: int, place: Location) -> Problem:
    """A colon where no key can stand: after a value, or in a line that goes on with the one above."""
    if _VALUE_BEFORE.match(lines[number][:column].removeprefix("- ")):
        return Problem("the value has a ': ' in it", place, _QUOTE)
    above = _above(lines, number)
    if above is None:
        return Problem("a key is not allowed here", place, _PAIR)
    if _NO_SPACE.match(lines[above]):
        colon = Location(place.file, above + 1, lines[above].index(":") + 1)
        return Problem("there is no space after this colon", colon, _PAIR)
    if _indent(lines[number]) > _indent(lines[above]):
        line = Location(place.file, number + 1, _indent(lines[number]) + 1)
        message = f"this line is indented deeper than line {above + 1}, which has a value already"
        return Problem(message, line, _spaces(_indent(lines[above])))
    return Problem("a key is not allowed here", place, f"look at line {above + 1}: is its quote closed?")


def _outside(lines: list[str], number: int, place: Location) -> Problem:
    """A line that belongs to none of the mappings and lists around it."""
    indent = _indent(_at(lines, number))
    levels = sorted({_indent(line) for line in lines[:number] if _says_something(line)})
    if levels and indent not in levels:
        near = min(levels, key=lambda level: (abs(level - indent), -level))
        line = Location(place.file, place.line, indent + 1)
        message = f"this line is indented by {counted(indent, 'space')}, and no line above it is"
        return Problem(message, line, f"{_spaces(near)}, like the lines that it belongs to")
    return Problem("this does not continue what is above", place, "check indentation, dashes and quotes")


def _spaces(number: int) -> str:
    return f"indent it by {counted(number, 'space')}" if number else "begin it in column 1"


def _above(lines: list[str], number: int) -> int | None:
    return next((above for above in range(number - 1, -1, -1) if _says_something(lines[above])), None)


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _at(lines: list[str], number: int) -> str:
    return lines[number] if number < len(lines) else ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _raw(error: yaml.MarkedYAMLError) -> str:
    return " ".join(" ".join(part for part in (error.context, error.problem) if part).split())

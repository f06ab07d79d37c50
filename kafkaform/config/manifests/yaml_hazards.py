"""The YAML that manifests must not have, and messages for invalid YAML.

Anybody who can open a pull request chooses this input, so each limit is checked while the parser runs,
before the value that exceeds it is built.

The errors of the parser are about its grammar ("did not find expected key"), while the cause is nearly always
an indentation, a missing space after a colon, or missing quotes. libyaml has no error codes, so its messages
are matched; unknown ones are passed on.
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
"""The maximum number of values of a document, including keys, with aliases expanded."""
MAX_FILE_NODES = 1_000_000
"""The maximum number of values of all documents of a file."""
MAX_DOCUMENTS = 20_000
"""The maximum number of documents of a file."""
MAX_DEPTH = 100
"""The maximum depth of collections, with aliases expanded; the C parser recurses on its stack."""
UNTAGGED = ""
"""The tag of nodes without a tag in the file."""


class LimitExceeded(Exception):  # noqa: N818 - the reader of a file turns it into its problem
    """A file exceeds a limit and is not read further; has its problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def may_exceed_limits(text: str) -> bool:
    """Return whether a text could exceed the limits, by its length and the characters that open collections.

    Each level of nesting needs one of these characters, and a character makes at most four values: `?` is a
    mapping with an empty key and an empty value.
    """
    return 4 * len(text) > MAX_NODES or sum(map(text.count, "[{-:?")) > MAX_DEPTH


class Composer(yaml.CBaseLoader):
    """libyaml's parser for a text that cannot exceed the limits, without implicit tags.

    Attributes:
        file: The name of the file, for locations.
        documents: The number of documents so far, including the current one.
        nodes: The number of values in the current document; aliases count when they are expanded.
        earlier: The number of values in the documents before it.
    """

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self.file = file
        self.documents = 0
        self.nodes = 0
        self.earlier = 0

    def next_document(self) -> yaml.Node:
        """Return the root of the next document; call it only if `check_node` is true."""
        self.documents += 1
        self.earlier += self.nodes
        self.nodes = 0
        node = cast("yaml.Node", self.get_node())
        # Each document costs a manifest's worth of objects, however little it contains.
        if self.documents > MAX_DOCUMENTS:
            message = f"the file contains more than {MAX_DOCUMENTS:,} documents"
            raise LimitExceeded(Problem(message, locate_node(self.file, node), "split it"))
        return node

    def resolve(self, kind: type[yaml.Node], value: str, implicit: object) -> str:  # noqa: ARG002
        """Return the tag of a node without one; libyaml's binding calls this."""
        return UNTAGGED


class LimitedComposer(Composer):
    """The parser for other texts: it stops at the limits, but is slower, as it runs Python for each value."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self._depth = 0

    def descend_resolver(self, parent: yaml.Node | None, index: object) -> None:  # noqa: ARG002
        """Count a node; libyaml's binding calls this before it builds one."""
        self.nodes += 1
        self._depth += 1
        if parent is not None:
            if self._depth > MAX_DEPTH + 1:  # a scalar counts as one
                raise LimitExceeded(_build_depth_problem(locate_node(self.file, parent)))
            check_size(self.nodes, self.earlier, parent, self.file)

    def ascend_resolver(self) -> None:
        """Leave a node; libyaml's binding calls this after it built one."""
        self._depth -= 1


def locate_node(file: str, at: yaml.Node | yaml.Event) -> Location:
    """Return the start of a node or an event."""
    mark = cast("yaml.Mark", at.start_mark)  # only nodes that a program builds have no mark
    return Location(file, mark.line + 1, mark.column + 1)


def _build_depth_problem(location: Location) -> Problem:
    return Problem(f"collections are nested more than {MAX_DEPTH} deep", location, "flatten it")


def check_size(nodes: int, earlier: int, node: yaml.Node, file: str) -> None:
    """Refuse a document or a file with too many values.

    Args:
        nodes: The number of values of the document so far.
        earlier: The number of values of the documents before it.
        node: The node for the location.
        file: The name of the file.

    Raises:
        LimitExceeded: There are too many.
    """
    if nodes > MAX_NODES:
        message, hint = f"a document has more than {MAX_NODES:,} values", "write several, in several files"
    elif earlier + nodes > MAX_FILE_NODES:
        message, hint = f"the documents of this file have more than {MAX_FILE_NODES:,} values", "split it"
    else:
        return
    raise LimitExceeded(Problem(message, locate_node(file, node), hint))


def find_node_problems(root: yaml.Node, file: str) -> Iterator[Problem]:
    """Find the YAML that manifests must not have: tags, odd or duplicate keys, alias bombs, deep nesting."""
    sizes: dict[int, int] = {}
    heights: dict[int, int] = {}
    open_nodes: set[int] = set()

    def walk(node: yaml.Node) -> Iterator[Problem]:
        # Each node once: walking every expansion of an alias would take the time that the limit is there to
        # prevent.
        if id(node) in sizes:
            return
        if id(node) in open_nodes:
            yield Problem("an alias contains itself", locate_node(file, node), "write the value out")
            return
        open_nodes.add(id(node))
        # Tags are how YAML files make Python objects; kafkaform has no use for any.
        if node.tag != UNTAGGED:
            tag = quoted(node.tag.replace("tag:yaml.org,2002:", "!!"))
            hint = "write the plain value, quoted if it is text"
            yield Problem(f"the tag {tag} is not allowed", locate_node(file, node), hint)
        if isinstance(node, yaml.MappingNode):
            yield from _find_key_problems(node, file)
        size, height = 1, 0
        for child in _list_children(node):
            yield from walk(child)
            size += sizes.get(id(child), 1)
            height = max(height, heights.get(id(child), 0))
        open_nodes.discard(id(node))
        sizes[id(node)] = size
        heights[id(node)] = height + isinstance(node, yaml.CollectionNode)

    yield from walk(root)
    location = locate_node(file, root)
    if heights[id(root)] > MAX_DEPTH:
        yield _build_depth_problem(location)
    if sizes[id(root)] > MAX_NODES:
        message = f"aliases expand to {sizes[id(root)]:,} values (at most {MAX_NODES:,})"
        yield Problem(message, location, "write the values out, or split the file")


def _list_children(node: yaml.Node) -> Iterator[yaml.Node]:
    """Yield the nodes right below a node, including keys."""
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            yield key_node
            yield value_node
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _find_key_problems(node: yaml.MappingNode, file: str) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for key_node, _ in node.value:
        location = locate_node(file, key_node)
        if not isinstance(key_node, yaml.ScalarNode):
            yield Problem("a key must be plain text", location, "quote the value if the braces are text")
        elif key_node.value == "<<" and not key_node.style:
            # Readers differ in whether they merge: one file would mean two things.
            yield Problem("merge keys (<<) are not part of YAML 1.2", location, "write the fields out")
        elif key_node.value in first:
            hint = f"first used in line {first[key_node.value]}; keep one of the two"
            yield Problem(f"duplicate key {quoted(key_node.value)}", location, hint)
        else:
            first[key_node.value] = location.line


_QUOTE = "put the value in quotes"
_PAIR = "write `name: value`, with a space after the colon"
_MESSAGES = {
    "did not find expected node content": ("unexpected {}", f"remove it, or {_QUOTE}"),
    "found unexpected ':'": ("unexpected {}", _QUOTE),
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
"""Messages and hints by the message of the parser, where only the place matters."""
_NO_SPACE = re.compile(r"\s*(?:- +)*[A-Za-z][\w.-]*:[^\s:/]")
_VALUE_BEFORE = re.compile(r"(?:[^'\"#]*[^\s'\"#])?:\s+\S")


def explain_syntax_error(error: yaml.MarkedYAMLError, file: str, text: str) -> Problem:
    """Translate an error of the parser for users, with a hint."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem(f"not valid YAML: {_join_message(error)}", Location(file))
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    location = Location(file, mark.line + 1, mark.column + 1)
    # libyaml reports a tab as a character that cannot start a token, which does not name the cause.
    if "\t" in line[: _count_indent(line)]:
        return Problem("a tab cannot indent YAML", location, "indent with spaces")
    char = line[mark.column : mark.column + 1]
    opened = error.context_mark
    start = Location(file, opened.line + 1, opened.column + 1) if opened is not None else location
    match error.problem:
        case "mapping values are not allowed in this context":
            return _explain_second_colon(lines, mark.line, mark.column, location)
        case "did not find expected key" | "did not find expected '-' indicator":
            return _explain_stray_line(lines, mark.line, location)
        case "found unexpected end of stream":
            return Problem("this quote is not closed", start, "close it, or quote the whole value")
        case "did not find expected ',' or '}'" | "did not find expected ',' or ']'":
            message = f"a ',' or '{error.problem[-2]}' is missing before this"
            return Problem(
                message, location, f"the bracket is opened in line {start.line}, column {start.column}"
            )
        case "did not find expected node content" if not char:
            return Problem("a bracket is not closed at the end of the file", location, "close it")
        case "could not find expected ':'":
            dashes = set(_get_line(lines, start.line - 1).strip()) == {"-"}
            hint = "a line of exactly three dashes separates documents" if dashes else _PAIR
            return Problem("this line has no value", start, hint)
        case problem if problem in _MESSAGES:
            message, hint = _MESSAGES[problem]
            return Problem(message.format(quoted(char)), location, hint)
        case _:
            return Problem(f"not valid YAML: {_join_message(error)}", location)


def _explain_second_colon(lines: list[str], number: int, column: int, location: Location) -> Problem:
    """Explain a colon where a key is not allowed: after a value, or in a continuation line."""
    if _VALUE_BEFORE.match(lines[number][:column].removeprefix("- ")):
        return Problem("the value contains ': '", location, _QUOTE)
    above = next((line for line in range(number - 1, -1, -1) if _has_content(lines[line])), None)
    if above is None:
        return Problem("a key is not allowed here", location, _PAIR)
    if _NO_SPACE.match(lines[above]):
        colon = Location(location.file, above + 1, lines[above].index(":") + 1)
        return Problem("there is no space after this colon", colon, _PAIR)
    if _count_indent(lines[number]) > _count_indent(lines[above]):
        line = Location(location.file, number + 1, _count_indent(lines[number]) + 1)
        message = f"this line is indented deeper than line {above + 1}, which already has a value"
        return Problem(message, line, _suggest_indent(_count_indent(lines[above])))
    return Problem(
        "a key is not allowed here", location, f"check that the quote in line {above + 1} is closed"
    )


def _explain_stray_line(lines: list[str], number: int, location: Location) -> Problem:
    """Explain a line that belongs to none of the mappings and lists above it."""
    indent = _count_indent(_get_line(lines, number))
    if location.column > indent + 1:
        return Problem("this does not belong to the value before it", location, _QUOTE)
    levels = sorted({_count_indent(line) for line in lines[:number] if _has_content(line)})
    if levels and indent not in levels:
        near = min(levels, key=lambda level: (abs(level - indent), -level))
        line = Location(location.file, location.line, indent + 1)
        message = f"this line is indented by {counted(indent, 'space')}, unlike any line above it"
        return Problem(message, line, f"{_suggest_indent(near)}, like its neighbours")
    return Problem(
        "this does not belong to the lines above", location, "check indentation, dashes and quotes"
    )


def _suggest_indent(number: int) -> str:
    return f"indent it by {counted(number, 'space')}" if number else "begin it in column 1"


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _get_line(lines: list[str], number: int) -> str:
    return lines[number] if number < len(lines) else ""


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join_message(error: yaml.MarkedYAMLError) -> str:
    return " ".join(" ".join(part for part in (error.context, error.problem) if part).split())

"""Reading YAML by the 1.2 core schema, with the place of everything in it.

PyYAML reads YAML 1.1, where `010` is 8, `1:30` is 90 and `no` is false. Only its (C) parser is used
here; scalars are resolved by the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema).
(Its `.inf` and `.nan` stay text: no setting here means them.) Below a key named in `verbatim`, scalars other than null keep their source text: only the type of a
Kafka config says what `0.50` or `010` means.

Nothing is constructed but dicts, lists and scalars, so a tag can never run code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import yaml
from yaml.cyaml import CParser
from yaml.resolver import BaseResolver

from kafkaform.errors import Problem
from kafkaform.model import Location

Data: TypeAlias = "dict[str, Data] | list[Data] | str | int | float | bool | None"
Path: TypeAlias = Sequence[str | int]

MAX_BYTES = 5 * 1024 * 1024
"""The largest file that is read; a manifest of a thousand topics has about a tenth of it."""
MAX_NODES = 250_000
"""The most values a document may have once its aliases are expanded (an alias bomb has millions)."""
MAX_DEPTH = 100
"""How deep collections may nest: the C parser recurses, and would overflow its stack."""

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_COMPACT_NESTING = re.compile(r"([-?:][ ]){50}")
_BASES = {"0o": 8, "0x": 16}

_PLAIN_TAGS = frozenset(
    {BaseResolver.DEFAULT_SCALAR_TAG, BaseResolver.DEFAULT_SEQUENCE_TAG, BaseResolver.DEFAULT_MAPPING_TAG}
)


class _Composer(CParser, BaseResolver):  # type: ignore[misc]
    """libyaml's parser with no implicit resolvers: every untagged scalar stays text."""

    def __init__(self, stream: str) -> None:
        CParser.__init__(self, stream)
        BaseResolver.__init__(self)


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: its data, and its nodes, which know their places."""

    file: str
    data: Data
    node: yaml.Node

    def locate(self, path: Path = (), *, key: bool = False) -> Location:
        """The place of the value at a path, or of its key; of the nearest ancestor where it is missing."""
        node = self.node
        mark = node.start_mark
        for step in path:
            child = _child(node, step)
            if child is None:
                break
            key_node, node = child
            mark = key_node.start_mark if key and key_node is not None else node.start_mark
        return Location(self.file, mark.line + 1, mark.column + 1)

    def scalars(self) -> Iterator[tuple[Location, str]]:
        """Every scalar of the document, keys too, with its place."""
        for node in _scalar_nodes(self.node):
            yield Location(self.file, node.start_mark.line + 1, node.start_mark.column + 1), node.value

    def reporter(
        self, prefix: Path, problems: list[Problem]
    ) -> Callable[[tuple[str | int, ...], str, str | None], None]:
        """A function that adds problems of the values below a path, with their places."""

        def report(path: tuple[str | int, ...], message: str, hint: str | None) -> None:
            problems.append(Problem(message, self.locate([*prefix, *path]), hint))

        return report


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node | None, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.value == step:
                return key_node, value_node
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    return None


def read_documents(
    raw: bytes, file: str, report: Callable[[Problem], None], *, verbatim: frozenset[str] = frozenset()
) -> list[Document]:
    """Read all documents of a file; what is wrong goes to `report`, and that document is left out.

    Args:
        raw: The file's bytes.
        file: Its name, for locations.
        report: Takes each problem.
        verbatim: Keys below which scalars keep their source text.
    """
    text = _decode(raw, file, report)
    if text is None:
        return []
    documents = []
    try:
        for node in _compose(text):
            problems = list(_node_problems(node, file))
            if problems:
                for problem in problems:
                    report(problem)
                continue
            documents.append(Document(file, _construct(node, verbatim, keep=False), node))
    except yaml.MarkedYAMLError as error:
        report(_syntax_problem(error, file, text))
    except yaml.reader.ReaderError as error:
        head = raw[: error.position].decode("utf-8", "replace")
        place = Location(file, head.count("\n") + 1, len(head) - head.rfind("\n"))
        report(Problem("a control character cannot stand in YAML", place, "remove it, or write it as an escape"))
    except _TooDeep as error:
        report(Problem(str(error), Location(file, error.line), hint="flatten it"))
    return documents


def _decode(raw: bytes, file: str, report: Callable[[Problem], None]) -> str | None:
    if len(raw) > MAX_BYTES:
        size = f"{len(raw) / 1e6:.1f} MB"
        limit = f"{MAX_BYTES // 1024 // 1024} MiB"
        report(Problem(f"the file is too large ({size}, at most {limit})", Location(file), "split it"))
        return None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        message = f"not UTF-8: byte 0x{raw[error.start]:02x}"
        report(Problem(message, Location(file, line, column), "save the file as UTF-8"))
        return None


class _TooDeep(Exception):  # noqa: N818 - never leaves this module
    def __init__(self, line: int) -> None:
        super().__init__(f"collections nest more than {MAX_DEPTH} deep")
        self.line = line


def _compose(text: str) -> Iterator[yaml.Node]:
    _check_depth(text)
    composer = _Composer(text)
    try:
        while composer.check_node():
            yield composer.get_node()
    finally:
        composer.dispose()


def _check_depth(text: str) -> None:
    """Refuse deep nesting from the event stream, which does not recurse.

    The stream is only read where nesting beyond the limit is possible at all: that many opening
    brackets, or an indentation or a run of dashes that deep.
    """
    brackets = text.count("[") + text.count("{")
    if brackets <= MAX_DEPTH and " " * MAX_DEPTH not in text and not _COMPACT_NESTING.search(text):
        return
    depth = 0
    parser = CParser(text)
    try:
        while parser.check_event():
            event = parser.get_event()
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    raise _TooDeep(event.start_mark.line + 1)
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    finally:
        parser.dispose()


def _syntax_problem(error: yaml.MarkedYAMLError, file: str, text: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    location = Location(file, mark.line + 1, mark.column + 1) if mark else Location(file)
    lines = text.splitlines()
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    indentation = line[: len(line) - len(line.lstrip())]
    if "\t" in indentation or "\t" in line[: mark.column + 1 if mark else 0]:
        return Problem("a tab cannot indent YAML", location, "indent with spaces")
    message = " ".join(part for part in (error.context, error.problem) if part)
    return Problem(f"not valid YAML: {' '.join(message.split())}", location)


def _node_problems(root: yaml.Node, file: str) -> Iterator[Problem]:
    """What YAML allows and a manifest does not: tags, duplicate keys, keys that are not text, alias bombs."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def walk(node: yaml.Node) -> Iterator[Problem]:
        if id(node) in sizes:
            return
        place = Location(file, node.start_mark.line + 1, node.start_mark.column + 1)
        if id(node) in open_nodes:
            sizes[id(node)] = 1
            yield Problem("an alias contains itself", place)
            return
        if node.tag not in _PLAIN_TAGS:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            yield Problem(f"the tag {tag!r} is not allowed", place, "write the plain value")
        open_nodes.add(id(node))
        size = 1
        for child in _children(node):
            yield from walk(child)
            size += sizes.get(id(child), 1)
        open_nodes.discard(id(node))
        sizes[id(node)] = size
        if isinstance(node, yaml.MappingNode):
            yield from _key_problems(node, file)

    yield from walk(root)
    if sizes.get(id(root), 0) > MAX_NODES:
        place = Location(file, root.start_mark.line + 1)
        yield Problem(f"aliases expand to {sizes[id(root)]:,} values (at most {MAX_NODES:,})", place)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            yield key_node
            yield value_node
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _key_problems(node: yaml.MappingNode, file: str) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for key_node, _ in node.value:
        place = Location(file, key_node.start_mark.line + 1, key_node.start_mark.column + 1)
        if not isinstance(key_node, yaml.ScalarNode):
            yield Problem("a key must be plain text", place)
        elif key_node.value == "<<" and not key_node.style:
            yield Problem("merge keys (<<) are not part of YAML 1.2", place, "write the fields out")
        elif key_node.value in seen:
            first = seen[key_node.value]
            yield Problem(f"duplicate key {key_node.value!r}", place, f"first given in line {first}")
        else:
            seen[key_node.value] = place.line


def _construct(node: yaml.Node, verbatim: frozenset[str], *, keep: bool) -> Data:
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, keep=keep)
    if isinstance(node, yaml.SequenceNode):
        return [_construct(child, verbatim, keep=keep) for child in node.value]
    return {
        key.value: _construct(value, verbatim, keep=keep or key.value in verbatim) for key, value in node.value
    }


def _scalar(node: yaml.ScalarNode, *, keep: bool) -> str | int | float | bool | None:
    text: str = node.value
    if node.style:  # quoted, or a block scalar
        return text
    if text in _NULL:
        return None
    if keep:
        return text
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text[2:], _BASES[text[:2]]) if text[:2] in _BASES else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _scalar_nodes(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.ScalarNode):
        yield node
    for child in _children(node):
        yield from _scalar_nodes(child)

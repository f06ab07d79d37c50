"""Reading YAML by the 1.2 core schema, with the place of everything in it.

PyYAML reads YAML 1.1, where `010` is 8, `1:30` is 90 and `no` is false. Only its (C) parser is used
here; scalars are resolved by the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema).
Its `.inf` and `.nan` stay text, as do numbers too large for a double: no setting here means them. Below a
key named in `verbatim`, scalars other than null keep their source text: only the type of a Kafka config
says what `0.50` or `010` means.

Tags are refused, and nothing is constructed but dicts, lists and scalars, so a file can never run code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf
from typing import TYPE_CHECKING, TypeAlias

import yaml

from kafkaform.errors import Problem
from kafkaform.manifests.yaml_hazards import (
    UNTAGGED,
    TooDeep,
    check_depth,
    children,
    is_harmless,
    node_problems,
    place_of,
)
from kafkaform.model import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkaform.kinds.base import Report

Data: TypeAlias = "dict[str, Data] | list[Data] | str | int | float | bool | None"
Path: TypeAlias = Sequence[str | int]

MAX_BYTES = 5 * 1024 * 1024
"""The largest file that is read; a manifest of a thousand topics has about a tenth of it."""
MAX_DIGITS = 400
"""The most characters of an integer; Python reads long ones in quadratic time, and refuses very long ones."""

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES = {"0o": 8, "0x": 16}


class _Composer(yaml.CBaseLoader):
    """libyaml's parser; a node that has no tag in the file gets none, and no scalar a type."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: object) -> str:  # noqa: ARG002
        """The tag of a node that has none; libyaml's binding calls this."""
        return UNTAGGED


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: its data, and its nodes, which know their places."""

    file: str
    data: Data
    node: yaml.Node

    def locate(self, path: Path = (), *, key: bool = False) -> Location:
        """The place of the value at a path, or of its key; of the nearest ancestor where it is missing."""
        node = place = self.node
        for step in path:
            child = _child(node, step)
            if child is None:
                break
            key_node, node = child
            place = key_node if key and key_node is not None else node
        return place_of(self.file, place)

    def has(self, path: Path) -> bool:
        """Whether there is a value at a path."""
        node = self.node
        for step in path:
            child = _child(node, step)
            if child is None:
                return False
            node = child[1]
        return True

    def scalars(self) -> Iterator[tuple[Location, str]]:
        """Every scalar of the document, keys too, with its place."""
        for node in _scalar_nodes(self.node):
            yield place_of(self.file, node), node.value

    def reporter(self, prefix: Path, problems: list[Problem]) -> Report:
        """A function that adds problems of the values below a path, with their places."""

        def report(path: Path, message: str, hint: str | None, /, *, key: bool = False) -> None:
            problems.append(Problem(message, self.locate([*prefix, *path], key=key), hint))

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
        check_depth(text, file)
        for node in yaml.compose_all(text, Loader=_Composer):
            harmless = "&" not in text and is_harmless(node)
            problems = [] if harmless else list(node_problems(node, file))
            for problem in problems:
                report(problem)
            if not problems:
                documents.append(Document(file, _construct(node, verbatim, keep=False), node))
    except yaml.MarkedYAMLError as error:
        report(_syntax_problem(error, file, text))
    except yaml.reader.ReaderError as error:
        place = _end(text.encode()[: error.position], file)
        hint = "remove it, or write it as an escape"
        report(Problem("a control character cannot stand in YAML", place, hint))
    except TooDeep as error:
        report(error.problem)
    return documents


def _decode(raw: bytes, file: str, report: Callable[[Problem], None]) -> str | None:
    if len(raw) > MAX_BYTES:
        limit = f"{MAX_BYTES // 1024 // 1024} MiB"
        report(Problem(f"the file is larger than {limit}", Location(file), "split it"))
        return None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # A byte order mark is not counted in the position, and not in what it is a position of.
        message = f"not UTF-8: byte 0x{error.object[error.start]:02x}"
        report(Problem(message, _end(error.object[: error.start], file), "save the file as UTF-8"))
        return None


def _end(head: bytes, file: str) -> Location:
    """The place right after some UTF-8 bytes, counted in characters as the parser does."""
    lines = (head.decode("utf-8", "replace") + ".").splitlines()
    return Location(file, len(lines), len(lines[-1]))


def _syntax_problem(error: yaml.MarkedYAMLError, file: str, text: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    location = Location(file, mark.line + 1, mark.column + 1) if mark else Location(file)
    lines = text.splitlines()
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    indentation = line[: len(line) - len(line.lstrip())]
    if "\t" in indentation:
        return Problem("a tab cannot indent YAML", location, "indent with spaces")
    message = " ".join(part for part in (error.context, error.problem) if part)
    return Problem(f"not valid YAML: {' '.join(message.split())}", location)


def _construct(node: yaml.Node, verbatim: frozenset[str], *, keep: bool) -> Data:
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, keep=keep)
    if isinstance(node, yaml.SequenceNode):
        return [_construct(child, verbatim, keep=keep) for child in node.value]
    return {
        key.value: _construct(value, verbatim, keep=keep or key.value in verbatim)
        for key, value in node.value
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
    return _number(text)


def _number(text: str) -> str | int | float:
    if len(text) <= MAX_DIGITS and _INT.fullmatch(text):
        return int(text[2:], _BASES[text[:2]]) if text[:2] in _BASES else int(text)
    if _FLOAT.fullmatch(text) and not isinf(number := float(text)):
        return number
    return text


def _scalar_nodes(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.ScalarNode):
        yield node
    for child in children(node):
        yield from _scalar_nodes(child)

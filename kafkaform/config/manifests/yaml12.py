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
from array import array
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isinf
from sys import intern
from typing import TYPE_CHECKING, TypeAlias

import yaml

from kafkaform.config.manifests.yaml_hazards import (
    MAX_DEPTH,
    UNTAGGED,
    Composer,
    LimitedComposer,
    LimitExceeded,
    may_exceed_limits,
    node_problems,
    syntax_problem,
)
from kafkaform.core.errors import Problem
from kafkaform.core.model import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkaform.resources.base import ReportProblem

Data: TypeAlias = "dict[str, Data] | list[Data] | str | int | float | bool | None"
Path: TypeAlias = Sequence[str | int]

MAX_BYTES = 5 * 1024 * 1024
"""The largest file that is read; a manifest of a thousand topics has about a tenth of it."""
MAX_DIGITS = 400
"""The most characters of an integer; Python reads long ones in quadratic time, and refuses very long ones."""

_SMALL = 200
"""The values of a document in which nothing is looked up by an index."""
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES = {"0o": 8, "0x": 16}


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: its data, and the place of every value and key.

    The nodes that libyaml made are not kept: they are fifty times as large as the numbers.

    Attributes:
        file: Its name, for locations.
        data: What it says.
        marks: Line and column of every value in the order of the text; a key's stand before its value's.
    """

    file: str
    data: Data
    marks: Sequence[int] = field(repr=False)
    _indexes: dict[int, dict[str | int, tuple[Data, int]] | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def size(self) -> int:
        """How many values it has, keys counted."""
        return len(self.marks) // 2

    def locate(self, path: Path = (), *, key: bool = False) -> Location:
        """The place of the value at a path, or of its key; of the nearest ancestor where it is missing."""
        found, at = self._reached(path)
        return self._place(at - 1 if key and found and isinstance(path[found - 1], str) else at)

    def find(self, path: Path) -> Location | None:
        """The place of the last key of a path; None where there is no value at it."""
        found, at = self._reached(path)
        return self._place(at - 1) if found == len(path) else None

    def has(self, path: Path) -> bool:
        """Whether there is a value at a path."""
        found, _ = self._reached(path)
        return found == len(path)

    def texts(self) -> Iterator[tuple[Location, str]]:
        """Every text of the document, keys too, with its place."""
        for at, value in enumerate(_in_order(self.data)):
            if isinstance(value, str):
                yield self._place(at), value

    def reporter(self, prefix: Path, problems: list[Problem]) -> ReportProblem:
        """A function that adds problems of the values below a path, with their places."""

        def report(path: Path, message: str, hint: str | None, /, *, key: bool = False) -> None:
            problems.append(Problem(message, self.locate([*prefix, *path], key=key), hint))

        return report

    def _reached(self, path: Path) -> tuple[int, int]:
        """How many steps of a path lead somewhere, and the number of the value there."""
        data, at = self.data, 0
        for found, step in enumerate(path):
            below = self._below(data, at, step)
            if below is None:
                return found, at
            data, at = below
        return len(path), at

    def _below(self, data: Data, at: int, step: str | int) -> tuple[Data, int] | None:
        """The value of a key or an index in a collection, and its number among all that has a place.

        Of large documents an index is kept from the second question on: a collection with many problems is
        asked for each. Small ones are many, and each is asked a question or two.

        Args:
            data: The collection, or a scalar, which has nothing below it.
            at: Its own number.
            step: The key or the index.
        """
        if self.size <= _SMALL:
            return _looked_up(data, at, step)
        if at not in self._indexes:
            self._indexes[at] = None
            return _looked_up(data, at, step)
        index = self._indexes[at]
        if index is None:
            index = {name: (value, number) for name, value, number in _numbered(data, at)}
            self._indexes[at] = index
        return index.get(step)

    def _place(self, at: int) -> Location:
        return Location(self.file, self.marks[2 * at], self.marks[2 * at + 1])


def _looked_up(data: Data, at: int, step: str | int) -> tuple[Data, int] | None:
    """The value of a key or an index in a collection, and its number; see `_numbered`."""
    if isinstance(data, dict):
        if step not in data:
            return None
        number = at + 2
        for name, value in data.items():
            if name == step:
                return value, number
            number += 1 + _extent(value) if isinstance(value, dict | list) else 2
    return next(((value, number) for name, value, number in _numbered(data, at) if name == step), None)


def _numbered(data: Data, at: int) -> Iterator[tuple[str | int, Data, int]]:
    """Each value of a collection with its key or index, and its number among all that has a place."""
    number = at + 1
    if isinstance(data, dict):
        for name, value in data.items():
            number += 1  # the key
            yield name, value, number
            number += _extent(value) if isinstance(value, dict | list) else 1
    elif isinstance(data, list):
        for position, value in enumerate(data):
            yield position, value, number
            number += _extent(value)


def _extent(data: Data) -> int:
    """How much has a place in a value: itself, and every key and value below."""
    keys, values = 0, [data]
    for value in values:
        if isinstance(value, dict):
            keys += len(value)
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)
    return keys + len(values)


def _in_order(data: Data) -> Iterator[Data]:
    """A value, and every key and value below it, in the order of the text."""
    yield data
    if isinstance(data, dict):
        for name, value in data.items():
            yield name
            yield from _in_order(value)
    elif isinstance(data, list):
        for value in data:
            yield from _in_order(value)


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
    composer = (LimitedComposer if may_exceed_limits(text) else Composer)(text, file)
    aliases = "&" in text
    try:
        while composer.check_node():
            node = composer.next_document()
            # Nearly every document is harmless, which shows while it is constructed; an alias must be looked
            # at before it is expanded.
            document = None if aliases else _constructed(node, file, verbatim)
            if document is None:
                problems = list(node_problems(node, file))
                for problem in problems:
                    report(problem)
                document = None if problems else _constructed(node, file, verbatim, checked=True)
            if document is not None:
                documents.append(document)
                composer.nodes = document.size
    except yaml.MarkedYAMLError as error:
        if error.problem == "did not find expected <document start>" and documents:
            del documents[-1]  # it ended where nobody meant it to
        report(syntax_problem(error, file, text))
    except yaml.reader.ReaderError as error:
        place = _end(text.encode()[: error.position], file)
        hint = "remove it, or write it as an escape"
        report(Problem("control characters are not allowed in YAML", place, hint))
    except LimitExceeded as error:
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
        if error.object.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            report(Problem("the file is UTF-16", Location(file), "save the file as UTF-8"))
            return None
        message = f"not UTF-8: byte 0x{error.object[error.start]:02x}"
        report(Problem(message, _end(error.object[: error.start], file), "save the file as UTF-8"))
        return None


def _end(head: bytes, file: str) -> Location:
    """The place right after some UTF-8 bytes, counted in characters as the parser does."""
    lines = (head.decode("utf-8", "replace") + ".").splitlines()
    return Location(file, len(lines), len(lines[-1]))


class _Hazard(Exception):  # noqa: N818 - no error yet: a closer look says what it is
    """Something that a manifest must not hold, perhaps."""


def _constructed(
    root: yaml.Node, file: str, verbatim: frozenset[str], *, checked: bool = False
) -> Document | None:
    """The document of a node; None where it may hold what a manifest must not, unless that was checked."""
    construction = _Construction(verbatim, checked)
    try:
        data = construction.value(root, False, 1)
    except _Hazard:
        return None
    return Document(file, data, array("I", construction.marks))


class _Construction:
    """The values of one document, and the marks of all of them.

    Args:
        verbatim: Keys below which scalars keep their source text.
        checked: Whether the document holds nothing that a manifest must not.
    """

    __slots__ = ("_checked", "_verbatim", "marks")

    def __init__(self, verbatim: frozenset[str], checked: bool) -> None:
        self._verbatim = verbatim
        self._checked = checked
        self.marks: list[int] = []

    def value(self, node: yaml.Node, keep: bool, depth: int) -> Data:
        """The value of a node; raises _Hazard for what a manifest must not hold, unless that was checked."""
        mark = node.start_mark
        self.marks += mark.line + 1, mark.column + 1
        if not self._checked and (node.tag != UNTAGGED or depth > MAX_DEPTH):
            raise _Hazard
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node, keep=keep)
        below = depth + 1
        if isinstance(node, yaml.SequenceNode):
            return [self.value(child, keep, below) for child in node.value]
        data: dict[str, Data] = {}
        for key, value in node.value:
            name = key.value
            if not self._checked and (
                key.tag != UNTAGGED or name == "<<" or type(name) is not str or name in data
            ):
                raise _Hazard
            mark = key.start_mark
            self.marks += mark.line + 1, mark.column + 1
            # The same few keys are in all manifests: each is kept once.
            data[intern(name)] = self.value(value, keep or name in self._verbatim, below)
        return data


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

"""A reader of YAML by the 1.2 core schema that keeps the place of every value.

PyYAML resolves scalars as YAML 1.1, where `010` is 8, `1:30` is 90 and `no` is false. Only its (C) parser is
used here; scalars are resolved by the core schema of YAML 1.2
(https://yaml.org/spec/1.2.2/#103-core-schema). Its `.inf` and `.nan` remain text, as do numbers that are too
large for a double: no setting has such a value. Below a key in `verbatim`, scalars other than null keep their
source text, as the meaning of `0.50` or `010` depends on the type of the Kafka config.

Tags are rejected, and only dicts, lists and scalars are constructed, so that a file can never run code.
"""

from __future__ import annotations

import re
from array import array
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isinf
from sys import intern
from typing import TYPE_CHECKING, TypeAlias

import yaml

from kafkaform.config.manifests.templates import explain_source, find_conflict
from kafkaform.config.manifests.yaml_hazards import (
    UNTAGGED,
    Composer,
    LimitedComposer,
    LimitExceeded,
    explain_syntax_error,
    find_node_problems,
    may_exceed_limits,
)
from kafkaform.core.errors import Problem
from kafkaform.core.model import Location

if TYPE_CHECKING:
    from kafkaform.resources.base import ReportProblem

Data: TypeAlias = "dict[str, Data] | list[Data] | str | int | float | bool | None"
Path: TypeAlias = Sequence[str | int]


class Unquoted(str):
    """The source text of a scalar without quotes, which readers of YAML may take for another type."""

    __slots__ = ()


MAX_BYTES = 5 * 1024 * 1024
"""The maximum size of a file; a manifest of a thousand topics has about a tenth of it."""
MAX_DIGITS = 400
"""The maximum length of an integer; Python parses long ones in quadratic time, and rejects very long ones."""

_SMALL = 200
"""Documents with at most this many values are searched without an index."""
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES = {"0o": 8, "0x": 16}


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document: its data, and the place of every value and key.

    The nodes of libyaml are not kept: they are fifty times as large as the marks.

    Attributes:
        file: The name of the file, for locations.
        marks: The line and column of every value and key, in the order of the text.
    """

    file: str
    data: Data
    marks: Sequence[int] = field(repr=False)
    _indexes: dict[int, dict[str | int, tuple[Data, int]] | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def size(self) -> int:
        """The number of values, including keys."""
        return len(self.marks) // 2

    def locate(self, path: Path = (), *, key: bool = False) -> Location:
        """Return the place of the value at a path or of its key; of its nearest ancestor if it is missing."""
        steps, at = self._follow(path)
        return self._locate_number(at - 1 if key and steps and isinstance(path[steps - 1], str) else at)

    def find(self, path: Path) -> Location | None:
        """Return the place of the last key of a path; None if there is no value at the path."""
        steps, at = self._follow(path)
        return self._locate_number(at - 1) if steps == len(path) else None

    def has(self, path: Path) -> bool:
        """Return whether there is a value at a path."""
        steps, _ = self._follow(path)
        return steps == len(path)

    def walk_texts(self) -> Iterator[tuple[Path, Location, str]]:
        """Yield the path, the place and the text of every key and every value that is a text."""
        for at, (path, value) in enumerate(_walk_values(self.data)):
            if isinstance(value, str):
                yield path, self._locate_number(at), value

    def create_reporter(self, prefix: Path, problems: list[Problem]) -> ReportProblem:
        """Create a function that adds problems of the values below a path, with their places."""

        def report(path: Path, message: str, hint: str | None, /, *, key: bool = False) -> None:
            problems.append(Problem(message, self.locate([*prefix, *path], key=key), hint))

        return report

    def _follow(self, path: Path) -> tuple[int, int]:
        """Return the number of steps of a path that exist, and the number of the value at their end."""
        data, at = self.data, 0
        for steps, step in enumerate(path):
            below = self._find_below(data, at, step)
            if below is None:
                return steps, at
            data, at = below
        return len(path), at

    def _find_below(self, data: Data, at: int, step: str | int) -> tuple[Data, int] | None:
        """Return the value at a key or an index of a collection, and its number among all values and keys.

        Large collections are indexed at the second lookup, as one with many problems is searched for each.
        Small documents are many, with one or two lookups each.

        Args:
            data: The collection, or a scalar, which has no values below it.
            at: The number of the collection.
            step: The key or the index.
        """
        if self.size <= _SMALL:
            return _look_up(data, at, step)
        if at not in self._indexes:
            self._indexes[at] = None
            return _look_up(data, at, step)
        index = self._indexes[at]
        if index is None:
            index = {name: (value, number) for name, value, number in _number_values(data, at)}
            self._indexes[at] = index
        return index.get(step)

    def _locate_number(self, at: int) -> Location:
        return Location(self.file, self.marks[2 * at], self.marks[2 * at + 1])


def _look_up(data: Data, at: int, step: str | int) -> tuple[Data, int] | None:
    """Return the value at a key or an index of a collection, and its number, without an index."""
    if isinstance(data, dict):
        if step not in data:
            return None
        number = at + 2
        for name, value in data.items():
            if name == step:
                return value, number
            number += 1 + _count_places(value) if isinstance(value, dict | list) else 2
    return next(((value, number) for name, value, number in _number_values(data, at) if name == step), None)


def _number_values(data: Data, at: int) -> Iterator[tuple[str | int, Data, int]]:
    """Yield the key or index, the value and the number of each entry of a collection."""
    number = at + 1
    if isinstance(data, dict):
        for name, value in data.items():
            number += 1  # the key
            yield name, value, number
            number += _count_places(value) if isinstance(value, dict | list) else 1
    elif isinstance(data, list):
        for position, value in enumerate(data):
            yield position, value, number
            number += _count_places(value)


def _count_places(data: Data) -> int:
    """Count a value and every key and value below it."""
    keys, values = 0, [data]
    for value in values:
        if isinstance(value, dict):
            keys += len(value)
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)
    return keys + len(values)


def _walk_values(data: Data, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Path, Data]]:
    """Yield a value and every key and value below it, in the order of the text, with their paths."""
    yield path, data
    if isinstance(data, dict):
        for name, value in data.items():
            yield (*path, name), name
            yield from _walk_values(value, (*path, name))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _walk_values(value, (*path, index))


def read_documents(
    raw: bytes, file: str, report: Callable[[Problem], None], *, verbatim: frozenset[str] | None = frozenset()
) -> list[Document]:
    """Read the documents of a file, without those that have problems.

    Args:
        raw: The bytes of the file.
        file: The name of the file, for locations.
        report: Called with each problem.
        verbatim: Keys below which scalars keep their source text; None for all, with those that are not
            quoted as `Unquoted`.
    """
    text = _decode(raw, file, report)
    if text is None:
        return []
    if "<<<<<<<" in text and (conflict := find_conflict(text, file)) is not None:
        report(conflict)
        return []
    documents = []
    # Counting costs a call of Python for each value, so that only texts that may exceed a limit are counted.
    composer = (LimitedComposer if may_exceed_limits(text) else Composer)(text, file)
    aliases = "&" in text
    try:
        while composer.check_node():
            node = composer.next_document()
            # Most documents are valid, which construction checks on the way; aliases must be checked before
            # they are expanded.
            document = None if aliases else _construct(node, file, verbatim)
            if document is None:
                problems = list(find_node_problems(node, file))
                locations = [problem.location for problem in problems if problem.location is not None]
                template = explain_source(text, file, [location.line - 1 for location in locations])
                for problem in [template] if problems and template is not None else problems:
                    report(problem)
                document = None if problems else _construct(node, file, verbatim, checked=True)
            if document is not None:
                documents.append(document)
                # Aliases count as what they expand to.
                composer.nodes = document.size
    except yaml.MarkedYAMLError as error:
        if error.problem == "did not find expected <document start>" and documents:
            del documents[-1]  # its end was probably not intended
        marks = [mark.line for mark in (error.problem_mark, error.context_mark) if mark is not None]
        report(explain_source(text, file, marks) or explain_syntax_error(error, file, text))
    except yaml.reader.ReaderError as error:
        # libyaml counts bytes of UTF-8.
        location = _locate_end(text.encode()[: error.position], file)
        hint = "remove it, or write it as an escape"
        report(Problem("control characters are not allowed in YAML", location, hint))
    except LimitExceeded as error:
        report(error.problem)
    return documents


def _decode(raw: bytes, file: str, report: Callable[[Problem], None]) -> str | None:
    if len(raw) > MAX_BYTES:
        limit = f"{MAX_BYTES // 1024 // 1024} MiB"
        report(Problem(f"the file is larger than {limit}", Location(file), "split it"))
        return None
    try:
        # Editors on Windows begin files with a byte order mark.
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Neither the position nor the bytes that it refers to include the byte order mark.
        if error.object.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            report(Problem("the file is UTF-16", Location(file), "save the file as UTF-8"))
            return None
        message = f"not UTF-8: byte 0x{error.object[error.start]:02x}"
        report(Problem(message, _locate_end(error.object[: error.start], file), "save the file as UTF-8"))
        return None


def _locate_end(head: bytes, file: str) -> Location:
    """Return the place right after some UTF-8 bytes, in characters as the parser counts."""
    lines = (head.decode("utf-8", "replace") + ".").splitlines()
    return Location(file, len(lines), len(lines[-1]))


class _Hazard(Exception):  # noqa: N818 - not an error yet: `find_node_problems` decides
    """The document may have something that manifests must not have."""


def _construct(
    root: yaml.Node, file: str, verbatim: frozenset[str] | None, *, checked: bool = False
) -> Document | None:
    """Construct the document of a node; None if it needs a check for hazards, unless it was checked."""
    construction = _Construction(verbatim, checked)
    try:
        data = construction.construct(root, verbatim is None)
    except _Hazard:
        return None
    return Document(file, data, array("I", construction.marks))


class _Construction:
    """The construction of the values and marks of one document.

    Args:
        verbatim: Keys below which scalars keep their source text; None for all.
        checked: Whether the document was checked for hazards.
    """

    __slots__ = ("_checked", "_unquoted", "_verbatim", "marks")

    def __init__(self, verbatim: frozenset[str] | None, checked: bool) -> None:
        self._verbatim = verbatim or frozenset()
        self._unquoted = str if verbatim is not None else Unquoted
        self._checked = checked
        self.marks: list[int] = []

    def construct(self, node: yaml.Node, keep: bool) -> Data:
        """Construct the value of a node; raises _Hazard for a hazard, unless the document was checked."""
        mark = node.start_mark
        self.marks += mark.line + 1, mark.column + 1
        if node.tag != UNTAGGED:
            raise _Hazard
        if isinstance(node, yaml.ScalarNode):
            return _resolve_scalar(node, self._unquoted if keep else None)
        if isinstance(node, yaml.SequenceNode):
            return [self.construct(child, keep) for child in node.value]
        data: dict[str, Data] = {}
        for key, value in node.value:
            name = key.value
            if not self._checked and (
                key.tag != UNTAGGED or name == "<<" or type(name) is not str or name in data
            ):
                raise _Hazard
            mark = key.start_mark
            self.marks += mark.line + 1, mark.column + 1
            # All manifests have the same few keys, so each is kept in memory once.
            data[intern(name)] = self.construct(value, keep or name in self._verbatim)
        return data


def _resolve_scalar(node: yaml.ScalarNode, keep: type[str] | None) -> str | int | float | bool | None:
    text: str = node.value
    if node.style:  # quoted, or a block scalar
        return text
    # Also below `verbatim`: null unsets a config.
    if text in _NULL:
        return None
    if keep is not None:
        return keep(text)
    if text in _BOOL:
        return _BOOL[text]
    if len(text) <= MAX_DIGITS and _INT.fullmatch(text):
        # In YAML 1.2, octal numbers begin with 0o: `010` is ten.
        return int(text[2:], _BASES[text[:2]]) if text[:2] in _BASES else int(text)
    if _FLOAT.fullmatch(text) and not isinf(number := float(text)):
        return number
    return text

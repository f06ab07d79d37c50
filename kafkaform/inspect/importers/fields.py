"""Reading the mappings of another tool's files: what no converter takes is named, with its place.

All scalars are read as their source text: names stay as they are written, `1.10` and `010` too. What a tool
makes of a scalar without quotes depends on its reader, which `ScalarReading` names.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.config.manifests.templates import find_placeholder, find_template
from kafkaform.config.manifests.yaml12 import Data, Document, Unquoted
from kafkaform.core.errors import Problem
from kafkaform.core.files import read_file
from kafkaform.core.kafka_configs import REASSIGNMENT_KEYS
from kafkaform.core.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkaform.core.model import Location

_Path: TypeAlias = "tuple[str | int, ...]"

_BOOLEANS = {
    spelling: value
    for words, value in (("true yes on", True), ("false no off", False))
    for word in words.split()
    for spelling in (word, word.capitalize(), word.upper())
}
"""The booleans of YAML 1.1, as SnakeYAML reads them; Go's yaml reads these, and `y` and `n`."""
_LETTERS = {"y": True, "Y": True, "n": False, "N": False}
_QUOTED_BOOLEANS = ("true", "True", "TRUE", "false", "False", "FALSE")
"""The texts that Jackson takes for booleans."""
_NUMBER = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[bBoO][0-7_]+|(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?)"
)
"""Matches what a reader of YAML 1.1 may take for a number."""
_SAME = re.compile(r"0|-?[1-9][0-9]*|(?!-?0\.000)-?(?:0|[1-9][0-9]{0,6})\.(?:0|[0-9]*[1-9])")
"""Matches a number whose text remains the same if it is read, and written again by Java."""
_CLEAR = re.compile(r"[-+]?(?:0|[1-9][0-9]*|(?:0|[1-9][0-9]*)?\.[0-9]*)(?:[eE][-+]?[0-9]+)?")
"""Matches a number that means the same to all readers: `010` is 8 or 10, and `1_000` may be text."""


class ScalarReading(Enum):
    """The reader of a tool: what it makes of scalars without quotes where the tool wants a text."""

    SOURCE = auto()
    """Jackson, right into a text: the source text."""
    TREE = auto()
    """Jackson, into a tree of values first: numbers and booleans in Java's spelling, `1.10` is 1.1."""
    JSON = auto()
    """Go's yaml, into JSON: a config may be a number or a boolean, and no name can."""


class Notes:
    """The problems of the files of another tool, and their parts without a counterpart.

    Attributes:
        tool: The name of the tool.
        problems: Values that cannot be read: nothing is written.
        left_out: Parts without a counterpart.
        remarks: Parts that mean nothing for Kafka.
    """

    def __init__(self, tool: str, reading: ScalarReading) -> None:
        self.tool = tool
        self.reading = reading
        self.problems: list[Problem] = []
        self.left_out: list[Problem] = []
        self.remarks: list[Problem] = []
        self._visited: list[Fields] = []
        self._whole: set[tuple[int, _Path]] = set()
        self._templates: set[tuple[int, str]] = set()

    def open(self, document: Document) -> Fields:
        """Return the fields of a document."""
        return Fields(document, (), document.data, self)

    def visit(self, fields: Fields) -> None:
        """Remember a mapping, whose fields must all be taken."""
        self._visited.append(fields)

    def leave_out_whole(self, document: Document, path: _Path) -> None:
        """Remember a mapping whose fields need not be taken."""
        self._whole.add((id(document), path))

    def remark(self, remark: str) -> None:
        """Name what means nothing for this import."""
        self.remarks.append(Problem(remark))

    def reject_template(self, document: Document, path: _Path, text: str, *, key: bool = False) -> None:
        """Report a text that is a template, each kind of them once in a document."""
        template, location = find_template(text), document.locate(path, key=key)
        if template is None or (kind := (id(document), template.message)) in self._templates:
            return
        self._templates.add(kind)
        self.report(Problem(template.message, location))

    def report(self, problem: Problem) -> None:
        """Report a problem of a value, unless there is one already: `[a` has no number, either."""
        if all(problem.location != known.location for known in self.problems):
            self.problems.append(problem)

    def close(self) -> None:
        """Name the fields that were not taken, except below a mapping that is left out as a whole."""
        for fields in self._visited:
            if not any((id(fields.document), above) in self._whole for above in fields.paths):
                fields.leave_out_unknown()


class Fields:
    """A mapping in a file of another tool.

    Each method takes a field. A missing field and null are the same: empty.

    Attributes:
        document: The document of the mapping.
    """

    def __init__(self, document: Document, path: _Path, data: Data, notes: Notes) -> None:
        self.document = document
        self._path = path
        self._notes = notes
        self._data: Mapping[str, Data] = data if isinstance(data, dict) else {}
        self._taken: set[str] = set()
        self._below: dict[str, Fields] = {}
        if data is not None and not isinstance(data, dict):
            self._report((), "must be a mapping")
        notes.visit(self)

    def __contains__(self, name: str) -> bool:
        return self._data.get(name) is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields, in the order of the text."""
        return tuple(self._data)

    @property
    def paths(self) -> Iterator[_Path]:
        """The paths of the mapping and of everything above it."""
        return (self._path[:length] for length in range(len(self._path) + 1))

    @property
    def untaken(self) -> tuple[str, ...]:
        """The names of the fields that nothing has taken yet."""
        return tuple(name for name in self._data if name not in self._taken)

    @property
    def location(self) -> Location:
        """The place of the mapping: that of the key that leads to it, if there is one."""
        return self.document.locate(self._path, key=True)

    def text(self, name: str, default: str = "", *, prose: bool = False) -> str:
        """Return a scalar as text: its source text, which is not a template with `prose`."""
        text = self._read_scalar((name,), self._take(name), prose=prose)
        return default if text is None else text

    def is_unquoted(self, name: str) -> bool:
        """Return whether a field is a scalar without quotes, which may be more than a text."""
        return isinstance(self._data.get(name), Unquoted)

    def name(self, name: str, default: str = "") -> str:
        """Return the name of something as it is written, with a note if the tool itself reads another one."""
        self._compare_reading((name,), self._data.get(name))
        return self.text(name, default)

    def require(self, name: str) -> str:
        """Return the name of something, as `name` does; report that it is missing."""
        text = self.name(name)
        if not text or text.isspace():
            self._report((name,), "is empty" if name in self._data else "is missing")
        return text

    def flag(self, name: str) -> bool:
        """Return whether a field is true, as Jackson reads booleans; missing is false."""
        text = self.text(name)
        if self.is_unquoted(name):
            value = {"1": True, "0": False, **_BOOLEANS}.get(text)
        else:
            value = _BOOLEANS[text] if text in _QUOTED_BOOLEANS else None if text else False
        if value is None:
            self._report((name,), f"must be true or false, not {quoted(text)}")
        return bool(value)

    def count(self, name: str, default: int | None = None) -> int | None:
        """Return a positive number; None for -1, by which Kafka means the broker's default."""
        text = self.text(name)
        return self.parse_count(name, text) if text else default

    def parse_count(self, name: str, text: str) -> int | None:
        """Parse the text of a field as `count` does."""
        if text == "-1":
            return None
        # Readers of YAML 1.1 take `010` for eight.
        if not text.isascii() or not text.isdecimal() or text.startswith("0"):
            self._report((name,), f"must be a whole number of at least 1, not {quoted(text)}")
            return None
        return int(text)

    def texts(self, name: str) -> list[str]:
        """Return a list of names as texts."""
        texts = []
        for index, value in enumerate(self._take_list(name)):
            text = self._read_scalar((name, index), value)
            if not text or text.isspace():
                self._report((name, index), "is empty")
                continue
            self._compare_reading((name, index), value)
            texts.append(text)
        return texts

    def mapping(self, name: str) -> dict[str, str]:
        """Return a mapping of scalars as texts."""
        return self.below(name).mapping_of_rest()

    def mapping_of_rest(self, *, prose: bool = False) -> dict[str, str]:
        """Return the fields that nothing has taken yet, as `mapping` does.

        Args:
            prose: Whether they are for people, who may write `{{ … }}` to each other.
        """
        texts = {}
        for name in self.untaken:
            value = self._take(name)
            text = self._read_scalar((name,), value, prose=prose)
            if value is None:
                self._leave_out_field(name, "it has no value")
            elif text is not None:
                texts[name] = text
        return texts

    def read_file(self, name: str) -> str | None:
        """Return the text of a file that a field names; None if it cannot be read, which is named.

        A relative name is looked for in the folder of the document and in those above it: tools take it from
        there, from the folder that they are given, or from the one that they run in.
        """
        given = self.text(name)
        if not given:
            self._leave_out_field(name, "it names no file")
            return None
        folders = (*Path(self.document.file).parents, Path())
        path = next((path for folder in folders if (path := folder / given).is_file()), Path(given))
        try:
            return read_file(path).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "it is not UTF-8"
            self._leave_out_field(name, f"cannot read {given}: {reason}")
            return None

    def configs(
        self, name: str, reading: ScalarReading | None = None, *, decimals: int | None = None
    ) -> dict[str, str]:
        """Return the values of configs as the tool sends them to Kafka; a list as `compact,delete`.

        Args:
            reading: The reader, if it is not that of the whole tool.
            decimals: The number of decimals that the tool writes of a fraction; None for all.
        """
        section = self.below(name)
        configs: dict[str, str] = {}
        section.leave_out("belongs to a running reassignment: apply has --throttle", *REASSIGNMENT_KEYS)
        for key in section.untaken:
            values = section.take_config(key)
            texts = [
                section.read_config(path, value, reading or self._notes.reading, decimals)
                for path, value in values
            ]
            if values:
                configs[key] = ",".join(texts)
        return configs

    def take_config(self, name: str) -> list[tuple[_Path, Data]]:
        """Return the values of a config with their paths; none if it has no value, which is named."""
        value = self._take(name)
        self._notes.reject_template(self.document, (*self._path, name), name, key=True)
        if value is None:
            self._leave_out_field(name, "it has no value")
            return []
        if isinstance(value, list):
            return [((name, index), part) for index, part in enumerate(value)]
        return [((name,), value)]

    def read_config(self, path: _Path, value: Data, reading: ScalarReading, decimals: int | None) -> str:
        """Return the text of a config as the tool sends it to Kafka."""
        text = self._read_scalar(path, value)
        if value is None:
            self._report(path, "is empty")
        if text is None or reading is ScalarReading.SOURCE or not isinstance(value, Unquoted):
            return text or ""
        words = _BOOLEANS | _LETTERS if reading is ScalarReading.JSON else _BOOLEANS
        if text in words:
            return str(words[text]).lower()
        if not _NUMBER.fullmatch(text):
            return text
        if not _CLEAR.fullmatch(text):
            self._report(path, f"{quoted(text)} is not the same number to all readers: write its digits")
        elif reading is ScalarReading.JSON and isfinite(number := float(text)):
            # Helm writes 604800000 as 6.048e+08, and JSON has no difference.
            if number.is_integer():
                return str(int(number))
            return text if decimals is None else f"{number:.{decimals}f}"
        return text

    def below(self, name: str) -> Fields:
        """Return the mapping below a field."""
        # One object for each mapping, as it remembers what was taken.
        if name not in self._below:
            data = self._take(name)
            self._below[name] = Fields(self.document, (*self._path, name), data, self._notes)
        return self._below[name]

    def list_named(self, name: str) -> Iterator[tuple[str, Fields]]:
        """Yield each name of a mapping of mappings, with the mapping."""
        yield from self.below(name).list_children()

    def list_children(self) -> Iterator[tuple[str, Fields]]:
        """Yield each field with the mapping below it."""
        for name in self.names:
            self._notes.reject_template(self.document, (*self._path, name), name, key=True)
            if not name:
                self._report((name,), "has no name")
            yield name, self.below(name)

    def list_each(self, name: str) -> Iterator[Fields]:
        """Yield the mappings of a list."""
        for index, value in enumerate(self._take_list(name)):
            if value is None:
                self._report((name, index), "is empty")
            else:
                yield Fields(self.document, (*self._path, name, index), value, self._notes)

    def has_list(self, name: str) -> bool:
        """Return whether a field is a list."""
        return isinstance(self._data.get(name), list)

    def has_mapping(self, name: str) -> bool:
        """Return whether a field is a mapping."""
        return isinstance(self._data.get(name), dict)

    def number_lists(self, name: str) -> list[list[int]]:
        """Return a list of lists of whole numbers."""
        rows = [row if isinstance(row, list) else [row] for row in self._take_list(name)]
        texts = [each if isinstance(each, str) else "" for row in rows for each in row]
        if not all(text.isascii() and text.isdecimal() for text in texts):
            self._report((name,), "must be a list of lists of whole numbers")
            return []
        return [[int(str(each)) for each in row] for row in rows]

    def ignore(self, *names: str) -> None:
        """Take fields without a meaning for the cluster or its users."""
        self._taken.update(names)

    def leave_out(self, reason: str, *names: str) -> None:
        """Name fields as left out, where they are present; an empty one means nothing."""
        for name in names:
            self._taken.add(name)
            if self._data.get(name) not in (None, [], {}):
                self._leave_out_field(name, reason)

    def leave_out_unknown(self) -> None:
        """Name the fields that nothing has taken."""
        for name in self.untaken:
            self._leave_out_field(name, "unknown field")

    def leave_out_all(self, reason: str) -> None:
        """Name the whole mapping as left out."""
        self.skip()
        self.leave_out_part(reason)

    def leave_out_part(self, reason: str) -> None:
        """Name a part of the meaning of the mapping as left out."""
        self._notes.left_out.append(Problem(reason, self.location))

    def skip(self, reason: str | None = None) -> None:
        """Take the whole mapping, which means nothing for Kafka; with a reason, it is named."""
        self._notes.leave_out_whole(self.document, self._path)
        if reason is not None:
            self._notes.remarks.append(Problem(reason, self.location))

    def reject(self, message: str, hint: str | None = None) -> None:
        """Report a problem because of which nothing is written."""
        self._notes.problems.append(Problem(message, self.location, hint))

    def reject_field(self, name: str, message: str) -> None:
        """Report a problem of a field, because of which nothing is written."""
        self._report((name,), message)

    def reject_texts(self, part: str, message: str, hint: str) -> None:
        """Report every text of the document that has a part."""
        for _, location, text in self.document.walk_texts():
            if part in text:
                self._notes.problems.append(Problem(message, location, hint))

    def _take(self, name: str) -> Data:
        self._taken.add(name)
        return self._data.get(name)

    def _take_list(self, name: str) -> list[Data]:
        values = self._take(name)
        if isinstance(values, list):
            return values
        if values is not None:
            self._report((name,), "must be a list")
        return []

    def _read_scalar(self, below: _Path, value: Data, *, prose: bool = False) -> str | None:
        """Return a scalar as text; None if it is null, or no scalar, which is reported."""
        path = (*self._path, *below)
        if (template := find_placeholder(self.document, path, value)) is not None:
            value = template.mark
        if isinstance(value, dict | list):
            self._report(below, "must be a text")
            return None
        if value is None:
            return None
        text = str(value)
        if not prose:
            self._notes.reject_template(self.document, path, text)
        return text

    def _compare_reading(self, below: _Path, text: Data) -> None:
        if self._notes.reading is not ScalarReading.TREE or not isinstance(text, Unquoted):
            return
        is_other = text in _BOOLEANS and text not in {"true", "false"}
        if is_other or (_NUMBER.fullmatch(text) and not _SAME.fullmatch(text)):
            location = self.document.locate((*self._path, *below))
            kind = "a boolean" if is_other else "a number"
            reason = f"{self._notes.tool} reads {text} as {kind}; kept as it is written: quote it"
            self._notes.left_out.append(Problem(reason, location))

    def _leave_out_field(self, name: str, reason: str) -> None:
        location = self.document.locate((*self._path, name), key=True)
        self._notes.left_out.append(Problem(f"{self._describe(name)}: {reason}", location))

    def _describe(self, name: str) -> str:
        # The last names of the path: those above them are clear from the place.
        return ".".join(str(step) for step in (*self._path[-1:], name) if isinstance(step, str))

    def _report(self, below: _Path, message: str) -> None:
        path = (*self._path, *below)
        name = ".".join(map(str, path)) or "the document"
        self._notes.report(Problem(f"{name} {message}", self.document.locate(path)))

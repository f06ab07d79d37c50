"""Reading the mappings of another tool's files: what no converter takes is named, with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaform.core.errors import Problem
from kafkaform.core.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkaform.config.manifests.yaml12 import Data, Document
    from kafkaform.core.model import Location

_Path: TypeAlias = "tuple[str | int, ...]"

VERBATIM = frozenset(
    {"annotations", "config", "configs", "data", "labels", "meta", "metadata", "quotas", "settings"}
)
"""Below these keys, scalars keep their source text: names, labels, and the values of Kafka configs."""


class Notes:
    """The problems of the files of another tool, and their parts without a counterpart.

    Attributes:
        problems: Values that cannot be read: nothing is written.
        left_out: Parts without a counterpart.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.left_out: list[Problem] = []
        self._visited: list[Fields] = []
        self._whole: set[tuple[int, _Path]] = set()

    def open(self, document: Document) -> Fields:
        """Return the fields of a document."""
        return Fields(document, (), document.data, self)

    def visit(self, fields: Fields) -> None:
        """Remember a mapping, whose fields must all be taken."""
        self._visited.append(fields)

    def leave_out_whole(self, document: Document, path: _Path) -> None:
        """Remember a mapping whose fields need not be taken."""
        self._whole.add((id(document), path))

    def close(self) -> None:
        """Name the fields that were not taken, except below a mapping that is left out as a whole."""
        for fields in self._visited:
            if not any((id(fields.document), above) in self._whole for above in fields.paths):
                fields.leave_out("unknown field", *fields.untaken)


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
    def place(self) -> Location:
        """The place of the mapping: that of the key that leads to it, if there is one."""
        return self.document.locate(self._path, key=True)

    def text(self, name: str, default: str = "") -> str:
        """Return a scalar as text."""
        value = self._take(name)
        if isinstance(value, dict | list):
            self._report((name,), "must be a text")
            return default
        return default if value is None else _to_text(value)

    def flag(self, name: str) -> bool:
        """Return whether a field is true."""
        return self.text(name) == "true"

    def count(self, name: str, default: int | None = None) -> int | None:
        """Return a positive number; None for -1, by which Kafka means the broker's default."""
        text = self.text(name)
        return self.parse_count(name, text) if text else default

    def parse_count(self, name: str, text: str) -> int | None:
        """Parse the text of a field as `count` does."""
        if text == "-1":
            return None
        if not text.isascii() or not text.isdecimal() or not int(text):
            self._report((name,), f"must be a whole number of at least 1, not {quoted(text)}")
            return None
        return int(text)

    def texts(self, name: str) -> list[str]:
        """Return a list of scalars as texts."""
        values = self._take(name)
        if not isinstance(values, list | None):
            self._report((name,), "must be a list")
            return []
        return [_to_text(value) for value in values or ()]

    def mapping(self, name: str) -> dict[str, str]:
        """Return a mapping of scalars as texts, a list as Kafka writes it: `compact,delete`."""
        return self.below(name).mapping_of_rest()

    def mapping_of_rest(self) -> dict[str, str]:
        """Return the fields that nothing has taken yet, as `mapping` does."""
        texts = {}
        for name in self.untaken:
            value = self._take(name)
            if value is None:
                self.leave_out("it has no value", name)
            else:
                texts[name] = ",".join(map(_to_text, value)) if isinstance(value, list) else _to_text(value)
        return texts

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
            yield name, self.below(name)

    def list_each(self, name: str) -> Iterator[Fields]:
        """Yield the mappings of a list."""
        values = self._take(name)
        if not isinstance(values, list | None):
            self._report((name,), "must be a list")
            return
        for number, value in enumerate(values or ()):
            yield Fields(self.document, (*self._path, name, number), value, self._notes)

    def has_list(self, name: str) -> bool:
        """Return whether a field is a list."""
        return isinstance(self._data.get(name), list)

    def number_lists(self, name: str) -> list[list[int]]:
        """Return a list of lists of whole numbers."""
        values = self._take(name)
        rows = values if isinstance(values, list) else []
        numbers = [[each for each in row if type(each) is int] for row in rows if isinstance(row, list)]
        if numbers != (values or []):
            self._report((name,), "must be a list of lists of whole numbers")
            return []
        return numbers

    def ignore(self, *names: str) -> None:
        """Take fields without a meaning for the cluster or its users."""
        self._taken.update(names)

    def leave_out(self, reason: str, *names: str) -> None:
        """Name fields as left out, where they are present."""
        for name in names:
            if name in self._data:
                self._taken.add(name)
                place = self.document.locate((*self._path, name), key=True)
                self._notes.left_out.append(Problem(f"{self._describe(name)}: {reason}", place))

    def leave_out_all(self, reason: str) -> None:
        """Name the whole mapping as left out."""
        self._notes.leave_out_whole(self.document, self._path)
        self.leave_out_part(reason)

    def leave_out_part(self, reason: str) -> None:
        """Name a part of the meaning of the mapping as left out."""
        self._notes.left_out.append(Problem(reason, self.place))

    def reject(self, message: str, hint: str | None = None) -> None:
        """Report a problem because of which nothing is written."""
        self._notes.problems.append(Problem(message, self.place, hint))

    def reject_texts(self, part: str, message: str, hint: str) -> None:
        """Report every text of the document that has a part."""
        for place, text in self.document.walk_texts():
            if part in text:
                self._notes.problems.append(Problem(message, place, hint))

    def _take(self, name: str) -> Data:
        self._taken.add(name)
        return self._data.get(name)

    def _describe(self, name: str) -> str:
        # The last names of the path: those above them are clear from the place.
        return ".".join(str(step) for step in (*self._path[-1:], name) if isinstance(step, str))

    def _report(self, below: _Path, message: str) -> None:
        path = (*self._path, *below)
        name = ".".join(map(str, path)) or "the document"
        self._notes.problems.append(Problem(f"{name} {message}", self.document.locate(path)))


def _to_text(value: Data) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

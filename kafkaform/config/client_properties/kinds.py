"""What the value of a client property may look like."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """Any text without NUL, or only what `pattern` matches whole; `describes` says that in words."""

    pattern: str | None = None
    describes: str = ""

    def canonical(self, value: str) -> str:
        """The value as it is."""
        return value

    def flaw(self, value: str) -> str | None:
        """Why the value cannot be used, in words that do not repeat it."""
        if "\0" in value:
            return "must not contain a NUL character"
        if not value.strip():
            return "must not be empty"
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            return f"must be {self.describes}"
        return None


@dataclass(frozen=True, slots=True)
class Flag:
    """`true` or `false`."""

    def canonical(self, value: str) -> str:
        """In lower case."""
        return value.strip().lower()

    def flaw(self, value: str) -> str | None:
        """Why the value cannot be used."""
        return None if self.canonical(value) in ("true", "false") else "must be true or false"


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number between two bounds, both allowed."""

    low: int
    high: int

    def canonical(self, value: str) -> str:
        """Without surrounding blanks."""
        return value.strip()

    def flaw(self, value: str) -> str | None:
        """Why the value cannot be used."""
        if re.fullmatch(r"-?[0-9]{1,12}", value.strip()) and self.low <= int(value) <= self.high:
            return None
        return f"must be a whole number from {self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words, in whatever case; the canonical case is the one listed."""

    values: tuple[str, ...]

    def canonical(self, value: str) -> str:
        """In the case that every client accepts."""
        folded = {choice.casefold(): choice for choice in self.values}
        return folded.get(value.strip().casefold(), value)

    def flaw(self, value: str) -> str | None:
        """Why the value cannot be used."""
        if self.canonical(value) in self.values:
            return None
        listed = ", ".join(self.values)
        return f"must be one of {listed}" if len(self.values) > 1 else f"must be {listed}"


Kind: TypeAlias = Text | Flag | Number | Choice

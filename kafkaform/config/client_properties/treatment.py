"""One client property: what its value may look like, and what becomes of it beside librdkafka."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Handled:
    """Translated by code of its own; `how` is for the reader of the matrix."""

    how: str = "used"


@dataclass(frozen=True, slots=True)
class Unused:
    """Left out: it makes no difference to what the client may do or whom it trusts."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The client cannot do it, and going without would be something else than what was asked.

    `unless` is the one value that asks for nothing more than what the client does anyway.
    """

    why: str
    hint: str
    unless: str | None = None


Treatment: TypeAlias = Handled | Unused | Refused


@dataclass(frozen=True, slots=True)
class Property:
    """One property: its values, and its fate in kafkaform's own connections.

    Attributes:
        name: librdkafka's name.
        kind: What its value may look like.
        transport: What becomes of it in kafkaform's own connections.
        sensitive: Its value is never shown.
        shown: Its value may be shown even when it was read from the environment or a file.
    """

    name: str
    kind: Kind
    transport: Treatment
    sensitive: bool = False
    shown: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """Any text without NUL, or only what `pattern` matches whole; `describes` says that in words."""

    pattern: str | None = None
    describes: str = ""

    def canonical(self, value: str) -> str:
        """The value as it is."""
        return value

    def flaw(self, value: str) -> str | None:
        """Return why the value cannot be used, in words that do not repeat it."""
        if "\0" in value:
            return "must not contain a NUL character"
        if not value.strip():
            return "must not be empty"
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            return f"must be {self.describes}"
        return None


_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\])(?::(?P<port>[0-9]+))?")
_LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Addresses:
    """`HOST:PORT`, or several with commas between; the name of a listener may stand before each."""

    def canonical(self, value: str) -> str:
        """The value as it is."""
        return value

    def flaw(self, value: str) -> str | None:
        """Return why the value cannot be used."""
        if not value.strip():
            return "must not be empty"
        for address in map(str.strip, value.removesuffix(",").split(",")):
            parts = _ADDRESS.fullmatch(address)
            if address.lower().startswith(("http://", "https://")):
                return "must be HOST:PORT without http://: brokers speak Kafka's own protocol"
            if parts is None:
                return "must be HOST:PORT, or several of them with commas between"
            if parts["port"] is not None and not 0 < int(parts["port"]) <= _LAST_PORT:
                return f"has a port that is not between 1 and {_LAST_PORT}"
        return None


@dataclass(frozen=True, slots=True)
class Flag:
    """`true` or `false`."""

    def canonical(self, value: str) -> str:
        """In lower case."""
        return value.strip().lower()

    def flaw(self, value: str) -> str | None:
        """Return why the value cannot be used."""
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
        """Return why the value cannot be used."""
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
        """Return why the value cannot be used."""
        if self.canonical(value) in self.values:
            return None
        listed = ", ".join(self.values)
        return f"must be one of {listed}" if len(self.values) > 1 else f"must be {listed}"


Kind: TypeAlias = Text | Addresses | Flag | Number | Choice

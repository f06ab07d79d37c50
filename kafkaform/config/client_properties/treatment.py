"""The definition of a client property: its valid values, and its use in kafkaform's own connections."""

from __future__ import annotations

import re
from typing import TypeAlias

from kafkaform.core.values import Value


class Handled(Value):
    """The property is supported; `how` is its entry in the documentation."""

    how: str = "used"


class Unused(Value):
    """The property is ignored, as it affects neither access nor trust."""

    why: str = ""


class Refused(Value):
    """The property is not supported, and to ignore it would do something else than the user asked for.

    `unless` is the one value that is accepted: the behaviour without the property.
    """

    why: str
    hint: str
    unless: str | None = None


Treatment: TypeAlias = Handled | Unused | Refused


class Property(Value):
    """A client property.

    Attributes:
        name: librdkafka's name.
        kind: The type of its value.
        transport: Its use in kafkaform's own connections.
        sensitive: Whether its value is never printed.
        shown: Whether its value may be printed even if it was read from the environment or a file.
    """

    name: str
    kind: Kind
    transport: Treatment
    sensitive: bool = False
    shown: bool = False


class Text(Value):
    """Text without NUL that `pattern`, if any, matches; `describes` is the pattern in words."""

    pattern: str | None = None
    describes: str = ""

    def normalise(self, value: str) -> str:
        """Return the value unchanged."""
        return value

    def find_flaw(self, value: str) -> str | None:
        """Return the reason why a value is invalid, without quoting it; None if it is valid."""
        if "\0" in value:
            return "must not contain a NUL character"
        if not value.strip():
            return "must not be empty"
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            return f"must be {self.describes}"
        return None


_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\])(?::(?P<port>[0-9]+))?")
_LAST_PORT = 65_535


class Addresses(Value):
    """A comma-separated list of `HOST:PORT`, each optionally prefixed with the name of a listener."""

    def normalise(self, value: str) -> str:
        """Return the value unchanged."""
        return value

    def find_flaw(self, value: str) -> str | None:
        """Return the reason why a value is invalid; None if it is valid."""
        if not value.strip():
            return "must not be empty"
        for address in map(str.strip, value.removesuffix(",").split(",")):
            parts = _ADDRESS.fullmatch(address)
            if address.lower().startswith(("http://", "https://")):
                return "must be HOST:PORT without http://: brokers speak Kafka's own protocol"
            if parts is None:
                return "must be HOST:PORT, or several of them separated by commas"
            if parts["port"] is not None and not 0 < int(parts["port"]) <= _LAST_PORT:
                return f"has a port that is not between 1 and {_LAST_PORT}"
        return None


class Flag(Value):
    """`true` or `false`."""

    def normalise(self, value: str) -> str:
        """Return the value in lower case."""
        return value.strip().lower()

    def find_flaw(self, value: str) -> str | None:
        """Return the reason why a value is invalid; None if it is valid."""
        return None if self.normalise(value) in ("true", "false") else "must be true or false"


class Number(Value):
    """A whole number in an inclusive range."""

    low: int
    high: int

    def normalise(self, value: str) -> str:
        """Return the value without surrounding blanks."""
        return value.strip()

    def find_flaw(self, value: str) -> str | None:
        """Return the reason why a value is invalid; None if it is valid."""
        # Twelve digits suffice for every range, and keep `int` from parsing a text of any length.
        if re.fullmatch(r"-?[0-9]{1,12}", value.strip()) and self.low <= int(value) <= self.high:
            return None
        return f"must be a whole number from {self.low} to {self.high}"


class Choice(Value):
    """One of a few words, in any case; normalised to the listed case."""

    values: tuple[str, ...]

    def normalise(self, value: str) -> str:
        """Return the value in the case that every client accepts."""
        folded = {choice.casefold(): choice for choice in self.values}
        return folded.get(value.strip().casefold(), value)

    def find_flaw(self, value: str) -> str | None:
        """Return the reason why a value is invalid; None if it is valid."""
        if self.normalise(value) in self.values:
            return None
        listed = ", ".join(self.values)
        return f"must be one of {listed}" if len(self.values) > 1 else f"must be {listed}"


Kind: TypeAlias = Text | Addresses | Flag | Number | Choice

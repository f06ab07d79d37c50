"""Terminal text under construction: lines, paragraphs under a hanging lead, and blocks with a title."""

from __future__ import annotations

from typing import TypeAlias

from rich.cells import cell_len
from rich.text import Text

from kafkaform.core.printable import plain_quotes, printable, wrapped

Part: TypeAlias = str | tuple[str, str]
"""Plain text, or text and a style."""

FIELD_INDENT = 6
NOTE_INDENT = 8
PROSE = 1200
"""Characters of one reason or message; more than that is not prose."""
_LEAST_ROOM = 20


class Page:
    """Lines under construction; every piece of text passes the gate against control characters here.

    Args:
        width: Where to wrap prose, in columns; None leaves it in whole lines.

    Attributes:
        has_body: Whether anything but the head is there.
    """

    def __init__(self, width: int | None) -> None:
        self.has_body = False
        self._width = width
        self._pieces: list[tuple[str, str | None]] = []

    @property
    def is_empty(self) -> bool:
        """Whether there is no text so far."""
        return not self._pieces

    @property
    def text(self) -> Text:
        """The lines so far."""
        # All at once: a rich text takes three times as long to grow piece by piece.
        return Text().append_tokens(self._pieces)

    def line(self, *parts: Part, indent: int = 0) -> None:
        """Add one line."""
        if before := ("" if self.is_empty else "\n") + " " * indent:
            self._pieces.append((before, None))
        for part in parts:
            text, style = (part, None) if isinstance(part, str) else part
            if text:
                self._pieces.append((printable(text), style or None))

    def fits(self, text: str) -> bool:
        """Whether a line of this text is not broken by the terminal."""
        return self._width is None or cell_len(text) <= self._width

    def note(self, lead: str, prose: str, style: str = "", *, indent: int = NOTE_INDENT) -> None:
        """Add a paragraph under a hanging lead."""
        text = plain_quotes(printable(prose))
        room = None if self._width is None else self._width - indent - len(lead)
        lines = [text] if room is None or room < _LEAST_ROOM else wrapped(text, room)
        for number, line in enumerate(lines):
            self.line((lead if number == 0 else " " * len(lead), "dim"), (line, style), indent=indent)

    def verbatim(self, lead: str, text: str, *, indent: int = FIELD_INDENT) -> None:
        """Add what is to be copied: never wrapped; on a line of its own where the lead leaves no room."""
        if self.fits(" " * indent + lead + text):
            self.line((lead, "dim"), text, indent=indent)
        else:
            self.line((lead.rstrip(), "dim"), indent=indent)
            self.line(text, indent=NOTE_INDENT)

    def section(self, *parts: Part) -> None:
        """Start a block: a blank line, and its title."""
        self.has_body = True
        self.line()
        self.line(*parts, indent=2)

"""Texts that kafkaform finds again: the first line of their Markdown is a comment that nobody sees."""

from __future__ import annotations

import re
from dataclasses import dataclass

LIMIT = 65_536
"""The most that a body holds, in UTF-16 units.

GitHub says "65536 characters" and stores 262,144 bytes of UTF-8; so many UTF-16 units are within both.
"""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Marker:
    """What tells one of our texts from another.

    Attributes:
        id: Letters, digits and . _ -, at most 64 of them, so that the name of a cluster may be a part of it.
        part: Which of several texts with that id; empty for the main one.

    Raises:
        ValueError: The id is anything else.
    """

    id: str
    part: str = ""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(
                f"{self.id!r} is not a valid id: use letters, digits and . _ - (at most 64 characters)"
            )

    @property
    def line(self) -> str:
        """The first line of a text."""
        return f"<!-- kafkaform:{self.id}{':' if self.part else ''}{self.part} -->"

    def marks(self, body: str | None) -> bool:
        """Whether a body is a text of this marker."""
        return body is not None and body.split("\n", 1)[0].rstrip() == self.line

    def body(self, text: str) -> str:
        """The text with the marker; cut at the end of a line if it is too long, which it says at its top."""
        text = _normal(text)
        whole = f"{self.line}\n{text}"
        if _units(whole) <= LIMIT:
            return whole
        total = len(text.splitlines())
        room = LIMIT - _units(f"{self.line}\n{_cut_note(total, total)}")
        kept = text.encode("utf-16-le")[: 2 * room].decode("utf-16-le", "ignore")
        lines = kept.splitlines(keepends=True)
        # Half a row of a table is worse than none; a line that is too long by itself is better than nothing.
        shown = "".join(lines[:-1]) or kept
        return f"{self.line}\n{_cut_note(max(1, len(lines) - 1), total)}{shown.rstrip()}"


def is_same(body: str | None, other: str) -> bool:
    """Whether two bodies are one and the same to GitHub, which may change line ends."""
    return body is not None and _normal(body) == _normal(other)


def _cut_note(shown: int, total: int) -> str:
    # At the top, since at the end it could stand inside of a code block or of folded details that were cut.
    return f"**Truncated to GitHub's size limit: {shown:,} of {total:,} lines are shown.**\n\n"


def _normal(text: str) -> str:
    return text.replace("\r\n", "\n").rstrip()


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2

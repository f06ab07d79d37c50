"""Markers of comments and issues: their first line is an invisible comment by which kafkaform finds them."""

from __future__ import annotations

import re

from kafkaform.core.values import Value

LIMIT = 65_536
"""The maximum size of a body, in UTF-16 units.

GitHub documents 65,536 characters and stores 262,144 bytes of UTF-8; this limit is within both.
"""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Marker(Value):
    """The identity of a comment or issue that kafkaform publishes.

    Attributes:
        id: At most 64 letters, digits and . _ -, so that it can include the name of a cluster.
        part: Distinguishes texts with the same id; empty for the main one.

    Raises:
        ValueError: The id is invalid.
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
        """The first line of a body."""
        return f"<!-- kafkaform:{self.id}{':' if self.part else ''}{self.part} -->"

    def marks(self, body: str | None) -> bool:
        """Return whether a body has this marker."""
        return body is not None and body.split("\n", 1)[0].rstrip() == self.line

    def render_body(self, text: str) -> str:
        """Return the text below the marker; a long text is cut after a line, with a note on top."""
        text = _normalise(text)
        whole = f"{self.line}\n{text}"
        if _count_units(whole) <= LIMIT:
            return whole
        total = len(text.splitlines())
        room = LIMIT - _count_units(f"{self.line}\n{_render_cut_note(total, total)}")
        # "ignore" drops half of a surrogate pair at the cut.
        kept = text.encode("utf-16-le")[: 2 * room].decode("utf-16-le", "ignore")
        lines = kept.splitlines(keepends=True)
        # Half a row of a table would break it. A single line that is too long is cut all the same.
        shown = "".join(lines[:-1]) or kept
        return f"{self.line}\n{_render_cut_note(max(1, len(lines) - 1), total)}{shown.rstrip()}"


def is_same(body: str | None, other: str) -> bool:
    """Return whether two bodies differ only in line ends, which GitHub may change."""
    return body is not None and _normalise(body) == _normalise(other)


def _render_cut_note(shown: int, total: int) -> str:
    # At the top: at the end it could be inside a code block or folded details that were cut.
    return f"**Truncated: {shown:,} of {total:,} lines are shown.**\n\n"


def _normalise(text: str) -> str:
    return text.replace("\r\n", "\n").rstrip()


def _count_units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2

"""Bars of text, in tables of a terminal and of Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.report.document import Bar, Column, Role, Row, TextSpan

if TYPE_CHECKING:
    from collections.abc import Sequence

MARK = "│"
"""The mark of the mean in a bar."""
_FULL, _HALF, _TRACE = "█", "▌", "▏"


def draw_bars(
    columns: Sequence[Column], rows: Sequence[Row], room: int, role: Role | None = None
) -> list[Row]:
    """Return the rows with the shares of the last column as bars.

    Args:
        room: The characters of the longest bar, at least 1.
        role: The role of the bars; None for that of each share.
    """
    top = max((row[-1].share for row in rows if isinstance(row[-1], Bar)), default=0.0)
    mean = columns[-1].mean or 0.0
    return [
        [*row[:-1], TextSpan(draw_bar(cell.share, top, mean, room), role or cell.role)]
        if isinstance(cell := row[-1], Bar)
        else row
        for row in rows
    ]


def draw_bar(share: float, top: float, mean: float, room: int) -> str:
    """Draw a bar to half a character, with the mark of the mean; a share above 0 is always visible.

    Args:
        top: The share of the longest bar.
        mean: The share that is marked.
        room: The characters of the longest bar, at least 1.
    """
    if top <= 0:
        return ""
    halves = round(2 * room * share / top)
    drawn = _FULL * (halves // 2) + _HALF * (halves % 2)
    # A partition with few records must not look like an empty one.
    if share > 0 and not drawn:
        drawn = _TRACE
    # The mean of an even topic is at the end of the longest bar, and must stay within its room.
    column = min(room - 1, int(room * mean / top))
    padded = drawn.ljust(room)
    return (padded[:column] + MARK + padded[column + 1 :]).rstrip()

"""How messages count and list."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

FEW = 5
"""How many names a message has room for."""


def counted(number: int, noun: str) -> str:
    """`1 topic`, `1,200 topics`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Collection[str], few: int = FEW, *, noun: str = "") -> str:
    """The first few names, and how many more there are: `a, b and 3 more`, or `… 3 more topics` of a noun."""
    shown = [*names][:few]
    more = len(names) - len(shown)
    rest = counted(more, f"more {noun}") if noun else f"{more:,} more"
    return ", ".join(shown) + (f" and {rest}" if more else "")

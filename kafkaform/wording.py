"""How messages count, list, name commits, and tell ages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

FEW = 5
"""How many names a message has room for."""
DIRTY = "-dirty"
"""What is added to the commit of files that are not as that commit has them, as `git describe` does."""
_COMMIT = 12


def counted(number: int, noun: str) -> str:
    """`1 topic`, `1,200 topics`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Collection[str], few: int = FEW, *, noun: str = "") -> str:
    """The first few names, and how many more there are: `a, b and 3 more`, or `… 3 more topics` of a noun."""
    shown = [*names][:few]
    more = len(names) - len(shown)
    rest = counted(more, f"more {noun}") if noun else f"{more:,} more"
    return ", ".join(shown) + (f" and {rest}" if more else "")


def short_commit(commit: str) -> str:
    """The start of a commit, and `-dirty` behind it where files differed from it."""
    return commit.removesuffix(DIRTY)[:_COMMIT] + (DIRTY if commit.endswith(DIRTY) else "")


def aged(age: timedelta) -> str:
    """An age in the largest unit of which there are two."""
    seconds = int(age.total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * size:
            return counted(seconds // size, unit)
    return counted(seconds, "second")

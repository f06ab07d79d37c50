"""Bars of text for shares, and which of many partitions or members a report shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_T = TypeVar("_T")

MARK = "│"
"""Where the mean lies in a bar."""
_FULL, _HALF, _TRACE = "█", "▌", "▏"


@dataclass(frozen=True, slots=True)
class Scale:
    """What bars are drawn on: the longest one is as wide as the room.

    Attributes:
        top: The largest share.
        mean: The mean share, marked in every bar.
        room: Characters of the longest bar, at least 1.
    """

    top: float
    mean: float
    room: int

    def bar(self, share: float) -> str:
        """A bar to half a character, cut by the mark of the mean; a share above 0 is never invisible."""
        halves = round(2 * self.room * share / self.top) if self.top > 0 else 0
        drawn = _FULL * (halves // 2) + _HALF * (halves % 2)
        if share > 0 and not drawn:
            drawn = _TRACE
        if self.top <= 0:
            return drawn
        place = min(self.room - 1, int(self.room * self.mean / self.top))
        padded = drawn.ljust(self.room)
        return (padded[:place] + MARK + padded[place + 1 :]).rstrip()


@dataclass(frozen=True, slots=True)
class Selection(Generic[_T]):
    """What is shown of many things, in order, and what is only summed up between the two parts."""

    first: tuple[_T, ...]
    left_out: tuple[_T, ...] = ()
    last: tuple[_T, ...] = ()


def selected(
    things: Iterable[_T], size: Callable[[_T], float], *, most: int | None, last: int
) -> Selection[_T]:
    """All things as they come if there are at most `most`; else the largest ones and the `last` smallest."""
    given = tuple(things)
    if most is None or len(given) <= most:
        return Selection(given)
    ordered = tuple(sorted(given, key=size, reverse=True))
    first = most // 2 - last
    return Selection(ordered[:first], ordered[first : len(ordered) - last], ordered[len(ordered) - last :])

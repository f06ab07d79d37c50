"""Evening out a count over brokers by shifts, each of which takes one from a broker for another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

T = TypeVar("T")


class Shifts(Protocol[T]):
    """What can be shifted."""

    def begin(self) -> None:
        """Look at everything anew: what could not be shifted before may be shifted now."""

    def find(self, source: int, target: int, *, alone: bool) -> T | None:
        """What can go from one broker to another; None if there is nothing.

        Args:
            source: Loses one.
            target: Gains one.
            alone: Nothing else is shifted with it.
        """

    def carry_out(self, item: T, source: int, target: int) -> None:
        """Shift what was found."""


Path: TypeAlias = list[tuple[T, int, int]]
"""Shifts of which each begins where the one before ends."""


def level(
    counts: Mapping[int, int], shifts: Shifts[T], *, targets: Collection[int], most: int | None = None
) -> bool:
    """Shift until no broker has two more than another that it can give to; True if anything was shifted.

    Where a broker has nothing to give to another one directly, it gives through others, by the shortest way.
    Sums of squares become smaller with each step, so it ends, and no count grows beyond the largest one.

    Args:
        counts: By broker; follows the shifts.
        shifts: What can be shifted.
        targets: Brokers that may be given to.
        most: Nobody is given to who has as many.
    """
    changed = False
    while True:
        shifts.begin()
        stuck: set[int] = set()
        moved = False
        while path := _path(counts, shifts, targets, most, stuck):
            for step in path:
                shifts.carry_out(*step)
            moved = True
        if not moved:
            return changed
        changed = True


def _path(
    counts: Mapping[int, int], shifts: Shifts[T], targets: Collection[int], most: int | None, stuck: set[int]
) -> Path[T]:
    """The next thing to do: from the fullest broker that can give; empty if none can."""
    open_ = [broker for broker in targets if most is None or counts[broker] < most]
    emptiest_first = sorted(open_, key=lambda broker: (counts[broker], broker))
    if not emptiest_first:
        return []
    least = counts[emptiest_first[0]]
    for source in sorted(counts, key=lambda broker: (-counts[broker], broker)):
        if counts[source] - least < 2:
            break
        if source not in stuck:
            path, reached = _search(counts, shifts, source, emptiest_first)
            if path:
                return path
            # Whatever it can give through would have led it out, as it is no fuller.
            stuck.update(reached)
    return []


def _search(
    counts: Mapping[int, int], shifts: Shifts[T], source: int, emptiest_first: list[int]
) -> tuple[Path[T], Collection[int]]:
    """The shortest way from a broker to one that has at least two less; else the brokers that it reaches."""
    enough = counts[source] - 2
    ways: dict[int, Path[T]] = {source: []}
    edge = [source]
    while edge:
        reached = []
        for here in edge:
            for there in emptiest_first:
                if there in ways:
                    continue
                ends = counts[there] <= enough
                item = shifts.find(here, there, alone=ends and here == source)
                if item is None or any(item is step[0] for step in ways[here]):
                    continue
                ways[there] = [*ways[here], (item, here, there)]
                if ends:
                    return ways[there], ways
                reached.append(there)
        edge = reached
    return [], ways

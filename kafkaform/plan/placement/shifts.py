"""What can be shifted between brokers, replicas and preferred leads.

A count is evened out by such shifts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import (
    TYPE_CHECKING,
    Protocol,
    TypeAlias,
    TypeVar,
)

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Iterable,
        Iterator,
        Mapping,
    )

    from kafkaform.plan.placement.broker_load import BrokerLoad, Row


class _Shifts(ABC):
    """Finds a partition for a pair of brokers, going through each pair's partitions once a pass.

    Args:
        board: The counts.
        rows: The partitions that may change, those to be taken first at the front.
    """

    def __init__(self, board: BrokerLoad, rows: Iterable[Row]) -> None:
        self._board = board
        self._pools: dict[int, dict[Row, None]] = {broker: {} for broker in board.brokers}
        self._ranks: dict[Row, int] = {}
        for rank, row in enumerate(rows):
            self._ranks[row] = rank
            for broker in self._brokers_of(row):
                self._pools[broker][row] = None
        self.begin()

    def begin(self) -> None:
        """See `Shifts.begin`."""
        self._ways: dict[tuple[int, int], Iterator[Row]] = {}
        self._found: dict[tuple[int, int], Row] = {}
        self._lists: dict[object, list[Row]] = {}

    def find(self, source: int, target: int, *, alone: bool) -> Row | None:
        """See `Shifts.find`."""
        pair = source, target
        found = self._found.pop(pair, None)
        if found is None or not self._can(found, source, target):
            if pair not in self._ways:
                self._ways[pair] = iter(self._candidates(source, target))
            found = next((row for row in self._ways[pair] if self._can(row, source, target)), None)
        if found is not None:
            self._found[pair] = found
            return found
        return self._last_resort(source, target) if alone else None

    def _candidates(self, source: int, target: int) -> list[Row]:
        """The partitions that a broker may give to another, the best first; not all of them can go."""
        del target
        if source not in self._lists:
            self._lists[source] = sorted(self._pools[source], key=self._ranks.__getitem__)
        return self._lists[source]

    def _last_resort(self, source: int, target: int) -> Row | None:
        """What can be shifted at a price that only a shift alone may ask."""
        del source, target
        return None

    @abstractmethod
    def _brokers_of(self, row: Row) -> Iterable[int]:
        """The brokers that a partition may be taken from."""

    @abstractmethod
    def _can(self, row: Row, source: int, target: int) -> bool:
        """Whether it can be shifted as things stand."""


class LeaderShifts(_Shifts):
    """Makes another of a partition's brokers its preferred leader, for which no byte is moved."""

    def carry_out(self, item: Row, source: int, target: int) -> None:
        """See `Shifts.carry_out`."""
        self._board.lead(item, target)
        del self._pools[source][item]
        self._pools[target][item] = None

    def _brokers_of(self, row: Row) -> Iterable[int]:
        return [row.replicas[0]] if row.replicas[0] in self._pools else []

    def _can(self, row: Row, source: int, target: int) -> bool:
        return row.replicas[0] == source and target in row.replicas


class ReplicaShifts(_Shifts):
    """Puts replicas on other brokers: only free ones, and never so that a partition uses racks less well.

    A replica that leads goes only to a broker that leads less, so leaders do not become less even; or where
    the other broker hands the lead of another partition back.
    """

    def carry_out(self, item: Row, source: int, target: int) -> None:
        """See `Shifts.carry_out`."""
        if not self._lead_may_go(item, source, target):
            in_return = self._in_return(source, target)
            assert in_return is not None, "it was found before"  # noqa: S101
            self._board.lead(in_return, source)
        self._board.exchange(item, source, target)
        del self._pools[source][item]
        self._pools[target][item] = None

    def _brokers_of(self, row: Row) -> Iterable[int]:
        return row.free

    def _candidates(self, source: int, target: int) -> list[Row]:
        leaders, racks = self._board.leaders, self._board.racks
        led_too_much = leaders[source] > leaders[target] + 1
        rack = racks.of(target) if racks.told else None
        key = source, rack, led_too_much
        if key in self._lists:
            return self._lists[key]

        def order(row: Row) -> tuple[int, int]:
            leads = row.replicas[0] == source
            # The lead of a partition with one replica can only go with it; any other lead goes for nothing.
            alone = leads and len(row.replicas) == 1
            return (0 if alone and led_too_much else 1 + leads), self._ranks[row]

        fit = (
            row for row in self._pools[source] if not racks.told or racks.keeps(row.replicas, source, target)
        )
        self._lists[key] = sorted(fit, key=order)
        return self._lists[key]

    def _last_resort(self, source: int, target: int) -> Row | None:
        if self._in_return(source, target) is None:
            return None
        found = (row for row in self._pools[source] if self._fits(row, source, target))
        return min(found, key=self._ranks.__getitem__, default=None)

    def _can(self, row: Row, source: int, target: int) -> bool:
        return self._fits(row, source, target) and self._lead_may_go(row, source, target)

    def _fits(self, row: Row, source: int, target: int) -> bool:
        return (
            source in row.free
            and target not in row.replicas
            and (row.choices is None or target in row.choices)
            and self._board.racks.keeps(row.replicas, source, target)
        )

    def _lead_may_go(self, row: Row, source: int, target: int) -> bool:
        if row.leader_open or row.replicas[0] != source:
            return True
        return self._board.leaders[target] < self._board.leaders[source]

    def _in_return(self, source: int, target: int) -> Row | None:
        """A partition that the target leads and the source holds too."""
        found = (
            row
            for row in self._pools[target]
            if not row.leader_open and row.replicas[0] == target and source in row.free
        )
        return min(found, key=self._ranks.__getitem__, default=None)


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

"""Leveling of counts by shifting replicas or preferred leaders between brokers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kafkaform.plan.placement.broker_load import BrokerLoad, Row


class _Shifts(ABC):
    """The search for a partition to shift between two brokers, once per pair and pass.

    Args:
        rows: The partitions that may change, preferred ones first.
    """

    def __init__(self, load: BrokerLoad, rows: Iterable[Row]) -> None:
        self._load = load
        self._pools: dict[int, dict[Row, None]] = {broker: {} for broker in load.brokers}
        self._ranks: dict[Row, int] = {}
        for rank, row in enumerate(rows):
            self._ranks[row] = rank
            for broker in self._list_brokers(row):
                self._pools[broker][row] = None
        self.begin()

    def begin(self) -> None:
        """Forget the candidates of the last pass."""
        self._iterators: dict[tuple[int, int], Iterator[Row]] = {}
        self._matches: dict[tuple[int, int], Row] = {}
        self._sorted: dict[object, list[Row]] = {}

    def find(self, source: int, target: int, *, alone: bool) -> Row | None:
        """Find a partition to shift from one broker to another; None if there is none."""
        pair = source, target
        # The last match of a pair is tried again first, and its candidates are walked only once in a pass:
        # placing 10,000 partitions would take quadratic time otherwise.
        row = self._matches.pop(pair, None)
        if row is None or not self._can(row, source, target):
            if pair not in self._iterators:
                self._iterators[pair] = iter(self._list_candidates(source, target))
            row = next((r for r in self._iterators[pair] if self._can(r, source, target)), None)
        if row is not None:
            self._matches[pair] = row
            return row
        return self._find_last_resort(source, target) if alone else None

    def _list_candidates(self, source: int, target: int) -> list[Row]:
        """List the partitions that a broker may give to another, the best first; `_can` decides."""
        del target
        if source not in self._sorted:
            self._sorted[source] = sorted(self._pools[source], key=self._ranks.__getitem__)
        return self._sorted[source]

    def _find_last_resort(self, source: int, target: int) -> Row | None:
        """Find a partition whose shift needs another one in return."""
        del source, target
        return None

    @abstractmethod
    def _list_brokers(self, row: Row) -> Iterable[int]:
        """List the brokers that a partition may be taken from."""

    @abstractmethod
    def _can(self, row: Row, source: int, target: int) -> bool:
        """Return whether a partition can be shifted now."""


class LeaderShifts(_Shifts):
    """Shifts of preferred leaders between the brokers of a partition, which copy no data."""

    def carry_out(self, item: Row, source: int, target: int) -> None:
        """Make the target the preferred leader."""
        self._load.lead(item, target)
        del self._pools[source][item]
        self._pools[target][item] = None

    def _list_brokers(self, row: Row) -> Iterable[int]:
        return [row.replicas[0]] if row.replicas[0] in self._pools else []

    def _can(self, row: Row, source: int, target: int) -> bool:
        return row.replicas[0] == source and target in row.replicas


class ReplicaShifts(_Shifts):
    """Shifts of free replicas to other brokers that keep the spread over racks.

    The replica of a preferred leader goes only to a broker that leads fewer partitions, or one that gives
    the lead of another partition back, so that leaders stay as even.
    """

    def carry_out(self, item: Row, source: int, target: int) -> None:
        """Move the replica to the target, and take a lead in return if that is needed."""
        if not self._lead_may_go(item, source, target):
            in_return = self._find_return(source, target)
            assert in_return is not None, "it was found before"  # noqa: S101
            self._load.lead(in_return, source)
        self._load.exchange(item, source, target)
        del self._pools[source][item]
        self._pools[target][item] = None

    def _list_brokers(self, row: Row) -> Iterable[int]:
        return row.free

    def _list_candidates(self, source: int, target: int) -> list[Row]:
        leaders, racks = self._load.leaders, self._load.racks
        led_too_much = leaders[source] > leaders[target] + 1
        rack = racks.find_rack(target) if racks.are_known else None
        # What `order` and `keeps` depend on besides the source, so that brokers of one rack share the sorted
        # list.
        key = source, rack, led_too_much
        if key in self._sorted:
            return self._sorted[key]

        def order(row: Row) -> tuple[int, int]:
            leads = row.replicas[0] == source
            # The lead of a partition with one replica moves only with its data; any other lead moves free.
            alone = leads and len(row.replicas) == 1
            return (0 if alone and led_too_much else 1 + leads), self._ranks[row]

        fit = (
            row
            for row in self._pools[source]
            if not racks.are_known or racks.keeps(row.replicas, source, target)
        )
        self._sorted[key] = sorted(fit, key=order)
        return self._sorted[key]

    def _find_last_resort(self, source: int, target: int) -> Row | None:
        if self._find_return(source, target) is None:
            return None
        candidates = (row for row in self._pools[source] if self._fits(row, source, target))
        return min(candidates, key=self._ranks.__getitem__, default=None)

    def _can(self, row: Row, source: int, target: int) -> bool:
        return self._fits(row, source, target) and self._lead_may_go(row, source, target)

    def _fits(self, row: Row, source: int, target: int) -> bool:
        return (
            source in row.free
            and target not in row.replicas
            and (row.choices is None or target in row.choices)
            and self._load.racks.keeps(row.replicas, source, target)
        )

    def _lead_may_go(self, row: Row, source: int, target: int) -> bool:
        if row.leader_open or row.replicas[0] != source:
            return True
        return self._load.leaders[target] < self._load.leaders[source]

    def _find_return(self, source: int, target: int) -> Row | None:
        """Find a partition that the target leads and the source holds too."""
        candidates = (
            row
            for row in self._pools[target]
            if not row.leader_open and row.replicas[0] == target and source in row.free
        )
        return min(candidates, key=self._ranks.__getitem__, default=None)


T = TypeVar("T")


class Shifts(Protocol[T]):
    """The items that can be shifted between brokers."""

    def begin(self) -> None:
        """Begin a pass: items that could not be shifted before may be shifted now."""

    def find(self, source: int, target: int, *, alone: bool) -> T | None:
        """Find an item that can go from one broker to another; None if there is none.

        Args:
            source: The broker that gives it.
            target: The broker that takes it.
            alone: Whether nothing else is shifted with it.
        """

    def carry_out(self, item: T, source: int, target: int) -> None:
        """Shift an item that `find` returned."""


Path: TypeAlias = list[tuple[T, int, int]]
"""Shifts of which each begins at the target of the previous one."""


def level(
    counts: Mapping[int, int], shifts: Shifts[T], *, targets: Collection[int], most: int | None = None
) -> bool:
    """Shift until no broker has two more than one that it can give to; return whether any was shifted.

    A broker that cannot give to another directly gives through others, on the shortest path. The sum of
    squares shrinks with each step, so it terminates, and no count exceeds the largest one.

    Args:
        counts: Counts by broker, updated by the shifts.
        shifts: The items that can be shifted.
        targets: Brokers that may take items.
        most: Brokers with this count take no more.
    """
    changed = False
    while True:
        shifts.begin()
        stuck: set[int] = set()
        moved = False
        while path := _find_path(counts, shifts, targets, most, stuck):
            for step in path:
                shifts.carry_out(*step)
            moved = True
        if not moved:
            return changed
        changed = True


def _find_path(
    counts: Mapping[int, int], shifts: Shifts[T], targets: Collection[int], most: int | None, stuck: set[int]
) -> Path[T]:
    """Find the next shifts, from the fullest broker that can give; empty if none can."""
    open_ = [broker for broker in targets if most is None or counts[broker] < most]
    emptiest_first = sorted(open_, key=lambda broker: (counts[broker], broker))
    if not emptiest_first:
        return []
    least = counts[emptiest_first[0]]
    for source in sorted(counts, key=lambda broker: (-counts[broker], broker)):
        # A shift between counts that differ by one would only exchange them.
        if counts[source] - least < 2:
            break
        if source not in stuck:
            path, reached = _search(counts, shifts, source, emptiest_first)
            if path:
                return path
            # The brokers that it reaches are no fuller, so they cannot give either.
            stuck.update(reached)
    return []


def _search(
    counts: Mapping[int, int], shifts: Shifts[T], source: int, emptiest_first: list[int]
) -> tuple[Path[T], Collection[int]]:
    """Find the shortest path to a broker that has at least two less; else return the reached brokers."""
    # Breadth first: the shortest path moves the fewest replicas.
    enough = counts[source] - 2
    paths: dict[int, Path[T]] = {source: []}
    edge = [source]
    while edge:
        reached = []
        for here in edge:
            for there in emptiest_first:
                if there in paths:
                    continue
                ends = counts[there] <= enough
                item = shifts.find(here, there, alone=ends and here == source)
                # Each shift is found in the state before the path: a partition that the path already shifts
                # is elsewhere by then.
                if item is None or any(item is step[0] for step in paths[here]):
                    continue
                paths[there] = [*paths[here], (item, here, there)]
                if ends:
                    return paths[there], paths
                reached.append(there)
        edge = reached
    return [], paths

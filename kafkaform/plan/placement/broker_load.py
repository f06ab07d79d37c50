"""What is asked of the placement of topics, and the counts of a cluster while replicas are being placed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

from kafkaform.core.layout import Strategy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkaform.core.layout import (
        Assignment,
        Broker,
        Layout,
        Replicas,
    )


class Racks:
    """The racks of the live brokers.

    Where one of them names no rack, racks are ignored, as Kafka ignores them: each broker is then a rack of
    its own. The rack of a broker that is down is not known, so its replicas use none.

    Attributes:
        told: Whether all brokers name their racks.
        count: How many racks there are.
    """

    def __init__(self, brokers: Iterable[Broker]) -> None:
        known = {broker.id: broker.rack for broker in brokers}
        self.told = all(known.values())
        self._of: dict[int, str | int | None] = {
            id_: rack if self.told else id_ for id_, rack in known.items()
        }
        self._in: dict[str | int | None, list[int]] = {}
        for broker, rack in sorted(self._of.items()):
            self._in.setdefault(rack, []).append(broker)
        self.count = len(self._in)

    def used(self, replicas: Iterable[int]) -> dict[str | int | None, int]:
        """How many of the replicas are in each rack that they use."""
        found: dict[str | int | None, int] = {}
        for replica in replicas:
            if replica in self._of:
                rack = self._of[replica]
                found[rack] = found.get(rack, 0) + 1
        return found

    def shared(self, broker: int, used: dict[str | int | None, int]) -> int:
        """How many replicas a broker's rack holds, of those that were counted; 0 for one that is down."""
        return used.get(self._of[broker], 0) if broker in self._of else 0

    def emptiest(self, replicas: Collection[int]) -> list[int]:
        """The live brokers that hold none of the replicas, in the racks that hold the fewest of them."""
        used = self.used(replicas)
        fewest = len(replicas) + 1
        found: list[int] = []
        for rack, brokers in self._in.items():
            count = used.get(rack, 0)
            if count > fewest:
                continue
            free = [broker for broker in brokers if broker not in replicas]
            if free and count < fewest:
                fewest, found = count, free
            else:
                found += free
        return found

    def missing(self, replicas: Collection[int]) -> int:
        """How many more racks a partition could use with as many live replicas."""
        used = self.used(replicas)
        return min(sum(used.values()), self.count) - len(used)

    def of(self, broker: int) -> str | int | None:
        """The rack of a broker; None for one that is down."""
        return self._of.get(broker)

    def keeps(self, replicas: Iterable[int], source: int, target: int) -> bool:
        """Whether replicas are spread over racks as evenly once one goes from one live broker to another."""
        there, here = self._of[target], self._of[source]
        if there == here:
            return True
        balance = 0
        for replica in replicas:
            rack = self._of.get(replica)
            balance += (rack == here) - (rack == there)
        return balance >= 1


class Row:
    """One partition whose replicas are being placed.

    Attributes:
        topic: Its topic.
        number: Its number.
        replicas: The brokers that hold it, the preferred leader first unless the leader is open.
        free: Those of them that may still be exchanged for another broker.
        choices: The brokers that they may be exchanged for; None for any.
        leader_open: Whether its preferred leader is still to be chosen.
        turn: Where to begin among brokers that are equally good, so that it is not always the same one.
    """

    __slots__ = ("choices", "free", "leader_open", "number", "replicas", "topic", "turn")

    def __init__(self, topic: str, number: int, replicas: Iterable[int] = ()) -> None:
        self.topic = topic
        self.number = number
        self.replicas = list(replicas)
        self.free: set[int] = set()
        self.choices: Collection[int] | None = None
        self.leader_open = False
        self.turn = crc32(topic.encode()) + number


class BrokerLoad:
    """How many replicas and preferred leaders each live broker has, over all topics.

    Args:
        layout: Where replicas are; during a reassignment, where they will be.
        without: Live brokers that take no replica and are not to be balanced.

    Attributes:
        brokers: The ids of the brokers that may take replicas, ascending.
        racks: Their racks.
        replicas: Replicas by broker.
        leaders: Preferred leaders by broker; those of partitions whose leader is open are not counted.
    """

    def __init__(self, layout: Layout, without: Collection[int] = ()) -> None:
        live = [broker for broker in layout.brokers if broker.id not in without]
        self.brokers = tuple(sorted(broker.id for broker in live))
        self.racks = Racks(live)
        self.replicas = dict.fromkeys(self.brokers, 0)
        self.leaders = dict.fromkeys(self.brokers, 0)
        self._places = {broker: index for index, broker in enumerate(self.brokers)}
        self._of_topic: dict[str, dict[int, int]] = {}
        for topic in layout.topics:
            for replicas in layout.assignment(topic):
                self.count(topic, replicas)

    def count(self, topic: str, replicas: Replicas | list[int], times: int = 1) -> None:
        """Count a partition, or with -1 as times, no longer count it."""
        for replica in replicas:
            self._add(topic, replica, times)
        self._lead(replicas[0], times)

    def add(self, row: Row, broker: int) -> None:
        """Give a partition one more replica, as its last one."""
        row.replicas.append(broker)
        self._add(row.topic, broker, 1)

    def drop(self, row: Row, broker: int) -> None:
        """Take a replica away."""
        led = row.replicas[0]
        row.replicas.remove(broker)
        row.free.discard(broker)
        self._add(row.topic, broker, -1)
        if broker == led and not row.leader_open:
            self._lead(led, -1)
            if row.replicas:
                self._lead(row.replicas[0], 1)

    def exchange(self, row: Row, source: int, target: int) -> None:
        """Put a replica on another broker; it keeps its place in the order."""
        place = row.replicas.index(source)
        row.replicas[place] = target
        row.free.discard(source)
        row.free.add(target)
        self._add(row.topic, source, -1)
        self._add(row.topic, target, 1)
        if place == 0 and not row.leader_open:
            self._lead(source, -1)
            self._lead(target, 1)

    def open_leader(self, row: Row) -> None:
        """Let the preferred leader be chosen later."""
        self._lead(row.replicas[0], -1)
        row.leader_open = True

    def lead(self, row: Row, leader: int) -> None:
        """Make one of a partition's brokers its preferred leader; it changes places with the one before."""
        replicas = row.replicas
        if not row.leader_open:
            self._lead(replicas[0], -1)
        place = replicas.index(leader)
        replicas[0], replicas[place] = replicas[place], replicas[0]
        self._lead(leader, 1)
        row.leader_open = False

    def best(self, row: Row) -> int:
        """The broker that a partition's next replica belongs on; there must be one.

        In a rack that holds the fewest of the partition's replicas, and there the one with the fewest
        replicas, preferred leaders and partitions of the topic.
        """
        free = self.racks.emptiest(row.replicas)
        fewest = min(map(self.replicas.__getitem__, free))
        equals = [broker for broker in free if self.replicas[broker] == fewest]
        of_topic = self._of_topic.get(row.topic, {})
        size = len(self.brokers)
        return min(
            equals,
            key=lambda broker: (
                self.leaders[broker],
                of_topic.get(broker, 0),
                (self._places[broker] - row.turn) % size,
            ),
        )

    def best_leader(self, row: Row) -> int:
        """The broker that is to lead a partition whose leader is open: the one that leads the fewest.

        One that is down leads only where all are.
        """
        size = len(self.brokers)
        return min(
            (broker for broker in row.replicas if broker in self.leaders),
            key=lambda broker: (self.leaders[broker], (self._places[broker] - row.turn) % size),
            default=row.replicas[0],
        )

    def _add(self, topic: str, broker: int, times: int) -> None:
        if broker in self.replicas:
            self.replicas[broker] += times
            of_topic = self._of_topic.setdefault(topic, {})
            of_topic[broker] = of_topic.get(broker, 0) + times

    def _lead(self, broker: int, times: int) -> None:
        if broker in self.leaders:
            self.leaders[broker] += times


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """What one topic is to be like.

    Attributes:
        topic: Its name; one that is not in the layout is new.
        partitions: How many it has afterwards.
        replication_factor: How many replicas each of them has afterwards.
        strategy: How they are placed.
        static: With STATIC, the replicas of every partition.
    """

    topic: str
    partitions: int
    replication_factor: int
    strategy: Strategy = Strategy.BALANCED
    static: Assignment = ()


@dataclass(frozen=True, slots=True)
class Placements:
    """Where replicas are to be.

    Attributes:
        assignments: Every partition of a topic, those that stay as they are included.
        refused: Topics that have no place, and why; nothing of them is placed.
    """

    assignments: Mapping[str, Assignment] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

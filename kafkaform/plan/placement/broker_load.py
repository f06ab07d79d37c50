"""Requests and results of placement, and the load of brokers while replicas are placed."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from kafkaform.core.values import Value, field
from kafkaform.resources.replicas.layout import Assignment, Layout, Strategy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkaform.core.partitions import Broker, Replicas


class Racks:
    """The racks of the live brokers.

    If a broker has no rack, racks are ignored: each broker is then a rack of its own. The rack of a broker
    that is down is not known, so its replicas use none.

    Attributes:
        are_known: Whether all brokers have a rack, so that racks count.
        count: The number of racks.
    """

    def __init__(self, brokers: Iterable[Broker]) -> None:
        known = {broker.id: broker.rack for broker in brokers}
        self.are_known = all(known.values())
        self._of: dict[int, str | int | None] = {
            id_: rack if self.are_known else id_ for id_, rack in known.items()
        }
        self._in: dict[str | int | None, list[int]] = {}
        for broker, rack in sorted(self._of.items()):
            self._in.setdefault(rack, []).append(broker)
        self.count = len(self._in)

    def count_by_rack(self, replicas: Iterable[int]) -> dict[str | int | None, int]:
        """Count the replicas in each rack that they use."""
        counts: dict[str | int | None, int] = {}
        for replica in replicas:
            if replica in self._of:
                rack = self._of[replica]
                counts[rack] = counts.get(rack, 0) + 1
        return counts

    def count_in_rack(self, broker: int, used: dict[str | int | None, int]) -> int:
        """Return the count of a broker's rack; 0 for a broker that is down."""
        return used.get(self._of[broker], 0) if broker in self._of else 0

    def emptiest(self, replicas: Collection[int]) -> list[int]:
        """Find the live brokers without any of the replicas, in the racks with the fewest of them."""
        used = self.count_by_rack(replicas)
        fewest = len(replicas) + 1
        candidates: list[int] = []
        for rack, brokers in self._in.items():
            count = used.get(rack, 0)
            # One pass without sorting, as this runs for every replica that is placed.
            if count > fewest:
                continue
            free = [broker for broker in brokers if broker not in replicas]
            if free and count < fewest:
                fewest, candidates = count, free
            else:
                candidates += free
        return candidates

    def missing(self, replicas: Collection[int]) -> int:
        """Return how many more racks a partition could use with the same number of live replicas."""
        used = self.count_by_rack(replicas)
        return min(sum(used.values()), self.count) - len(used)

    def find_rack(self, broker: int) -> str | int | None:
        """Return the rack of a broker; None for one that is down."""
        return self._of.get(broker)

    def keeps(self, replicas: Iterable[int], source: int, target: int) -> bool:
        """Return whether the spread over racks stays as even if a replica moves from source to target."""
        # The number of replicas in the source's rack, less that in the target's: if the source has more, the
        # spread stays as even after the move, or becomes more even.
        target_rack, source_rack = self._of[target], self._of[source]
        if target_rack == source_rack:
            return True
        balance = 0
        for replica in replicas:
            rack = self._of.get(replica)
            balance += (rack == source_rack) - (rack == target_rack)
        return balance >= 1


class Row:
    """One partition whose replicas are being placed.

    Attributes:
        replicas: The brokers that hold it, the preferred leader first unless the leader is open.
        free: Those of the brokers that may still be exchanged.
        choices: The brokers that they may be exchanged for; None for any.
        leader_open: Whether its preferred leader is still to be chosen.
        turn: The offset that breaks ties between brokers, so that partitions do not all choose the same one.
    """

    __slots__ = ("choices", "free", "leader_open", "number", "replicas", "topic", "turn")

    def __init__(self, topic: str, number: int, replicas: Iterable[int] = ()) -> None:
        self.topic = topic
        self.number = number
        self.replicas = list(replicas)
        self.free: set[int] = set()
        self.choices: Collection[int] | None = None
        self.leader_open = False
        # Not hash(), which differs from process to process: the same cluster has to give the same plan.
        self.turn = crc32(topic.encode()) + number


class BrokerLoad:
    """The number of replicas and preferred leaders of each live broker, over all topics.

    Args:
        layout: The replicas; of a running reassignment, its target.
        without: Live brokers that take no replica and are not to be balanced.

    Attributes:
        brokers: The ids of the brokers that may take replicas, ascending.
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
        """Add a partition to the counts, or remove it with -1 as times."""
        for replica in replicas:
            self._add(topic, replica, times)
        self._lead(replicas[0], times)

    def add(self, row: Row, broker: int) -> None:
        """Append a replica to a partition."""
        row.replicas.append(broker)
        self._add(row.topic, broker, 1)

    def drop(self, row: Row, broker: int) -> None:
        """Remove a replica from a partition; if it leads, the next one does."""
        led = row.replicas[0]
        row.replicas.remove(broker)
        row.free.discard(broker)
        self._add(row.topic, broker, -1)
        if broker == led and not row.leader_open:
            self._lead(led, -1)
            if row.replicas:
                self._lead(row.replicas[0], 1)

    def exchange(self, row: Row, source: int, target: int) -> None:
        """Move a replica to another broker, at the same position."""
        index = row.replicas.index(source)
        row.replicas[index] = target
        row.free.discard(source)
        row.free.add(target)
        self._add(row.topic, source, -1)
        self._add(row.topic, target, 1)
        if index == 0 and not row.leader_open:
            self._lead(source, -1)
            self._lead(target, 1)

    def open_leader(self, row: Row) -> None:
        """Leave the preferred leader to be chosen later."""
        self._lead(row.replicas[0], -1)
        row.leader_open = True

    def lead(self, row: Row, leader: int) -> None:
        """Make one of a partition's brokers its preferred leader; swap it with the former one."""
        replicas = row.replicas
        if not row.leader_open:
            self._lead(replicas[0], -1)
        index = replicas.index(leader)
        replicas[0], replicas[index] = replicas[index], replicas[0]
        self._lead(leader, 1)
        row.leader_open = False

    def best(self, row: Row) -> int:
        """Choose the broker for a partition's next replica; there must be one.

        It is in a rack with the fewest of the partition's replicas, and has the fewest replicas, then
        preferred leaders, then partitions of the topic.
        """
        # Racks come before load: a partition whose replicas are all in one rack is lost with it.
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
        """Choose the leader of a partition whose leader is open: the broker that leads the fewest.

        A broker that is down is chosen only if all are.
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


class PlacementRequest(Value):
    """The requested placement of one topic.

    Attributes:
        topic: Its name; a topic that is not in the layout is new.
        partitions: The target number of partitions.
        replication_factor: The target number of replicas per partition.
        static: With STATIC, the replicas of every partition.
    """

    topic: str
    partitions: int
    replication_factor: int
    strategy: Strategy = Strategy.BALANCED
    static: Assignment = ()


class Placements(Value):
    """The result of placement.

    Attributes:
        assignments: The replicas of every partition by topic, including unchanged ones.
        refused: The reason by topic that cannot be placed; none of its partitions is.
    """

    assignments: Mapping[str, Assignment] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

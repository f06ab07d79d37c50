"""Rebalancing a cluster: fewer replicas here, more there, and brokers that are to hold none.

How even a placement is, and what it costs to come to it, is measured here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from kafkaform.core.wording import counted
from kafkaform.plan.placement.broker_load import BrokerLoad, Placements, Racks, Row
from kafkaform.plan.placement.placing import settle, unsettled
from kafkaform.plan.placement.shifts import LeaderShifts, ReplicaShifts, level

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.core.layout import Assignment, Broker, Layout, TopicPartition


def rebalance(
    topics: Collection[str],
    layout: Layout,
    *,
    remove: Collection[int] = (),
    add: Collection[int] = (),
    sizes: Mapping[TopicPartition, int] | None = None,
) -> Placements:
    """Even out replicas and preferred leaders over brokers, with the fewest moves.

    Preferred leaders are evened out by the order of replicas first, which moves nothing. No partition uses
    fewer racks than before. With brokers to remove or to add, only what that needs is moved: a removed
    broker's replicas go to the others, and an added broker gets its fair share of theirs. A partition with a
    replica on a broker that is down stays as it is, unless that broker is removed.

    Args:
        topics: What may be moved; the counts are those of the whole layout.
        layout: Where all replicas are.
        remove: Brokers that are to hold nothing of the topics, live or not.
        add: Live brokers that are to get their share.
        sizes: Bytes of partitions, one replica counted: of two that help as much, the smaller one moves.

    Returns:
        Topics of which something changes, and those that must stay as they are, and why.

    Raises:
        ValueError: A broker to add is not live, or is to be removed too.
    """
    board = BrokerLoad(layout, without=remove)
    if unknown := sorted(set(add).difference(board.brokers)):
        raise ValueError(f"broker {unknown[0]} is not live, or is to be removed")
    refused = {}
    for topic in sorted(topics):
        reason = _refusal(topic, layout, board, remove)
        if reason is not None:
            refused[topic] = reason
    rows = [
        Row(topic, number, replicas)
        for topic in sorted(set(topics).difference(refused))
        for number, replicas in enumerate(layout.assignment(topic))
    ]
    rows.sort(key=lambda row: (_size(row, sizes), crc32(f"{row.topic}-{row.number}".encode()), row.topic))
    drained = [row for row in rows if not set(row.replicas).isdisjoint(remove)]
    if drained:
        _drain(board, drained, set(remove))
    if add or not remove:
        whole = [row for row in rows if all(broker in board.replicas for broker in row.replicas)]
        _even_out(board, whole, add)
    return Placements(_changed(layout, rows), refused)


def _refusal(topic: str, layout: Layout, board: BrokerLoad, remove: Collection[int]) -> str | None:
    if topic not in layout.topics:
        return "it is not on the cluster"
    for number, replicas in enumerate(layout.assignment(topic)):
        kept = set(replicas).difference(remove)
        left = len(set(board.brokers) - kept)
        if len(replicas) - len(kept) > left:
            return (
                f"partition {number} has {counted(len(replicas), 'replica')}, and "
                f"{counted(len(kept) + left, 'broker')} would be left: lower its replicationFactor first"
            )
    return unsettled(topic, layout)


def _size(row: Row, sizes: Mapping[TopicPartition, int] | None) -> int:
    return (sizes or {}).get((row.topic, row.number), 0)


def _drain(board: BrokerLoad, rows: list[Row], remove: Collection[int]) -> None:
    """Give the replicas of removed brokers to others, which may be any; of the rest nothing is moved."""
    for row in rows:
        if row.replicas[0] in remove:
            board.open_leader(row)
        leaving = [broker for broker in row.replicas if broker in remove]
        for broker in leaving:
            # It makes no claim on its rack, which is that of the newcomer to be.
            board.exchange(row, broker, board.best(row))
    settle(board, rows)


def _even_out(board: BrokerLoad, rows: list[Row], add: Collection[int]) -> None:
    """Level leaders and replicas in turn, until neither helps any more."""
    for row in rows:
        row.free = set(row.replicas)
    targets, most = board.brokers, None
    if add:
        targets = tuple(sorted(add))
        most = -(-sum(board.replicas.values()) // len(board.brokers))
    while True:
        leaders = level(board.leaders, LeaderShifts(board, rows), targets=board.brokers)
        replicas = level(board.replicas, ReplicaShifts(board, rows), targets=targets, most=most)
        if not leaders and not replicas:
            return


def _changed(layout: Layout, rows: list[Row]) -> dict[str, Assignment]:
    placed = {(row.topic, row.number): tuple(row.replicas) for row in rows}
    found = {}
    for topic in sorted({row.topic for row in rows}):
        before = layout.assignment(topic)
        after = tuple(placed[topic, number] for number in range(len(before)))
        if after != before:
            found[topic] = after
    return found


@dataclass(frozen=True, slots=True)
class Balance:
    """How replicas lie on live brokers.

    Attributes:
        replicas: Replicas by broker.
        leaders: Preferred leaders by broker.
        narrow: Partitions that use fewer racks than they could.
    """

    replicas: Mapping[int, int]
    leaders: Mapping[int, int]
    narrow: int = 0

    @property
    def replica_spread(self) -> int:
        """The most replicas of a broker less the fewest."""
        return _spread(self.replicas)

    @property
    def leader_spread(self) -> int:
        """The most preferred leaders of a broker less the fewest."""
        return _spread(self.leaders)


@dataclass(frozen=True, slots=True)
class Moves:
    """What it takes to come from one placement to another.

    Attributes:
        replicas: Replicas that are copied to a broker that has none of the partition.
        size: Bytes of these, as far as the sizes of partitions are known.
        leaders: Partitions whose preferred leader changes.
    """

    replicas: int = 0
    size: int = 0
    leaders: int = 0


def balance(assignments: Mapping[str, Assignment], brokers: Collection[Broker]) -> Balance:
    """Measure a placement.

    Args:
        assignments: Where the replicas of topics are; see `Layout.assignment`.
        brokers: The live brokers; one that is named here and holds nothing counts with 0.
    """
    racks = Racks(brokers)
    replicas = {broker.id: 0 for broker in sorted(brokers, key=lambda broker: broker.id)}
    leaders = dict(replicas)
    narrow = 0
    for partition in (partition for assignment in assignments.values() for partition in assignment):
        for broker in partition:
            if broker in replicas:
                replicas[broker] += 1
        if partition[0] in leaders:
            leaders[partition[0]] += 1
        narrow += racks.missing(partition) > 0
    return Balance(replicas, leaders, narrow)


def moves(
    before: Mapping[str, Assignment],
    after: Mapping[str, Assignment],
    sizes: Mapping[TopicPartition, int] | None = None,
) -> Moves:
    """Measure the way from one placement to another.

    Args:
        before: Where replicas are.
        after: Where they are to be. New topics and new partitions cost nothing; a topic that is not in it
            stays as it is.
        sizes: Bytes of partitions, one replica counted.
    """
    replicas = size = leaders = 0
    for topic, assignment in after.items():
        for number, (old, new) in enumerate(zip(before.get(topic, ()), assignment, strict=False)):
            copied = len(set(new).difference(old))
            replicas += copied
            size += copied * (sizes or {}).get((topic, number), 0)
            leaders += old[0] != new[0]
    return Moves(replicas, size, leaders)


def _spread(counts: Mapping[int, int]) -> int:
    return max(counts.values()) - min(counts.values()) if counts else 0

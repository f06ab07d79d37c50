"""Rebalancing a cluster and emptying brokers, and measuring the balance and cost of a placement."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from kafkaform.core.values import Value
from kafkaform.core.wording import counted
from kafkaform.plan.placement.broker_load import BrokerLoad, Placements, Racks, Row
from kafkaform.plan.placement.placing import balance_rows, find_obstacle
from kafkaform.plan.placement.shifts import LeaderShifts, ReplicaShifts, level

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.core.partitions import Broker, TopicPartition
    from kafkaform.resources.replicas.layout import Assignment, Layout


def rebalance(
    topics: Collection[str],
    layout: Layout,
    *,
    remove: Collection[int] = (),
    add: Collection[int] = (),
    sizes: Mapping[TopicPartition, int] | None = None,
) -> Placements:
    """Balance replicas and preferred leaders over brokers, with the fewest moves.

    Preferred leaders are balanced by the order of replicas first, which moves no data. No partition uses
    fewer racks than before. With brokers to remove or to add, only the necessary replicas move: those of a
    removed broker to the others, and a fair share of theirs to an added broker. A partition with a replica
    on a broker that is down stays as it is, unless that broker is removed.

    Args:
        topics: The topics that may be moved; the whole layout is counted.
        remove: Brokers to empty of the topics, live or not.
        add: Live brokers to fill to their share.
        sizes: Bytes of one replica by partition: of two equally useful moves, the smaller one is made.

    Returns:
        The assignments of topics that change, and the reasons of topics that must stay.

    Raises:
        ValueError: A broker to add is not live, or is to be removed too.
    """
    load = BrokerLoad(layout, without=remove)
    if unknown := sorted(set(add).difference(load.brokers)):
        raise ValueError(f"broker {unknown[0]} is not live, or is to be removed")
    refused = {}
    for topic in sorted(topics):
        reason = _find_refusal(topic, layout, load, remove)
        if reason is not None:
            refused[topic] = reason
    rows = [
        Row(topic, number, replicas)
        for topic in sorted(set(topics).difference(refused))
        for number, replicas in enumerate(layout.assignment(topic))
    ]
    # Small partitions first, as of two useful moves the cheaper one is made; equal ones in an order that does
    # not prefer the topics at the beginning of the alphabet.
    rows.sort(key=lambda row: (_get_size(row, sizes), crc32(f"{row.topic}-{row.number}".encode()), row.topic))
    drained = [row for row in rows if not set(row.replicas).isdisjoint(remove)]
    if drained:
        _drain(load, drained, set(remove))
    if add or not remove:
        whole = [row for row in rows if all(broker in load.replicas for broker in row.replicas)]
        _even_out(load, whole, add)
    return Placements(_build_changes(layout, rows), refused)


def _find_refusal(topic: str, layout: Layout, load: BrokerLoad, remove: Collection[int]) -> str | None:
    if topic not in layout.topics:
        return "it is not on the cluster"
    for number, replicas in enumerate(layout.assignment(topic)):
        kept = set(replicas).difference(remove)
        # Brokers that could take a replica: live, not to be removed, and without one of this partition.
        spare = len(set(load.brokers) - kept)
        if len(replicas) - len(kept) > spare:
            return (
                f"partition {number} has {counted(len(replicas), 'replica')}, and "
                f"{counted(len(kept) + spare, 'broker')} would be left: lower its replicationFactor first"
            )
    return find_obstacle(topic, layout)


def _get_size(row: Row, sizes: Mapping[TopicPartition, int] | None) -> int:
    return (sizes or {}).get((row.topic, row.number), 0)


def _drain(load: BrokerLoad, rows: list[Row], remove: Collection[int]) -> None:
    """Move the replicas of removed brokers to any others; move no other replica."""
    for row in rows:
        if row.replicas[0] in remove:
            load.open_leader(row)
        leaving = [broker for broker in row.replicas if broker in remove]
        for broker in leaving:
            # The leaving replica counts in no rack, so that its rack is free for the new one.
            load.exchange(row, broker, load.best(row))
    balance_rows(load, rows)


def _even_out(load: BrokerLoad, rows: list[Row], add: Collection[int]) -> None:
    """Level leaders and replicas in turn, until neither changes."""
    for row in rows:
        row.free = set(row.replicas)
    targets, most = load.brokers, None
    if add:
        targets = tuple(sorted(add))
        most = -(-sum(load.replicas.values()) // len(load.brokers))
    # Leaders first, as another order of replicas copies nothing. A replica that moved may allow a further
    # shift of leaders, so both are repeated.
    while True:
        leaders = level(load.leaders, LeaderShifts(load, rows), targets=load.brokers)
        replicas = level(load.replicas, ReplicaShifts(load, rows), targets=targets, most=most)
        if not leaders and not replicas:
            return


def _build_changes(layout: Layout, rows: list[Row]) -> dict[str, Assignment]:
    placed = {(row.topic, row.number): tuple(row.replicas) for row in rows}
    changes = {}
    for topic in sorted({row.topic for row in rows}):
        before = layout.assignment(topic)
        after = tuple(placed[topic, number] for number in range(len(before)))
        if after != before:
            changes[topic] = after
    return changes


class Balance(Value):
    """The distribution of replicas over live brokers.

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
        """The difference between the most and the fewest replicas of a broker."""
        return _spread(self.replicas)

    @property
    def leader_spread(self) -> int:
        """The difference between the most and the fewest preferred leaders of a broker."""
        return _spread(self.leaders)


class Moves(Value):
    """The cost of changing one placement into another.

    Attributes:
        replicas: Replicas to copy to a broker without one of the partition.
        size: Bytes to copy, as far as sizes are known.
        leaders: Partitions whose preferred leader changes.
    """

    replicas: int = 0
    size: int = 0
    leaders: int = 0


def balance(assignments: Mapping[str, Assignment], brokers: Collection[Broker]) -> Balance:
    """Measure the balance of a placement.

    Args:
        assignments: The replicas by topic; see `Layout.assignment`.
        brokers: The live brokers; one without replicas counts as 0.
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
    """Measure the cost of changing one placement into another.

    Args:
        before: The present replicas by topic.
        after: The target replicas. New topics and new partitions cost nothing; missing topics stay.
        sizes: Bytes of one replica by partition.
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

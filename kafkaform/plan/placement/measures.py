"""How even a placement is, and what it costs to come from one to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.plan.placement.racks import Racks

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.core.groups import TopicPartition
    from kafkaform.core.layout import Assignment, Broker


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

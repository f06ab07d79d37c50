"""Which racks the replicas of a partition use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kafkaform.core.layout import Broker


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

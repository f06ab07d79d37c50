"""What becomes of the replicas of a topic between two assignments, counted and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.layout import Assignment, Replicas


@dataclass(frozen=True, slots=True)
class ReplicaChanges:
    """What differs.

    Attributes:
        added: By partition, the brokers that get a replica; partitions that get none are left out.
        dropped: By partition, the brokers whose replica goes.
        reordered: The partitions that stay on their brokers, in another order.
        placed: How many partitions there are only afterwards.
    """

    added: Mapping[int, Replicas]
    dropped: Mapping[int, Replicas]
    reordered: tuple[int, ...] = ()
    placed: int = 0

    @property
    def copied(self) -> int:
        """How many replicas are made by copying."""
        return sum(map(len, self.added.values()))

    @property
    def gone(self) -> int:
        """How many replicas go."""
        return sum(map(len, self.dropped.values()))

    @property
    def partitions(self) -> int:
        """How many partitions differ that are there before and afterwards."""
        return len({*self.added, *self.dropped, *self.reordered})

    def __str__(self) -> str:
        """Such as `2 partitions: replica moves from broker 1 to 3`, or `9 partitions: 18 replicas added`."""
        parts = []
        moved = sorted({*self.added, *self.dropped})
        kinds = {(self.added.get(number, ()), self.dropped.get(number, ())) for number in moved}
        if len(kinds) == 1:
            parts.append(f"{counted(len(moved), 'partition')}: {_moved(*kinds.pop())}")
        elif moved:
            added = f"{counted(self.copied, 'replica')} added" if self.added else ""
            noun = "" if self.added else f" replica{'' if self.gone == 1 else 's'}"
            dropped = f"{self.gone:,}{noun} dropped" if self.dropped else ""
            parts.append(f"{counted(len(moved), 'partition')}: {', '.join(filter(None, (added, dropped)))}")
        if self.reordered:
            parts.append(f"{counted(len(self.reordered), 'partition')}: another preferred leader")
        if self.placed:
            parts.append(f"{counted(self.placed, 'new partition')} placed")
        return "; ".join(parts) or "no replica moves"


def _moved(added: Replicas, dropped: Replicas) -> str:
    """What becomes of the replicas of partitions that gain and lose the same brokers."""
    if len(added) == len(dropped):
        verb = "replica moves" if len(added) == 1 else "replicas move"
        return f"{verb} from {_brokers(dropped)} to {', '.join(map(str, added))}"
    verbs = (("added on", added), ("dropped from", dropped))
    return ", ".join(
        f"replica{'' if len(brokers) == 1 else 's'} {verb} {_brokers(brokers)}"
        for verb, brokers in verbs
        if brokers
    )


def _brokers(brokers: Replicas) -> str:
    return f"broker{'' if len(brokers) == 1 else 's'} {', '.join(map(str, brokers))}"


def replica_changes(
    before: Mapping[int, Replicas], after: Mapping[int, Replicas], placed: int = 0
) -> ReplicaChanges:
    """Compare the replicas of the same partitions."""
    added: dict[int, Replicas] = {}
    dropped: dict[int, Replicas] = {}
    reordered = []
    for number, old in before.items():
        new = after[number]
        if old == new:
            continue
        if more := tuple(broker for broker in new if broker not in old):
            added[number] = more
        if less := tuple(broker for broker in old if broker not in new):
            dropped[number] = less
        if not more and not less:
            reordered.append(number)
    return ReplicaChanges(added, dropped, tuple(reordered), placed)


def assignment_changes(before: Assignment, after: Assignment) -> ReplicaChanges:
    """Compare two assignments of a topic; the second may have more partitions."""
    there = range(min(len(before), len(after)))
    old, new = ({number: side[number] for number in there} for side in (before, after))
    return replica_changes(old, new, placed=len(after) - len(there))

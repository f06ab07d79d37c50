"""How a reassignment in memory goes on: pure rules, as Apache Kafka 4.3.1 keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.core.layout import Reassignment

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.core.layout import Replicas


@dataclass(frozen=True, slots=True)
class Move:
    """The reassignment of one partition.

    Attributes:
        reassignment: Where it leads.
        filled: How many steps each new replica has been filled for.
    """

    reassignment: Reassignment
    filled: Mapping[int, int] = field(default_factory=dict)

    def behind(self, steps: int) -> frozenset[int]:
        """The new replicas that are not full yet, where filling one takes so many steps."""
        return frozenset(b for b in self.reassignment.adding if self.filled.get(b, 0) < steps)

    def filled_by(self, steps: int, alive: Collection[int]) -> Move:
        """The same after so many more steps, in which only brokers that live got anything."""
        more = {b: self.filled.get(b, 0) + steps * (b in alive) for b in self.reassignment.adding}
        return Move(self.reassignment, more)

    def done(self, isr: Collection[int]) -> bool:
        """Whether it is over: all new replicas are in sync, and at least one of those that stay."""
        staying = {*isr} - self.reassignment.removing
        return bool(staying) and self.reassignment.adding <= staying


def started(shown: Replicas, running: Move | None, target: Replicas) -> tuple[Replicas, Move]:
    """The replicas that metadata shows from now on, and what is running.

    Args:
        shown: The replicas that metadata shows.
        running: What is running already, which this replaces.
        target: The replicas to have.
    """
    adding = frozenset(target) - {*shown}
    removing = tuple(broker for broker in shown if broker not in target)
    if running is None:
        return (*target, *removing), Move(Reassignment(target, adding, frozenset(removing)))
    # Kafka keeps the brokers of the former one where the new one has none to add, or none to remove. One
    # that is both added and removed then is never in sync: such a reassignment ends only if it is cancelled.
    former = running.reassignment
    reassignment = Reassignment(target, adding or former.adding, frozenset(removing) or former.removing)
    return (*target, *removing), Move(reassignment, running.filled)


def cancelled(shown: Replicas, running: Move) -> Replicas:
    """The replicas of a partition whose reassignment is given up: those that it had."""
    return tuple(broker for broker in shown if broker not in running.reassignment.adding)

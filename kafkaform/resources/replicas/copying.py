"""The cost of copying replicas, of one topic or of several together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING

from kafkaform.core.model import Change, Diagnostic, Facts, FieldValue, Severity, Update
from kafkaform.core.units import format_rate, rounded_size
from kafkaform.core.values import Value
from kafkaform.core.wording import counted, format_age
from kafkaform.resources.replicas.facts import PLACEMENT, ReplicaFacts
from kafkaform.resources.replicas.layout import Assignment, assignment_changes, parse_assignment
from kafkaform.resources.replicas.moves import ALL, Rates, ThrottledReplicas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TOGETHER = "KF429"
"""The note about the total that several topics copy."""


class _Side(Value):
    """A broker that sends copies of replicas, or receives them."""

    broker: int
    sends: bool


@dataclass(slots=True)
class Copying:
    """The total of copied replicas.

    Attributes:
        facts: The replicas of the cluster.
        topics: The number of topics with copies.
        replicas: The number of copied replicas.
        size: The bytes of the copies whose sizes are known.
    """

    facts: ReplicaFacts
    topics: int = 0
    replicas: int = 0
    size: int = 0
    _known: int = 0
    _unknown: int = 0
    _received: Counter[int] = field(default_factory=Counter)
    _sent: Counter[int] = field(default_factory=Counter)
    _limited: Counter[_Side] = field(default_factory=Counter)

    def add(self, name: str, before: Assignment, after: Assignment) -> None:
        """Add the copies of a topic between two assignments."""
        added = assignment_changes(before, after).added
        if not added:
            return
        self.topics += 1
        leaders = self._leaders(name, before)
        for number, brokers in added.items():
            self.replicas += len(brokers)
            size = self.facts.partition_sizes.get((name, number))
            if size is None:
                self._unknown += 1
                continue
            self._known += 1
            self.size += size * len(brokers)
            for broker in brokers:
                # The leader sends a copy of its own to each new replica.
                self._received[broker] += size
                self._sent[leaders[number]] += size
                for side in (_Side(leaders[number], sends=True), _Side(broker, sends=False)):
                    if self._is_throttled(name, number, side):
                        self._limited[side] += size

    @property
    def busiest(self) -> int:
        """The bytes of the broker that sends or receives the most."""
        return max((*self._received.values(), *self._sent.values()), default=0)

    @property
    def seconds(self) -> float | None:
        """The seconds that the slowest broker needs, or None if none is throttled."""
        slowest = self._slowest
        if slowest is None:
            return None
        # Kafka accepts a throttle of 0, at which a copy never ends.
        rate, _ = self._rate(slowest)
        return self._limited[slowest] / rate if rate else inf

    def __str__(self) -> str:
        """Return the number of copies, their size and duration: that of the slowest broker."""
        verb = "is" if self.replicas == 1 else "are"
        cost = self._cost()
        return f"{counted(self.replicas, 'replica')} {verb} copied{f' ({cost})' if cost else ''}"

    def _cost(self) -> str:
        if not self._known:
            return ""
        size = f"{'at least ' if self._unknown else ''}{rounded_size(self.size)}"
        slowest, seconds = self._slowest, self.seconds
        if not self.size:
            return size
        if slowest is None or seconds is None:
            return f"{size}, without a throttle"
        rate, is_live = self._rate(slowest)
        limit = format_rate(rate or 0)
        time = "under a second" if seconds < 1 else "never done"
        if 1 <= seconds < inf:
            time = f"about {format_age(timedelta(seconds=seconds))}"
        if not is_live:
            return f"{size}, {time} at {limit} per broker"
        verb = "sends" if slowest.sends else "receives"
        return (
            f"{size}, {time}, as broker {slowest.broker} {verb} at most {limit}: "
            "a throttle that is set already"
        )

    @property
    def _slowest(self) -> _Side | None:
        """The broker that needs the most time to send or to receive; None if none is throttled."""

        def seconds(side: _Side) -> float:
            rate, _ = self._rate(side)
            return self._limited[side] / rate if rate else inf

        return max(self._limited, key=lambda side: (seconds(side), -side.broker), default=None)

    def _is_throttled(self, name: str, number: int, side: _Side) -> bool:
        """Return whether a replica is throttled; an apply with a throttle lists all its moves (KIP-73)."""
        if self.facts.throttle is not None:
            return True
        held = self.facts.throttles.replicas.get(name, ThrottledReplicas())
        replicas = held.leader if side.sends else held.follower
        is_listed = ALL in replicas or f"{number}:{side.broker}" in replicas
        return is_listed and self._rate(side)[0] is not None

    def _rate(self, side: _Side) -> tuple[int | None, bool]:
        """Return the bytes per second of a broker, and whether that is set already: an apply keeps it."""
        rates = self.facts.throttles.rates.get(side.broker, Rates())
        # A broker has one rate for all that it sends and one for all that it receives (KIP-73).
        live = rates.leader if side.sends else rates.follower
        is_other = live is not None and live != self.facts.throttle
        return (live, True) if is_other else (self.facts.throttle, False)

    def _leaders(self, name: str, before: Assignment) -> dict[int, int]:
        """Return the leader of each partition, which sends the copies."""
        layout = self.facts.layout
        known = layout.topics.get(name, ()) if layout is not None else ()
        # Without the layout, the preferred leader is the best guess.
        leaders = {number: replicas[0] for number, replicas in enumerate(before)}
        leaders.update({p.partition: p.leader for p in known if p.leader is not None})
        return leaders


def sum_copies(name: str, before: Assignment, after: Assignment, facts: Facts) -> Copying:
    """Return the copies of one topic."""
    copying = Copying(facts.get(ReplicaFacts))
    copying.add(name, before, after)
    return copying


def note_total(changes: Iterable[Change], facts: Facts) -> Iterator[Diagnostic]:
    """Yield a note about the total of all planned copies, if several topics have some."""
    copying = Copying(facts.get(ReplicaFacts))
    for change in changes:
        if isinstance(change, Update):
            for moved in change.fields:
                if moved.path == PLACEMENT and moved.deferred is None and moved.before and moved.after:
                    copying.add(change.ref.name, _places(moved.before), _places(moved.after))
    # The reason of a single topic already has these numbers.
    if copying.topics > 1:
        yield Diagnostic(TOGETHER, Severity.INFO, f"{copying.topics:,} topics together: {copying}")


def _places(value: FieldValue) -> Assignment:
    return parse_assignment(str(value))

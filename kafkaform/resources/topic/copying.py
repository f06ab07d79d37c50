"""The cost of copying replicas, of one topic or of several together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING

from kafkaform.core.layout import assignment_changes, parse_assignment
from kafkaform.core.model import Diagnostic, Severity, Status, Update
from kafkaform.core.moves import ALL, Rates, ThrottledReplicas
from kafkaform.core.units import format_size, rounded_size
from kafkaform.core.wording import aged, counted
from kafkaform.resources.topic.live import topic_facts
from kafkaform.resources.topic.operations import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkaform.core.layout import Assignment
    from kafkaform.core.model import Facts, FieldValue, PlannedChange
    from kafkaform.resources.topic.live import TopicFacts


@dataclass(frozen=True, slots=True)
class _Side:
    """A broker that sends copies of replicas, or receives them."""

    broker: int
    sends: bool


TOGETHER = "KF429"
"""The note that adds up what several topics copy."""


@dataclass(slots=True)
class Copying:
    """Copies of replicas, added up.

    Attributes:
        facts: What is known of the cluster for topics.
        topics: How many topics copy something.
        replicas: How many replicas are made by copying.
        size: The bytes of the copies whose sizes are known.
    """

    facts: TopicFacts
    topics: int = 0
    replicas: int = 0
    size: int = 0
    _known: int = 0
    _unknown: int = 0
    _received: Counter[int] = field(default_factory=Counter)
    _sent: Counter[int] = field(default_factory=Counter)
    _limited: Counter[_Side] = field(default_factory=Counter)

    def add(self, name: str, before: Assignment, after: Assignment) -> None:
        """Take in what a topic copies between two assignments."""
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
                self._received[broker] += size
                self._sent[leaders[number]] += size
                for side in (_Side(leaders[number], sends=True), _Side(broker, sends=False)):
                    if self._is_throttled(name, number, side):
                        self._limited[side] += size

    @property
    def busiest(self) -> int:
        """The bytes that pass through the one broker that sends or receives the most."""
        return max((*self._received.values(), *self._sent.values()), default=0)

    @property
    def seconds(self) -> float | None:
        """The seconds that the slowest broker needs, or None where nothing throttles any."""
        slowest = self._slowest
        if slowest is None:
            return None
        rate, _ = self._rate(slowest)
        return self._limited[slowest] / rate if rate else inf

    def __str__(self) -> str:
        """How many, how much, and for how long: as long as the busiest broker needs."""
        verb = "is" if self.replicas == 1 else "are"
        cost = self._cost()
        return f"{counted(self.replicas, 'replica')} {verb} copied{f' ({cost})' if cost else ''}"

    def _cost(self) -> str:
        if not self._known:
            return ""
        told = f"{'at least ' if self._unknown else ''}{rounded_size(self.size)}"
        slowest, seconds = self._slowest, self.seconds
        if not self.size:
            return told
        if slowest is None or seconds is None:
            return f"{told}, without a throttle"
        rate, is_live = self._rate(slowest)
        text = format_size(rate or 0)
        at = f"{f'{text} bytes' if text.isdecimal() else text}/s"
        about = "under a second" if seconds < 1 else "never done"
        if 1 <= seconds < inf:
            about = f"about {aged(timedelta(seconds=seconds))}"
        if not is_live:
            return f"{told}, {about} at {at} per broker"
        verb = "sends" if slowest.sends else "receives"
        return (
            f"{told}, {about}, as broker {slowest.broker} {verb} at most {at}: a throttle that is set already"
        )

    @property
    def _slowest(self) -> _Side | None:
        """The broker that needs the most time to send or to receive; None where nothing throttles any."""

        def seconds(side: _Side) -> float:
            rate, _ = self._rate(side)
            return self._limited[side] / rate if rate else inf

        return max(self._limited, key=lambda side: (seconds(side), -side.broker), default=None)

    def _is_throttled(self, name: str, number: int, side: _Side) -> bool:
        """Tell whether a replica is held back: an apply with a throttle lists all that it moves (KIP-73)."""
        if self.facts.throttle is not None:
            return True
        held = self.facts.throttles.replicas.get(name, ThrottledReplicas())
        replicas = held.leader if side.sends else held.follower
        is_listed = ALL in replicas or f"{number}:{side.broker}" in replicas
        return is_listed and self._rate(side)[0] is not None

    def _rate(self, side: _Side) -> tuple[int | None, bool]:
        """The bytes per second of a broker, and whether they are set already: an apply keeps such a rate."""
        rates = self.facts.throttles.rates.get(side.broker, Rates())
        live = rates.leader if side.sends else rates.follower
        is_other = live is not None and live != self.facts.throttle
        return (live, True) if is_other else (self.facts.throttle, False)

    def _leaders(self, name: str, before: Assignment) -> dict[int, int]:
        """Who leads each partition, and sends the copies of it."""
        layout = self.facts.layout
        known = layout.topics.get(name, ()) if layout is not None else ()
        leaders = {number: replicas[0] for number, replicas in enumerate(before)}
        leaders.update({p.partition: p.leader for p in known if p.leader is not None})
        return leaders


def copied(name: str, before: Assignment, after: Assignment, facts: Facts) -> Copying:
    """What one topic copies."""
    copying = Copying(topic_facts(facts))
    copying.add(name, before, after)
    return copying


def together(changes: Iterable[PlannedChange], facts: Facts) -> Iterator[Diagnostic]:
    """A note of what all planned changes copy, where more than one topic does."""
    copying = Copying(topic_facts(facts))
    for planned in changes:
        if isinstance(planned.change, Update) and planned.status is not Status.REFUSED:
            for moved in planned.change.fields:
                if moved.path == PLACEMENT and moved.deferred is None and moved.before and moved.after:
                    copying.add(planned.change.ref.name, _places(moved.before), _places(moved.after))
    if copying.topics > 1:
        yield Diagnostic(TOGETHER, Severity.INFO, f"{copying.topics:,} topics together: {copying}")


def _places(value: FieldValue) -> Assignment:
    return parse_assignment(str(value))

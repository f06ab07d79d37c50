"""The cost of copying replicas, of one topic or of several together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from kafkaform.core.layout import assignment_changes, parse_assignment
from kafkaform.core.model import Diagnostic, Severity, Status, Update
from kafkaform.core.units import format_size, rounded_size
from kafkaform.core.wording import aged, counted
from kafkaform.resources.topic.live import topic_facts
from kafkaform.resources.topic.operations import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkaform.core.layout import Assignment
    from kafkaform.core.model import Facts, FieldValue, PlannedChange
    from kafkaform.resources.topic.live import TopicFacts

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

    @property
    def busiest(self) -> int:
        """The bytes that pass through the one broker that sends or receives the most."""
        return max((*self._received.values(), *self._sent.values()), default=0)

    def __str__(self) -> str:
        """How many, how much, and for how long: as long as the busiest broker needs."""
        verb = "is" if self.replicas == 1 else "are"
        cost = self._cost()
        return f"{counted(self.replicas, 'replica')} {verb} copied{f' ({cost})' if cost else ''}"

    def _cost(self) -> str:
        if not self._known:
            return ""
        told = f"{'at least ' if self._unknown else ''}{rounded_size(self.size)}"
        throttle = self.facts.throttle
        if not self.size:
            return told
        if throttle is None:
            return f"{told}, without a throttle"
        seconds = self.busiest / throttle
        about = "under a second" if seconds < 1 else f"about {aged(timedelta(seconds=seconds))}"
        rate = format_size(throttle)
        return f"{told}, {about} at {f'{rate} bytes' if rate.isdecimal() else rate}/s per broker"

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

"""The succession of a topic by another one: fewer partitions or other keys, without a copy and without loss.

Producers move to the successor first. A group reads the predecessor to its end before it starts at the first
record of the successor, so that the records of a key stay in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafkaform.core.units import parse_duration
from kafkaform.core.values import Value, field
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.model import Desired
    from kafkaform.core.partitions import LogSpan, TopicPartition
    from kafkaform.resources.groups import Group

SUCCEEDS = "succeeds"
"""The field of a Topic's spec with the name of its predecessor."""
QUIET_PERIOD, RECOVERY_WINDOW = "quietPeriod", "recoveryWindow"
DURATIONS = {QUIET_PERIOD: parse_duration("5m"), RECOVERY_WINDOW: parse_duration("7d")}
"""The durations of a succession by field, with their defaults in milliseconds."""


class Predecessor(Value):
    """The log of a topic that another one succeeds.

    Attributes:
        name: The topic.
        successor: The topic that succeeds it.
        spans: The first and last offsets of its partitions; empty if they were not read.
        obstacle: Why further records may come; empty if none came for the quiet period.
        recent: Why it is to be kept; empty if all of its records are older than the recovery window.
    """

    name: str
    successor: str
    spans: Mapping[TopicPartition, LogSpan] = field(default_factory=dict)
    obstacle: str = ""
    recent: str = ""

    def count_remaining(self, group: Group) -> int:
        """Return the records that a group has not read yet, of the partitions whose log was read."""
        committed = group.committed
        return sum(
            max(0, span.end - max(span.start, committed.get(partition, span.start)))
            for partition, span in self.spans.items()
        )

    def explain_wait(self, group: Group) -> str:
        """Return why a group that reads the predecessor cannot start on the successor; empty if it can."""
        if self.name not in group.topics:
            return ""
        if self.obstacle:
            return self.obstacle
        remaining = self.count_remaining(group)
        return f"{counted(remaining, 'record')} of {self.name} are left to read" if remaining else ""


class SuccessionFacts(Value):
    """The predecessors that exist, by the name of their successor."""

    predecessors: Mapping[str, Predecessor] = field(default_factory=dict)

    def find_waits(self, group: Group) -> dict[str, str]:
        """Return the successors on which a group cannot start yet, with the reasons."""
        waits = {
            name: each.explain_wait(group) or self._explain_skip(each, group)
            for name, each in self.predecessors.items()
        }
        return {name: why for name, why in waits.items() if why}

    def _explain_skip(self, predecessor: Predecessor, group: Group) -> str:
        """Return why a group would skip the predecessor; empty if it reads no topic before it."""
        if predecessor.name in group.topics:
            return ""
        earlier, passed = self.predecessors.get(predecessor.name), {predecessor.name}
        while earlier is not None and earlier.name not in passed:
            if earlier.name in group.topics:
                return f"it reads {earlier.name}, and has not moved to {predecessor.name} yet"
            passed.add(earlier.name)
            earlier = self.predecessors.get(earlier.name)
        return ""


def find_predecessor(topic: Desired) -> str | None:
    """Return the name of the topic that a declared one succeeds; None if it succeeds none."""
    return cast("str | None", topic.intent.spec.get(SUCCEEDS)) if topic.state is not None else None


def get_duration(topic: Desired, name: str) -> int:
    """Return a duration of a succession in milliseconds, or its default."""
    return cast("int", topic.intent.spec.get(name, DURATIONS[name]))

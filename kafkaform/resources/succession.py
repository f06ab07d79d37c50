"""The succession of a topic by another one: fewer partitions or other keys, without a copy and without loss.

Producers move to the successor first. A group reads the predecessor to its end before it starts at the first
record of the successor, so that the records of a key stay in order.
"""

from __future__ import annotations

import re
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, cast

from kafkaform.core.acl_fields import write_path
from kafkaform.core.acls import EVERYONE, WILDCARD, Acl, ResourceType
from kafkaform.core.plans import PlannedSuccession
from kafkaform.core.values import Value, field
from kafkaform.core.wording import command, counted, setting
from spark_validation.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.core.model import Desired, Location
    from kafkaform.core.partitions import LogSpan, TopicPartition
    from kafkaform.core.transactions import ProducerState
    from kafkaform.resources.groups import Group

SUCCEEDS = "succeeds"
"""The field of a Topic's spec with the name of its predecessor."""
CLOSE_WRITES = "closeWrites"
"""The field that closes the predecessor to producers, by an ACL that denies Write to everyone."""
QUIET_PERIOD, RECOVERY_WINDOW = "quietPeriod", "recoveryWindow"
DURATIONS = {QUIET_PERIOD: parse_duration("5m"), RECOVERY_WINDOW: parse_duration("7d")}
"""The durations of a succession by field, with their defaults in milliseconds."""


class Predecessor(Value):
    """The log of a topic that another one succeeds.

    Attributes:
        successor: The topic that succeeds it.
        spans: The first and last offsets of its partitions; empty if they were not read.
        obstacle: Why further records may come; empty if none came for the quiet period.
        recent: Why it is to be kept; empty if all of its records are older than the recovery window.
        producers: The idempotent and transactional producers of the records that came.
        quiet_ms: The quiet period.
        recovery_ms: The recovery window.
    """

    name: str
    successor: str
    spans: Mapping[TopicPartition, LogSpan] = field(default_factory=dict)
    obstacle: str = ""
    recent: str = ""
    producers: Sequence[ProducerState] = ()
    quiet_ms: int = DURATIONS[QUIET_PERIOD]
    recovery_ms: int = DURATIONS[RECOVERY_WINDOW]

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

    @property
    def planned(self) -> dict[str, PlannedSuccession]:
        """The successions as a plan contains them."""
        return {
            successor: PlannedSuccession(each.name, each.quiet_ms, each.recovery_ms)
            for successor, each in self.predecessors.items()
        }

    def find_waits(self, group: Group) -> dict[str, str]:
        """Return the successors on which a group cannot start yet, with the reasons."""
        waits = {
            name: each.explain_wait(group) or self.explain_skip(each, group)
            for name, each in self.predecessors.items()
        }
        return {name: why for name, why in waits.items() if why}

    def explain_skip(self, predecessor: Predecessor, group: Group) -> str:
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


class GroupStage(StrEnum):
    """The stage of a group between the predecessor and the successor."""

    READING = "reading"
    STOPPED = "stopped"
    READY = "ready"
    MOVED = "moved"
    MOVED_EARLY = "moved early"
    UNDECLARED = "undeclared"


_STUCK = frozenset({GroupStage.STOPPED, GroupStage.MOVED_EARLY, GroupStage.UNDECLARED})


class SuccessionVerdict(Enum):
    """The state of a succession."""

    OVER = "over"
    UNDER_WAY = "under way"
    STUCK = "stuck"


class GroupProgress(Value):
    """The progress of one group.

    Attributes:
        stage: How far it has come.
        remaining: The records of the predecessor that it has not read.
        per_second: The records that it read per second; None if it has none left, or reads none.
        next_step: What happens next, or what to do; empty if nothing is.
    """

    name: str
    stage: GroupStage
    remaining: int = 0
    per_second: float | None = None
    next_step: str = ""

    @property
    def summary(self) -> str:
        """Its stage, and the records left."""
        left = f", {counted(self.remaining, 'record')} left" if self.remaining else ""
        return f"{self.name} is {self.stage}{left}"

    @property
    def time_left_ms(self) -> int | None:
        """The milliseconds until it has read the predecessor, at this rate; None if that is not known."""
        return round(self.remaining / self.per_second) * 1_000 if self.per_second else None


class TopicWriter(Value):
    """A principal that may write to the predecessor.

    Attributes:
        right: The right of the ACL that allows it.
        location: The line of the manifest that declares it; None if none does.
    """

    principal: str
    right: str
    location: Location | None = None


class Succession(Value):
    """A succession, as one reading of the cluster shows it.

    Attributes:
        successor: The topic that succeeds.
        predecessor: The log of the topic that it succeeds; None if that is gone.
        name: The name of the predecessor.
        groups: The groups that read either of them, without those that only read the successor.
        unread: Why groups may be missing; empty if all were read.
        behind: Why groups may still come from an earlier topic of a chain; empty if none does.
        writers: The principals that may write to the predecessor by an ACL; empty unless they were read.
        unread_writers: Why they could not be read; empty if they were, or there are no ACLs.
        closed: Whether an ACL denies everyone but super users to write to the predecessor.
    """

    successor: str
    name: str
    predecessor: Predecessor | None
    groups: Sequence[GroupProgress] = ()
    unread: str = ""
    behind: str = ""
    writers: Sequence[TopicWriter] = ()
    unread_writers: str = ""
    closed: bool = False

    @property
    def verdict(self) -> SuccessionVerdict:
        """STUCK if a group does not go on by itself, OVER if all have moved and nothing is written."""
        if any(group.stage in _STUCK for group in self.groups):
            return SuccessionVerdict.STUCK
        obstacle = self.predecessor is not None and self.predecessor.obstacle
        if self.waiting or obstacle or self.unread or self.behind:
            return SuccessionVerdict.UNDER_WAY
        return SuccessionVerdict.OVER

    @property
    def waiting(self) -> list[GroupProgress]:
        """The groups that have not moved."""
        return [group for group in self.groups if group.stage is not GroupStage.MOVED]

    @property
    def notes(self) -> list[str]:
        """The obstacle of the predecessor, what could not be read, and when the topic can be deleted."""
        predecessor, name = self.predecessor, self.name
        if predecessor is None:
            return [f"{name} is gone: remove {setting(SUCCEEDS, name)} from the manifest of {self.successor}"]
        notes = [predecessor.obstacle] if predecessor.obstacle else []
        if self.unread:
            notes.append(f"some groups may be missing: {self.unread}")
        if self.behind:
            notes.append(f"keep {name}: {self.behind}")
        if self.closed:
            notes.append(f"{name} is closed to producers, except for super users")
        if self.unread_writers:
            notes.append(f"the principals that may write to {name} are not listed: {self.unread_writers}")
        if self.verdict is SuccessionVerdict.OVER:
            keep = f"keep {name} for now: {predecessor.recent}"
            delete = f"{name} can be deleted: write {setting('state', 'absent')} into its manifest"
            notes.append(keep if predecessor.recent else delete)
        return notes


def find_predecessor(topic: Desired) -> str | None:
    """Return the name of the topic that a declared one succeeds; None if it succeeds none.

    A tombstone may succeed another topic: in a chain, groups may still have to come from there.
    """
    return cast("str | None", topic.intent.spec.get(SUCCEEDS))


def suggest_successor(topic: str) -> str:
    """Return the command that writes the manifest of a topic's successor, such as orders.v2 of orders.v1."""
    version = re.fullmatch(r"(.*[._-]v)([0-9]{1,6})", topic)
    name = f"{version[1]}{int(version[2]) + 1}" if version is not None else f"{topic}.v2"
    return command("new", "topic", name, options=("--succeeds", topic))


def closing_acl(predecessor: str) -> Acl:
    """Return the ACL that closes a topic to producers."""
    return Acl(ResourceType.TOPIC, predecessor, False, EVERYONE, WILDCARD, "Write", False)


def closing_path(topic: Desired) -> str | None:
    """Return the field of `Access/User:*` that a topic's `closeWrites` is about; None without it."""
    name = find_predecessor(topic)
    return None if name is None or CLOSE_WRITES not in topic.intent.spec else write_path(closing_acl(name))


def get_duration(topic: Desired, name: str) -> int:
    """Return a duration of a succession in milliseconds, or its default."""
    return cast("int", topic.intent.spec.get(name, DURATIONS[name]))

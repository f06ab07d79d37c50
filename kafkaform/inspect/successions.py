"""The progress of successions: the producers and groups that still use a topic that another one succeeds."""

from __future__ import annotations

import time
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from kafkaform.core.values import Value
from kafkaform.core.wording import code, command, counted, setting
from kafkaform.plan.planning import list_resources_to_read
from kafkaform.plan.successions import add_successions
from kafkaform.resources import is_group, list_topics_read
from kafkaform.resources.succession import Predecessor, SuccessionFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaform.cluster.protocol import ClusterReader
    from kafkaform.core.model import Desired, Facts
    from kafkaform.resources.groups import Group

SAMPLE_S = 3.0
"""The seconds between two readings of groups that have records left, from which their rate follows."""


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
    def time_left_ms(self) -> int | None:
        """The milliseconds until it has read the predecessor, at this rate; None if that is not known."""
        return round(self.remaining / self.per_second) * 1_000 if self.per_second else None


class Succession(Value):
    """A succession, as one reading of the cluster shows it.

    Attributes:
        successor: The topic that succeeds.
        predecessor: The log of the topic that it succeeds; None if that is gone.
        name: The name of the predecessor.
        groups: The groups that read either of them, without those that only read the successor.
        unread: Why groups may be missing; empty if all were read.
    """

    successor: str
    name: str
    predecessor: Predecessor | None
    groups: Sequence[GroupProgress] = ()
    unread: str = ""

    @property
    def verdict(self) -> SuccessionVerdict:
        """STUCK if a group does not go on by itself, OVER if all have moved and nothing is written."""
        if any(group.stage in _STUCK for group in self.groups):
            return SuccessionVerdict.STUCK
        obstacle = self.predecessor is not None and self.predecessor.obstacle
        moved = all(group.stage is GroupStage.MOVED for group in self.groups)
        return (
            SuccessionVerdict.OVER
            if moved and not obstacle and not self.unread
            else SuccessionVerdict.UNDER_WAY
        )


def read_successions(
    cluster: ClusterReader,
    facts: Facts,
    desired: Sequence[Desired],
    names: Mapping[str, str],
    pause: Callable[[float], None] = time.sleep,
) -> list[Succession]:
    """Read the progress of successions.

    Args:
        desired: The declared resources.
        names: The predecessor by successor.
        pause: Waits for some seconds between two readings of the groups that have records left.

    Raises:
        ClusterError: The cluster or its groups cannot be read.
    """
    topics = [declared for declared in desired if declared.ref.name in names and not is_group(declared.ref)]
    readers = {
        declared.ref.name: list_topics_read(declared) for declared in desired if is_group(declared.ref)
    }
    observation = cluster.observe(list_resources_to_read(topics))
    facts = add_successions(facts, topics, observation, cluster, time.time_ns() // 1_000_000)
    predecessors = facts.get(SuccessionFacts).predecessors
    reading = cluster.groups()
    concerned = {
        name: group
        for name, group in reading.groups.items()
        if any(each.name in group.topics for each in predecessors.values())
    }
    reading_on = [
        name
        for name, group in concerned.items()
        if group.members and any(each.count_remaining(group) for each in predecessors.values())
    ]
    later: Mapping[str, Group] = {}
    if reading_on:
        pause(SAMPLE_S)
        later = cluster.groups(reading_on).groups
    successions = []
    for successor, name in names.items():
        predecessor = predecessors.get(successor)
        groups = [
            _judge_group(predecessor, group, later.get(group.name), readers.get(group.name))
            for group in concerned.values()
            if predecessor is not None and name in group.topics
        ]
        successions.append(Succession(successor, name, predecessor, groups, reading.unread))
    return successions


def _judge_group(
    predecessor: Predecessor, group: Group, later: Group | None, declared: Sequence[str] | None
) -> GroupProgress:
    """Judge a group that has offsets in the predecessor, or is assigned partitions of it."""
    old, new = predecessor.name, predecessor.successor
    remaining = predecessor.count_remaining(group)
    rate = (remaining - predecessor.count_remaining(later)) / SAMPLE_S if later is not None else 0.0
    left = counted(remaining, "record")

    def judge(stage: GroupStage, next_step: str = "") -> GroupProgress:
        return GroupProgress(group.name, stage, remaining, rate if rate > 0 else None, next_step)

    if declared is None and not (new in group.topics and not remaining):
        return judge(
            GroupStage.UNDECLARED,
            f"declare it with {setting('topics', f'[{new}]')}, or delete its offsets: "
            + code(f"kafka-consumer-groups.sh --delete-offsets --group {group.name} --topic {old}"),
        )
    if new in group.topics:
        if not remaining:
            return judge(GroupStage.MOVED)
        return judge(
            GroupStage.MOVED_EARLY, f"start members on {old} until they have read the {left} left there"
        )
    if remaining and not group.members:
        return judge(GroupStage.STOPPED, f"start its members on {old}, to read the {left} left there")
    if remaining:
        return judge(GroupStage.READING, f"reads the {left} left")
    if predecessor.obstacle:
        return judge(GroupStage.READING, "has read all so far; further records may come")
    if declared is not None and new not in declared:
        return judge(GroupStage.READY, f"declare {new} in its topics")
    if group.active:
        return judge(GroupStage.READY, f"stop its members, run {command('apply')}, and start them on {new}")
    return judge(GroupStage.READY, f"run {command('apply')}: it commits the first offsets on {new}")

"""The progress of successions: the producers and groups that still use a topic that another one succeeds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafkaform.core.acl_fields import parse_path, write_path
from kafkaform.core.acls import ResourceType
from kafkaform.core.authorizer import AccessReading, Authorizer, AuthorizerSettings
from kafkaform.core.errors import ClusterError, NotOffered
from kafkaform.core.values import replace
from kafkaform.core.wording import code, command, counted, listed, setting
from kafkaform.plan.planning import list_resources_to_read
from kafkaform.plan.successions import read_predecessors
from kafkaform.resources import ACCESS, is_group, is_topic, list_topics_read
from kafkaform.resources.groups import Group, GroupReading
from kafkaform.resources.succession import (
    GroupProgress,
    GroupStage,
    Predecessor,
    Succession,
    TopicWriter,
    closing_acl,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkaform.cluster.protocol import ClusterReader, GroupReader
    from kafkaform.core.model import Desired

SAMPLE_S = 3.0
"""The seconds between two readings of groups that have records left, from which their rate follows."""


def read_successions(
    cluster: ClusterReader,
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
    topics = [declared for declared in desired if is_topic(declared.ref) and declared.ref.name in names]
    observation = cluster.observe(list_resources_to_read(topics))
    predecessors = read_predecessors(topics, observation, cluster, time.time_ns() // 1_000_000)
    reading = read_groups(cluster, (each.ref.name for each in desired if is_group(each.ref)))
    reading_on = [
        name
        for name, group in reading.groups.items()
        if group.members
        and any(each.name in group.topics and each.count_remaining(group) for each in predecessors.values())
    ]
    later = None
    if reading_on:
        pause(SAMPLE_S)
        later = cluster.groups(reading_on).groups
    return judge_successions(predecessors, reading, desired, names, later)


def read_groups(cluster: GroupReader, declared: Iterable[str]) -> GroupReading:
    """Read all groups; the declared ones that this account may not see are denied.

    Raises:
        ClusterError: They cannot be read.
    """
    reading = cluster.groups()
    unlisted = sorted(name for name in declared if name not in reading.groups)
    if not unlisted:
        return reading
    responses = cluster.groups(unlisted)  # either missing, or hidden from this account
    groups, denied = {**reading.groups, **responses.groups}, {**reading.denied, **responses.denied}
    return GroupReading(groups, denied, reading.unread)


def judge_successions(
    predecessors: Mapping[str, Predecessor],
    reading: GroupReading,
    desired: Sequence[Desired],
    names: Mapping[str, str],
    later: Mapping[str, Group] | None = None,
) -> list[Succession]:
    """Judge the progress of successions.

    Args:
        predecessors: The logs of the predecessors that exist, by successor.
        desired: The declared resources.
        names: The predecessor by successor.
        later: A later reading of groups, from which their rate follows; without it, no rate is known.
    """
    topics_read = {each.ref.name: list_topics_read(each) for each in desired if is_group(each.ref)}
    successions = []
    for successor, name in names.items():
        predecessor = predecessors.get(successor)
        groups = [
            _judge_group(predecessor, group, (later or {}).get(group.name), topics_read.get(group.name))
            for group in reading.groups.values()
            if predecessor is not None and name in group.topics
        ]
        denied = [why for group, why in reading.denied.items() if successor in topics_read.get(group, ())]
        unread = next(iter(denied), reading.unread)
        successions.append(Succession(successor, name, predecessor, groups, unread))
    by_successor = {each.successor: each for each in successions}
    return [replace(each, behind=_explain_behind(each, by_successor)) for each in successions]


def _explain_behind(succession: Succession, by_successor: Mapping[str, Succession]) -> str:
    """Return why groups may still come from a topic before the predecessor; empty if none does."""
    earlier, passed = by_successor.get(succession.name), {succession.successor}
    while earlier is not None and earlier.successor not in passed:
        if earlier.waiting:
            names = listed([group.name for group in earlier.waiting])
            return (
                f"{names} {'has' if len(earlier.waiting) == 1 else 'have'} not moved from {earlier.name} yet"
            )
        passed.add(earlier.successor)
        earlier = by_successor.get(earlier.name)
    return ""


def add_writers(
    successions: Sequence[Succession], desired: Sequence[Desired], read_access: Callable[[], AccessReading]
) -> list[Succession]:
    """Add to each succession the principals that may write to its predecessor, by live or declared ACLs.

    Args:
        desired: The declared resources.
        read_access: Reads the live ACLs.
    """
    try:
        live = {*read_access().acls}
    except NotOffered:  # without an authorizer, there is nothing to close
        return [*successions]
    except ClusterError as error:
        return [replace(each, unread_writers=error.message) for each in successions]
    accesses = {each.ref.name: each for each in desired if each.ref.kind == ACCESS.name}
    declared = [parse_path(path, name) for name, access in accesses.items() for path in access.state or ()]
    # A denial has no effect before it is applied.
    authorizer = Authorizer(live.union(acl for acl in declared if acl.is_allowed), AuthorizerSettings())
    added = []
    for succession in successions:
        writers = []
        for grant in authorizer.list_grants("Write", ResourceType.TOPIC, succession.name):
            if grant.acl is None:
                continue
            access, path = accesses.get(grant.principal), write_path(grant.acl)
            is_declared = access is not None and path in (access.state or ())
            location = access.locate(path) if access is not None and is_declared else None
            writers.append(TopicWriter(grant.principal, grant.acl.describe_right(), location))
        if succession.predecessor is not None:
            closed = closing_acl(succession.name) in live
            succession = replace(succession, writers=writers, closed=closed)
        added.append(succession)
    return added


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

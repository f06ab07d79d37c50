"""Reading groups from a real cluster, and the offsets that they have committed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaform.cluster.kafka import admin_groups, coordinators
from kafkaform.cluster.kafka.answers import GroupAnswers, is_missing, settled
from kafkaform.cluster.kafka.group_description import describe_groups
from kafkaform.cluster.kafka.group_listing import Listed, Listing, list_groups
from kafkaform.cluster.kafka.log_spans import ask_leaders, require_spans
from kafkaform.cluster.kafka.topic_sources import describe_topics
from kafkaform.core.errors import PermissionDenied
from kafkaform.core.groups import Group, GroupReading, Position
from kafkaform.core.wording import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.errors import ClusterError
    from kafkaform.core.layout import TopicPartition


def committed_offsets(
    connection: Connection, protocols: Mapping[str, str]
) -> GroupAnswers[dict[TopicPartition, int]]:
    """The committed offsets of groups; a share group's are the offsets that its deliveries start from.

    Args:
        connection: The cluster.
        protocols: Each group's protocol, by name.
    """
    share = [name for name, protocol in protocols.items() if protocol == "share"]
    others = [name for name in protocols if protocols[name] != "share"]
    reader = coordinators if others and coordinators.are_reachable(connection) else admin_groups
    answers = settled(others, lambda names: reader.read_committed(connection, names))
    answers.update(settled(share, lambda names: coordinators.read_starts(connection, names)))
    return answers


_FEW_REASONS = 2


def read_groups(connection: Connection, names: Collection[str] | None) -> GroupReading:
    """See `Cluster.groups`."""
    listing = list_groups(connection)
    reading = read_committed(connection, listing, listing.groups if names is None else names)
    partitions = {(p.topic, p.partition) for group in reading.groups.values() for p in group.positions}
    logs = ask_leaders(connection, partitions, None)
    spans = require_spans(logs)

    def measured(position: Position) -> Position:
        span = spans.get((position.topic, position.partition))
        return position if span is None else replace(position, start=span.start, end=span.end)

    groups = {}
    for name, group in reading.groups.items():
        positions = tuple(map(measured, group.positions))
        failures = [logs.failed[p.topic, p.partition].error.message for p in positions if p.end is None]
        unread = [group.unread] if group.unread else []
        if failures:
            unread.append(
                f"no log offsets: {listed([*dict.fromkeys(failures)], _FEW_REASONS, noun='partition')}"
            )
        groups[name] = replace(group, positions=positions, unread="; ".join(unread))
    return GroupReading(groups, reading.denied, listing.unread)


def read_committed(connection: Connection, listing: Listing, names: Collection[str]) -> GroupReading:
    """Read groups with their committed offsets, without what the logs hold.

    Args:
        connection: The cluster.
        listing: The groups that there are.
        names: Which to read.

    Raises:
        ClusterError: It is not known whether one of them exists.
    """
    reading, failed = read_each_committed(connection, listing, names)
    for error in failed.values():
        raise error
    return reading


def read_each_committed(
    connection: Connection, listing: Listing, names: Collection[str]
) -> tuple[GroupReading, dict[str, ClusterError]]:
    """Read as `read_committed` does; also returns why it is not known whether some of the groups exist."""
    asked = {name: listing.groups[name] for name in names if name in listing.groups}
    unlisted = [name for name in names if name not in listing.groups]
    if unlisted and _groups_can_exist(connection):
        # Not there, or hidden: only a request that names such a group is told so.
        asked |= dict.fromkeys(unlisted, Listed())
    described = describe_groups(connection, asked)
    offsets = committed_offsets(connection, {name: group.protocol for name, group in described.found.items()})
    groups = {
        name: _with_offsets(group, asked[name], offsets.found.get(name, {}), offsets.failed.get(name))
        for name, group in described.found.items()
    }
    denied: dict[str, str] = {}
    failed: dict[str, ClusterError] = {}
    for name, error in described.failed.items():
        listed = listing.groups.get(name)
        if is_missing(error):
            continue
        if isinstance(error, PermissionDenied):
            denied[name] = error.message
        elif listed is not None:
            groups[name] = _undescribed(name, listed, error)
        else:
            failed[name] = error
    return GroupReading(groups, denied), failed


def _groups_can_exist(connection: Connection) -> bool:
    """Return whether there is a topic that groups could be in; asking for a coordinator would create it."""
    return not describe_topics(connection, [coordinators.OFFSETS_TOPIC]).missing


def _with_offsets(
    group: Group, listed: Listed, committed: Mapping[TopicPartition, int], failure: ClusterError | None
) -> Group:
    assigned = {partition for member in group.members for partition in member.assignment}
    positions = tuple(
        Position(topic, partition, committed.get((topic, partition)))
        for topic, partition in sorted({*assigned, *committed})
    )
    return replace(
        group,
        protocol_type=listed.protocol_type or group.protocol_type,
        positions=positions,
        unread=f"no committed offsets: {failure.message}" if failure else "",
        # The first member of a group gives it a protocol type, which it keeps when all of them have left.
        never_joined=(listed.protocol, listed.protocol_type) == ("classic", "")
        and (group.protocol, group.state) == ("classic", "Empty"),
    )


def _undescribed(name: str, listed: Listed, error: ClusterError) -> Group:
    return Group(
        name,
        listed.protocol or "classic",
        listed.state,
        listed.protocol_type,
        unread=f"neither members nor offsets: {error.message}",
    )

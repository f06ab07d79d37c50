"""Reading groups from a real cluster, and the offsets that they have committed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

from kafkaform.cluster.kafka.answers import GroupAnswers, gathered, is_missing, settled
from kafkaform.cluster.kafka.group_description import ask_coordinators, describe_groups
from kafkaform.cluster.kafka.group_listing import Listed, Listing, list_groups
from kafkaform.cluster.kafka.log_spans import read_log_spans
from kafkaform.cluster.kafka.topic_sources import AdminReader
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.translation import refusal
from kafkaform.cluster.wire.group_messages import SHARE_OFFSETS
from kafkaform.core.errors import PermissionDenied
from kafkaform.core.groups import Group, GroupReading, Position

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
    answers = settled(others, lambda names: _of_consumers(connection, names))
    answers.update(settled(share, lambda names: _of_share_groups(connection, names)))
    return answers


def _of_consumers(connection: Connection, names: Collection[str]) -> GroupAnswers[dict[TopicPartition, int]]:
    admin = connection.reached
    futures = {
        # librdkafka takes one group a call; the requests of all calls are under way at once.
        name: admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name)], request_timeout=READ_TIMEOUT_S
        )[name]
        for name in names
    }
    return gathered(futures, _offsets)


def _offsets(group: ConsumerGroupTopicPartitions) -> dict[TopicPartition, int]:
    offsets = {}
    for partition in group.topic_partitions or ():
        if partition.error is not None:
            raise KafkaException(partition.error)
        if partition.offset >= 0:
            offsets[partition.topic, partition.partition] = partition.offset
    return offsets


def _of_share_groups(
    connection: Connection, names: Collection[str]
) -> GroupAnswers[dict[TopicPartition, int]]:
    answers = ask_coordinators(
        connection,
        SHARE_OFFSETS,
        names,
        lambda some: {"groups": [{"group_id": name, "topics": None} for name in some]},
        lambda group, _: group,
    )
    result: GroupAnswers[dict[TopicPartition, int]] = GroupAnswers({}, answers.failed)
    for name, group in answers.found.items():
        offsets: dict[TopicPartition, int] = {}
        for topic in group["topics"]:
            for partition in topic["partitions"]:
                _take(name, topic["name"], partition, offsets, result)
        if name not in result.failed:
            result.found[name] = offsets
    return result


def _take(
    name: str,
    topic: str,
    partition: Mapping[str, Any],
    offsets: dict[TopicPartition, int],
    result: GroupAnswers[dict[TopicPartition, int]],
) -> None:
    if partition["error_code"]:
        result.failed[name] = refusal(partition)
    elif partition["start_offset"] >= 0:
        offsets[topic, partition["index"]] = partition["start_offset"]


_OFFSETS_TOPIC = "__consumer_offsets"


def read_groups(connection: Connection, names: Collection[str] | None) -> GroupReading:
    """See `Cluster.groups`."""
    listing = list_groups(connection)
    reading = read_committed(connection, listing, listing.groups if names is None else names)
    partitions = {(p.topic, p.partition) for group in reading.groups.values() for p in group.positions}
    spans = read_log_spans(connection, partitions, None)

    def measured(position: Position) -> Position:
        span = spans.get((position.topic, position.partition))
        return position if span is None else replace(position, start=span.start, end=span.end)

    groups = {}
    for name, group in reading.groups.items():
        positions = tuple(map(measured, group.positions))
        hidden = sorted({position.topic for position in positions if position.end is None})
        unread = [group.unread] if group.unread else []
        if hidden:
            unread.append(f"no log offsets of {', '.join(hidden)}: no leader, or hidden from this account")
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
    return not AdminReader(connection).descriptions([_OFFSETS_TOPIC]).missing


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

"""Describing groups: members, assignments and state."""

from __future__ import annotations

from functools import partial
from struct import error as StructError  # noqa: N812 - it is called plain "error"
from typing import TYPE_CHECKING, Any

from kafkaform.cluster.kafka.coordinators import query_coordinators
from kafkaform.cluster.kafka.log_spans import read_partition_counts
from kafkaform.cluster.kafka.responses import GroupResponses, is_missing, retry_until_ready
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.group_messages import (
    DESCRIBE_CLASSIC,
    DESCRIBE_CONSUMER,
    DESCRIBE_SHARE,
    DESCRIBE_STREAMS,
    read_assignment,
)
from kafkaform.cluster.wire.message_schema import RequestType, describe_damage
from kafkaform.core.errors import ClusterError, NotOffered, RequestRejected
from kafkaform.resources.groups import Group, Member

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.kafka.group_listing import ListedGroup
    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.partitions import TopicPartition

_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION.name
# Empty: a group gets its type from its first member, and one that has only committed offsets has none.
_CONSUMERS = frozenset({"", "consumer"})
"""The protocol types of classic groups whose members are consumers, unlike those of Kafka Connect."""


def describe_groups(connection: Connection, groups: Mapping[str, ListedGroup]) -> GroupResponses[Group]:
    """Describe groups without their offsets; the responses lack those that do not exist.

    Args:
        groups: The groups by name, as they are listed; `ListedGroup()` for one that is not.
    """
    requested: dict[Callable[[Connection, Collection[str]], GroupResponses[Group]], list[str]] = {}
    for name, listed in groups.items():
        requested.setdefault(_choose_request(listed), []).append(name)
    responses: GroupResponses[Group] = GroupResponses()
    for describe, names in requested.items():
        responses.update(retry_until_ready(names, partial(describe, connection)))
    return responses


def _choose_request(listed: ListedGroup) -> Callable[[Connection, Collection[str]], GroupResponses[Group]]:
    if listed.protocol == "share":
        return _describe_share
    if listed.protocol == "streams":
        return _describe_streams
    # Brokers list the protocol since Kafka 3.8 (KIP-848). Both orders give the same result; the wrong one
    # costs a second request.
    if listed.protocol == "classic" or listed.protocol_type not in _CONSUMERS:
        return _CLASSIC_FIRST
    return _CONSUMER_FIRST


def _describe_by_protocols(
    protocols: Sequence[str], connection: Connection, names: Collection[str]
) -> GroupResponses[Group]:
    """Describe groups by one protocol, and those that it does not know by the next."""
    responses: GroupResponses[Group] = GroupResponses()
    remaining: Collection[str] = names
    for protocol in protocols:
        responses.update(_BY_PROTOCOL[protocol](connection, remaining))
        # A group of another protocol is reported as missing (GROUP_ID_NOT_FOUND): the next protocol may have
        # it.
        for name in [name for name, error in responses.failed.items() if is_missing(error)]:
            del responses.failed[name]
        remaining = [
            name for name in remaining if name not in responses.found and name not in responses.failed
        ]
        if not remaining:
            break
    return responses


def _describe_consumer(connection: Connection, names: Collection[str]) -> GroupResponses[Group]:
    """Describe groups of the consumer protocol; the responses are empty if brokers do not have it."""
    responses = _describe_assigned(DESCRIBE_CONSUMER, "consumer", connection, names)

    def is_without(error: ClusterError) -> bool:
        refused = isinstance(error, RequestRejected) and error.code == _UNSUPPORTED  # Kafka 3.7 to 3.9
        return refused or isinstance(error, NotOffered)

    # Not a failure: without the protocol there are no such groups, and the next protocol is asked.
    failed = {name: error for name, error in responses.failed.items() if not is_without(error)}
    return GroupResponses(responses.found, failed)


def _describe_classic(connection: Connection, names: Collection[str]) -> GroupResponses[Group]:
    """Describe classic groups; the responses lack those that do not exist."""

    def convert(group: Mapping[str, Any], node: int) -> Group:
        # Only consumers have partitions: the assignments of Kafka Connect have a format of their own.
        is_consumers = group["protocol_type"] in _CONSUMERS
        return _make_group(
            group,
            "classic",
            "consumer" if is_consumers else group["protocol_type"],
            node,
            partial(_parse_classic_assignment, group["group_id"]) if is_consumers else lambda _: (),
        )

    responses = query_coordinators(connection, DESCRIBE_CLASSIC, names, _make_request, convert)
    # In the supported versions, a missing group is described as Dead, without an error; version 6 has
    # GROUP_ID_NOT_FOUND for it (KIP-1043).
    return GroupResponses(
        {name: group for name, group in responses.found.items() if group.state != "Dead"}, responses.failed
    )


_BY_PROTOCOL = {"consumer": _describe_consumer, "classic": _describe_classic}
_CONSUMER_FIRST = partial(_describe_by_protocols, ("consumer", "classic"))
_CLASSIC_FIRST = partial(_describe_by_protocols, ("classic", "consumer"))


def _parse_classic_assignment(name: str, member: Mapping[str, Any]) -> Collection[TopicPartition]:
    """Parse the partitions of a member; none while its group is rebalancing."""
    if not member["raw_assignment"]:
        return ()
    try:
        return read_assignment(member["raw_assignment"])
    except (ValueError, IndexError, StructError) as error:
        damage = describe_damage(member["raw_assignment"], error)
        member_id = member["member_id"]
        raise ClusterError(
            f"the assignment of member {member_id} of group {name} is not one of consumers: {damage}"
        ) from error


def _describe_share(connection: Connection, names: Collection[str]) -> GroupResponses[Group]:
    return _describe_assigned(DESCRIBE_SHARE, "share", connection, names)


def _describe_assigned(
    request_type: RequestType[Any], protocol: str, connection: Connection, names: Collection[str]
) -> GroupResponses[Group]:
    """Describe groups whose members have partitions of topics assigned by the coordinator."""
    return query_coordinators(
        connection,
        request_type,
        names,
        _make_request,
        lambda group, node: _make_group(group, protocol, protocol, node, _parse_assignment),
    )


def _describe_streams(connection: Connection, names: Collection[str]) -> GroupResponses[Group]:
    responses = query_coordinators(
        connection, DESCRIBE_STREAMS, names, _make_request, lambda group, node: (group, node)
    )
    topics = {
        group["group_id"]: {
            sub["id"]: (*sub["source_topics"], *(topic["name"] for topic in sub["repartition_topics"]))
            for sub in (group["topology"] or {}).get("subtopologies", ())
        }
        for group, _ in responses.found.values()
    }
    # Streams members are assigned tasks, not partitions: the source topics of a subtopology are joined by
    # partition number.
    counts = read_partition_counts(
        connection, {topic for sources in topics.values() for names in sources.values() for topic in names}
    )

    def assignment(sources: Mapping[str, Collection[str]], member: Mapping[str, Any]) -> set[TopicPartition]:
        return {
            (topic, partition)
            for task in member["assignment"]["active"]
            for topic in sources.get(task["subtopology"], ())
            for partition in task["partitions"]
            if partition < counts.get(topic, 0)  # a task has as many partitions as its largest topic
        }

    return GroupResponses(
        {
            name: _make_group(group, "streams", "streams", node, partial(assignment, topics[name]))
            for name, (group, node) in responses.found.items()
        },
        responses.failed,
    )


def _make_request(names: Collection[str]) -> Mapping[str, Any]:
    return {"groups": names, "operations": False}


def _parse_assignment(member: Mapping[str, Any]) -> set[TopicPartition]:
    return {
        (topic["name"], partition)
        for topic in member["assignment"]["topics"]
        for partition in topic["partitions"]
    }


def _make_group(
    group: Mapping[str, Any],
    protocol: str,
    protocol_type: str,
    node: int,
    assignment: Callable[[Mapping[str, Any]], Collection[TopicPartition]],
) -> Group:
    members = tuple(
        Member(
            member["member_id"],
            member["client_id"],
            # Java prints an address without a host name as `/10.0.0.1`.
            member["client_host"].removeprefix("/"),
            member.get("instance_id"),
            frozenset(assignment(member)),
        )
        for member in group["members"]
    )
    return Group(
        group["group_id"], protocol, group["state"], protocol_type, group.get("assignor", ""), node, members
    )

"""Describing groups: members, assignments and state, as their coordinators know them."""

from __future__ import annotations

from functools import partial
from struct import error as StructError  # noqa: N812 - it is called plain "error"
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from kafkaform.cluster.kafka import admin_groups
from kafkaform.cluster.kafka.answers import GroupAnswers, is_missing, settled
from kafkaform.cluster.kafka.coordinators import are_reachable, ask_coordinators
from kafkaform.cluster.kafka.log_spans import read_partition_counts
from kafkaform.cluster.wire.group_messages import (
    DESCRIBE_CLASSIC,
    DESCRIBE_CONSUMER,
    DESCRIBE_SHARE,
    DESCRIBE_STREAMS,
    read_assignment,
)
from kafkaform.core.errors import ClusterError, NotOffered, RequestRejected
from kafkaform.core.groups import Group, Member

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.kafka.group_listing import Listed
    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import RequestType
    from kafkaform.core.layout import TopicPartition


_UNSUPPORTED = KafkaError(KafkaError.UNSUPPORTED_VERSION).name()
_CONSUMERS = frozenset({"", "consumer"})
"""The protocol types of classic groups whose members are consumers; those of Kafka Connect are not."""


def describe_groups(connection: Connection, groups: Mapping[str, Listed]) -> GroupAnswers[Group]:
    """Describe groups without their offsets; one that does not exist is not in the answers.

    Args:
        connection: The cluster.
        groups: The names, with how they are listed (an empty one if they are not).
    """
    asked: dict[Callable[[Connection, Collection[str]], GroupAnswers[Group]], list[str]] = {}
    for name, listed in groups.items():
        asked.setdefault(_way(listed), []).append(name)
    answers: GroupAnswers[Group] = GroupAnswers()
    for way, names in asked.items():
        answers.update(settled(names, partial(way, connection)))
    return answers


def _way(listed: Listed) -> Callable[[Connection, Collection[str]], GroupAnswers[Group]]:
    if listed.protocol == "share":
        return _share
    if listed.protocol == "streams":
        return _streams
    if listed.protocol == "classic" or listed.protocol_type not in _CONSUMERS:
        return _CLASSIC_FIRST
    return _CONSUMER_FIRST


def _of_consumers(
    protocols: Sequence[str], connection: Connection, names: Collection[str]
) -> GroupAnswers[Group]:
    """Describe groups of the classic or the consumer protocol: the second where the first has none."""
    if not are_reachable(connection):
        return admin_groups.describe(connection, names)
    answers: GroupAnswers[Group] = GroupAnswers()
    rest: Collection[str] = names
    for protocol in protocols:
        answers.update(_BY_PROTOCOL[protocol](connection, rest))
        for name in [name for name, error in answers.failed.items() if is_missing(error)]:
            del answers.failed[name]
        rest = [name for name in rest if name not in answers.found and name not in answers.failed]
        if not rest:
            break
    return answers


def _consumer(connection: Connection, names: Collection[str]) -> GroupAnswers[Group]:
    """Describe groups of the consumer protocol; none are in the answers where brokers do not have it."""
    answers = _assigned_by_coordinators(DESCRIBE_CONSUMER, "consumer", connection, names)

    def is_without(error: ClusterError) -> bool:
        refused = isinstance(error, RequestRejected) and error.code == _UNSUPPORTED  # Kafka 3.7 to 3.9
        return refused or isinstance(error, NotOffered)

    failed = {name: error for name, error in answers.failed.items() if not is_without(error)}
    return GroupAnswers(answers.found, failed)


def _classic(connection: Connection, names: Collection[str]) -> GroupAnswers[Group]:
    """Describe classic groups; those that do not exist are not in the answers."""

    def converted(group: Mapping[str, Any], node: int) -> Group:
        # Only consumers have partitions: what the members of Kafka Connect are assigned is its own affair.
        is_consumers = group["protocol_type"] in _CONSUMERS
        return _group(
            group,
            "classic",
            "consumer" if is_consumers else group["protocol_type"],
            node,
            partial(_classic_assignment, group["group_id"]) if is_consumers else lambda _: (),
        )

    answers = ask_coordinators(connection, DESCRIBE_CLASSIC, names, _description_of, converted)
    return GroupAnswers(
        {name: group for name, group in answers.found.items() if group.state != "Dead"}, answers.failed
    )


_BY_PROTOCOL = {"consumer": _consumer, "classic": _classic}
_CONSUMER_FIRST = partial(_of_consumers, ("consumer", "classic"))
_CLASSIC_FIRST = partial(_of_consumers, ("classic", "consumer"))


def _classic_assignment(name: str, member: Mapping[str, Any]) -> Collection[TopicPartition]:
    """The partitions of a member; empty while its group is rebalancing."""
    if not member["raw_assignment"]:
        return ()
    try:
        return read_assignment(member["raw_assignment"])
    except (ValueError, IndexError, StructError) as error:
        raise ClusterError(
            f"the assignment of member {member['member_id']} of group {name} is not one of consumers: {error}"
        ) from error


def _share(connection: Connection, names: Collection[str]) -> GroupAnswers[Group]:
    return _assigned_by_coordinators(DESCRIBE_SHARE, "share", connection, names)


def _assigned_by_coordinators(
    request_type: RequestType[Any], protocol: str, connection: Connection, names: Collection[str]
) -> GroupAnswers[Group]:
    """Describe groups whose members are told of topics what they are assigned."""
    return ask_coordinators(
        connection,
        request_type,
        names,
        _description_of,
        lambda group, node: _group(group, protocol, protocol, node, _topics_assignment),
    )


def _streams(connection: Connection, names: Collection[str]) -> GroupAnswers[Group]:
    answers = ask_coordinators(
        connection,
        DESCRIBE_STREAMS,
        names,
        _description_of,
        lambda group, node: (group, node),
    )
    topics = {
        group["group_id"]: {
            sub["id"]: _sources(sub) for sub in (group["topology"] or {}).get("subtopologies", ())
        }
        for group, _ in answers.found.values()
    }
    counts = read_partition_counts(
        connection, {topic for of in topics.values() for some in of.values() for topic in some}
    )

    def assignment(sources: Mapping[str, Collection[str]], member: Mapping[str, Any]) -> set[TopicPartition]:
        return {
            (topic, partition)
            for task in member["assignment"]["active"]
            for topic in sources.get(task["subtopology"], ())
            for partition in task["partitions"]
            if partition < counts.get(topic, 0)  # a task has as many as the largest of its topics
        }

    return GroupAnswers(
        {
            name: _group(group, "streams", "streams", node, partial(assignment, topics[name]))
            for name, (group, node) in answers.found.items()
        },
        answers.failed,
    )


def _description_of(names: Collection[str]) -> Mapping[str, Any]:
    return {"groups": names, "operations": False}


def _sources(subtopology: Mapping[str, Any]) -> tuple[str, ...]:
    return (*subtopology["source_topics"], *(topic["name"] for topic in subtopology["repartition_topics"]))


def _topics_assignment(member: Mapping[str, Any]) -> set[TopicPartition]:
    return {
        (topic["name"], partition)
        for topic in member["assignment"]["topics"]
        for partition in topic["partitions"]
    }


def _group(
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
            member["client_host"].removeprefix("/"),
            member.get("instance_id"),
            frozenset(assignment(member)),
        )
        for member in group["members"]
    )
    return Group(
        group["group_id"], protocol, group["state"], protocol_type, group.get("assignor", ""), node, members
    )

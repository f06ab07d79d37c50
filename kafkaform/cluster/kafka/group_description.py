"""Describing groups: members, assignments and state, as their coordinators know them."""

from __future__ import annotations

from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
)

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupType,
)

from kafkaform.cluster.kafka.answers import GroupAnswers, gathered, settled
from kafkaform.cluster.kafka.log_spans import read_partition_counts
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.translation import refusal
from kafkaform.cluster.wire.group_messages import (
    DESCRIBE_CLASSIC,
    DESCRIBE_SHARE,
    DESCRIBE_STREAMS,
    FIND_COORDINATOR,
    FIND_COORDINATORS,
)
from kafkaform.core.errors import ClusterError, KafkaformError, NotOffered
from kafkaform.core.groups import Group, Member

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.kafka.group_listing import Listed
    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import RequestType
    from kafkaform.core.layout import TopicPartition


_GROUP = 0
"""The type of a key for which a group's coordinator is looked for (CoordinatorType)."""


def ask_coordinators(
    connection: Connection,
    request_type: RequestType[Any],
    names: Collection[str],
    request: Callable[[Collection[str]], Any],
    convert: Callable[[dict[str, Any], int], Any],
) -> GroupAnswers[Any]:
    """Ask each group's coordinator, in one request for each broker.

    Args:
        connection: The cluster.
        request_type: What to ask.
        names: The groups.
        request: Makes the request for some groups.
        convert: Makes of what was told about a group, and its coordinator, what is wanted.
    """
    answers: GroupAnswers[Any] = GroupAnswers()
    try:
        for node, some in _coordinators(connection, names, answers).items():
            (answer,) = connection.ask(request_type, [request(some)], node=node)
            for group in answer["groups"]:
                if group["group_id"] not in some:
                    raise ClusterError(f"broker {node} returned a group that was not requested")
                if group["error_code"]:
                    answers.failed[group["group_id"]] = refusal(group)
                else:
                    answers.found[group["group_id"]] = convert(group, node)
    except KafkaformError as error:
        failure = error if isinstance(error, ClusterError) else ClusterError(error.message, hint=error.hint)
        unanswered = set(names) - answers.found.keys() - answers.failed.keys()
        answers.failed.update(dict.fromkeys(unanswered, failure))
    return answers


def _coordinators(
    connection: Connection, names: Collection[str], answers: GroupAnswers[Any]
) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for coordinator in _found_coordinators(connection, names):
        if coordinator["key"] not in names:
            raise ClusterError("the brokers returned the coordinator of a group that was not requested")
        if coordinator["error_code"]:
            answers.failed[coordinator["key"]] = refusal(coordinator)
        else:
            found.setdefault(coordinator["node_id"], []).append(coordinator["key"])
    return found


def _found_coordinators(connection: Connection, names: Collection[str]) -> Sequence[Mapping[str, Any]]:
    try:
        (answer,) = connection.ask(FIND_COORDINATORS, [{"key_type": _GROUP, "keys": names}])
    except NotOffered:
        found = connection.ask(FIND_COORDINATOR, [{"key": name, "key_type": _GROUP} for name in names])
        return [{**coordinator, "key": name} for name, coordinator in zip(names, found, strict=True)]
    coordinators: Sequence[Mapping[str, Any]] = answer["coordinators"]
    return coordinators


_STATES = {
    ConsumerGroupState.UNKNOWN: "Unknown",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
}
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
    if listed.protocol in {"", "classic"} and listed.protocol_type not in _CONSUMERS:
        return _foreign
    return _consumers


def _consumers(connection: Connection, names: Collection[str]) -> GroupAnswers[Group]:
    futures = connection.reached.describe_consumer_groups(list(names), request_timeout=READ_TIMEOUT_S)
    answers = gathered(futures, _consumer_group)
    # A missing group is described as a dead one, without an error.
    return GroupAnswers(
        {name: group for name, group in answers.found.items() if group.state != "Dead"}, answers.failed
    )


def _consumer_group(described: Any) -> Group:
    return Group(
        described.group_id,
        "consumer" if described.type == ConsumerGroupType.CONSUMER else "classic",
        _STATES.get(described.state) or described.state.name.capitalize(),
        "consumer",
        described.partition_assignor or "",
        described.coordinator.id if described.coordinator else None,
        tuple(
            Member(
                member.member_id,
                member.client_id,
                member.host.removeprefix("/"),
                member.group_instance_id,
                frozenset((tp.topic, tp.partition) for tp in member.assignment.topic_partitions),
            )
            for member in described.members
        ),
    )


# --- on our own connections -------------------------------------------------------------------------


def _share(connection: Connection, names: Collection[str]) -> GroupAnswers[Group]:
    return ask_coordinators(
        connection,
        DESCRIBE_SHARE,
        names,
        _description_of,
        lambda group, node: _group(group, "share", "share", node, _share_assignment),
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


def _foreign(connection: Connection, names: Collection[str]) -> GroupAnswers[Group]:
    """Describe classic groups of other members than consumers, whose assignments are their own affair."""
    return ask_coordinators(
        connection,
        DESCRIBE_CLASSIC,
        names,
        _description_of,
        lambda group, node: _group(group, "classic", group["protocol_type"], node, lambda _: ()),
    )


def _description_of(names: Collection[str]) -> Mapping[str, Any]:
    return {"groups": names, "operations": False}


def _sources(subtopology: Mapping[str, Any]) -> tuple[str, ...]:
    return (*subtopology["source_topics"], *(topic["name"] for topic in subtopology["repartition_topics"]))


def _share_assignment(member: Mapping[str, Any]) -> set[TopicPartition]:
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

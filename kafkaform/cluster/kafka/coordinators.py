"""Requests to the coordinators of groups, on our own connections.

librdkafka's admin client sends these, too, and ends the process while a coordinator's broker restarts (met
with 2.16): by a SIGSEGV where an answer to OffsetFetch is an error (it looks for a consumer's group, which an
admin client does not have), or by an assertion where a request cannot be sent (issue 4605 of
confluentinc/librdkafka). An apply would die between two changes. So it is asked only where it alone can log
in: see `admin_groups`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from confluent_kafka import KafkaError

from kafkaform.cluster.kafka.answers import GroupAnswers
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import MISSING, refusal, translate_code
from kafkaform.cluster.wire.group_messages import (
    DELETE_GROUPS,
    FIND_COORDINATOR,
    FIND_COORDINATORS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FETCHES,
    SHARE_OFFSETS,
)
from kafkaform.cluster.wire.large_answers import BROKER_CONFIGS, METADATA
from kafkaform.core.errors import ClusterError, KafkaformError, NotOffered, PermissionDenied, RequestRejected
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import RequestType
    from kafkaform.core.layout import TopicPartition


T = TypeVar("T")

_log = logging.getLogger(__name__)

CHUNK = 500
"""The most groups that one request asks for."""

_GROUP = 0
"""The type of a key for which a group's coordinator is looked for (CoordinatorType)."""


def are_reachable(connection: Connection) -> bool:
    """Return whether our own connections reach brokers that say where coordinators are."""
    try:
        return connection.offers(FIND_COORDINATORS) or connection.offers(FIND_COORDINATOR)
    except KafkaformError:
        return False  # there are logins that librdkafka alone can do


def ask_coordinators(
    connection: Connection,
    request_type: RequestType[Any],
    names: Collection[str],
    request: Callable[[Sequence[str]], Any],
    convert: Callable[[dict[str, Any], int], T],
    *,
    chunk: int = CHUNK,
    timeout_s: float = READ_TIMEOUT_S,
) -> GroupAnswers[T]:
    """Ask each group's coordinator, all brokers at a time.

    Args:
        connection: The cluster.
        request_type: What to ask.
        names: The groups.
        request: Makes the request for some groups.
        convert: Makes of what was told about a group, and its coordinator, what is wanted; may raise
            ClusterError.
        chunk: The most groups in a request; with 1, the answer may be about the group without naming it.
        timeout_s: How long a broker may take for each answer.
    """
    answers: GroupAnswers[T] = GroupAnswers()

    def take(node: int, asked: Sequence[str], answer: Any) -> None:
        for group in answer["groups"] if "groups" in answer else [{**answer, "group_id": asked[0]}]:
            name = group["group_id"]
            if name not in asked:
                raise ClusterError(f"broker {node} returned a group that was not requested")
            try:
                if group.get("error_code"):
                    raise refusal(group)
                answers.found[name] = convert(group, node)
            except ClusterError as error:
                answers.failed[name] = _name_missing_right(error, request_type, name)

    try:
        chunks = {
            node: [some[start : start + chunk] for start in range(0, len(some), chunk)]
            for node, some in _coordinators(connection, names, answers).items()
        }
        requests = {node: [request(some) for some in of_node] for node, of_node in chunks.items()}
        for node, result in connection.ask_nodes(request_type, requests, timeout_s).items():
            if isinstance(result, ClusterError):
                answers.failed.update({name: result for some in chunks[node] for name in some})
                continue
            for some, answer in zip(chunks[node], result, strict=True):
                take(node, some, answer)
        failure = ClusterError("the coordinators of these groups did not say anything about them")
    except KafkaformError as error:
        failure = error if isinstance(error, ClusterError) else ClusterError(error.message, hint=error.hint)
    unanswered = set(names) - answers.found.keys() - answers.failed.keys()
    answers.failed.update(dict.fromkeys(unanswered, failure))
    return answers


def _name_missing_right(error: ClusterError, request_type: RequestType[Any], name: str) -> ClusterError:
    """Return an error about a group; one of a missing right names it."""
    if isinstance(error, PermissionDenied) and error.resource == "topic" and error.right is None:
        # A description of a group is refused whole where a topic of it is hidden, which is not named.
        return PermissionDenied(
            f"this account is not authorised: it lacks Describe on a topic that group {name} reads",
            hint="grant Describe on the topics of its members",
            resource=error.resource,
        )
    return name_right(error, request_type.name, name)


def read_committed(connection: Connection, names: Collection[str]) -> GroupAnswers[dict[TopicPartition, int]]:
    """Read the committed offsets of groups of consumers."""

    def several(some: Sequence[str]) -> Mapping[str, Any]:
        return {"groups": [{"group_id": name, "topics": None} for name in some], "stable": False}

    answers = ask_coordinators(connection, OFFSET_FETCHES, names, several, _committed)
    alone = [name for name, error in answers.failed.items() if isinstance(error, NotOffered)]
    if alone:  # brokers before Kafka 3.0
        for name in alone:
            del answers.failed[name]
        answers.update(
            ask_coordinators(
                connection,
                OFFSET_FETCH,
                alone,
                lambda some: {"group_id": some[0], "topics": None},
                _committed,
                chunk=1,
            )
        )
    return answers


def read_starts(connection: Connection, names: Collection[str]) -> GroupAnswers[dict[TopicPartition, int]]:
    """Read the offsets that the deliveries of share groups start from."""

    def request(some: Sequence[str]) -> Mapping[str, Any]:
        return {"groups": [{"group_id": name, "topics": None} for name in some]}

    return ask_coordinators(
        connection, SHARE_OFFSETS, names, request, lambda group, _: _offsets(group, "start_offset")
    )


def commit(
    connection: Connection, name: str, offsets: Mapping[TopicPartition, int], timeout_s: float
) -> dict[TopicPartition, ClusterError]:
    """Commit offsets for a group without members; returns the partitions that failed, and why."""
    topics: dict[str, list[Mapping[str, Any]]] = {}
    for (topic, number), offset in offsets.items():
        topics.setdefault(topic, []).append({"index": number, "offset": offset, "metadata": ""})
    request = {
        "group_id": name,
        "generation": -1,  # of nobody's: as the tools of Kafka commit for a group
        "member_id": "",
        "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
    }

    def codes(answer: Mapping[str, Any], _: int) -> dict[TopicPartition, int]:
        return {
            (topic["name"], p["index"]): p["error_code"]
            for topic in answer["topics"]
            for p in topic["partitions"]
        }

    answers = ask_coordinators(
        connection, OFFSET_COMMIT, [name], lambda _: request, codes, chunk=1, timeout_s=timeout_s
    )
    if failure := answers.failed.get(name):
        return dict.fromkeys(offsets, failure)
    told = answers.found[name]

    def explain(topic: str, code: int) -> ClusterError:
        error = translate_code(code, "")
        # Without a right on the group, each partition carries the error.
        of_group = isinstance(error, PermissionDenied) and error.resource == "group"
        return name_right(error, OFFSET_COMMIT.name, name if of_group else topic)

    failures = {p: explain(p[0], code) for p, code in told.items() if code and p in offsets}
    silence = ClusterError(f"the coordinator of group {name} did not say whether it was committed")
    return failures | dict.fromkeys(offsets.keys() - told.keys(), silence)


def delete(connection: Connection, name: str, timeout_s: float) -> GroupAnswers[None]:
    """Delete a group with its offsets."""
    return ask_coordinators(
        connection,
        DELETE_GROUPS,
        [name],
        lambda some: {"groups": some},
        lambda _group, _node: None,
        timeout_s=timeout_s,
    )


def _committed(group: Mapping[str, Any], _: int) -> dict[TopicPartition, int]:
    return _offsets(group, "offset")


def _offsets(group: Mapping[str, Any], field: str) -> dict[TopicPartition, int]:
    """The offsets of a group; one below 0 is none."""
    offsets = {}
    for topic in group["topics"]:
        for partition in topic["partitions"]:
            if partition["error_code"]:
                raise name_right(refusal(partition), OFFSET_FETCH.name, topic["name"])
            if partition[field] >= 0:
                offsets[topic["name"], partition["index"]] = partition[field]
    return offsets


def _coordinators(
    connection: Connection, names: Collection[str], answers: GroupAnswers[Any]
) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    requested = {*names}
    for coordinator in _found_coordinators(connection, names):
        if coordinator["key"] not in requested:
            raise ClusterError("the brokers returned the coordinator of a group that was not requested")
        if coordinator["error_code"]:
            if coordinator["error_code"] == KafkaError.COORDINATOR_NOT_AVAILABLE:
                check_offsets_topic(connection)
            error = name_right(refusal(coordinator), FIND_COORDINATOR.name, coordinator["key"])
            answers.failed[coordinator["key"]] = error
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


class BrokerClient(Protocol):
    """Connections to brokers, on which any of them can be asked."""

    def ask(
        self, request_type: RequestType[T], requests: Sequence[Any], *, node: int | None = None
    ) -> list[T]:
        """Return the answers to some requests, in order."""


OFFSETS_TOPIC = "__consumer_offsets"
_REPLICATION_FACTOR = "offsets.topic.replication.factor"


def check_offsets_topic(brokers: BrokerClient) -> None:
    """Check that the topic which groups are kept in is there, or can be created by the brokers.

    A broker that cannot create it answers as one does while it creates it: that there is no coordinator yet.

    Raises:
        RequestRejected: There are fewer brokers than replicas are wanted; no coordinator will come.
    """
    try:
        (metadata,) = brokers.ask(METADATA, [[OFFSETS_TOPIC]])
        if any(topic.error_code not in MISSING for topic in metadata.topics):
            return  # it is there, or hidden from this account
        node = min(metadata.brokers)
        ((described,),) = brokers.ask(BROKER_CONFIGS, [{str(node): [_REPLICATION_FACTOR]}], node=node)
        wanted = int(described.configs.effective[_REPLICATION_FACTOR] or 0)
    except (ClusterError, KeyError, ValueError) as error:
        _log.debug("it is not known whether brokers can create %s: %s", OFFSETS_TOPIC, error)
        return
    live = len(metadata.brokers)
    if wanted > live:
        up = f"{counted(live, 'broker')} {'is' if live == 1 else 'are'} up"
        raise RequestRejected(
            f"brokers cannot create {OFFSETS_TOPIC}, which every group needs: {_REPLICATION_FACTOR} is "
            f"{wanted}, and {up}",
            code="INVALID_REPLICATION_FACTOR",
            hint=f"start {counted(wanted - live, 'more broker')}, or set {_REPLICATION_FACTOR}={live} on all "
            "brokers and restart them",
        )

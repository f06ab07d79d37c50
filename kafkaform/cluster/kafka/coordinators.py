"""Requests to the coordinators of groups.

librdkafka's admin client is not used: while a coordinator's broker restarted, it crashed the process (seen
with 2.16), by a SIGSEGV on an OffsetFetch error (it looks for a consumer's group, which an admin client does
not have), or by an assertion on a request that cannot be sent (confluentinc/librdkafka issue 4605).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kafkaform.cluster.kafka.responses import GroupResponses
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import MISSING, translate_code, translate_response
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.group_messages import (
    DELETE_GROUPS,
    FIND_COORDINATOR,
    FIND_COORDINATORS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OFFSET_FETCHES,
    SHARE_OFFSETS,
)
from kafkaform.cluster.wire.large_responses import BROKER_CONFIGS, METADATA
from kafkaform.core.errors import ClusterError, KafkaformError, NotOffered, PermissionDenied, RequestRejected
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import RequestType
    from kafkaform.core.partitions import TopicPartition


T = TypeVar("T")

_log = logging.getLogger(__name__)

CHUNK = 500
"""The most groups in one request."""

_GROUP = 0
"""The key type of groups in FindCoordinator (CoordinatorType)."""


def query_coordinators(
    connection: Connection,
    request_type: RequestType[Any],
    names: Collection[str],
    request: Callable[[Sequence[str]], Any],
    convert: Callable[[dict[str, Any], int], T],
    *,
    chunk: int = CHUNK,
    timeout_s: float = READ_TIMEOUT_S,
) -> GroupResponses[T]:
    """Ask each group's coordinator, all brokers concurrently.

    Args:
        request: Makes the request for some groups.
        convert: Makes the value from the response about a group and its coordinator's id; may raise
            ClusterError.
        chunk: The most groups in a request; with 1, the response need not name the group.
        timeout_s: How long a broker may take for each response.
    """
    responses: GroupResponses[T] = GroupResponses()

    def add_responses(node: int, requested: Sequence[str], response: Any) -> None:
        # The responses to OffsetCommit, and to OffsetFetch before version 8, do not repeat the name of their
        # group.
        for group in response["groups"] if "groups" in response else [{**response, "group_id": requested[0]}]:
            name = group["group_id"]
            if name not in requested:
                raise ClusterError(f"broker {node} returned a group that was not requested")
            try:
                if group.get("error_code"):
                    raise translate_response(group)
                responses.found[name] = convert(group, node)
            except ClusterError as error:
                responses.failed[name] = _name_missing_right(error, request_type, name)

    try:
        chunks = {
            node: [batch[start : start + chunk] for start in range(0, len(batch), chunk)]
            for node, batch in _group_by_coordinator(connection, names, responses).items()
        }
        requests = {node: [request(batch) for batch in of_node] for node, of_node in chunks.items()}
        for node, result in connection.send_to_nodes(request_type, requests, timeout_s).items():
            if isinstance(result, ClusterError):
                responses.failed.update({name: result for batch in chunks[node] for name in batch})
                continue
            for batch, response in zip(chunks[node], result, strict=True):
                add_responses(node, batch, response)
        failure = ClusterError("the responses of the coordinators do not include these groups")
    # The coordinators could not be looked up, so that no group was asked about. Callers handle errors by
    # group only.
    except KafkaformError as error:
        failure = error if isinstance(error, ClusterError) else ClusterError(error.message, hint=error.hint)
    pending = set(names) - responses.found.keys() - responses.failed.keys()
    responses.failed.update(dict.fromkeys(pending, failure))
    return responses


def _name_missing_right(error: ClusterError, request_type: RequestType[Any], name: str) -> ClusterError:
    """Return the same error; if an account was refused, one that names the missing right."""
    if isinstance(error, PermissionDenied) and error.resource == "topic" and error.right is None:
        # If one topic of a group is hidden, the whole description is refused, without naming the topic.
        return PermissionDenied(
            f"this account is not authorised: it lacks Describe on a topic that group {name} reads",
            hint="grant Describe on the topics of its members",
            resource=error.resource,
        )
    return name_right(error, request_type.name, name)


def read_committed(
    connection: Connection, names: Collection[str]
) -> GroupResponses[dict[TopicPartition, int]]:
    """Read the committed offsets of consumer groups."""

    def make_request(batch: Sequence[str]) -> Mapping[str, Any]:
        # With `stable`, a coordinator refuses partitions with uncommitted transactional offsets
        # (UNSTABLE_OFFSET_COMMIT, KIP-447). Lag and resets are about the last committed ones.
        return {"groups": [{"group_id": name, "topics": None} for name in batch], "stable": False}

    responses = query_coordinators(connection, OFFSET_FETCHES, names, make_request, _parse_committed)
    unsupported = [name for name, error in responses.failed.items() if isinstance(error, NotOffered)]
    if unsupported:  # brokers before Kafka 3.0: one group in a request
        for name in unsupported:
            del responses.failed[name]
        responses.update(
            query_coordinators(
                connection,
                OFFSET_FETCH,
                unsupported,
                lambda batch: {"group_id": batch[0], "topics": None},
                _parse_committed,
                chunk=1,
            )
        )
    return responses


def read_starts(connection: Connection, names: Collection[str]) -> GroupResponses[dict[TopicPartition, int]]:
    """Read the start offsets of share groups."""

    def request(batch: Sequence[str]) -> Mapping[str, Any]:
        return {"groups": [{"group_id": name, "topics": None} for name in batch]}

    return query_coordinators(
        connection, SHARE_OFFSETS, names, request, lambda group, _: _parse_offsets(group, "start_offset")
    )


def commit(
    connection: Connection, name: str, offsets: Mapping[TopicPartition, int], timeout_s: float
) -> dict[TopicPartition, ClusterError]:
    """Commit offsets for a group without members; returns the errors by partition."""
    topics: dict[str, list[Mapping[str, Any]]] = {}
    for (topic, number), offset in offsets.items():
        topics.setdefault(topic, []).append({"index": number, "offset": offset, "metadata": ""})
    request = {
        "group_id": name,
        # No generation and no member: so Kafka's own tools commit for a group that has no members. A
        # coordinator refuses it (UNKNOWN_MEMBER_ID) while there are members.
        "generation": -1,
        "member_id": "",
        "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
    }

    def read_codes(response: Mapping[str, Any], _: int) -> dict[TopicPartition, int]:
        return {
            (topic["name"], p["index"]): p["error_code"]
            for topic in response["topics"]
            for p in topic["partitions"]
        }

    responses = query_coordinators(
        connection, OFFSET_COMMIT, [name], lambda _: request, read_codes, chunk=1, timeout_s=timeout_s
    )
    if failure := responses.failed.get(name):
        return dict.fromkeys(offsets, failure)
    codes = responses.found[name]

    def explain(topic: str, code: int) -> ClusterError:
        error = translate_code(code, "")
        # Without a right on the group, every partition has the error of the group.
        is_group = isinstance(error, PermissionDenied) and error.resource == "group"
        return name_right(error, OFFSET_COMMIT.name, name if is_group else topic)

    failures = {p: explain(p[0], code) for p, code in codes.items() if code and p in offsets}
    missing = ClusterError(f"the response of the coordinator of group {name} does not include this partition")
    return failures | dict.fromkeys(offsets.keys() - codes.keys(), missing)


def delete_offsets(
    connection: Connection, name: str, partitions: Collection[TopicPartition], timeout_s: float
) -> GroupResponses[None]:
    """Delete the offsets of a group in partitions of topics that no member of it reads."""
    topics: dict[str, list[Mapping[str, int]]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append({"index": number})
    request = {
        "group_id": name,
        "topics": [{"name": topic, "partitions": some} for topic, some in topics.items()],
    }

    def check(response: Mapping[str, Any], _: int) -> None:
        for topic in response["topics"]:
            for code in {partition["error_code"] for partition in topic["partitions"]} - {0}:
                raise name_right(translate_code(code, ""), OFFSET_DELETE.name, topic["name"])

    return query_coordinators(
        connection, OFFSET_DELETE, [name], lambda _: request, check, chunk=1, timeout_s=timeout_s
    )


def delete(connection: Connection, name: str, timeout_s: float) -> GroupResponses[None]:
    """Delete a group with its offsets."""
    return query_coordinators(
        connection,
        DELETE_GROUPS,
        [name],
        lambda batch: {"groups": batch},
        lambda _group, _node: None,
        timeout_s=timeout_s,
    )


def _parse_committed(group: Mapping[str, Any], _: int) -> dict[TopicPartition, int]:
    return _parse_offsets(group, "offset")


def _parse_offsets(group: Mapping[str, Any], field: str) -> dict[TopicPartition, int]:
    """Return the offsets of a group; a negative one means none."""
    offsets = {}
    for topic in group["topics"]:
        for partition in topic["partitions"]:
            if partition["error_code"]:
                raise name_right(translate_response(partition), OFFSET_FETCH.name, topic["name"])
            if partition[field] >= 0:
                offsets[topic["name"], partition["index"]] = partition[field]
    return offsets


def _group_by_coordinator(
    connection: Connection, names: Collection[str], responses: GroupResponses[Any]
) -> dict[int, list[str]]:
    by_node: dict[int, list[str]] = {}
    requested = {*names}
    for coordinator in _find_coordinators(connection, names):
        if coordinator["key"] not in requested:
            raise ClusterError("the brokers returned the coordinator of a group that was not requested")
        if coordinator["error_code"]:
            if coordinator["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                check_offsets_topic(connection)
            error = name_right(translate_response(coordinator), FIND_COORDINATOR.name, coordinator["key"])
            responses.failed[coordinator["key"]] = error
        else:
            by_node.setdefault(coordinator["node_id"], []).append(coordinator["key"])
    return by_node


def _find_coordinators(connection: Connection, names: Collection[str]) -> Sequence[Mapping[str, Any]]:
    try:
        (response,) = connection.send(FIND_COORDINATORS, [{"key_type": _GROUP, "keys": names}])
    # Brokers before Kafka 3.0 look up one group in a request (KIP-699).
    except NotOffered:
        responses = connection.send(FIND_COORDINATOR, [{"key": name, "key_type": _GROUP} for name in names])
        return [{**coordinator, "key": name} for name, coordinator in zip(names, responses, strict=True)]
    coordinators: Sequence[Mapping[str, Any]] = response["coordinators"]
    return coordinators


class BrokerClient(Protocol):
    """Connections to brokers."""

    def send(
        self, request_type: RequestType[T], requests: Sequence[Any], *, node: int | None = None
    ) -> list[T]:
        """Return the responses to some requests, in order."""


OFFSETS_TOPIC = "__consumer_offsets"
_REPLICATION_FACTOR = "offsets.topic.replication.factor"


def check_offsets_topic(brokers: BrokerClient) -> None:
    """Check that the topic that stores groups exists, or that brokers can create it.

    A broker that cannot create it answers as one that is creating it: COORDINATOR_NOT_AVAILABLE.

    Raises:
        RequestRejected: There are fewer brokers than the topic needs replicas.
    """
    try:
        (metadata,) = brokers.send(METADATA, [[OFFSETS_TOPIC]])
        if any(topic.error_code not in MISSING for topic in metadata.topics):
            return  # it exists, or is hidden from this account
        # A broker describes only its own configs, so that the request goes to the broker that it names.
        node = min(metadata.brokers)
        ((described,),) = brokers.send(BROKER_CONFIGS, [{str(node): [_REPLICATION_FACTOR]}], node=node)
        wanted = int(described.configs.effective[_REPLICATION_FACTOR] or 0)
    # This only looks for a better explanation: without one, the caller retries COORDINATOR_NOT_AVAILABLE.
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

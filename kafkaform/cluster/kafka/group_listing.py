"""Listing the groups of every protocol."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from kafkaform.cluster.kafka.answers import COORDINATOR_TIMEOUT_S, is_moving
from kafkaform.cluster.transport.api import READ_TIMEOUT_S, Api, RequestType
from kafkaform.cluster.transport.translation import translate, translate_code
from kafkaform.cluster.wire.message_schema import INT8, INT16, INT32, STRING, array, struct, whole
from kafkaform.core.errors import ClusterError, KafkaformError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection


_LISTED = struct(group_id=STRING, protocol_type=STRING, group_state=STRING, group_type=STRING)
_LIST_GROUPS = RequestType(
    Api(16, 5, flexible=True, name="ListGroups"),
    whole(struct(throttle_ms=INT32, error_code=INT16, groups=array(_LISTED))),
)
"""ListGroupsRequest.json and its response, in the first version that tells types: Kafka 3.8."""
_EVERY_STATE_AND_TYPE = b"\x01\x01\x00"

_WITH_CONFIGS = RequestType(
    Api(74, 1, flexible=True, name="ListConfigResources"),
    whole(struct(throttle_ms=INT32, error_code=INT16, resources=array(struct(name=STRING, type=INT8)))),
)
"""ListConfigResourcesRequest.json and its response, in the first version that has groups."""
_GROUPS_ALONE = b"\x02\x20\x00"


@dataclass(frozen=True, slots=True)
class Listed:
    """A group as a coordinator lists it; old brokers leave things empty."""

    protocol: str = ""
    protocol_type: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The groups of a cluster.

    Attributes:
        groups: Those that coordinators list, by name.
        unread: Which groups may be missing here, and why; empty if none are.
    """

    groups: Mapping[str, Listed] = field(default_factory=dict)
    unread: str = ""


def list_groups(connection: Connection) -> Listing:
    """List groups of every kind; of consumers alone, through librdkafka, where nothing else can connect."""
    connection.reached  # noqa: B018 - raises in plain words if nobody is there
    try:
        return Listing(_all_kinds(connection))
    except KafkaformError as error:
        return Listing(_consumers(connection), f"share and streams groups are not listed ({error.message})")


def groups_with_configs(connection: Connection) -> tuple[Sequence[str], str]:
    """The names of the groups that have configs, and why they may not be all (empty if they are)."""
    try:
        if not connection.speaks(_WITH_CONFIGS.api):
            return (), "the brokers do not list groups that have only configs (Kafka 4.1 does)"
        answer = _checked(*connection.ask(_WITH_CONFIGS, [_GROUPS_ALONE]))
        return [resource["name"] for resource in answer["resources"]], ""
    except KafkaformError as error:
        return (), f"groups that have only configs are not listed ({error.message})"


def _all_kinds(connection: Connection) -> dict[str, Listed]:
    deadline = time.monotonic() + COORDINATOR_TIMEOUT_S
    while True:
        try:
            listed = _listed(connection)
        except ClusterError as error:
            if not is_moving(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return {
                group["group_id"]: Listed(
                    group.get("group_type", "").lower(), group["protocol_type"], group.get("group_state", "")
                )
                for group in listed
            }


def _listed(connection: Connection) -> Sequence[Mapping[str, str]]:
    """Ask each broker for the groups that it coordinates; kafka-python knows how older ones list them."""
    if not connection.speaks(_LIST_GROUPS.api):
        return connection.listed_groups()
    answers = connection.ask_each(_LIST_GROUPS, _EVERY_STATE_AND_TYPE, READ_TIMEOUT_S)
    listed: list[Mapping[str, str]] = []
    for answer in answers.values():
        if isinstance(answer, ClusterError):
            raise answer
        listed += _checked(answer)["groups"]
    return listed


def _checked(answer: Any) -> Any:
    if answer["error_code"]:
        raise translate_code(answer["error_code"], "")
    return answer


def _consumers(connection: Connection) -> dict[str, Listed]:
    try:
        listed = connection.reached.list_consumer_groups(request_timeout=READ_TIMEOUT_S).result()
    except KafkaException as error:
        raise translate(error) from error
    if listed.errors:
        raise translate(listed.errors[0])
    return {group.group_id: Listed() for group in listed.valid}

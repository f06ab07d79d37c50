"""Listing the groups of every protocol."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from kafkaform.cluster.kafka.answers import COORDINATOR_TIMEOUT_S, is_transient
from kafkaform.cluster.kafka.facts import group_protocols
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import refusal, translate
from kafkaform.cluster.wire.group_messages import LIST_GROUPS
from kafkaform.cluster.wire.messages import CONFIG_RESOURCES
from kafkaform.core.errors import ClusterError, KafkaformError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import RequestType


_GROUPS = 32
"""The type of the configs of groups (ConfigResource.Type)."""


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
        if not connection.offers(CONFIG_RESOURCES):
            if "consumer" not in group_protocols(connection.offered()):
                return (), ""  # no group has configs
            return (), "the brokers do not list groups that have only configs (Kafka 4.1 does)"
        answer = _checked(CONFIG_RESOURCES, *connection.ask(CONFIG_RESOURCES, [{"types": [_GROUPS]}]))
        return [resource["name"] for resource in answer["resources"]], ""
    except KafkaformError as error:
        return (), f"groups that have only configs are not listed ({error.message})"


def _all_kinds(connection: Connection) -> dict[str, Listed]:
    deadline = time.monotonic() + COORDINATOR_TIMEOUT_S
    while True:
        try:
            listed = _listed(connection)
        except ClusterError as error:
            if not is_transient(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return {
                group["group_id"]: Listed(
                    group["group_type"].lower(), group["protocol_type"], group["group_state"]
                )
                for group in listed
            }


def _listed(connection: Connection) -> Sequence[Mapping[str, str]]:
    """Ask each broker for the groups that it coordinates."""
    answers = connection.ask_each(LIST_GROUPS, {}, READ_TIMEOUT_S)
    listed: list[Mapping[str, str]] = []
    for answer in answers.values():
        if isinstance(answer, ClusterError):
            raise answer
        listed += _checked(LIST_GROUPS, answer)["groups"]
    return listed


def _checked(request_type: RequestType[Any], answer: Any) -> Any:
    if answer["error_code"]:
        raise name_right(refusal(answer), request_type.name)
    return answer


def _consumers(connection: Connection) -> dict[str, Listed]:
    try:
        listed = connection.reached.list_consumer_groups(request_timeout=READ_TIMEOUT_S).result()
    except KafkaException as error:
        raise translate(error) from error
    if listed.errors:
        raise translate(listed.errors[0])
    return {group.group_id: Listed() for group in listed.valid}

"""Listing the groups of every protocol."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kafkaform.cluster.kafka.facts import find_group_protocols
from kafkaform.cluster.kafka.responses import COORDINATOR_TIMEOUT_S, is_transient
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import translate_response
from kafkaform.cluster.wire.group_messages import LIST_GROUPS
from kafkaform.cluster.wire.messages import CONFIG_RESOURCES
from kafkaform.core.errors import ClusterError, KafkaformError
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import RequestType


_GROUPS = 32
"""The type of the configs of groups (ConfigResource.Type)."""


class ListedGroup(Value):
    """A group as its coordinator lists it; fields that old brokers lack are empty."""

    protocol: str = ""
    protocol_type: str = ""
    state: str = ""


def list_groups(connection: Connection) -> dict[str, ListedGroup]:
    """List the groups of all protocols, by name."""
    deadline = time.monotonic() + COORDINATOR_TIMEOUT_S
    while True:
        try:
            listed = _request_groups(connection)
        except ClusterError as error:
            if not is_transient(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return {
                group["group_id"]: ListedGroup(
                    group["group_type"].lower(), group["protocol_type"], group["group_state"]
                )
                for group in listed
            }


def list_groups_with_configs(connection: Connection) -> tuple[Sequence[str], str]:
    """Return the groups that have configs, and why some may be missing (empty if none are)."""
    try:
        if not connection.offers(CONFIG_RESOURCES):
            if "consumer" not in find_group_protocols(connection.read_api_versions()):
                return (), ""  # no group has configs
            return (), "the brokers do not list groups that have only configs (Kafka 4.1 does)"
        response = _check_error(CONFIG_RESOURCES, *connection.send(CONFIG_RESOURCES, [{"types": [_GROUPS]}]))
        return [resource["name"] for resource in response["resources"]], ""
    except KafkaformError as error:
        # A plan goes on without them: the note KF421 reports that some groups may be missing.
        return (), f"could not list groups that have only configs ({error.message})"


def _request_groups(connection: Connection) -> Sequence[Mapping[str, str]]:
    """Ask each broker for the groups that it coordinates."""
    responses = connection.send_to_each(LIST_GROUPS, {}, READ_TIMEOUT_S)
    listed: list[Mapping[str, str]] = []
    for response in responses.values():
        # A list without the groups of one broker would make them look deleted: all brokers must answer.
        if isinstance(response, ClusterError):
            raise response
        listed += _check_error(LIST_GROUPS, response)["groups"]
    return listed


def _check_error(request_type: RequestType[Any], response: Any) -> Any:
    if response["error_code"]:
        raise name_right(translate_response(response), request_type.name)
    return response

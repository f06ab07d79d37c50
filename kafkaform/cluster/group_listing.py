"""Which groups there are, of every kind."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from kafkaform.cluster.api import Api
from kafkaform.cluster.connection import READ_TIMEOUT_S
from kafkaform.cluster.group_answers import COORDINATOR_TIMEOUT_S, is_moving
from kafkaform.cluster.translation import translate
from kafkaform.errors import ClusterError, KafkaformError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.cluster.connection import Connection

_LIST_CONFIG_RESOURCES_OF_GROUPS = Api(74, 1, flexible=True)


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
    """List groups through kafka-python, which sees every kind; through librdkafka where it cannot connect."""
    connection.reached  # noqa: B018 - raises in plain words if nobody is there
    try:
        return Listing(_all_kinds(connection))
    except KafkaformError as error:
        return Listing(_consumers(connection), f"share and streams groups are not listed ({error.message})")


def groups_with_configs(connection: Connection) -> tuple[Sequence[str], str]:
    """The names of the groups that have configs, and why they may not be all (empty if they are)."""
    try:
        if not connection.speaks(_LIST_CONFIG_RESOURCES_OF_GROUPS):
            return (), "the brokers do not list groups that have only configs (Kafka 4.1 does)"
        return connection.groups_with_configs(), ""
    except KafkaformError as error:
        return (), f"groups that have only configs are not listed ({error.message})"


def _all_kinds(connection: Connection) -> dict[str, Listed]:
    deadline = time.monotonic() + COORDINATOR_TIMEOUT_S
    while True:
        try:
            listed = connection.listed_groups()
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


def _consumers(connection: Connection) -> dict[str, Listed]:
    try:
        listed = connection.reached.list_consumer_groups(request_timeout=READ_TIMEOUT_S).result()
    except KafkaException as error:
        raise translate(error) from error
    if listed.errors:
        raise translate(listed.errors[0])
    return {group.group_id: Listed() for group in listed.valid}

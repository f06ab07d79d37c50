"""The names by which a command line refers to resources that ACLs protect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.acls import CLUSTER_NAME, ResourceType
from kafkaform.core.wording import did_you_mean, quoted
from kafkaform.resources import GROUP, TOPIC, find_kind

if TYPE_CHECKING:
    from collections.abc import Mapping

_LABELS: Mapping[str, ResourceType] = {
    TOPIC.name: ResourceType.TOPIC,
    GROUP.name: ResourceType.GROUP,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
    "DelegationToken": ResourceType.DELEGATION_TOKEN,
    "User": ResourceType.USER,
}
"""The prefixes by which a command line names a resource: `ConsumerGroup/billing`."""
_CLUSTER_LABEL = "Cluster"


def parse_resource(text: str) -> tuple[ResourceType, str]:
    """Parse a resource of the command line: `orders.v1`, `ConsumerGroup/billing`, `Cluster`.

    A name without a type is that of a topic.

    Raises:
        ValueError: The type does not exist, or the name is missing.
    """
    if text == _CLUSTER_LABEL:
        return ResourceType.CLUSTER, CLUSTER_NAME
    label, slash, name = text.partition("/")
    if not slash:
        label, name = TOPIC.name, text
    if label not in _LABELS:
        labels = (*(f"{known}/NAME" for known in _LABELS), _CLUSTER_LABEL)
        meant = find_kind(label)
        hint = did_you_mean(meant or label, _LABELS) or f"; use {', '.join(labels)}"
        raise ValueError(f"{quoted(label)} is not a type of resource{hint}")
    if not name:
        raise ValueError(f"{quoted(text)} has no name after the slash")
    return _LABELS[label], name

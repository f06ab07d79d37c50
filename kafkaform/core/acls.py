"""Access control lists (ACLs), in the words of Kafka's `kafka-acls`."""

from __future__ import annotations

from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from kafkaform.core.wording import did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

WILDCARD = "*"
"""As a name: every resource of a type. As a host: every host."""
USER_PREFIX = "User:"
"""The beginning of a principal that is a user, as Kafka writes them."""
EVERYONE = "User:*"
"""The principal of ACLs that apply to every user."""
CLUSTER_NAME = "kafka-cluster"
"""Kafka's name of the only resource of the type `cluster`."""


class ResourceType(StrEnum):
    """A type of resource that ACLs protect, by the name of its option in `kafka-acls`."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"
    DELEGATION_TOKEN = "delegation-token"  # noqa: S105 - a type of resource
    USER = "user"


ALL = "All"
OPERATIONS: Mapping[ResourceType, tuple[str, ...]] = {
    ResourceType.TOPIC: (
        "Read", "Write", "Create", "Delete", "Alter", "Describe", "DescribeConfigs", "AlterConfigs",
    ),
    ResourceType.GROUP: ("Read", "Describe", "Delete", "DescribeConfigs", "AlterConfigs"),
    ResourceType.CLUSTER: (
        "Create", "Alter", "Describe", "ClusterAction", "DescribeConfigs", "AlterConfigs", "IdempotentWrite",
    ),
    ResourceType.TRANSACTIONAL_ID: ("Write", "Describe", "TwoPhaseCommit"),
    ResourceType.DELEGATION_TOKEN: ("Describe",),
    ResourceType.USER: ("CreateTokens", "DescribeTokens"),
}  # fmt: skip
"""The operations that requests need on each type of resource, by AclEntry.supportedOperations of Kafka 4.

Brokers keep ACLs with any other operation, too.
"""
ALL_OPERATIONS: tuple[str, ...] = tuple(dict.fromkeys((ALL, *chain.from_iterable(OPERATIONS.values()))))
"""All operations, with `All` first."""


class Acl(NamedTuple):
    """One access control entry: a principal is allowed or denied an operation on resources.

    Attributes:
        resource_type: The type of the resources.
        name: Their name, the prefix of their names, or `*` for every resource of the type.
        is_prefix: Whether `name` is a prefix; a prefix `*` is no wildcard.
        principal: The principal, such as `User:alice`; `User:*` is everyone.
        host: The address of the client; `*` is every address, and an empty one that of no client.
        operation: Kafka's name of the operation, such as `DescribeConfigs`; `All` is every operation.
        is_allowed: Whether the operation is allowed; False if it is denied.
    """

    resource_type: ResourceType
    name: str
    is_prefix: bool
    principal: str
    host: str
    operation: str
    is_allowed: bool

    def __str__(self) -> str:
        verb = "allow" if self.is_allowed else "deny"
        return f"{verb} {self.principal} {self.describe_right()}{self.describe_host()}"

    def describe_host(self) -> str:
        """Describe the host, after the right: ` from 10.0.0.1`; empty for every address."""
        return "" if self.host == WILDCARD else f" from {self.host or 'an empty address'}"

    def describe_right(self) -> str:
        """Describe the operation and the resources: `Write on topics that start with orders.`."""
        if self.is_prefix and self.resource_type is not ResourceType.CLUSTER:
            resources = f"{self.resource_type.replace('-', ' ')}s that start with {self.name}"
        else:
            resources = describe_resource(self.resource_type, self.name)
        return f"{self.operation} on {resources}"


def describe_resource(resource_type: ResourceType, name: str) -> str:
    """Describe a resource: `topic orders`, `every topic`, `the cluster`."""
    if resource_type is ResourceType.CLUSTER:
        return "the cluster"
    noun = resource_type.replace("-", " ")
    return f"every {noun}" if name == WILDCARD else f"{noun} {name}"


def parse_operation(text: str, resource_type: ResourceType, known: Collection[str] = ALL_OPERATIONS) -> str:
    """Parse an operation in any spelling: `write`, `describe-configs`, `DescribeConfigs`.

    Args:
        resource_type: The type of its resources, whose operations a message suggests.
        known: The operations to choose from.

    Raises:
        ValueError: It is none of them.
    """
    # `kafka-acls` takes DescribeConfigs and prints DESCRIBE_CONFIGS; in YAML, describe-configs is usual.
    plain = text.replace("-", "").replace("_", "").lower()
    operation = {operation.lower(): operation for operation in known}.get(plain)
    if operation is None:
        listed_operations = ", ".join(OPERATIONS[resource_type])
        noun = resource_type.replace("-", " ")
        hint = did_you_mean(text.capitalize(), OPERATIONS[resource_type])
        raise ValueError(
            f"{quoted(text)} is not an operation on a {noun}{hint or f': use {listed_operations}'}"
        )
    return operation


def parse_principal(text: str) -> str:
    """Check a principal: a type and a name, such as `User:alice`.

    Raises:
        ValueError: The type or the name is missing.
    """
    # As Kafka's SecurityUtils does: only the first colon separates, and a name may have more of them.
    principal_type, _, name = text.partition(":")
    if not principal_type or not name:
        example = "alice" if ":" in text else text
        raise ValueError(
            f"{quoted(text)} is not a principal: write a type and a name, such as User:{example}"
        )
    return text

"""The rights that requests need: what a broker that refuses an account does not say.

Kafka answers with the type of the resource alone ("Topic authorization failed."), or with the whole request
as Java prints it. Which operation it looked for follows from the request (kafka.apache.org/documentation,
"Operations and resources on protocols").
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkaform.core.errors import PermissionDenied
from kafkaform.core.rights import CLUSTER, Right, lacking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.errors import ClusterError


RIGHTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "AlterPartitionReassignments": {"cluster": "Alter"},
        "ConsumerGroupDescribe": {"group": "Describe", "topic": "Describe"},
        "ConsumerGroupHeartbeat": {"group": "Read", "topic": "Describe"},
        "CreatePartitions": {"topic": "Alter"},
        "CreateTopics": {"cluster": "Create", "topic": "Create"},
        "DeleteGroups": {"group": "Delete"},
        "DeleteTopics": {"topic": "Delete"},
        "DescribeConfigs": {
            "cluster": "DescribeConfigs",
            "group": "DescribeConfigs",
            "topic": "DescribeConfigs",
        },
        "DescribeGroups": {"group": "Describe"},
        "DescribeLogDirs": {"cluster": "Describe"},
        "DescribeProducers": {"topic": "Read"},
        "DescribeQuorum": {"cluster": "Describe"},
        "DescribeShareGroupOffsets": {"group": "Describe", "topic": "Describe"},
        "ElectLeaders": {"cluster": "Alter"},
        "Fetch": {"cluster": "ClusterAction", "topic": "Read"},
        "FindCoordinator": {"group": "Describe", "transactional-id": "Describe"},
        "IncrementalAlterConfigs": {
            "cluster": "AlterConfigs",
            "group": "AlterConfigs",
            "topic": "AlterConfigs",
        },
        "InitProducerId": {"cluster": "IdempotentWrite", "transactional-id": "Write"},
        "ListConfigResources": {"cluster": "DescribeConfigs"},
        "ListGroups": {"cluster": "Describe", "group": "Describe"},
        "ListOffsets": {"topic": "Describe"},
        "ListPartitionReassignments": {"cluster": "Describe"},
        "Metadata": {"topic": "Describe"},
        "OffsetCommit": {"group": "Read", "topic": "Read"},
        "OffsetFetch": {"group": "Describe", "topic": "Describe"},
        "Produce": {"cluster": "IdempotentWrite", "topic": "Write"},
        "ShareGroupDescribe": {"group": "Describe", "topic": "Describe"},
        "StreamsGroupDescribe": {"group": "Describe", "topic": "Describe"},
    }
)
"""By Kafka's name of a request and the type of the resource that an account was refused on, the operation."""


def name_right(error: ClusterError, request: str, name: str = "") -> ClusterError:
    """Return the same error; if an account was refused, one that names the right that is missing.

    Args:
        error: The error.
        request: Kafka's name of the request that was refused.
        name: The topic, group or transactional id that it was about.
    """
    if not isinstance(error, PermissionDenied):
        return error
    right = error.right
    if right is None:
        operation = RIGHTS.get(request, {}).get(error.resource)
        if operation is None or not (name or error.resource == CLUSTER):
            return error
        right = Right(operation, error.resource, "" if error.resource == CLUSTER else name)
    text, hint = lacking(right)
    return PermissionDenied(text, hint=hint, right=right)

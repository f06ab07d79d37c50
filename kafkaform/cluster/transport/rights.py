"""The rights that requests need.

A broker that refuses an account names only the type of the resource ("Topic authorization failed."), or the
whole request as Java prints it. The missing operation follows from the request
(kafka.apache.org/documentation, "Operations and resources on protocols").
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError, PermissionDenied
from kafkaform.core.rights import CLUSTER, Right, explain_missing_rights

if TYPE_CHECKING:
    from collections.abc import Mapping

RIGHTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "AlterClientQuotas": {"cluster": "AlterConfigs"},
        "AlterPartitionReassignments": {"cluster": "Alter"},
        "AlterUserScramCredentials": {"cluster": "Alter"},
        "ConsumerGroupDescribe": {"group": "Describe", "topic": "Describe"},
        "CreateAcls": {"cluster": "Alter"},
        "CreatePartitions": {"topic": "Alter"},
        "CreateTopics": {"cluster": "Create", "topic": "Create"},
        "DeleteAcls": {"cluster": "Alter"},
        "DeleteGroups": {"group": "Delete"},
        "DeleteTopics": {"topic": "Delete"},
        "DescribeAcls": {"cluster": "Describe"},
        "DescribeClientQuotas": {"cluster": "DescribeConfigs"},
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
        "DescribeUserScramCredentials": {"cluster": "Describe"},
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
        "OffsetForLeaderEpoch": {"topic": "Describe"},
        "OffsetCommit": {"group": "Read", "topic": "Read"},
        "OffsetDelete": {"group": "Delete", "topic": "Read"},
        "OffsetFetch": {"group": "Describe", "topic": "Describe"},
        "Produce": {"cluster": "IdempotentWrite", "topic": "Write"},
        "ShareGroupDescribe": {"group": "Describe", "topic": "Describe"},
        "StreamsGroupDescribe": {"group": "Describe", "topic": "Describe"},
    }
)
"""The operation to grant, by Kafka's name of the refused request and the type of the resource."""


def name_right(error: ClusterError, request: str, name: str = "") -> ClusterError:
    """Return the same error; if an account was refused, one that names the right that is missing.

    Args:
        request: Kafka's name of the request that was refused.
        name: The topic, group or transactional id of the request.
    """
    if not isinstance(error, PermissionDenied):
        return error
    right = error.right
    if right is None:
        operation = RIGHTS.get(request, {}).get(error.resource)
        # A request that is not in the table, or a resource without a name: the error stays as the broker gave
        # it.
        if operation is None or not (name or error.resource == CLUSTER):
            return error
        right = Right(operation, error.resource, "" if error.resource == CLUSTER else name)
    text, hint = explain_missing_rights(right)
    return PermissionDenied(text, hint=hint, right=right)

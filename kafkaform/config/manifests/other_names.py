"""Names of fields in the manifests of other tools, and what to write instead.

The tools are Strimzi, jikkou, topicctl, JulieOps, kafka-gitops, the Terraform providers and Confluent for
Kubernetes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "replicationFactor": ("replicas", "replicaCount", "replication"),
    "partitions": ("partitionCount", "partitionsCount", "numPartitions", "partitionNumber"),
    "config": (
        "configs",
        "settings",
        "configuration",
        "topicConfig",
        "configMap",
        "properties",
        "quotas",
        "limits",
    ),
    "principals": ("acl_principal", "user", "username", "users", "serviceAccount"),
    "produces": ("producers", "writes"),
    "consumes": ("consumers", "reads"),
    "hosts": ("acl_host",),
    "operations": ("acl_operation",),
    "permission": ("type", "permissionType", "acl_permission_type"),
    "resource": ("resourceType",),
    "name": ("resourceName",),
    "client": ("consumerConfig", "clientConfig", "properties"),
    "topics": ("subscriptions",),
    "in": ("oneOf", "enum", "values", "allowed"),
    "notIn": ("noneOf", "denied"),
}
"""Other names of a field, for objects that have the field."""

_NAME = "the name of the resource is metadata.name"
_TEAM = "write `metadata: {labels: {team: NAME}}`"
_COMMENT = "write a comment, or an annotation in metadata"
_INSTEAD: Mapping[str, Mapping[str, str]] = {
    "partitions": {
        "topicName": _NAME,
        "topic": _NAME,
        "retentionMinutes": "write `retention: 60m`",
        "owner": _TEAM,
        "team": _TEAM,
        "description": _COMMENT,
    },
    "topics": {"groupId": _NAME, "group": _NAME, "owner": _TEAM, "team": _TEAM, "description": _COMMENT},
    "scram": {
        "authentication": "write `scram: [{mechanism: SCRAM-SHA-512, password: ${env:NAME}}]`",
        "password": "it belongs in an item of spec.scram",
        "mechanism": "it belongs in an item of spec.scram",
        "iterations": "it belongs in an item of spec.scram",
        "authorization": "write an Access manifest for rights",
        "acls": "write an Access manifest for rights",
        "quotas": "write a ClientQuota manifest for quotas",
        "username": _NAME,
    },
    "principals": {
        "authorization": "write acls, or produces and consumes",
        "consumerGroups": "write `consumes: [{group: NAME}]`",
    },
    "permission": {
        "patternType": "write prefix instead of name for a prefix",
        "pattern": "write name, or prefix",
        "resource_pattern_type_filter": "write prefix instead of name for a prefix",
    },
    "clusters": {"client": "it belongs in clusters.NAME"},
}
"""Hints for names without such a field, by a field that identifies the object."""


def fold_name(name: str) -> str:
    """Return a name without case and separators: equal for `replication_factor` and `replicationFactor`."""
    return re.sub(r"[\s._-]", "", name).casefold()


_FOLDED = {
    field: {
        **{fold_name(synonym): f"write {field}" for synonym in _SYNONYMS.get(field, ())},
        **{fold_name(synonym): hint for synonym, hint in _INSTEAD.get(field, {}).items()},
    }
    for field in {**_SYNONYMS, **_INSTEAD}
}


def suggest_field(name: str, known: Collection[str]) -> str | None:
    """Return what to write instead of a field that an object with the known fields does not have."""
    folded = fold_name(name)
    alike = [field for field in known if fold_name(field).rstrip("s") == folded.rstrip("s")]
    same = max(alike, key=lambda field: fold_name(field) == folded, default=None)
    hints = (_FOLDED[field].get(folded) for field in known if field in _FOLDED)
    return f"did you mean {same!r}?" if same else next(filter(None, hints), None)

"""The topic that keeps the record on the cluster itself."""

from __future__ import annotations

import json

from kafkaform.core.operations import CreateTopic
from kafkaform.resources.topic import topic_ref

TOPIC = topic_ref("__kafkaform_audit")
"""The topic in which the applies to a cluster write down what they do."""

_REPLICAS = 3
_LARGEST_BATCH = 1_048_588


def creation(brokers: int) -> CreateTopic:
    """The creation of the topic: nothing of it is ever deleted, and no single broker can lose it.

    Args:
        brokers: How many brokers the cluster has.
    """
    replicas = max(1, min(_REPLICAS, brokers))
    return CreateTopic(
        TOPIC,
        1,
        replicas,
        {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "min.insync.replicas": "2" if replicas > 2 else "1",
            "max.message.bytes": str(_LARGEST_BATCH),
        },
    )


def key_of(line: str) -> str:
    """The resource that a line is about, `KIND/NAME`, or `throttle/ID`: the key of its message."""
    document = json.loads(line)
    if document.get("record") == "throttle":
        return f"throttle/{document['id']}"
    return f"{document['kind']}/{document['name']}"

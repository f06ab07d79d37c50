"""The layout of the audit topic: its name, its creation, and the keys of its messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kafkaform.core.apply_result import RECORD_TOPIC
from kafkaform.core.model import Create, State
from kafkaform.resources import KINDS, topic_ref
from kafkaform.resources.replicas.facts import MIN_ISR, REPLICATION_FACTOR

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaform.core.operations import Operation

AUDIT_TOPIC = topic_ref(RECORD_TOPIC)
"""The topic of the record, as a resource."""

_REPLICAS = 3
# Kafka's default of message.max.bytes. It is set in case the brokers' is lower: a line has up to 900,000
# bytes.
_MAX_BATCH_BYTES = 1_048_588


def make_audit_topic_creation(brokers: int, without: Collection[str] = ()) -> Operation:
    """Return the operation that creates the audit topic, with replicas and without retention.

    Args:
        brokers: The number of brokers of the cluster.
        without: Fields that are left to the brokers' defaults.
    """
    # One partition keeps the lines of all applies in one order. The retention is set, as brokers delete
    # records after 7 days by default.
    replicas = max(1, min(_REPLICAS, brokers))
    state: State = {
        "partitions": 1,
        REPLICATION_FACTOR: replicas,
        "config.cleanup.policy": "delete",
        "config.retention.ms": "-1",
        "config.retention.bytes": "-1",
        # A line counts as written once two brokers have it. With fewer than three, one that is down would
        # stop applies.
        MIN_ISR: "2" if replicas > 2 else "1",
        "config.max.message.bytes": str(_MAX_BATCH_BYTES),
    }
    wanted = {path: value for path, value in state.items() if path not in without}
    (operation,) = KINDS[AUDIT_TOPIC.kind].operations(Create(AUDIT_TOPIC, wanted))
    return operation


def make_record_key(line: str) -> str:
    """Return the message key of a line: its resource, `KIND/NAME`, or `throttle/ID`."""
    document = json.loads(line)
    if document.get("record") == "throttle":
        return f"throttle/{document['id']}"
    return f"{document['kind']}/{document['name']}"

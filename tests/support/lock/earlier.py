"""A holder of the lock as earlier versions of kafkaform are one on Kafka 4.0 and later: by KIP-848."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from kafkaform.cluster.kafka.lock_coordinator import Coordinator, get_error_code
from kafkaform.cluster.wire.message_schema import (
    INT16,
    INT32,
    NULLABLE_STRING,
    STRING,
    UUID,
    array,
    message,
    nullable,
    struct,
)
from kafkaform.core.lock import NAME
from tests.support.clusters.fixtures import open_connection

_OWNED = struct(topic_id=UUID, partitions=array(INT32))
_CONSUMER_HEARTBEAT = message(
    68,
    "ConsumerGroupHeartbeat",
    (1, 1),
    0,
    struct(
        group_id=STRING,
        member_id=STRING,
        epoch=INT32,
        instance_id=NULLABLE_STRING,
        rack_id=NULLABLE_STRING,
        rebalance_ms=INT32,
        topics=array(STRING, nullable=True),
        topics_regex=NULLABLE_STRING,
        assignor=NULLABLE_STRING,
        partitions=array(_OWNED, nullable=True),
    ),
    struct(
        throttle_ms=INT32,
        error_code=INT16,
        error_message=NULLABLE_STRING,
        member_id=NULLABLE_STRING,
        epoch=INT32,
        interval_ms=INT32,
        assignment=nullable(struct(topics=array(_OWNED))),
    ),
)
_JOINING, _LEAVING = 0, -1
"""The epochs of who joins, and of who leaves."""


class EarlierMember:
    """A member of that kind.

    Args:
        coordinator: Of the lock's group.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._id = str(uuid4())

    def join(self) -> int:
        """Apply for membership; returns the error code of the answer."""
        return self._beat(_JOINING)

    def leave(self) -> int:
        """Leave the group; returns the error code of the answer."""
        return self._beat(_LEAVING)

    def _beat(self, epoch: int) -> int:
        request: dict[str, Any] = {
            "group_id": NAME,
            "member_id": self._id,
            "epoch": epoch,
            "instance_id": "apply",
            "rack_id": None,
            "rebalance_ms": 30_000,
            "topics": [NAME],
            "topics_regex": None,
            "assignor": None,
            "partitions": [],
        }
        return get_error_code(self._coordinator.retry_until_ready(_CONSUMER_HEARTBEAT, request))


@contextmanager
def earlier_member(servers: str) -> Iterator[EarlierMember]:
    """Make one that has not joined yet, with connections of its own."""
    with open_connection(servers) as connection:
        coordinator = Coordinator(connection.separate("earlier"))
        try:
            yield EarlierMember(coordinator)
        finally:
            coordinator.close()

"""Requests about groups and offsets, and for membership in a group.

The fields are those of the message definitions in Apache Kafka's source
(clients/src/main/resources/common/message).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.cluster.wire.message_schema import (
    BOOLEAN,
    ERROR,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    OCTETS,
    STRING,
    UINT16,
    UUID,
    FieldType,
    Versions,
    array,
    message,
    nullable,
    since,
    struct,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_NODE = {"node_id": INT32, "host": STRING, "port": INT32}
_DESCRIBE = struct(groups=array(STRING), operations=BOOLEAN)

# Version 4 adds the state of each group (KIP-518).
LIST_GROUPS = message(
    16,
    "ListGroups",
    (0, 5),
    3,
    struct(states=since(4, array(STRING), ()), types=since(5, array(STRING), ())),
    struct(
        throttle_ms=since(1, INT32, 0),
        error_code=INT16,
        groups=array(
            struct(
                group_id=STRING,
                protocol_type=STRING,
                group_state=since(4, STRING, ""),
                group_type=since(5, STRING, ""),
            )
        ),
    ),
)
"""Version 5 has types (KIP-848, Kafka 3.8)."""

FIND_COORDINATORS = message(
    10,
    "FindCoordinator",
    (4, 4),
    3,
    struct(key_type=INT8, keys=array(STRING)),
    struct(throttle_ms=INT32, coordinators=array(struct(key=STRING, **_NODE, **ERROR))),
)
"""For several groups in one request (KIP-699, Kafka 3.0)."""

FIND_COORDINATOR = message(
    10,
    "FindCoordinator",
    (1, 3),
    3,
    struct(key=STRING, key_type=INT8),
    struct(throttle_ms=INT32, **ERROR, **_NODE),
)
"""For one group, for brokers without batches."""

# Not version 6: by it, a missing group is an error instead of the state Dead (KIP-1043).
DESCRIBE_CLASSIC = message(
    15,
    "DescribeGroups",
    (1, 5),
    5,
    struct(groups=array(STRING), operations=since(3, BOOLEAN, default=False)),
    struct(
        throttle_ms=INT32,
        groups=array(
            struct(
                error_code=INT16,
                group_id=STRING,
                state=STRING,
                protocol_type=STRING,
                assignor=STRING,
                members=array(
                    struct(
                        member_id=STRING,
                        instance_id=since(4, NULLABLE_STRING),
                        client_id=STRING,
                        client_host=STRING,
                        metadata=OCTETS,
                        raw_assignment=OCTETS,
                    )
                ),
                operations=since(3, INT32, 0),
            )
        ),
    ),
)

_TOPIC_PARTITIONS = array(struct(id=UUID, name=STRING, partitions=array(INT32)))


def _describe_response(member: Mapping[str, FieldType | Versions], **of_group: FieldType) -> FieldType:
    """Return the response schema for groups with server-side assignors, by the fields of member and group."""
    return struct(
        throttle_ms=INT32,
        groups=array(
            struct(
                **ERROR,
                group_id=STRING,
                state=STRING,
                epoch=INT32,
                assignment_epoch=INT32,
                **of_group,
                members=array(struct(**member)),
                operations=INT32,
            )
        ),
    )


# Version 1 adds the type of each member, which differs while a group migrates between protocols (KIP-1099).
DESCRIBE_CONSUMER = message(
    69,
    "ConsumerGroupDescribe",
    (0, 1),
    0,
    _DESCRIBE,
    _describe_response(
        {
            "member_id": STRING,
            "instance_id": NULLABLE_STRING,
            "rack_id": NULLABLE_STRING,
            "epoch": INT32,
            "client_id": STRING,
            "client_host": STRING,
            "subscribed": array(STRING),
            "subscribed_regex": NULLABLE_STRING,
            "assignment": struct(topics=_TOPIC_PARTITIONS),
            "target_assignment": struct(topics=_TOPIC_PARTITIONS),
            "member_type": since(1, INT8, -1),
        },
        assignor=STRING,
    ),
)
"""For groups of the consumer protocol (KIP-848, Kafka 3.7)."""

_CONSUMER_ASSIGNMENT = struct(version=INT16, topics=array(struct(name=STRING, partitions=array(INT32))))


def read_assignment(raw: bytes) -> set[tuple[str, int]]:
    """Parse the assignment of a consumer in a classic group (ConsumerProtocolAssignment, all versions).

    Raises:
        ValueError: The bytes have another format; or IndexError or struct.error.
    """
    assignment, _ = _CONSUMER_ASSIGNMENT(0, False).read(raw, 0)
    return {(topic["name"], partition) for topic in assignment["topics"] for partition in topic["partitions"]}


# Version 0 was the early access of Kafka 4.0 (KIP-932), which Kafka 4.1 removed.
DESCRIBE_SHARE = message(
    77,
    "ShareGroupDescribe",
    (1, 1),
    0,
    _DESCRIBE,
    _describe_response(
        {
            "member_id": STRING,
            "rack_id": NULLABLE_STRING,
            "epoch": INT32,
            "client_id": STRING,
            "client_host": STRING,
            "subscribed": array(STRING),
            "assignment": struct(topics=_TOPIC_PARTITIONS),
        },
        assignor=STRING,
    ),
)

_KEY_VALUE = struct(key=STRING, value=STRING)
_TOPIC_INFO = struct(name=STRING, partitions=INT32, replication=INT16, configs=array(_KEY_VALUE))
_TASK_OFFSET = struct(subtopology=STRING, partition=INT32, offset=INT64)
_TASKS = array(struct(subtopology=STRING, partitions=array(INT32)))
_ASSIGNMENT = struct(active=_TASKS, standby=_TASKS, warmup=_TASKS)
_SUBTOPOLOGY = struct(
    id=STRING,
    source_topics=array(STRING),
    sink_topics=array(STRING),
    changelogs=array(_TOPIC_INFO),
    repartition_topics=array(_TOPIC_INFO),
)

DESCRIBE_STREAMS = message(
    89,
    "StreamsGroupDescribe",
    (0, 0),
    0,
    _DESCRIBE,
    _describe_response(
        {
            "member_id": STRING,
            "epoch": INT32,
            "instance_id": NULLABLE_STRING,
            "rack_id": NULLABLE_STRING,
            "client_id": STRING,
            "client_host": STRING,
            "topology_epoch": INT32,
            "process_id": STRING,
            "endpoint": nullable(struct(host=STRING, port=UINT16)),
            "tags": array(_KEY_VALUE),
            "offsets": array(_TASK_OFFSET),
            "end_offsets": array(_TASK_OFFSET),
            "assignment": _ASSIGNMENT,
            "target_assignment": _ASSIGNMENT,
            "classic": BOOLEAN,
        },
        topology=nullable(struct(epoch=INT32, subtopologies=array(_SUBTOPOLOGY))),
    ),
)

_SHARE_OFFSET = struct(index=INT32, start_offset=INT64, leader_epoch=INT32, **ERROR)

SHARE_OFFSETS = message(
    90,
    "DescribeShareGroupOffsets",
    (0, 0),
    0,
    struct(
        groups=array(
            struct(group_id=STRING, topics=array(struct(name=STRING, partitions=array(INT32)), nullable=True))
        )
    ),
    struct(
        throttle_ms=INT32,
        groups=array(
            struct(
                group_id=STRING,
                topics=array(struct(name=STRING, id=UUID, partitions=array(_SHARE_OFFSET))),
                **ERROR,
            )
        ),
    ),
)

# --- committed offsets -----------------------------------------------------------------------------

OFFSET_DELETE = message(
    47,
    "OffsetDelete",
    (0, 0),
    1,
    struct(group_id=STRING, topics=array(struct(name=STRING, partitions=array(struct(index=INT32))))),
    struct(
        error_code=INT16,
        throttle_ms=INT32,
        topics=array(struct(name=STRING, partitions=array(struct(index=INT32, error_code=INT16)))),
    ),
    changes=True,
)
"""Deletes the offsets of a group in partitions that none of its members reads (KIP-496, Kafka 2.4)."""

# Version 9 is for members of the consumer protocol (KIP-848), and version 10 has topic ids; neither is
# needed. Versions 2 to 4 carry a retention, which -1 leaves to the brokers.
OFFSET_COMMIT = message(
    8,
    "OffsetCommit",
    (2, 8),
    8,
    struct(
        group_id=STRING,
        generation=INT32,
        member_id=STRING,
        instance_id=since(7, NULLABLE_STRING),
        retention_ms=Versions(INT64, -1, 2, 4),
        topics=array(
            struct(
                name=STRING,
                partitions=array(
                    struct(
                        index=INT32, offset=INT64, leader_epoch=since(6, INT32, -1), metadata=NULLABLE_STRING
                    )
                ),
            )
        ),
    ),
    struct(
        throttle_ms=since(3, INT32, 0),
        topics=array(struct(name=STRING, partitions=array(struct(index=INT32, error_code=INT16)))),
    ),
    changes=True,
)

_FETCHED_TOPICS = array(struct(name=STRING, partitions=array(INT32)), nullable=True)
_OFFSETS = array(
    struct(
        name=STRING,
        partitions=array(
            struct(
                index=INT32,
                offset=INT64,
                leader_epoch=since(5, INT32, -1),
                metadata=NULLABLE_STRING,
                error_code=INT16,
            )
        ),
    )
)

# Version 2 is the first in which null stands for all topics.
OFFSET_FETCH = message(
    9,
    "OffsetFetch",
    (2, 7),
    6,
    struct(group_id=STRING, topics=_FETCHED_TOPICS, stable=since(7, BOOLEAN, default=False)),
    struct(throttle_ms=since(3, INT32, 0), topics=_OFFSETS, error_code=INT16),
)
"""For one group, for brokers without batches."""

OFFSET_FETCHES = message(
    9,
    "OffsetFetch",
    (8, 8),
    6,
    struct(groups=array(struct(group_id=STRING, topics=_FETCHED_TOPICS)), stable=BOOLEAN),
    struct(throttle_ms=INT32, groups=array(struct(group_id=STRING, topics=_OFFSETS, error_code=INT16))),
)
"""For several groups in one request (KIP-709, Kafka 3.0)."""

DELETE_GROUPS = message(
    42,
    "DeleteGroups",
    (0, 2),
    2,
    struct(groups=array(STRING)),
    struct(throttle_ms=INT32, groups=array(struct(group_id=STRING, error_code=INT16))),
    changes=True,
)

# --- membership ------------------------------------------------------------------------------------

_PROTOCOLS = array(struct(name=STRING, metadata=OCTETS))

# Membership takes one version of each request: every supported broker has them, and one path is tested.
JOIN_GROUP = message(
    11,
    "JoinGroup",
    (6, 6),
    6,
    struct(
        group_id=STRING,
        session_ms=INT32,
        rebalance_ms=INT32,
        member_id=STRING,
        instance_id=since(5, NULLABLE_STRING),
        protocol_type=STRING,
        protocols=_PROTOCOLS,
    ),
    struct(
        throttle_ms=INT32,
        error_code=INT16,
        generation=INT32,
        protocol=STRING,
        leader=STRING,
        member_id=STRING,
        members=array(struct(member_id=STRING, instance_id=NULLABLE_STRING, metadata=OCTETS)),
    ),
)
"""Takes two requests: the response to the first has the member id (KIP-394, version 4)."""

SYNC_GROUP = message(
    14,
    "SyncGroup",
    (4, 4),
    4,
    struct(
        group_id=STRING,
        generation=INT32,
        member_id=STRING,
        instance_id=since(3, NULLABLE_STRING),
        assignments=array(struct(member_id=STRING, assignment=OCTETS)),
    ),
    struct(throttle_ms=INT32, error_code=INT16, assignment=OCTETS),
)

HEARTBEAT = message(
    12,
    "Heartbeat",
    (4, 4),
    4,
    struct(group_id=STRING, generation=INT32, member_id=STRING, instance_id=since(3, NULLABLE_STRING)),
    struct(throttle_ms=INT32, error_code=INT16),
)

LEAVE_GROUP = message(
    13,
    "LeaveGroup",
    (4, 4),
    4,
    struct(group_id=STRING, members=array(struct(member_id=STRING, instance_id=since(3, NULLABLE_STRING)))),
    struct(
        throttle_ms=INT32,
        error_code=INT16,
        members=array(struct(member_id=STRING, instance_id=NULLABLE_STRING, error_code=INT16)),
    ),
)

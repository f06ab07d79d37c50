"""Requests that read and change the cluster, its brokers, topics, partitions and quotas.

The fields are those of the message definitions in Apache Kafka's source
(clients/src/main/resources/common/message), in the versions of brokers since Kafka 2.8.
"""

from __future__ import annotations

from enum import IntEnum

from kafkaform.cluster.wire.message_schema import (
    BOOLEAN,
    ERROR,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    OCTETS,
    STRING,
    UUID,
    array,
    message,
    since,
    struct,
)

API_VERSIONS = message(
    18,
    "ApiVersions",
    # All services have it: MSK Serverless has no earlier version, and Azure Event Hubs hangs up on 4.
    (2, 2),
    3,
    struct(),
    struct(error_code=INT16, api_keys=array(struct(key=INT16, least=INT16, most=INT16)), throttle_ms=INT32),
)

# Version 1 announces that SaslAuthenticate follows; with version 0, tokens would have no frame (KIP-152).
SASL_HANDSHAKE = message(
    17,
    "SaslHandshake",
    (1, 1),
    2,
    struct(mechanism=STRING),
    struct(error_code=INT16, mechanisms=array(STRING)),
)

SASL_AUTHENTICATE = message(
    36,
    "SaslAuthenticate",
    (0, 2),
    2,
    struct(auth_bytes=OCTETS),
    struct(**ERROR, auth_bytes=OCTETS, session_lifetime_ms=since(1, INT64, 0)),
)
"""Version 1 has the lifetime of the login (KIP-368)."""

_RUNNING = struct(index=INT32, replicas=array(INT32), adding=array(INT32), removing=array(INT32))

# Version 0 has no error for partitions: those that are not being reassigned are left out.
LIST_REASSIGNMENTS = message(
    46,
    "ListPartitionReassignments",
    (0, 0),
    0,
    struct(timeout_ms=INT32, topics=array(struct(name=STRING, partitions=array(INT32)), nullable=True)),
    struct(throttle_ms=INT32, **ERROR, topics=array(struct(name=STRING, partitions=array(_RUNNING)))),
)

_PARTITION_RESULT = struct(index=INT32, **ERROR)

ALTER_REASSIGNMENTS = message(
    45,
    "AlterPartitionReassignments",
    (0, 0),
    0,
    struct(
        timeout_ms=INT32,
        topics=array(
            struct(name=STRING, partitions=array(struct(index=INT32, replicas=array(INT32, nullable=True))))
        ),
    ),
    struct(
        throttle_ms=INT32, **ERROR, topics=array(struct(name=STRING, partitions=array(_PARTITION_RESULT)))
    ),
)
"""Idempotent; null replicas cancel a reassignment."""

# Version 1 adds the type of election (KIP-460): preferred leaders only are elected here.
ELECT_LEADERS = message(
    43,
    "ElectLeaders",
    (1, 2),
    2,
    struct(election_type=INT8, topics=array(struct(name=STRING, partitions=array(INT32))), timeout_ms=INT32),
    struct(
        throttle_ms=INT32,
        error_code=INT16,
        topics=array(struct(name=STRING, partitions=array(_PARTITION_RESULT))),
    ),
)

# Version 5 adds what was created (KIP-525), version 7 the topic id (KIP-516).
CREATE_TOPICS = message(
    19,
    "CreateTopics",
    (2, 7),
    5,
    struct(
        topics=array(
            struct(
                name=STRING,
                partitions=INT32,
                replication_factor=INT16,
                assignments=array(struct(index=INT32, replicas=array(INT32))),
                configs=array(struct(name=STRING, value=NULLABLE_STRING)),
            )
        ),
        timeout_ms=INT32,
        validate_only=BOOLEAN,
    ),
    struct(
        throttle_ms=INT32,
        topics=array(
            struct(
                name=STRING,
                topic_id=since(7, UUID, bytes(16)),
                **ERROR,
                partitions=since(5, INT32, -1),
                replication_factor=since(5, INT16, -1),
                configs=since(
                    5,
                    array(
                        struct(
                            name=STRING,
                            value=NULLABLE_STRING,
                            read_only=BOOLEAN,
                            source=INT8,
                            sensitive=BOOLEAN,
                        )
                    ),
                    (),
                ),
            )
        ),
    ),
    changes=True,
)
"""-1 is the broker's default since version 4, and required with assignments in every version."""

CREATE_PARTITIONS = message(
    37,
    "CreatePartitions",
    (0, 3),
    2,
    struct(
        topics=array(
            struct(name=STRING, count=INT32, assignments=array(struct(replicas=array(INT32)), nullable=True))
        ),
        timeout_ms=INT32,
        validate_only=BOOLEAN,
    ),
    struct(throttle_ms=INT32, topics=array(struct(name=STRING, **ERROR))),
    changes=True,
)

DELETE_TOPICS = message(
    20,
    "DeleteTopics",
    (6, 6),
    4,
    struct(topics=array(struct(name=NULLABLE_STRING, topic_id=UUID)), timeout_ms=INT32),
    struct(throttle_ms=INT32, topics=array(struct(name=NULLABLE_STRING, topic_id=UUID, **ERROR))),
    changes=True,
)
"""Deletes by id, since version 6 (KIP-516, Kafka 2.8)."""

DELETE_TOPICS_BY_NAME = message(
    20,
    "DeleteTopics",
    (1, 5),
    4,
    struct(topics=array(STRING), timeout_ms=INT32),
    struct(
        throttle_ms=INT32,
        topics=array(struct(name=STRING, error_code=INT16, error_message=since(5, NULLABLE_STRING))),
    ),
    changes=True,
)
"""Deletes by name, for topics without ids."""


class AlterConfigOperation(IntEnum):
    """An operation on one config (AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


# Incremental (KIP-339): its predecessor, AlterConfigs, resets every config that a request omits.
ALTER_CONFIGS = message(
    44,
    "IncrementalAlterConfigs",
    (0, 1),
    1,
    struct(
        resources=array(
            struct(
                type=INT8,
                name=STRING,
                configs=array(struct(name=STRING, operation=INT8, value=NULLABLE_STRING)),
            )
        ),
        validate_only=BOOLEAN,
    ),
    struct(throttle_ms=INT32, resources=array(struct(**ERROR, type=INT8, name=STRING))),
)

_LOG = struct(index=INT32, size=INT64, lag=INT64, future=BOOLEAN)

# Version 3 adds an error for the whole response: before it, an account without the right got no directories.
LOG_DIRS = message(
    35,
    "DescribeLogDirs",
    (1, 4),
    2,
    struct(topics=array(struct(name=STRING, partitions=array(INT32)), nullable=True)),
    struct(
        throttle_ms=INT32,
        error_code=since(3, INT16, 0),
        results=array(
            struct(
                error_code=INT16,
                log_dir=STRING,
                topics=array(struct(name=STRING, partitions=array(_LOG))),
                total=since(4, INT64, -1),
                usable=since(4, INT64, -1),
            )
        ),
    ),
)
"""Version 4 has the sizes of volumes (KIP-827, Kafka 3.3)."""

_REPLICA = struct(id=INT32, end=INT64, fetched_ms=since(1, INT64, -1), caught_up_ms=since(1, INT64, -1))
_QUORUM = struct(
    index=INT32,
    error_code=INT16,
    leader=INT32,
    leader_epoch=INT32,
    high_watermark=INT64,
    voters=array(_REPLICA),
    observers=array(_REPLICA),
)

QUORUM = message(
    55,
    "DescribeQuorum",
    (0, 1),
    0,
    struct(topics=array(struct(name=STRING, partitions=array(struct(index=INT32))))),
    struct(error_code=INT16, topics=array(struct(name=STRING, partitions=array(_QUORUM)))),
)
"""Version 1 has times (KIP-836, Kafka 3.3)."""

LIST_OFFSETS = message(
    2,
    "ListOffsets",
    (1, 7),
    6,
    struct(
        replica=INT32,
        # Without the field, the broker would return the end of the log, beyond the open transaction.
        isolation_level=since(2, INT8, 0),
        topics=array(
            struct(
                name=STRING, partitions=array(struct(index=INT32, epoch=since(4, INT32, -1), timestamp=INT64))
            )
        ),
    ),
    struct(
        throttle_ms=since(2, INT32, 0),
        topics=array(
            struct(
                name=STRING,
                partitions=array(
                    struct(
                        index=INT32,
                        error_code=INT16,
                        timestamp=INT64,
                        offset=INT64,
                        epoch=since(4, INT32, -1),
                    )
                ),
            )
        ),
    ),
)
"""Answered by leaders.

A timestamp of -1 asks for the log's end, -2 for its start. The epoch of a request is -1: the leader does not
compare it with its own (KIP-320). That of a response is of the leader that wrote the record, or that answered
for the log's end.
"""

OFFSET_FOR_EPOCH = message(
    23,
    "OffsetForLeaderEpoch",
    (2, 4),
    4,
    struct(
        replica=since(3, INT32, -1),
        topics=array(
            struct(name=STRING, partitions=array(struct(index=INT32, current_epoch=INT32, epoch=INT32)))
        ),
    ),
    struct(
        throttle_ms=INT32,
        topics=array(
            struct(
                name=STRING,
                partitions=array(struct(error_code=INT16, index=INT32, epoch=INT32, end_offset=INT64)),
            )
        ),
    ),
)
"""Answered by leaders, with where the records of an epoch end (KIP-101; for clients KIP-320, Kafka 2.1)."""

_PRODUCER = struct(
    id=INT64, epoch=INT32, sequence=INT32, written_ms=INT64, coordinator_epoch=INT32, start=INT64
)

DESCRIBE_PRODUCERS = message(
    61,
    "DescribeProducers",
    (0, 0),
    0,
    struct(topics=array(struct(name=STRING, partitions=array(INT32)))),
    struct(
        throttle_ms=INT32,
        topics=array(
            struct(name=STRING, partitions=array(struct(index=INT32, **ERROR, producers=array(_PRODUCER))))
        ),
    ),
)
"""Answered by leaders (KIP-664, Kafka 2.8); `start` is -1 without an open transaction."""

DESCRIBE_TRANSACTIONS = message(
    65,
    "DescribeTransactions",
    (0, 0),
    0,
    struct(transactional_ids=array(STRING)),
    struct(
        throttle_ms=INT32,
        transactions=array(
            struct(
                error_code=INT16,
                transactional_id=STRING,
                state=STRING,
                timeout_ms=INT32,
                started_ms=INT64,
                producer_id=INT64,
                producer_epoch=INT16,
                topics=array(struct(name=STRING, partitions=array(INT32))),
            )
        ),
    ),
)
"""Answered by the transactions' coordinators (KIP-664, Kafka 3.0)."""

LIST_TRANSACTIONS = message(
    66,
    "ListTransactions",
    (0, 0),
    0,
    struct(states=array(STRING), producer_ids=array(INT64)),
    struct(
        throttle_ms=INT32,
        error_code=INT16,
        unknown_states=array(STRING),
        transactions=array(struct(transactional_id=STRING, producer_id=INT64, state=STRING)),
    ),
)
"""Each broker lists the transactions that it coordinates (KIP-664, Kafka 3.0)."""

CONFIG_RESOURCES = message(
    74,
    "ListConfigResources",
    (1, 1),
    0,
    struct(types=array(INT8)),
    struct(throttle_ms=INT32, error_code=INT16, resources=array(struct(name=STRING, type=INT8))),
)
"""Includes groups since version 1 (KIP-1142, Kafka 4.1)."""

_ENTITY = array(struct(type=STRING, name=NULLABLE_STRING))

DESCRIBE_QUOTAS = message(
    48,
    "DescribeClientQuotas",
    (0, 1),
    1,
    struct(components=array(struct(type=STRING, match_type=INT8, match=NULLABLE_STRING)), strict=BOOLEAN),
    struct(
        throttle_ms=INT32,
        **ERROR,
        entries=array(struct(entity=_ENTITY, values=array(struct(key=STRING, value=FLOAT64)))),
    ),
)
"""Without components, describes all entities (KIP-546, Kafka 2.6); a default has a null name."""

ALTER_QUOTAS = message(
    49,
    "AlterClientQuotas",
    (0, 1),
    1,
    struct(
        entries=array(
            struct(
                entity=_ENTITY, ops=array(struct(key=STRING, value=since(0, FLOAT64, 0.0), remove=BOOLEAN))
            )
        ),
        validate_only=BOOLEAN,
    ),
    struct(throttle_ms=INT32, entries=array(struct(**ERROR, entity=_ENTITY))),
)
"""Idempotent."""

_ACL = struct(
    resource_type=INT8,
    resource_name=STRING,
    pattern_type=INT8,
    principal=STRING,
    host=STRING,
    operation=INT8,
    permission_type=INT8,
)

CREATE_ACLS = message(
    30,
    "CreateAcls",
    (1, 3),
    2,
    struct(creations=array(_ACL)),
    struct(throttle_ms=INT32, results=array(struct(**ERROR))),
)
"""Idempotent."""

DELETE_ACLS = message(
    31,
    "DeleteAcls",
    (1, 3),
    2,
    struct(filters=array(_ACL)),
    struct(
        throttle_ms=INT32,
        filters=array(
            struct(
                **ERROR,
                matches=array(
                    struct(
                        **ERROR,
                        resource_type=INT8,
                        resource_name=STRING,
                        pattern_type=INT8,
                        principal=STRING,
                        host=STRING,
                        operation=INT8,
                        permission_type=INT8,
                    )
                ),
            )
        ),
    ),
)
"""Idempotent. In Kafka, a null in a filter matches everything; there is none here: each filter is one ACL."""

DESCRIBE_SCRAM = message(
    50,
    "DescribeUserScramCredentials",
    (0, 0),
    0,
    struct(users=array(struct(name=STRING))),
    struct(
        throttle_ms=INT32,
        **ERROR,
        results=array(
            struct(user=STRING, **ERROR, credentials=array(struct(mechanism=INT8, iterations=INT32)))
        ),
    ),
)
"""Without users, describes all of them (KIP-554, Kafka 2.7; with KRaft since 3.5, KIP-900)."""

ALTER_SCRAM = message(
    51,
    "AlterUserScramCredentials",
    (0, 0),
    0,
    struct(
        deletions=array(struct(name=STRING, mechanism=INT8)),
        upsertions=array(
            struct(name=STRING, mechanism=INT8, iterations=INT32, salt=OCTETS, salted_password=OCTETS)
        ),
    ),
    struct(throttle_ms=INT32, results=array(struct(user=STRING, **ERROR))),
    changes=True,
)
"""Setting is idempotent; deleting a credential that does not exist is refused (RESOURCE_NOT_FOUND)."""

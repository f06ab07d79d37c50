"""Requests about the cluster, its brokers and its partitions that no Kafka client of Python sends.

The fields are those of Kafka's message definitions of the same names, which are in Apache Kafka's source
(clients/src/main/resources/common/message), in the versions of brokers since Kafka 2.8.
"""

from __future__ import annotations

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
    UUID,
    array,
    message,
    since,
    struct,
)

API_VERSIONS = message(
    18,
    "ApiVersions",
    # Every service has it: MSK Serverless has no earlier version, and Azure Event Hubs hangs up on 4.
    (2, 2),
    3,
    struct(),
    struct(error_code=INT16, api_keys=array(struct(key=INT16, least=INT16, most=INT16)), throttle_ms=INT32),
)

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
"""Version 1 tells how long the login holds (KIP-368)."""

_RUNNING = struct(index=INT32, replicas=array(INT32), adding=array(INT32), removing=array(INT32))

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
            struct(
                name=STRING,
                partitions=array(struct(index=INT32, replicas=array(INT32, nullable=True))),
            )
        ),
    ),
    struct(
        throttle_ms=INT32, **ERROR, topics=array(struct(name=STRING, partitions=array(_PARTITION_RESULT)))
    ),
)
"""Asked for twice, a reassignment is the same one; replicas of null cancel it."""

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
"""confluent-kafka has it, but no deadline for it: 2.16 refuses `request_timeout` (SystemError)."""

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
"""-1 is the broker's default from version 4 on, and what stands beside assignments in every version."""

CREATE_PARTITIONS = message(
    37,
    "CreatePartitions",
    (0, 3),
    2,
    struct(
        topics=array(
            struct(
                name=STRING,
                count=INT32,
                assignments=array(struct(replicas=array(INT32)), nullable=True),
            )
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
"""By id, which version 6 has (KIP-516, Kafka 2.8)."""

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
"""confluent-kafka has it, but waits for the controller it knows, 30 s long if that broker is down."""

_LOG = struct(index=INT32, size=INT64, lag=INT64, future=BOOLEAN)

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
"""Version 4 tells of volumes (KIP-827, Kafka 3.3)."""

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
"""Up to Kafka 3.2 it has no times (KIP-836)."""

LIST_OFFSETS = message(
    2,
    "ListOffsets",
    (1, 7),
    6,
    struct(
        replica=since(0, INT32, -1),  # nobody's: a client asks
        isolation_level=since(2, INT8, 0),
        topics=array(
            struct(
                name=STRING,
                partitions=array(struct(index=INT32, epoch=since(4, INT32, -1), timestamp=INT64)),
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
"""Of leaders only; read committed from version 2 on."""

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
            struct(
                name=STRING,
                partitions=array(struct(index=INT32, **ERROR, producers=array(_PRODUCER))),
            )
        ),
    ),
)
"""Of leaders only (KIP-664, Kafka 2.8); `start` is -1 of a producer without an open transaction."""

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
"""Of their coordinators only (KIP-664, Kafka 3.0)."""

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
"""The first version that has groups (KIP-1142, Kafka 4.1)."""

"""The error codes of Kafka's protocol: number, name and message.

Numbers are from Kafka's protocol guide (kafka.apache.org/protocol, "Error Codes"), names and messages from
librdkafka, as people search for them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class ErrorCode(IntEnum):
    """An error code of Kafka's protocol, with its message."""

    message: str

    def __new__(cls, number: int, message: str) -> Self:
        """Create a member whose value is its number."""
        # The value of an IntEnum is its number alone, so that the message is set beside it.
        member = int.__new__(cls, number)
        member._value_ = number
        member.message = message
        return member

    UNKNOWN = -1, "Unknown broker error"
    NO_ERROR = 0, "Success"
    OFFSET_OUT_OF_RANGE = 1, "Offset out of range"
    INVALID_MSG = 2, "Invalid message"
    UNKNOWN_TOPIC_OR_PART = 3, "Unknown topic or partition"
    INVALID_MSG_SIZE = 4, "Invalid message size"
    LEADER_NOT_AVAILABLE = 5, "Leader not available"
    NOT_LEADER_FOR_PARTITION = 6, "Not leader for partition"
    REQUEST_TIMED_OUT = 7, "Request timed out"
    BROKER_NOT_AVAILABLE = 8, "Broker not available"
    REPLICA_NOT_AVAILABLE = 9, "Replica not available"
    MSG_SIZE_TOO_LARGE = 10, "Message size too large"
    STALE_CTRL_EPOCH = 11, "StaleControllerEpochCode"
    OFFSET_METADATA_TOO_LARGE = 12, "Offset metadata string too large"
    NETWORK_EXCEPTION = 13, "Broker disconnected before response received"
    COORDINATOR_LOAD_IN_PROGRESS = 14, "Coordinator load in progress"
    COORDINATOR_NOT_AVAILABLE = 15, "Coordinator not available"
    NOT_COORDINATOR = 16, "Not coordinator"
    TOPIC_EXCEPTION = 17, "Invalid topic"
    RECORD_LIST_TOO_LARGE = 18, "Message batch larger than configured server segment size"
    NOT_ENOUGH_REPLICAS = 19, "Not enough in-sync replicas"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "Message(s) written to insufficient number of in-sync replicas"
    INVALID_REQUIRED_ACKS = 21, "Invalid required acks value"
    ILLEGAL_GENERATION = 22, "Specified group generation id is not valid"
    INCONSISTENT_GROUP_PROTOCOL = 23, "Inconsistent group protocol"
    INVALID_GROUP_ID = 24, "Invalid group.id"
    UNKNOWN_MEMBER_ID = 25, "Unknown member"
    INVALID_SESSION_TIMEOUT = 26, "Invalid session timeout"
    REBALANCE_IN_PROGRESS = 27, "Group rebalance in progress"
    INVALID_COMMIT_OFFSET_SIZE = 28, "Commit offset data size is not valid"
    TOPIC_AUTHORIZATION_FAILED = 29, "Topic authorization failed"
    GROUP_AUTHORIZATION_FAILED = 30, "Group authorization failed"
    CLUSTER_AUTHORIZATION_FAILED = 31, "Cluster authorization failed"
    INVALID_TIMESTAMP = 32, "Invalid timestamp"
    UNSUPPORTED_SASL_MECHANISM = 33, "Unsupported SASL mechanism"
    ILLEGAL_SASL_STATE = 34, "Request not valid in current SASL state"
    UNSUPPORTED_VERSION = 35, "API version not supported"
    TOPIC_ALREADY_EXISTS = 36, "Topic already exists"
    INVALID_PARTITIONS = 37, "Invalid number of partitions"
    INVALID_REPLICATION_FACTOR = 38, "Invalid replication factor"
    INVALID_REPLICA_ASSIGNMENT = 39, "Invalid replica assignment"
    INVALID_CONFIG = 40, "Configuration is invalid"
    NOT_CONTROLLER = 41, "Not controller for cluster"
    INVALID_REQUEST = 42, "Invalid request"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "Message format on broker does not support request"
    POLICY_VIOLATION = 44, "Policy violation"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "Broker received an out of order sequence number"
    DUPLICATE_SEQUENCE_NUMBER = 46, "Broker received a duplicate sequence number"
    INVALID_PRODUCER_EPOCH = 47, "Producer attempted an operation with an old epoch"
    INVALID_TXN_STATE = 48, "Producer attempted a transactional operation in an invalid state"
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        "Producer attempted to use a producer id which is not currently assigned to its transactional id",
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        (
            "Transaction timeout is larger than the maximum value allowed by the broker's "
            "max.transaction.timeout.ms"
        ),
    )
    CONCURRENT_TRANSACTIONS = (
        51,
        (
            "Producer attempted to update a transaction while another concurrent operation on the same "
            "transaction was ongoing"
        ),
    )
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        (
            "Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the "
            "current coordinator for a given producer"
        ),
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Transactional Id authorization failed"
    SECURITY_DISABLED = 54, "Security features are disabled"
    OPERATION_NOT_ATTEMPTED = 55, "Operation not attempted"
    KAFKA_STORAGE_ERROR = 56, "Disk error when trying to access log file on disk"
    LOG_DIR_NOT_FOUND = 57, "The user-specified log directory is not found in the broker config"
    SASL_AUTHENTICATION_FAILED = 58, "SASL Authentication failed"
    UNKNOWN_PRODUCER_ID = 59, "Unknown Producer Id"
    REASSIGNMENT_IN_PROGRESS = 60, "Partition reassignment is in progress"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation Token feature is not enabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, "Delegation Token is not found on server"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "Specified Principal is not valid Owner/Renewer"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "Delegation Token requests are not allowed on this connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Delegation Token authorization failed"
    DELEGATION_TOKEN_EXPIRED = 66, "Delegation Token is expired"
    INVALID_PRINCIPAL_TYPE = 67, "Supplied principalType is not supported"
    NON_EMPTY_GROUP = 68, "The group is not empty"
    GROUP_ID_NOT_FOUND = 69, "The group id does not exist"
    FETCH_SESSION_ID_NOT_FOUND = 70, "The fetch session ID was not found"
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session epoch is invalid"
    LISTENER_NOT_FOUND = 72, "No matching listener"
    TOPIC_DELETION_DISABLED = 73, "Topic deletion is disabled"
    FENCED_LEADER_EPOCH = 74, "Leader epoch is older than broker epoch"
    UNKNOWN_LEADER_EPOCH = 75, "Leader epoch is newer than broker epoch"
    UNSUPPORTED_COMPRESSION_TYPE = 76, "Unsupported compression type"
    STALE_BROKER_EPOCH = 77, "Broker epoch has changed"
    OFFSET_NOT_AVAILABLE = 78, "Leader high watermark is not caught up"
    MEMBER_ID_REQUIRED = 79, "Group member needs a valid member ID"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "Preferred leader was not available"
    GROUP_MAX_SIZE_REACHED = 81, "Consumer group has reached maximum size"
    FENCED_INSTANCE_ID = 82, "Static consumer fenced by other consumer with same group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "Eligible partition leaders are not available"
    ELECTION_NOT_NEEDED = 84, "Leader election not needed for topic partition"
    NO_REASSIGNMENT_IN_PROGRESS = 85, "No partition reassignment is in progress"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "Deleting offsets of a topic while the consumer group is subscribed to it"
    INVALID_RECORD = 87, "Broker failed to validate record"
    UNSTABLE_OFFSET_COMMIT = 88, "There are unstable offsets that need to be cleared"
    THROTTLING_QUOTA_EXCEEDED = 89, "Throttling quota has been exceeded"
    PRODUCER_FENCED = (
        90,
        "There is a newer producer with the same transactionalId which fences the current one",
    )
    RESOURCE_NOT_FOUND = 91, "Request illegally referred to resource that does not exist"
    DUPLICATE_RESOURCE = 92, "Request illegally referred to the same resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, "Requested credential would not meet criteria for acceptability"
    INCONSISTENT_VOTER_SET = (
        94,
        (
            "Indicates that the either the sender or recipient of a voter-only request is not one of "
            "the expected voters"
        ),
    )
    INVALID_UPDATE_VERSION = 95, "Invalid update version"
    FEATURE_UPDATE_FAILED = 96, "Unable to update finalized features due to server error"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "Request principal deserialization failed during forwarding"
    SNAPSHOT_NOT_FOUND = 98, "Requested snapshot was not found"
    POSITION_OUT_OF_RANGE = 99, "Requested position is not between zero and the size of the snapshot"
    UNKNOWN_TOPIC_ID = 100, "Unknown topic id"
    DUPLICATE_BROKER_REGISTRATION = 101, "This broker ID is already in use"
    BROKER_ID_NOT_REGISTERED = 102, "The given broker ID was not registered"
    INCONSISTENT_TOPIC_ID = 103, "The log's topic ID did not match the topic ID in the request"
    INCONSISTENT_CLUSTER_ID = 104, "The clusterId in the request does not match that found on the server"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "The transactionalId could not be found"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "The fetch session encountered inconsistent topic ID usage"
    INELIGIBLE_REPLICA = 107, "The new ISR contains at least one ineligible replica"
    NEW_LEADER_ELECTED = 108, "The partition has a new leader that was elected meanwhile"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The requested offset is moved to tiered storage"
    FENCED_MEMBER_EPOCH = 110, "The member epoch is fenced by the group coordinator"
    UNRELEASED_INSTANCE_ID = 111, "The instance ID is still used by another member in the consumer group"
    UNSUPPORTED_ASSIGNOR = 112, "The assignor or its version range is not supported by the consumer group"
    STALE_MEMBER_EPOCH = 113, "The member epoch is stale"
    MISMATCHED_ENDPOINT_TYPE = 114, "The request was sent to an endpoint of the wrong type"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "This endpoint type is not supported yet"
    UNKNOWN_CONTROLLER_ID = 116, "This controller ID is not known"
    UNKNOWN_SUBSCRIPTION_ID = (
        117,
        "Client sent a push telemetry request with an invalid or outdated subscription ID",
    )
    TELEMETRY_TOO_LARGE = (
        118,
        "Client sent a push telemetry request larger than the maximum size the broker will accept",
    )
    INVALID_REGISTRATION = 119, "The controller has considered the broker registration to be invalid"
    TRANSACTION_ABORTABLE = 120, "The server encountered an error with the transaction"
    INVALID_RECORD_STATE = 121, "The record state is invalid"
    SHARE_SESSION_NOT_FOUND = 122, "The share session was not found"
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session epoch is invalid"
    FENCED_STATE_EPOCH = 124, "The share-group state epoch did not match"
    INVALID_VOTER_KEY = 125, "The voter key doesn't match the receiving replica's key"
    DUPLICATE_VOTER = 126, "The voter is already part of the set of voters"
    VOTER_NOT_FOUND = 127, "The voter is not part of the set of voters"
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, "Client metadata is stale, client should rebootstrap to obtain new metadata"
    STREAMS_INVALID_TOPOLOGY = 130, "The supplied topology is invalid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The supplied topology epoch is invalid"
    STREAMS_TOPOLOGY_FENCED = 132, "The supplied topology epoch is outdated"
    SHARE_SESSION_LIMIT_REACHED = 133, "The limit of share sessions has been reached"


def describe_code(code: int) -> str:
    """Return the message of an error code, or the number of an unknown one."""
    if code not in _BY_NUMBER:
        return f"Broker: error {code}"
    message = _BY_NUMBER[code].message
    return f"Broker: {message}" if code > 0 else message


def name_code(code: int) -> str:
    """Return the name of an error code, or `ERROR_<number>` for an unknown one."""
    return _BY_NUMBER[code].name if code in _BY_NUMBER else f"ERROR_{code}"


_BY_NUMBER = {int(code): code for code in ErrorCode}

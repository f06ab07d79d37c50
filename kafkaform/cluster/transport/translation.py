"""Translating the error codes of brokers to kafkaform's errors."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafkaform.cluster.wire.error_codes import ErrorCode, describe_code, name_code
from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


_log = logging.getLogger(__name__)

_DENIED: Mapping[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional-id",
}
"""The type of the resource that an account has no right on, by error code."""
_AUTHENTICATION = frozenset(
    {ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE}
)

MISSING = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PART,
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_EXCEPTION,
    }
)
"""The codes of a resource that does not exist, is unknown to the broker yet, or has an invalid name."""

MOVING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name,
        ErrorCode.COORDINATOR_NOT_AVAILABLE.name,
        ErrorCode.NOT_COORDINATOR.name,
    }
)
"""The names of the codes of a coordinator that is moving or starting; a retry helps."""

UNSETTLED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PART,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_FOR_PARTITION,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        # A new leader does not know its high watermark yet (KIP-207).
        ErrorCode.OFFSET_NOT_AVAILABLE,
        # The leader's disk has failed: the controller makes another replica the leader (KIP-112).
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""The codes of a partition whose topic or leader is new; a retry helps.

Metadata shows a new topic before its brokers have opened the logs: until then, a leader has an older epoch
than the request (KIP-320). NETWORK_EXCEPTION, which no broker sends, stands for a leader that does not
answer.
"""

_HINTS: Mapping[int, str] = {
    ErrorCode.NON_EMPTY_GROUP: "stop the members of the group first",
    ErrorCode.NOT_CONTROLLER: "a controller election is under way: run it again",
    ErrorCode.POLICY_VIOLATION: "a policy on the brokers refuses it; ask who runs the cluster",
    ErrorCode.UNSUPPORTED_VERSION: "the brokers are too old for this request",
}


def translate_code(code: int, text: str) -> ClusterError:
    """Return the error for a code of Kafka's protocol and the broker's message, if any."""
    name, text = name_code(code), one_line(text) or describe_code(code)
    if (resource := _DENIED.get(code)) is not None:
        # The message may be a request as Java prints it, 600 characters long; `name_right` names the right.
        _log.debug("%s, in the broker's words: %s", name, text)
        return PermissionDenied(
            f"this account is not authorised: {describe_code(code).removeprefix('Broker: ')}",
            resource=resource,
        )
    if code in _AUTHENTICATION:
        return AuthenticationFailed(
            text, hint="check the credentials and the TLS settings of the client properties"
        )
    if code == ErrorCode.NETWORK_EXCEPTION:
        return Unreachable(text)
    # The broker gave up waiting for the controller, which may carry out the request all the same.
    if code == ErrorCode.REQUEST_TIMED_OUT:
        return OutcomeUnknown(f"no answer in time: {text}")
    return RequestRejected(f"{text} ({name})", code=name, hint=_HINTS.get(code))


def one_line(text: str) -> str:
    """Return a text without line breaks and null characters."""
    return " ".join(text.replace("\0", " ").split())


def translate_response(response: Mapping[str, Any]) -> ClusterError:
    """Return the error for the code and message of a response, or of a part of it."""
    return translate_code(response["error_code"], response.get("error_message") or "")

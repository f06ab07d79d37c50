"""From the errors of the Kafka clients to kafkaform's own, at the edge."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    NotOffered,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_log = logging.getLogger(__name__)

_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional-id",
}
"""By error code, the type of the resource that an account has no right on."""
_AUTHENTICATION = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_UNREACHABLE = frozenset({KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._ALL_BROKERS_DOWN})
_NO_ANSWER = frozenset({KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT})

_LOST = "without setting an exception"
"""Python's words for C code that has failed and does not say why."""

MISSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.RESOURCE_NOT_FOUND,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.TOPIC_EXCEPTION,
    }
)
"""Codes by which a broker says that a resource does not exist, as far as it knows yet, or cannot exist."""

MOVING = frozenset(
    KafkaError(code).name()
    for code in (
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    )
)
"""The names of codes that a group's coordinator gives while it moves or starts: ask again."""

UNSETTLED = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._NOENT,  # none of the partitions has a leader
        KafkaError._TIMED_OUT,
    }
)
"""Codes that a partition gives while its topic is new, or its leader is: ask again.

Metadata shows a new topic before its brokers have opened the logs: a leader that is asked in between knows an
older epoch than the one in the request (KIP-320).
"""

_HINTS = {
    KafkaError.NON_EMPTY_GROUP: "stop the members of the group first",
    KafkaError.NOT_CONTROLLER: "a controller election is under way: run it again",
    KafkaError.POLICY_VIOLATION: "a policy on the brokers refuses it; ask who runs the cluster",
    KafkaError.UNSUPPORTED_VERSION: "the brokers are too old for this request",
}


def kafka_error(exception: BaseException) -> KafkaError | None:
    """The librdkafka error in an exception, if it has one."""
    if isinstance(exception, KafkaException) and exception.args and isinstance(exception.args[0], KafkaError):
        return exception.args[0]
    return None


def translate(exception: BaseException) -> ClusterError:
    """The kafkaform error for an exception of a Kafka client; the broker's words in one line."""
    error = kafka_error(exception)
    if error is None:
        return ClusterError(f"the Kafka client failed: {one_line(str(exception))}")
    return translate_error(error)


def translate_error(error: KafkaError) -> ClusterError:
    """The kafkaform error for a librdkafka error."""
    code, text = error.code(), one_line(error.str())
    if (resource := _DENIED.get(code)) is not None:
        # A broker may quote the request as Java prints it, 600 characters long: `name_right` says more.
        _log.debug("%s, in the broker's words: %s", error.name(), text)
        return PermissionDenied(
            f"this account is not authorised: {KafkaError(code).str().removeprefix('Broker: ')}",
            resource=resource,
        )
    if code in _AUTHENTICATION:
        return AuthenticationFailed(
            text, hint="check the credentials and the TLS settings of the client properties"
        )
    if code == KafkaError._UNSUPPORTED_FEATURE:
        return NotOffered("this request", f"({text})")
    if code in _UNREACHABLE:
        return Unreachable(text)
    if code in _NO_ANSWER:
        return OutcomeUnknown(f"no answer in time: {text}")
    return RequestRejected(f"{text} ({error.name()})", code=error.name(), hint=_HINTS.get(code))


def translate_code(code: int, text: str) -> ClusterError:
    """The kafkaform error for a code of Kafka's protocol, and the words that came with it."""
    return translate_error(KafkaError(code, text or None))


def one_line(text: str) -> str:
    """A text without line breaks, and without the null characters that librdkafka takes for its end."""
    return " ".join(text.replace("\0", " ").split())


_CLIENT_STATE = re.compile(r" \(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)")


def connection_failure(text: str) -> str:
    """The reason of librdkafka why there is no connection, without the state of its client."""
    return _CLIENT_STATE.sub("", one_line(text))


def refusal(answer: Mapping[str, Any]) -> ClusterError:
    """The error that an answer, or a part of it, has the code of."""
    return translate_code(answer["error_code"], one_line(answer.get("error_message") or ""))


@contextmanager
def signals_kept() -> Iterator[None]:
    """Let what a signal handler raises out of the C code of librdkafka's client as it was raised.

    Before Python 3.12 that code loses an exception that has no value yet, and says only that one is missing.
    It is that of a Ctrl-C: Python's own handler raises it so, every other one makes an object first.
    """
    try:
        yield
    except SystemError as error:
        if error.__cause__ is not None:
            raise error.__cause__ from None
        if _LOST not in str(error):
            raise
        raise KeyboardInterrupt from error

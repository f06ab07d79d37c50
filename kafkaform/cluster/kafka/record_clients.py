"""Making librdkafka clients, which read and write records, and translating their errors.

librdkafka logs about twenty lines a second while a broker is down; they go to the logger
`kafkaform.librdkafka`.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from kafkaform.cluster.transport.translation import one_line, translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    KafkaformError,
    NotOffered,
    OutcomeUnknown,
    RequestRejected,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkaform.cluster.transport.connection import Connection


T = TypeVar("T")

_RECONNECT_BACKOFF_MS = 20
"""How long librdkafka waits after the first failure to connect; the wait grows with each.

A client also waits half of this before it connects to a second broker: 50 ms with the default of 100 ms.
"""
_OIDC = ("sasl.oauthbearer.", "https.ca.")
"""The prefixes of the properties by which librdkafka itself would get tokens."""
_AUTHENTICATION = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
_UNREACHABLE = frozenset({KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._ALL_BROKERS_DOWN})
_TIMEOUT_CODES = frozenset({KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE})
_LOST = "without setting an exception"
"""Part of Python's message for C code that has failed without setting an exception."""


def make_client(
    connection: Connection, kind: Callable[[dict[str, Any]], T], options: Mapping[str, object]
) -> T:
    """Make a librdkafka client for a cluster.

    Args:
        kind: The class, such as Consumer.
        options: Options in addition to those of all clients of this cluster.

    Raises:
        AuthenticationFailed: There is no token to log in with.
        KafkaformError: A property is not accepted.
    """
    try:
        return kind({**make_client_options(connection), **options})
    except KafkaException as error:
        reason = get_kafka_error(error)
        # A client that gets no token within 10 s fails when it is made, not when it connects.
        if reason is not None and reason.code() == KafkaError.SASL_AUTHENTICATION_FAILED:
            raise translate(error) from error  # no token came within 10 s
        detail = one_line(reason.str() if reason else str(error))
        raise KafkaformError(f"the client properties are not accepted: {detail}") from error


def make_client_options(connection: Connection) -> dict[str, Any]:
    """Return the options of every librdkafka client of a cluster, which shares our source of tokens.

    Raises:
        AuthenticationFailed: There is no token to log in with.
    """
    properties, tokens = connection.properties, {}
    if connection.tokens is not None:
        from kafkaform.cluster.transport.tokens import make_librdkafka_options

        tokens = make_librdkafka_options(connection.tokens)
        properties = {name: value for name, value in properties.items() if not name.startswith(_OIDC)}
    return {
        # The order is that of precedence: the user's properties replace these, and nothing replaces tokens
        # and logger.
        "client.id": "kafkaform",
        "reconnect.backoff.ms": _RECONNECT_BACKOFF_MS,
        **properties,
        **tokens,
        "logger": logging.getLogger("kafkaform.librdkafka"),
        # Brokers close idle connections (connections.max.idle.ms): that is no event to log.
        "log.connection.close": False,
    }


def get_kafka_error(exception: BaseException) -> KafkaError | None:
    """Return the librdkafka error in an exception, if it has one."""
    if isinstance(exception, KafkaException) and exception.args and isinstance(exception.args[0], KafkaError):
        return exception.args[0]
    return None


def translate(exception: BaseException) -> ClusterError:
    """Return the kafkaform error for an exception of a librdkafka client."""
    error = get_kafka_error(exception)
    if error is None:
        return ClusterError(f"the Kafka client failed: {one_line(str(exception))}")
    return translate_error(error)


def translate_error(error: KafkaError) -> ClusterError:
    """Return the kafkaform error for a librdkafka error, a broker's or the client's own."""
    code, text = error.code(), one_line(error.str())
    if code in _AUTHENTICATION:
        return AuthenticationFailed(
            text, hint="check the credentials and the TLS settings of the client properties"
        )
    if code == KafkaError._UNSUPPORTED_FEATURE:
        return NotOffered("this request", f"({text})")
    if code in _UNREACHABLE:
        return Unreachable(text)
    if code in _TIMEOUT_CODES:
        return OutcomeUnknown(f"no answer in time: {text}")
    if code < ErrorCode.UNKNOWN:  # one of the client's own
        return RequestRejected(f"{text} ({error.name()})", code=error.name())
    return translate_code(code, text)


@contextmanager
def restore_signals() -> Iterator[None]:
    """Raise the exceptions of signal handlers that confluent-kafka's C code turns into SystemError.

    Before Python 3.12 that code loses an exception without a value, and reports only that one is missing.
    That is Ctrl-C's: Python's own handler raises the class, all other handlers an instance.
    """
    try:
        yield
    except SystemError as error:
        if error.__cause__ is not None:
            raise error.__cause__ from None
        if _LOST not in str(error):
            raise
        raise KeyboardInterrupt from error

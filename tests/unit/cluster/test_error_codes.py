"""The table of error codes, and the errors that codes mean."""

import pytest
from confluent_kafka import KafkaError

from kafkaform.cluster.transport.translation import translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode, describe_code, name_code
from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
    Unreachable,
)


def test_error_codes_match_librdkafka() -> None:
    # Names and messages are those that librdkafka shows.
    for code in ErrorCode:
        theirs = KafkaError(code)
        if theirs.name() == f"ERR_{code}?":
            continue  # one that librdkafka does not know
        assert name_code(code) == theirs.name()
        if code > 0:
            assert describe_code(code) == theirs.str()
    assert [*map(int, ErrorCode)] == [*range(-1, 134)]
    assert len({code.name for code in ErrorCode}) == len(ErrorCode)
    error = translate_code(9_999, "")
    assert isinstance(error, RequestRejected)
    assert (error.code, error.message) == ("ERROR_9999", "Broker: error 9999 (ERROR_9999)")
    # The words of a broker stand in one line before the name.
    error = translate_code(ErrorCode.INVALID_CONFIG, "this\nis\0wrong")
    assert error.message == "this is wrong (INVALID_CONFIG)"
    assert translate_code(ErrorCode.INVALID_CONFIG, "").message == (
        "Broker: Configuration is invalid (INVALID_CONFIG)"
    )


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, PermissionDenied),
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, AuthenticationFailed),
        (ErrorCode.NETWORK_EXCEPTION, Unreachable),
        (ErrorCode.REQUEST_TIMED_OUT, OutcomeUnknown),
        (ErrorCode.INVALID_CONFIG, RequestRejected),
    ],
)
def test_error_codes_have_exception_types(code: int, kind: type[ClusterError]) -> None:
    assert type(translate_code(code, "")) is kind

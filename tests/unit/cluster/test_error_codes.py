"""The table of error codes, and the errors that codes mean."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from kafkaform.cluster.kafka.record_clients import make_client, make_client_options, translate
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.transport.translation import translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode, describe_code, name_code
from kafkaform.config.client_properties.transport import TransportSettings
from kafkaform.core import errors


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
    assert isinstance(error, errors.RequestRejected)
    assert (error.code, error.message) == ("ERROR_9999", "Broker: error 9999 (ERROR_9999)")
    # The words of a broker stand in one line before the name.
    error = translate_code(ErrorCode.INVALID_CONFIG, "this\nis\0wrong")
    assert error.message == "this is wrong (INVALID_CONFIG)"
    assert translate_code(ErrorCode.INVALID_CONFIG, "").message == (
        "Broker: Configuration is invalid (INVALID_CONFIG)"
    )


NOBODY = TransportSettings(())


def test_reconnect_backoff_is_short_by_default() -> None:
    assert make_client_options(Connection({}, lambda: NOBODY))["reconnect.backoff.ms"] == 20
    own = Connection({"reconnect.backoff.ms": 500}, lambda: NOBODY)
    assert make_client_options(own)["reconnect.backoff.ms"] == 500


def test_client_errors_are_translated_with_names() -> None:
    # What our own connections cannot do is refused for all clients.
    def refuse() -> TransportSettings:
        raise errors.KafkaformError("this login is not possible")

    with pytest.raises(errors.KafkaformError, match="this login is not possible"):
        make_client(Connection({}, refuse), Producer, {})
    # A client that cannot be made says why.
    with pytest.raises(errors.KafkaformError, match=r"no\.such\.thing"):
        make_client(Connection({"no.such.thing": "x"}, lambda: NOBODY), Producer, {})

    def tokenless(_: object) -> None:
        raise KafkaException(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED, "OAuth token not set"))

    with pytest.raises(errors.AuthenticationFailed, match="OAuth token not set"):
        make_client(Connection({}, lambda: NOBODY), tokenless, {})
    # Other errors have their name.
    own = translate(KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT)))
    assert isinstance(own, errors.RequestRejected)
    assert (own.code, own.message) == ("_MSG_TIMED_OUT", "Local: Message timed out (_MSG_TIMED_OUT)")
    brokers = translate(KafkaException(KafkaError(KafkaError.INVALID_RECORD, "line 1\nline 2")))
    assert isinstance(brokers, errors.RequestRejected)
    assert (brokers.code, brokers.message) == ("INVALID_RECORD", "line 1 line 2 (INVALID_RECORD)")
    assert translate(ValueError("x")).message == "the Kafka client failed: x"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, errors.PermissionDenied),
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, errors.AuthenticationFailed),
        (ErrorCode.NETWORK_EXCEPTION, errors.Unreachable),
        (ErrorCode.REQUEST_TIMED_OUT, errors.OutcomeUnknown),
        (ErrorCode.INVALID_CONFIG, errors.RequestRejected),
        # The same for those of librdkafka.
        (KafkaError(KafkaError._AUTHENTICATION), errors.AuthenticationFailed),
        (KafkaError(KafkaError._SSL), errors.AuthenticationFailed),
        (KafkaError(KafkaError._UNSUPPORTED_FEATURE), errors.NotOffered),
        (KafkaError(KafkaError._ALL_BROKERS_DOWN), errors.Unreachable),
        (KafkaError(KafkaError._TIMED_OUT), errors.OutcomeUnknown),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), errors.PermissionDenied),
    ],
)
def test_error_has_exception_type(code: ErrorCode | KafkaError, kind: type[errors.ClusterError]) -> None:
    error = translate_code(code, "") if isinstance(code, ErrorCode) else translate(KafkaException(code))
    assert type(error) is kind

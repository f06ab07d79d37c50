"""Tests of exceptions that a signal handler raises while librdkafka's client is at work."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from kafkaform.cluster.kafka.audit_topic import AuditTopic
from kafkaform.cluster.kafka.record_clients import restore_signals
from kafkaform.cluster.transport.connection import Connection
from kafkaform.config.client_properties.transport import TransportSettings

NOBODY: dict[str, object] = {"bootstrap.servers": "127.0.0.1:1"}


class TimeIsUpError(BaseException):
    """As that of pytest-timeout, which is no Exception either."""


def time_is_up(*_: object) -> None:
    raise TimeIsUpError


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """One to nobody, which gets a SIGINT when librdkafka first says so, in the midst of its callback."""
    sent: list[None] = []

    def log(*_: object) -> None:  # no `try` on the way, which would give the exception its value
        # Clients of earlier tests may still log, in threads of theirs: a signal would then come at any time.
        if not sent and threading.current_thread() is threading.main_thread():
            sent.append(None)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(AuditTopic, "_exists", lambda _: True)
    made = Connection(NOBODY, lambda: TransportSettings(()))
    monkeypatch.setattr(logging.getLogger("kafkaform.librdkafka"), "log", log)
    before = signal.getsignal(signal.SIGINT)
    yield made
    signal.signal(signal.SIGINT, before)
    made.close()
    assert sent


@pytest.mark.parametrize(
    ("handler", "raised"), [(signal.default_int_handler, KeyboardInterrupt), (time_is_up, TimeIsUpError)]
)
def test_signal_handler_exception_is_raised(
    connection: Connection, handler: Callable[..., object], raised: type[BaseException]
) -> None:
    signal.signal(signal.SIGINT, handler)
    with pytest.raises(raised):
        AuditTopic(connection).append(['{"record": "throttle", "id": "a.1"}'])


def test_cause_of_an_interrupted_client_is_reported() -> None:
    cause = TimeIsUpError()
    with pytest.raises(TimeIsUpError) as caught, restore_signals():
        raise SystemError("poll returned a result with an exception set") from cause
    assert caught.value is cause
    with pytest.raises(SystemError, match="bad argument"), restore_signals():
        raise SystemError("bad argument to internal function")

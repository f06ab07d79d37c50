"""What a signal handler raises while librdkafka's client is at work."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from kafkaform.cluster.kafka import lock_membership
from kafkaform.cluster.kafka.audit_topic import AuditTopic
from kafkaform.cluster.kafka.lock_membership import ConsumerMembership
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.transport.translation import signals_kept
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

    monkeypatch.setattr(lock_membership, "GIVE_UP_S", 0.1)
    monkeypatch.setattr(AuditTopic, "_exists", lambda _: True)
    made = Connection(NOBODY, lambda: TransportSettings(()))
    monkeypatch.setattr(logging.getLogger("kafkaform.librdkafka"), "log", log)
    before = signal.getsignal(signal.SIGINT)
    yield made
    signal.signal(signal.SIGINT, before)
    made.close()
    assert sent


@pytest.mark.parametrize(
    "ask",
    [
        lambda connection: connection.cluster,
        lambda connection: ConsumerMembership(connection, "a").join(""),
        lambda connection: AuditTopic(connection).append(['{"record": "throttle", "id": "a.1"}']),
    ],
    ids=["facts", "lock", "record"],
)
@pytest.mark.parametrize(
    ("handler", "raised"), [(signal.default_int_handler, KeyboardInterrupt), (time_is_up, TimeIsUpError)]
)
def test_a_call_ends_with_what_the_handler_raises(
    connection: Connection,
    ask: Callable[[Connection], object],
    handler: Callable[..., object],
    raised: type[BaseException],
) -> None:
    signal.signal(signal.SIGINT, handler)
    with pytest.raises(raised):
        ask(connection)


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
def test_any_call_of_the_admin_client_does(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def described(_client: object, *_: object, **__: object) -> None:
        raise SystemError("describe_topics returned a result with an exception set") from TimeIsUpError()

    monkeypatch.setattr(AdminClient, "describe_topics", described)
    monkeypatch.setattr(logging.getLogger("kafkaform.cluster.transport.connection"), "level", level)
    made = Connection(NOBODY, lambda: TransportSettings(()))
    with pytest.raises(TimeIsUpError):
        made.admin.describe_topics(TopicCollection(["a"]))
    made.close()


def test_the_cause_is_told_and_not_that_there_is_one() -> None:
    cause = TimeIsUpError()
    with pytest.raises(TimeIsUpError) as caught, signals_kept():
        raise SystemError("poll returned a result with an exception set") from cause
    assert caught.value is cause


def test_other_troubles_of_the_client_are_no_ctrl_c() -> None:
    with pytest.raises(SystemError, match="bad argument"), signals_kept():
        raise SystemError("bad argument to internal function")

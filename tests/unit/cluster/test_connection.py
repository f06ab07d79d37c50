"""Properties that are worked out once for each object, and how a cluster is reached."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from threading import Barrier, Event, Thread

import pytest

from kafkaform.cluster.kafka.audit_topic import AuditTopic
from kafkaform.cluster.kafka.record_clients import restore_signals
from kafkaform.cluster.transport.brokers import Brokers
from kafkaform.cluster.transport.connection import Connection, locked_property
from kafkaform.config.client_properties.transport import TransportSettings
from kafkaform.core.errors import AuthenticationFailed, ClusterError, MalformedResponse, NotOffered


class Worker:
    def __init__(self) -> None:
        self.begun = Event()
        self.allowed = Event()
        self.times = 0

    @locked_property
    def slow(self) -> int:
        """Let the time of a call pass."""
        self.begun.set()
        assert self.allowed.wait(60)
        self.times += 1
        return self.times

    @locked_property
    def below(self) -> str:
        return f"{self.slow} below"

    @locked_property
    def quick(self) -> str:
        return "quick"

    @locked_property
    def failing(self) -> int:
        self.times += 1
        raise ValueError(self.times)


def test_threads_share_one_result() -> None:
    worker, together, seen = Worker(), Barrier(8), []

    def read() -> None:
        together.wait(60)
        seen.append(worker.below)

    threads = [Thread(target=read, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert worker.begun.wait(60)
    # Neither another property waits for this one, nor another object.
    second = Worker()
    second.allowed.set()
    assert (worker.quick, second.slow, worker.times) == ("quick", 1, 0)
    for number in (2, 3):  # a failure is not kept
        with pytest.raises(ValueError, match=str(number)):
            _ = second.failing
    time.sleep(0.05)
    worker.allowed.set()
    for thread in threads:
        thread.join(60)
    assert seen == ["1 below"] * 8
    assert (worker.slow, Worker.slow.__doc__) == (1, "Let the time of a call pass.")


def test_starting_brokers_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed port refuses at once: that is no reason to give up before the time is over."""
    monkeypatch.setattr("kafkaform.cluster.transport.connection._PAUSE_S", 0.0)
    refusals = [ClusterError("refused")] * 3

    def read_api_versions(_: Brokers, _node: int | None = None) -> dict[int, tuple[int, int]]:
        if refusals:
            raise refusals.pop()
        return {3: (0, 12)}

    monkeypatch.setattr(Brokers, "read_api_versions", read_api_versions)
    messages: list[str] = []
    assert Connection({}, lambda: TransportSettings(()), messages.append).read_api_versions() == {3: (0, 12)}
    assert not refusals
    assert not messages


def test_wait_for_a_cluster_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaform.cluster.transport.connection._SILENT_S", 0.0)
    messages: list[str] = []
    waited = Event()

    def tell(line: str) -> None:
        messages.append(line)
        waited.set()

    def read_api_versions(_: Brokers, _node: int | None = None) -> dict[int, tuple[int, int]]:
        assert waited.wait(60)
        return {}

    monkeypatch.setattr(Brokers, "read_api_versions", read_api_versions)
    Connection({"bootstrap.servers": "a:9092"}, lambda: TransportSettings(()), tell).read_api_versions()
    (line,) = messages
    assert line.startswith("waiting for a:9092 ")


@pytest.mark.parametrize(
    "error", [AuthenticationFailed("no"), NotOffered("Metadata"), MalformedResponse("no")]
)
def test_broker_refusal_is_not_retried(error: ClusterError, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, asked = TransportSettings(()), []

    def read_api_versions(brokers: Brokers, _node: int | None = None) -> dict[int, tuple[int, int]]:
        # Threads of earlier tests may still connect, with other settings.
        asked.extend([error] if brokers._settings is settings else [])
        raise error

    monkeypatch.setattr(Brokers, "read_api_versions", read_api_versions)
    with pytest.raises(type(error)):
        Connection({}, lambda: settings).read_api_versions()
    assert asked == [error]


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

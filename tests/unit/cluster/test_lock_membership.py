"""What the coordinator of the lock answers, and what becomes of it; librdkafka's consumer is played."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from kafkaform.cluster.kafka import lock_membership
from kafkaform.cluster.kafka.lock_membership import ConsumerMembership
from kafkaform.cluster.transport.connection import Connection
from kafkaform.config.client_properties.transport import TransportSettings
from kafkaform.core.errors import LockLost, PermissionDenied
from kafkaform.core.lock import NAME

NOBODY: dict[str, object] = {"bootstrap.servers": "127.0.0.1:1"}


class Refusal:
    """A message that is an error."""

    def __init__(self, error: KafkaError) -> None:
        self.error = lambda: error


class Played:
    """A consumer that is let in, or refused, and whose commits are answered one after the other."""

    refused: KafkaError | None = None

    def __init__(self, properties: dict[str, Any]) -> None:
        self.on_commit: Callable[..., None] = properties["on_commit"]
        self.codes: Iterator[int] = iter(())  # of the next answers; afterwards, all is well
        self.due: Callable[[], None] | None = None

    def subscribe(self, topics: list[str], on_assign: Callable[..., None], **_: object) -> None:
        assert topics == [NAME]
        if self.refused is None:
            self.due = lambda: on_assign(self, [TopicPartition(NAME, 0)])

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert asynchronous
        code = next(self.codes, None)
        self.due = lambda: self.on_commit(None if code is None else KafkaError(code), offsets)

    def poll(self, _: float) -> Refusal | None:
        if self.refused is not None:
            return Refusal(self.refused)
        due, self.due = self.due, None
        if due is not None:
            due()
        return None

    def close(self) -> None: ...

    incremental_assign = pause = staticmethod(lambda _: None)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_membership, "Consumer", Played)
    monkeypatch.setattr(lock_membership, "_PAUSE_S", 0.0)


def membership() -> tuple[ConsumerMembership, Played]:
    made = ConsumerMembership(Connection(NOBODY, lambda: TransportSettings(())), "me")
    played: Any = made._consumer
    return made, played


def refused(monkeypatch: pytest.MonkeyPatch, error: KafkaError) -> bool:
    monkeypatch.setattr(Played, "refused", error)
    return membership()[0].join("hello")


def fatal(code: int) -> KafkaError:
    """As librdkafka tells that it gives up: with a code of its own, and its words for the true one."""
    return KafkaError(KafkaError._FATAL, f"Fatal consumer error: {KafkaError(code).str()}")


def test_who_is_let_in_is_the_member() -> None:
    made, _ = membership()
    assert made.join("hello")
    made.prove()


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError._TRANSPORT,
    ],
)
def test_a_coordinator_that_moves_is_asked_again(code: int) -> None:
    made, played = membership()
    assert made.join("hello")
    played.codes = iter([code] * 3)
    made.prove()
    assert [*played.codes] == []


@pytest.mark.parametrize("code", [KafkaError.FENCED_INSTANCE_ID, KafkaError.UNKNOWN_MEMBER_ID])
def test_who_is_not_the_member_any_more_has_lost_it_for_good(code: int) -> None:
    made, played = membership()
    assert made.join("hello")
    played.codes = iter([code])
    for _ in range(2):
        with pytest.raises(LockLost, match=KafkaError(code).name()):
            made.prove()


def test_a_coordinator_that_never_answers_loses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = membership()
    assert made.join("hello")
    monkeypatch.setattr(lock_membership, "PROOF_TIMEOUT_S", 0.0)
    with pytest.raises(LockLost, match="the coordinator of the lock does not respond"):
        made.prove()


@pytest.mark.parametrize("code", [KafkaError.UNRELEASED_INSTANCE_ID, KafkaError.GROUP_ID_NOT_FOUND])
def test_somebody_else_is_the_member(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Of this protocol, or of the classic one."""
    assert not refused(monkeypatch, fatal(code))


def test_the_rights_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PermissionDenied, match="may not use the lock") as caught:
        refused(monkeypatch, KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert caught.value.hint is not None
    assert f"grant Read on the topic and on the group {NAME}" in caught.value.hint

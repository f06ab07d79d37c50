"""Membership in the group that is the lock, and proof of it; by the consumer protocol (KIP-848) here.

The proof is a commit of an offset, which the coordinator takes from the member only: one that has lost its
membership while it was frozen is told so (UNKNOWN_MEMBER_ID), before it sends anything else.

A group of the consumer protocol refuses a second member of the same `group.instance.id`
(UNRELEASED_INSTANCE_ID) for as long as the session of the first one lasts: tried, a real mutex.

What librdkafka does after a fencing is decisive, and was read in its source and tried: it takes the partition
away first, by a callback that only `poll` serves, and joins anew only after that. So a proof, which polls,
sees the callback before any commit of the new membership can succeed.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from threading import Thread
from typing import TYPE_CHECKING

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from kafkaform.cluster.transport.translation import (
    kafka_error,
    one_line,
    signals_kept,
    translate,
    translate_error,
)
from kafkaform.core import lock
from kafkaform.core.errors import PermissionDenied, Unreachable
from kafkaform.core.lock import NAME, WITHOUT
from kafkaform.core.rights import Right

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.errors import ClusterError


_log = logging.getLogger(__name__)

INSTANCE_ID = "apply"
"""The one `group.instance.id`, which the holder has and everybody else wants."""
JOIN_TIMEOUT_S = 30.0
"""The time that the coordinator may take to let us in, or to refuse us."""
GIVE_UP_S = 5.0
"""The time that leaving may take, and on Ctrl-C the answer to a join before it."""
PROOF_TIMEOUT_S = 30.0
"""The time that a coordinator may be on the move, or its broker restart, before the lock counts as lost."""
FRESH_S = 5.0
"""The age that a proof may have: one that took longer, as by a frozen process, is made again."""

_LONGEST_PAUSE_MS = 86_400_000
"""librdkafka leaves a group if it is not polled for so long: its maximum, as only a proof polls."""
_POLL_S = 0.002
_PAUSE_S = 0.1
_DENIED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})
TAKEN = frozenset(
    {
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError._FATAL,
    }
)
"""The errors of a commit by somebody who is no member any more."""
AGAIN = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
    }
)
"""The errors of a commit that say nothing about the membership."""
_HELD = (KafkaError.UNRELEASED_INSTANCE_ID, KafkaError.GROUP_ID_NOT_FOUND)
"""The errors of a join while there is a member: by this protocol, or by the classic one (lock_classic.py)."""


class Membership(ABC):
    """One attempt to become the member, and to stay it."""

    def __init__(self) -> None:
        self._lost: str | None = None
        self._introduction = ""
        self._leaving = Thread(target=self._leave, name="kafkaform-leave", daemon=True)

    def join(self, introduction: str) -> bool:
        """Become the member, and leave an introduction for who waits; False if somebody else is the member.

        Raises:
            ClusterError: The brokers cannot or will not let this account in.
        """
        self._introduction = introduction
        joined = False
        begun = time.monotonic()
        try:
            joined = self._join()
            _log.debug("lock: %s after %d ms", "acquired" if joined else "held by another", _ms_since(begun))
        finally:
            if not joined:
                self.leave()
        return joined

    def prove(self) -> None:
        """Raise LockLost unless the coordinator confirms, right now, that this is the member still."""
        if self._lost is None:
            begun = time.monotonic()
            try:
                error = self._confirm()
            except BaseException:
                self._lost = "the proof was broken off"  # its answer may come later, and prove nothing then
                raise
            if error is not None and self._lost is None:
                self._lost = _why(error)
            _log.debug("lock: %s after %d ms", self._lost or "proven", _ms_since(begun))
        if self._lost is not None:
            self.leave()  # or the client joins again, and keeps the lock from others
            raise lock.lost(self._lost)

    def leave(self) -> None:
        """Give the lock back, if it is held, at once; does nothing the second time.

        Where no coordinator answers any more, a client would wait for as long as a session.
        """
        self._lost = self._lost or "it was given back"
        if not self._left:
            begun = time.monotonic()
            self._leaving.start()
            self._leaving.join(GIVE_UP_S)
            _log.debug("lock: left after %d ms", _ms_since(begun))

    @property
    def _left(self) -> bool:
        """Whether leaving has begun: a flag set before would leave nobody, if Ctrl-C came in between."""
        return self._leaving.ident is not None

    def _confirm(self) -> KafkaError | None:
        """Commit, which only the member can; returns why it cannot.

        An answer that was long on its way, as when this process was frozen meanwhile, is asked for again.
        """
        deadline = time.monotonic() + PROOF_TIMEOUT_S
        while True:
            asked = time.monotonic()
            error = self._commit(deadline)
            now = time.monotonic()
            if self._lost is not None or (error is None and now - asked < FRESH_S):
                return error
            if error is not None and error.code() not in AGAIN:
                return error
            if now > deadline:
                return error or KafkaError(KafkaError._TIMED_OUT, "the response came too late")
            if error is not None:
                time.sleep(_PAUSE_S)

    @abstractmethod
    def _join(self) -> bool:
        """See `join`."""

    @abstractmethod
    def _commit(self, deadline: float) -> KafkaError | None:
        """Commit once, with the introduction; returns why that failed."""

    @abstractmethod
    def _leave(self) -> None:
        """Leave the group, and close the client."""


class ConsumerMembership(Membership):
    """The membership of the consumer protocol, by librdkafka.

    Args:
        connection: The cluster.
        client_id: What tells this attempt from every other.
    """

    def __init__(self, connection: Connection, client_id: str) -> None:
        super().__init__()
        self._assigned = False
        self._refused: KafkaError | None = None
        self._error: KafkaError | None = None
        self._asked = False
        self._answer: KafkaError | None = None
        self._consumer = connection.client(
            Consumer,
            {
                "client.id": client_id,
                "group.id": NAME,
                "group.protocol": "consumer",
                "group.instance.id": INSTANCE_ID,
                "enable.auto.commit": False,
                "max.poll.interval.ms": _LONGEST_PAUSE_MS,
                "error_cb": self._on_error,
                "on_commit": self._on_commit,
            },
        )

    def _join(self) -> bool:
        try:
            self._consumer.subscribe(
                [NAME], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
            )
            self._await_answer(time.monotonic() + JOIN_TIMEOUT_S)
        except KeyboardInterrupt:
            # Whoever leaves before the answer is made a member all the same: nobody would have the lock.
            self._await_answer(time.monotonic() + GIVE_UP_S)
            raise
        if self._refused is not None:
            if any(_is(self._refused, code) for code in _HELD):
                return False
            raise refusal(self._refused)
        if not self._assigned:
            raise silence(self._error.str() if self._error is not None else "")
        # An assignment may be old when it is seen, as when this process was frozen after the coordinator had
        # answered: the first proof tells, and leaves the introduction for who waits.
        error = self._confirm()
        if error is not None and error.code() not in TAKEN:
            raise refusal(error)
        return error is None and self._lost is None

    def _await_answer(self, deadline: float) -> None:
        """Wait until the coordinator has let us in, or has refused."""
        while not self._assigned and self._refused is None and time.monotonic() < deadline:
            self._poll()

    def _commit(self, deadline: float) -> KafkaError | None:
        place = TopicPartition(NAME, 0, 0, metadata=self._introduction)
        self._asked, self._answer = True, None
        try:
            self._consumer.commit(offsets=[place], asynchronous=True)  # or Ctrl-C would have to wait for it
        except KafkaException as exception:
            self._asked = False
            error = kafka_error(exception)
            if error is None:
                raise translate(exception) from exception
            return error
        while self._asked:
            if time.monotonic() > deadline:
                return KafkaError(KafkaError._TIMED_OUT, "the coordinator of the lock does not respond")
            self._poll()
        return self._answer

    def _poll(self) -> None:
        """Let librdkafka call back; nothing is ever read."""
        with signals_kept():
            message = self._consumer.poll(_POLL_S)
        error = message.error() if message is not None else None
        if error is not None:
            self._on_error(error)

    def _on_assign(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if self._assigned:
            # Joined a second time: in between, somebody else may have held the lock and changed the cluster.
            self._lost = self._lost or "the group was formed anew"
        if partitions:
            consumer.incremental_assign([TopicPartition(p.topic, p.partition, 0) for p in partitions])
            consumer.pause(list(partitions))  # the topic is never read: no fetch is to be sent for it
            self._assigned = True

    def _on_revoke(self, consumer: Consumer, _partitions: Sequence[TopicPartition]) -> None:
        self._lost = self._lost or "its session ended, or it was taken away"
        if self._left:
            return
        try:
            consumer.unsubscribe()  # or librdkafka joins anew, and nobody else can have the lock
        except KafkaException as exception:
            self._lost += f"; {translate(exception).message}"

    def _on_error(self, error: KafkaError) -> None:
        # librdkafka tells a second member of its refusal by a fatal error; other errors it tries again.
        if error.code() != KafkaError._FATAL and error.code() not in _DENIED:
            self._error = error
            return
        self._refused = self._refused or error
        if self._assigned:
            self._lost = self._lost or _why(error)

    def _on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        self._asked = False
        self._answer = error or next((p.error for p in partitions if p.error is not None), None)

    def _leave(self) -> None:
        self._consumer.close()


def _ms_since(begun: float) -> float:
    return (time.monotonic() - begun) * 1000


def _is(error: KafkaError, code: int) -> bool:
    """Return whether an error has a code; fatal ones of librdkafka have the code's words, not the code."""
    return error.code() == code or (
        error.code() == KafkaError._FATAL and KafkaError(code).str() in error.str()
    )


def silence(why: str) -> Unreachable:
    """The error for a coordinator that lets nobody in, and does not refuse."""
    detail = f": {one_line(why)}" if why else ""
    return Unreachable(
        f"the coordinator of group {NAME} did not answer within {JOIN_TIMEOUT_S:.0f} s{detail}"
    )


def refusal(error: KafkaError) -> ClusterError:
    """Return why this account, or anybody, cannot have the lock."""
    if any(_is(error, code) for code in _DENIED):
        resource = "group" if _is(error, KafkaError.GROUP_AUTHORIZATION_FAILED) else "topic"
        return PermissionDenied(
            f"this account may not use the lock of the cluster: it lacks Read on {resource} {NAME}",
            hint=f"grant Read on the topic and on the group {NAME}, {WITHOUT}",
            right=Right("Read", resource, NAME),
        )
    return translate_error(error)


def _why(error: KafkaError) -> str:
    return f"{one_line(error.str())} ({error.name()})"

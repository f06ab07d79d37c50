"""Membership in the lock's group by the classic group protocol, and proof of it.

The holder is the leader of a generation of the group, and never joins again:

- A generation has one leader, and the coordinator forms the next one only once every member has rejoined,
  left, or been silent for its session timeout. So the join of a newcomer waits at the coordinator for as long
  as the holder is alive (`rebalance_ms` has no limit), whatever the holder is doing.
- The coordinator writes the holder's generation to its log before it answers SyncGroup; a coordinator that
  takes over reads it there.
- The proof is an offset commit with member id and generation, which is refused unless both are current
  (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION). It is accepted during a rebalance, and only once it is in the log
  of every in-sync replica: a coordinator that was replaced cannot accept it.

A member that was frozen until its session ended is refused before it sends anything else.

Tested with Kafka 2.8 to 4.3, and checked in the source of both of their coordinators: that of 4.0 and later
(KIP-848) writes and loads a generation like the earlier one, and like it forgets a rebalance in progress. The
members have a protocol type of their own. Where brokers also have the consumer protocol, by which earlier
versions of kafkaform joined, the coordinator refuses members of one protocol while there are members of the
other (INCONSISTENT_GROUP_PROTOCOL, GROUP_ID_NOT_FOUND).
"""

from __future__ import annotations

import logging
import time
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from kafkaform.cluster.kafka.lock_coordinator import (
    JOIN_TIMEOUT_S,
    PAUSE_S,
    RESPONSE_TIMEOUT_S,
    RETRIABLE_CODES,
    TIMEOUT_CODES,
    Coordinator,
    Failure,
    get_error_code,
    make_timeout_error,
)
from kafkaform.cluster.transport.broker_socket import ms_since
from kafkaform.cluster.transport.translation import one_line, translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode, name_code
from kafkaform.cluster.wire.group_messages import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    SYNC_GROUP,
)
from kafkaform.core import lock
from kafkaform.core.errors import ClusterError, PermissionDenied, RequestRejected
from kafkaform.core.lock import NAME, NO_LOCK_HINT
from kafkaform.core.rights import Right

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaform.cluster.transport.brokers import Brokers


_log = logging.getLogger(__name__)

PROTOCOL_TYPE = "kafkaform-lock"
"""Not `consumer`: brokers convert such a group once a member of the consumer protocol joins."""
GIVE_UP_S = 5.0
"""The time that leaving may take."""
PROOF_TIMEOUT_S = 30.0
"""How long a coordinator may move, or its broker restart, before the lock counts as lost."""
FRESH_S = 5.0
"""The age limit of a proof: one that took longer, as in a frozen process, is repeated."""

_PARKED_S = 4.0
"""How long a join waits before the members are read; brokers form a group after 3 s by default."""
# The rebalance timeout: members that do not rejoin within it are removed. The holder never rejoins, and must
# stay.
_FOREVER_MS = 2**31 - 1
_HEARTBEATS = 5
"""The heartbeats per session timeout."""
_DENIED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED})
_FOREIGN = frozenset({ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_MAX_SIZE_REACHED})
"""The codes of a join while the group has members of another protocol type."""
_TAKEN = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})
"""The codes of a commit by a former member."""
_REFORMED = _TAKEN | {ErrorCode.REBALANCE_IN_PROGRESS}
"""The codes of a leader whose generation has been superseded."""


class Membership:
    """One attempt to become the group's member, and to remain it.

    Args:
        brokers: Separate connections, whose client id identifies this attempt.
        is_held: Returns whether a holder has introduced itself.
    """

    def __init__(self, brokers: Brokers, is_held: Callable[[], bool]) -> None:
        self._coordinator = Coordinator(brokers)
        self._is_held = is_held
        self._member = ""
        self._generation = -1
        self._ended = Event()
        self._lost: str | None = None
        self._introduction = ""
        self._leaving = Thread(target=self._leave, name="kafkaform-leave", daemon=True)

    def join(self, introduction: str) -> bool:
        """Become the member, and commit an introduction for waiting processes; False if there is another.

        Raises:
            ClusterError: The brokers failed or refused this account.
        """
        self._introduction = introduction
        joined = False
        started = time.monotonic()
        try:
            joined = self._join()
            _log.debug("lock: %s after %d ms", "acquired" if joined else "held by another", ms_since(started))
        finally:
            if not joined:
                self.leave()
        return joined

    def prove(self) -> None:
        """Raise LockLost unless the coordinator confirms now that this is still the member."""
        if self._lost is None:
            started = time.monotonic()
            try:
                error = self._confirm()
            except BaseException:
                self._lost = "the proof was broken off"  # a later response would prove nothing
                raise
            if error is not None and self._lost is None:
                self._lost = f"{one_line(error.text)} ({name_code(error.code)})"
            _log.debug("lock: %s after %d ms", self._lost or "proven", ms_since(started))
        if self._lost is not None:
            self.leave()
            raise lock.lock_lost_error(self._lost)

    def leave(self) -> None:
        """Release the lock, if it is held, within GIVE_UP_S; does nothing the second time.

        If no coordinator answers, the lock is free once the session times out.
        """
        self._lost = self._lost or "it was given back"
        if not self._left:
            started = time.monotonic()
            self._leaving.start()
            self._leaving.join(GIVE_UP_S)
            _log.debug("lock: left after %d ms", ms_since(started))

    @property
    def _left(self) -> bool:
        """True once leaving has begun. A flag set before would skip it, if Ctrl-C came in between."""
        return self._leaving.ident is not None

    def _join(self) -> bool:
        if not self._lead():
            return False
        # Heartbeats begin before the proof, which may wait for a coordinator that is moving.
        Thread(target=self._send_heartbeats, name="kafkaform-lock", daemon=True).start()
        error = self._confirm()
        if error is not None:
            if error.code not in _TAKEN:
                raise _make_refusal(error)
            return False
        return self._lost is None and self._is_fenced()

    def _lead(self) -> bool:
        """Become the leader of a generation in the coordinator's log; False if another member leads."""
        deadline = time.monotonic() + JOIN_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._is_held():
                return False  # without a needless join, which would wait at the coordinator
            response = self._coordinator.send(JOIN_GROUP, self._make_join_request(), _PARKED_S)
            match response["error_code"]:
                case 0:
                    self._member = response["member_id"]
                    # Another member of the same generation leads it, and so holds the lock.
                    if response["leader"] != self._member:
                        return False
                    self._generation = response["generation"]
                    if self._synchronize():
                        return True
                # The first join only hands out an id, so that members whose response is lost do not
                # accumulate (KIP-394).
                case ErrorCode.MEMBER_ID_REQUIRED:
                    self._member = response["member_id"]
                case ErrorCode.UNKNOWN_MEMBER_ID:  # brokers drop a join that has waited for 5 min
                    self._member = ""
                case code if code in _FOREIGN:
                    return False
                # After a timeout too: the coordinator waits for the holder, or for other members to join.
                case code if code in RETRIABLE_CODES or code == ErrorCode.REBALANCE_IN_PROGRESS:
                    time.sleep(PAUSE_S)
                case code:
                    raise _make_refusal(Failure.from_code(code))
        if any(member["member_id"] != self._member for member in self._coordinator.read_members()):
            return False  # such as one that was killed before its introduction
        raise make_timeout_error(self._coordinator.failure)

    def _make_join_request(self) -> Mapping[str, Any]:
        return {
            "group_id": NAME,
            "session_ms": lock.SESSION_S * 1000,
            "rebalance_ms": _FOREVER_MS,
            "member_id": self._member,
            "protocol_type": PROTOCOL_TYPE,
            # Members must have a protocol in common; its metadata means nothing to brokers for this type.
            "protocols": [{"name": "leader", "metadata": b""}],
        }

    def _synchronize(self) -> bool:
        """Have the coordinator log the generation; False if it has begun to form the next one."""
        request = {**self._identity(), "assignments": [{"member_id": self._member, "assignment": b""}]}
        code = self._coordinator.retry_until_ready(SYNC_GROUP, request)["error_code"]
        if code and code not in _REFORMED:
            raise _make_refusal(Failure.from_code(code))
        return not code

    def _is_fenced(self) -> bool:
        """Return whether this member is known; raises if brokers accept a commit of another generation."""
        # Commits are what excludes former holders. An implementation of the protocol that accepts any of them
        # would make the lock an illusion: try one that must fail.
        error = self._commit_as(self._generation + 1, RESPONSE_TIMEOUT_S)
        if error is None:
            raise RequestRejected(
                "the brokers accept group commits of any client: the lock cannot rely on them",
                code="NO_FENCING",
                hint=NO_LOCK_HINT.removeprefix("or "),
            )
        return error.code in _TAKEN

    def _confirm(self) -> Failure | None:
        """Commit, which only the member can; returns why it failed.

        Commits again if the response took longer than FRESH_S, as when this process was frozen.
        """
        deadline = time.monotonic() + PROOF_TIMEOUT_S
        while True:
            sent_at = time.monotonic()
            error = self._commit(deadline)
            now = time.monotonic()
            # Time may have passed between the coordinator's response and this line, as when the process was
            # frozen: an old confirmation proves nothing about now.
            if self._lost is not None or (error is None and now - sent_at < FRESH_S):
                return error
            if error is not None and error.code not in RETRIABLE_CODES:
                return error
            if now > deadline:
                return error or Failure(ErrorCode.REQUEST_TIMED_OUT, "the response came too late")
            if error is not None:
                time.sleep(PAUSE_S)

    def _identity(self) -> Mapping[str, Any]:
        return {"group_id": NAME, "generation": self._generation, "member_id": self._member}

    def _commit(self, deadline: float) -> Failure | None:
        """Commit once, with the introduction; returns why it failed."""
        timeout_s = min(RESPONSE_TIMEOUT_S, max(PAUSE_S, deadline - time.monotonic()))
        return self._commit_as(self._generation, timeout_s)

    def _commit_as(self, generation: int, timeout_s: float) -> Failure | None:
        # The offset has no meaning: its metadata is the introduction, and that it is accepted the proof.
        partition = {"index": 0, "offset": 0, "leader_epoch": -1, "metadata": self._introduction}
        topics = [{"name": NAME, "partitions": [partition]}]
        request = {**self._identity(), "generation": generation, "topics": topics}
        try:
            response = self._coordinator.send(OFFSET_COMMIT, request, timeout_s)
        except ClusterError as error:
            return Failure(ErrorCode.UNKNOWN, error.message)
        code = get_error_code(response)
        if code in TIMEOUT_CODES:
            return Failure(code, "the coordinator of the lock does not respond")
        return Failure.from_code(code) if code else None

    def _send_heartbeats(self) -> None:
        """Send heartbeats while this is the member, or its session would end."""
        while not self._ended.wait(lock.SESSION_S / _HEARTBEATS):
            try:
                code = get_error_code(self._coordinator.send(HEARTBEAT, self._identity(), RESPONSE_TIMEOUT_S))
            except ClusterError as error:
                # A session outlasts several lost heartbeats. If it has ended, the next proof fails.
                _log.debug("lock: no heartbeat: %s", error.message)
                continue
            if code in _TAKEN:
                self._lost = self._lost or "its session ended, or it was taken away"
                return

    def _leave(self) -> None:
        """Leave the group, and close the connections."""
        self._ended.set()
        try:
            if self._member:
                # Leaving only spares the next process the wait for the session to end.
                request = {"group_id": NAME, "members": [{"member_id": self._member}]}
                self._coordinator.retry_until_ready(LEAVE_GROUP, request)
        except ClusterError as error:
            _log.debug("lock: not left: %s", error.message)
        finally:
            self._coordinator.close()


def _make_refusal(error: Failure) -> ClusterError:
    """Return the error for an account, or a cluster, that cannot use the lock."""
    if error.code in _DENIED:
        resource = "group" if error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED else "topic"
        return PermissionDenied(
            f"this account may not use the lock of the cluster: it lacks Read on {resource} {NAME}",
            hint=f"grant Read on the topic and on the group {NAME}, {NO_LOCK_HINT}",
            right=Right("Read", resource, NAME),
        )
    return translate_code(error.code, error.text)

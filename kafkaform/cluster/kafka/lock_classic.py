"""Membership by the classic group protocol, where brokers do not have the consumer protocol (before 4.0).

The holder is the leader of a generation of the group, and never joins again:

- A generation has one leader, and the coordinator forms the next one only once every member has joined anew,
  has left, or has been silent for its session. So a newcomer's join waits at the coordinator for as long as
  the holder is alive (`rebalance_ms` has no limit), whatever the holder is doing.
- The holder is known by a generation that the coordinator has written to its log (the answer to SyncGroup):
  one that takes over reads it there.
- The proof is a commit with member id and generation, which is refused unless that generation is the group's
  and the member is in it (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION). It is accepted during a rebalance, and only
  once it is in the log of every replica in sync: a coordinator that was replaced cannot accept it.

Tried with Kafka 2.8 to 4.3, and read in their coordinators' source. The members are of a protocol type of
their own, which a group shares with no other: where brokers have both protocols, the coordinator refuses
members of the one kind (INCONSISTENT_GROUP_PROTOCOL, GROUP_ID_NOT_FOUND) while there is one of the other.
"""

from __future__ import annotations

import logging
import time
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from kafkaform.cluster.kafka.coordinators import check_offsets_topic
from kafkaform.cluster.kafka.lock_membership import (
    AGAIN,
    FRESH_S,
    INSTANCE_ID,
    JOIN_TIMEOUT_S,
    TAKEN,
    Membership,
    refusal,
    silence,
)
from kafkaform.cluster.wire.group_messages import (
    CONSUMER_HEARTBEAT,
    DESCRIBE_CLASSIC,
    DESCRIBE_CONSUMER,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from kafkaform.core import lock
from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    MalformedAnswer,
    NotOffered,
    OutcomeUnknown,
    RequestRejected,
)
from kafkaform.core.lock import NAME, WITHOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaform.cluster.transport.brokers import Brokers
    from kafkaform.cluster.wire.message_schema import RequestType

_log = logging.getLogger(__name__)

PROTOCOL_TYPE = "kafkaform-lock"
"""Not `consumer`: brokers would convert the group to the consumer protocol when one joins that speaks it."""

_PARKED_S = 4.0
"""How long to wait at the coordinator before looking who is there; it forms a group after 3 s by default."""
_FOREVER_MS = 2**31 - 1
_PAUSE_S = 0.1
_HEARTBEATS = 5
"""The heartbeats in the time of a session."""
_FINAL = (AuthenticationFailed, MalformedAnswer, NotOffered, RequestRejected)
_FOREIGN = frozenset({KafkaError.INCONSISTENT_GROUP_PROTOCOL, KafkaError.GROUP_MAX_SIZE_REACHED})
"""The errors of a join while the group has members of another kind."""
_REFORMED = frozenset({*TAKEN, KafkaError.REBALANCE_IN_PROGRESS})
"""The errors of a leader that was overtaken by the next generation."""
_NOBODY = "A" * 22
"""A member id that nobody has."""


def error_code(answer: Mapping[str, Any]) -> int:
    """The error code of an answer, or of the one partition or group that it is about."""
    if answer.get("error_code"):
        pass
    elif "topics" in answer:
        answer = answer["topics"][0]["partitions"][0]
    elif "groups" in answer:
        answer = answer["groups"][0]
    code: int = answer["error_code"]
    return code


class Coordinator:
    """The coordinator of the lock's group, wherever it is.

    Args:
        brokers: Connections of their own: others' requests may take longer than a session.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._node: int | None = None
        self.failure = ""

    def ask(self, request_type: RequestType[Any], request: Mapping[str, Any], timeout_s: float) -> Any:
        """Return its answer; one that did not come has an error code all the same (see `AGAIN`)."""
        node = self._node
        try:
            if node is None:
                (found,) = self._brokers.ask(
                    FIND_COORDINATOR, [{"key": NAME, "key_type": 0}], timeout_s=timeout_s
                )
                if found["error_code"]:
                    if found["error_code"] == KafkaError.COORDINATOR_NOT_AVAILABLE:
                        check_offsets_topic(self._brokers)
                    return found
                node = self._node = found["node_id"]
            (answer,) = self._brokers.ask(request_type, [request], node, timeout_s)
        except _FINAL:
            raise
        except ClusterError as error:
            self._node = None
            self.failure = error.message
            late = isinstance(error, OutcomeUnknown)
            return {"error_code": KafkaError._TIMED_OUT if late else KafkaError._TRANSPORT}
        if error_code(answer) in AGAIN:
            self._node = None
        return answer

    def settled(self, request_type: RequestType[Any], request: Mapping[str, Any]) -> Any:
        """Return its answer, once it is ready to give one."""
        deadline = time.monotonic() + JOIN_TIMEOUT_S
        while error_code(answer := self.ask(request_type, request, FRESH_S)) in AGAIN:
            if time.monotonic() > deadline:
                raise silence(self.failure)
            time.sleep(_PAUSE_S)
        return answer

    def has_consumer_protocol(self) -> bool:
        """Return whether it accepts members of the consumer protocol.

        Brokers of Kafka 3.7 to 3.9 offer the request and refuse it, unless a preview is enabled; so do later
        ones until all brokers are upgraded and the feature group.version is.
        """
        leave = {"group_id": NAME, "member_id": _NOBODY, "epoch": -1}
        try:
            answer = self.settled(CONSUMER_HEARTBEAT, leave)
        except NotOffered:
            return False
        return error_code(answer) != KafkaError.UNSUPPORTED_VERSION

    def members(self) -> Sequence[Mapping[str, Any]]:
        """Return the members by the classic protocol."""
        answer = self.settled(DESCRIBE_CLASSIC, {"groups": [NAME]})
        members: Sequence[Mapping[str, Any]] = answer["groups"][0]["members"] if "groups" in answer else ()
        return members

    def consumers(self) -> Sequence[Mapping[str, Any]]:
        """Return the members by the consumer protocol that have the id of the holder."""
        try:
            answer = self.settled(DESCRIBE_CONSUMER, {"groups": [NAME], "operations": False})
        except NotOffered:
            return ()
        members = answer["groups"][0]["members"] if "groups" in answer else ()
        return [member for member in members if member["instance_id"] == INSTANCE_ID]

    def introduction(self) -> str:
        """Return what the last holder has left with its proofs; empty if there was none."""
        topics = [{"name": NAME, "partitions": [0]}]
        answer = self.settled(OFFSET_FETCH, {"group_id": NAME, "topics": topics})
        if error_code(answer):
            return ""
        text: str = answer["topics"][0]["partitions"][0]["metadata"] or ""
        return text.rstrip("\0")  # which confluent-kafka sends with it

    def close(self) -> None:
        """Close the connections."""
        self._brokers.close()


class ClassicMembership(Membership):
    """The membership of the classic protocol, in requests of our own.

    Args:
        brokers: Connections of their own, whose client id tells this attempt from every other.
        is_held: Returns whether a holder has introduced itself.
    """

    def __init__(self, brokers: Brokers, is_held: Callable[[], bool]) -> None:
        super().__init__()
        self._coordinator = Coordinator(brokers)
        self._is_held = is_held
        self._member = ""
        self._generation = -1
        self._ended = Event()

    def _join(self) -> bool:
        if not self._lead():
            return False
        Thread(target=self._stay, daemon=True).start()
        error = self._confirm()
        if error is not None:
            if error.code() not in TAKEN:
                raise refusal(error)
            return False
        return self._lost is None and self._is_fenced()

    def _lead(self) -> bool:
        """Become the leader of a generation, known to the coordinator's log; False if somebody else is."""
        deadline = time.monotonic() + JOIN_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._is_held():
                return False  # without a join: nobody waits at the coordinator who is not needed
            answer = self._coordinator.ask(JOIN_GROUP, self._application(), _PARKED_S)
            match answer["error_code"]:
                case 0:
                    self._member = answer["member_id"]
                    if answer["leader"] != self._member:
                        return False
                    self._generation = answer["generation"]
                    if self._synchronize():
                        return True
                case KafkaError.MEMBER_ID_REQUIRED:
                    self._member = answer["member_id"]
                case KafkaError.UNKNOWN_MEMBER_ID:  # brokers forget who waits for longer than 5 min
                    self._member = ""
                case code if code in _FOREIGN:
                    return False
                case KafkaError._TIMED_OUT:  # it waits for the holder, or for others who may join
                    pass
                case code if code in AGAIN or code == KafkaError.REBALANCE_IN_PROGRESS:
                    time.sleep(_PAUSE_S)
                case code:
                    raise refusal(KafkaError(code))
        if any(member["member_id"] != self._member for member in self._coordinator.members()):
            return False  # as one that was killed before it said who it is
        raise silence(self._coordinator.failure)

    def _application(self) -> Mapping[str, Any]:
        return {
            "group_id": NAME,
            "session_ms": lock.SESSION_S * 1000,
            "rebalance_ms": _FOREVER_MS,
            "member_id": self._member,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": "leader", "metadata": b""}],
        }

    def _synchronize(self) -> bool:
        """Have the coordinator write the generation down; False if it has begun to form the next one."""
        deadline = time.monotonic() + JOIN_TIMEOUT_S
        request = {**self._identity(), "assignments": [{"member_id": self._member, "assignment": b""}]}
        while (code := self._coordinator.ask(SYNC_GROUP, request, FRESH_S)["error_code"]) in AGAIN:
            if time.monotonic() > deadline:
                raise silence(self._coordinator.failure)
            time.sleep(_PAUSE_S)
        if code and code not in _REFORMED:
            raise refusal(KafkaError(code))
        return not code

    def _identity(self) -> Mapping[str, Any]:
        return {"group_id": NAME, "generation": self._generation, "member_id": self._member}

    def _is_fenced(self) -> bool:
        """Return whether a commit of another generation is refused; raises if it is not, as then none is."""
        error = self._committed(self._generation + 1, FRESH_S)
        if error is None:
            raise RequestRejected(
                "the brokers accept commits to a group from anybody: the lock cannot rely on them",
                code="NO_FENCING",
                hint=WITHOUT.removeprefix("or "),
            )
        return error.code() in TAKEN

    def _commit(self, deadline: float) -> KafkaError | None:
        timeout_s = min(FRESH_S, max(_PAUSE_S, deadline - time.monotonic()))
        return self._committed(self._generation, timeout_s)

    def _committed(self, generation: int, timeout_s: float) -> KafkaError | None:
        place = {"index": 0, "offset": 0, "leader_epoch": -1, "metadata": self._introduction}
        topics = [{"name": NAME, "partitions": [place]}]
        request = {**self._identity(), "generation": generation, "topics": topics}
        try:
            answer = self._coordinator.ask(OFFSET_COMMIT, request, timeout_s)
        except ClusterError as error:
            return KafkaError(KafkaError._FAIL, error.message)
        code = error_code(answer)
        if code < 0:
            return KafkaError(code, "the coordinator of the lock does not respond")
        return KafkaError(code) if code else None

    def _stay(self) -> None:
        """Send heartbeats, until this is no member any more: a session ends without."""
        while not self._ended.wait(lock.SESSION_S / _HEARTBEATS):
            try:
                code = self._coordinator.ask(HEARTBEAT, self._identity(), FRESH_S)["error_code"]
            except ClusterError as error:
                _log.debug("lock: no heartbeat: %s", error.message)
                continue
            if code in TAKEN:
                self._lost = self._lost or "its session ended, or it was taken away"
                return

    def _leave(self) -> None:
        self._ended.set()
        request = {"group_id": NAME, "members": [{"member_id": self._member}]}
        try:
            if self._member:
                self._coordinator.settled(LEAVE_GROUP, request)
        except ClusterError as error:
            _log.debug("lock: not left: %s", error.message)
        finally:
            self._coordinator.close()

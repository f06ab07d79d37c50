"""Membership in the group that is the lock: what is made of each answer of a coordinator."""

import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from kafkaform.cluster.kafka import lock as kafka_lock
from kafkaform.cluster.kafka import lock_coordinator, lock_membership
from kafkaform.cluster.kafka.lock_membership import Membership
from kafkaform.cluster.transport.brokers import Brokers
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.error_codes import ErrorCode, name_code
from kafkaform.cluster.wire.message_schema import RequestType
from kafkaform.core import lock
from kafkaform.core.errors import (
    ClusterError,
    LockLost,
    NotOffered,
    PermissionDenied,
    RequestRejected,
    Unreachable,
)
from kafkaform.core.lock import NAME, Holder
from kafkaform.core.progress import silent

MINE = "me-1"
OTHER = "other-1"


class Played:
    """A coordinator that lets us lead generation 7, but for the answers that a test has put in."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.scripted: dict[str, list[Any]] = {}
        self.fencing = True
        self.closed = False

    def send(
        self,
        request_type: RequestType[Any],
        requests: Sequence[Any],
        node: int | None = None,
        timeout_s: float = 0,
    ) -> list[Any]:
        (request,) = requests
        assert timeout_s > 0
        assert (node is None) == (request_type.name == "FindCoordinator")
        self.asked.append(request_type.name)
        scripted = self.scripted.get(request_type.name)
        if scripted:
            answer = scripted.pop(0)
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, int):
                return [_build_error_response(request_type.name, answer)]
            return [answer]
        return [getattr(self, f"_{request_type.name}")(request)]

    def close(self) -> None:
        self.closed = True

    def _FindCoordinator(self, request: Any) -> Any:  # noqa: N802
        assert request == {"key": NAME, "key_type": 0}
        return {"error_code": 0, "node_id": 3}

    def _JoinGroup(self, request: Any) -> Any:  # noqa: N802
        assert request["protocol_type"] != "consumer"
        if not request["member_id"]:
            return {"error_code": ErrorCode.MEMBER_ID_REQUIRED, "member_id": MINE}
        return {"error_code": 0, "generation": 7, "leader": MINE, "member_id": MINE, "members": []}

    def _SyncGroup(self, request: Any) -> Any:  # noqa: N802
        assert (request["generation"], request["member_id"]) == (7, MINE)
        return {"error_code": 0}

    def _OffsetCommit(self, request: Any) -> Any:  # noqa: N802
        fits = (request["generation"], request["member_id"]) == (7, MINE)
        return _build_error_response(
            "OffsetCommit", 0 if fits or not self.fencing else ErrorCode.ILLEGAL_GENERATION
        )

    def _Heartbeat(self, _: Any) -> Any:  # noqa: N802
        return {"error_code": 0}

    def _LeaveGroup(self, request: Any) -> Any:  # noqa: N802
        assert request["members"] == [{"member_id": MINE}]
        return {"error_code": 0}

    def _DescribeGroups(self, _: Any) -> Any:  # noqa: N802
        return {"groups": [{"error_code": 0, "members": []}]}


def _build_error_response(request: str, code: int) -> Any:
    if request == "OffsetCommit":
        return {"topics": [{"partitions": [{"error_code": code}]}]}
    if request == "DescribeGroups":
        return {"groups": [{"error_code": code, "members": []}]}
    return {"error_code": code, "member_id": MINE}


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def membership(played: Played, monkeypatch: pytest.MonkeyPatch) -> Iterator[Membership]:
    monkeypatch.setattr(lock_coordinator, "PAUSE_S", 0.001)
    monkeypatch.setattr(lock_membership, "PAUSE_S", 0.001)
    made = Membership(cast("Brokers", played), lambda: False)
    yield made
    made.leave()


def test_member_joins_proves_and_leaves(played: Played, membership: Membership) -> None:
    assert membership.join("hello")
    membership.prove()
    membership.leave()
    # The second commit is one of the next generation, which must be refused.
    assert played.asked == [
        *("FindCoordinator", "JoinGroup", "JoinGroup", "SyncGroup"),
        *("OffsetCommit", "OffsetCommit", "OffsetCommit", "LeaveGroup"),
    ]
    assert played.closed


def test_known_holder_prevents_joining(played: Played) -> None:
    assert not Membership(cast("Brokers", played), lambda: True).join("hello")
    assert played.asked == []


FOLLOWER: Any = {"error_code": 0, "generation": 7, "leader": OTHER, "member_id": MINE, "members": []}
REQUIRED = ErrorCode.MEMBER_ID_REQUIRED
JOINS = {
    "a follower": ("JoinGroup", [REQUIRED, FOLLOWER], False, 2),
    "of another protocol": ("JoinGroup", [REQUIRED, ErrorCode.INCONSISTENT_GROUP_PROTOCOL], False, 2),
    "of a full group": ("JoinGroup", [REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED], False, 2),
    "forgotten while it waits": ("JoinGroup", [REQUIRED, ErrorCode.UNKNOWN_MEMBER_ID], True, 4),
    "of a generation in rebalance": ("SyncGroup", [ErrorCode.REBALANCE_IN_PROGRESS], True, 3),
    "of an old generation": ("SyncGroup", [ErrorCode.ILLEGAL_GENERATION], True, 3),
    "removed before its first proof": ("OffsetCommit", [ErrorCode.UNKNOWN_MEMBER_ID], False, 2),
    "overtaken before its first proof": ("OffsetCommit", [ErrorCode.ILLEGAL_GENERATION], False, 2),
}
"""A member: the responses to a request, whether it holds the lock, and how often it asked to join."""


@pytest.mark.parametrize("case", JOINS)
def test_member_joins_or_leaves_by_response(played: Played, membership: Membership, case: str) -> None:
    request, responses, holds, joins = JOINS[case]
    played.scripted[request] = [*responses]
    assert membership.join("hello") == holds
    assert played.asked.count("JoinGroup") == joins
    if request == "JoinGroup" and not holds:
        assert "OffsetCommit" not in played.asked
        assert played.asked[-1] == "LeaveGroup"


def test_unfenced_commits_refuse_lock(played: Played, membership: Membership) -> None:
    played.fencing = False
    with pytest.raises(RequestRejected, match="of any client") as caught:
        membership.join("hello")
    assert "--no-lock" in (caught.value.hint or "")
    assert played.asked[-1] == "LeaveGroup"


@pytest.mark.parametrize("request_name", ["JoinGroup", "SyncGroup", "OffsetCommit", "FindCoordinator"])
@pytest.mark.parametrize(
    "answer", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ClusterError("failed")]
)
def test_moved_coordinator_is_found_again(
    played: Played, membership: Membership, request_name: str, answer: Any
) -> None:
    played.scripted[request_name] = [answer] * 2
    assert membership.join("hello")
    assert played.asked.count("FindCoordinator") == 3
    membership.prove()


@pytest.mark.parametrize("member", [OTHER, MINE])
def test_forming_group_is_held_by_other_member(
    played: Played, membership: Membership, monkeypatch: pytest.MonkeyPatch, member: str
) -> None:
    monkeypatch.setattr(lock_membership, "JOIN_TIMEOUT_S", 0.05)
    played.scripted["JoinGroup"] = [ErrorCode.MEMBER_ID_REQUIRED, *[ErrorCode.REBALANCE_IN_PROGRESS] * 1000]
    members = [{"member_id": member}]
    played.scripted["DescribeGroups"] = [{"groups": [{"error_code": 0, "members": members}]}]
    if member == OTHER:
        assert not membership.join("hello")
    else:
        with pytest.raises(Unreachable, match="did not answer"):
            membership.join("hello")


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_removed_member_loses_lock(played: Played, membership: Membership, code: int) -> None:
    assert membership.join("hello")
    played.scripted["OffsetCommit"] = [code]
    for _ in range(2):
        with pytest.raises(LockLost, match=name_code(code)):
            membership.prove()


def test_refused_heartbeat_loses_the_lock(
    played: Played, membership: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "SESSION_S", 0.01)
    played.scripted["Heartbeat"] = [
        ErrorCode.REBALANCE_IN_PROGRESS,  # as while somebody waits: it is a member all the same
        ErrorCode.NOT_COORDINATOR,
        ClusterError("the connection failed"),
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert membership.join("hello")
    deadline = time.monotonic() + 10
    while membership._lost is None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert played.scripted["Heartbeat"] == []
    with pytest.raises(LockLost, match="its session ended"):
        membership.prove()


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, PermissionDenied, "Read on group __kafkaform_lock"),
        # As where brokers allow no session of that length (group.max.session.timeout.ms).
        (ErrorCode.INVALID_SESSION_TIMEOUT, RequestRejected, "session timeout"),
    ],
)
def test_refused_join_gives_reason(
    played: Played, membership: Membership, code: ErrorCode, error: type[ClusterError], said: str
) -> None:
    played.scripted["JoinGroup"] = [code]
    with pytest.raises(error, match=said) as caught:
        membership.join("hello")
    assert error is RequestRejected or "__kafkaform_lock" in (caught.value.hint or "")
    assert "LeaveGroup" not in played.asked


def test_silent_coordinator_loses_the_lock(
    played: Played, membership: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert membership.join("hello")
    monkeypatch.setattr(lock_membership, "PROOF_TIMEOUT_S", 0.0)
    played.scripted["OffsetCommit"] = [ClusterError("the connection failed")] * 1_000
    with pytest.raises(LockLost, match="NETWORK_EXCEPTION"):
        membership.prove()


def test_missing_group_protocol_fails_immediately(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    class Connected:
        def separate(self, _: str) -> Brokers:
            return cast("Brokers", played)

    monkeypatch.setattr(kafka_lock, "_make_topic", lambda _: None)
    played.scripted["JoinGroup"] = [NotOffered("JoinGroup")]
    connection = cast("Connection", Connected())
    begun = time.monotonic()
    with (
        pytest.raises(NotOffered, match="JoinGroup") as caught,
        kafka_lock.lock(connection, Holder("me"), timeout_s=60, tell=silent),
    ):
        raise AssertionError
    assert time.monotonic() - begun < 30
    assert "--no-lock" in (caught.value.hint or "")
    assert played.closed

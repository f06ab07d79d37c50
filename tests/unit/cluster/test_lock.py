"""The plain parts of the lock: who holds it, in words, and waiting for it."""

import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.cluster.kafka import lock as kafka_lock
from kafkaform.cluster.kafka import lock_coordinator, lock_membership
from kafkaform.cluster.kafka.lock_membership import Membership
from kafkaform.cluster.transport.brokers import Brokers
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.error_codes import ErrorCode, name_code
from kafkaform.cluster.wire.message_schema import RequestType
from kafkaform.core import errors, lock
from kafkaform.core.lock import NAME, REMIND_S, RETRY_S, Holder, acquire_lock, format_holder, parse_holder
from kafkaform.core.progress import silent
from tests.support.plans.scenes import FakeClock

NOW = datetime(2026, 11, 21, 23, 1, 47, tzinfo=UTC)
ALICE = Holder("alice@ci-3", "apply plan sha256:12ab", 4711, NOW - timedelta(seconds=40))
SILENT = Holder("client kafkaform-lock-7 at 10.0.0.7")


@pytest.mark.parametrize(
    ("holder", "text"),
    [
        (ALICE, "alice@ci-3 (apply plan sha256:12ab, process 4711) since 23:01:07 UTC, 40s"),
        (Holder("bob", since=NOW - timedelta(days=2)), "bob since 2026-11-19 23:01:47 UTC, 2d"),
        (Holder("bob", process=5, since=NOW), "bob (process 5) since 23:01:47 UTC, 0s"),
        (SILENT, "client kafkaform-lock-7 at 10.0.0.7"),
        (Holder("bob", since=NOW + timedelta(seconds=5)), "bob since 23:01:52 UTC, 0s"),
        (Holder("bob", since=NOW.astimezone(timezone(timedelta(hours=5)))), "bob since 23:01:47 UTC, 0s"),
    ],
)
def test_lock_holder_is_described_briefly(holder: Holder, text: str) -> None:
    assert holder.describe(NOW) == text


@given(
    st.text(min_size=1, max_size=75),
    st.text(max_size=75),
    st.none() | st.integers(1, 2**31),
    st.none() | st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0)),
)
def test_lock_holder_round_trips(who: str, purpose: str, process: int | None, since: datetime | None) -> None:
    holder = Holder(who, purpose, process, since)
    assert parse_holder(format_holder(holder, "m1"), "m1") == holder


def test_lock_introduction_is_json_for_own_mark() -> None:
    assert parse_holder(format_holder(ALICE, "m1"), "m2") is None
    # An introduction is plain json.
    assert json.loads(format_holder(ALICE, "m1")) == {
        "mark": "m1",
        "who": "alice@ci-3",
        "purpose": "apply plan sha256:12ab",
        "process": 4711,
        "since": "2026-11-21T23:01:07+00:00",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "who since",
        '{"mark": "m"}',
        '{"mark": "m", "who": "a", "since": "yesterday"}',
        '{"mark": "m", "who": "a", "since": 5}',
        '{"who": "a"}',
        "[" * 100_000,
    ],
)
def test_invalid_lock_introduction_is_ignored(text: str) -> None:
    assert parse_holder(text, "m") is None


@pytest.mark.parametrize("letter", ["a", "\N{GRINNING FACE}", "\x01", '"', "\udc80"])
def test_lock_introduction_fits_offset_metadata(letter: str) -> None:
    """`offset.metadata.max.bytes` is 4096 by default, and some letters take several bytes, or an escape."""
    text = format_holder(Holder(letter * 5_000, letter * 5_000, 2**31, NOW), "m" * 12)
    assert len(text.encode()) <= 4_096
    assert parse_holder(text, "m" * 12) is not None


class Contention:
    """A lock that is held for so long, and what is said meanwhile."""

    def __init__(self, free_after: float, occupants: Sequence[Holder] = (ALICE,)) -> None:
        self.time = FakeClock()
        self.start = self.time.time
        self.free_after = free_after
        self.occupants = occupants
        self.attempts = 0
        self.said: list[tuple[float, str]] = []

    def attempt(self) -> str | None:
        self.attempts += 1
        return "mine" if self.waited >= self.free_after else None

    def occupant(self) -> Holder:
        return self.occupants[min(self.attempts, len(self.occupants)) - 1]

    @property
    def waited(self) -> float:
        return self.time.time - self.start

    def acquire(self, timeout_s: float) -> str:
        def tell(line: str) -> None:
            self.said.append((self.waited, line))

        return acquire_lock(
            self.attempt,
            self.occupant,
            timeout_s=timeout_s,
            tell=tell,
            now=lambda: self.time.time,
            sleep=self.time.sleep,
        )


def test_waiting_lock_repeats_holder() -> None:
    scene = Contention(40)
    assert scene.acquire(90) == "mine"
    assert [at for at, _ in scene.said] == [0, REMIND_S, 2 * REMIND_S]
    for _, line in scene.said:
        assert line.startswith("the lock of the cluster is held by alice@ci-3 (apply plan sha256:12ab, proc")
        assert line.endswith("; waiting up to 90s")
    assert max(scene.time.naps) == RETRY_S


def test_lock_waiting_ends_at_timeout() -> None:
    assert Contention(10).acquire(10) == "mine"
    scene = Contention(60)
    with pytest.raises(errors.LockHeld) as caught:
        scene.acquire(10.2)
    assert scene.waited == pytest.approx(10.2)
    assert caught.value.message.startswith("the lock of the cluster is held by alice@ci-3")
    assert caught.value.message.endswith("; waited 10s")
    assert caught.value.hint is not None
    for word in ("--lock-timeout", "45 s", "--no-lock"):
        assert word in caught.value.hint


def test_zero_timeout_tries_once() -> None:
    scene = Contention(1)
    with pytest.raises(errors.LockHeld) as caught:
        scene.acquire(0)
    assert (scene.attempts, scene.said, scene.time.naps) == (1, [], [])
    assert "waited" not in caught.value.message


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
    with pytest.raises(errors.RequestRejected, match="of any client") as caught:
        membership.join("hello")
    assert "--no-lock" in (caught.value.hint or "")
    assert played.asked[-1] == "LeaveGroup"


@pytest.mark.parametrize("request_name", ["JoinGroup", "SyncGroup", "OffsetCommit", "FindCoordinator"])
@pytest.mark.parametrize(
    "answer",
    [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, errors.ClusterError("failed")],
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
        with pytest.raises(errors.Unreachable, match="did not answer"):
            membership.join("hello")


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_removed_member_loses_lock(played: Played, membership: Membership, code: int) -> None:
    assert membership.join("hello")
    played.scripted["OffsetCommit"] = [code]
    for _ in range(2):
        with pytest.raises(errors.LockLost, match=name_code(code)):
            membership.prove()


def test_refused_heartbeat_loses_the_lock(
    played: Played, membership: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "SESSION_S", 0.01)
    played.scripted["Heartbeat"] = [
        ErrorCode.REBALANCE_IN_PROGRESS,  # as while somebody waits: it is a member all the same
        ErrorCode.NOT_COORDINATOR,
        errors.ClusterError("the connection failed"),
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert membership.join("hello")
    deadline = time.monotonic() + 10
    while membership._lost is None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert played.scripted["Heartbeat"] == []
    with pytest.raises(errors.LockLost, match="its session ended"):
        membership.prove()


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, errors.PermissionDenied, "Read on group __kafkaform_lock"),
        # As where brokers allow no session of that length (group.max.session.timeout.ms).
        (ErrorCode.INVALID_SESSION_TIMEOUT, errors.RequestRejected, "session timeout"),
    ],
)
def test_refused_join_gives_reason(
    played: Played, membership: Membership, code: ErrorCode, error: type[errors.ClusterError], said: str
) -> None:
    played.scripted["JoinGroup"] = [code]
    with pytest.raises(error, match=said) as caught:
        membership.join("hello")
    assert error is errors.RequestRejected or "__kafkaform_lock" in (caught.value.hint or "")
    assert "LeaveGroup" not in played.asked


def test_silent_coordinator_loses_the_lock(
    played: Played, membership: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert membership.join("hello")
    monkeypatch.setattr(lock_membership, "PROOF_TIMEOUT_S", 0.0)
    played.scripted["OffsetCommit"] = [errors.ClusterError("the connection failed")] * 1_000
    with pytest.raises(errors.LockLost, match="NETWORK_EXCEPTION"):
        membership.prove()


def test_missing_group_protocol_fails_immediately(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    class Connected:
        def separate(self, _: str) -> Brokers:
            return cast("Brokers", played)

    monkeypatch.setattr(kafka_lock, "_make_topic", lambda _: None)
    played.scripted["JoinGroup"] = [errors.NotOffered("JoinGroup")]
    connection = cast("Connection", Connected())
    begun = time.monotonic()
    with (
        pytest.raises(errors.NotOffered, match="JoinGroup") as caught,
        kafka_lock.lock(connection, Holder("me"), timeout_s=60, tell=silent),
    ):
        raise AssertionError
    assert time.monotonic() - begun < 30
    assert "--no-lock" in (caught.value.hint or "")
    assert played.closed

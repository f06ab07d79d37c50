"""Facts about brokers: protocols and releases by what they offer, and asking until they are ready."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

import pytest

from kafkaform.cluster.kafka import health, throttles
from kafkaform.cluster.kafka.facts import _read_group_protocols
from kafkaform.cluster.kafka.health import METADATA_LOG, find_release, read_quorum
from kafkaform.cluster.kafka.responses import GroupResponses, retry_until_ready
from kafkaform.cluster.transport import brokers
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.transport.translation import translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.message_schema import RequestType, read_response
from kafkaform.cluster.wire.messages import QUORUM, AlterConfigOperation
from kafkaform.core.errors import ClusterError, OutcomeUnknown, PermissionDenied
from kafkaform.core.health import Part, Quorum, Voter
from kafkaform.core.lock import unguarded
from kafkaform.resources.replicas.moves import LEADER_REPLICAS, ThrottledReplicas, Throttles
from tests.support.clusters.responses import encode

ENABLED = "group.coordinator.rebalance.protocols"
NEW = {68: (0, 1), 76: (1, 1), 88: (0, 0)}


class Offering:
    """A connection to a broker that offers requests in these versions."""

    def __init__(self, offered: Mapping[int, tuple[int, int]]) -> None:
        self._offered = offered

    def read_api_versions(self) -> Mapping[int, tuple[int, int]]:
        return self._offered


def protocols(offered: Mapping[int, tuple[int, int]], *enabled: str | None) -> frozenset[str]:
    configs = {broker: {} if names is None else {ENABLED: names} for broker, names in enumerate(enabled)}
    return _read_group_protocols(cast("Connection", Offering(offered)), cast("Any", configs))


@pytest.mark.parametrize(
    ("offered", "wanted"),
    [
        ({}, {"classic"}),
        ({68: (0, 0)}, {"classic"}),  # the preview of 3.7 to 3.9
        ({68: (0, 1), 76: (0, 0)}, {"classic", "consumer"}),
        ({68: (0, 1), 76: (1, 1)}, {"classic", "consumer", "share"}),
        (NEW, {"classic", "consumer", "share", "streams"}),
    ],
)
def test_group_protocols_follow_heartbeats(offered: Mapping[int, tuple[int, int]], wanted: set[str]) -> None:
    assert protocols(offered) == wanted, "of brokers that tell no configs"
    assert protocols(offered, "classic,consumer", "classic,consumer") == wanted
    assert protocols(offered, None, None) == wanted


@pytest.mark.parametrize("other", ["classic", None])
def test_older_broker_limits_group_protocols(other: str | None) -> None:
    assert protocols(NEW, "classic,consumer", other) == frozenset({"classic"})


def test_failed_connection_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "_PAUSE_S", 0)
    failures = [ClusterError("refused")] * 2

    def send() -> str:
        if failures:
            raise failures.pop()
        return "answer"

    assert brokers.retry(send) == "answer"
    failures.extend([ClusterError("refused")] * 99)
    with pytest.raises(ClusterError, match="refused"):
        brokers.retry(send)
    failures[:] = [ClusterError("not reached"), PermissionDenied("no")]
    with pytest.raises(PermissionDenied):
        brokers.retry(send)
    assert len(failures) == 1


@pytest.mark.parametrize(
    ("offered", "release"),
    [
        ({}, ""),
        ({60: (0, 0), 2: (0, 7)}, "3.0"),
        ({60: (0, 2), 2: (1, 11), 1: (4, 17), 35: (1, 4)}, "3.5"),
        # A service that offers requests of later versions without those of earlier ones.
        ({2: (0, 11), 3: (0, 13)}, ""),
    ],
)
def test_release_is_newest_completely_supported(offered: dict[int, tuple[int, int]], release: str) -> None:
    assert find_release(offered) == release


def test_unready_coordinator_is_retried() -> None:
    """A group that is in no answer the second time does not exist: the first answer does not stand."""
    moving = translate_code(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "")
    script = [
        GroupResponses[int]({"a": 1}, {"b": moving, "c": moving, "d": PermissionDenied("no")}),
        GroupResponses[int]({"b": 2}),
    ]
    asked = []

    def send(names: Collection[str]) -> GroupResponses[int]:
        asked.append(list(names))
        return script.pop(0)

    answers = retry_until_ready(["a", "b", "c", "d"], send)
    assert asked == [["a", "b", "c", "d"], ["b", "c"]]
    assert (answers.found, list(answers.failed)) == ({"a": 1, "b": 2}, ["d"])


TIMEOUT_S = 3.0
NO_TAGS = b"\x00"
NOT_LEADER, NOT_AUTHORISED, UNSUPPORTED, INVALID_REQUEST = 6, 31, 35, 42


class Replica(NamedTuple):
    """A replica as a quorum tells of it: its id, the end of its log, and when it fetched last."""

    id: int
    end: int
    fetched_ms: int = 0


class Answering:
    """A connection whose brokers know some versions of the request, and answer it as told."""

    def __init__(self, versions: Sequence[int], answer: bytes | ClusterError) -> None:
        self._versions = versions
        self._answer = answer
        self.asked: list[tuple[int, bytes]] = []
        self.patience_s = 0.0

    def offers(self, request_type: RequestType[Any]) -> bool:
        return request_type.is_offered(self._build_versions())

    def _build_versions(self) -> dict[int, tuple[int, int]]:
        return {QUORUM.key: (min(self._versions), max(self._versions))} if self._versions else {}

    def send(self, request_type: RequestType[Any], requests: list[Any], *, timeout_s: float) -> list[Any]:
        self.patience_s = timeout_s
        version = request_type.version(self._build_versions())
        self.asked += [(version, request_type.write(request, version)) for request in requests]
        if isinstance(self._answer, ClusterError):
            raise self._answer
        return [read_response(request_type, self._answer, version, "a broker")]


def answer(leader: int, voters: Sequence[Replica], version: int, error: int = 0, of_all: int = 0) -> bytes:
    replicas = [
        {"id": each.id, "end": each.end}
        | ({"fetched_ms": each.fetched_ms, "caught_up_ms": each.fetched_ms} if version else {})
        for each in voters
    ]
    partition: dict[str, object] = {"index": 0, "error_code": error, "leader": leader, "leader_epoch": 5}
    partition |= {"high_watermark": 100, "voters": replicas, "observers": replicas[:1]}
    topics = [{"name": METADATA_LOG, "partitions": [partition]}]
    return encode(QUORUM, version, error_code=of_all, topics=topics)


def quorum(leader: int, *voters: Replica, version: int = 1) -> Quorum:
    brokers = Answering([version], answer(leader, voters, version))
    return read_quorum(cast("Connection", brokers), None, TIMEOUT_S)


def test_voter_lag_is_measured_from_leader() -> None:
    voters = [Replica(1, 100, 50_000), Replica(2, 90, 49_500), Replica(3, -1, -1), Replica(4, 101, 50_001)]
    assert quorum(1, *voters) == Quorum(
        1, (Voter(1, 0), Voter(2, 10, 500), Voter(3, None, None), Voter(4, 0, 0))
    )
    response = quorum(1, Replica(1, 100), Replica(2, 90), version=0)
    assert response == Quorum(1, (Voter(1, 0), Voter(2, 10, None)))
    assert quorum(-1, Replica(1, 5, 5)) == Quorum(None, (Voter(1, None),))


@pytest.mark.parametrize(("known", "asked"), [((0,), 0), ((0, 1), 1), ((1, 2), 1)])
def test_latest_known_quorum_version_is_requested(known: tuple[int, ...], asked: int) -> None:
    brokers = Answering(known, answer(1, [Replica(1, 5, 5)], asked))
    assert read_quorum(cast("Connection", brokers), None, TIMEOUT_S) == Quorum(1, (Voter(1, 0),))
    body = b"\x02\x13__cluster_metadata\x02" + bytes(4) + NO_TAGS * 3
    assert (brokers.asked, brokers.patience_s) == ([(asked, body)], TIMEOUT_S)


def test_zookeeper_controller_is_read_from_metadata() -> None:
    brokers = Answering([], ClusterError("nobody is asked"))
    assert read_quorum(cast("Connection", brokers), 7, TIMEOUT_S) == Quorum(7)


@pytest.mark.parametrize("told", [answer(-1, [], 1, NOT_LEADER), OutcomeUnknown("timed out")])
def test_quorum_without_leader_is_empty(told: bytes | ClusterError) -> None:
    unread: dict[Part, str] = {}
    assert health._read_quorum(cast("Connection", Answering([1], told)), 7, unread) == Quorum(None)
    assert unread == {}


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (answer(-1, [], 1, of_all=UNSUPPORTED), ""),
        (answer(-1, [], 1, of_all=INVALID_REQUEST), ""),
        (answer(-1, [], 1, of_all=NOT_AUTHORISED), "not authorised"),
        (PermissionDenied("not authorised"), "not authorised"),
    ],
)
def test_refused_quorum_request_is_unread(told: bytes | ClusterError, reason: str) -> None:
    unread: dict[Part, str] = {}
    assert health._read_quorum(cast("Connection", Answering([1], told)), 7, unread) is None
    assert unread.keys() == {Part.QUORUM}
    assert reason in unread[Part.QUORUM]


class Lagging:
    """A connection to brokers that show an entry for a while after it was removed, and refuse one topic."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code
        self.readings = 0
        self.unset: set[str] = set()

    def send(self, _: object, requests: Sequence[Any], **__: object) -> list[dict[str, Any]]:
        (request,) = requests
        changes = {item["name"]: item["configs"] for item in request["resources"]}
        self.unset |= {
            name
            for name, configs in changes.items()
            if any(change["operation"] is AlterConfigOperation.DELETE for change in configs)
        }
        codes = {name: self.code if name == "refused" else 0 for name in changes}
        return [
            {"resources": [{"name": n, "error_code": code, "error_message": ""} for n, code in codes.items()]}
        ]

    def lists(self, _: object, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        self.readings += 1
        return {name: {LEADER_REPLICAS: "0:1" if self.readings < 3 else ""} for name in topics}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PART, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_failed_throttle_removal_stops_no_other_topics(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Lagging(code)
    monkeypatch.setattr(throttles, "read_lists", brokers.lists)
    entries = ThrottledReplicas(frozenset({"0:1"}))
    failed = None
    try:
        throttles.clear_throttles(
            cast("Connection", brokers), Throttles(replicas={"refused": entries, "kept": entries}), unguarded
        )
    except ClusterError as error:
        failed = error
    # One that was deleted has nothing to remove.
    assert (failed is None) is (code is ErrorCode.UNKNOWN_TOPIC_OR_PART)
    assert brokers.unset == {"kept"}

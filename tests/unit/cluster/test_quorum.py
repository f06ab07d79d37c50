"""The quorum of controllers, from answers that the brokers of these tests do not give."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import pytest

from kafkaform.cluster.kafka import health
from kafkaform.cluster.kafka.health import METADATA_LOG, read_quorum
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.message_schema import RequestType, read_response
from kafkaform.cluster.wire.messages import QUORUM
from kafkaform.core.errors import ClusterError, OutcomeUnknown, PermissionDenied
from kafkaform.core.health import Part, Quorum, Voter
from tests.support.clusters.responses import encode

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

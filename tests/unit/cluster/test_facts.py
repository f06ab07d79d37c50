"""Facts about brokers: protocols and releases by what they offer, and asking until they are ready."""

from collections.abc import Collection, Mapping
from typing import Any, cast

import pytest

from kafkaform.cluster.kafka.facts import _read_group_protocols
from kafkaform.cluster.kafka.health import find_release
from kafkaform.cluster.kafka.responses import GroupResponses, retry_until_ready
from kafkaform.cluster.transport import brokers
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.transport.translation import translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.core.errors import ClusterError, PermissionDenied

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
def test_group_protocols_follow_supported_heartbeats(
    offered: Mapping[int, tuple[int, int]], wanted: set[str]
) -> None:
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

"""The health of a real cluster, as it is read."""

from __future__ import annotations

import pytest

from kafkaform.cluster.kafka.health import find_release
from kafkaform.cluster.transport import brokers
from kafkaform.core.errors import ClusterError, PermissionDenied


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

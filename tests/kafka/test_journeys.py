"""Main journeys on brokers of the newest version, every day; tests/versions takes all of them on others."""

from pathlib import Path

import pytest

from kafkaform.devcluster.cluster import DevCluster
from kafkaform.plan import measuring
from tests.support.cli.project import Project
from tests.support.clusters.journeys import Site, take


@pytest.mark.parametrize(
    "name",
    [
        *("recreate", "classic groups", "consumer groups (KIP-848)"),
        *("offset reset", "replication factor", "rebalance"),
    ],
)
def test_journey_meets_no_limit(
    kafka3: DevCluster, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(measuring, "WATCH_S", 0.0)  # no consumer by assign() is about
    servers = kafka3.bootstrap_servers
    assert take(name, Site(Project(tmp_path, servers, prefix), servers)) == "yes"

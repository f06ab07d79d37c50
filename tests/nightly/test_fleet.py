"""The overview of five real clusters: one is of another version, one behind a service, and one is down."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafkaform.cluster.transport import connection
from tests.support.cli.project import ROOT, Project
from tests.support.clusters.fixtures import start_behind_proxy, start_guarded
from tests.support.clusters.vendor_profiles import REDPANDA

pytestmark = pytest.mark.nightly("four clusters of its own")

COSTS = {"currency": "EUR", "gigabyteMonth": 0.08, "partitionMonth": 0.5}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A topic on five clusters, all as declared but for a change by hand on one of them."""
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(start_guarded(1, heap_mb=256, kafka_version=version)).bootstrap_servers
            for name, version in (("eu", "4.3.1"), ("us", "4.3.1"), ("legacy", "3.9.1"))
        }
        proxy = stack.enter_context(start_behind_proxy(1, heap_mb=256))
        stack.enter_context(proxy.offering(REDPANDA))
        servers |= {"service": proxy.bootstrap_servers, "gone": "127.0.0.1:1"}
        project = Project(tmp_path, servers["us"], "")
        project.config(
            clusters={
                name: {"client": {"bootstrap.servers": address}, "labels": {"live": name != "gone"}}
                for name, address in servers.items()
            },
            costs=COSTS,
        )
        yield project


def test_fleet_overview_covers_five_clusters(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 3.0)
    project.topic("orders", partitions=2, replicationFactor=1, retention="7d")
    project.run("apply", "--clusters", "live=true", "--auto-approve").needs(0)
    project.set_config("orders", "retention.ms", str(30 * 86_400_000))
    project.topic("payments", partitions=4, replicationFactor=1)
    project.run("apply", "--clusters", "eu", "--clusters", "service", "--auto-approve").needs(0)

    overview = ("status", "--clusters", "*", "--overview")
    call = project.run(*overview).needs(1)
    table, _, total = call.out.split("\n\n")
    shown = (ROOT / "docs" / "clusters.md").read_text("utf-8")
    assert f"{table}\n\n" in shown, call.out
    assert f"\n{total}```" in shown, call.out
    data = project.run(*overview, "--format", "json").needs(1).json["clusters"]
    assert data["us"]["plan"]["needs_consent"] == 1
    assert "127.0.0.1:1" in data["gone"]["error"]["message"]

    plans = project.run("plan", "--clusters", "*", "--format", "json").needs(1).json["clusters"]
    assert plans["legacy"]["cost"]["per_month"] == "2.00"
    status = project.run("status", "--cluster", "eu", "--format", "json").needs(0).json
    assert round(status["costs"]["teams"][""], 2) == 3.0
    project.run("compare", "eu", "--clusters", "legacy", "--clusters", "us").needs(2)
    project.run("arrivals", "--clusters", "*").needs(1)

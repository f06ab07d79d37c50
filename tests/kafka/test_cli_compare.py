"""`kafkaform compare` between two real clusters, and between two environments."""

from __future__ import annotations

import pytest

from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import connect
from tests.support.clusters.topics import make_topic


@pytest.fixture
def project(project: Project, kafka3: DevCluster) -> Project:
    """Two clusters, each with an environment."""
    project.config(
        environments=["dev", "prod"],
        clusters={
            "dev": {"environment": "dev", "client": {"bootstrap.servers": project.servers}},
            "prod": {"environment": "prod", "client": {"bootstrap.servers": kafka3.bootstrap_servers}},
        },
    )
    return project


def create(servers: str, name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> None:
    """A topic made by hand."""
    with connect(servers) as cluster:
        make_topic(cluster, name, partitions, replicas, (), **configs)


def test_two_live_clusters_that_differ(
    project: Project, kafka: DevCluster, kafka3: DevCluster, prefix: str
) -> None:
    create(kafka.bootstrap_servers, f"{prefix}orders", 3, retention_ms="604800000", segment_ms="3600000")
    create(kafka3.bootstrap_servers, f"{prefix}orders", 6, segment_ms="3600000")
    create(kafka.bootstrap_servers, f"{prefix}new")
    call = project.run("compare", "dev", "prod", "--match", f"{prefix}*", "--format", "json").needs(2)
    found = {item["name"].removeprefix(prefix): item for item in call.json["differences"]}
    assert {name: (value["in_a"], value["in_b"]) for name, value in found.items()} == {
        "new": (True, False),
        "orders": (True, True),
    }
    fields = {field["path"]: field for field in found["orders"]["fields"]}
    assert [*fields] == ["partitions", "config.retention.ms"]
    assert (fields["partitions"]["a"], fields["partitions"]["b"]) == (3, 6)
    retention = fields["config.retention.ms"]
    assert (retention["a"], retention["b"], retention["same_effect"]) == ("604800000", None, True)


def test_cluster_that_does_not_answer_is_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaform.cluster.transport.connection.CONNECT_TIMEOUT_S", 0.5)
    addresses = {"dev": project.servers, "strange": "127.0.0.1:1"}
    clusters = {name: {"client": {"bootstrap.servers": address}} for name, address in addresses.items()}
    project.config(clusters=clusters)
    call = project.run("compare", "dev", "strange", "--no-manifests").needs(1)
    assert call.said.startswith("Error: strange: ")

"""`kafkaform graph`: from manifests without a cluster, and with what is live."""

from __future__ import annotations

from pathlib import Path

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project
from tests.support.clusters.group_clients import commit
from tests.support.clusters.topics import make_topic


def test_live_graph_has_lag(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str, tmp_path: Path
) -> None:
    project = Project(tmp_path, kafka.bootstrap_servers, prefix)
    found = make_topic(real_cluster, f"{prefix}found")
    commit(project.servers, f"{prefix}stray", {(found, 0): 0})
    orders = project.topic("orders")
    project.group("shop", topics=[orders])
    data = project.run("graph", "--live", "--format", "json").needs(0).json
    nodes = {node["name"]: (node["declared"], node["live"]) for node in data["nodes"]}
    assert {name: label for name, label in nodes.items() if name.startswith(prefix)} == {
        found: (False, True),
        orders: (True, False),
        f"{prefix}shop": (True, False),
        f"{prefix}stray": (False, True),
    }
    mine = [edge for edge in data["edges"] if edge["group"].startswith(prefix)]
    assert mine == [
        {"topic": found, "group": f"{prefix}stray", "declared": False, "live": True, "lag": 0},
        {"topic": orders, "group": f"{prefix}shop", "declared": True, "live": False, "lag": None},
    ]
    assert "__consumer_offsets" not in nodes

"""`kafkaform graph`: from manifests without a cluster, and with what is live."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.project import Project

GROUP = """\
apiVersion: kafkaform/v1
kind: ConsumerGroup
metadata: {{name: {name}, labels: {{team: shop}}}}
spec: {{topics: [{topic}]}}
"""


@pytest.fixture
def offline(tmp_path: Path) -> Project:
    """A project whose cluster nobody must ask: there is none at that address."""
    return Project(tmp_path, "127.0.0.1:1", "")


def test_graph_of_manifests_needs_no_cluster(offline: Project) -> None:
    offline.topic("orders", metadata={"labels": {"owner": "checkout"}})
    offline.write("topics/groups.yaml", GROUP.format(name="shop", topic="orders"))
    call = offline.run("graph").needs(0)
    head, *lines = call.out.splitlines()
    assert head == "flowchart LR"
    assert [line.split("[")[0].split("(")[0].strip() for line in lines] == [
        "topic_orders",
        "consumergroup_shop",
        "topic_orders --> consumergroup_shop",
    ]
    assert offline.run("graph", "topics", "--format", "dot").needs(0).out.startswith("digraph kafka {\n")
    assert offline.run("graph", "--format", "json").needs(0).json["edges"] == [
        {"topic": "orders", "group": "shop", "declared": True, "live": None, "lag": None}
    ]

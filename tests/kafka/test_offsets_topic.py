"""Brokers that cannot create the topic which groups are kept in: that is said, and not waited for."""

import json
from pathlib import Path

import pytest

from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import group_clusters

REASON = "offsets.topic.replication.factor is 3, and 1 broker is up"
REMEDY = "start 2 more brokers"


@pytest.fixture(scope="module")
def lonely() -> DevCluster:
    """One broker that wants three replicas of the topic of groups, as is Kafka's default."""
    return group_clusters.running("lonely", 1, properties={"offsets.topic.replication.factor": "3"})


def test_lock_without_offsets_topic_fails_immediately(lonely: DevCluster, tmp_path: Path) -> None:
    project = Project(tmp_path, lonely.bootstrap_servers, "locked.")
    project.topic("a")
    call = project.run("apply", "topics", "--auto-approve", env={"KAFKAFORM_LOCK": "true"}).needs(1)
    assert REASON in call.words
    assert REMEDY in call.words
    assert "did not answer" not in call.words
    assert project.live() == {}


def test_missing_offsets_topic_fails_only_group_operations(lonely: DevCluster, tmp_path: Path) -> None:
    project = Project(tmp_path, lonely.bootstrap_servers, "offsets.")
    project.topic("a")
    project.group("g", topics=["offsets.a"], offsets={"initial": "earliest"})
    call = project.run("apply", "topics", "--auto-approve", "--format", "json").needs(1)
    results = {result["name"]: result for result in json.loads(call.out)["results"]}
    assert results["offsets.a"]["result"] == "applied"
    assert results["offsets.g"]["result"] == "failed"
    assert REASON in results["offsets.g"]["message"]
    assert REMEDY in results["offsets.g"]["hint"]

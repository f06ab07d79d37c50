"""Replication factors, and rebalances, as a user has them changed: on three real brokers in three racks."""

from pathlib import Path

import pytest

from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.replicas.moves import Rates, ThrottledReplicas, Throttles
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import connect, eventually
from tests.support.clusters.load_clients import fill
from tests.support.clusters.topics import place_topic


@pytest.fixture
def three(kafka3: DevCluster, prefix: str, tmp_path: Path) -> Project:
    return Project(tmp_path, kafka3.bootstrap_servers, prefix)


def test_foreign_moves_and_throttles_are_named(three: Project) -> None:
    """Somebody's move crawls at a rate of theirs: drift and plans show it, and estimates go by it."""
    moving, waiting = (three.prefix + name for name in ("moving", "waiting"))
    listed = ThrottledReplicas(frozenset({"0:1"}), frozenset({"0:3"}))
    foreign = Throttles({1: Rates(leader=1_000), 3: Rates(follower=1_000)}, {moving: listed})
    with connect(three.servers) as cluster:
        for name in (moving, waiting):
            place_topic(cluster, name, ((1,),))
            fill(three.servers, name, 1, 4_000_000)
        cluster.set_throttles(foreign)
        try:
            assert cluster.reassign({(moving, 0): (1, 3)}) == {(moving, 0): None}
            eventually(lambda: cluster.layout().reassigning, bool)
            three.topic("moving", replicationFactor=1)
            three.topic("waiting", replicationFactor=3)
            drift = three.run("drift", "topics").needs(2).words
            assert "partition 0 from 1 to 1:3" in drift
            assert "layout of the cluster" not in drift
            plan = three.run("plan", "topics", "--target", f"Topic/{moving}").needs(1).words
            assert "partition 0 from 1 to 1:3" in plan
            assert "layout of the cluster" not in plan
            plan = three.run("plan", "topics", "--target", f"Topic/{waiting}").needs(0).words
            assert f"{moving}-0 from 1 to 1:3" in plan
            assert "broker 1 sends at most 1000 bytes/s" in plan
            call = three.apply("topics", "--target", f"Topic/{waiting}").needs(1)
            assert f"is running: {moving}-0 from 1 to 1:3" in call.out
            assert "whenBusy: wait" in call.out
        finally:
            cluster.reassign({(moving, 0): None})
            cluster.clear_throttles(foreign)

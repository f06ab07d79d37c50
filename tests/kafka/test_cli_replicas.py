"""Replication factors, and rebalances, as a user has them changed: on three real brokers in three racks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.replicas.layout import Assignment
from kafkaform.resources.replicas.moves import Rates, ThrottledReplicas, Throttles
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import connect, eventually
from tests.support.clusters.topics import place_topic
from tests.support.plans.moves import now_on


@pytest.fixture
def three(kafka3: DevCluster, prefix: str, tmp_path: Path) -> Project:
    return Project(tmp_path, kafka3.bootstrap_servers, prefix)


def replicas(project: Project, name: str) -> Assignment:
    with connect(project.servers) as cluster:
        return now_on(cluster, project.prefix + name)


def test_reviewed_replication_factor_is_applied(three: Project) -> None:
    three.topic("a", partitions=4, replicationFactor=1)
    three.topic("b", replicationFactor=1)
    three.apply("topics").needs(0)
    three.topic("a", partitions=4, replicationFactor=3, retention="8d", config={"min.insync.replicas": 2})
    three.topic("b", replicationFactor=3)
    before = replicas(three, "a")
    three.run("plan", "topics", "--out", "plan.json", "--detailed-exitcode").needs(2)
    plan = json.loads((three.folder / "plan.json").read_text())
    (reviewed,) = (change for change in plan["changes"] if change["name"] == f"{three.prefix}a")
    fields = {field["path"]: (field["before"], field["after"]) for field in reviewed["fields"]}
    assert fields["replicationFactor"] == (1, 3)
    assert fields["placement"][0] == ",".join(str(broker) for (broker,) in before)

    call = three.apply("plan.json", "--throttle", "10MB/s").needs(0)
    assert "4 partitions: 8 replicas added" in call.out
    assert "moving replicas: 5 of 5 partitions" in call.err
    after = replicas(three, "a")
    assert ",".join(":".join(map(str, brokers)) for brokers in after) == fields["placement"][1]
    assert [brokers[0] for brokers in after] == [broker for (broker,) in before]
    assert three.live()["a"] | {"partitions": 4} == {
        "partitions": 4,
        "retention.ms": "691200000",
        "min.insync.replicas": "2",
    }
    assert "already in place" in three.apply("plan.json").needs(0).out
    three.run("plan", "topics", "--detailed-exitcode").needs(0)

    three.topic("a", partitions=4, replicationFactor=2, retention="8d", config={"min.insync.replicas": 2})
    three.apply("topics", "--target", "Topic/*a").needs(0)
    assert all(new == [b for b in old if b in new] for old, new in pairs(after, replicas(three, "a")))

    three.topic("b", replicationFactor=1)
    call = three.apply("topics", "--target", "Topic/*b").needs(1)
    assert "replication-factor-cut" in call.out
    assert [len(brokers) for brokers in replicas(three, "b")] == [3]
    consent = f"Topic/{three.prefix}b:replication-factor-cut"
    three.apply("topics", "--target", "Topic/*b", "--allow", consent).needs(0)
    assert [len(brokers) for brokers in replicas(three, "b")] == [1]


def pairs(before: Assignment, after: Assignment) -> list[tuple[list[int], list[int]]]:
    assert [len(brokers) for brokers in after] == [2] * len(before)
    return [([*old], [*new]) for old, new in zip(before, after, strict=True)]


def test_rebalance_is_planned_saved_and_applied(three: Project) -> None:
    name = f"{three.prefix}heavy"
    with connect(three.servers) as cluster:
        place_topic(cluster, name, ((1, 2),) * 6)
    some = ("--topics", f"{three.prefix}*")
    call = three.run("rebalance", *some, "--remove-broker", 1, "--out", "drain.json").needs(0)
    assert "BROKER  RACK" in call.out
    assert "6 replicas to copy" in call.out
    assert "1 to update, 0 unchanged" in call.out
    assert "kafkaform apply drain.json " in call.err
    three.apply("drain.json").needs(0)
    eventually(lambda: replicas(three, "heavy"), lambda places: all(1 not in place for place in places))
    call = three.run("rebalance", *some, "--remove-broker", 1, "--detailed-exitcode").needs(0)
    assert call.out.endswith("\nNo changes.\n")

    as_json = three.run("rebalance", *some, "--add-broker", 1, "--format", "json").needs(0).json
    assert [change["name"] for change in as_json["changes"]] == [name]


def join_lines(text: str) -> str:
    return " ".join(text.split())


def test_foreign_moves_and_throttles_are_named(three: Project) -> None:
    """Somebody's move crawls at a rate of theirs: drift and plans show it, and estimates go by it."""
    moving, waiting = (three.prefix + name for name in ("moving", "waiting"))
    listed = ThrottledReplicas(frozenset({"0:1"}), frozenset({"0:3"}))
    foreign = Throttles({1: Rates(leader=1_000), 3: Rates(follower=1_000)}, {moving: listed})
    producer = Producer({"bootstrap.servers": three.servers})
    with connect(three.servers) as cluster:
        for name in (moving, waiting):
            place_topic(cluster, name, ((1,),))
            for _ in range(8):
                producer.produce(name, os.urandom(500_000), partition=0)
        assert producer.flush(30) == 0
        cluster.set_throttles(foreign)
        try:
            assert cluster.reassign({(moving, 0): (1, 3)}) == {(moving, 0): None}
            eventually(lambda: cluster.layout().reassigning, bool)
            three.topic("moving", replicationFactor=1)
            three.topic("waiting", replicationFactor=3)
            drift = three.run("drift", "topics").needs(2).out
            words = join_lines(drift)
            assert "partition 0 from 1 to 1:3" in words
            assert "layout of the cluster" not in drift
            plan = join_lines(three.run("plan", "topics", "--target", f"Topic/{moving}").needs(1).out)
            assert "partition 0 from 1 to 1:3" in plan
            assert "layout of the cluster" not in plan
            plan = join_lines(three.run("plan", "topics", "--target", f"Topic/{waiting}").needs(0).out)
            assert f"{moving}-0 from 1 to 1:3" in plan
            assert "broker 1 sends at most 1000 bytes/s" in plan
            call = three.apply("topics", "--target", f"Topic/{waiting}").needs(1)
            assert f"is running: {moving}-0 from 1 to 1:3" in call.out
            assert "whenBusy: wait" in call.out
        finally:
            cluster.reassign({(moving, 0): None})
            cluster.clear_throttles(foreign)

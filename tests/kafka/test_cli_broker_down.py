"""Commands while a broker is down: what cannot be read is named, and is not taken for nothing."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import TIMEOUT_S, bring_back, connect, eventually
from tests.support.clusters.group_clients import commit
from tests.support.clusters.topics import make_topic

DOWN = 3
GAP = "2 of 6 partitions could not be read (broker 3 does not answer)"
CUT = "retention-cut from 7d: T-1"


@pytest.fixture
def outage() -> Iterator[ExitStack]:
    """Yield the end of the outage of broker 3, which comes at the latest with the test."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def project(tmp_path: Path, kafka3: DevCluster, prefix: str, outage: ExitStack) -> Project:
    """A topic of six partitions with one replica each and data in all of them; broker 3 is down."""
    made = Project(tmp_path, kafka3.bootstrap_servers, prefix)
    name = made.topic("a", partitions=6, retention="7d")
    places = ((1,), (2,), (3,), (1,), (2,), (3,))
    with connect(kafka3.bootstrap_servers) as cluster:
        make_topic(cluster, name, 6, 1, places, retention_ms="604800000")
    producer = Producer({"bootstrap.servers": kafka3.bootstrap_servers})
    for partition in range(6):
        producer.produce(name, value=b"x" * 100_000, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0
    commit(kafka3.bootstrap_servers, name, dict.fromkeys(((name, number) for number in range(6)), 0))
    kafka3.stop_node(DOWN)
    outage.callback(bring_back, kafka3, DOWN)
    with connect(kafka3.bootstrap_servers) as cluster:
        spans = [(name, number) for number in range(6)]
        eventually(lambda: cluster.log_spans(spans), lambda found: len(found) == 4)
    return made


def cut(project: Project, *consents: str) -> None:
    """Declare a shorter retention of the topic, with consents."""
    annotations = {"kafkaform/allow": "\n".join(consents)} if consents else {}
    project.topic("a", partitions=6, retention="1d", metadata={"annotations": annotations})


def test_unreadable_data_needs_consent(project: Project, outage: ExitStack) -> None:
    cut(project, CUT, "unread-data from 7d: T-2")
    planned = project.run("plan", "topics", "--out", "part.json").needs(0).words
    assert GAP in planned
    assert "holds at least 39" in planned
    cut(project, CUT)
    waiting = project.run("plan", "topics").needs(1).words
    assert "unread-data" in waiting
    assert "start broker 3" in waiting
    project.topic("a", state="absent")
    assert GAP in project.run("plan", "topics").needs(1).words
    status = project.run("status", f"{project.prefix}a").needs(0)
    assert "≥ 39" in status.out
    assert f"the size of {project.prefix}a: {GAP}" in status.words
    assert "broker 3 is down" in status.words
    assert "hidden from this account" not in status.words
    project.topic("a", partitions=6, retention="7d")
    project.topic("new", partitions=3, replicationFactor=3)
    planned = project.run("plan", "topics").needs(1).words
    assert "replicationFactor is 3" in planned
    assert "start broker 3" in planned
    assert "or less" not in planned
    outage.close()
    back = project.apply("part.json").needs(1)
    assert "retention-cut" in back.words
    assert project.live()["a"]["retention.ms"] == "604800000"

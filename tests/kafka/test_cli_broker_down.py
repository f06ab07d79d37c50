"""Commands while a broker is down: what cannot be read is named, and is not taken for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafkaform.core.operations import CreateTopic
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.topic import topic_ref
from tests.support.cli_helpers import Call, Project
from tests.support.group_clients import commit
from tests.support.kafka_fixtures import TIMEOUT_S, connect, eventually

DOWN = 3
GAP = "2 of 6 partitions could not be read (broker 3 does not answer)"
CUT = "retention-cut from 7d: T-1"


@pytest.fixture
def outage() -> Iterator[ExitStack]:
    """What ends the outage of broker 3, at the latest with the test."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def project(tmp_path: Path, kafka3: DevCluster, prefix: str, outage: ExitStack) -> Project:
    """A topic of six partitions with one replica each and data in all of them; broker 3 is down."""
    made = Project(tmp_path, kafka3.bootstrap_servers, prefix)
    name = made.topic("a", partitions=6, retention="7d")
    places = ((1,), (2,), (3,), (1,), (2,), (3,))
    creation = CreateTopic(topic_ref(name), 6, 1, {"retention.ms": "604800000"}, places)
    with connect(kafka3.bootstrap_servers) as cluster:
        assert cluster.execute([creation]) == [None]
    producer = Producer({"bootstrap.servers": kafka3.bootstrap_servers})
    for partition in range(6):
        producer.produce(name, value=b"x" * 100_000, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0
    commit(kafka3.bootstrap_servers, name, dict.fromkeys(((name, number) for number in range(6)), 0))
    kafka3.stop_node(DOWN)
    outage.callback(kafka3.start_node, DOWN)
    with connect(kafka3.bootstrap_servers) as cluster:
        spans = [(name, number) for number in range(6)]
        eventually(lambda: cluster.log_spans(spans), lambda found: len(found) == 4)
    return made


def cut(project: Project, *consents: str) -> None:
    """Declare a shorter retention of the topic, with consents."""
    annotations = {"kafkaform/allow": "\n".join(consents)} if consents else {}
    project.topic("a", partitions=6, retention="1d", metadata={"annotations": annotations})


def words(call: Call) -> str:
    return " ".join(call.both.split())


def test_data_that_cannot_be_read_is_not_taken_for_none(project: Project, outage: ExitStack) -> None:
    cut(project, CUT, "unread-data from 7d: T-2")
    planned = words(project.run("plan", "topics", "--out", "part.json").needs(0))
    assert GAP in planned
    assert "holds at least 39" in planned
    cut(project, CUT)
    waiting = words(project.run("plan", "topics").needs(1))
    assert "needs consent to unread-data" in waiting
    assert "start broker 3, then plan again" in waiting
    project.topic("a", state="absent")
    assert GAP in words(project.run("plan", "topics").needs(1))
    status = project.run("status", f"{project.prefix}a").needs(0)
    assert "≥ 39" in status.out
    assert f"the size of {project.prefix}a: {GAP}" in words(status)
    outage.close()
    back = project.apply("part.json").needs(1)
    assert "needs consent to retention-cut" in words(back)
    assert project.live()["a"]["retention.ms"] == "604800000"


def test_what_is_missing_is_named_with_the_broker(project: Project) -> None:
    project.topic("new", partitions=3, replicationFactor=3)
    planned = words(project.run("plan", "topics").needs(1))
    assert "replicationFactor is 3, but there are 2 brokers: broker 3 is down" in planned
    assert "start broker 3, then plan again" in planned
    assert "or less" not in planned
    status = words(project.run("status", f"{project.prefix}a").needs(0))
    assert "has no leader: broker 3 is down" in status
    assert "hidden from this account" not in status

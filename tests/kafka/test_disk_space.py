"""Moves onto disks that cannot hold them, on real brokers."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkaform.devcluster.cluster import DevCluster
from kafkaform.devcluster.configuration import DATA_DIRECTORY
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import connect, eventually, start_guarded
from tests.support.clusters.load_clients import fill
from tests.support.clusters.topics import place_topic
from tests.support.plans.moves import now_on


@pytest.fixture
def three(kafka3: DevCluster, prefix: str, tmp_path: Path) -> Project:
    return Project(tmp_path, kafka3.bootstrap_servers, prefix)


def holding(project: Project, name: str, records: int) -> str:
    """A topic with one replica on broker 1 that holds so many records."""
    full = project.prefix + name
    with connect(project.servers) as cluster:
        place_topic(cluster, full, ((1,),))
        fill(project.servers, full, 1, records * 500_000)
        key = full, 0
        eventually(
            lambda: cluster.partition_sizes([key]), lambda sizes: sizes.get(key, 0) > records * 500_000
        )
    return full


def test_move_beyond_the_disk_reserve_is_refused(three: Project) -> None:
    """With a reserve of all bytes, no disk holds any more."""
    name = holding(three, "big", 4)
    three.topic("big", partitions=1, replicationFactor=3)
    three.config(limits={"diskReserve": "100%"})
    call = three.run("plan", "topics", "--out", "plan.json").needs(1)
    assert "broker 2 cannot hold" in call.out
    assert " usable, less a reserve of " in call.out
    plan = json.loads((three.folder / "plan.json").read_text())
    (change,) = plan["changes"]
    assert (change["status"], "(100% of " in change["reason"]) == ("refused", True)
    assert {field["path"]: field["risk"] for field in change["fields"]}["placement"] == "impossible"
    assert "cannot hold" in three.apply("topics").needs(1).out
    call = three.run("rebalance", "--topics", name, "--remove-broker", 1).needs(1)
    assert "update refused: broker " in call.out
    assert "broker 1 is not empty" in call.out
    with connect(three.servers) as cluster:
        assert now_on(cluster, name) == ((1,),)

    three.config(limits={"diskReserve": "0%"})
    three.run("plan", "topics", "--out", "plan.json").needs(0)
    # The disk fills up between the plan and its apply, as far as the reserve is concerned.
    three.config(limits={"diskReserve": "100%"})
    assert "cannot hold" in three.apply("plan.json").needs(1).out
    three.config(limits={"diskReserve": "0%"})
    three.apply("plan.json").needs(0)
    with connect(three.servers) as cluster:
        assert {*now_on(cluster, name)[0]} == {1, 2, 3}


@contextmanager
def mount_small_disk(cluster: DevCluster, broker: int, size: str) -> Iterator[None]:
    """Put the data of a broker on a small filesystem; the test is skipped where none can be mounted."""
    data = cluster.directory / f"node-{broker}" / DATA_DIRECTORY
    aside = data.with_name("aside")
    cluster.stop_node(broker)
    data.rename(aside)
    data.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(data)]
    try:
        subprocess.run(mount, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small filesystem cannot be mounted: {getattr(error, 'stderr', error)}")
    try:
        subprocess.run(["cp", "-a", "--sparse=always", f"{aside}/.", str(data)], check=True)
        cluster.start_node(broker)
        yield
    finally:
        cluster.stop_node(broker)
        subprocess.run(["umount", str(data)], check=True)


@pytest.mark.nightly("it starts brokers of its own, one of them on a small filesystem")
def test_small_disk_is_not_filled(tmp_path: Path) -> None:
    """Broker 2 has 64 MiB: moved there, 72 MB once filled its disk, and Kafka stopped the broker."""
    with start_guarded(2, heap_mb=256) as cluster, mount_small_disk(cluster, 2, "64m"):
        project = Project(tmp_path, cluster.bootstrap_servers, "")
        name = holding(project, "big", 144)
        small = holding(project, "small", 4)
        for topic in (name, small):
            project.topic(topic, partitions=1, replicationFactor=2, config={"min.insync.replicas": 1})
        call = project.apply("topics").needs(1)
        assert "largest replica: 68.7 MiB; " in call.out
        assert " of 64.0 MiB)" in call.out
        with connect(project.servers) as real:
            assert now_on(real, name) == ((1,),)
            eventually(lambda: now_on(real, small), lambda found: {*found[0]} == {1, 2})
            assert {broker.id for broker in real.layout().brokers} == {1, 2}

"""Commands on three real brokers in three racks: replicas, disks, imports, journeys, and one that is down."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from kafkaform.apply.moves.throttle_journal import ThrottleJournal, open_throttle_journal
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.config.settings import AuditSettings
from kafkaform.core.errors import RequestRejected
from kafkaform.core.progress import Clock
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.devcluster.configuration import DATA_DIRECTORY
from kafkaform.plan import measuring
from kafkaform.resources.replicas import moves
from kafkaform.resources.replicas.layout import Assignment
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import (
    TIMEOUT_S,
    admin_client,
    bring_back,
    connect,
    eventually,
    start_guarded,
)
from tests.support.clusters.group_clients import commit
from tests.support.clusters.journeys import Site, take
from tests.support.clusters.load_clients import fill, load
from tests.support.clusters.topics import make_topic, place_topic
from tests.support.plans.moves import MB, Crew, now_on, work
from tests.support.plans.scenes import VARIED, topic


@pytest.fixture
def three(kafka3: DevCluster, prefix: str, tmp_path: Path) -> Project:
    return Project(tmp_path, kafka3.bootstrap_servers, prefix)


def test_foreign_moves_and_throttles_are_named(three: Project) -> None:
    """Somebody's move crawls at a rate of theirs: drift and plans show it, and estimates go by it."""
    moving, waiting = (three.prefix + name for name in ("moving", "waiting"))
    listed = moves.ThrottledReplicas(frozenset({"0:1"}), frozenset({"0:3"}))
    foreign = moves.Throttles(
        {1: moves.Rates(leader=1_000), 3: moves.Rates(follower=1_000)}, {moving: listed}
    )
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


SINGLE: Assignment = ((1,), (2,), (3,))
TRIPLE: Assignment = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
SIZE = 4 * MB
"""What each partition holds."""


@pytest.fixture
def real(kafka3: DevCluster) -> Iterator[KafkaCluster]:
    with connect(kafka3.bootstrap_servers) as cluster:
        yield cluster
        check_throttles_off(cluster)


def crew_of(
    cluster: KafkaCluster, throttle_journal: ThrottleJournal | None = None, **options: object
) -> Crew:
    given = moves.MoveOptions(**{"throttle": None, **options})  # type: ignore[arg-type]
    crew = Crew(cluster, given, clock=Clock())
    if throttle_journal is not None:
        crew.throttle_journal = throttle_journal
    return crew


def bytes_on(cluster: KafkaCluster, name: str) -> dict[tuple[int, int], int]:
    sizes = cluster.replica_sizes([(name, number) for number in range(len(SINGLE))])
    return {(partition, broker): size for (_, partition, broker), size in sizes.items()}


def check_throttles_off(cluster: KafkaCluster) -> None:
    """Fail unless all throttles are off."""
    eventually(lambda: cluster.throttles([*cluster.layout().topics]), lambda left: not left)


def test_replica_moves_lose_no_records(real: KafkaCluster, kafka3: DevCluster, prefix: str) -> None:
    name = f"{prefix}a"
    place_topic(real, name, SINGLE)
    fill(kafka3.bootstrap_servers, name, len(SINGLE), SIZE)
    with load(kafka3.bootstrap_servers, name, len(SINGLE)) as producing:
        producing.moves_on()
        journal = open_throttle_journal(real, AuditSettings(), "aaa", real.facts().cluster_id)
        crew = crew_of(real, journal, throttle=50 * MB, batch_partitions=2)
        report = crew.move(work(name, SINGLE, TRIPLE))
        assert report.outcomes == {topic(name): None}, crew.notes.lines
        eventually(lambda: now_on(real, name), lambda found: found == TRIPLE)
        eventually(
            lambda: [{*state.isr} for state in real.layout().topics[name]],
            lambda in_sync: in_sync == [{1, 2, 3}] * 3,
        )
        sizes = bytes_on(real, name)
        assert len(sizes) == 9
        assert min(sizes.values()) >= SIZE
        last = crew.notes.progress[-1]
        assert (last.batches, last.partitions_done, last.bytes_done) == (2, 3, last.bytes_total)
        assert last.bytes_total >= 6 * SIZE
        check_throttles_off(real)
        producing.moves_on()
        report = crew_of(real).move(work(name, TRIPLE, ((2, 1), (3, 2), (1, 3))))
        assert report.outcomes == {topic(name): None}
        states = eventually(
            lambda: real.layout().topics[name], lambda found: [state.leader for state in found] == [2, 3, 1]
        )
        assert [state.replicas for state in states] == [(2, 1), (3, 2), (1, 3)]
        producing.moves_on()
    producing.prove()


def test_longest_list_of_throttled_replicas_fits(real: KafkaCluster) -> None:
    name = "moves-long-list"
    place_topic(real, name, SINGLE)
    entries = [f"{number:05d}:10001" for number in range(moves.MAX_THROTTLE_LIST_BYTES // 12 + 1)]
    fitting = moves.ThrottledReplicas(frozenset(entries[:-1]))
    real.set_throttles(moves.Throttles({}, {name: fitting}))
    assert real.throttles([name]).replicas == {name: fitting}
    replicas = moves.ThrottledReplicas(frozenset(entries[-1:]))
    with pytest.raises(RequestRejected, match="32767 bytes"):
        real.set_throttles(moves.Throttles({}, {name: replicas}))
    real.clear_throttles(moves.Throttles({}, {name: fitting}))


def test_plan_of_imported_topics_and_groups_is_empty(three: Project) -> None:
    """Of topics as Kafka's own tools make them, with every shape of configs, on one and two brokers."""
    prefix = three.prefix
    topics = [
        NewTopic(f"{prefix}{number:03}", 1 + number % 3, 1 + number % 2, config=VARIED[number % len(VARIED)])
        for number in range(3 * len(VARIED))
    ]
    admin, names = admin_client(three.servers), {topic.topic for topic in topics}
    for future in admin.create_topics(topics, request_timeout=TIMEOUT_S).values():
        future.result(TIMEOUT_S)
    eventually(lambda: {*admin.list_topics(timeout=TIMEOUT_S).topics}, lambda found: names <= found)
    commit(three.servers, f"{prefix}shop/eu 1", {(f"{prefix}000", 0): 0})
    call = three.run("import", "--match", f"{prefix}*").needs(0)
    assert call.out.startswith(f"Written: {len(topics)} topics and 1 group in {len(topics) + 1} files ")
    plan = three.run("plan", "--format", "json", "--detailed-exitcode").needs(0).json
    assert (plan["changes"], plan["undeclared"], plan["unknown"]) == ([], [], [])
    assert plan["summary"]["unchanged"] == len(topics) + 1
    files = (three.folder / "topics").rglob("*.yaml")
    assert {line for file in files for line in file.read_text("utf-8").splitlines() if "Factor" in line} == {
        "  replicationFactor: 1",
        "  replicationFactor: 2",
    }


@pytest.mark.parametrize(
    "name",
    [
        *("recreate", "classic groups", "consumer groups (KIP-848)"),
        *("offset reset", "replication factor", "rebalance"),
    ],
)
def test_journey_meets_no_limit(three: Project, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(measuring, "WATCH_S", 0.0)  # no consumer by assign() is about
    assert take(name, Site(three, three.servers)) == "yes"


DOWN = 3
GAP = "2 of 6 partitions could not be read (broker 3 does not answer)"
CUT = "retention-cut from 7d: T-1"


@pytest.fixture
def outage() -> Iterator[ExitStack]:
    """Yield the end of the outage of broker 3, which comes at the latest with the test."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def project(three: Project, kafka3: DevCluster, outage: ExitStack) -> Project:
    """A topic of six partitions with one replica each and data in all of them; broker 3 is down."""
    name = three.topic("a", partitions=6, retention="7d")
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
    return three


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

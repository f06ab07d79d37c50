"""Moving replicas of real data on three brokers, with producers at work, and with all that goes wrong.

The brokers are those of this file alone: they are stopped and killed. Applies are processes of their own,
with the lock and the record, as they are stopped and killed too.

A throttle allows ten seconds' worth at once, so what is to be met in the midst copies far more than that.
"""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from kafkaform.audit.trail import read_record
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.config.settings import AuditSettings
from kafkaform.core.lock import Holder
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.replicas.layout import Assignment
from kafkaform.resources.replicas.moves import Throttles
from tests.support.cli.project import Call, Project, command, environment
from tests.support.clusters.fixtures import (
    TIMEOUT_S,
    await_brokers,
    connect,
    eventually,
    remove_topics,
    start_guarded,
)
from tests.support.clusters.load_clients import fill, load
from tests.support.clusters.topics import place_topic
from tests.support.plans.moves import MB, now_on

pytestmark = pytest.mark.nightly("producers at work, and megabytes that are copied slowly on purpose")

SINGLE: Assignment = ((1,), (2,), (3,))
SIZE = 20 * MB
"""What each partition holds; of `SINGLE`, every broker then receives twice that for two replicas more."""
SLOW = "1MB"
"""With which `SINGLE` takes half a minute and more."""
AWAY_S = 15
"""How long after the death of an apply its lock is free."""
LIMIT_S = 120.0

SAFEGUARDED = {"KAFKAFORM_LOCK": "true", "KAFKAFORM_AUDIT": "true"}


@pytest.fixture(scope="module")
def brokers() -> Iterator[DevCluster]:
    sessions = {
        "group.consumer.min.session.timeout.ms": f"{AWAY_S}000",
        "group.consumer.session.timeout.ms": f"{AWAY_S}000",
    }
    with start_guarded(3, heap_mb=256, properties=sessions) as cluster:
        # Brokers make the topic of groups for the first of them, and only while all three are up.
        with (
            connect(cluster.bootstrap_servers) as first,
            first.lock(Holder("first"), timeout_s=TIMEOUT_S, tell=print),
        ):
            pass
        yield cluster


@pytest.fixture
def real(brokers: DevCluster) -> Iterator[KafkaCluster]:
    with connect(brokers.bootstrap_servers) as cluster:
        yield cluster
    for node in brokers.status().nodes:  # a test that failed may have left one down
        if node.pid is None:
            brokers.start_node(node.id)


@pytest.fixture
def project(brokers: DevCluster, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path, brokers.bootstrap_servers, f"{request.node.name[5:20]}.")
    yield made
    while Applying.started:
        process = Applying.started.pop()
        process.kill()  # where a test failed; the others are over
        process.wait()
    remove_topics(made.servers, made.prefix)


class Applying:
    """An apply at work.

    Args:
        project: Where.
        arguments: What else to say on the command line.
    """

    started: ClassVar[list[subprocess.Popen[bytes]]] = []
    """Those of the test at hand."""

    def __init__(self, project: Project, *arguments: object) -> None:
        self._out, self._err = project.folder / "out.txt", project.folder / "err.txt"
        given = project.add_cluster(["apply", *arguments, "--auto-approve"])
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command(*given),
                cwd=project.folder,
                env=environment(**SAFEGUARDED),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        self.started.append(self.process)

    def wait_for(self, text: str) -> None:
        """Wait until it has said so."""
        eventually(self.read_progress, lambda said: text in said or self.process.poll() is not None, LIMIT_S)
        assert text in self.read_progress()

    def await_end(self) -> Call:
        """Wait for its end."""
        code = self.process.wait(LIMIT_S)
        return Call(code, self._out.read_text(), self._err.read_text())

    def read_progress(self) -> str:
        return self._err.read_text()


def run_apply(project: Project, *arguments: object) -> Call:
    return Applying(project, *arguments).await_end()


def read_throttles(cluster: KafkaCluster) -> Throttles:
    return cluster.throttles([*cluster.layout().topics])


def calm(cluster: KafkaCluster) -> None:
    """Fail unless all throttles are off, and nothing is being moved."""
    eventually(lambda: read_throttles(cluster), lambda found: not found, 10)
    assert cluster.layout().reassigning == {}


def whole(cluster: KafkaCluster, name: str, wanted: Assignment) -> None:
    """Fail unless replicas are there, in sync, and led by the first of them."""
    states = eventually(
        lambda: cluster.layout().topics[name],
        lambda found: (
            [(s.replicas, s.leader, {*s.isr}) for s in found]
            == [(replicas, replicas[0], {*replicas}) for replicas in wanted]
        ),
    )
    assert len(states) == len(wanted)


def read_copied_bytes(cluster: KafkaCluster, name: str) -> dict[tuple[int, int], int]:
    """The bytes of replicas that are being added, by partition and broker."""
    running = cluster.layout().reassigning or {}
    adding = {
        (number, to) for (topic, number), value in running.items() if topic == name for to in value.adding
    }
    sizes = cluster.replica_sizes([(name, number) for number, _ in adding])
    return {(number, to): size for (_, number, to), size in sizes.items() if (number, to) in adding}


def await_copying(cluster: KafkaCluster, name: str) -> None:
    """Wait until replicas are being copied, and some of their bytes are there."""
    found = eventually(lambda: read_copied_bytes(cluster, name), lambda found: any(found.values()), LIMIT_S)
    assert min(found.values()) < SIZE, "it is all but over: the test is too slow to see anything"


def topic_of(project: Project, cluster: KafkaCluster, before: Assignment = SINGLE, **configs: str) -> str:
    """A topic with data, which is declared to get three replicas of each partition."""
    name = project.topic("a", partitions=len(before), replicationFactor=3)
    place_topic(cluster, name, before, **configs)
    fill(project.servers, name, len(before), SIZE)
    return name


def three_each(cluster: KafkaCluster, name: str, before: Assignment = SINGLE) -> None:
    """Fail unless every partition has three replicas, all that it had before first."""
    now = now_on(cluster, name)
    assert [replicas[: len(had)] for replicas, had in zip(now, before, strict=True)] == list(before)
    assert [{*replicas} for replicas in now] == [{1, 2, 3}] * len(before)
    whole(cluster, name, now)


def test_replica_moves_do_not_block_writes(project: Project, real: KafkaCluster) -> None:
    """Asking for two replicas in sync before they are, or still when they are gone, would stop writes."""
    name = topic_of(project, real, min_insync_replicas="1")
    with load(project.servers, name, len(SINGLE), tries_again=False) as work:
        work.moves_on()
        project.topic("a", partitions=3, replicationFactor=3, config={"min.insync.replicas": 2})
        run_apply(project, "topics", "--throttle", "2MB").needs(0)
        three_each(real, name)
        assert project.live()["a"]["min.insync.replicas"] == "2"
        work.moves_on()
        project.topic("a", partitions=3, replicationFactor=1, config={"min.insync.replicas": 1})
        run_apply(project, "topics", "--allow", "destructive").needs(0)
        whole(real, name, SINGLE)
        assert project.live()["a"]["min.insync.replicas"] == "1"
        work.moves_on()
    work.prove()
    calm(real)


def pick_brokers(cluster: KafkaCluster, *, controls: bool) -> tuple[int, int, int]:
    """The broker that is to go down, which is the active controller or is not, and the two others."""
    quorum = cluster.health().quorum
    assert quorum is not None
    assert quorum.leader is not None
    down = quorum.leader if controls else quorum.leader % 3 + 1
    first, second = sorted({1, 2, 3} - {down})
    return down, first, second


@pytest.mark.parametrize("controls", [False, True], ids=["broker", "controller"])
def test_apply_waits_for_killed_broker(
    project: Project, real: KafkaCluster, brokers: DevCluster, controls: bool
) -> None:
    """Also where it is the one that controls all of it."""
    down, first, second = pick_brokers(real, controls=controls)
    before: Assignment = ((first, second), (second, first), (first, second))
    name = topic_of(project, real, before)
    applying = Applying(project, "topics", "--throttle", "2MB")
    await_copying(real, name)
    brokers.stop_node(down, graceful=False)
    applying.wait_for(f"broker {down}")
    brokers.start_node(down)
    end = applying.await_end().needs(0)
    assert f"waiting: broker {down} down, the target of {name}-" in end.err
    three_each(real, name, before)
    calm(real)


def test_apply_finds_the_next_controller(project: Project, real: KafkaCluster, brokers: DevCluster) -> None:
    down, _, _ = pick_brokers(real, controls=True)
    for number in range(200):
        project.topic(f"t{number}", partitions=3, replicationFactor=3)
    applying = Applying(project, "topics")
    applying.wait_for("applying: 200 operations")
    brokers.stop_node(down, graceful=False)
    # A broker passes a request on to the next controller if the first has died: what was created by then is
    # refused the second time, so that nobody knows who did it.
    end = applying.await_end().needs(0)
    assert re.search(
        r"Apply: (200 created|200 already done|\d+ created, \d+ already done)\. Verified", end.out
    )
    assert all(topic["partitions"] == 3 for topic in project.live().values())
    assert len(project.live()) == 200
    brokers.start_node(down)


def test_ctrl_c_waits_for_no_dead_broker(project: Project, real: KafkaCluster, brokers: DevCluster) -> None:
    """Throttles that cannot be removed are named, and the next apply removes them."""
    down, first, second = pick_brokers(real, controls=False)
    before: Assignment = ((first, second), (second, first), (first, second))
    name = topic_of(project, real, before)
    applying = Applying(project, "topics", "--throttle", SLOW)
    await_copying(real, name)
    brokers.stop_node(down, graceful=False)
    applying.wait_for(f"broker {down} down")
    # One broker said so. While another still counts it among the living, requests to it are tried again.
    await_brokers(brokers, down)
    before_it = len(applying.read_progress())
    applying.process.send_signal(signal.SIGINT)
    end = applying.await_end().needs(1)
    assert "trying again" not in end.err[before_it:]
    assert f"still set: the throttle of broker {down}; the next apply removes them" in end.err
    brokers.start_node(down)
    whole(real, name, before)
    run_apply(project, "topics", "--throttle", "none").needs(0)
    three_each(real, name, before)
    calm(real)


def test_killed_move_is_continued_by_next_apply(project: Project, real: KafkaCluster) -> None:
    name = topic_of(project, real)
    # So slow that replicas are being copied still when the lock of the killed one is free, after 45 s.
    first = Applying(project, "topics", "--throttle", "100KB")
    await_copying(real, name)
    first.process.kill()
    assert first.await_end().code == -signal.SIGKILL
    # Four lines of two sides each: three brokers, and the topic.
    assert len(read_throttles(real).rates) == 3
    then = read_copied_bytes(real, name)
    second = Applying(project, "topics", "--throttle", "20MB")
    until = time.monotonic() + LIMIT_S
    # From here on nothing is started again: no replica ever shrinks.
    while now := read_copied_bytes(real, name):
        assert all(size >= then.get(replica, 0) for replica, size in now.items())
        then |= now
        assert time.monotonic() < until, now
        time.sleep(0.3)
    end = second.await_end().needs(0)
    assert "already running: 3 partitions" in end.err
    three_each(real, name)
    calm(real)
    record = read_record(real, AuditSettings())
    of_topic = [entry for entry in record.entries if entry.ref.name == name]
    assert [entry.outcome and entry.outcome.result for entry in of_topic] == [None, "applied"]
    announced = [throttle for throttle in record.throttles if name in throttle.throttles.replicas]
    assert {item.run for item in announced} == {entry.run for entry in of_topic}
    assert all(item.removed for item in announced)


@pytest.mark.parametrize("later_s", [0.0, 0.05, 0.4])
def test_second_ctrl_c_is_undone_by_next_apply(project: Project, real: KafkaCluster, later_s: float) -> None:
    """The second one gives up what the first one waits for, at whatever point of its cleaning up."""
    name = topic_of(project, real)
    first = Applying(project, "topics", "--throttle", SLOW)
    await_copying(real, name)
    first.process.send_signal(signal.SIGINT)
    time.sleep(later_s)
    first.process.send_signal(signal.SIGINT)
    end = first.await_end().needs(1)
    # How far it came, or, where the second one came behind the cleaning up, what was not waited for.
    how_far = "stopped; [0-3] of 3 partitions in place"
    not_waited_for = "abandoned while (waiting for the answer|verifying it)"
    assert re.search(f"{how_far}|{not_waited_for}", end.out), end.out + end.err
    # Throttles are off, or said to be still set, and who takes them off.
    if "still set: the throttle of brokers 1, 2, 3" in end.err:
        assert "next apply removes them" in end.err
    else:
        eventually(lambda: read_throttles(real), lambda left: not left)
    run_apply(project, "topics", "--throttle", "none").needs(0)
    three_each(real, name)
    calm(real)

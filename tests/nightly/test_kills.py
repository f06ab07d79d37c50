"""Recreations and successions whose tool or broker is killed at a step: the next apply completes them."""

import time
from collections.abc import Iterator, Sequence

import pytest

from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.kills import AUDITED, Kill, run_killed_apply
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import connect, start_guarded
from tests.support.clusters.group_clients import check_order, read_numbers, write_numbers

pytestmark = pytest.mark.nightly("43 applies that are killed, half of them with their broker")

HOUR_MS = 3_600_000
RECREATION = ("intent", "DeleteOffsets", "DeleteTopic", "CreateTopic", "CommitInitialOffsets", "result")
SUCCESSION = ("CreateTopic", "CommitInitialOffsets", "result", "DeleteTopic")


def list_kills(steps: Sequence[str]) -> list[Kill]:
    return [
        Kill(step, moment, victim)
        for victim in ("tool", "broker")
        for step in steps
        for moment in ("before", "after")
    ]


@pytest.fixture(scope="module")
def kafka() -> Iterator[DevCluster]:
    """One broker, which keeps its data and its ports."""
    with start_guarded(1, heap_mb=512) as cluster:
        yield cluster


class KilledProject:
    """A project one of whose applies is killed.

    Attributes:
        code: The exit code of that apply; None before it.
    """

    def __init__(self, project: Project, kafka: DevCluster, kill: Kill) -> None:
        self.project, self._kafka, self._kill = project, kafka, kill
        self.code: int | None = None

    def apply(self, *arguments: str) -> None:
        """Apply until the end."""
        options = (*arguments, "--auto-approve", *self._kill.options)
        self.project.run("apply", "topics", *options, env=AUDITED).needs(0)

    def apply_killed(self, *arguments: str) -> None:
        """Apply with the kill; the broker may be back early enough for it to succeed."""
        call = run_killed_apply(self.project, self._kill, "topics", *arguments, kafka=self._kafka)
        assert call.code in ((-9,) if self._kill.victim == "tool" else (0, 1)), call
        assert "Traceback" not in call.both, call.both
        self.code = call.code

    def count_partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic; 0 if there is none."""
        return int(self.project.live().get(topic, {"partitions": 0})["partitions"])


@pytest.fixture
def killed(project: Project, kafka: DevCluster, kill: Kill) -> KilledProject:
    return KilledProject(project, kafka, kill)


@pytest.mark.parametrize("kill", list_kills(RECREATION), ids=str)
def test_recreation_is_completed(killed: KilledProject) -> None:
    project = killed.project
    topic = project.topic("orders", partitions=3)
    group = project.group("g", topics=[topic], offsets={"initial": "earliest"})
    killed.apply()
    write_numbers(project.servers, topic, range(30))
    read_numbers(project.servers, group, topic, 30)
    with connect(project.servers) as cluster:
        uid = cluster.topic_ids([topic])[topic]
    consent = {"annotations": {"kafkaform/allow": f"recreate of {uid}: TICKET-1"}}
    project.topic("orders", metadata=consent, partitions=1, recreate=uid)
    killed.apply_killed()
    # Records that producers write before the next apply are not skipped either.
    early = range(10) if killed.count_partitions("orders") == 1 else range(0)
    write_numbers(project.servers, topic, early)
    killed.apply()
    project.run("plan", "topics", "--detailed-exitcode").needs(0)
    assert killed.count_partitions("orders") == 1
    write_numbers(project.servers, topic, range(len(early), 20))
    check_order(read_numbers(project.servers, group, topic, 20), range(20))


@pytest.mark.parametrize(
    ("kill", "protocol"),
    [
        *((kill, "classic") for kill in list_kills(SUCCESSION)),
        (Kill("CommitInitialOffsets", "after", is_locked=True), "classic"),
        (Kill("CommitInitialOffsets", "before"), "consumer"),
        (Kill("CommitInitialOffsets", "after", "broker"), "consumer"),
    ],
    ids=str,
)
def test_succession_is_completed(killed: KilledProject, kill: Kill, protocol: str) -> None:
    project, servers = killed.project, killed.project.servers

    def declare_group(topic: str) -> str:
        return project.group("g", topics=[topic], protocol=protocol, offsets={"initial": "earliest"})

    old = project.topic("old", partitions=4)
    group = declare_group(old)
    killed.apply()
    # Older than the quiet period and the recovery window, so that nothing waits for them.
    write_numbers(servers, old, range(40), at_ms=time.time_ns() // 1_000_000 - HOUR_MS)
    numbers = read_numbers(servers, group, old, 25, protocol)
    new = project.topic("new", partitions=2, succeeds=old, recoveryWindow="10m")
    declare_group(new)
    early = range(40, 40)
    if kill.step == "CreateTopic":
        killed.apply_killed()
        early = range(40, 50) if killed.count_partitions("new") else early
        write_numbers(servers, new, early)
    killed.apply()
    write_numbers(servers, new, range(40 + len(early), 60))
    numbers += read_numbers(servers, group, old, 15, protocol)
    if kill.step in {"CommitInitialOffsets", "result"}:
        killed.apply_killed()
    killed.apply()
    numbers += read_numbers(servers, group, new, 20, protocol)
    check_order(numbers, range(60))
    project.topic("old", state="absent")
    consent = ("--allow", f"Topic/{old}:delete")
    if kill.step == "DeleteTopic":
        killed.apply_killed(*consent)
    killed.apply(*consent)
    project.run("plan", "topics", "--detailed-exitcode").needs(0)
    project.run("succession").needs(0)
    assert project.live().keys() == {"new"}
    with connect(servers) as cluster:
        committed = cluster.groups([group]).groups[group].committed
    assert sum(committed[new, number] for number in range(2)) == 20
    assert killed.code is not None

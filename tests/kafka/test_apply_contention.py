"""Several applies to one cluster: one at a time, and what the command line says of it."""

import signal
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from kafkaform.apply import executor
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.core.lock import Holder
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project, Terminal
from tests.support.clusters.fixtures import TIMEOUT_S, connect, eventually
from tests.support.lock.process import hold
from tests.support.plans.scenes import declare_topic, plan_for

TEN = 10
LOCKED = {"KAFKAFORM_LOCK": "true"}


def test_concurrent_applies_lose_no_changes(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    """Each reads how many partitions a topic has, and adds one: two at once would both add the same one."""
    name, at_work = f"{prefix}a", Lock()
    plan = plan_for(real_cluster, declare_topic(name))
    assert executor.apply(plan, real_cluster, executor.ApplyOptions()).complete
    start = eventually(lambda: real_cluster.partition_counts([name]), bool)[name]

    def add_one(number: int) -> bool:
        with (
            connect(kafka.bootstrap_servers) as mine,
            hold(mine, Holder(f"number {number}"), 3 * TIMEOUT_S) as guard,
        ):
            assert at_work.acquire(blocking=False), "two are at work"
            before = mine.partition_counts([name])[name]
            report = executor.apply(
                plan_for(mine, declare_topic(name, before + 1)), mine, executor.ApplyOptions(guard=guard)
            )
            at_work.release()
            return report.complete

    with ThreadPoolExecutor(TEN) as pool:
        assert [*pool.map(add_one, range(TEN))] == [True] * TEN
    assert real_cluster.partition_counts([name])[name] == start + TEN


def test_lock_timeout_applies_nothing(project: Project, real_cluster: KafkaCluster) -> None:
    project.topic("a")
    holder = Holder("alice@ci-3", "apply of plan 12ab", 4711)
    with real_cluster.lock(holder, timeout_s=TIMEOUT_S, tell=print) as guard:
        arguments = ("apply", "topics", "--auto-approve", "--lock-timeout", "1s")
        call = project.run(*arguments, env=LOCKED).needs(1)
        assert call.out == ""
        waiting, error, hint = call.err.splitlines()
        held = "the lock of the cluster is held by alice@ci-3 (apply of plan 12ab, process 4711) since "
        assert waiting.startswith(held)
        assert waiting.endswith("; waiting up to 1s")
        assert error.startswith(f"Error: {held}")
        assert "--lock-timeout" in hint
        assert project.live() == {}
        guard()
        # Without the lock, by the command line or by the file, it goes ahead all the same.
        project.run("apply", "topics", "--auto-approve", "--no-lock", env=LOCKED).needs(0)
        clusters = {"dev": {"client": {"bootstrap.servers": project.servers}, "lock": False}}
        project.config(clusters=clusters)
        project.topic("b")
        project.run("apply", "topics", "--auto-approve", env={"KAFKAFORM_LOCK": ""}).needs(0)
        assert project.live().keys() == {"a", "b"}


def test_sigint_while_waiting_for_lock_ends_apply(project: Project, real_cluster: KafkaCluster) -> None:
    project.topic("a")
    with real_cluster.lock(Holder("alice"), timeout_s=TIMEOUT_S, tell=print) as guard:
        call = project.start("apply", "topics", "--auto-approve", **LOCKED)
        assert call.stderr is not None
        assert "held by alice" in call.stderr.readline()
        call.send_signal(signal.SIGINT)
        out, err = call.communicate(timeout=TIMEOUT_S)
        guard()
    assert (call.returncode, out) == (1, "")
    assert "interrupted" in err
    assert "Traceback" not in err
    assert project.live() == {}


def test_sigterm_releases_lock(project: Project, real_cluster: KafkaCluster) -> None:
    project.topic("a")
    screen = Terminal(*project.add_cluster(("apply", "topics")), cwd=project.folder, env=LOCKED)
    screen.wait_for("Type yes to apply exactly this: ")
    screen.process.send_signal(signal.SIGTERM)
    call = screen.end()
    assert call.code == 1
    assert "nothing was applied" in call.out
    with real_cluster.lock(Holder("alice"), timeout_s=0, tell=print) as guard:
        guard()
    assert project.live() == {}

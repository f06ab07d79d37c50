"""Several applies to one cluster, as processes: one at a time, whatever becomes of the one at work."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from kafkaform.cluster.kafka import KafkaCluster
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.lock import NAME, Holder
from tests.support.cli_helpers import Project, Terminal, command, environment
from tests.support.kafka_fixtures import TIMEOUT_S, admin_client, connect, eventually
from tests.support.lock_process import LockProcess, remove_holder
from tests.support.scenes import topic

TEN = 10
LOCKED = {"KAFKAFORM_LOCK": "true"}
SESSION_TIME_S = 60.0
"""How long the next one waits at most for the lock of a dead holder: 45 s, and until somebody looks."""

HEARTBEAT_S = 5
"""How often brokers have members of a group tell that they are alive."""


# --- ten at once -----------------------------------------------------------------------------------


def test_ten_applies_at_once_come_one_after_the_other(kafka: DevCluster, prefix: str, tmp_path: Path) -> None:
    """Each makes a topic of its own; they share a record, in which none begins before another has ended."""
    record = tmp_path / "audit.jsonl"
    arguments = ("apply", "topics", "--auto-approve", "--no-audit", "--audit-file", str(record))
    calls = []
    for number in range(TEN):
        mine = Project(tmp_path / str(number), kafka.bootstrap_servers, prefix)
        mine.topic(f"t{number}", partitions=2)
        calls.append(
            subprocess.Popen(
                command(*mine.aimed(arguments)),
                cwd=mine.folder,
                env=environment(**LOCKED),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    said = [call.communicate(timeout=2 * TIMEOUT_S) for call in calls]
    assert [call.returncode for call in calls] == [0] * TEN, said
    assert any("the lock of the cluster is held by " in err for _, err in said)
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [line["record"] for line in lines] == ["intent", "result"] * TEN
    for intent, result in zip(lines[::2], lines[1::2], strict=True):
        assert (intent["id"], result["result"]) == (result["id"], "applied")
    live = Project(tmp_path, kafka.bootstrap_servers, prefix).live()
    assert live == {f"t{number}": {"partitions": 2} for number in range(TEN)}


def test_none_of_ten_changes_that_build_on_each_other_is_lost(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str, tmp_path: Path
) -> None:
    """Each reads how many partitions a topic has, and adds one: two at once would both add the same one."""
    name, file = f"{prefix}a", tmp_path / "at-work"
    with LockProcess(kafka.bootstrap_servers, "first") as first:
        first.waited()
        assert first.asked(f"apply {name}") == "applied"
        first.ended()
    start = eventually(lambda: real_cluster.partition_counts([name]), bool)[name]
    with ExitStack() as stack:
        each = [
            stack.enter_context(LockProcess(kafka.bootstrap_servers, f"number {n}", 3 * TIMEOUT_S))
            for n in range(TEN)
        ]
        for process in each:
            process.tell(f"bump {name} {file}\nend")
        said = [process.ended().splitlines() for process in each]
    assert [lines[-1] for lines in said] == ["applied"] * TEN
    assert real_cluster.partition_counts([name])[name] == start + TEN


# --- waiting, on the command line ------------------------------------------------------------------


def test_who_does_not_get_the_lock_in_time_does_nothing(project: Project, real_cluster: KafkaCluster) -> None:
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


def test_ctrl_c_while_waiting_ends_it(project: Project, real_cluster: KafkaCluster) -> None:
    project.topic("a")
    with real_cluster.lock(Holder("alice"), timeout_s=TIMEOUT_S, tell=print) as guard:
        call = subprocess.Popen(
            command(*project.aimed(("apply", "topics", "--auto-approve"))),
            cwd=project.folder,
            env=environment(**LOCKED),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert call.stderr is not None
        assert "held by alice" in call.stderr.readline()
        call.send_signal(signal.SIGINT)
        out, err = call.communicate(timeout=TIMEOUT_S)
        guard()
    assert (call.returncode, out) == (1, "")
    assert "interrupted; nothing more was done" in err
    assert "Traceback" not in err
    assert project.live() == {}


def test_an_apply_gives_the_lock_back(project: Project, real_cluster: KafkaCluster) -> None:
    project.topic("a")
    project.run("apply", "topics", "--auto-approve", env=LOCKED).needs(0)
    with real_cluster.lock(Holder("alice"), timeout_s=0, tell=print) as guard:
        guard()


def test_a_sigterm_gives_the_lock_back(project: Project, real_cluster: KafkaCluster) -> None:
    project.topic("a")
    screen = Terminal(*project.aimed(("apply", "topics")), cwd=project.folder, env=LOCKED)
    screen.wait_for("Type yes to apply exactly this: ")
    screen.process.send_signal(signal.SIGTERM)
    call = screen.end()
    assert call.code == 1
    assert "nothing was applied" in call.out
    with real_cluster.lock(Holder("alice"), timeout_s=0, tell=print) as guard:
        guard()
    assert project.live() == {}


# --- killed and frozen -----------------------------------------------------------------------------


def test_a_holder_that_was_frozen_for_a_moment_holds_it_still(kafka: DevCluster, prefix: str) -> None:
    with LockProcess(kafka.bootstrap_servers, "frozen", TIMEOUT_S) as frozen:
        frozen.waited()
        frozen.process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        frozen.process.send_signal(signal.SIGCONT)
        assert frozen.asked("prove") == "proven"
        assert frozen.asked(f"apply {prefix}a") == "applied"
        frozen.ended()  # or the next test waits for the end of its session


def test_a_dead_holder_is_followed_and_a_frozen_one_makes_no_further_change(
    kafka: DevCluster, kafka3: DevCluster, kafka_acl: DevCluster, prefix: str
) -> None:
    """All three wait for the end of a session, 45 s: each on a cluster of its own, at the same time."""
    with ThreadPoolExecutor() as pool:
        scenes = [
            pool.submit(frozen_and_followed, kafka.bootstrap_servers, prefix),
            pool.submit(frozen_at_work_and_not_followed, kafka3.bootstrap_servers, prefix),
            pool.submit(killed_and_followed, kafka_acl.bootstrap_servers, prefix),
        ]
    for scene in scenes:
        scene.result()


def frozen_and_followed(servers: str, prefix: str) -> None:
    with LockProcess(servers, "frozen", TIMEOUT_S) as frozen, connect(servers) as cluster:
        frozen.waited()
        assert frozen.asked(f"apply {prefix}before") == "applied"
        frozen.process.send_signal(signal.SIGSTOP)
        with LockProcess(servers, "next", SESSION_TIME_S) as following:
            assert "held by frozen (a test" in following.waited()[0]
            assert following.asked(f"apply {prefix}next") == "applied"
            frozen.process.send_signal(signal.SIGCONT)
            assert frozen.asked(f"apply {prefix}after") == "not_tried"
            assert frozen.asked("prove").startswith("lost this apply lost the lock of the cluster: ")
            frozen.ended()
            assert following.asked("prove") == "proven"
            assert following.asked(f"apply {prefix}last") == "applied"
            following.ended()
        seen = cluster.observe([], kinds=["Topic"]).inventory
        assert topic(f"{prefix}last") in seen
        assert topic(f"{prefix}after") not in seen


def frozen_at_work_and_not_followed(servers: str, prefix: str) -> None:
    """Frozen in the midst of its requests: the one past its proof at most is carried out afterwards."""
    admin = admin_client(servers)

    def names() -> set[str]:
        return {name for name in admin.list_topics(timeout=TIMEOUT_S).topics if name.startswith(prefix)}

    def members() -> int:
        return len(admin.describe_consumer_groups([NAME])[NAME].result(TIMEOUT_S).members)

    with LockProcess(servers, "frozen", TIMEOUT_S) as frozen:
        frozen.waited()
        assert frozen.asked(f"flood {prefix}") == "flooding"
        eventually(names, lambda found: len(found) >= 3)
        frozen.process.send_signal(signal.SIGSTOP)
        eventually(members, lambda count: count == 0, SESSION_TIME_S)
        before = names()
        frozen.process.send_signal(signal.SIGCONT)
        assert "then this apply lost the lock of the cluster: " in frozen.said()
        frozen.ended()
        # Where the coordinator moved meanwhile, the place is kept for as long as a session once more.
        with LockProcess(servers, "next", SESSION_TIME_S) as following:
            following.waited()
            assert following.asked(f"apply {prefix}sentinel") == "applied"
        after = eventually(names, lambda found: f"{prefix}sentinel" in found)
        assert len(after - before - {f"{prefix}sentinel"}) in {0, 1}


def killed_and_followed(servers: str, prefix: str) -> None:
    with LockProcess(servers, "killed", TIMEOUT_S) as killed:
        killed.waited()
        assert killed.asked(f"apply {prefix}before") == "applied"
        killed.process.kill()
        with LockProcess(servers, "next", SESSION_TIME_S) as following:
            assert "held by killed (a test" in following.waited()[0]
            assert following.asked(f"apply {prefix}next") == "applied"
            # Its client finds out by itself that it was removed, and may not become the holder again unseen.
            remove_holder(servers)
            time.sleep(HEARTBEAT_S + 1)
            assert following.asked("prove").startswith("lost ")
            following.ended()

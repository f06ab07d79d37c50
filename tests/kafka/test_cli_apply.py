"""`kafkaform apply` on a real Kafka: from manifests, from saved plans, half-way and back."""

import json
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from kafkaform.apply import executor
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.core.lock import Holder
from kafkaform.core.operations import batches
from spark_validation.results import to_json
from tests.support.cli.kills import AUDITED, Kill, run_killed_apply
from tests.support.cli.project import Project, Terminal, environment, manifest, run_in_process
from tests.support.clusters.fixtures import TIMEOUT_S, connect, eventually
from tests.support.clusters.group_clients import produce
from tests.support.clusters.topics import delete_group, make_topic
from tests.support.lock.process import hold
from tests.support.plans.scenes import declare_topic, plan_for
from tests.support.skew.scenes import FINE, build_result, report, what_if


def test_tombstone_spares_recreated_topic(project: Project, real_cluster: KafkaCluster) -> None:
    def consent(text: str) -> None:
        project.topic("a", state="absent", metadata={"annotations": {"kafkaform/allow": f"{text}: unused"}})

    name = project.topic("a")
    project.apply("topics").needs(0)
    consent("delete")
    output = project.apply("topics").needs(1).words
    line = re.search(r'kafkaform/allow: "(delete of \S{22}): <why>"', output)
    assert line is not None, output
    consent(line[1])
    project.apply("topics").needs(0)
    assert project.live() == {}
    make_topic(real_cluster, name)
    assert f"consents to {line[1]}, which" in project.apply("topics").needs(1).words
    assert set(project.live()) == {"a"}


def test_apply_without_terminal_needs_auto_approve(project: Project) -> None:
    project.topic("a", retention="7d")
    project.run("plan", "topics", "--out", "plan.json").needs(0)
    for target in ("topics", "plan.json"):
        assert "--auto-approve" in project.run("apply", target).needs(1).err
    assert project.live() == {}
    project.apply("topics").needs(0)
    project.run("apply", "topics").needs(0)


MANY = 300
SMALL_REQUESTS = f"""
import sys
from {batches.__module__} import batches
batches.__defaults__ = (12,)
from kafkaform.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
"""Fifty requests of six topics: as many as large ones would take tens of thousands of partitions."""


def test_interrupted_apply_is_completed_by_next_apply(project: Project) -> None:
    spec = {"partitions": 1, "replicationFactor": 1}
    text = "---\n".join(manifest(f"{project.prefix}{n:04}", spec) for n in range(MANY))
    project.write("topics/many.yaml", text)
    # At the start, before or while the first request is under way; and once the first was answered.
    first = apply_and_stop(project, signal.SIGINT, after="applying: ")
    second = apply_and_stop(project, signal.SIGTERM, after=" of ")
    done = 0
    for each in (first, second):
        applied, left = each["summary"]["applied"], each["summary"]["not_tried"]
        assert each["interrupted"] is True
        assert left > 0
        assert done + applied + left == MANY
        done += applied
    assert second["summary"]["applied"] > 0
    assert len(project.live()) == done
    again = project.apply("topics", "--format", "json").needs(0)
    assert again.json["summary"]["applied"] == MANY - done
    assert len(project.live()) == MANY


def apply_and_stop(project: Project, number: signal.Signals, *, after: str) -> dict[str, Any]:
    """Apply, and send a signal after a line of the progress; returns the report."""
    arguments = project.add_cluster(["apply", "topics", "--auto-approve", "--format", "json"])
    process = subprocess.Popen(
        [sys.executable, "-c", SMALL_REQUESTS, *map(str, arguments)],
        cwd=project.folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if after in line:
            process.send_signal(number)
            break
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "stopping after" in err
    assert "Traceback" not in err
    found: dict[str, Any] = json.loads(out)
    return found


TEN = 10
LOCKED = {"KAFKAFORM_LOCK": "true"}


def test_concurrent_applies_lose_no_changes(servers: str, real_cluster: KafkaCluster, prefix: str) -> None:
    """Each reads how many partitions a topic has, and adds one: two at once would both add the same one."""
    name, at_work = f"{prefix}a", Lock()
    plan = plan_for(real_cluster, declare_topic(name))
    assert executor.apply(plan, real_cluster, executor.ApplyOptions()).complete
    start = eventually(lambda: real_cluster.partition_counts([name]), bool)[name]

    def add_one(number: int) -> bool:
        with connect(servers) as mine, hold(mine, Holder(f"number {number}"), 3 * TIMEOUT_S) as guard:
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


def test_offsets_committed_by_killed_apply_are_guarded(project: Project) -> None:
    """The rerun has nothing to do, and yet writes the result; the guard holds before it, and after."""

    def read_change() -> dict[str, Any]:
        (change,) = project.run("history", group, "--format", "json").needs(0).json["changes"]
        return dict(change)

    topic = project.topic("orders")
    project.apply("topics").needs(0)
    produce(project.servers, topic, {0: 3})
    group = project.group("g", topics=[topic], protocol="consumer", offsets={"initial": "latest"})
    run_killed_apply(project, Kill("result"), "topics").needs(-signal.SIGKILL)
    change = read_change()
    assert (change["result"], change["message"]) == (None, None)
    assert "result unknown" in project.run("history", group).out
    again = project.run("apply", "topics", "--auto-approve", env=AUDITED).needs(0)
    assert "No changes" in again.out
    assert f"apply {change['id'].rpartition('.')[0]} " in again.err
    assert read_change()["result"] == "applied"
    assert read_change()["message"]
    delete_group(project.servers, group)
    plan = eventually(lambda: project.run("plan", "topics"), lambda call: "No changes" not in call.out)
    assert "offset-recommit" in plan.out


def test_plan_without_a_login_imports_no_client_and_no_spark(project: Project) -> None:
    project.topic("a", partitions=3, keyed=True)
    project.apply("topics").needs(0)
    project.topic("a", partitions=6, keyed=True, skew={"maxPartitionRatio": 2.0})
    measured = build_result(f"{project.prefix}a", ratio=FINE, what_ifs=[what_if(6, FINE)])
    created_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    project.write("report.json", to_json(report(measured, cluster_id=None, created_at=created_at)))
    names = {"confluent_kafka", "scramp", "botocore", "gssapi", "cryptography", "http.client"}
    names |= {"pyspark", "numpy", "pandas", "pyarrow"}
    arguments = ["plan", "topics", "--skew", "report.json", "--bootstrap-server", project.servers]
    script = (
        f"import sys; from kafkaform.cli.main import run\ncode = run({arguments})\n"
        f"assert not sys.modules.keys() & {names}; sys.exit(code)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, cwd=project.folder, timeout=TIMEOUT_S, capture_output=True, text=True, check=True
    )
    assert "as measured, 48.2 % of the sampled keys" in " ".join(done.stdout.split())


def test_manifests_are_read_from_stdin(project: Project) -> None:
    spec = {"partitions": 1, "replicationFactor": 1}
    given = manifest(f"{project.prefix}a", spec)
    made = project.process("plan", "-", "--out", "plan.json", given=given).needs(0)
    assert f"+ Topic/{project.prefix}a" in made.out
    assert "<stdin>:" in made.out
    document = json.loads((project.folder / "plan.json").read_text("utf-8"))
    assert document["commit"] is None
    assert document["changes"][0]["source"]["file"] == "<stdin>"
    wrong = run_in_process("validate", "-", cwd=project.folder, given=given.replace("ns: ", "s: ")).needs(1)
    assert re.search(r"^<stdin>:\d+:\d+: ", wrong.err, re.MULTILINE)
    assert "did you mean 'partitions'?" in wrong.err
    assert "<stdin>:1:1: " in project.run("plan", "-").needs(1).err
    project.run("apply", "-", "--auto-approve", given=given).needs(0)
    assert set(project.live()) == {"a"}


def test_stdin_manifests_exclude_undeclared_topics(project: Project) -> None:
    project.topic("a")
    project.config(owns=[f"{project.prefix}*"])
    project.apply().needs(0)
    given = manifest(f"{project.prefix}b", {"partitions": 1, "replicationFactor": 1})
    assert f"{project.prefix}a" not in project.run("plan", "-", "-v", given=given).needs(0).out

"""`kafkaform doctor`, on real brokers that stop and come back."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkaform.cluster.transport import connection
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project, Terminal, plain
from tests.support.clusters.fixtures import connect, eventually
from tests.support.clusters.group_clients import commit, produce
from tests.support.clusters.topics import delete_records


@pytest.fixture
def three(kafka3: DevCluster, prefix: str, tmp_path: Path) -> Project:
    """A cluster of three, with one topic that needs two replicas in sync."""
    made = Project(tmp_path, kafka3.bootstrap_servers, prefix)
    made.topic("a", partitions=3, replicationFactor=3, config={"min.insync.replicas": 2})
    made.apply().needs(0)
    return made


@contextmanager
def stop_broker(kafka: DevCluster, node: int) -> Iterator[None]:
    """One broker down; it is back and in sync afterwards, however this ends."""
    kafka.stop_node(node)
    try:
        yield
    finally:
        if any(item.id == node and item.pid is None for item in kafka.status().nodes):
            kafka.start_node(node)
        with connect(kafka.bootstrap_servers) as cluster:
            eventually(
                cluster.health,
                lambda health: (
                    len(health.brokers) == 3 and all(len(p.isr) == len(p.replicas) for p in health.partitions)
                ),
                60,
            )


def findings(call_json: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {finding["code"]: finding["message"] for finding in call_json["diagnostics"]}


@pytest.mark.nightly("a broker is stopped and started")
def test_stopped_broker_is_reported_and_awaited(three: Project, kafka3: DevCluster) -> None:
    three.config(rules={"KF310": "off"})  # how full this machine's disk is, is nothing to test
    three.run("doctor").needs(0)
    with stop_broker(kafka3, 3):
        call = three.run("doctor", "--format", "json").needs(2)
        assert call.json["healthy"] is False
        assert call.json["summary"]["brokers"] == 2
        assert call.json["summary"]["under_replicated_partitions"] >= 3
        assert "broker 3 is missing from" in findings(call.json)["KF303"]
        assert "KF305" not in findings(call.json)

        assert "KF303" in three.run("doctor", "--wait", "1s", "--rule", "KF303").needs(2).both

        waiting = three.start("doctor", "--wait", "2m")
        try:
            assert waiting.stderr is not None
            used, first = waiting.stderr.readline(), waiting.stderr.readline()
            assert used.startswith("cluster dev")
            assert first.startswith("waiting: cluster ")
            assert "KF303" in first
            kafka3.start_node(3)
            out, err = waiting.communicate(timeout=120)
        finally:
            waiting.kill()
            waiting.wait()
        assert waiting.returncode == 0, err
        assert "3 brokers" in out
        assert ": healthy" in " ".join(out.split())


def test_doctor_needs_no_manifests(project: Project) -> None:
    call = project.run("doctor", "--rule", "KF301", "--rule", "KF303", "--rule", "KF304").needs(0)
    assert call.out.startswith(f"kafkaform doctor · cluster {project.servers} (")
    assert call.out.endswith(": healthy\n")
    assert len(call.out.splitlines()) <= 2


def test_offsets_outside_of_log_are_reported_and_reset(project: Project) -> None:
    """Records removed before they were read, and an offset of a longer log; the advice mends the first."""
    topic = project.topic("a", partitions=3)
    reader = project.group("reader", topics=[topic])
    project.apply().needs(0)
    produce(project.servers, topic, dict.fromkeys(range(3), 9))
    commit(project.servers, reader, {(topic, 0): 2, (topic, 1): 12, (topic, 2): 9})
    delete_records(project.servers, {(topic, 0): 7})
    call = project.run("doctor", "--rule", "KF315", "--format", "json").needs(2)
    missed, beyond = [item for item in call.json["diagnostics"] if reader in item["message"]]
    assert f"up to 5 records of {topic}, removed" in missed["message"]
    assert f"beyond the end of {topic}, in partition 1" in beyond["message"]
    _, _, advice = missed["suggestion"].partition("`kafkaform ")
    project.run(*shlex.split(advice.rstrip("`")), "--out", "reset.json").needs(1)
    consent = f"ConsumerGroup/{reader}:offset-reset"
    project.run("apply", "reset.json", "--auto-approve", "--allow", consent).needs(0)
    remaining = project.run("doctor", "--rule", "KF315", "topics").needs(2)
    assert "missed up to" not in remaining.words
    assert "is beyond the end" in remaining.words


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An address where nobody answers, and little patience."""
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 0.5)
    return Project(tmp_path, "127.0.0.1:1", "")


def test_unreachable_cluster_writes_failed_metrics(nobody: Project) -> None:
    file = nobody.folder / "kafka.prom"
    call = nobody.run("doctor", "--format", "prometheus", "--out", file).needs(1)
    assert "no broker" in call.err
    metrics = {f.name: f.samples[0].value for f in text_string_to_metric_families(file.read_text("utf-8"))}
    assert metrics["kafkaform_healthy"] == metrics["kafkaform_doctor_success"] == 0


def test_doctor_terminal_shows_remaining_wait(project: Project) -> None:
    client = {"bootstrap.servers": project.servers}
    project.config(clusters={"dev": {"client": client, "brokers": 2}})
    project.topic("a")
    terminal = Terminal("doctor", "--wait", "3s", "--rule", "KF302", cwd=project.folder, columns=200)
    terminal.wait_for("left")
    call = terminal.end().needs(2)
    assert "unhealthy (1 error): KF302, " in plain(call.out)

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafkaform.core.acls import Acl, ResourceType
from kafkaform.core.errors import DevClusterError
from kafkaform.core.http import send_request
from kafkaform.core.model import ResourceRef
from kafkaform.devcluster import processes, readiness
from kafkaform.devcluster.cluster import AlreadyRunning, ClusterSpec, DevCluster
from kafkaform.devcluster.releases import KAFKA_VERSION
from kafkaform.devcluster.state import DevClusterStatus
from kafkaform.resources.access.operations import GrantAccess
from tests.support.clusters.fixtures import connect, eventually
from tests.support.devcluster import CLI, cli, processes_in, wait_for


def topics(servers: str, **config: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": servers, **config}).list_topics(timeout=10).topics)


def create_topic(servers: str, name: str, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(name, 1, replicas)]).values():
        future.result(10)


def create_account(servers: str, name: str) -> dict[str, str]:
    """Create a SCRAM account; return the properties of a login with it."""
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    alteration = UserScramCredentialUpsertion(name, credential, b"secret")
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.alter_user_scram_credentials([alteration]).values():
        future.result(10)
    mechanism = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
    return {**mechanism, "sasl.username": name, "sasl.password": "secret"}


def allow(servers: str, principal: str, topic: str) -> None:
    acl = Acl(ResourceType.TOPIC, topic, False, principal, "*", "Read", True)
    with connect(servers) as cluster:
        assert cluster.execute([GrantAccess(ResourceRef("Access", principal), (acl,))]) == [None]


def test_devcluster_runs_from_up_to_wipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "dev"
    assert cli("status", "--data", directory).code == 1

    first = cli("up", "--data", directory)
    servers = first.stdout.strip()
    try:
        assert f"starting Apache Kafka {KAFKA_VERSION}, 1 broker" in first.stderr
        create_topic(servers, "kept")

        again = cli("up", "--data", directory)
        assert (again.code, again.stdout.strip()) == (0, servers)
        assert "already running" in again.stderr
        with pytest.raises(DevClusterError, match="has --brokers 1, not 3"):
            cli("up", "--data", directory, "--brokers", "3")
        with pytest.raises(DevClusterError, match="not 1099"):
            cli("up", "--data", directory, "--port", "1099")
        with pytest.raises(DevClusterError, match=rf"has --kafka-version {KAFKA_VERSION}, not 3\.9$"):
            cli("up", "--data", directory, "--kafka-version", "3.9")
        with pytest.raises(AlreadyRunning):
            DevCluster.start(directory)

        status = cli("status", "--data", directory, "--format", "json")
        status_document = json.loads(status.stdout)
        assert status.code == 0
        assert (status_document["state"], status_document["bootstrap_servers"]) == ("running", servers)
        assert [node["pid"] for node in status_document["nodes"]] == [p.pid for p in processes_in(directory)]
        assert "running" in cli("status", "--data", directory).stdout

        shown = cli("logs", "--data", directory, "-n", "4").stdout.splitlines()
        assert len(shown) == 4
        assert any(
            "Kafka Server started" in line
            for line in processes.read_tail(directory / "node-1" / "broker.log", 50)
        )

        (process,) = processes_in(directory)
        process.suspend()
        with monkeypatch.context() as patch:
            patch.setattr(readiness, "_RESPONSE_TIMEOUT_S", 0.3)
            frozen = cli("status", "--data", directory, "--format", "json")
            assert (frozen.code, json.loads(frozen.stdout)["state"]) == (
                1,
                DevClusterStatus.UNRESPONSIVE.value,
            )
            with pytest.raises(DevClusterError, match="unresponsive: no answer from node 1"):
                cli("up", "--data", directory)
        process.resume()

        assert "stopped" in cli("down", "--data", directory).stderr
        assert processes_in(directory) == []
        stopped = cli("status", "--data", directory, "--format", "json")
        assert (stopped.code, json.loads(stopped.stdout)["state"]) == (1, "stopped")
        assert "was not running" in cli("down", "--data", directory).stderr
        with pytest.raises(DevClusterError, match="cluster of 1"):
            cli("up", "--data", directory, "--brokers", "3")

        opened = cli("up", "--data", directory, "--acls", "--registry")
        assert opened.stdout.strip() == servers, "the ports stay where they are free"
        maps = [mapped.path for process in processes_in(directory) for mapped in process.memory_maps()]
        assert any(path.endswith(".jsa") and "classes-" in path for path in maps), (
            "written by `down` or before"
        )
        assert topics(servers) == {"kept"}
        assert cli("up", "--data", directory).stderr.splitlines()[-1] == opened.stderr.splitlines()[-1]
        with pytest.raises(DevClusterError, match="has --acls, not --no-acls"):
            cli("up", "--data", directory, "--no-acls")
        with pytest.raises(DevClusterError, match="has a schema registry"):
            cli("up", "--data", directory, "--no-registry")
        found = DevCluster.load(directory)
        assert found is not None
        assert found.has_acls
        assert f"schema registry: {found.registry_url}" in opened.stderr
        assert send_request("GET", f"{found.registry_url}/subjects", 10).body == b"[]"
        assert f"accounts log in at {found.sasl_bootstrap_servers}" in opened.stderr
        login = create_account(servers, "app")
        eventually(lambda: topics(found.sasl_bootstrap_servers, **login), lambda seen: seen == {"kept"})
        allow(servers, "User:other", "kept")
        eventually(lambda: topics(found.sasl_bootstrap_servers, **login), lambda seen: seen == set())
        assert topics(servers) == {"kept"}, "the plaintext listener's clients are super users"
        now = cli("status", "--data", directory, "--format", "json")
        assert json.loads(now.stdout)["cluster_id"] == status_document["cluster_id"]
    finally:
        (directory / "mine.txt").write_text("not the cluster's")
        cli("down", "--data", directory, "--wipe")
    assert processes_in(directory) == []
    assert [path.name for path in directory.iterdir()] == ["mine.txt"]


@pytest.mark.nightly("three starts of a broker; a day has one with a registry, as part of the test above")
def test_registry_is_kept_until_removed(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    try:
        for arguments, processes in (("--registry",), 2), ((), 2), (("--no-registry",), 1):
            opened = cli("up", "--data", directory, *arguments)
            assert ("schema registry: http://" in opened.stderr) == (processes == 2)
            assert len(processes_in(directory)) == processes
            cli("down", "--data", directory)
            assert processes_in(directory) == []
    finally:
        cli("down", "--data", directory, "--wipe")


@pytest.mark.nightly("four starts of brokers and of ZooKeeper")
def test_devcluster_runs_brokers_with_zookeeper(tmp_path: Path) -> None:
    with DevCluster.start(
        tmp_path / "dev", ClusterSpec(kafka_version="2.8", sasl_users={"a": "x"}, brokers=2)
    ) as cluster:
        create_topic(cluster.bootstrap_servers, "written", replicas=2)
        assert len(processes_in(cluster.directory)) == 3
        cluster.stop()
        assert processes_in(tmp_path) == [], "ZooKeeper ends with the last broker"
        again = DevCluster.start(cluster.directory, ClusterSpec(sasl_users={"a": "x"}))
        assert (again.cluster_id, len(again.cluster_id)) == (cluster.cluster_id, 22)
        # A broker answers before it knows the topics of ZooKeeper.
        eventually(lambda: topics(again.bootstrap_servers), lambda names: names == {"written"})
    assert processes_in(tmp_path) == []
    cluster.wipe()
    assert not (tmp_path / "dev").exists()


def test_dev_run_passes_address_and_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen = tmp_path / "seen"
    probing = (
        "import os, sys, socket; servers = os.environ['KAFKAFORM_BOOTSTRAP_SERVER'];"
        "assert servers == os.environ['BOOTSTRAP_SERVERS'];"
        "socket.create_connection(servers.split(':')).close();"
        f"open({str(seen)!r}, 'w').write(servers); sys.exit(7)"
    )
    assert cli("run", "--", sys.executable, "-c", probing).code == 7
    assert seen.read_text().startswith("127.0.0.1:")
    assert processes_in(tmp_path) == []
    assert list(tmp_path.glob("kafkaform-dev-*")) == []


def test_terminated_dev_run_stops_cluster(tmp_path: Path) -> None:
    running = tmp_path / "running"
    command = [*CLI, "run", "sh", "-c", f"cd {tmp_path}; touch {running}; exec sleep 100"]
    run = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        wait_for(running.exists)
        run.terminate()
        assert run.wait(120) == 128 + signal.SIGTERM
    finally:
        run.kill()
        run.wait()
    assert processes_in(tmp_path) == []

import json
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafkaform.core.errors import DevClusterError, JavaError
from kafkaform.core.files import hold_lock
from kafkaform.core.values import replace
from kafkaform.devcluster import configuration, processes, readiness, releases, state
from kafkaform.devcluster.cluster import ClusterSpec, DevCluster, plan_nodes
from kafkaform.devcluster.jars.java import Java, find_java
from kafkaform.devcluster.ports import check_consecutive_ports
from kafkaform.devcluster.state import DevBroker
from tests.support.devcluster import CLI, cli, processes_in, wait_for

NODES = (DevBroker(1, 20001, 20011, 20021), DevBroker(2, 20002, 20012, 20022))


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_dev_run_of_wrong_command_starts_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(DevClusterError, match="no-such-command"):
        cli("run", "--", "no-such-command")
    assert list(tmp_path.iterdir()) == []


def test_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DevClusterError, match=f"port {port} on 127.0.0.1 is in use"):
            cli("up", "--data", tmp_path / "dev", "--port", str(port))
    assert not (tmp_path / "dev" / state.STATE_FILE).exists()
    with pytest.raises(DevClusterError, match="need ports above 65535"):
        check_consecutive_ports(65534, 3)


def test_missing_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(JavaError, match="no Java found") as error:
        cli("up", "--data", tmp_path / "dev")
    assert "install" in str(error.value.hint)
    script(tmp_path / "java", "echo 'Unable to locate a Java Runtime' >&2; exit 1")
    with pytest.raises(JavaError, match="no Java found"):
        find_java()


def test_outdated_java_is_named_with_location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "home" / "bin" / "java", """echo 'openjdk version "11.0.22" 2024-01-16' >&2""")
    script(tmp_path / "path" / "java", """echo 'java version "1.8.0_392"' >&2""")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    with pytest.raises(JavaError, match=r"bin/java is version 11 and .*/java is version 8") as error:
        cli("up", "--data", tmp_path / "dev")
    assert "install" in str(error.value.hint)
    good = script(tmp_path / "path" / "java", """echo 'openjdk version "21-ea" 2023-09-19' >&2""")
    assert find_java() == Java(good, "21-ea")


def test_class_archive_is_used_after_completion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKAFORM_CACHE", str(tmp_path))
    java = Java(tmp_path / "java", "21.0.1")
    archive = processes._name_class_archive(java, [tmp_path / "a.jar"])
    assert processes.find_class_archive(java, [tmp_path / "a.jar"]) is None
    killed = Path(f"{archive}.1")
    killed.write_bytes(bytes(4096) + b"classes")
    assert processes.find_class_archive(java, [tmp_path / "a.jar"]) is None
    Path(f"{archive}.2").write_bytes(b"header and classes")
    assert processes.find_class_archive(java, [tmp_path / "a.jar"]) == archive
    assert {*tmp_path.iterdir()} == {archive, killed}
    for second in (Java(java.path, "21.0.2"), Java(tmp_path / "other", "21.0.1")):
        assert processes.find_class_archive(second, [tmp_path / "a.jar"]) is None
    assert processes.find_class_archive(java, [tmp_path / "b.jar"]) is None


def test_unexpected_directory_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node-1").mkdir()
    with pytest.raises(DevClusterError, match="node-1 exists"):
        cli("up", "--data", tmp_path)
    damaged = '{"format_version": 1, "nodes": [{"id"'
    for command, text in (("up", damaged), ("down", "[" * 100_000), ("status", damaged), ("logs", damaged)):
        (tmp_path / state.STATE_FILE).write_text(text)
        with pytest.raises(DevClusterError, match="damaged"):
            cli(command, "--data", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(DevClusterError, match="cannot write to"):
        DevCluster.start(tmp_path / "file" / "below")


def test_missing_cluster_is_reported(tmp_path: Path) -> None:
    down = cli("down", "--data", tmp_path / "dev")
    assert (down.code, "no cluster" in down.stderr) == (0, True)
    status = cli("status", "--data", tmp_path / "dev", "--format", "json")
    assert json.loads(status.stdout)["state"] == "absent"
    with pytest.raises(DevClusterError, match="no cluster"):
        cli("logs", "--data", tmp_path / "dev")
    assert list(tmp_path.iterdir()) == []


def test_dev_commands_import_devcluster_late() -> None:
    heavy = "[m for m in sys.modules if 'devcluster' in m or m == 'psutil']"
    code = f"import sys; import kafkaform.cli.dev; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


_NO_JARS = "kafkaform.devcluster.cluster.fetch_kafka_classpath"


@pytest.fixture
def mute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Java that formats a storage; a node of it says something, and never answers."""
    waits = 'echo "[t] INFO all is well (k)"; mkfifo forever; read -r _ < forever'
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(_NO_JARS, lambda *_, **__: [])
    yield script(
        tmp_path / "home" / "bin" / "java",
        f"""case "$*" in
  -version) echo 'openjdk version "17.0.1" 2021-10-19' >&2 ;;
  *StorageTool*) mkdir data; echo version=1 > data/meta.properties ;;
  *) {waits} ;;
esac""",
    )
    for left in processes_in(tmp_path):
        left.kill()


@pytest.mark.usefixtures("mute")
def test_slow_node_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(DevClusterError, match=r"node 1 did not answer within 0\.1 s: .* all is well"):
        DevCluster.start(tmp_path / "dev", timeout_s=0.1)
    assert processes_in(tmp_path) == []


def test_node_failing_at_start_stops_other_nodes(tmp_path: Path, mute: Path) -> None:
    second = 'case "$PWD" in *node-2) echo "org.x.BadException: no.such.Class"; exit 1; esac'
    mute.write_text(mute.read_text().replace('echo "[t]', f'{second}; echo "[t]'))
    directory = tmp_path / "dev"
    with pytest.raises(DevClusterError, match=r"node 2 exited .*no\.such\.Class") as error:
        DevCluster.start(directory, ClusterSpec(brokers=2))
    assert "\n" not in error.value.message
    assert str(directory / "node-2" / "broker.log") in str(error.value.hint)
    assert processes_in(directory) == []


@pytest.mark.usefixtures("mute")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_up_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "dev"
    module, _, name = _NO_JARS.rpartition(".")
    code = f"import {module} as m; m.{name} = lambda *_, **__: []; {CLI[-1]}"
    up = subprocess.Popen([*CLI[:-1], code, "up", "--data", str(directory)], stdout=subprocess.PIPE)
    try:
        wait_for((directory / "node-1" / "forever").exists)
        assert len(processes_in(directory / "node-1")) == 1
        up.send_signal(number)
        printed, _ = up.communicate(timeout=120)
    finally:
        up.kill()
        up.wait()
    assert (up.returncode != 0, printed) == (True, b"")
    assert processes_in(directory) == []


def test_foreign_process_is_not_stopped(tmp_path: Path) -> None:
    node = replace(NODES[0], token="of-a-node-that-crashed")
    state.write_state(tmp_path, state.ClusterState("id", 384, formatted=True, nodes=(node,)))
    mention = f"-Dkafkaform.dev.node={node.token}"
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", mention, "Kafka"])
    try:
        assert json.loads(cli("status", "--data", tmp_path, "--format", "json").stdout)["state"] == "stopped"
        assert "was not running" in cli("down", "--data", tmp_path).stderr
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_custom_properties_override_and_expand_node_values() -> None:
    own = {"listeners": "TLS://127.0.0.1:{port},X://{rack}:{node_id}", "a.pattern": "{unknown}"}
    result = configuration.build_server_properties(NODES[1], NODES, properties=own, sasl_users=None)
    assert result["listeners"] == "TLS://127.0.0.1:20002,X://rack-2:2"
    assert result["a.pattern"] == "{unknown}"
    assert result["controller.quorum.voters"] == "1@127.0.0.1:20011,2@127.0.0.1:20012"
    assert result["offsets.topic.replication.factor"] == "2"
    with pytest.raises(DevClusterError, match="'a b'"):
        configuration.build_server_properties(NODES[0], NODES, properties={}, sasl_users={"a b": "x"})


def test_zookeeper_broker_has_no_controller_listener() -> None:
    users = {"a": "x"}
    zookeeper = state.ZooKeeper(20099)
    result = configuration.build_server_properties(
        NODES[1], NODES, properties={}, sasl_users=users, zookeeper=zookeeper
    )
    assert (result["broker.id"], result["zookeeper.connect"]) == ("2", "127.0.0.1:20099")
    assert result["listeners"] == "PLAINTEXT://127.0.0.1:20002,SASL://127.0.0.1:20022"
    assert result["authorizer.class.name"] == "kafka.security.authorizer.AclAuthorizer"
    assert not {"process.roles", "node.id", "controller.quorum.voters"} & result.keys()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        *((version, f"{version}: not a release") for version in ("v3.9", "3.9.1-rc1", "2.7.2", "9.9")),
        ("2.8,3.9", "mixed versions need Kafka 3.3"),
        ("3.8,3.9", "2 versions for 3 brokers"),
    ],
)
def test_unsupported_kafka_versions_are_refused(tmp_path: Path, given: str, reason: str) -> None:
    brokers = ["--brokers", "3"] if given == "3.8,3.9" else []
    with pytest.raises(DevClusterError, match=re.escape(reason)):
        cli("up", "--data", tmp_path / "dev", "--kafka-version", given, *brokers)
    assert not (tmp_path / "dev" / state.STATE_FILE).exists()


def test_node_versions_follow_request_and_state() -> None:
    def versions(kept: state.ClusterState | None, *given: str, brokers: int | None = None) -> list[str]:
        nodes = plan_nodes(kept, brokers=brokers, port=None, sasl=False, directory=Path(), versions=given)
        return [node.kafka_version for node in nodes]

    assert versions(None) == [releases.KAFKA_VERSION]
    assert versions(None, "3.9", brokers=2) == ["3.9.1", "3.9.1"]
    assert versions(None, "3.9", "4.0.0") == ["3.9.1", "4.0.0"]
    old = tuple(replace(node, kafka_version="3.9.1") for node in NODES)
    kept = state.ClusterState("id", 384, formatted=True, nodes=old)
    assert versions(kept) == ["3.9.1", "3.9.1"]
    assert versions(kept, "4.0") == ["4.0.0", "4.0.0"]
    with pytest.raises(DevClusterError, match=r"from Kafka 3\.9\.1 and cannot be used by 2\.8\.2"):
        versions(kept, "2.8")


def test_log_is_followed_over_restart(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    reader = processes.NodeLogReader(log)
    assert reader.read_new_lines() == []
    log.write_text("old\nbe")
    assert reader.read_new_lines() == ["old"]
    with log.open("a") as writer:
        writer.write("gun\nmore\n")
    lines = processes.follow_logs(
        {"node-1": reader, "node-2": processes.NodeLogReader(tmp_path / "none")}, poll_s=0
    )
    assert [next(lines), next(lines)] == [("node-1", "begun"), ("node-1", "more")]
    processes.rotate_log(log)
    log.write_text("anew\n")
    assert next(lines) == ("node-1", "anew")


def test_file_lock_excludes_second_holder_after_removal(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        with hold_lock(path, progress=lambda _line: waiting.set()):
            order.append("second")

    with ThreadPoolExecutor(1) as pool, hold_lock(path):
        pool.submit(second)
        assert waiting.wait(60)
        path.unlink()
        order.append("first")
    assert order == ["first", "second"]
    assert path.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack(">ii", 4, 1),
        struct.pack(">iibih", 12, 1, 0, 0, 35) + b"\0",
        struct.pack(">i", 0),
    ],
)
def test_invalid_response_is_refused(content: bytes) -> None:
    def serve() -> None:
        with server.accept()[0] as client:
            client.recv(1000)
            client.sendall(content)

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        with pytest.raises(readiness.InvalidResponse):
            readiness.read_membership("127.0.0.1", server.getsockname()[1], timeout_s=5)
        served.result(60)

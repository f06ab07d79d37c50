"""`kafkaform status` on a real Kafka, with real consumers: what a person and a program are told."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project, Terminal, plain
from tests.support.clusters.fixtures import TIMEOUT_S, Account, eventually
from tests.support.clusters.topics import make_topic


@pytest.fixture
def orders(project: Project, real_cluster: KafkaCluster) -> str:
    return make_topic(real_cluster, f"{project.prefix}orders")


def test_account_without_rights_gets_error_naming_hidden_kinds(
    account: Callable[..., Account], kafka_acl: DevCluster, prefix: str, tmp_path: Path
) -> None:
    blind = Project(tmp_path, kafka_acl.sasl_bootstrap_servers, prefix)
    where = ("--command-config", account().write_java_properties(tmp_path))
    for command_line, kinds in (
        (("status",), "topic or group"),
        (("import", "--out", str(tmp_path / "new")), "topic, group, quota, user, access or subject"),
    ):
        call = blind.run(*command_line, *where).needs(1)
        assert f"no {kinds} is visible to this account: " in call.err
    assert not (tmp_path / "new").exists()


def test_watch_redraws_until_ctrl_c(project: Project, orders: str) -> None:
    terminal = Terminal(*project.add_cluster(["status", orders, "--watch", "0.2"]), cwd=project.folder)
    terminal.wait_for("Ctrl-C ends")
    terminal.wait_for(orders)
    eventually(lambda: (terminal.wait_for("\x1b[2K"), terminal.seen)[1], lambda seen: orders in seen)
    terminal.type("\x03")
    call = terminal.end().needs(0)
    assert "interrupted" not in call.out
    assert orders in plain(call.out)


def test_watch_in_pipe_prints_block_per_refresh(project: Project, orders: str) -> None:
    for form, mark in (("text", "TOPIC"), ("json", '{"topics": [{')):
        process = project.start("status", orders, "--format", form, "--watch", "0.1")
        assert process.stdout is not None
        seen = ""
        while seen.count(mark) < 2:
            line = process.stdout.readline()
            assert line, seen
            seen += line
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=TIMEOUT_S)
        expected = f"cluster {project.servers} · no kafkaform.yaml found\n"
        assert (process.returncode, output) == (0, expected if form == "text" else "")

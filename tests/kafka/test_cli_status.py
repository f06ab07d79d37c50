"""`kafkaform status` on a real Kafka, with real consumers: what a person and a program are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import CreateTopic
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli_helpers import Project, Terminal, command, environment, plain
from tests.support.group_clients import assigned
from tests.support.kafka_fixtures import TIMEOUT_S, Account, eventually


@pytest.fixture
def orders(project: Project, real_cluster: KafkaCluster) -> str:
    """A topic of two partitions with 100 and 50 records."""
    ref = ResourceRef("Topic", f"{project.prefix}orders")
    assert real_cluster.execute([CreateTopic(ref, 2, 1, {"retention.ms": "172800000"})]) == [None]
    eventually(lambda: real_cluster.observe([ref]).resources, lambda found: ref in found)
    producer = Producer({"bootstrap.servers": project.servers})
    for partition, count in ((0, 100), (1, 50)):
        for number in range(count):
            producer.produce(ref.name, str(number).encode(), partition=partition)
    assert producer.flush(TIMEOUT_S) == 0
    return ref.name


def only(found: list[Any], name: str) -> Any:
    (one,) = [one for one in found if one["name"] == name]
    return one


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_more_members_than_partitions_and_lag_to_the_record(
    project: Project, orders: str, protocol: str
) -> None:
    group = f"{project.prefix}shop"
    with assigned(project.servers, group, orders, protocol, members=3) as members:
        members[0].commit(offsets=[TopicPartition(orders, 0, 30)], asynchronous=False)

        def read() -> Any:
            return only(project.run("status", group, "--format", "json").needs(0).json["groups"], group)

        shown = eventually(read, lambda shown: len(shown["members"]) == 3 and shown["state"] == "Stable")
        assert (shown["protocol"], shown["exists"], shown["declared"]) == (protocol, True, None)
        assert shown["assignor"]
        assert len(shown["idle_members"]) == 1
        held = {(part["topic"], part["partition"]) for one in shown["members"] for part in one["assignment"]}
        assert held == {(orders, 0), (orders, 1)}
        assert {one["client_id"] for one in shown["members"]} == {"app-0", "app-1", "app-2"}
        assert shown["partitions"] == [
            {"topic": orders, "partition": 0, "committed": 30, "end": 100, "lag": 70},
            {"topic": orders, "partition": 1, "committed": None, "end": 50, "lag": None},
        ]
        assert shown["lag"] == 70
        text = project.run("status", group).needs(0).out
        assert "3, 1 idle" in text
        assert "70 in 1 of 2" in text
        assert "IDLE MEMBER" in text


def test_topics_with_their_size_retention_and_readers(project: Project, orders: str) -> None:
    group = f"{project.prefix}shop"
    with assigned(project.servers, group, orders):
        shown = only(
            eventually(
                lambda: project.run("status", orders, "--format", "json").needs(0).json["topics"],
                lambda topics: only(topics, orders)["groups"] == [group],
            ),
            orders,
        )
    assert shown["size_bytes"] > 150
    del shown["size_bytes"]
    assert shown == {
        "name": orders,
        "exists": True,
        "declared": None,
        "team": None,
        "partitions": 2,
        "replication_factor": 1,
        "cleanup_policy": "delete",
        "retention_ms": 172800000,
        "retention_bytes": -1,
        "groups": [group],
    }
    header, row = project.run("status", orders, "--kind", "Topic").needs(0).out.strip().split("\n")
    assert header.split() == ["TOPIC", "PARTITIONS", "RF", "RETENTION", "SIZE", "GROUPS"]
    assert row.split()[:4] == [orders, "2", "1", "2d"]


def test_what_is_declared_beside_what_is_there(project: Project, orders: str) -> None:
    project.write(
        "topics/shop.yaml",
        "apiVersion: kafkaform/v1\nkind: Topic\n"
        f"metadata: {{name: {orders}, labels: {{team: checkout}}}}\n"
        "spec: {partitions: 2, replicationFactor: 1}\n---\n"
        "apiVersion: kafkaform/v1\nkind: ConsumerGroup\n"
        f"metadata: {{name: {project.prefix}none, labels: {{owner: shop}}}}\n"
        f"spec: {{topics: [{orders}], members: {{expected: 3}}}}\n",
    )
    with assigned(project.servers, f"{project.prefix}stray", orders):
        call = project.run("status", f"{project.prefix}*").needs(0)
        data = project.run("status", f"{project.prefix}*", "--format", "json").needs(0).json
    lines = [" ".join(line.split()) for line in call.out.split("\n")]
    assert f"{project.prefix}none - does not exist 0 of 3 - - shop yes" in lines
    assert any(line.startswith(f"{project.prefix}stray") and line.endswith(" - no") for line in lines)
    assert only(data["topics"], orders)["team"] == "checkout"
    missing = only(data["groups"], f"{project.prefix}none")
    assert (missing["exists"], missing["declared"], missing["expected_members"]) == (False, True, 3)
    assert only(data["groups"], f"{project.prefix}stray")["declared"] is False


def test_groups_are_listed_by_lag(project: Project, orders: str) -> None:
    for name, committed in (("some", 90), ("none", 100), ("much", 10)):
        with assigned(project.servers, f"{project.prefix}{name}", orders) as (member,):
            offsets = [TopicPartition(orders, 0, committed), TopicPartition(orders, 1, 50)]
            member.commit(offsets=offsets, asynchronous=False)
    mine = f"{project.prefix}*"

    def listed(*options: str) -> list[str]:
        found = project.run("status", mine, *options, "--format", "json").needs(0).json
        return [one["name"].removeprefix(project.prefix) for one in (*found["topics"], *found["groups"])]

    assert listed("--sort", "lag") == ["much", "some", "none"]
    assert listed("--lagging") == ["much", "some"]
    assert listed("--sort", "size") == ["orders"]
    out = project.run("status", mine, "--lagging").needs(0).out
    assert out.endswith("\n\n2 groups with lag, 1 without are not listed\n")
    call = project.run("status", "--lagging", "--kind", "topic").needs(64)
    assert call.err.startswith("Error: --lagging shows groups only")
    project.run("status", "--sort", "size", "--lagging").needs(64)


def java_file(folder: Path, login: Account) -> Path:
    """Write the properties that Kafka's own tools take, with an account's login."""
    java = folder / "client.properties"
    user, password = login.properties["sasl.username"], login.properties["sasl.password"]
    java.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{password}";\n'
    )
    return java


def test_an_account_that_sees_nothing_is_told(
    account: Callable[..., Account], kafka_acl: DevCluster, prefix: str, tmp_path: Path
) -> None:
    blind = Project(tmp_path, kafka_acl.sasl_bootstrap_servers, prefix)
    where = ("--command-config", java_file(tmp_path, account()))
    for command_line in (("status",), ("import", "--out", str(tmp_path / "new"))):
        call = blind.run(*command_line, *where).needs(1)
        assert "this account sees no topic or group: there is none, or the account lacks Describe" in call.err
    assert not (tmp_path / "new").exists()


def test_a_bad_manifest_does_not_hide_the_cluster(project: Project, orders: str) -> None:
    project.write("topics/bad.yaml", "kind: Topic\nspec: {}\n")
    call = project.run("status", orders).needs(0)
    assert orders in call.out
    assert call.said.startswith("not read: the manifests: topics/bad.yaml:1:1: ")
    assert call.said.count("\n") == 1


def test_a_glob_that_matches_nothing_is_an_error_with_a_hint(project: Project, orders: str) -> None:
    call = project.run("status", orders, orders[:-1]).needs(1)
    assert call.out == ""
    assert call.said == (f"Error: no topic or group matches {orders[:-1]!r}\nhint: did you mean {orders}?\n")
    call = project.run("status", "__consumer_*", "--kind", "Topic").needs(1)
    assert "--all shows them" in call.err


def test_what_is_ignored_is_shown_when_it_is_asked_for(project: Project, orders: str) -> None:
    """Once a consumer has been here, brokers have the topic that offsets are kept in."""
    with assigned(project.servers, f"{project.prefix}shop", orders):
        pass
    internal = "__consumer_offsets"
    whole = project.run("status").needs(0)
    assert internal not in whole.out
    assert "hidden by ignore patterns (--all shows them)" in whole.out
    assert internal in project.run("status", "--all").needs(0).out
    assert internal in project.run("status", internal).needs(0).out


def test_names_are_whole_in_a_pipe_and_fit_a_terminal(project: Project, real_cluster: KafkaCluster) -> None:
    name = f"{project.prefix}{'a-long-part.' * 8}v1"
    ref = ResourceRef("Topic", name)
    assert real_cluster.execute([CreateTopic(ref, 1, 1, {})]) == [None]
    eventually(lambda: real_cluster.observe([ref]).resources, lambda found: ref in found)
    assert f"{name}  " in project.process("status", name).needs(0).out
    terminal = Terminal(*project.aimed(["status", name]), cwd=project.folder)
    screen = plain(terminal.end().needs(0).out)
    lines = screen.split("\n")
    assert name in lines, "a name that no line has room for is not broken: it could not be copied"
    assert max(len(line) for line in lines if line != name) <= 80


def test_watching_draws_anew_until_ctrl_c(project: Project, orders: str) -> None:
    terminal = Terminal(*project.aimed(["status", orders, "--watch", "0.2"]), cwd=project.folder)
    terminal.wait_for("Ctrl-C ends")
    terminal.wait_for(orders)
    eventually(lambda: (terminal.wait_for("\x1b[2K"), terminal.seen)[1], lambda seen: orders in seen)
    terminal.type("\x03")
    call = terminal.end().needs(0)
    assert "interrupted" not in call.out
    assert orders in plain(call.out)


def test_watching_in_a_pipe_prints_a_block_each_time(project: Project, orders: str) -> None:
    for form, mark in (("text", "TOPIC"), ("json", '{"topics": [{')):
        arguments = project.aimed(["status", orders, "--format", form, "--watch", "0.1"])
        process = subprocess.Popen(
            command(*arguments),
            cwd=project.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        seen = ""
        while seen.count(mark) < 2:
            line = process.stdout.readline()
            assert line, seen
            seen += line
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=TIMEOUT_S)
        expected = f"cluster {project.servers} · no kafkaform.yaml found\n"
        assert (process.returncode, told) == (0, expected if form == "text" else "")


def test_what_is_not_a_pause_is_wrong_usage(project: Project) -> None:
    call = project.run("status", "--watch", "orders.*").needs(64)
    assert call.err.startswith("Error: --watch orders.*: not a number of seconds")
    assert "before --watch" in call.err
    project.run("status", "--watch", "0").needs(64)
    project.run("status", "--watch", "inf").needs(64)


def test_what_this_account_may_not_see_is_said_in_a_line(
    account: Callable[..., Account], kafka_acl: DevCluster, prefix: str, tmp_path: Path
) -> None:
    """Topics may be described; log folders and groups may not."""
    few = account(f"TOPIC:{prefix}*:DESCRIBE", f"TOPIC:{prefix}*:DESCRIBE_CONFIGS", f"TOPIC:{prefix}*:CREATE")
    ref = ResourceRef("Topic", f"{prefix}seen")
    assert few.cluster.execute([CreateTopic(ref, 1, 1, {})]) == [None]
    eventually(lambda: few.cluster.observe([ref]).resources, lambda found: ref in found)
    java = java_file(tmp_path, few)
    project = Project(tmp_path, kafka_acl.sasl_bootstrap_servers, prefix)
    project.write(
        "topics/group.yaml",
        "apiVersion: kafkaform/v1\nkind: ConsumerGroup\n"
        f"metadata: {{name: {prefix}secret}}\nspec: {{topics: [{ref.name}]}}\n",
    )
    call = project.run("status", f"{prefix}*", "--command-config", java, "--format", "json").needs(0)
    assert only(call.json["topics"], ref.name)["size_bytes"] is None
    assert only(call.json["groups"], f"{prefix}secret")["exists"] is None
    size, group, *notes = call.err.splitlines()
    assert size == f"not read: the size of topic {ref.name}: not visible to this account"
    assert group.startswith(f"not read: group {prefix}secret: ")
    assert all(line.startswith("note: ") for line in notes), notes
    assert [f"not read: {line}" for line in call.json["unread"]] == [size, group]
    assert [f"note: {line}" for line in call.json["notes"]] == notes


def test_a_reader_that_goes_away_is_no_failure(project: Project, orders: str) -> None:
    arguments = project.aimed(["status", orders])
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "kafkaform", *map(str, arguments)],
        cwd=project.folder,
        env=environment(),
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert "Traceback" not in done.stderr

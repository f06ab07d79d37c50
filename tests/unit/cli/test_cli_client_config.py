"""`kafkaform client-config`: settings for the application, from manifests alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.project import Call, Project

MANIFEST = """\
apiVersion: kafkaform/v1
kind: ConsumerGroup
metadata: {name: checkout}
spec:
  topics: [orders]
  client:
    max.poll.interval.ms: 5m
    partition.assignment.strategy: cooperative-sticky
    MORE
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path, "127.0.0.1:1", "")
    made.config()
    made.write("topics/g.yaml", MANIFEST.replace("MORE", "fetch.max.wait.ms: 1s"))
    return made


def config(project: Project, *arguments: object) -> Call:
    return project.run("client-config", *arguments)


def test_default_format_is_java_properties(project: Project) -> None:
    assert config(project, "checkout").needs(0).out == (
        "group.id=checkout\n"
        "group.protocol=classic\n"
        "fetch.max.wait.ms=1000\n"
        "max.poll.interval.ms=300000\n"
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor\n"
    )


def test_each_format_uses_reader_specific_settings(project: Project) -> None:
    call = config(project, "checkout", "--format", "json").needs(0)
    assert call.json["max.poll.interval.ms"] == "300000"
    assert "max.poll.interval.ms: '300000'\n" in config(project, "checkout", "--format", "yaml").needs(0).out
    env = config(project, "checkout", "--format", "env").needs(0).out
    assert "KAFKA_CONSUMER_MAX_POLL_INTERVAL_MS=300000\n" in env
    assert config(project, "checkout", "--format", "librdkafka").needs(0).out == (
        "group.id=checkout\n"
        "group.protocol=classic\n"
        "fetch.wait.max.ms=1000\n"
        "max.poll.interval.ms=300000\n"
        "partition.assignment.strategy=cooperative-sticky\n"
    )


def test_undeclared_group_suggests_declared_groups(project: Project) -> None:
    call = config(project, "chekout").needs(64)
    assert "no manifest declares a group 'chekout'" in call.err
    assert "did you mean 'checkout'?" in call.err
    assert "groups: checkout" in config(project, "orders").needs(64).err
    project.topic("orders")
    assert "no manifest declares a group" in config(project, "orders", "topics/orders.yaml").needs(64).err


def test_absent_group_is_refused(project: Project) -> None:
    text = "apiVersion: kafkaform/v1\nkind: ConsumerGroup\nmetadata: {name: gone}\nspec: {state: absent}\n"
    project.write("topics/gone.yaml", text)
    assert "declared to be absent" in config(project, "gone").needs(64).err


def test_unknown_setting_in_without_suggests_setting(project: Project) -> None:
    call = config(project, "checkout", "--without", "fetch.max.wait").needs(64)
    assert "--without fetch.max.wait: " in call.err
    assert "did you mean 'fetch.max.wait.ms'?" in call.err

"""`kafkaform client-config`: settings for the application, from manifests alone."""

import pytest

from tests.support.cli.project import Call, Project


@pytest.fixture
def project(project: Project) -> Project:
    project.config()
    client = {"max.poll.interval.ms": "5m", "fetch.max.wait.ms": "1s"}
    client["partition.assignment.strategy"] = "cooperative-sticky"
    project.group("checkout", topics=["orders"], client=client)
    return project


def config(project: Project, name: str, *arguments: object) -> Call:
    return project.run("client-config", project.prefix + name, *arguments)


def test_each_format_uses_reader_specific_settings(project: Project) -> None:
    head = f"group.id={project.prefix}checkout\ngroup.protocol=classic\n"
    java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    assert config(project, "checkout").needs(0).out == (
        f"{head}fetch.max.wait.ms=1000\nmax.poll.interval.ms=300000\npartition.assignment.strategy={java}\n"
    )
    assert config(project, "checkout", "--format", "librdkafka").needs(0).out == (
        f"{head}fetch.wait.max.ms=1000\nmax.poll.interval.ms=300000\n"
        "partition.assignment.strategy=cooperative-sticky\n"
    )
    shown = {name: config(project, "checkout", "--format", name).needs(0) for name in ("json", "yaml", "env")}
    assert shown["json"].json["max.poll.interval.ms"] == "300000"
    assert "max.poll.interval.ms: '300000'\n" in shown["yaml"].out
    assert "KAFKA_CONSUMER_MAX_POLL_INTERVAL_MS=300000\n" in shown["env"].out


def test_undeclared_group_suggests_declared_groups(project: Project) -> None:
    call = config(project, "chekout").needs(64)
    assert f"no manifest declares a group '{project.prefix}chekout'" in call.err
    assert f"did you mean '{project.prefix}checkout'?" in call.err
    assert f"groups: {project.prefix}checkout" in config(project, "orders").needs(64).err
    project.topic("orders")
    assert "no manifest declares a group" in config(project, "orders", "topics/orders.yaml").needs(64).err


def test_absent_group_is_refused(project: Project) -> None:
    project.group("gone", state="absent")
    assert "declared to be absent" in config(project, "gone").needs(64).err


def test_unknown_setting_in_without_suggests_setting(project: Project) -> None:
    call = config(project, "checkout", "--without", "fetch.max.wait").needs(64)
    assert "--without fetch.max.wait: " in call.err
    assert "did you mean 'fetch.max.wait.ms'?" in call.err

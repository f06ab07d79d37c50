"""`kafkaform get`: manifests of what is live, and what is reported where nothing is."""

from __future__ import annotations

import pytest
import yaml

from kafkaform.core.operations import AlterConfigs
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Project
from tests.support.plans.scenes import group, topic


@pytest.fixture(autouse=True)
def cluster(connected: Connected) -> Connected:
    """Topics `a`, `b-changelog` and `payments`, and groups `accountants` and `h`."""
    topics = [CreateTopic(topic(name), 2, 1, {}) for name in ("a", "b-changelog", "payments")]
    groups = [CommitInitialOffsets(group(name), {"a": "earliest"}) for name in ("accountants", "h")]
    assert connected.execute([*topics, *groups]) == [None] * 5
    return connected


def test_get_prints_manifest_and_overwrites_file(project: Project) -> None:
    manifest = (
        "apiVersion: kafkaform/v1\nkind: Topic\nmetadata:\n"
        "  name: a\nspec:\n  partitions: 2\n  replicationFactor: 1\n"
    )
    for given in (["topics", "a"], ["Topic/a"], ["topic/a"], ["Topic", "a"]):
        assert project.run("get", *given).needs(0).out == manifest
    project.run("get", "topic", "a", "-o", "topics/a.yaml").needs(1)
    project.write("topics/a.yaml", "")
    assert project.run("get", "topic", "a", "-o", "topics/a.yaml").needs(0).out == ""
    assert (project.folder / "topics/a.yaml").read_text("utf-8") == manifest
    project.run("plan", "topics", "--no-strict", "--detailed-exitcode").needs(0)


def test_group_with_configs_only_reports_omitted_topics(project: Project, cluster: Connected) -> None:
    assert cluster.execute([AlterConfigs(group("c"), {"consumer.session.timeout.ms": "50000"})]) == [None]
    call = project.run("get", "group", "c").needs(0)
    spec = {"protocol": "consumer", "config": {"consumer.session.timeout.ms": "50s"}}
    assert yaml.safe_load(call.out)["spec"] == spec
    assert call.said.startswith("left out: topics: ")


@pytest.mark.parametrize(("kind", "near"), [("topic", "payments"), ("group", "accountants")])
def test_missing_resource_suggests_the_nearest_name(project: Project, kind: str, near: str) -> None:
    call = project.run("get", kind, near[:-1]).needs(1)
    assert call.said.startswith(f"Error: {kind} '{near[:-1]}' ")
    assert f"did you mean {near}?" in call.said
    assert call.out == ""


def test_names_are_lines_or_json(project: Project) -> None:
    assert project.run("get", "topics").needs(0).out.split() == ["a", "payments"]
    every = ["a", "b-changelog", "payments"]
    assert project.run("get", "topics", "--all").needs(0).out.split() == every
    assert project.run("get", "topics", "--all", "--format", "json").needs(0).json == every
    assert project.run("get", "groups").needs(0).out.split() == ["accountants", "h"]

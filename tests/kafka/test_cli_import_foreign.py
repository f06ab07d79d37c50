"""`kafkaform import --from`: the plan of the converted files is empty on a cluster that the tool has made."""

from __future__ import annotations

import shutil
from itertools import groupby
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from kafkaform.core.acl_fields import write_path, write_value
from kafkaform.core.model import Create, Observed, ResourceRef
from kafkaform.core.operations import Operation
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources import KINDS
from kafkaform.resources.client_quota.operations import AlterQuota
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import TIMEOUT_S, admin_client, connect, eventually
from tests.support.foreign.examples import EXAMPLES, NAME, QUOTAS, TOPICS, list_acls

KINDS_MADE = ("Access", "ClientQuota")


@pytest.fixture
def project(kafka_acl: DevCluster, tmp_path: Path, prefix: str) -> Project:
    """A project on the cluster with accounts."""
    made = Project(tmp_path, kafka_acl.bootstrap_servers, prefix)
    client = {"bootstrap.servers": kafka_acl.bootstrap_servers}
    authorizer = {"superUsers": ["User:ANONYMOUS"], "allowEveryoneIfNoAclFound": False}
    made.config(clusters={"acl": {"client": client, "authorizer": authorizer, "lock": False}})
    return made


def list_made(project: Project) -> list[Observed]:
    """The principals and quotas of this test that the cluster has."""
    with connect(project.servers) as cluster:
        observation = cluster.observe((), lambda ref: project.prefix[:-1] in ref.name, kinds=KINDS_MADE)
    return [*observation.resources.values()]


def make(project: Project, tool: str, name: str) -> None:
    """Make what a tool creates, with another start of all names."""
    admin = admin_client(project.servers)
    topics = [
        NewTopic(topic.replace(NAME, name), partitions, 1, config=dict(configs))
        for topic, (partitions, configs) in TOPICS[tool].items()
    ]
    for future in admin.create_topics(topics, request_timeout=TIMEOUT_S).values():
        future.result(TIMEOUT_S)
    operations: list[Operation] = [
        AlterQuota(ResourceRef("ClientQuota", quota.replace(NAME, name)), limits, ())
        for quota, limits in QUOTAS.get(tool, {}).items()
    ]
    for principal, acls in groupby(list_acls(tool, name), lambda acl: acl.principal):
        state = {write_path(acl): write_value(acl) for acl in acls}
        operations += KINDS["Access"].operations(Create(ResourceRef("Access", principal), state))
    with connect(project.servers) as cluster:
        assert cluster.execute(operations) == [None] * len(operations)
    expected = len({operation.ref for operation in operations})
    eventually(lambda: list_made(project), lambda found: len(found) == expected)
    eventually(
        lambda: {*admin.list_topics(timeout=TIMEOUT_S).topics},
        lambda found: {topic.topic for topic in topics} <= found,
    )


@pytest.mark.parametrize("tool", TOPICS)
def test_plan_of_what_another_tool_has_created_is_empty(project: Project, tool: str, prefix: str) -> None:
    name = prefix[:-1]
    make(project, tool, name)
    example = EXAMPLES[tool]
    source = project.write(f"theirs/{example.name}", example.read_text("utf-8").replace(NAME, name))
    project.run("import", "--from", tool, source, "--out", "ours").needs(1)
    shutil.rmtree(project.folder / "ours" / "schemas", ignore_errors=True)  # of a registry, not of Kafka
    for path in (project.folder / "ours").glob("*.yaml"):
        # Confluent Cloud has three replicas of each partition, and this cluster one broker.
        path.write_text(path.read_text("utf-8").replace("replicationFactor: 3", "replicationFactor: 1"))
    plan = project.run("plan", "ours", "--format", "json", "--detailed-exitcode").needs(0).json
    declared = len(TOPICS[tool]) + len(QUOTAS.get(tool, ())) + len({a.principal for a in list_acls(tool)})
    assert plan["summary"]["unchanged"] == declared

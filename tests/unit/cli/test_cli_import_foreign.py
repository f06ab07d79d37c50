"""`kafkaform import --from`: the plan of the converted files is empty on a cluster that the tool has made."""

from __future__ import annotations

import shutil
from itertools import groupby

import pytest

from kafkaform.core.acl_fields import write_path, write_value
from kafkaform.core.model import Create, ResourceRef
from kafkaform.core.operations import Operation
from kafkaform.resources import KINDS
from kafkaform.resources.client_quota.operations import AlterQuota
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Project
from tests.support.foreign.examples import EXAMPLES, QUOTAS, TOPICS, list_acls
from tests.support.plans.scenes import topic


def list_operations(tool: str) -> list[Operation]:
    """Return the operations that create what a tool creates."""
    operations: list[Operation] = [
        CreateTopic(topic(name), partitions, 1, configs)
        for name, (partitions, configs) in TOPICS[tool].items()
    ]
    operations += [
        AlterQuota(ResourceRef("ClientQuota", quota), limits)
        for quota, limits in QUOTAS.get(tool, {}).items()
    ]
    for principal, acls in groupby(list_acls(tool), lambda acl: acl.principal):
        state = {write_path(acl): write_value(acl) for acl in acls}
        operations += KINDS["Access"].operations(Create(ResourceRef("Access", principal), state))
    return operations


@pytest.mark.parametrize("tool", TOPICS)
def test_plan_after_import_from_other_tool_is_empty(
    project: Project, tool: str, connected: Connected
) -> None:
    authorizer = {"superUsers": ["User:root"], "allowEveryoneIfNoAclFound": False}
    client = {"bootstrap.servers": project.servers}
    project.config(clusters={"acl": {"client": client, "authorizer": authorizer, "lock": False}})
    operations = list_operations(tool)
    assert connected.execute(operations) == [None] * len(operations)
    project.run("import", "--from", tool, EXAMPLES[tool], "--out", "ours").needs(1)
    shutil.rmtree(project.folder / "ours" / "schemas", ignore_errors=True)  # of a registry, not of Kafka
    for path in (project.folder / "ours").glob("*.yaml"):
        # Confluent Cloud has three replicas of each partition, and this cluster one broker.
        path.write_text(path.read_text("utf-8").replace("replicationFactor: 3", "replicationFactor: 1"))
    plan = project.run("plan", "ours", "--format", "json", "--detailed-exitcode").needs(0).json
    assert plan["summary"]["unchanged"] == len({operation.ref for operation in operations})


def test_sources_in_folder_of_manifests_need_another_folder(project: Project) -> None:
    project.config()
    source = project.write("topics/a.yaml", "topics: {a: {partitions: 1, replication: 1}}\n")
    error, hint = project.run("import", source).read_error(64)
    assert error.startswith("topics has the files to import")
    assert "--out DIR" in hint
    project.run("import", source, "--out", "ours").needs(0)
    assert (project.folder / "ours" / "a.yaml").exists()

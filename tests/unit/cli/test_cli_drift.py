"""`kafkaform drift` of a cluster that somebody changes by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kafkaform.core.schema_files import load_schema
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Project
from tests.support.plans.scenes import group

pytestmark = pytest.mark.usefixtures("connected")


MONTH = "2592000000"

ORDERS = """\
# Orders, as they come in.
apiVersion: kafkaform/v1
kind: Topic
metadata:
  name: {prefix}orders   # the name
spec:
  partitions: 3
  replicationFactor: 1
  keyed: false
  retention: 7d   # a week
  config: {{cleanup.policy: delete}}
"""


@pytest.fixture
def project(project: Project) -> Project:
    project.config()
    return project


@pytest.fixture
def drifted(project: Project) -> Project:
    """A topic of which two configs were changed by hand, one of them undeclared."""
    project.write("topics/orders.yaml", ORDERS.format(prefix=project.prefix))
    project.apply().needs(0)
    project.run("drift", "--unmanaged", "ignore").needs(0)
    project.set_config("orders", "retention.ms", MONTH)
    project.set_config("orders", "segment.ms", "3600000")
    return project


def topics(project: Project, *arguments: object) -> Any:
    call = project.run("drift", "--unmanaged", "ignore", "--format", "json", *arguments)
    document = json.loads(call.out)
    Draft202012Validator(load_schema("drift")).validate(document)
    return document


# --- what is told ----------------------------------------------------------------------------------


def test_restore_command_removes_drift(drifted: Project) -> None:
    command = topics(drifted)["resources"][0]["restore"]["command"]
    program, *words = command.split()
    assert program == "kafkaform"
    drifted.run(*words, "--auto-approve").needs(0)
    assert drifted.live()["orders"]["retention.ms"] == "604800000"
    document = topics(drifted)
    assert [field["path"] for field in document["resources"][0]["fields"]] == ["config.segment.ms"]
    # And what nothing declares goes by the line that the report shows.
    (line,) = document["resources"][0]["restore"]["lines"]
    assert (line["yaml"], line["keys"][:-1]) == ("segment.ms: null", ["spec", "config"])
    text = ORDERS.format(prefix=drifted.prefix).replace("delete}", f"delete, {line['yaml']}}}")
    drifted.write("topics/orders.yaml", text)
    drifted.apply().needs(0)
    drifted.run("drift", "--unmanaged", "ignore").needs(0)


# --- what nobody declares --------------------------------------------------------------------------


def test_unmanaged_topics_and_groups_are_reported(project: Project, connected: Connected) -> None:
    mine = f"{project.prefix}mine"
    project.topic("mine")
    project.apply().needs(0)
    (project.folder / "topics/mine.yaml").unlink()
    project.topic("declared")
    project.apply().needs(0)
    reader = group(f"{project.prefix}reader")
    assert connected.execute([CommitInitialOffsets(reader, {mine: "earliest"})]) == [None]

    def run(*arguments: str) -> Any:
        return project.run("drift", "--format", "json", *arguments)

    unmanaged = run().json["unmanaged"]
    assert {"kind": "Topic", "name": mine} in unmanaged
    assert {"kind": "ConsumerGroup", "name": f"{project.prefix}reader"} in unmanaged
    assert run().needs(0).json["summary"]["drifted"] == 0
    assert run("--unmanaged", "error").needs(2).json["verdict"] == "drift"
    assert run("--unmanaged", "ignore").needs(0).json["unmanaged"] is None
    assert run("--target", "Topic/*").needs(0).json["unmanaged"] is None
    failed = project.run("drift", "--adopt", "--unmanaged", "error").needs(1)
    assert f"not adopted Topic/{mine}: " in failed.out


# --- adopting --------------------------------------------------------------------------------------


# --- failure ---------------------------------------------------------------------------------------


def test_invalid_manifest_fails_drift(project: Project) -> None:
    project.write("topics/a.yaml", "kind: Topic\n")
    call = project.run("drift", "--format", "prometheus").needs(1)
    assert 'kafkaform_drift_success{cluster="dev"} 0.0' in call.out
    assert project.run("drift", "--format", "github").needs(1).out.startswith("::error file=topics/a.yaml")


def test_drift_of_a_branch_uses_the_trusted_cluster(project: Project, tmp_path: Path) -> None:
    branch = Project(tmp_path / "branch", "127.0.0.1:1", project.prefix)
    branch.config()
    branch.topic("b")
    call = project.run("drift", "--manifests-from", branch.folder, "--unmanaged", "ignore").needs(2)
    assert f"Topic/{project.prefix}b" in call.out

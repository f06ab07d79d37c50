"""`kafkaform drift` of a cluster that somebody changes by hand."""

from pathlib import Path
from typing import Any

import pytest

from kafkaform.resources.consumer_group.operations import CommitInitialOffsets
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Project
from tests.support.plans.scenes import group

pytestmark = pytest.mark.usefixtures("connected")


@pytest.fixture
def project(project: Project) -> Project:
    project.config()
    return project


def test_restore_command_removes_drift(project: Project) -> None:
    declared: dict[str, Any] = {"partitions": 3, "keyed": False, "retention": "7d"}
    project.topic("orders", **declared, config={"cleanup.policy": "delete"})
    project.apply().needs(0)
    drift = ("drift", "--unmanaged", "ignore", "--format", "json")
    project.run(*drift).needs(0)
    project.set_config("orders", "retention.ms", "2592000000")
    project.set_config("orders", "segment.ms", "3600000")
    (resource,) = project.run(*drift).needs(2).json["resources"]
    program, *words = resource["restore"]["command"].split()
    assert program == "kafkaform"
    project.run(*words, "--auto-approve").needs(0)
    assert project.live()["orders"]["retention.ms"] == "604800000"
    (resource,) = project.run(*drift).needs(2).json["resources"]
    assert [field["path"] for field in resource["fields"]] == ["config.segment.ms"]
    # And what nothing declares goes by the line that the report shows.
    (line,) = resource["restore"]["lines"]
    assert (line["yaml"], line["keys"][:-1]) == ("segment.ms: null", ["spec", "config"])
    project.topic("orders", **declared, config={"cleanup.policy": "delete", "segment.ms": None})
    project.apply().needs(0)
    project.run(*drift).needs(0)


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

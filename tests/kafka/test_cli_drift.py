"""`kafkaform drift`, on real brokers that somebody changes by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kafkaform.core.schema_files import load_schema
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import eventually
from tests.support.clusters.group_clients import commit
from tests.support.clusters.topics import delete_topic

MONTH = "2592000000"
RECORDED = {"KAFKAFORM_AUDIT": "true"}

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
    """Drift of this project's topics alone, as JSON."""
    call = project.run("drift", "--unmanaged", "ignore", "--format", "json", *arguments)
    document = json.loads(call.out)
    Draft202012Validator(load_schema("drift")).validate(document)
    return document


def delete(project: Project, name: str) -> None:
    delete_topic(project.servers, project.prefix + name)


# --- what is told ----------------------------------------------------------------------------------


def test_command_that_restores_does(drifted: Project) -> None:
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


def test_groups_drift_too(project: Project) -> None:
    spec: Any = {"topics": [project.topic("a")], "protocol": "consumer"}
    project.group("g", **spec, config={"consumer.session.timeout.ms": "50s"})
    project.apply().needs(0)
    eventually(lambda: project.run("drift", "--unmanaged", "ignore").code, lambda code: code == 0)
    project.group("g", **spec, config={"consumer.session.timeout.ms": "55s"})
    (found,) = topics(project)["resources"]
    assert (found["kind"], found["drift"]) == ("ConsumerGroup", "differs")
    assert found["fields"][0]["live"] == "50000"
    assert found["accept"]["lines"][0]["yaml"] == "consumer.session.timeout.ms: 50s"
    project.run("drift", "--adopt", "--unmanaged", "ignore").needs(0)
    project.run("drift", "--unmanaged", "ignore").needs(0)


# --- since when ------------------------------------------------------------------------------------


def test_since_when_by_the_record_of_applies(project: Project) -> None:
    project.topic("a", config={"retention.ms": "7d", "segment.ms": "1d"})
    project.topic("b")
    project.run("apply", "--auto-approve", env=RECORDED).needs(0)
    project.set_config("a", "retention.ms", MONTH)
    delete(project, "b")
    project.topic("a", config={"retention.ms": "7d", "segment.ms": "2d"})
    call = project.run("drift", "--unmanaged", "ignore").needs(2)
    an_apply = r"an apply of \d{4}-\d\d-\d\d \d\d:\d\d UTC by \S+( \(commit \w{12}\))?"
    words = " ".join(call.out.split())
    assert re.search(rf"since:? {an_apply} set 7d; changed since", words)
    assert re.search(rf"since:? {an_apply} set the live value", words)
    assert re.search(rf"since:? {an_apply} .*; deleted since", words)
    causes = {
        field["path"]: field["since"]["cause"]
        for topic in topics(project)["resources"]
        for field in topic["fields"]
    }
    assert causes == {"config.retention.ms": "cluster_changed", "config.segment.ms": "manifest_changed"}


# --- what nobody declares --------------------------------------------------------------------------


def test_unmanaged_topics_and_groups(project: Project) -> None:
    mine = f"{project.prefix}mine"
    project.topic("mine")
    project.apply().needs(0)
    (project.folder / "topics/mine.yaml").unlink()
    project.topic("declared")
    project.apply().needs(0)
    commit(project.servers, f"{project.prefix}reader", {(mine, 0): 0})

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


def test_adopted_values_drift_no_more(drifted: Project) -> None:
    file = drifted.folder / "topics/orders.yaml"
    before = file.read_text("utf-8")
    shown = drifted.run("drift", "--adopt", "--dry-run", "--unmanaged", "ignore").needs(0)
    assert file.read_text("utf-8") == before
    assert "\n-  retention: 7d   # a week\n" in shown.out
    assert "\n+  retention: 30d   # a week\n" in shown.out
    assert "2 values to adopt in 1 file" in shown.out

    call = drifted.run("drift", "--adopt", "--unmanaged", "ignore").needs(0)
    assert "2 values adopted in 1 file" in call.out
    after = file.read_text("utf-8")
    assert after == before.replace("retention: 7d", "retention: 30d").replace(
        "delete}", "delete, segment.ms: 1h}"
    )
    drifted.run("drift", "--unmanaged", "ignore").needs(0)
    assert "No changes" in drifted.run("plan").needs(0).out
    again = drifted.run("drift", "--adopt", "--unmanaged", "ignore").needs(0)
    assert again.out == "Nothing to adopt.\n"


def test_one_resource_of_a_file_is_adopted(drifted: Project) -> None:
    """The others of the file stay as they are, and are known all the same."""
    drifted.topic("other", config={"retention.ms": "1d"})
    drifted.apply("--target", "*other").needs(0)
    drifted.set_config("other", "retention.ms", MONTH)
    both = ORDERS.format(prefix=drifted.prefix) + "---\n"
    both += (drifted.folder / "topics/other.yaml").read_text("utf-8")
    (drifted.folder / "topics/other.yaml").unlink()
    drifted.write("topics/orders.yaml", both)
    drifted.run("drift", "--adopt", "--target", "*other").needs(0)
    (left,) = topics(drifted)["resources"]
    assert left["name"] == f"{drifted.prefix}orders"


# --- failure ---------------------------------------------------------------------------------------


def test_broken_manifest_is_no_success(project: Project) -> None:
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

"""`kafkaform drift`, `history` and `revert`: what people changed by hand, and what applies changed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaform.resources.consumer_group.operations import CommitInitialOffsets
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Project, run_in_process
from tests.support.plans.scenes import group

pytestmark = pytest.mark.usefixtures("connected")


KEPT = {"KAFKAFORM_AUDIT": "true"}
CLUSTER = {"client": {"bootstrap.servers": "127.0.0.1:1"}}


def read_changes(project: Project, *arguments: object) -> list[dict[str, Any]]:
    changes: list[dict[str, Any]] = (
        project.run("history", *arguments, "--format", "json").needs(0).json["changes"]
    )
    return changes


def test_history_is_filtered_by_name_id_age_and_limit(project: Project) -> None:
    names = [project.topic(name) for name in ("orders", "prices")]
    project.run("apply", "topics", "--auto-approve", env=KEPT).needs(0)

    def list_changes(*arguments: object) -> list[str]:
        return [name for change in read_changes(project, *arguments) if (name := change["name"]) in names]

    assert sorted(list_changes()) == sorted(names)
    assert list_changes(f"Topic/{names[0]}") == [names[0]]
    assert list_changes(names[0]) == [names[0]]
    assert sorted(list_changes(f"Topic/{project.prefix}*")) == sorted(names)
    assert list_changes(f"ConsumerGroup/{names[0]}") == []
    (change,) = read_changes(project, names[0])
    assert list_changes(change["id"]) == [names[0]]
    assert sorted(list_changes(change["run"])) == sorted(names)
    assert len(list_changes(f"{project.prefix}*", "--limit", "1")) == 1
    assert list_changes(names[0], "--since", "1h") == [names[0]]
    assert list_changes(names[0], "--since", "0s") == []
    limited = project.run("history", f"{project.prefix}*", "--limit", "1").needs(0).out
    assert "--limit" in limited


def test_history_of_file_needs_no_cluster(project: Project) -> None:
    project.topic("orders")
    audit = {"topic": False, "file": "audit.jsonl"}
    project.config(clusters={"dev": {**CLUSTER, "lock": False, "audit": audit}})
    project.run("apply", "--auto-approve", "--audit").needs(0)
    (change,) = read_changes(project, "--file", "audit.jsonl")
    assert (change["name"], change["result"]) == (f"{project.prefix}orders", "applied")
    with (project.folder / "audit.jsonl").open("a") as file:
        file.write('garbage \x1b[2J\n{"format_version": 99}\n')
    call = run_in_process("history", "--file", "audit.jsonl", cwd=project.folder).needs(0)
    assert "Topic/" in call.out
    damaged, later = call.err.splitlines()
    assert damaged.startswith("warning: audit.jsonl: skipped record 3: ")
    assert later.startswith("warning: audit.jsonl: skipped record 4: ")
    assert "\x1b" not in call.both


def test_missing_record_is_named(project: Project) -> None:
    project.config(clusters={"dev": {**CLUSTER, "audit": {"topic": False}}})
    assert "not recorded" in project.run("history").needs(1).err
    missing = run_in_process("history", "--file", "none.jsonl", cwd=project.folder).needs(1)
    assert "none.jsonl: " in missing.err


MANIFEST = """\
# What shops write.
apiVersion: kafkaform/v1
kind: Topic
metadata:
  name: {name}   # with its version
spec:
  partitions: {partitions}
  replicationFactor: 1
  keyed: false
  retention: {retention}  # see TICKET-1
"""


def write(project: Project, *, partitions: int = 1, retention: str = "7d") -> str:
    name = f"{project.prefix}orders"
    text = MANIFEST.format(name=name, partitions=partitions, retention=retention)
    project.write("topics/orders.yaml", text)
    return text


def apply_topics(project: Project, *arguments: str) -> dict[str, Any]:
    project.run("apply", "topics", "--auto-approve", *arguments, env=KEPT).needs(0)
    return read_changes(project, f"{project.prefix}*")[0]


def test_reverted_update_restores_manifest_with_comments(project: Project) -> None:
    before = write(project)
    apply_topics(project)
    after = write(project, retention="1d")
    change = apply_topics(project, "--allow", "destructive")
    shown = project.run("revert", change["id"], "--dry-run").needs(0)
    assert shown.out.startswith("--- topics/orders.yaml\n+++ topics/orders.yaml\n@@ -7,4 +7,4 @@\n")
    assert shown.out.endswith("-  retention: 1d  # see TICKET-1\n+  retention: 7d  # see TICKET-1\n")
    assert "nothing was written" in shown.said
    assert (project.folder / "topics/orders.yaml").read_text() == after
    written = project.run("revert", change["id"]).needs(0)
    assert written.out == shown.out
    assert (project.folder / "topics/orders.yaml").read_text() == before
    assert project.live()["orders"]["retention.ms"] == "86400000", "the cluster is not touched"
    apply_topics(project)
    assert project.live()["orders"]["retention.ms"] == "604800000"
    again = project.run("revert", change["id"]).needs(1)
    assert "to 7d; --force" in again.err


def test_reverted_deletion_without_manifest_creates_file(project: Project) -> None:
    before = write(project, partitions=3)
    apply_topics(project)
    project.write("topics/orders.yaml", before.replace("spec:\n", "spec:\n  state: absent\n"))
    change = apply_topics(project, "--allow", "destructive")
    name = f"{project.prefix}orders"
    second = "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: other}\nspec: {state: absent}\n"
    project.write("topics/orders.yaml", second)
    taken = project.write(f"topics/{name}.yaml", second.replace("other", "another"))
    assert "not overwritten" in project.run("revert", change["id"]).needs(1).err
    taken.unlink()
    call = project.run("revert", change["id"]).needs(0)
    assert call.out.startswith(f"--- /dev/null\n+++ topics/{name}.yaml\n")
    made = yaml.safe_load((project.folder / "topics" / f"{name}.yaml").read_text())
    assert made["spec"] == {"partitions": 3, "replicationFactor": 1, "retention": "7d"}
    run_in_process("validate", cwd=project.folder).needs(0)
    assert (project.folder / "topics/orders.yaml").read_text() == second


def test_revert_edits_the_environment_of_the_change(project: Project) -> None:
    """The others stay as they are."""
    clusters = {name: {**CLUSTER, "environment": name, "lock": False} for name in ("dev", "prod")}
    project.config(environments=["dev", "prod"], clusters=clusters)
    where = ("--cluster", "prod")
    write(project)
    project.run("apply", *where, "--auto-approve", "--audit").needs(0)
    write(project, retention="1d")
    project.run("apply", *where, "--auto-approve", "--audit", "--allow", "destructive").needs(0)
    name = f"Topic/{project.prefix}orders"
    change = read_changes(project, name, *where)[0]
    assert change["environment"] == "prod"
    wrong = project.run("revert", change["id"], *where, "--environment", "dev").needs(64)
    assert "--environment is dev" in wrong.err
    address = ("--bootstrap-server", project.servers)
    wrong = project.run("revert", change["id"], *address, "--environment", "dev").needs(64)
    assert "environment 'prod', not dev" in wrong.err
    project.run("revert", change["id"], *where).needs(0)
    spec = yaml.safe_load((project.folder / "topics/orders.yaml").read_text())["spec"]
    assert spec["retention"] == "1d"
    assert spec["overrides"] == {"prod": {"retention": "7d"}}


def test_unrecorded_id_is_refused_with_suggestion(project: Project) -> None:
    write(project)
    change = apply_topics(project)
    run = change["run"]
    near = project.run("revert", f"{run}.7").needs(1)
    assert f"no change or apply '{run}.7' is recorded" in near.err
    assert "did you mean" in near.err
    assert project.run("revert", "none").needs(1).said.startswith("Error: no change or apply 'none'")
    assert project.run("revert", change["id"].upper(), "--dry-run").needs(0).out


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

    shown = run().needs(0).json
    assert {"kind": "Topic", "name": mine} in shown["unmanaged"]
    assert {"kind": "ConsumerGroup", "name": f"{project.prefix}reader"} in shown["unmanaged"]
    assert shown["summary"]["drifted"] == 0
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

"""`kafkaform plan` and `show` on a real Kafka: what is shown, saved and exited with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Call, Project, called, login_project, manifest
from tests.support.clusters.fixtures import TIMEOUT_S, Account


def detailed(project: Project, *more: str) -> int:
    return project.run("plan", "topics", "--detailed-exitcode", *more).code


def test_exit_codes_with_and_without_changes(project: Project) -> None:
    project.topic("a")
    assert project.run("plan", "topics").code == 0
    assert detailed(project) == 2
    project.apply("topics").needs(0)
    assert detailed(project) == 0
    assert "No changes: 1 declared resource" in project.run("plan", "topics").out


def test_a_plan_without_a_login_imports_no_client(project: Project) -> None:
    project.topic("a")
    names = {"confluent_kafka", "scramp", "botocore", "gssapi", "cryptography", "http.client"}
    script = (
        "import sys; from kafkaform.cli.main import run\n"
        f"code = run(['plan', 'topics', '--bootstrap-server', '{project.servers}'])\n"
        f"assert not sys.modules.keys() & {names}; sys.exit(code)"
    )
    subprocess.run([sys.executable, "-c", script], cwd=project.folder, timeout=TIMEOUT_S, check=True)


def test_a_plan_changes_nothing(project: Project) -> None:
    """Nor does it create topics by asking for them: this broker would."""
    project.topic("a")
    project.topic("gone", state="absent")
    project.run("plan", "topics", "--allow", "destructive").needs(0)
    assert project.live() == {}


def test_what_is_held_back_fails_unless_switched_off(project: Project) -> None:
    project.topic("a", partitions=3, retention="7d")
    project.topic("b", retention="7d")
    project.apply("topics").needs(0)
    project.topic("a", partitions=2, retention="7d")
    project.topic("b", retention="1d")
    call = project.run("plan", "topics").needs(1)
    assert "1 refused" in call.out.splitlines()[-1]
    assert "1 needs consent" in call.out.splitlines()[-1]
    assert f"--allow Topic/{project.prefix}b:retention-cut" in call.out
    assert project.run("plan", "topics", "--no-strict").code == 0
    assert detailed(project) == 1
    assert detailed(project, "--no-strict") == 2


def test_json_markdown_and_the_saved_plan_agree(project: Project) -> None:
    project.topic("a")
    call = project.run("plan", "topics", "--format", "json", "--out", "plan.json").needs(0)
    saved = json.loads((project.folder / "plan.json").read_text("utf-8"))
    assert call.json == saved
    again = f"`kafkaform apply plan.json --bootstrap-server {project.servers}`"
    assert call.err == f"saved: {again} applies exactly this plan\n"
    assert saved["cluster"]["name"] == project.servers
    shown = called("show", "plan.json", "--format", "markdown", cwd=project.folder).needs(0)
    made = project.run("plan", "topics", "--format", "markdown").needs(0)
    assert shown.out == made.out
    assert f"Topic/{project.prefix}a" in made.out


def test_out_is_whole_or_not_there(project: Project) -> None:
    project.topic("a")
    call = project.run("plan", "topics", "--out", "no/such/plan.json").needs(1)
    assert call.err.startswith("Error: cannot write no/such/plan.json: ")
    project.write("plan.json", "what was there")
    project.run("plan", "topics", "--target", "Topic/nope", "--out", "plan.json").needs(64)
    assert (project.folder / "plan.json").read_text("utf-8") == "what was there"
    project.run("plan", "topics", "--out", "plan.json").needs(0)
    assert sorted(file.name for file in project.folder.iterdir()) == ["plan.json", "topics"]


def test_target(project: Project) -> None:
    for name in ("a.one", "a.two", "b"):
        project.topic(name)
    call = project.run("plan", "topics", "--target", f"Topic/{project.prefix}a.*").needs(0)
    assert "Plan: 2 to create" in call.out
    one = f"Topic/{project.prefix}b"
    call = project.run("plan", "topics", "--target", one, "--target", f"Topic/{project.prefix}a.two").needs(0)
    assert "Plan: 2 to create" in call.out
    assert "a.one" not in call.out


def test_prune_only_what_is_owned_and_only_as_a_whole(project: Project) -> None:
    for name in ("mine.old", "mine.audit", "other"):
        project.topic(name)
    project.apply("topics").needs(0)
    for name in ("mine.old", "mine.audit", "other"):
        (project.folder / f"topics/{name}.yaml").unlink()
    project.topic("kept")
    project.config(owns=[f"{project.prefix}mine.*"], protected=["*.audit"])

    assert "mine.old" not in [c["name"] for c in project.run("plan", "--format", "json").json["changes"]]
    call = project.run("plan", "--prune", "--format", "json").needs(1)
    deleted = [(c["name"], c["status"]) for c in call.json["changes"] if c["action"] == "delete"]
    assert deleted == [(f"{project.prefix}mine.old", "needs_consent")]
    project.run("plan", "--prune", "topics/kept.yaml").needs(64)
    project.apply("--prune").needs(1)
    assert set(project.live()) == {"mine.old", "mine.audit", "other", "kept"}
    project.apply("--prune", "--allow", f"Topic/{project.prefix}mine.*:delete").needs(0)
    assert set(project.live()) == {"mine.audit", "other", "kept"}


def test_what_nobody_declares_is_counted_and_left(project: Project) -> None:
    project.topic("a")
    project.topic("b")
    project.apply("topics").needs(0)
    (project.folder / "topics/b.yaml").unlink()
    project.config()
    call = project.run("plan", "--verbose").needs(0)
    assert f"      Topic/{project.prefix}b\n" in call.out
    part = project.run("plan", "--target", f"Topic/{project.prefix}a", "--format", "json").needs(0)
    assert part.json["unmanaged"] == [], "a part of the manifests says nothing about what is undeclared"


# --- an account with few rights --------------------------------------------------------------------


@pytest.fixture
def reader(kafka_acl: DevCluster, prefix: str, tmp_path: Path, account: Callable[..., Account]) -> Project:
    """A project of an account that may see the topics `seen.*`, and two of these there."""
    owner = Project(tmp_path / "owner", kafka_acl.bootstrap_servers, prefix)
    owner.topic("seen.a", retention="7d")
    owner.topic("hidden")
    owner.apply("topics").needs(0)
    given = account(
        f"TOPIC:{prefix}seen.*:DESCRIBE",
        f"TOPIC:{prefix}seen.*:DESCRIBE_CONFIGS",
        "CLUSTER:kafka-cluster:DESCRIBE",
    )
    return login_project(tmp_path, given, prefix)


def test_an_account_that_may_only_look_gets_its_plan(reader: Project) -> None:
    reader.topic("seen.a", retention="8d")
    call = reader.run("plan").needs(0)
    assert "1 to update" in call.out
    assert "ot validated" in call.out.splitlines()[-1]
    assert reader.run("plan", "--detailed-exitcode").code == 2
    assert reader.run("plan", "--format", "json").json["broker_validated"] is False


def test_a_hidden_topic_is_never_planned_as_new(reader: Project) -> None:
    reader.topic("seen.a", retention="8d")
    reader.topic("hidden")
    call = reader.run("plan", "--detailed-exitcode", "--format", "json").needs(1)
    assert [c["name"] for c in call.json["changes"]] == [f"{reader.prefix}seen.a"]
    assert [u["name"] for u in call.json["unknown"]] == [f"{reader.prefix}hidden"]
    assert "KF410" in [d["code"] for d in call.json["diagnostics"]]
    text = reader.run("plan").needs(1)
    assert "not visible" in text.out.splitlines()[-1]


def test_an_apply_it_may_not_do_fails_by_resource(reader: Project) -> None:
    reader.topic("seen.a", retention="8d")
    reader.topic("seen.b")
    call: Call = reader.apply("--format", "json").needs(1)
    results = {r["name"].removeprefix(reader.prefix): r for r in call.json["results"]}
    assert {name: r["result"] for name, r in results.items()} == {"seen.a": "failed", "seen.b": "failed"}
    assert all("authoris" in r["message"] for r in results.values())
    assert "Traceback" not in call.err


def test_manifests_come_from_stdin(project: Project) -> None:
    spec = {"partitions": 1, "replicationFactor": 1}
    given = manifest(f"{project.prefix}a", spec)
    made = project.process("plan", "-", "--out", "plan.json", given=given).needs(0)
    assert f"+ Topic/{project.prefix}a" in made.out
    assert "<stdin>:" in made.out
    document = json.loads((project.folder / "plan.json").read_text("utf-8"))
    assert document["commit"] is None
    assert document["changes"][0]["source"]["file"] == "<stdin>"
    wrong = called("validate", "-", cwd=project.folder, given=given.replace("ns: ", "s: ")).needs(1)
    assert re.search(r"^<stdin>:\d+:\d+: ", wrong.err, re.MULTILINE)
    assert "did you mean 'partitions'?" in wrong.err
    assert "<stdin>:1:1: " in project.run("plan", "-").needs(1).err
    project.run("apply", "-", "--auto-approve", given=given).needs(0)
    assert set(project.live()) == {"a"}


def test_stdin_is_a_part_of_the_manifests(project: Project) -> None:
    project.topic("a")
    project.config(owns=[f"{project.prefix}*"])
    project.apply().needs(0)
    given = manifest(f"{project.prefix}b", {"partitions": 1, "replicationFactor": 1})
    assert f"{project.prefix}a" not in project.run("plan", "-", "-v", given=given).needs(0).out

"""`kafkaform plan` and `show` on a real Kafka: what is shown, saved and exited with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkaform.cli.plan import exit_code
from kafkaform.core.model import Create, FieldChange, Plan, PlannedChange, ResourceRef, Status, Update
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli_helpers import ESCAPE, Call, Project, called, manifest
from tests.support.kafka_fixtures import Account


def detailed(project: Project, *more: str) -> int:
    return project.run("plan", "topics", "--detailed-exitcode", *more).code


def test_exit_codes_with_and_without_changes(project: Project) -> None:
    project.topic("a")
    assert project.run("plan", "topics").code == 0
    assert detailed(project) == 2
    project.apply("topics").needs(0)
    assert detailed(project) == 0
    assert "No changes: 1 declared resource, all as declared." in project.run("plan", "topics").out


def test_a_plan_changes_nothing(project: Project) -> None:
    """Nor does it create topics by asking for them: this broker would."""
    project.topic("a")
    project.topic("gone", state="absent")
    project.run("plan", "topics", "--allow", "destructive").needs(0)
    assert project.live() == {}


WAITING = Update(
    ResourceRef("Topic", "a"),
    None,
    (FieldChange("replicationFactor", 1, 3, deferred="the layout is not known"),),
)
CODES = [
    (Plan("c"), 0, 0, 0),
    (Plan("c", (PlannedChange(Create(ResourceRef("Topic", "a"), {}), Status.PLANNED),)), 0, 2, 0),
    (Plan("c", (PlannedChange(Create(ResourceRef("Topic", "a"), {}), Status.REFUSED),)), 0, 2, 1),
    (Plan("c", (PlannedChange(Create(ResourceRef("Topic", "a"), {}), Status.NEEDS_CONSENT),)), 0, 2, 1),
    (Plan("c", (PlannedChange(WAITING, Status.PLANNED),)), 0, 2, 1),
    (Plan("c", unknown=(ResourceRef("Topic", "a"),)), 1, 1, 1),
]


@pytest.mark.parametrize(("made", "simple", "with_detail", "strict"), CODES)
def test_precedence_of_exit_codes(made: Plan, simple: int, with_detail: int, strict: int) -> None:
    assert exit_code(made, detailed=False, strict=False) == simple
    assert exit_code(made, detailed=True, strict=False) == with_detail
    assert exit_code(made, detailed=False, strict=True) == strict
    assert exit_code(made, detailed=True, strict=True) == (strict or with_detail)


def test_what_is_held_back_is_said_and_fails_unless_that_is_switched_off(project: Project) -> None:
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
    again = f"kafkaform apply plan.json --bootstrap-server {project.servers}"
    assert call.err == f"saved: {again} applies exactly this plan\n"
    assert saved["cluster"]["name"] == project.servers
    shown = called("show", "plan.json", "--format", "markdown", cwd=project.folder).needs(0)
    made = project.run("plan", "topics", "--format", "markdown").needs(0)
    assert shown.out == made.out
    assert f"Topic/{project.prefix}a" in made.out


def test_out_is_whole_or_not_there(project: Project) -> None:
    project.topic("a")
    call = project.run("plan", "topics", "--out", "no/such/plan.json").needs(1)
    assert call.err == "Error: cannot write no/such/plan.json: No such file or directory\n"
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
    for nothing in (one.upper(), "Topic/nope", project.prefix + "b"):
        call = project.run("plan", "topics", "--target", one, "--target", nothing).needs(64)
        assert f"--target {nothing!r} matches no declared resource" in call.err
        assert call.out == ""


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
    for subset in (["topics/kept.yaml"], ["--target", f"Topic/{project.prefix}kept"]):
        refused = project.run("plan", "--prune", *subset).needs(64)
        assert "--prune needs all manifests" in refused.err
    project.apply("--prune").needs(1)
    assert set(project.live()) == {"mine.old", "mine.audit", "other", "kept"}
    project.apply("--prune", "--allow", f"Topic/{project.prefix}mine.*:delete").needs(0)
    assert set(project.live()) == {"mine.audit", "other", "kept"}

    project.config()
    assert "set owns:" in project.run("plan", "--prune").needs(64).err


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


@pytest.mark.parametrize(("undeclared", "code"), [("report", 0), ("keep", 0), ("reset", 1)])
def test_a_config_set_by_hand(project: Project, undeclared: str, code: int) -> None:
    project.topic("a", undeclared=undeclared)
    project.apply("topics").needs(0)
    project.set_config("a", "retention.ms", "1209600000")
    assert detailed(project) == code
    shown = project.run("plan", "topics").out
    assert ("retention.ms = 14d" in shown) == (undeclared == "report")
    if undeclared == "reset":
        # From 14 days to the broker's default of 7.
        assert "retention-cut" in shown
        project.apply("topics").needs(1)
        assert project.live()["a"]["retention.ms"] == "1209600000"
        project.apply("topics", "--allow", "Topic/*:retention-cut").needs(0)
        assert "retention.ms" not in project.live()["a"]


def test_a_manual_change_of_a_declared_config_is_found(project: Project) -> None:
    project.topic("a", retention="7d")
    project.apply("topics").needs(0)
    project.set_config("a", "retention.ms", "604800001")
    call = project.run("plan", "topics", "--detailed-exitcode", "--no-strict").needs(2)
    assert "604800001" in call.out
    project.topic("a", config={"retention.ms": "604800001"})
    assert detailed(project) == 0


def test_foreign_text_cannot_break_markdown_or_the_terminal(project: Project) -> None:
    evil = f"{ESCAPE}[2J|`<img src=x>\u202e\r\n# heading"
    project.topic("a", retention="7d")
    project.apply("topics").needs(0)
    consent = f"retention-cut from 7d: because {evil.splitlines()[0]}"
    project.topic("a", retention="1d", metadata={"annotations": {"kafkaform/allow": consent}})
    project.topic("b", metadata={"name": f"{project.prefix}{evil}"})
    for output_format in ("text", "markdown", "json"):
        call = project.run("plan", "topics", "--format", output_format).needs(1)
        for bad in (ESCAPE, "\r", "\u202e", "\n# heading"):
            assert bad not in call.out
        if output_format == "markdown":
            outside_code = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", call.out)
            assert "img" in call.out
            assert "<img" not in outside_code
    call = project.apply("topics").needs(1)
    assert ESCAPE not in call.both
    assert "\r" not in call.both


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
    project = Project(tmp_path, kafka_acl.sasl_bootstrap_servers, prefix)
    project.config(clusters={"it": {"client": {"bootstrap.servers": project.servers, **given.properties}}})
    return project


def test_an_account_that_may_only_look_gets_its_plan(reader: Project) -> None:
    reader.topic("seen.a", retention="8d")
    call = reader.run("plan").needs(0)
    assert "1 to update" in call.out
    assert call.out.splitlines()[-1].lower().count("not validated by the broker") == 1
    assert reader.run("plan", "--detailed-exitcode").code == 2
    assert reader.run("plan", "--format", "json").json["broker_validated"] is False


def test_a_topic_that_it_may_not_see_is_never_planned_as_new(reader: Project) -> None:
    reader.topic("seen.a", retention="8d")
    reader.topic("hidden")
    call = reader.run("plan", "--detailed-exitcode", "--format", "json").needs(1)
    assert [c["name"] for c in call.json["changes"]] == [f"{reader.prefix}seen.a"]
    assert [u["name"] for u in call.json["unknown"]] == [f"{reader.prefix}hidden"]
    assert "KF410" in [d["code"] for d in call.json["diagnostics"]]
    text = reader.run("plan").needs(1)
    assert "not visible to this account" in text.out.splitlines()[-1]


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
    assert "<stdin>:1:1: standard input is empty" in project.run("plan", "-").needs(1).err
    project.run("apply", "-", "--auto-approve", given=given).needs(0)
    assert set(project.live()) == {"a"}


def test_stdin_is_a_part_of_the_manifests(project: Project) -> None:
    project.topic("a")
    project.config(owns=[f"{project.prefix}*"])
    project.apply().needs(0)
    given = manifest(f"{project.prefix}b", {"partitions": 1, "replicationFactor": 1})
    refused = project.run("plan", "-", "--prune", given=given).needs(64)
    assert "--prune needs all manifests" in refused.err
    for arguments in (
        ["plan", "-", "--changed-since", "HEAD"],
        ["drift", "-", "--adopt"],
        ["revert", "x", "-"],
    ):
        assert "manifests cannot come from stdin" in project.run(*arguments, given=given).needs(64).err
    assert f"{project.prefix}a" not in project.run("plan", "-", "-v", given=given).needs(0).out


def test_annotations_are_of_what_changes_and_scanners_get_everything(project: Project) -> None:
    for name in ("a", "b", "c"):
        project.topic(name, retention="3d")  # below the segment.ms of the cluster: KF111
    project.apply("topics").needs(0)
    project.topic("a", retention="4d")
    annotated = project.run("plan", "topics", "--format", "github").needs(0).out.splitlines()
    assert len([line for line in annotated if "title=KF111" in line]) == 1
    assert "Also 2 warnings on unchanged resources (KF111): kafkaform validate lists them" in annotated
    assert annotated[-1].startswith("Plan: 1 to update, 2 unchanged.")
    (run,) = json.loads(project.run("plan", "topics", "--format", "sarif").needs(0).out)["runs"]
    assert [result["ruleId"] for result in run["results"]].count("KF111") == 3


def test_a_change_of_defaults_is_told_at_its_line(project: Project) -> None:
    defaults = {"Topic": {"partitions": 1, "replicationFactor": 1, "retention": "7d"}}
    project.config(defaults=defaults)
    for number in range(7):
        project.write(f"topics/t{number}.yaml", manifest(f"{project.prefix}t{number}", {}))
    project.write("topics/own.yaml", manifest(f"{project.prefix}own", {"retention": "3d"}))
    project.apply().needs(0)
    config = project.config(defaults={"Topic": {**defaults["Topic"], "retention": "9d"}})
    line = next(n for n, text in enumerate(config.read_text().splitlines(), 1) if "retention:" in text)
    changes = project.run("plan", "--format", "json").needs(0).json["changes"]
    assert len(changes) == 7
    assert {(one["source"]["file"], one["source"]["line"]) for one in changes} == {("kafkaform.yaml", line)}
    assert re.search(rf"~ 7 topics +kafkaform.yaml:{line}\n", project.run("plan").needs(0).out)
    project.write("topics/t0.yaml", manifest(f"{project.prefix}t0", {"retention": "8d"}))
    changes = project.run("plan", "--format", "json").needs(0).json["changes"]
    assert sorted(one["source"]["file"] for one in changes) == ["kafkaform.yaml"] * 6 + ["topics/t0.yaml"]

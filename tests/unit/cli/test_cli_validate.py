"""`kafkaform validate`: offline, everything in one run, for people and for programs."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from kafkaform.cli.main import run
from tests.support.cli.project import ESCAPE, ROOT, Call, Project, manifest


@pytest.fixture
def project(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(project.folder)
    monkeypatch.delenv("KAFKAFORM_ENVIRONMENT", raising=False)
    return project


@pytest.fixture
def validate(capsys: pytest.CaptureFixture[str]) -> Callable[..., Call]:
    def call(*arguments: str) -> Call:
        code = run(["validate", *arguments])
        return Call(code, *capsys.readouterr())

    return call


def test_one_line_when_all_is_well(project: Project, validate: Callable[..., Call]) -> None:
    project.topic("a")
    call = validate()
    assert (call.code, call.out, call.said) == (0, "1 resource: valid.\n", "")
    project.topic("b")
    message = "configuration none (no kafkaform.yaml found)\n"
    assert validate("topics/a.yaml", "topics/b.yaml") == Call(0, "2 resources: valid.\n", message)


def test_example_set_is_valid(monkeypatch: pytest.MonkeyPatch, validate: Callable[..., Call]) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("KAFKAFORM_ENVIRONMENT", raising=False)
    for arguments in ([], ["-e", "dev"], ["-e", "prod"]):
        call = validate(*arguments)
        assert call.code == 0
        assert call.out.endswith("resources: valid.\n")


def test_no_stage_hides_the_problems_of_another(project: Project, validate: Callable[..., Call]) -> None:
    head = "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: %s}\nspec: "
    wrong = head % "'bad name'" + "{partitons: 3, replicationFactor: 1}\n"
    project.write("topics/wrong.yaml", wrong)
    project.write("topics/sound.yaml", head % "'b c'" + "{partitions: 3, replicationFactor: 1}\n")
    call = validate()
    assert call.code == 1
    assert "topics/sound.yaml:3:12: error: KF101 'b c'" in call.out
    assert "topics/wrong.yaml:3:12: error: KF101 'bad name'" in call.out
    assert "topics/wrong.yaml:4:8: unknown field 'partitons'" in call.err
    found = json.loads(validate("--format", "json").out)["diagnostics"]
    assert [(item["code"], item["source"]["file"]) for item in found] == [
        (None, "topics/wrong.yaml"),
        ("KF101", "topics/sound.yaml"),
        ("KF101", "topics/wrong.yaml"),
    ]
    annotated = validate("--format", "github")
    assert (annotated.code, annotated.out.count("::error")) == (1, 3)


def test_wrong_configuration_does_not_hide_wrong_manifests(
    project: Project, validate: Callable[..., Call]
) -> None:
    project.write("kafkaform.yaml", "clustrs: {}\n")
    project.topic("b", partitons=3)
    call = validate()
    assert call.code == 1
    assert "unknown field 'clustrs'" in call.err
    assert "unknown field 'partitons'" in call.err


def test_every_problem_of_every_file_is_reported_with_its_place(
    project: Project, validate: Callable[..., Call]
) -> None:
    project.write("topics/a.yaml", "apiVersion: kafkaform/v1\nkind: Topik\nmetadata: {name: a}\nspec: {}\n")
    project.topic("b", partitons=3)
    project.topic("c", config={"retention.mss": "7d"})
    call = validate()
    assert (call.code, call.out) == (1, "")
    lines = call.err.splitlines()
    assert lines[-1] == "Error: 3 problems in the input"
    for place, meant in (
        ("topics/a.yaml:2:7: ", "did you mean 'Topic'?"),
        ("topics/b.yaml:", "did you mean 'partitions'?"),
        ("topics/c.yaml:", "did you mean 'retention.ms'?"),
    ):
        assert [line for line in lines if line.startswith(place) and meant in line], call.err


def test_json_holds_the_problems_too(project: Project, validate: Callable[..., Call]) -> None:
    project.topic("b", partitons=3)
    call = validate("--format", "json")
    assert (call.code, call.err) == (1, "")
    content = json.loads(call.out)
    assert content["resources"] is None
    (found,) = content["diagnostics"]
    assert found["severity"] == "error"
    assert found["source"]["file"] == "topics/b.yaml"
    assert found["source"]["line"] > 1
    assert "partitions" in found["suggestion"]


def test_warnings_do_not_fail_and_errors_of_rules_do(project: Project, validate: Callable[..., Call]) -> None:
    project.topic("a", replicationFactor=3, config={"min.insync.replicas": 1})
    call = validate()
    assert (call.code, call.said) == (0, "")
    assert "warning: KF109" in call.out
    assert call.out.endswith("1 resource: valid, 1 warning.\n")
    content = json.loads(validate("--format", "json").out)
    assert content["resources"] == 1
    assert content["diagnostics"][0]["code"] == "KF109"

    project.topic("a", replicationFactor=3, config={"min.insync.replicas": 4})
    project.topic("b", replicationFactor=3, config={"min.insync.replicas": 1})
    call = validate()
    assert call.code == 1
    assert call.out.endswith("2 resources: 1 error, 1 warning.\n")


def test_all_environments_unless_one_is_chosen(
    project: Project, validate: Callable[..., Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    project.config(environments=["dev", "prod"])
    bad = {"replicationFactor": 3, "config": {"min.insync.replicas": 5}}
    project.topic("a", overrides={"dev": {"partitions": 2}, "prod": bad})
    assert "KF109" in validate().out
    assert validate("-e", "dev").code == 0
    assert validate("-e", "prod").code == 1
    monkeypatch.setenv("KAFKAFORM_ENVIRONMENT", "dev")
    assert validate().code == 0
    assert validate("--environment", "prod").code == 1
    unknown = validate("-e", "prd")
    assert unknown.code == 64
    assert "did you mean 'prod'?" in unknown.err


def test_unknown_environment_hides_no_other_problem(project: Project, validate: Callable[..., Call]) -> None:
    project.config(environments=["dev", "prod"])
    project.topic("a")
    unknown = "there is no environment 'prd' in kafkaform.yaml"
    call = validate("-e", "prd").needs(64)
    assert unknown in call.err
    assert "valid" not in call.out
    project.topic("b b", replicationFactor=3, config={"min.insync.replicas": 4})
    call = validate("-e", "prd").needs(64)
    assert unknown in call.err
    assert "error: KF101 'x.b b'" in call.out
    assert "error: KF109" in call.out
    project.write("topics/wrong.yaml", "kind: Topik\n")
    call = validate("-e", "prd").needs(1)
    assert unknown in call.err
    assert "topics/wrong.yaml:1:1: apiVersion is missing" in call.err
    assert "topics/wrong.yaml:1:7: unknown kind 'Topik'" in call.err
    assert "Error: 3 problems in the input" in call.err
    assert "error: KF101 'x.b b'" in call.out
    for output_format in ("json", "github", "sarif"):
        call = validate("-e", "prd", "--format", output_format).needs(1)
        for text in ("there is no environment", "unknown kind", "KF101"):
            assert text in call.out


def test_overrides_need_an_environment(project: Project, validate: Callable[..., Call]) -> None:
    project.topic("a", overrides={"dev": {"partitions": 2}})
    call = validate()
    assert call.code == 1
    assert "topics/a.yaml:6:3: " in call.err
    assert "--environment (dev)" in call.err
    assert validate("-e", "dev").code == 0


def test_names_and_values_cannot_act_on_the_terminal(project: Project, validate: Callable[..., Call]) -> None:
    evil = f"x{ESCAPE}[31m\r\n\x07\u202e|<b>"
    project.topic(evil[:1], metadata={"name": evil})
    project.topic("b", config={f"retention.ms{ESCAPE}[2J": "1"})
    project.topic("c", config={"retention.ms": f"7d{ESCAPE}]0;title\x07"})
    call = validate()
    assert call.code == 1
    for bad in (ESCAPE, "\r", "\x07", "\u202e"):
        assert bad not in call.both
    (project.folder / "topics" / "b.yaml").unlink()
    (project.folder / "topics" / "c.yaml").unlink()
    call = validate()
    assert call.code == 1
    assert r"\x1b[31m" in call.both
    assert ESCAPE not in call.both


def test_file_names_cannot_either(project: Project, validate: Callable[..., Call]) -> None:
    project.write(f"topics/{ESCAPE}[31m\n.yaml", "kind: Topic\n")
    call = validate()
    assert call.code == 1
    assert ESCAPE not in call.both
    assert r"topics/\x1b[31m\n.yaml:" in call.err


@pytest.mark.parametrize(
    ("arguments", "place"),
    [(["nowhere"], "nowhere:1:1"), (["--config", "nowhere.yaml"], "nowhere.yaml"), ([], "topics:1:1")],
)
def test_missing_file_is_named(
    project: Project, validate: Callable[..., Call], arguments: list[str], place: str
) -> None:
    assert not list(project.folder.iterdir())
    call = validate(*arguments)
    assert (call.code, call.out) == (1, "")
    assert f"{place}: no such file" in call.err
    assert "kafkaform init" in call.err


def test_finding_of_some_environments_names_them(project: Project, validate: Callable[..., Call]) -> None:
    project.config(environments=["dev", "test", "prod"])
    thin: dict[str, Any] = {"replicationFactor": 3, "config": {"min.insync.replicas": 1}}
    project.topic("a", **thin)
    project.topic("b", overrides={"dev": thin, "test": {}, "prod": {}})
    lines = [line for line in validate().out.splitlines() if "KF109" in line]
    assert [("topics/a.yaml" in line, "(in dev)" in line) for line in lines] == [(True, False), (False, True)]
    found = validate("--format", "json").json["diagnostics"]
    assert [item["environments"] for item in found if item["code"] == "KF109"] == [None, ["dev"]]
    assert "(in " not in validate("-e", "dev").out


def test_brokers_of_the_environments_cluster_are_known(
    project: Project, validate: Callable[..., Call]
) -> None:
    cluster = {"environment": "prod", "client": {"bootstrap.servers": "h:1"}}
    project.config(environments=["prod"], clusters={"a": cluster})
    project.topic("a", partitions=4)
    assert "KF105" not in validate().out
    project.config(environments=["prod"], clusters={"a": cluster | {"brokers": 3}})
    assert "KF105" in validate().out


def test_annotations_for_github(project: Project, validate: Callable[..., Call]) -> None:
    project.topic("a", replicationFactor=3, config={"min.insync.replicas": 4})
    call = validate("--format", "github")
    assert (call.code, call.err) == (1, "")
    annotation, summary = call.out.splitlines()
    assert annotation.startswith(
        "::error file=topics/a.yaml,line=7,col=5,title=KF109::min.insync.replicas is 4"
    )
    assert summary == "1 resource: 1 error."


def test_annotations_of_a_job_that_works_in_a_folder_of_its_checkout(
    project: Project, validate: Callable[..., Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    project.topic("a", partitons=3)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.folder.parent))
    call = validate("--format", "github")
    assert (call.code, call.err) == (1, "")
    annotation, summary = call.out.splitlines()
    assert annotation.startswith(f"::error file={project.folder.name}/topics/a.yaml,line=")
    assert annotation.endswith(
        "line=7,col=3,title=invalid input::unknown field 'partitons' in spec%0Adid you mean 'partitions'?"
    )
    assert summary == "1 problem in the input"
    monkeypatch.setenv("GITHUB_WORKSPACE", "/elsewhere")
    assert validate("--format", "github").out.startswith("::error file=topics/a.yaml,line=7,col=3,")


def test_sarif_of_findings_and_of_bad_input(project: Project, validate: Callable[..., Call]) -> None:
    project.topic("a", replicationFactor=3, config={"min.insync.replicas": 1})
    call = validate("--format", "sarif")
    assert (call.code, call.err) == (0, "")
    (run,) = call.json["runs"]
    assert [(item["ruleId"], item["level"]) for item in run["results"]] == [("KF109", "warning")]
    project.topic("b", partitons=3)
    call = validate("--format", "sarif")
    assert (call.code, call.err) == (1, "")
    (run,) = call.json["runs"]
    assert [(item["ruleId"], item["level"]) for item in run["results"]] == [
        ("invalid-input", "error"),
        ("KF109", "warning"),
    ]


def test_policies_are_checked_with_the_rules(project: Project, validate: Callable[..., Call]) -> None:
    project.config(
        environments=["dev", "prod"],
        policies=[
            {
                "name": "wide",
                "message": "Production is wide.",
                "environments": ["prod"],
                "require": {"fields": {"partitions": {"min": 3}}},
            }
        ],
    )
    project.topic("a")
    call = validate()
    assert call.code == 1
    assert "topics/a.yaml:6:3: error: policy/wide Production is wide: partitions is 1" in call.out
    assert "(in prod)" in call.out
    assert call.out.endswith("1 resource: 1 error, 1 warning.\n")
    assert validate("-e", "dev").code == 0
    (run,) = validate("--format", "sarif").json["runs"]
    texts = {rule["id"]: rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"]}
    assert texts["policy/wide"] == "Production is wide."


# --- waivers ---------------------------------------------------------------------------------------


def test_waived_error_is_shown_and_counts_for_nothing(
    project: Project, validate: Callable[..., Call]
) -> None:
    bad: dict[str, Any] = {"replicationFactor": 3, "config": {"min.insync.replicas": 1}}
    project.config(rules={"KF109": "error"})
    project.topic("a", **bad)
    assert validate().code == 1
    project.topic("a", metadata={"annotations": {"kafkaform/waive.KF109": "a test bench"}}, **bad)
    call = validate().needs(0)
    assert "info: KF109" in call.out
    assert "(waived: a test bench)" in call.out
    assert call.out.endswith("1 resource: valid, 1 waived.\n")
    assert validate("--format", "github").out == "1 resource: valid, 1 waived.\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("KF999", "there is no such rule"),
        ("KF410", "is a note, not a rule"),
        ("KF101", "KF101 cannot be waived"),
        ("KF106", "kafkaform.yaml switches it off"),
        ("policy/wide", "has no finding for Topic/x.a"),
    ],
)
def test_waiver_without_effect_is_reported(
    project: Project, validate: Callable[..., Call], code: str, words: str
) -> None:
    wide = {"name": "wide", "message": "Wide", "require": {"fields": {"partitions": {"min": 3}}}}
    project.config(rules={"KF106": "off"}, policies=[wide])
    project.topic("a", partitions=3, metadata={"annotations": {f"kafkaform/waive.{code}": "why"}})
    call = validate().needs(0)
    (line,) = [line for line in call.out.splitlines() if "KF418" in line]
    assert line.startswith("topics/a.yaml:5:5: warning: KF418 ")
    assert words in line


@pytest.mark.parametrize("code", ["KF401", "KF109"])
def test_nothing_is_reported_of_waivers_of_rules_that_need_more_than_manifests(
    project: Project, validate: Callable[..., Call], code: str
) -> None:
    project.topic("a", metadata={"annotations": {f"kafkaform/waive.{code}": "why"}})
    assert "KF418" not in validate().out


def test_waiver_is_of_use_if_it_is_in_one_environment(
    project: Project, validate: Callable[..., Call]
) -> None:
    wide = {"name": "wide", "message": "Wide", "require": {"fields": {"partitions": {"min": 3}}}}
    project.config(environments=["dev", "prod"], policies=[wide])
    annotations = {"annotations": {"kafkaform/waive.policy/wide": "dev is small"}}
    project.topic("a", partitions=3, metadata=annotations, overrides={"dev": {"partitions": 1}})
    assert "KF418" not in validate().out
    assert "KF418" in validate("-e", "prod").out


def test_tombstone_keeps_its_waivers(project: Project, validate: Callable[..., Call]) -> None:
    wide = {"name": "wide", "message": "Wide", "require": {"fields": {"partitions": {"min": 3}}}}
    project.config(policies=[wide])
    project.topic("a", state="absent", metadata={"annotations": {"kafkaform/waive.policy/wide": "why"}})
    assert "KF418" not in validate().out


# --- what a branch changes ---------------------------------------------------------------------------


def commit(project: Project, message: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(["git", "add", "-A"], cwd=project.folder, check=True)
    subprocess.run(["git", *identity, "commit", "-q", "-m", message], cwd=project.folder, check=True)


@pytest.fixture
def branch(project: Project) -> Project:
    """A branch that changes b; main has findings in a and b, and later an error in z."""
    project.config(defaults={"Topic": {"retention": "7d"}})
    for name in ("a", "b"):
        project.topic(name, partitions=10, replicationFactor=2)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=project.folder, check=True)
    commit(project, "main")
    subprocess.run(["git", "switch", "-q", "-c", "branch"], cwd=project.folder, check=True)
    project.topic("b", partitions=14, replicationFactor=2)
    return project


@pytest.mark.usefixtures("branch")
def test_findings_of_the_branch_come_first_and_others_are_counted(validate: Callable[..., Call]) -> None:
    call = validate("--changed-since", "main")
    lines = call.out.splitlines()
    assert [line.split(":")[0] for line in lines[:-2]] == ["topics/b.yaml"] * 2
    assert re.fullmatch(
        r"Also \d notes in files that this branch does not change: `kafkaform validate` lists them\.",
        lines[-2],
    )
    assert lines[-1].startswith("2 resources: valid, ")
    annotated = validate("--changed-since", "main", "--format", "github").out.splitlines()
    assert [line.split(",")[0] for line in annotated if line.startswith("::")] == [
        "::notice file=topics/b.yaml"
    ] * 2
    found = json.loads(validate("--changed-since", "main", "--format", "json").out)["diagnostics"]
    files = [item["source"]["file"] for item in found]
    assert files == sorted(files, reverse=True), "programs are told everything, the branch's own first"
    assert {"topics/a.yaml", "topics/b.yaml"} == set(files)


def test_errors_are_listed_wherever_they_are(branch: Project, validate: Callable[..., Call]) -> None:
    branch.topic("a b", partitions=1)
    commit(branch, "an error that the branch inherits")
    subprocess.run(["git", "branch", "-f", "main", "HEAD"], cwd=branch.folder, check=True)
    branch.topic("b", partitions=15, replicationFactor=2)
    call = validate("--changed-since", "main")
    assert call.code == 1
    first, *_ = call.out.splitlines()
    assert first.startswith("topics/b.yaml:")
    assert re.search(r"error: KF101 '.*a b' ", call.out)


@pytest.mark.parametrize("inherited", [True, False])
def test_broken_file_does_not_change_what_is_listed(
    branch: Project, validate: Callable[..., Call], inherited: bool
) -> None:
    branch.topic("c", partitons=3)
    if inherited:
        commit(branch, "a broken file that the branch inherits")
        subprocess.run(["git", "branch", "-f", "main", "HEAD"], cwd=branch.folder, check=True)
        branch.topic("b", partitions=15, replicationFactor=2)
    for output_format in ("text", "github"):
        call = validate("--changed-since", "main", "--format", output_format).needs(1)
        assert re.search(r"^Also \d notes? in files that this branch does not", call.out, re.MULTILINE)
        assert "topics/c.yaml" in call.both
        assert "topics/a.yaml" not in call.both
    found = validate("--changed-since", "main", "--format", "json").needs(1).json["diagnostics"]
    own = [
        each["source"]["file"] != "topics/a.yaml" and bool(each["code"] or not inherited) for each in found
    ]
    assert own == sorted(own, reverse=True)


@pytest.mark.usefixtures("branch")
def test_branch_that_is_not_there_is_reported(validate: Callable[..., Call]) -> None:
    call = validate("--changed-since", "nope")
    assert (call.code, "nope" in call.err) == (1, True)


# --- defaults ----------------------------------------------------------------------------------------


def test_default_that_every_manifest_replaces_is_reported_at_its_line(
    project: Project, validate: Callable[..., Call]
) -> None:
    project.write(
        "kafkaform.yaml",
        "apiVersion: kafkaform/v1\nkind: Config\ndefaults:\n  Topic:\n    retention: 7d\n"
        "    config:\n      segment.ms: 1d\n",
    )
    project.topic("a", retention="1d")
    project.topic("b", config={"retention.ms": "2d"})
    call = validate()
    assert call.code == 0
    message = "the default of retention has no effect: 2 topics, and each manifest sets its own value"
    assert f"kafkaform.yaml:5:5: info: KF117 {message.replace('retention', 'retention.ms', 1)}" in call.out
    assert call.out.count("KF117") == 1
    assert "KF117" not in validate("topics/a.yaml").out, "the other manifests may take it"
    project.topic("c")
    assert "KF117" not in validate().out


def test_finding_about_a_default_is_at_its_line(project: Project, validate: Callable[..., Call]) -> None:
    project.write(
        "kafkaform.yaml",
        "apiVersion: kafkaform/v1\nkind: Config\ndefaults:\n  Topic:\n    config:\n"
        "      min.insync.replicas: 4\n",
    )
    project.topic("a", partitions=6, replicationFactor=3)
    call = validate()
    assert call.code == 1
    assert call.out.startswith("kafkaform.yaml:6:7: error: KF109 ")
    project.topic("a", partitions=6, replicationFactor=3, config={"min.insync.replicas": 5})
    (own,) = [line for line in validate().out.splitlines() if "KF109" in line]
    assert own.startswith("topics/a.yaml:")


@pytest.mark.usefixtures("project")
def test_empty_folder_shows_how_to_start(validate: Callable[..., Call]) -> None:
    call = validate()
    assert call.code == 1
    assert "topics:1:1: no such file" in call.err
    assert "kafkaform import" in call.err
    assert "kafkaform init" not in validate("nope.yaml").err, "a file that was named is another slip"


# --- many findings -----------------------------------------------------------------------------------


def test_findings_that_are_alike_are_grouped(project: Project, validate: Callable[..., Call]) -> None:
    for number in range(30):
        project.topic(f"t{number:02}", partitions=3, replicationFactor=1)
        project.group(f"g{number:02}", topics=[f"x.t{number:02}"])
    project.topic("b b")
    call = validate().needs(1)
    assert "29 more of KF204, topics/group-g01.yaml:4, " in call.out
    assert call.out.endswith("61 resources: 1 error, 30 notes.\n")
    lines = call.out.splitlines()
    assert len(lines) <= 10
    assert [line for line in lines if "error: KF101" in line]
    every = validate("--verbose").needs(1).out.splitlines()
    found = json.loads(validate("--format", "json").out)["diagnostics"]
    assert len(every) == len(found) + 1 > 30
    assert every[-1] == lines[-1], "the summary counts them all"


# --- broken files ------------------------------------------------------------------------------------

HEAD = "apiVersion: kafkaform/v1\nkind: {kind}\nmetadata: {{name: {name}{more}}}\nspec:\n"
RELATED = {
    "orders": HEAD.format(kind="Topic", name="orders.v1", more="")
    + "  partitions: 12\n  replicationFactor: 3\n  config: {retention.ms: 30d, min.insync.replicas: 2}\n",
    "audit": HEAD.format(kind="Topic", name="audit", more="")
    + "  partitions: 12\n  replicationFactor: 3\n  config: {min.insync.replicas: 2}\n",
    "readers": HEAD.format(kind="ConsumerGroup", name="readers", more="")
    + "  topics: [orders.v1]\n  lag: {maxTime: 20d}\n  members: {expected: 12}\n"
    "  client: {partition.assignment.strategy: cooperative-sticky}\n",
    "access": HEAD.format(kind="Access", name="svc", more="")
    + "  principals: [User:svc]\n  consumes: [{group: readers}]\n",
    "access-audit": HEAD.format(kind="Access", name="svc-audit", more="")
    + "  principals: [User:svc]\n  acls: [{resource: topic, name: audit, operations: [Read]},\n"
    "    {resource: group, name: auditors, operations: [Read]}]\n",
    "auditors": HEAD.format(kind="ConsumerGroup", name="auditors", more="")
    + "  topics: [audit]\n  client: {partition.assignment.strategy: cooperative-sticky}\n",
    "auditor": HEAD.format(
        kind="Access", name="auditor", more=", annotations: {kafkaform/waive.KF603: by another account}"
    )
    + "  principals: [User:auditor]\n  consumes: [{group: auditors, topics: [orders.v1]}]\n",
}
"""Manifests that have no finding together, and findings if one is ignored."""
DAMAGES: dict[str, Callable[[str], str]] = {
    "syntax": lambda text: text + "  x: [\n",
    "no name": lambda text: re.sub(r"name: [\w.-]+", "nam: x", text, count=1),
    "no kind": lambda text: re.sub(r"kind: .", "kind: X", text, count=1),
    "unknown field": lambda text: text + "  unknown: 1\n",
    "template": lambda text: text.replace("spec:\n", "spec:\n  description: ${env:X}\n"),
    "bad annotation": lambda text: text.replace("}\nspec", ", labels: {team: [x]}}\nspec"),
    "bytes": lambda text: text + "\x00",
}


@pytest.fixture
def related(project: Project, validate: Callable[..., Call]) -> Callable[[], set[tuple[str | None, str]]]:
    """A project of related manifests; the function returns the code and the file of each finding."""
    project.config(defaults={"Topic": {"config": {"retention.ms": "21d"}}})
    for name, text in RELATED.items():
        project.write(f"topics/{name}.yaml", text)
    return lambda: {
        (each["code"], each["source"]["file"]) for each in validate("--format", "json").json["diagnostics"]
    }


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("broken", RELATED)
def test_broken_file_causes_no_finding_elsewhere(
    project: Project, related: Callable[[], set[tuple[str | None, str]]], broken: str, damage: str
) -> None:
    expected = related()
    project.write(f"topics/{broken}.yaml", DAMAGES[damage](RELATED[broken]))
    problem = (None, f"topics/{broken}.yaml")
    found = related()
    assert problem in found
    assert found <= {problem, *expected}


@pytest.mark.parametrize("absent", ["orders", "audit", "readers", "auditors"])
def test_related_manifests_have_findings_without_each_other(
    project: Project, related: Callable[[], set[tuple[str | None, str]]], absent: str
) -> None:
    expected = related()
    (project.folder / f"topics/{absent}.yaml").unlink()
    assert not related() <= expected


def test_invalid_manifest_hides_no_finding_of_others(project: Project, validate: Callable[..., Call]) -> None:
    project.topic("a", partitons=3)
    project.group("g", topics=["x.b"])
    project.write(
        "topics/access.yaml",
        manifest("u", {"principals": ["User:u"], "consumes": [{"group": "z"}]}, kind="Access"),
    )
    call = validate()
    assert "KF210" in call.out
    assert "the topics of 'z' are not declared" in call.err


# --- statistics, and watching ----------------------------------------------------------------------


def test_statistics_count_the_findings_of_each_rule(project: Project, validate: Callable[..., Call]) -> None:
    bad: dict[str, Any] = {"replicationFactor": 3, "config": {"min.insync.replicas": 1}}
    for name in "abc":
        project.topic(name, **bad)
    project.topic("d", metadata={"annotations": {"kafkaform/waive.KF109": "a test bench"}}, **bad)
    call = validate("--statistics").needs(0)
    counts = {line.split()[1]: line for line in call.out.splitlines()[:-1]}
    assert counts["KF109"].startswith("3  KF109    warning  ")
    assert counts["KF109"].endswith(" (1 waived)")
    assert call.out.splitlines()[-1] == validate().out.splitlines()[-1]
    project.write("topics/e.yaml", "a: 1\n---\nb: 2\n")
    call = validate("--statistics", "--format", "json").needs(1)
    assert [(each["code"], each["findings"]) for each in call.json[:2]] in (
        [("KF109", 3), (None, 2)],
        [(None, 2), ("KF109", 3)],
        [(None, 4), ("KF109", 3)],
    )
    assert validate("--statistics").needs(1).out.splitlines()[-1].endswith("in the input")
    assert "--statistics has no format sarif" in validate("--statistics", "--format", "sarif").needs(64).err


@pytest.mark.parametrize(
    ("path", "text", "code", "said"),
    [
        ("topics/a.yaml", "kind: Topik\n", 1, "Topik"),
        ("topics/below/new.yaml", "kind: Topik\n", 1, "Topik"),
        ("topics/a.yaml", None, 1, "no manifests"),
        ("kafkaform.yaml", "kind: Konfig\n", 1, "Konfig"),
        ("schemas/order.avsc", "{", 1, "schema"),
    ],
)
def test_watch_validates_again_when_a_file_changes(
    project: Project,
    validate: Callable[..., Call],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    text: str | None,
    code: int,
    said: str,
) -> None:
    project.config()
    subject = {"schema": {"file": "../schemas/order.avsc"}}
    avro = '{"type": "record", "name": "Order", "fields": []}'
    project.write("schemas/order.avsc", avro)
    project.topic("a")
    if "avsc" in path:
        project.write("topics/subject.yaml", manifest(f"{project.prefix}a-value", subject, kind="Subject"))
    pauses = 0

    def sleep(_: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 3:
            raise KeyboardInterrupt
        if pauses == 1 and text is not None:
            project.write(path, text)
        elif pauses == 1:
            (project.folder / path).unlink()

    monkeypatch.setattr("kafkaform.cli.watching.sleep", sleep)
    call = validate("--watch").needs(code)
    assert call.out.startswith(("1 resource: valid.", "2 resources: valid."))
    assert said in call.both
    assert call.err.count("Ctrl-C ends") == 2


def test_watch_ends_with_the_code_of_the_last_run(
    project: Project, validate: Callable[..., Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("topics/a.yaml", "kind: Topik\n")
    texts = iter([manifest("a", {"partitions": 1, "replicationFactor": 1})])

    def sleep(_: float) -> None:
        text = next(texts, None)
        if text is None:
            raise KeyboardInterrupt
        project.write("topics/a.yaml", text)

    monkeypatch.setattr("kafkaform.cli.watching.sleep", sleep)
    call = validate("--watch").needs(0)
    assert "Topik" in call.err
    assert call.out == "1 resource: valid.\n"


@pytest.mark.parametrize(
    ("arguments", "said"), [(("-",), "stdin"), (("--format", "json"), "--watch prints text alone")]
)
def test_watch_needs_files_and_a_reader(
    validate: Callable[..., Call], arguments: tuple[str, ...], said: str
) -> None:
    assert said in validate("--watch", *arguments).needs(64).err

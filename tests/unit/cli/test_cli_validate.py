"""`kafkaform validate`: offline, everything in one run, for people and for programs."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.support.cli.project import ESCAPE, ROOT, Call, Project, manifest, run_in_process
from tests.support.github.git_work import Work

Validate = Callable[..., Call]
WIDE = {"name": "wide", "message": "Wide", "require": {"fields": {"partitions": {"min": 3}}}}
"""A policy."""
THIN: dict[str, Any] = {"replicationFactor": 3, "config": {"min.insync.replicas": 1}}
"""A topic with a warning."""


@pytest.fixture
def validate(project: Project) -> Validate:
    return partial(run_in_process, "validate", cwd=project.folder)


def test_example_set_is_valid() -> None:
    for arguments in ([], ["-e", "dev"], ["-e", "prod"]):
        assert run_in_process("validate", *arguments, cwd=ROOT).needs(0).out.endswith("resources: valid.\n")


def test_every_validation_stage_reports_problems(project: Project, validate: Validate) -> None:
    head = "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: %s}\nspec: "
    wrong = head % "'bad name'" + "{partitons: 3, replicationFactor: 1}\n"
    project.write("topics/wrong.yaml", wrong)
    project.write("topics/sound.yaml", head % "'b c'" + "{partitions: 3, replicationFactor: 1}\n")
    call = validate()
    assert call.code == 1
    assert "topics/sound.yaml:3:12: error: KF101 'b c'" in call.out
    assert "topics/wrong.yaml:3:12: error: KF101 'bad name'" in call.out
    assert "topics/wrong.yaml:4:8: unknown field 'partitons'" in call.err
    content = validate("--format", "json").needs(1)
    assert (content.err, content.json["resources"]) == ("", None)
    found = content.json["diagnostics"]
    assert [(item["code"], item["source"]["file"], item["severity"]) for item in found] == [
        (None, "topics/wrong.yaml", "error"),
        ("KF101", "topics/sound.yaml", "error"),
        ("KF101", "topics/wrong.yaml", "error"),
    ]
    assert (found[0]["source"]["line"], "partitions" in found[0]["suggestion"]) == (4, True)
    assert validate("--format", "github").needs(1).out.count("::error") == 3


def test_validation_covers_all_environments_by_default(project: Project, validate: Validate) -> None:
    project.config(environments=["dev", "prod"])
    bad = {"replicationFactor": 3, "config": {"min.insync.replicas": 5}}
    project.topic("a", overrides={"dev": {"partitions": 2}, "prod": bad})
    assert "KF109" in validate().out
    assert validate("-e", "dev").code == 0
    assert validate("-e", "prod").code == 1
    dev = {"KAFKAFORM_ENVIRONMENT": "dev"}
    assert validate(env=dev).code == 0
    assert validate("--environment", "prod", env=dev).code == 1


def test_unknown_environment_does_not_hide_problems(project: Project, validate: Validate) -> None:
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


def test_terminal_escapes_in_manifests_are_escaped(project: Project, validate: Validate) -> None:
    evil = f"x{ESCAPE}[31m\r\n\x07\u202e|<b>"
    project.topic(evil[:1], metadata={"name": evil})
    assert r"\x1b[31m" in validate().needs(1).both
    project.topic("b", config={f"retention.ms{ESCAPE}[2J": "1"})
    project.topic("c", config={"retention.ms": f"7d{ESCAPE}]0;title\x07"})
    project.write(f"topics/{ESCAPE}[31m\n.yaml", "kind: Topic\n")
    call = validate().needs(1)
    assert r"topics/\x1b[31m\n.yaml:" in call.err
    assert not {ESCAPE, "\r", "\x07", "\u202e"} & {*call.both}


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ("nowhere", "nowhere:1:1"),
        ("--config nowhere.yaml", "nowhere.yaml"),
        ("", "topics:1:1"),
        ("nope.yaml", "nope.yaml:1:1"),
    ],
)
def test_missing_file_is_named(validate: Validate, arguments: str, place: str) -> None:
    call = validate(*arguments.split()).needs(1)
    assert call.out == ""
    assert f"{place}: no such file" in call.err
    assert ("kafkaform init" in call.err) == (arguments != "nope.yaml"), "a named file is another slip"


def waive(code: str, reason: str = "why") -> dict[str, Any]:
    return {"annotations": {f"kafkaform/waive.{code}": reason}}


def test_waived_error_is_listed_and_not_counted(project: Project, validate: Validate) -> None:
    project.config(rules={"KF109": "error"})
    project.topic("a", **THIN)
    assert validate().code == 1
    project.topic("a", metadata=waive("KF109", "a test bench"), **THIN)
    call = validate().needs(0)
    assert "info: KF109" in call.out
    assert "(waived: a test bench)" in call.out
    assert call.out.endswith("1 resource: valid, 1 waived.\n")
    assert validate("--format", "github").out == "1 resource: valid, 1 waived.\n"


@pytest.mark.parametrize(
    ("code", "spec", "reported_in", "words"),
    [
        ("KF999", {}, ["dev", "prod"], "there is no such rule"),
        ("KF410", {}, ["dev", "prod"], "is a note, not a rule"),
        ("KF101", {}, ["dev", "prod"], "KF101 cannot be waived"),
        ("KF106", {}, ["dev", "prod"], "kafkaform.yaml switches it off"),
        ("policy/wide", {"partitions": 3}, ["dev", "prod"], "has no finding for Topic/x.a"),
        # Rules that need more than manifests.
        ("KF401", {}, [], ""),
        ("KF109", {}, [], ""),
        ("policy/wide", {"state": "absent"}, [], ""),
        # Of use in one environment.
        (
            "policy/wide",
            {"partitions": 3, "overrides": {"dev": {"partitions": 1}}},
            ["prod"],
            "has no finding",
        ),
    ],
)
def test_only_waiver_without_possible_effect_is_reported(
    project: Project, validate: Validate, code: str, spec: dict[str, Any], reported_in: list[str], words: str
) -> None:
    project.config(environments=["dev", "prod"], rules={"KF106": "off"}, policies=[WIDE])
    project.topic("a", metadata=waive(code), **spec)
    outputs = {name: validate("-e", name).out.splitlines() for name in ("dev", "prod")}
    outputs["all"] = validate().out.splitlines()
    found = {name: [line for line in lines if "KF418" in line] for name, lines in outputs.items()}
    assert [name for name, lines in found.items() if lines] == [
        *reported_in,
        *["all"] * (len(reported_in) == 2),
    ]
    for (line,) in (lines for lines in found.values() if lines):
        assert line.startswith("topics/a.yaml:5:5: warning: KF418 ")
        assert words in line


@pytest.fixture
def branch(project: Project) -> Project:
    """A branch that changes b; main has findings in a and b, and later an error in z."""
    project.config(defaults={"Topic": {"retention": "7d"}})
    for name in ("a", "b"):
        project.topic(name, partitions=10, replicationFactor=2)
    repository = Work(project.folder)
    repository.commit()
    repository.git("switch", "-q", "-c", "branch")
    project.topic("b", partitions=14, replicationFactor=2)
    return project


@pytest.mark.usefixtures("branch")
def test_findings_of_branch_come_first(validate: Validate) -> None:
    call = validate("--changed-since", "main")
    lines = call.out.splitlines()
    assert [line.split(":")[0] for line in lines[:-2]] == ["topics/b.yaml"] * 2
    assert re.fullmatch(
        r"Also \d notes in files that this branch does not change: `kafkaform validate` lists them\.",
        lines[-2],
    )
    assert lines[-1].startswith("2 resources: valid, ")
    assert "nope" in validate("--changed-since", "nope").needs(1).err
    annotated = validate("--changed-since", "main", "--format", "github").out.splitlines()
    assert [line.split(",")[0] for line in annotated if line.startswith("::")] == [
        "::notice file=topics/b.yaml"
    ] * 2
    found = validate("--changed-since", "main", "--format", "json").json["diagnostics"]
    files = [item["source"]["file"] for item in found]
    assert files == sorted(files, reverse=True), "programs are told everything, the branch's own first"
    assert {"topics/a.yaml", "topics/b.yaml"} == set(files)


def test_statistics_count_the_findings_of_each_rule(project: Project, validate: Validate) -> None:
    for name in "abc":
        project.topic(name, **THIN)
    project.topic("d", metadata=waive("KF109"), **THIN)
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


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("topics/a.yaml", "kind: Topik\n", "Topik"),
        ("topics/below/new.yaml", "kind: Topik\n", "Topik"),
        ("schemas/order.avsc", None, "order.avsc"),
        ("kafkaform.yaml", "kind: Konfig\n", "Konfig"),
        ("schemas/order.avsc", "{", "schema"),
    ],
)
def test_watch_validates_again_when_a_file_changes(
    project: Project,
    validate: Validate,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    text: str | None,
    said: str,
) -> None:
    project.config()
    subject = {"schema": {"file": "../schemas/order.avsc"}}
    project.write("schemas/order.avsc", '{"type": "record", "name": "Order", "fields": []}')
    project.topic("a")
    project.write("topics/subject.yaml", manifest(f"{project.prefix}a-value", subject, kind="Subject"))
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt
        if len(pauses) == 1 and text:
            project.write(path, text)
        elif len(pauses) == 1:
            (project.folder / path).unlink()

    monkeypatch.setattr("kafkaform.cli.watching.sleep", sleep)
    call = validate("--watch").needs(1)
    assert call.out.startswith("2 resources: valid.")
    assert said in call.both
    assert call.err.count("Ctrl-C ends") == 2

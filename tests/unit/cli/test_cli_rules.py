"""`kafkaform rules`: what is checked here, how loudly, and how to have it overlook something."""

from __future__ import annotations

from kafkaform import rules
from tests.support.cli.project import Call, Project, run_in_process

POLICY = {"name": "wide", "message": "Topics are wide.", "require": {"fields": {"partitions": {"min": 3}}}}


def list_rules(project: Project, *arguments: str) -> Call:
    return run_in_process("rules", *arguments, cwd=project.folder)


def test_rules_json_has_kind_stage_and_waivability(project: Project) -> None:
    project.config(policies=[POLICY], rules={"policy/wide": "warning"})
    entries = {item["code"]: item for item in list_rules(project, "--format", "json").json}
    assert set(entries) == {*rules.list_entries(), "policy/wide"}
    wide = entries["policy/wide"]
    assert "partitions is at least 3" in wide["explanation"]
    assert {name: value for name, value in wide.items() if name != "explanation"} == {
        "code": "policy/wide",
        "kind": "policy",
        "severity": "error",
        "in_force": "warning",
        "stage": "manifests",
        "waivable": True,
        "origin": "kafkaform.yaml",
        "summary": "Topics are wide.",
    }
    kinds = {code: (entry["kind"], entry["stage"], entry["waivable"]) for code, entry in entries.items()}
    assert kinds["KF101"] == ("rule", "manifests", False)
    assert kinds["KF404"] == ("rule", "changes", entries["KF404"]["waivable"])
    assert kinds["KF410"] == ("note", None, False)


def test_rule_that_cannot_be_waived_is_marked(project: Project) -> None:
    assert "waiver     none: fix what it reports\n" in list_rules(project, "KF101").out
    note = list_rules(project, "KF410").out
    assert note.endswith("severity   fixed: this is a note, not a rule\n")
    assert "waiver" not in note


def test_policy_is_found_by_short_name(project: Project) -> None:
    project.config(policies=[POLICY])
    assert list_rules(project, "wide").out == list_rules(project, "policy/wide").out
    call = list_rules(project, "policy/wid").needs(64)
    assert "did you mean policy/wide?" in call.err


def test_broken_configuration_does_not_hide_the_rules(project: Project) -> None:
    project.config(rules={"KF1099": "info"})
    call = list_rules(project).needs(0)
    assert "kafkaform.yaml:8:3: there is no rule 'KF1099'" in call.err
    assert "KF109  error" in call.out

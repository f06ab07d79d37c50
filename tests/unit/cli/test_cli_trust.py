"""Tests of the saved plans that `apply` accepts: signature, age, commit, version and review."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Call, Project, write_one_cluster
from tests.support.cli.signing import write_keys
from tests.support.github.git_work import run_git

pytestmark = pytest.mark.usefixtures("connected")


@pytest.fixture
def project(project: Project, tmp_path: Path) -> Project:
    """A Git repository with one topic that is not applied yet."""
    made = Project(tmp_path / "repo", project.servers, project.prefix)
    made.folder.mkdir()
    write_one_cluster(made.folder, project.servers)
    (made.folder / ".gitignore").write_text("*.json\n*.pem\n")
    made.topic("a", partitions=3, retention="7d")
    run_git(made.folder, "init", "-q", "-b", "main")
    run_git(made.folder, "add", "-A")
    run_git(made.folder, "commit", "-q", "-m", "first")
    return made


def edit_plan(project: Project, change: Callable[[dict[str, Any]], None]) -> None:
    file = project.folder / "plan.json"
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


def check_refusal(project: Project, told: str, *arguments: object) -> Call:
    """An apply of plan.json that says why not in one line, and changes nothing."""
    call = project.apply("plan.json", *arguments).needs(1)
    assert told in call.err
    assert len([line for line in call.err.splitlines() if line.startswith("Error: ")]) == 1
    assert project.live() == {}
    return call


def test_only_correctly_signed_plan_is_applied(project: Project) -> None:
    private, public = write_keys(project.folder, "ci")
    _, other_key = write_keys(project.folder, "other")
    project.run("plan", "--out", "plan.json").needs(0)
    check_refusal(project, "the plan is not signed", "--verify-key", public)
    project.run("plan", "--out", "plan.json", "--sign-key", private, "--sign-for", "apply").needs(0)
    check_refusal(project, "which is not trusted here", "--verify-key", other_key)
    whole = (project.folder / "plan.json").read_text()
    edit_plan(project, lambda plan: plan.update(created_at="2030-01-01T00:00:00Z"))  # which no digest covers
    check_refusal(project, "the signature does not match", "--verify-key", public)
    (project.folder / "plan.json").write_text(whole)
    project.apply("plan.json", "--verify-key", public).needs(0)
    assert project.live()["a"]["retention.ms"] == "604800000"


def test_plan_signed_for_review_is_not_applied(project: Project) -> None:
    private, public = write_keys(project.folder, "ci")
    made = project.run("plan", "--out", "plan.json", "--sign-key", private).needs(0)
    assert "kafkaform apply --reviewed plan.json" in made.err
    shown = project.run("show", "plan.json", "--verify-key", public).needs(0).out
    assert "review (of refs/heads/main)" in " ".join(shown.split())
    call = check_refusal(project, "the plan is signed for review", "--verify-key", public)
    assert "kafkaform apply --reviewed" in call.err
    edit_plan(project, lambda plan: plan["signed_for"].update(purpose="apply"))
    check_refusal(project, "the signature does not match", "--verify-key", public)
    edit_plan(project, lambda plan: plan.pop("signed_for"))
    check_refusal(project, "the signature does not match", "--verify-key", public)
    project.run("plan", "--out", "plan.json", "--sign-key", private, "--sign-for", "review").needs(0)
    project.apply("--reviewed", "plan.json", "--verify-key", public).needs(0)
    assert "a" in project.live()


def test_cluster_with_verify_key_refuses_unsigned_plans(project: Project) -> None:
    private, _ = write_keys(project.folder, "ci")
    config = project.folder / "kafkaform.yaml"
    config.write_text(config.read_text().replace("    client:", "    verifyKey: ci.pub.pem\n    client:"))
    assert "accepts only signed plans" in project.apply().needs(1).err
    project.run("plan", "--out", "plan.json").needs(0)
    check_refusal(project, "the plan is not signed")
    key = {"KAFKAFORM_SIGN_KEY": private.read_text()}
    assert key["KAFKAFORM_SIGN_KEY"] not in project.run("plan", "--out", "plan.json", env=key).needs(0).both
    assert project.apply("--reviewed", "plan.json").needs(0).out.count("1 created") == 1


def test_old_plan_is_refused(project: Project) -> None:
    project.run("plan", "--out", "plan.json").needs(0)
    edit_plan(project, lambda plan: plan.update(created_at="2020-01-01T00:00:00Z"))
    check_refusal(project, "maximum age is 2 days", "--max-age", "2d")
    config = project.folder / "kafkaform.yaml"
    config.write_text(config.read_text().replace("    client:", "    maxPlanAge: 24h\n    client:"))
    check_refusal(project, "maximum age is 24 hours")
    project.apply("plan.json", "--max-age", "36500d").needs(0)


# --- applying what was reviewed --------------------------------------------------------------------


def test_reviewed_plan_is_applied_from_the_manifests(project: Project) -> None:
    project.run("plan", "--out", "plan.json").needs(0)
    project.apply("plan.json", "--reviewed", "plan.json").needs(64)
    project.apply("--reviewed", "plan.json").needs(0)
    again = project.apply("--reviewed", "plan.json").needs(0)  # done already: nothing stands against it
    assert "since the review" in again.err


def test_reviewed_plan_is_applied_once(project: Project, connected: Connected) -> None:
    recorded = {"KAFKAFORM_AUDIT": "true"}
    again = ("apply", "--reviewed", "plan.json", "--auto-approve")
    project.run("plan", "--out", "plan.json").needs(0)
    project.run(*again, env=recorded).needs(0)
    connected.delete_topic(f"{project.prefix}a")
    assert "and these changed since" in project.run(*again, env=recorded).needs(1).err
    project.run(*again, "--again", env=recorded).needs(0)
    assert "a" in project.live()

"""Tests of the plans that an apply accepts, and of refusals before it changes anything."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from kafkaform.core.printable import split_code
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Call, Project
from tests.support.cli.signing import write_keys
from tests.support.plans.scenes import topic

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def two(tmp_path: Path, connected: Connected) -> Project:
    """A project for two environments, whose clusters are the same one by mistake."""
    assert not connected.observe([topic("t")]).resources
    project = Project(tmp_path, NOWHERE, "")
    project.topic("t", retention="9d", overrides={"dev": {"retention": "1h"}})
    configure(project)
    return project


def configure(project: Project, dev: str | None = "dev", **more: Any) -> None:
    client = {"bootstrap.servers": NOWHERE}
    clusters = {
        "dev": {"client": client, **({"environment": dev} if dev else {})},
        "prod": {"client": client, "environment": "prod"},
    }
    project.config(**{"environments": ["dev", "prod", "test"], "clusters": clusters, **more})


# --- the environment of a plan -----------------------------------------------------------------------

BY_CLUSTER = ("--cluster", "dev")
DEV, PROD, NOWHERE_IN = "--cluster dev", "--cluster prod", f"--bootstrap-server {NOWHERE} -e"
WRONG = [
    (DEV, PROD, 1, "environment dev, but cluster prod", "--cluster dev"),
    (DEV, "KAFKAFORM_CLUSTER=prod", 1, "cluster prod", "KAFKAFORM_CLUSTER"),
    (DEV, f"{PROD} -e dev", 64, "--environment is dev", "leave out"),
    (DEV, f"{PROD} KAFKAFORM_ENVIRONMENT=dev", 64, "VIRONMENT is dev", "unset KAFKAFORM_ENVIRONMENT"),
    (DEV, "-e prod", 1, "environment dev, not prod", "leave out --env"),
    (f"{NOWHERE_IN} dev", PROD, 1, "environment dev, but", "--cluster dev"),
    (f"{NOWHERE_IN} test", DEV, 1, "environment test, but", "new plan"),
]
"""How the plan is made, how it is applied, the exit code, the reason, and what to do."""


@pytest.mark.parametrize("reviewed", [False, True])
@pytest.mark.parametrize(("made", "applied", "code", "reason", "hint"), WRONG)
def test_plan_for_another_environment_is_refused(
    two: Project,
    connected: Connected,
    made: str,
    applied: str,
    code: int,
    reason: str,
    hint: str,
    reviewed: bool,
) -> None:
    env = dict(word.split("=") for word in applied.split() if "=" in word)
    given = [word for word in applied.split() if "=" not in word]
    key, public = write_keys(two.folder, "k")
    purpose = "review" if reviewed else "apply"
    signing = ("--sign-key", key, "--sign-for", purpose)
    two.run("plan", *made.split(), "--out", "p.json", *signing).needs(0)
    file = ("--reviewed", "p.json") if reviewed else ("p.json",)
    signed = (*given, "--verify-key", public)
    refused = two.run("apply", *file, "--auto-approve", *signed, env=env).needs(code)
    assert reason in refused.words
    assert hint in refused.words
    assert ("--environment" in refused.words) == ("-e" in given)
    assert topic("t") not in connected.observe([topic("t")]).resources


@pytest.mark.parametrize("reviewed", [False, True])
def test_changed_environment_of_cluster_refuses_plan(
    two: Project, connected: Connected, reviewed: bool
) -> None:
    file = ("--reviewed", "p.json") if reviewed else ("p.json",)
    two.run("plan", *BY_CLUSTER, "--out", "p.json").needs(0)
    configure(two, "test")
    assert "cluster dev has environment test" in two.run("apply", *file, "--auto-approve").needs(1).words
    configure(two, None, environments=["prod"])
    assert "there is no environment 'dev'" in two.run("apply", *file, "--auto-approve").needs(1).words
    configure(two, None)
    two.run("apply", *file, "--auto-approve").needs(0)
    assert topic("t") in connected.observe([topic("t")]).resources


# --- what helps after "not as reviewed" --------------------------------------------------------------


def run_hint(project: Project, refused: Call, *more: str) -> Call:
    """Run the apply that a hint names."""
    (line,) = [line for line in refused.err.splitlines() if line.startswith("hint:")]
    commands = [shlex.split(piece) for piece, is_code in split_code(line) if is_code]
    (words,) = [words for words in commands if words[1] == "apply"]
    return project.run(*words[1:], *more)


def test_only_reviewed_changes_are_applied_after_another_merge(two: Project, connected: Connected) -> None:
    given = ("topics", "--cluster", "prod", "--allow", "destructive")
    two.run("plan", *given, "--out", "p.json").needs(0)
    two.topic("other")
    refused = two.run("apply", *given, "--reviewed", "p.json", "--auto-approve").needs(1)
    assert "not as reviewed: Topic/other is not in the reviewed plan" in refused.err
    applied = run_hint(two, refused, "--auto-approve").needs(0)
    assert "As reviewed, --verbose lists it. Plan: 1 to create" in applied.out
    assert "+ Topic/t " not in applied.out.split("As reviewed")[0]
    assert {*connected.observe([topic("t"), topic("other")]).resources} == {topic("t")}
    # Once the other one is applied, everything is as reviewed.
    two.apply("--cluster", "prod").needs(0)
    two.run("apply", *given, "--reviewed", "p.json", "--auto-approve").needs(0)
    again = ("apply", *given, "--reviewed", "p.json", "--auto-approve", "--format", "markdown")
    result = two.run(*again).needs(0)
    assert ("As reviewed" in result.out, "As reviewed" in result.err) == (False, True)

"""Plans seen from a branch, and the saved plans that `apply` accepts."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkaform.core.printable import split_code
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Call, Project, run_in_process
from tests.support.cli.signing import write_keys
from tests.support.github.git_work import Work, commit_all, run_git
from tests.support.plans.scenes import QUIET

pytestmark = pytest.mark.usefixtures("connected")


@pytest.fixture
def project(project: Project, tmp_path: Path) -> Project:
    """A Git repository with one topic that is not applied yet."""
    made = Project(tmp_path / "repo", project.servers, project.prefix)
    made.config(clusters={"one": {"client": {"bootstrap.servers": project.servers}}}, rules=QUIET)
    (made.folder / ".gitignore").write_text("*.json\n*.pem\n")
    made.topic("a", partitions=3, retention="7d")
    Work(made.folder).commit()
    return made


def edit_plan(project: Project, change: Callable[[dict[str, Any]], None]) -> None:
    file = project.folder / "plan.json"
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


def edit_config(project: Project, old: str, new: str) -> None:
    file = project.folder / "kafkaform.yaml"
    file.write_text(file.read_text().replace(old, new))


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
    edit_config(project, "    client:", "    verifyKey: ci.pub.pem\n    client:")
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
    edit_config(project, "    client:", "    maxPlanAge: 24h\n    client:")
    check_refusal(project, "maximum age is 24 hours")
    project.apply("plan.json", "--max-age", "36500d").needs(0)


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


NOWHERE = "127.0.0.1:1"


@pytest.fixture
def two(tmp_path: Path) -> Project:
    """A project for two environments, whose clusters are the same one by mistake."""
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
    two: Project, made: str, applied: str, code: int, reason: str, hint: str, reviewed: bool
) -> None:
    env = dict(word.split("=") for word in applied.split() if "=" in word)
    given = [word for word in applied.split() if "=" not in word]
    key, public = write_keys(two.folder, "k")
    signing = ("--sign-key", key, "--sign-for", "review" if reviewed else "apply")
    two.run("plan", *made.split(), "--out", "p.json", *signing).needs(0)
    file = ("--reviewed", "p.json") if reviewed else ("p.json",)
    signed = (*given, "--verify-key", public)
    refused = two.run("apply", *file, "--auto-approve", *signed, env=env).needs(code)
    assert reason in refused.words
    assert hint in refused.words
    assert ("--environment" in refused.words) == ("-e" in given)
    assert two.live() == {}


@pytest.mark.parametrize("reviewed", [False, True])
def test_changed_environment_of_cluster_refuses_plan(two: Project, reviewed: bool) -> None:
    file = ("--reviewed", "p.json") if reviewed else ("p.json",)
    two.run("plan", "--cluster", "dev", "--out", "p.json").needs(0)
    configure(two, "test")
    assert "cluster dev has environment test" in two.run("apply", *file, "--auto-approve").needs(1).words
    configure(two, None, environments=["prod"])
    assert "there is no environment 'dev'" in two.run("apply", *file, "--auto-approve").needs(1).words
    configure(two, None)
    two.run("apply", *file, "--auto-approve").needs(0)
    assert "t" in two.live()


def test_plan_for_environment_of_cluster_is_applied(two: Project) -> None:
    two.run("plan", "--cluster", "dev", "-e", "dev", "--out", "p.json").needs(0)
    two.run("apply", "p.json", "--auto-approve", "-e", "dev").needs(0)
    assert two.live()["t"]["retention.ms"] == "3600000"


def run_hint(project: Project, refused: Call, *more: str) -> Call:
    """Run the apply that a hint names."""
    (line,) = [line for line in refused.err.splitlines() if line.startswith("hint:")]
    commands = [shlex.split(piece) for piece, is_code in split_code(line) if is_code]
    (words,) = [words for words in commands if words[1] == "apply"]
    return project.run(*words[1:], *more)


def test_only_reviewed_changes_are_applied_after_another_merge(two: Project) -> None:
    given = ("topics", "--cluster", "prod", "--allow", "destructive")
    two.run("plan", *given, "--out", "p.json").needs(0)
    two.topic("other")
    refused = two.run("apply", *given, "--reviewed", "p.json", "--auto-approve").needs(1)
    assert "not as reviewed: Topic/other is not in the reviewed plan" in refused.err
    applied = run_hint(two, refused, "--auto-approve").needs(0)
    assert "As reviewed, --verbose lists it. Plan: 1 to create" in applied.out
    assert "+ Topic/t " not in applied.out.split("As reviewed")[0]
    assert {*two.live()} == {"t"}
    # Once the other one is applied, everything is as reviewed.
    two.apply("--cluster", "prod").needs(0)
    two.run("apply", *given, "--reviewed", "p.json", "--auto-approve").needs(0)
    again = ("apply", *given, "--reviewed", "p.json", "--auto-approve", "--format", "markdown")
    result = two.run(*again).needs(0)
    assert ("As reviewed" in result.out, "As reviewed" in result.err) == (False, True)


@pytest.fixture
def applied(project: Project) -> Project:
    project.apply().needs(0)
    return project


def notes(call: Call, code: str) -> list[dict[str, str]]:
    return [note for note in call.json["diagnostics"] if note["code"] == code]


def origins(call: Call, project: Project) -> dict[str, str]:
    return {
        change["name"].removeprefix(project.prefix): change["origin"]["from"]
        for change in call.needs(0).json["changes"]
    }


def test_branch_behind_main_does_not_revert_main(applied: Project) -> None:
    run_git(applied.folder, "switch", "-q", "-c", "work")
    applied.topic("b", partitions=3)
    commit_all(applied.folder)
    run_git(applied.folder, "switch", "-q", "main")
    applied.topic("a", partitions=3, retention="9d")
    commit_all(applied.folder)
    applied.topic("c", partitions=3)
    commit_all(applied.folder)
    applied.apply().needs(0)
    run_git(applied.folder, "switch", "-q", "work")
    as_it_is = applied.run("plan", "--format", "json").needs(1).json["changes"]
    assert [change["name"].removeprefix(applied.prefix) for change in as_it_is] == ["a", "b"]
    call = applied.run("plan", "--changed-since", "main", "--format", "json").needs(0)
    assert origins(call, applied) == {"b": "branch"}
    (note,) = notes(call, "KF450")
    names = f"Topic/{applied.prefix}a, Topic/{applied.prefix}c"
    assert "2 commits" in note["message"]
    assert note["message"].endswith(names)
    assert "git rebase main" in note["suggestion"]
    only = ("--target", f"Topic/{applied.prefix}b")
    targeted = applied.run("plan", "--changed-since", "main", *only, "--format", "json").needs(0)
    assert (origins(targeted, applied), notes(targeted, "KF450")) == ({"b": "branch"}, [])


def test_invalid_base_gives_no_origin(applied: Project) -> None:
    (applied.folder / "topics" / "a.yaml").write_text("kind: Topic\n")
    commit_all(applied.folder)
    run_git(applied.folder, "switch", "-q", "-c", "work")
    applied.topic("a", partitions=3, retention="9d")
    call = applied.run("plan", "--changed-since", "main", "--format", "json").needs(0)
    assert [change.get("origin") for change in call.json["changes"]] == [None]
    assert "KF426" in {found["code"] for found in call.json["diagnostics"]}


FROM_BRANCH = ("--config", "repo/kafkaform.yaml", "--manifests-from", "pr")


@pytest.fixture
def branch(applied: Project, tmp_path: Path) -> Project:
    run_git(tmp_path, "clone", "-q", str(applied.folder), "pr")
    run_git(tmp_path / "pr", "switch", "-q", "-c", "work")
    return Project(tmp_path / "pr", applied.servers, applied.prefix)


def plan_branch(branch: Project, *arguments: str) -> Call:
    commit_all(branch.folder)
    arguments = ("plan", *FROM_BRANCH, "--changed-since", "HEAD^1", *arguments)
    return run_in_process(*arguments, cwd=branch.folder.parent)


def test_branch_defaults_and_limits_apply(branch: Project) -> None:
    config = branch.folder / "kafkaform.yaml"
    config.write_text(
        config.read_text()
        + "defaults: {Topic: {config: {max.message.bytes: 1000}}}\nlimits: {topicName: zzz}\n"
    )
    call = plan_branch(branch, "--format", "json", "--no-strict")
    assert origins(call, branch) == {"a": "branch"}
    (change,) = call.json["changes"]
    assert [field["path"] for field in change["fields"]] == ["config.max.message.bytes"]
    (note,) = notes(call, "KF425")
    assert note["severity"] == "warning"
    assert "changes defaults, limits in kafkaform.yaml" in note["message"]
    assert notes(call, "KF103") != []


def test_broken_configuration_is_located(branch: Project) -> None:
    config = branch.folder / "kafkaform.yaml"
    config.write_text(config.read_text() + "defualts: {}\n")
    assert "kafkaform.yaml:13:1" in plan_branch(branch).needs(1).err
    invalid = run_in_process("validate", *FROM_BRANCH, cwd=branch.folder.parent).needs(1)
    assert "kafkaform.yaml:13:1" in invalid.err
    assert "did you mean 'defaults'" in " ".join(invalid.err.split())
    assert "pr/kafkaform.yaml" not in invalid.err


EDITS = {
    "of the planned cluster": ("{servers}", "127.0.0.1:2", "error", "clusters.one"),
    "of another cluster": (
        "kind:",
        "  two:\n    client: {{bootstrap.servers: '127.0.0.1:1'}}\nkind:",
        "warning",
        "clusters.two",
    ),
}
"""Edits of kafkaform.yaml, as replacements, and the finding about each."""


@pytest.mark.parametrize("edit", EDITS)
def test_edited_configuration_is_found(branch: Project, edit: str) -> None:
    old, new, severity, section = EDITS[edit]
    edit_config(branch, old.format(servers=branch.servers), new.format())
    call = plan_branch(branch, "--cluster", "one", "--format", "json").needs(severity == "error")
    (note,) = notes(call, "KF425")
    assert note["severity"] == severity
    assert f"changes {section} in kafkaform.yaml" in note["message"]


def test_symlinked_configuration_outside_branch_is_refused(branch: Project, tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("password: hunter2\n")
    (branch.folder / "kafkaform.yaml").unlink()
    (branch.folder / "kafkaform.yaml").symlink_to(tmp_path / "secret.yaml")
    call = run_in_process("validate", *FROM_BRANCH, cwd=tmp_path).needs(1)
    assert "is outside pr" in call.err
    assert "password" not in call.both


@pytest.mark.usefixtures("connected", "applied")
def test_branch_problems_are_located_relative_to_branch(tmp_path: Path) -> None:
    theirs = tmp_path / "pr" / "topics"
    theirs.mkdir(parents=True)
    (theirs / "bad.yaml").write_text("kind: Nonsense\n")
    for command in ("plan", "validate"):
        err = run_in_process(command, *FROM_BRANCH, cwd=tmp_path).needs(1).err
        assert "topics/bad.yaml:1:" in err
        assert "pr/topics" not in err
    annotated = run_in_process("validate", *FROM_BRANCH, "--format", "github", cwd=tmp_path).needs(1)
    assert "file=topics/bad.yaml" in annotated.out

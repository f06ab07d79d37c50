"""Plans seen from a branch, in Git repositories."""

from pathlib import Path

import pytest

from tests.support.cli.project import Call, Project, run_in_process
from tests.support.github.git_work import commit_all, run_git
from tests.support.plans.scenes import QUIET

pytestmark = pytest.mark.usefixtures("connected")


@pytest.fixture
def project(project: Project, tmp_path: Path) -> Project:
    """A repository with one topic that is applied, and a configuration file."""
    made = Project(tmp_path / "repo", project.servers, project.prefix)
    made.config(clusters={"one": {"client": {"bootstrap.servers": project.servers}}}, rules=QUIET)
    made.topic("a", partitions=3, retention="7d")
    run_git(made.folder, "init", "-q", "-b", "main")
    commit_all(made.folder)
    made.apply().needs(0)
    return made


def notes(call: Call, code: str) -> list[dict[str, str]]:
    return [note for note in call.json["diagnostics"] if note["code"] == code]


def origins(call: Call, project: Project) -> dict[str, str]:
    return {
        change["name"].removeprefix(project.prefix): change["origin"]["from"]
        for change in call.needs(0).json["changes"]
    }


def test_branch_behind_main_does_not_revert_main(project: Project) -> None:
    run_git(project.folder, "switch", "-q", "-c", "work")
    project.topic("b", partitions=3)
    commit_all(project.folder)
    run_git(project.folder, "switch", "-q", "main")
    project.topic("a", partitions=3, retention="9d")
    commit_all(project.folder)
    project.topic("c", partitions=3)
    commit_all(project.folder)
    project.apply().needs(0)
    run_git(project.folder, "switch", "-q", "work")
    as_it_is = project.run("plan", "--format", "json").needs(1).json["changes"]
    assert [change["name"].removeprefix(project.prefix) for change in as_it_is] == ["a", "b"]
    call = project.run("plan", "--changed-since", "main", "--format", "json").needs(0)
    assert origins(call, project) == {"b": "branch"}
    (note,) = notes(call, "KF450")
    names = f"Topic/{project.prefix}a, Topic/{project.prefix}c"
    assert "2 commits" in note["message"]
    assert note["message"].endswith(names)
    assert "git rebase main" in note["suggestion"]
    only = ("--target", f"Topic/{project.prefix}b")
    targeted = project.run("plan", "--changed-since", "main", *only, "--format", "json").needs(0)
    assert (origins(targeted, project), notes(targeted, "KF450")) == ({"b": "branch"}, [])


def test_invalid_base_gives_no_origin(project: Project) -> None:
    (project.folder / "topics" / "a.yaml").write_text("kind: Topic\n")
    commit_all(project.folder)
    run_git(project.folder, "switch", "-q", "-c", "work")
    project.topic("a", partitions=3, retention="9d")
    call = project.run("plan", "--changed-since", "main", "--format", "json").needs(0)
    assert [change.get("origin") for change in call.json["changes"]] == [None]
    assert "KF426" in {found["code"] for found in call.json["diagnostics"]}


# --- manifests of a branch that is not trusted -----------------------------------------------------


FROM_BRANCH = ("--config", "repo/kafkaform.yaml", "--manifests-from", "pr")


@pytest.fixture
def branch(project: Project, tmp_path: Path) -> Project:
    run_git(tmp_path, "clone", "-q", str(project.folder), "pr")
    run_git(tmp_path / "pr", "switch", "-q", "-c", "work")
    return Project(tmp_path / "pr", project.servers, project.prefix)


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
    config = branch.folder / "kafkaform.yaml"
    config.write_text(config.read_text().replace(old.format(servers=branch.servers), new.format()))
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


@pytest.mark.usefixtures("connected", "project")
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

"""Plans seen from a branch, in real Git repositories and on a real Kafka."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli_helpers import Call, Project, called, manifest

IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", folder, *IDENTITY, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def project(project: Project, tmp_path: Path) -> Project:
    """A repository with one topic that is applied, and a configuration file."""
    made = Project(tmp_path / "repo", project.servers, project.prefix)
    (made.folder / "topics").mkdir(parents=True)
    (made.folder / "kafkaform.yaml").write_text(configuration(project.servers))
    write(made, "a", retention="7d")
    git(made.folder, "init", "-q", "-b", "main")
    commit(made, "first")
    made.apply().needs(0)
    return made


def configuration(servers: str) -> str:
    return (
        "apiVersion: kafkaform/v1\nkind: Config\nclusters:\n  one:\n"
        f"    client: {{bootstrap.servers: '{servers}'}}\n"
        "rules: {KF104: 'off', KF105: 'off', KF108: 'off'}\n"
    )


def write(project: Project, name: str, **spec: object) -> None:
    spec = {"partitions": 3, "replicationFactor": 1, **spec}
    (project.folder / "topics" / f"{name}.yaml").write_text(manifest(project.prefix + name, spec))


def commit(project: Project, message: str) -> None:
    git(project.folder, "add", "-A")
    git(project.folder, "commit", "-q", "-m", message)


def origins(call: Call, project: Project) -> dict[str, str]:
    return {
        change["name"].removeprefix(project.prefix): change["origin"]["from"]
        for change in call.needs(0).json["changes"]
    }


def test_a_reviewer_sees_what_was_there_before(project: Project) -> None:
    project.set_config("a", "retention.ms", "86400000")
    git(project.folder, "switch", "-q", "-c", "work")
    write(project, "b")
    commit(project, "a new topic")
    call = project.run("plan", "--changed-since", "main", "--format", "json")
    assert origins(call, project) == {"a": "drift", "b": "branch"}
    text = project.run("plan", "--changed-since", "main").needs(0).out
    assert "not caused by this branch" in text
    assert "1 of them is not caused, or only partly caused, by this branch" in text


def test_what_main_got_meanwhile_is_not_the_branchs(project: Project) -> None:
    git(project.folder, "switch", "-q", "-c", "work")
    git(project.folder, "switch", "-q", "main")
    write(project, "a", retention="9d")
    commit(project, "on main")
    project.apply().needs(0)
    git(project.folder, "switch", "-q", "work")
    write(project, "b")
    call = project.run(
        "plan", "--changed-since", "main", "--format", "json", "--no-strict"
    )  # b is not committed
    assert origins(call, project) == {"a": "drift", "b": "branch"}


def test_an_edit_of_the_defaults_is_the_branchs(project: Project) -> None:
    git(project.folder, "switch", "-q", "-c", "work")
    config = project.folder / "kafkaform.yaml"
    config.write_text(config.read_text() + "defaults: {Topic: {config: {segment.ms: 1d}}}\n")
    commit(project, "defaults")
    call = project.run("plan", "--changed-since", "main", "--format", "json")
    assert origins(call, project) == {"a": "branch"}


def test_manifests_that_were_broken_are_told_and_nothing_is_attributed(project: Project) -> None:
    (project.folder / "topics" / "a.yaml").write_text("kind: Topic\n")
    commit(project, "broken")
    git(project.folder, "switch", "-q", "-c", "work")
    write(project, "a", retention="9d")
    call = project.run("plan", "--changed-since", "main", "--format", "json").needs(0)
    assert [change.get("origin") for change in call.json["changes"]] == [None]
    assert "KF426" in {found["code"] for found in call.json["diagnostics"]}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--changed-since", "nowhere"), "nowhere is not a commit"),
        (("--changed-since", "--upload-pack=x"), "is not a commit"),
        (("--changed-since", "main", "--prune"), "leave out --target, PATH and --changed-since"),
    ],
)
def test_bad_input_is_told_in_one_line(project: Project, arguments: tuple[str, ...], told: str) -> None:
    call = project.run("plan", *arguments)
    assert call.code in {1, 64}
    assert told in call.err


def test_outside_of_a_repository(kafka: DevCluster, prefix: str, tmp_path: Path) -> None:
    project = Project(tmp_path, kafka.bootstrap_servers, prefix)
    (tmp_path / "topics").mkdir()
    write(project, "a")
    assert "not a git repository" in project.run("plan", "--changed-since", "main").needs(1).err


# --- manifests of a branch that is not trusted -----------------------------------------------------


def test_manifests_are_read_from_elsewhere_and_told_from_there(project: Project, tmp_path: Path) -> None:
    theirs = tmp_path / "pr"
    git(tmp_path, "clone", "-q", str(project.folder), "pr")
    branch = Project(theirs, project.servers, project.prefix)
    git(theirs, "switch", "-q", "-c", "work")
    write(branch, "b")
    (theirs / "kafkaform.yaml").write_text(configuration("127.0.0.1:1"))
    commit(branch, "mine")
    call = called(
        *("plan", "--config", "repo/kafkaform.yaml", "--manifests-from", "pr"),
        *("--changed-since", "HEAD^1", "--format", "json"),
        cwd=tmp_path,
    )
    assert origins(call, project) == {"b": "branch"}
    assert call.json["changes"][0]["source"]["file"] == "topics/b.yaml"
    assert call.json["unmanaged"] is not None
    assert call.json["commit"] == git(theirs, "rev-parse", "HEAD")
    assert "KF425" in {found["code"] for found in call.json["diagnostics"]}


@pytest.mark.usefixtures("project")
def test_problems_are_told_from_there_too(tmp_path: Path) -> None:
    theirs = tmp_path / "pr" / "topics"
    theirs.mkdir(parents=True)
    (theirs / "bad.yaml").write_text("kind: Nonsense\n")
    arguments = ("--config", "repo/kafkaform.yaml", "--manifests-from", "pr")
    for command in ("plan", "validate"):
        err = called(command, *arguments, cwd=tmp_path).needs(1).err
        assert "topics/bad.yaml:1:" in err
        assert "pr/topics" not in err
    annotated = called("validate", *arguments, "--format", "github", cwd=tmp_path).needs(1)
    assert "file=topics/bad.yaml" in annotated.out


@pytest.mark.usefixtures("project")
def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "pr").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x.yaml").write_text("password: hunter2\n")
    (tmp_path / "pr" / "topics").symlink_to(tmp_path / "secret")
    call = called(
        "validate", "--config", "repo/kafkaform.yaml", "--manifests-from", "pr", cwd=tmp_path
    ).needs(1)
    assert "leads out of pr" in call.err
    assert "password" not in call.both

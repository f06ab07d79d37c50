"""Tests of the cluster, address, environment and configuration of a call, and of contradictions."""

import os
from pathlib import Path

import click
import pytest

from kafkaform.cli.options import ClusterSelector
from kafkaform.cli.session import Session
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Call, Project, run_in_process
from tests.support.github.git_work import run_git

NOWHERE = "127.0.0.1:1"


def call(folder: Path, *arguments: object, **env: str) -> Call:
    return run_in_process(*arguments, cwd=folder, env=env)


def write_two_clusters(folder: Path, servers: str = NOWHERE) -> None:
    """Write a configuration with a cluster for each of two environments, and one topic."""
    project = Project(folder, servers, "")
    clusters = {
        name: {"environment": name, "client": {"bootstrap.servers": servers, "client.id": name}}
        for name in ("dev", "prod")
    }
    project.config(environments=["dev", "prod"], clusters=clusters)
    project.topic("t")


CONTRADICTIONS = {
    "--cluster prod -e dev": "prod has environment prod | but --environment is dev | --cluster dev",
    "--cluster prod KAFKAFORM_ENVIRONMENT=dev": "but KAFKAFORM_ENVIRONMENT is dev | unset KAFKAFORM_ENV",
    "KAFKAFORM_CLUSTER=prod KAFKAFORM_BOOTSTRAP_SERVER=b:1": "BOOTSTRAP_SERVER is b:1 | CLUSTER is prod",
    "--cluster prod KAFKAFORM_COMMAND_CONFIG=old": "(old) sets client.id to laptop | as --command-config",
    "--cluster prod --command-config a": "(a) sets bootstrap.servers to b:1 | use --bootstrap-server",
    "KAFKAFORM_CLUSTER=prd": "no cluster 'prd' | mean 'prod'?",
    "KAFKAFORM_CONFIG=nope.yaml": "nope.yaml: no such file",
    "--cluster prod KAFKAFORM_ENVIRONMENT=prd": "ENVIRONMENT: there is no environment 'prd' | mean 'prod'?",
}
"""The parts of the message by the options and variables."""


@pytest.mark.parametrize("given", CONTRADICTIONS)
def test_contradicting_options_are_refused(tmp_path: Path, given: str) -> None:
    write_two_clusters(tmp_path)
    (tmp_path / "old").write_text("client.id=laptop\n", "utf-8")
    (tmp_path / "a").write_text("bootstrap.servers=b:1\n", "utf-8")
    env = dict(word.split("=") for word in given.split() if "=" in word)
    arguments = [word for word in given.split() if "=" not in word]
    plan, *others = (
        call(tmp_path, *command.split(), *arguments, **env).needs(1 if "KAFKAFORM_CONFIG" in env else 64)
        for command in ("plan", "status", "drift", "apply --auto-approve")
    )
    assert plan.out == ""
    assert [part for part in CONTRADICTIONS[given].split(" | ") if part not in plan.err] == []
    assert others == [plan] * 3


@pytest.mark.parametrize(
    ("servers", "told"),
    [
        ("127.0.0.1:1", False),
        ("localhost:1,[::1]:1", False),
        ("kafka.invalid:1", True),
        ("127.0.0.1:1,kafka.invalid:1", True),
    ],
)
def test_bootstrap_variable_of_remote_host_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], servers: str, told: bool
) -> None:
    write_two_clusters(tmp_path)
    variables = frozenset({"bootstrap_server"})
    with click.Context(click.Command("plan")):
        Session.start(
            ClusterSelector(tmp_path / "kafkaform.yaml", bootstrap_server=servers, variables=variables)
        )
    note = f"note: KAFKAFORM_BOOTSTRAP_SERVER is set, so no cluster of {tmp_path}/kafkaform.yaml is used"
    assert capsys.readouterr().err.startswith(note) == told


def test_configuration_search_ends_at_repository_root(tmp_path: Path) -> None:
    write_two_clusters(tmp_path)
    below = tmp_path / "services" / "checkout"
    below.mkdir(parents=True)
    assert "configuration none" in call(below, "validate").err
    run_git(tmp_path, "init", "-q")
    found = call(below, "validate").needs(0)
    assert found.err == "configuration ../../kafkaform.yaml\n"
    (tmp_path / "topics/bad.yaml").write_text("kind: Topc\n", "utf-8")
    assert "../../topics/bad.yaml:1:" in call(below, "validate").needs(1).err
    run_git(below, "init", "-q")
    assert "configuration none" in call(below, "validate").err


def test_repository_of_other_user_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_two_clusters(tmp_path)
    (tmp_path / ".git").mkdir()
    below = tmp_path / "mine"
    below.mkdir()
    (below / "topics").mkdir()
    stat, git = Path.stat, tmp_path / ".git"

    def stat_as_other_user(path: Path, **options: bool) -> os.stat_result:
        found = stat(path, **options)
        return os.stat_result((*found[:4], found.st_uid + 1, *found[5:10])) if path == git else found

    assert call(below, "validate").err == "configuration ../kafkaform.yaml\n"
    monkeypatch.setattr(Path, "stat", stat_as_other_user)
    assert "configuration none" in call(below, "validate").err


@pytest.mark.parametrize("beside", [False, True])
def test_configuration_with_the_wrong_suffix_is_reported(tmp_path: Path, beside: bool) -> None:
    write_two_clusters(tmp_path)
    right, wrong = tmp_path / "kafkaform.yaml", tmp_path / "kafkaform.yml"
    wrong.write_bytes(right.read_bytes())
    if not beside:
        right.unlink()
    refused = call(tmp_path, "plan", "--cluster", "prod").needs(1)
    assert refused.err == (
        "Error: kafkaform.yml is not read: the configuration file must be named kafkaform.yaml\n"
        f"hint: {'remove it: kafkaform.yaml also exists' if beside else 'rename it to kafkaform.yaml'}\n"
    )


def test_configuration_of_untrusted_manifests_is_not_used(tmp_path: Path) -> None:
    branch, trusted = tmp_path / "pr", tmp_path / "pr" / "base"
    for folder in (branch, trusted):
        folder.mkdir()
        write_two_clusters(folder)
        run_git(folder, "init", "-q")
    below = branch / "topics"
    for folder, root in ((branch, "."), (below, "..")):
        refused = call(folder, "validate", "--manifests-from", root).needs(1)
        assert f"the configuration of {root}, which --manifests-from does not read" in refused.err
        refused = call(folder, "plan", "--cluster", "dev", "--manifests-from", root).needs(1)
        assert f"the configuration of {root}, which --manifests-from does not read" in refused.err
    # A checkout of its own within the branch's folder is another repository.
    call(trusted, "validate", "--manifests-from", "..").needs(0)
    call(branch, "validate", "--manifests-from", ".", "--config", "base/kafkaform.yaml").needs(0)


# --- with a cluster that answers -------------------------------------------------------------------


@pytest.fixture
def project(project: Project, connected: Connected) -> Project:  # noqa: ARG001 - it is in place of Kafka
    return project


def test_option_overrides_environment_variable(project: Project) -> None:
    write_two_clusters(project.folder, project.servers)
    project.topic("t")
    left_over = {"KAFKAFORM_BOOTSTRAP_SERVER": NOWHERE}
    done = project.run("plan", "--cluster", "prod", env=left_over).needs(0)
    assert "note: KAFKAFORM_BOOTSTRAP_SERVER is ignored, because --cluster prod" in done.err
    first, second = done.out.splitlines()[:2]
    assert first.startswith("kafkaform plan · cluster prod (")
    assert first.endswith(" · environment prod")
    assert second == f"  configuration kafkaform.yaml · brokers {project.servers}"
    arguments = ("plan", "topics", "-e", "dev", "--bootstrap-server", project.servers)
    done = project.run(*arguments, env={"KAFKAFORM_CLUSTER": "prod"}).needs(0)
    assert "note: KAFKAFORM_CLUSTER is ignored, because --bootstrap-server" in done.err
    assert done.out.startswith(f"kafkaform plan · cluster {project.servers} (")


def test_forbidden_hazard_applies_to_bootstrap_server(project: Project) -> None:
    project.topic("t", retention="7d")
    project.apply("topics").needs(0)
    project.topic("t", retention="1d")
    forbidding = {"client": {"bootstrap.servers": NOWHERE}, "forbid": ["retention-cut"]}
    project.config(clusters={"dev": {"client": {"bootstrap.servers": NOWHERE}}, "prod": forbidding})
    allow = ("--allow", "destructive", "--bootstrap-server", project.servers)
    done = project.run("plan", "topics", *allow)
    assert "retention-cut is forbidden" in done.out
    assert "`forbid:` in kafkaform.yaml" in done.words
    project.apply("topics", *allow).needs(1)
    assert project.live()["t"]["retention.ms"] == "604800000"
    project.config(clusters={"dev": {"client": {"bootstrap.servers": NOWHERE}}})
    assert "forbidden" not in project.run("plan", "topics", *allow).both

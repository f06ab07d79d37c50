"""Tests of the cluster, address, environment and configuration of a call, and of contradictions."""

from __future__ import annotations

import shlex

import pytest

from tests.support.cli.project import Project, run_in_process, write_two_clusters

NOWHERE = "127.0.0.1:1"


def test_option_beats_a_variable(project: Project) -> None:
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


def test_variable_address_beats_configured_clusters(project: Project) -> None:
    """It is one of this machine, as `kafkaform dev` prints it: no note below each command."""
    project.config(clusters={"prod": {"client": {"bootstrap.servers": NOWHERE}}})
    project.topic("t")
    env = {"KAFKAFORM_BOOTSTRAP_SERVER": project.servers}
    done = run_in_process("plan", cwd=project.folder, env=env).needs(0)
    assert "note:" not in done.err
    assert project.servers in done.out


def test_forbidden_hazard_is_refused_for_an_address(project: Project) -> None:
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


@pytest.mark.parametrize(
    "arguments",
    [["status"], ["get", "topics"], ["doctor"], ["import", "--dry-run"], ["history", "--limit", "1"]],
    ids=lambda arguments: arguments[0],
)
def test_report_without_header_names_its_cluster(project: Project, arguments: list[str]) -> None:
    write_two_clusters(project.folder, project.servers)
    project.topic("t")
    line = f"cluster prod · environment prod · brokers {project.servers} · kafkaform.yaml"
    done = project.run(*arguments, "--cluster", "prod", env={"KAFKAFORM_AUDIT": "true"})
    assert done.err.splitlines()[0] == line
    (project.folder / "kafkaform.yaml").unlink()
    done = project.run(*arguments)
    expected = f"cluster {project.servers} · no kafkaform.yaml found"
    assert done.err.splitlines()[0] == expected


def test_command_of_a_saved_plan_reaches_its_cluster(project: Project) -> None:
    write_two_clusters(project.folder)
    project.topic("t")
    where = ("--cluster", "prod", "--bootstrap-server", project.servers)
    done = project.run("plan", *where, "--out", "a plan.json").needs(0)
    command = f"kafkaform apply 'a plan.json' --bootstrap-server {project.servers} --cluster prod"
    assert f"saved: `{command}` applies exactly this plan\n" in done.err
    project.run(*shlex.split(command)[1:], "--auto-approve").needs(0)
    assert set(project.live()) == {"t"}

"""The examples for other machinery than GitHub's, run as they stand: GitLab, Jenkins and cron."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import ROOT, environment
from tests.support.gitlab import fake_gitlab
from tests.support.workflows.jobs import load
from tests.support.workflows.scene import Team, scene

CI = ROOT / "docs" / "ci"


@pytest.fixture
def team(tmp_path: Path, kafka: DevCluster, prefix: str) -> Iterator[Team]:
    """A repository whose plans nobody signs."""
    with scene(tmp_path, kafka.bootstrap_servers, prefix) as made:
        config = made.project.folder / "kafkaform.yaml"
        text = config.read_text("utf-8").replace("verifyKey: plans.pem", "brokers: 1")
        made.hosted.commit("main", lambda _: config.write_text(text, "utf-8"))
        yield made


def bash(script: str, folder: Path, more: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    environ = environment(**{"KAFKA_USERNAME": "an", "KAFKA_PASSWORD": "account", **more})
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


def test_gitlab_jobs_plan_apply_and_check_drift(team: Team) -> None:
    jobs: Mapping[str, Any] = load(CI / "gitlab-ci.yml")
    folder, base = team.project.folder, team.hosted.main

    def job(name: str, **more: str) -> subprocess.CompletedProcess[str]:
        return bash("\n".join(jobs[name]["script"]), folder, {**jobs["variables"], **more})

    pull = team.push(team.topic("second"), "more")
    assert job("validate").returncode == 0
    planned = job("plan", CI_MERGE_REQUEST_DIFF_BASE_SHA=base)
    assert planned.returncode == 0, planned.stderr
    assert "1 to create" in planned.stdout
    with fake_gitlab() as gitlab:
        [noting] = jobs["plan"]["after_script"]
        for _ in range(2):
            noted = bash(noting, folder, {**jobs["variables"], **gitlab.environment()})
            assert noted.returncode == 0, noted.stderr
        [body] = gitlab.bodies()
        assert body.startswith("<!-- kafkaform:plan-prod -->")
        assert "1 to create" in body
    (folder / "plan.json").unlink()
    team.merge(pull)
    team.hosted.commit("main", lambda _: None)
    assert job("plan-merged").returncode == 0
    applied = job("apply")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert set(team.project.live()) == {"first", "second"}
    assert job("drift").returncode == 0
    # A plan of another commit is not applied.
    team.hosted.commit("main", team.topic("third"))
    assert job("apply").returncode == 1
    assert set(team.project.live()) == {"first", "second"}
    assert job("drift").returncode == 2


def test_jenkins_runs_the_commands_of_gitlab() -> None:
    jenkins = re.findall(r"sh '(kafkaform .*)'", (CI / "Jenkinsfile").read_text("utf-8"))
    gitlab = re.findall(r"- (kafkaform .*)", (CI / "gitlab-ci.yml").read_text("utf-8"))
    same = [line for line in gitlab if "kafkaform ci" not in line]
    base = "$CI_MERGE_REQUEST_DIFF_BASE_SHA"
    assert [line.replace("origin/$CHANGE_TARGET", base) for line in jenkins] == same


@pytest.mark.nightly("unit/cli has exit codes and what is printed")
def test_cron_lines_print_only_findings(team: Team, tmp_path: Path) -> None:
    home, secrets, metrics = tmp_path / "home", tmp_path / "environment", tmp_path / "kafkaform.prom"
    home.mkdir()
    secrets.write_text("export KAFKA_PASSWORD=another\n")
    lines = [line for line in (CI / "crontab").read_text("utf-8").splitlines() if line[:1] in {"1", "*"}]
    places = {
        "/etc/kafkaform/environment": str(secrets),
        "/srv/kafka": str(team.project.folder),
        "/var/lib/node_exporter/kafkaform.prom": str(metrics),
        "git pull --quiet --ff-only": "git pull --quiet --ff-only origin main",
    }

    def cron() -> list[str]:
        outputs = []
        for line in lines:
            command = line.split(None, 5)[5]
            for shown, here in places.items():
                command = command.replace(shown, here)
            done = bash(command, tmp_path, {"HOME": str(home)})
            outputs.append(done.stdout + done.stderr)
        return outputs

    assert cron() == ["", ""]
    assert "kafkaform_drift_fields" in metrics.read_text("utf-8")
    team.project.set_config("first", "retention.ms", "1234567")
    daily, often = cron()
    assert "first" in daily
    assert often == ""
    team.hosted.commit("main", lambda folder: (folder / "kafkaform.yaml").write_text("kind: ["))
    daily, often = cron()
    assert "kafkaform.yaml:2:1: " in daily
    assert "kafkaform.yaml:2:1: " in often

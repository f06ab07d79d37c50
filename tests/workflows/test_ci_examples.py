"""The examples for other machinery than GitHub's, run as they stand: GitLab, Jenkins, cron, Kubernetes."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaform import __version__
from kafkaform.config.settings import read_settings
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.plan.plan_signature import read_public_keys
from tests.support.cli.command_lines import parse
from tests.support.cli.project import ROOT, environment
from tests.support.gitlab import fake_gitlab
from tests.support.markdown import list_blocks
from tests.support.required import program
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


CHART = ROOT / "charts" / "kafkaform"
PAGE = ROOT / "docs" / "kubernetes.md"


def documented_values() -> dict[str, Any]:
    [text] = [block.text for block in list_blocks(PAGE) if block.marker == "chart: values.yaml"]
    values: dict[str, Any] = yaml.safe_load(text)
    return values


def helm(command: str, values: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values), "utf-8")
    arguments = {"lint": ["--strict"], "template": ["kafka"]}[command]
    line = [program("helm"), command, *arguments, str(CHART), "--values", str(file)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    made = helm("template", documented_values(), tmp_path_factory.mktemp("values"))
    assert made.returncode == 0, made.stderr
    return {item["metadata"]["name"]: item for item in yaml.safe_load_all(made.stdout)}


def pod(resources: dict[str, Any], name: str) -> dict[str, Any]:
    spec: dict[str, Any] = resources[name]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec


def test_chart_passes_lint(tmp_path: Path) -> None:
    linted = helm("lint", documented_values(), tmp_path)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["appVersion"] == __version__


def test_chart_pods_have_restricted_rights_and_separate_secrets(resources: dict[str, Any]) -> None:
    assert set(resources) == {"kafka-configuration", "kafka-drift", "kafka-agent"}
    for name, secret in (("kafka-drift", "kafkaform-reader"), ("kafka-agent", "kafkaform-writer")):
        assert resources[name]["spec"]["concurrencyPolicy"] == "Forbid"
        spec = pod(resources, name)
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"].items() >= {"runAsNonRoot": True, "runAsUser": 65532}.items()
        [main], clones = spec["containers"], spec.get("initContainers", [])
        assert main["envFrom"] == [{"secretRef": {"name": secret}}]
        assert not any("envFrom" in clone for clone in clones)  # Git needs no account of Kafka
        assert len(clones) == (name == "kafka-drift")
        for container in (main, *clones):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]
            assert {"name": "work", "mountPath": "/tmp"} in container["volumeMounts"]


def test_chart_commands_and_configuration_are_valid(resources: dict[str, Any], tmp_path: Path) -> None:
    for name in ("kafka-drift", "kafka-agent"):
        [container] = pod(resources, name)["containers"]
        parse(container["args"], name)
        assert "--notify" in container["args"]
    for file, text in resources["kafka-configuration"]["data"].items():
        (tmp_path / file).write_text(text, "utf-8")
    cluster = read_settings(tmp_path / "kafkaform.yaml").clusters["prod"]
    assert cluster.notify is not None
    assert read_public_keys(tmp_path / "verify.pem")


def test_git_reads_token_from_environment(resources: dict[str, Any], tmp_path: Path) -> None:
    [agent] = pod(resources, "kafka-agent")["containers"]
    variables = {item["name"]: item.get("value", "t0ken") for item in agent["env"]}
    done = subprocess.run(
        ["git", "credential", "fill"],
        env={**variables, "HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GIT_TERMINAL_PROMPT": "0"},
        input="protocol=https\nhost=git.example.com\n\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "password=t0ken" in done.stdout


@pytest.mark.parametrize(
    ("section", "change", "reason"),
    [
        ("image", {"repository": ""}, "image.repository is required"),
        ("repository", {"url": ""}, "repository.url is required"),
        ("drift", {"secretName": ""}, "drift.secretName is required"),
        ("agent", {"secretname": "x"}, "secretname"),
        ("verifyKey", "", "verifyKey is required by the agent"),
        ("config", "", "config is required"),
    ],
)
def test_wrong_values_are_refused(tmp_path: Path, section: str, change: Any, reason: str) -> None:
    values = documented_values()
    values[section] = {**values[section], **change} if isinstance(change, dict) else change
    refused = helm("template", values, tmp_path)
    assert refused.returncode != 0
    assert reason in refused.stderr

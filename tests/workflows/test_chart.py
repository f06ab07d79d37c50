"""The Helm chart: what it makes of the values of docs/kubernetes.md, and what it refuses."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaform import __version__
from kafkaform.config.settings import read_settings
from kafkaform.plan.plan_signature import read_public_keys
from tests.support.cli.command_lines import parse
from tests.support.cli.project import ROOT
from tests.support.required import program

CHART = ROOT / "charts" / "kafkaform"
PAGE = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")


def documented_values() -> dict[str, Any]:
    found = re.search(
        r"<!-- chart: values.yaml -->\n```yaml fragment\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    values: dict[str, Any] = yaml.safe_load(found[1])
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


def pod(job: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec


def containers(resources: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in ("kafka-drift", "kafka-agent"):
        yield from (*pod(resources[name]).get("initContainers", []), *pod(resources[name])["containers"])


def test_chart_passes_lint(tmp_path: Path) -> None:
    linted = helm("lint", documented_values(), tmp_path)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["appVersion"] == __version__


def test_chart_pods_have_restricted_rights(resources: dict[str, Any]) -> None:
    assert set(resources) == {"kafka-configuration", "kafka-drift", "kafka-agent"}
    for name in ("kafka-drift", "kafka-agent"):
        assert resources[name]["spec"]["concurrencyPolicy"] == "Forbid"
        assert pod(resources[name])["automountServiceAccountToken"] is False
        context = pod(resources[name])["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 65532)
    for container in containers(resources):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]
        assert {"name": "work", "mountPath": "/tmp"} in container["volumeMounts"]


def test_chart_jobs_have_separate_secrets(resources: dict[str, Any]) -> None:
    for name, secret in (("drift", "kafkaform-reader"), ("agent", "kafkaform-writer")):
        [container] = pod(resources[f"kafka-{name}"])["containers"]
        assert container["envFrom"] == [{"secretRef": {"name": secret}}]
    [clone] = pod(resources["kafka-drift"])["initContainers"]
    assert "envFrom" not in clone  # Git needs no account of Kafka


def test_chart_commands_and_configuration_are_valid(resources: dict[str, Any], tmp_path: Path) -> None:
    for name in ("kafka-drift", "kafka-agent"):
        [container] = pod(resources[name])["containers"]
        parse(container["args"], name)
        assert "--notify" in container["args"]
    for file, text in resources["kafka-configuration"]["data"].items():
        (tmp_path / file).write_text(text, "utf-8")
    cluster = read_settings(tmp_path / "kafkaform.yaml").clusters["prod"]
    assert cluster.notify is not None
    assert read_public_keys(tmp_path / "verify.pem")


def test_git_reads_token_from_environment(resources: dict[str, Any], tmp_path: Path) -> None:
    [agent] = pod(resources["kafka-agent"])["containers"]
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

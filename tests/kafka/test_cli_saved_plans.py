"""Tests of saved plans on a real Kafka: shown, stale, half-way, and without secrets."""

import json
import re
from pathlib import Path

import pytest

from kafkaform.devcluster.cluster import DevCluster
from kafkaform.plan.plan_file import digest_of
from tests.support.cli.project import Project
from tests.support.cli.signing import write_keys
from tests.support.clusters.fixtures import MakeAccount

APPLY = ("apply", "plan.json", "--auto-approve")


@pytest.fixture
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_keys(tmp_path_factory.mktemp("keys"), "ci")


@pytest.fixture
def project(project: Project) -> Project:
    project.topic("orders", partitions=2)
    return project


def test_no_secret_is_in_a_plan(
    kafka_acl: DevCluster,
    account: MakeAccount,
    prefix: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    login = account(f"TOPIC:{prefix}*:ALL", "CLUSTER:kafka-cluster:DESCRIBE").properties
    keys = tmp_path_factory.mktemp("keys")
    private, _ = write_keys(keys, "ci")
    (keys / "user").write_text(login["sasl.username"])
    client = {
        **login,
        "bootstrap.servers": "${env:BROKERS}",
        "sasl.username": f"${{file:{keys / 'user'}}}",
        "sasl.password": "${env:BROKER_PASSWORD}",
        "client.id": "plain-client-id",
    }
    project = Project(tmp_path, kafka_acl.sasl_bootstrap_servers, prefix)
    project.topic("orders", partitions=2)
    project.config(clusters={"dev": {"client": client}})
    env = {
        "BROKERS": kafka_acl.sasl_bootstrap_servers,
        "BROKER_PASSWORD": login["sasl.password"],
        "KAFKAFORM_SIGN_KEY": private.read_text(),
        "KAFKAFORM_SIGN_KEY_PASSPHRASE": "open sesame",
        "OTHER_TOKEN": "a token of somebody",
    }
    made = project.run("plan", "--out", "plan.json", "--format", "json", "-v", env=env).needs(0)
    shown = project.run("show", "plan.json").needs(0)
    debug = project.process("--debug", "plan", env=env).needs(0)
    assert re.search(r"\.broker_socket: 127\.0\.0\.1:\d+: DescribeConfigs v1, sent [\d,]+ bytes", debug.err)
    assert login["sasl.password"] not in debug.both
    plan = (project.folder / "plan.json").read_text()
    assert json.loads(plan)["changes"][0]["name"] == f"{prefix}orders"
    assert "signature" in json.loads(plan)
    secrets = [
        login["sasl.username"],
        login["sasl.password"],
        "BROKER_PASSWORD",
        "plain-client-id",
        kafka_acl.sasl_bootstrap_servers,
        *private.read_text().splitlines(),
        "open sesame",
        "a token of somebody",
    ]
    for text in (plan, made.both, shown.both):
        assert [secret for secret in secrets if secret in text] == []


def called_safe(project: Project) -> None:
    """Edit the saved plan, with a digest that fits: all that it does is safe, and nobody needs to consent."""
    document = json.loads((project.folder / "plan.json").read_text())
    for change in document["changes"]:
        whole = {"hazard": None, "risk_reason": None, "risk_remedy": None, "reason": None, "remedy": None}
        change.update(whole, status="planned", risk="safe")
        for field in change["fields"]:
            field.update(risk="safe", hazard=None, reason=None, remedy=None)
    summary = {**document["summary"], "needs_consent": 0, "refused": 0}
    document |= {"consent": [], "summary": summary}
    document["digest"] = digest_of(document)
    project.write("plan.json", json.dumps(document))


def test_edited_plan_does_not_hide_destruction(project: Project) -> None:
    project.topic("orders", retention="7d")
    project.apply("topics").needs(0)
    project.topic("orders", state="absent")
    project.run("plan", "--out", "plan.json")
    called_safe(project)
    call = project.run(*APPLY).needs(1)
    assert "riskier than" in call.out
    assert "is destructive" in call.out
    assert project.live()["orders"] == {"partitions": 1, "retention.ms": "604800000"}

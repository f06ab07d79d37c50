"""`--notify`: what is posted to the webhook of a cluster, and what is said where that fails."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kafkaform.cli import notification
from kafkaform.cli.options import ClusterSelector
from kafkaform.cli.session import Session
from kafkaform.core.schema_files import load_schema
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Call, Project
from tests.support.clusters.certificates import self_signed
from tests.support.webhook import SECRET, Webhook, webhook

TOKEN = "t0ken-of-the-webhook"


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as running:
        yield running


@pytest.fixture
def project(project: Project, connected: Connected) -> Project:  # noqa: ARG001 - it is in place of Kafka
    """A project with a topic that is not there, and a webhook."""
    project.topic("a", partitions=3)
    configure(project, headers={"Authorization": "Bearer ${env:TOKEN}"})
    return project


def configure(project: Project, url: str = "${env:HOOK}", **more: Any) -> None:
    cluster = {"environment": "prod", "client": {"bootstrap.servers": project.servers}}
    project.config(environments=["prod"], clusters={"main": {**cluster, "notify": {"url": url, **more}}})


def run(project: Project, hook: Webhook, *arguments: object, **env: str) -> Call:
    """Call kafkaform with `--notify`; no secret of the webhook is ever printed."""
    call = project.run(*arguments, "--notify", env={"HOOK": hook.url, "TOKEN": TOKEN, **env})
    assert SECRET not in call.both
    assert TOKEN not in call.both
    return call


def test_drift_is_notified_only_if_present(project: Project, hook: Webhook) -> None:
    run(project, hook, "drift", BUILD_URL="https://ci.example/7", JENKINS_URL="https://ci.example").needs(2)
    (document,) = hook.received
    Draft202012Validator(load_schema("notification")).validate(document)
    expected = {"event": "drift", "cluster": "main", "environment": "prod", "commit": None}
    expected |= {"summary": "Drift: 1 missing; 0 as declared.", "link": "https://ci.example/7"}
    assert document == {"format_version": 1, **expected}
    assert hook.headers[0]["Authorization"] == f"Bearer {TOKEN}"
    run(project, hook, "apply", "--auto-approve").needs(0)
    run(project, hook, "drift").needs(0)
    assert len(hook.received) == 1
    project.topic("a", partitions=4)
    run(project, hook, "drift", "--clusters", "*").needs(2)
    assert [document["cluster"] for document in hook.received] == ["main"] * 2


def test_failed_apply_is_reported(project: Project, hook: Webhook) -> None:
    project.topic("b", replicationFactor=9)
    run(project, hook, "apply", "--auto-approve").needs(1)
    run(project, hook, "apply").needs(1)
    run(project, hook, "apply", "--target", "nothing").needs(64)  # whoever typed it knows
    assert [document["event"] for document in hook.received] == ["apply_failed"] * 2
    summaries = [document["summary"] for document in hook.received]
    assert summaries == ["Apply: 1 created, 1 refused. Not complete.", "Apply: 1 refused. Not complete."]


@pytest.mark.parametrize("status", [302, 500])
def test_rejected_notification_keeps_exit_code(project: Project, hook: Webhook, status: int) -> None:
    hook.status = status
    assert f"not accepted: HTTP {status}" in run(project, hook, "drift").needs(2).said
    assert len(hook.received) == 1  # a redirect is not followed


def test_slow_webhook_is_abandoned(project: Project, hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    hook.silent = True
    monkeypatch.setattr(notification, "_TIMEOUT_S", 0.2)
    assert "not sent: timed out" in run(project, hook, "drift").needs(2).said


def test_certificate_of_the_webhook_is_verified(project: Project, tmp_path: Path) -> None:
    with webhook(self_signed(tmp_path)) as hook:
        assert "CERTIFICATE_VERIFY_FAILED" in run(project, hook, "drift").needs(2).said
        run(project, hook, "drift", SSL_CERT_FILE=str(tmp_path / "certificate.pem")).needs(2)
        assert len(hook.received) == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("${env:NOT_SET}", "environment variable NOT_SET is not set"),
        ("http://chat.example/hook", "must start with https://"),
        ("${env:TOKEN}", "must start with https://"),
        ("https://h:port/", "must start with https://"),
        ("${oops}", "write $$ for a dollar sign"),
    ],
)
def test_invalid_webhook_is_reported_first(project: Project, hook: Webhook, url: str, words: str) -> None:
    configure(project, url)
    error = run(project, hook, "apply", "--auto-approve").needs(1).said
    assert error.startswith("kafkaform.yaml:7:5: notify: url")
    assert words in error
    assert "nothing was applied" in error
    assert hook.received == []


def test_notify_needs_webhook_and_no_adoption(project: Project, hook: Webhook) -> None:
    assert "--adopt prints the edits" in run(project, hook, "drift", "--adopt").needs(64).said
    project.config()
    assert "the cluster dev has no webhook" in run(project, hook, "drift").needs(64).said


def test_branch_does_not_choose_the_webhook(project: Project, tmp_path: Path) -> None:
    """As with the brokers: of a branch's configuration, clusters are not used."""
    branch = Project(tmp_path / "branch", project.servers, project.prefix)
    configure(branch, "https://thief.example/${env:TOKEN}")
    where = ClusterSelector(config_file=project.folder / "kafkaform.yaml")
    notify = Session.start(where, manifests_from=branch.folder).require_cluster().notify
    assert notify is not None
    assert notify.url.references[0].name == "HOOK"

"""Quotas on a real Kafka: through the commands, with and without rights, and what they do to a producer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli.project import Project, login_project, manifest
from tests.support.clusters.fixtures import Account

KEPT = {"KAFKAFORM_AUDIT": "true", "KAFKAFORM_LOCK": "true"}


def declare(project: Project, name: str, *, state: str | None = None, **limits: object) -> None:
    """Write (or rewrite) the manifest of a quota."""
    spec: dict[str, object] = {"config": limits} if state is None else {"state": state}
    project.write("topics/quota.yaml", manifest(name, spec, kind="ClientQuota"))


@pytest.fixture
def name(project: Project) -> str:
    """A quota of this test's own."""
    return f"user={project.prefix}%3Calice%3E,client-id=<default>"


# --- requests and rights -----------------------------------------------------------------------------


def test_quotas_are_requested_only_if_declared(
    project: Project, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    project.topic("orders")

    def list_requests(*arguments: object, code: int) -> list[str]:
        caplog.clear()
        with caplog.at_level("DEBUG", "kafkaform"):
            project.run(*arguments, env=KEPT).needs(code)
        assert "DescribeConfigs" in caplog.text
        return [line for line in caplog.messages if "ClientQuotas" in line]

    assert list_requests("plan", "topics", code=0) == []
    assert list_requests("drift", "topics", code=2) == []
    assert list_requests("apply", "topics", "--auto-approve", code=0) == []
    assert list_requests("status", code=0) == []
    declare(project, name, producer_byte_rate="10MiB")
    asked = list_requests("plan", "topics", code=0)
    assert [("Describe" in line, "Alter" in line) for line in asked] == [(True, False), (False, True)]


@pytest.fixture
def limited(prefix: str, tmp_path: Path, account: Callable[..., Account]) -> Callable[..., Project]:
    """Makes a project of an account that has some rights, with a quota of its own declared."""

    def make(*grants: str) -> Project:
        project = login_project(tmp_path, account(*grants), prefix, manifests=["topics"])
        declare(project, f"user={prefix}", producer_byte_rate="10MiB")
        return project

    return make


CLUSTER = "CLUSTER:kafka-cluster"


def test_quotas_are_changed_with_required_rights(limited: Callable[..., Project]) -> None:
    project = limited(f"{CLUSTER}:DESCRIBE", f"{CLUSTER}:DESCRIBE_CONFIGS", f"{CLUSTER}:ALTER_CONFIGS")
    assert "Apply: 1 created. Verified" in project.run("apply", "--auto-approve").needs(0).out
    declare(project, f"user={project.prefix}", state="absent")
    assert "Apply: 1 deleted. Verified" in project.run("apply", "--auto-approve").needs(0).out

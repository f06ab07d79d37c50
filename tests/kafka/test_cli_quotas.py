"""Quotas on a real Kafka: through the commands, with and without rights, and what they do to a producer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkaform.core.model import ResourceRef
from kafkaform.resources.client_quota.operations import AlterQuota
from tests.support.cli.project import Project, login_project, manifest
from tests.support.clusters.fixtures import Account, connect, eventually

KEPT = {"KAFKAFORM_AUDIT": "true", "KAFKAFORM_LOCK": "true"}


def declare(project: Project, name: str, *, state: str | None = None, **limits: object) -> None:
    """Write (or rewrite) the manifest of a quota."""
    spec: dict[str, object] = {"config": limits} if state is None else {"state": state}
    project.write("topics/quota.yaml", manifest(name, spec, kind="ClientQuota"))


def live_limits(project: Project, name: str) -> dict[str, str]:
    ref = ResourceRef("ClientQuota", name)
    with connect(project.servers) as cluster:
        observed = cluster.observe([ref]).resources.get(ref)
    return (
        {}
        if observed is None
        else {path.removeprefix("config."): str(v) for path, v in observed.state.items()}
    )


def set_limits(project: Project, name: str, *unset: str, **limits: str) -> None:
    """Change a quota behind kafkaform's back."""
    with connect(project.servers) as cluster:
        assert cluster.execute([AlterQuota(ResourceRef("ClientQuota", name), limits, unset)]) == [None]
    eventually(
        lambda: live_limits(project, name),
        lambda live: limits.items() <= live.items() and not live.keys() & {*unset},
    )


@pytest.fixture
def name(project: Project) -> Iterator[str]:
    """A quota of this test's own, which is gone afterwards."""
    name = f"user={project.prefix}<alice>,client-id=<default>".replace("<alice>", "%3Calice%3E")
    yield name
    left = live_limits(project, name)
    if left:
        set_limits(project, name, *left)


# --- requests and rights -----------------------------------------------------------------------------


def test_brokers_are_asked_for_quotas_only_where_one_is_declared(project: Project, name: str) -> None:
    project.topic("orders")

    def requests(*arguments: object, code: int) -> list[str]:
        output = project.process("--debug", *arguments, env=KEPT).needs(code).err
        assert "DescribeConfigs" in output
        return [line for line in output.splitlines() if "ClientQuotas" in line]

    commands: tuple[tuple[tuple[object, ...], int], ...] = (
        (("plan", "topics"), 0),
        (("drift", "topics"), 2),
        (("apply", "topics", "--auto-approve"), 0),
        (("status",), 0),
    )
    for command, code in commands:
        assert requests(*command, code=code) == []
    declare(project, name, producer_byte_rate="10MiB")
    asked = requests("plan", "topics", code=0)
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


def test_right_to_see_quotas_is_named(limited: Callable[..., Project]) -> None:
    project = limited(f"{CLUSTER}:DESCRIBE")
    call = project.run("plan").needs(1)
    assert "lacks DescribeConfigs on the cluster" in call.words
    assert "--operation DescribeConfigs --cluster" in call.both
    shown = project.run("get", "quota", f"user={project.prefix}").needs(1)
    assert "may or may not" in shown.err
    assert "--operation DescribeConfigs --cluster" in shown.err
    for command in (("import", "--dry-run", "--kind", "quota", "--out", "live"), ("get", "quotas")):
        output = project.run(*command).err
        assert "it lacks DescribeConfigs" in output


def test_right_to_change_quotas_is_named(limited: Callable[..., Project]) -> None:
    project = limited(f"{CLUSTER}:DESCRIBE", f"{CLUSTER}:DESCRIBE_CONFIGS")
    call = project.run("plan").needs(0)
    assert "lacks AlterConfigs on the cluster" in call.words
    call = project.run("apply", "--auto-approve").needs(1)
    assert "lacks AlterConfigs on the cluster" in call.words
    assert "--operation AlterConfigs --cluster" in call.both


def test_with_both_rights_quotas_are_changed(limited: Callable[..., Project]) -> None:
    project = limited(f"{CLUSTER}:DESCRIBE", f"{CLUSTER}:DESCRIBE_CONFIGS", f"{CLUSTER}:ALTER_CONFIGS")
    assert "Apply: 1 created. Verified" in project.run("apply", "--auto-approve").needs(0).out
    declare(project, f"user={project.prefix}", state="absent")
    assert "Apply: 1 deleted. Verified" in project.run("apply", "--auto-approve").needs(0).out

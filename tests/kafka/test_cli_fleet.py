"""Plans of several real clusters at once: side by side, and one that fails fails alone."""

from __future__ import annotations

import json

import pytest

from kafkaform.cli.session import Session
from kafkaform.cluster.transport import connection
from kafkaform.core.errors import Unreachable
from kafkaform.core.model import Plan
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.plan.plan_header import PlanHeader
from tests.support.cli_helpers import Project
from tests.unit.cli.test_cli_fleet import run_all

DEAD = "127.0.0.1:1"


@pytest.fixture
def project(project: Project, kafka3: DevCluster) -> Project:
    """Two clusters; the manifest asks for more on the second."""
    project.config(
        environments=["dev", "prod"],
        clusters={
            "dev": {"environment": "dev", "client": {"bootstrap.servers": project.servers}},
            "prod": {"environment": "prod", "client": {"bootstrap.servers": kafka3.bootstrap_servers}},
        },
    )
    project.topic("orders", overrides={"prod": {"partitions": 4, "replicationFactor": 3}})
    return project


def add_cluster(project: Project, name: str, **client: str) -> None:
    """Another cluster in kafkaform.yaml."""
    text = (project.folder / "kafkaform.yaml").read_text()
    entry = f"  {name}: {{environment: dev, client: {json.dumps(client)}}}\n"
    project.write("kafkaform.yaml", text.replace("clusters:\n", f"clusters:\n{entry}"))


def test_every_cluster_is_planned_with_its_own_environment(project: Project, prefix: str) -> None:
    project.apply("--cluster", "dev").needs(0)
    call = run_all(project).needs(2)
    first, *_ = call.out.split("\n\n")
    assert [line.split() for line in first.splitlines()] == [
        ["cluster", "environment", "plan"],
        ["dev", "dev", "no", "changes"],
        ["prod", "prod", "1", "change", "to", "apply"],
    ]
    assert f"+ Topic/{prefix}orders" in call.out
    assert call.out.endswith("\n\n2 clusters: 1 change on 1, no changes on 1.\n")


def test_json_has_the_plans_as_they_are_saved(project: Project) -> None:
    saved: dict[str, str] = {}
    call = run_all(project, "json", save=lambda name, plan, _: saved.update({name: plan.cluster_id})).needs(2)
    clusters = call.json["clusters"]
    assert [*clusters] == ["dev", "prod"]
    assert {name: plan["cluster"]["id"] for name, plan in clusters.items()} == saved
    partitions = {
        name: next(f["after"] for f in plan["changes"][0]["fields"] if f["path"] == "partitions")
        for name, plan in clusters.items()
    }
    assert partitions == {"dev": 1, "prod": 4}


def test_one_that_cannot_be_reached_does_not_stop_the_others(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 3.0)
    add_cluster(project, "gone", **{"bootstrap.servers": DEAD})
    call = run_all(project, "json").needs(1)
    clusters = call.json["clusters"]
    assert DEAD in clusters["gone"]["error"]["message"]
    assert all(len(clusters[name]["changes"]) == 1 for name in ("dev", "prod"))


def test_a_secret_that_a_failure_repeats_is_hidden(project: Project) -> None:
    add_cluster(
        project,
        "secret",
        **{
            "bootstrap.servers": DEAD,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "me",
            "sasl.password": "${env:SECRET}",
        },
    )

    def repeating(session: Session) -> tuple[Plan, PlanHeader]:
        resolved = session.client()
        raise Unreachable(f"{session.require_cluster().name}: no answer for {resolved.get('sasl.password')}")

    for output_format in ("text", "json", "markdown"):
        call = run_all(project, output_format, make=repeating).needs(1)
        assert "hunter2" not in call.both
        assert "secret: no answer for" in call.out.replace("`", "")


def test_problems_of_manifests_are_told(project: Project) -> None:
    project.write(
        "topics/wrong.yaml", "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {nam: x}\nspec: {}\n"
    )
    call = run_all(project).needs(1)
    assert call.out.count("topics/wrong.yaml:3:12: ") == 2
    assert "2 clusters: 2 not planned." in call.out

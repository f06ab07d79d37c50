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


# --- the other commands ------------------------------------------------------------------------------


@pytest.fixture
def fleet(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The two clusters with what is declared for them, and a third one that does not answer."""
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 3.0)
    for cluster in ("dev", "prod"):
        project.apply("--cluster", cluster).needs(0)
    add_cluster(project, "gone", **{"bootstrap.servers": DEAD})
    return project


def rows(out: str) -> dict[str, list[str]]:
    """The table of clusters: environment and verdict by cluster."""
    first, *_ = out.split("\n\n")
    lines = [line for line in first.splitlines()[1:] if not line.startswith(" ")]
    return {name: row for name, *row in map(str.split, lines)}


def test_drift_of_every_cluster_in_every_format(fleet: Project, prefix: str) -> None:
    fleet.set_config("orders", "retention.ms", "60000")
    call = fleet.run("drift", "--all-clusters").needs(1)
    assert rows(call.out)["dev"] == ["dev", "drift", "in", "1", "resource"]
    assert rows(call.out)["prod"] == ["prod", "no", "drift"]
    assert rows(call.out)["gone"][:3] == ["dev", "not", "compared:"], "its environment is known all the same"
    assert call.out.endswith("\n\n3 clusters: drift on 1, no drift on 1, 1 not compared.\n")
    assert "--cluster dev" in call.out, "the commands that settle it name the cluster"

    clusters = fleet.run("drift", "--all-clusters", "--format", "json").needs(1).json["clusters"]
    assert {name: cluster.get("verdict") for name, cluster in clusters.items()} == {
        "gone": None,
        "dev": "drift",
        "prod": "clean",
    }
    assert (clusters["gone"]["environment"], DEAD in clusters["gone"]["error"]["message"]) == ("dev", True)

    fleet.run("drift", "--all-clusters", "--format", "markdown", "--out", "drift.md").needs(1)
    written = (fleet.folder / "drift.md").read_text()
    assert written.startswith("## kafkaform drift: 3 clusters\n\n**3 clusters: drift on 1, no drift on 1, ")
    assert "| `gone` | `dev` | **not compared**: " in written
    assert f"{prefix}orders" in written
    text = (fleet.folder / "kafkaform.yaml").read_text()
    fleet.write("kafkaform.yaml", "".join(line for line in text.splitlines(True) if "gone" not in line))
    fleet.run("drift", "--all-clusters").needs(2)


def test_doctor_of_every_cluster_in_every_format(fleet: Project) -> None:
    call = fleet.run("doctor", "--all-clusters", "--rule", "KF301").needs(1)
    assert {name: row[:2] for name, row in rows(call.out).items()} == {
        "gone": ["dev", "not"],
        "dev": ["dev", "healthy"],
        "prod": ["prod", "healthy"],
    }
    assert call.out.endswith("\n\n3 clusters: 2 healthy, 1 not examined.\n")
    more = ("--rule", "KF301", "--format")
    clusters = fleet.run("doctor", "--all-clusters", *more, "json").needs(1).json["clusters"]
    assert {name: cluster.get("healthy") for name, cluster in clusters.items()} == {
        "gone": None,
        "dev": True,
        "prod": True,
    }
    markdown = fleet.run("doctor", "--all-clusters", *more, "markdown").needs(1).out
    assert "| `prod` | `prod` | healthy |" in markdown
    assert markdown.count("## kafkaform doctor: healthy") == 2
    assert "--all-clusters has no --format prometheus" in (
        fleet.run("doctor", "--all-clusters", "--format", "prometheus").needs(64).err
    )


def test_status_of_every_cluster(fleet: Project, prefix: str) -> None:
    call = fleet.run("status", f"{prefix}*", "--kind", "topic", "--all-clusters").needs(1)
    assert rows(call.out)["prod"] == ["prod", "1", "topic,", "0", "groups"]
    assert rows(call.out)["gone"][:3] == ["dev", "not", "read:"]
    assert call.out.count(f"\n{prefix}orders") == 2
    assert "\n\nkafkaform status · cluster prod · environment prod\n" in call.out
    assert call.out.endswith("\n\n3 clusters: 2 topics, 0 groups, 1 not read.\n")
    shown = fleet.run("status", f"{prefix}*", "--all-clusters", "--format", "json").needs(1).json["clusters"]
    assert {name: [topic["partitions"] for topic in shown[name]["topics"]] for name in ("dev", "prod")} == {
        "dev": [1],
        "prod": [4],
    }
    assert "--watch shows one cluster" in fleet.run("status", "--all-clusters", "--watch").needs(64).err


def test_an_import_of_every_cluster_has_a_folder_for_each(fleet: Project, prefix: str) -> None:
    call = fleet.run("import", "--match", f"{prefix}*", "--all-clusters").needs(1)
    assert rows(call.out)["dev"] == ["dev", "1", "manifest", "in", "1", "file"]
    assert "3 clusters: 2 manifests in 2 files, 1 not imported.\n" in call.out
    assert "\nNext: kafkaform plan clusters/prod --cluster prod\n" in call.out
    assert not (fleet.folder / "clusters" / "gone").exists()
    for cluster in ("dev", "prod"):
        plan = fleet.run(
            "plan", f"clusters/{cluster}", "--cluster", cluster, "--format", "json", "--detailed-exitcode"
        ).needs(0)
        assert plan.json["summary"]["unchanged"] == 1
    again = fleet.run("import", "--match", f"{prefix}*", "--all-clusters").needs(1)
    assert "2 clusters" not in again.out
    assert rows(again.out)["dev"] == ["dev", "0", "manifests", "in", "0", "files"]


@pytest.mark.parametrize("command", ["drift", "doctor", "status", "import"])
def test_no_command_for_every_cluster_takes_one(fleet: Project, command: str) -> None:
    call = fleet.run(command, "--all-clusters", "--cluster", "dev").needs(64)
    assert "--all-clusters uses every cluster of kafkaform.yaml; --cluster chooses one" in call.err

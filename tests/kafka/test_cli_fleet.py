"""Plans of several real clusters at once: side by side, and one that fails fails alone."""

from __future__ import annotations

import json

import pytest

from kafkaform.cli.session import Session
from kafkaform.cluster.transport import connection
from kafkaform.core.errors import Unreachable
from kafkaform.core.plans import Plan
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.plan.plan_header import PlanHeader
from tests.support.cli.fleet import run_all
from tests.support.cli.project import Project, manifest

DEAD = "127.0.0.1:1"
EVENTS = {"partitions": 2, "replicationFactor": 1, "retention": "7d"}


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


def test_stages_apply_a_profile_with_overrides_of_a_cluster(project: Project, kafka3: DevCluster) -> None:
    project.config(
        clusters={
            "one": {"labels": {"stage": "first"}, "client": {"bootstrap.servers": project.servers}},
            "three": {"client": {"bootstrap.servers": kafka3.bootstrap_servers}},
        },
        profiles={"events": {"Topic": EVENTS | {"overrides": {"three": {"replicationFactor": 3}}}}},
        stages=[{"clusters": ["stage=first"]}, ["*"]],
    )
    name = f"{project.prefix}orders"
    for topic in (name, f"{name}.dlq"):
        project.write(
            f"topics/{topic.removeprefix(project.prefix)}.yaml", manifest(topic, {"profile": "events"})
        )
    applied = project.run("apply", "--clusters", "*", "--auto-approve").needs(0)
    assert applied.err.index("stage 1 of 2: cluster one") < applied.err.index("stage 2 of 2: cluster three")
    for cluster, replicas in (("one", 1), ("three", 3)):
        project.run("plan", "--cluster", cluster, "--detailed-exitcode").needs(0)
        live = project.run("get", "topic", name, "--cluster", cluster, "--format", "json").needs(0).json
        assert (live["spec"]["replicationFactor"], live["spec"]["retention"]) == (replicas, "7d")
    # The profile asks for less: the first stage needs consent, and the next one is not begun.
    text = (project.folder / "kafkaform.yaml").read_text()
    project.write("kafkaform.yaml", text.replace("retention: 7d", "retention: 3d"))
    stopped = project.run("apply", "--clusters", "*", "--auto-approve").needs(1)
    assert "profile/events:retention-cut" in stopped.out
    assert "cluster three" not in stopped.err
    consent = ("--allow", "profile/events:retention-cut")
    project.run("apply", "--clusters", "*", "--auto-approve", *consent).needs(0)
    project.run("plan", "--clusters", "*", "--detailed-exitcode").needs(0)


def add_cluster(project: Project, name: str, **client: str) -> None:
    """Another cluster in kafkaform.yaml."""
    text = (project.folder / "kafkaform.yaml").read_text()
    entry = f"  {name}: {{environment: dev, client: {json.dumps(client)}}}\n"
    project.write("kafkaform.yaml", text.replace("clusters:\n", f"clusters:\n{entry}"))


def test_secret_that_a_failure_repeats_is_hidden(project: Project) -> None:
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


def test_manifest_problems_are_reported_for_each_cluster(project: Project) -> None:
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
    call = fleet.run("drift", "--clusters", "*").needs(1)
    assert rows(call.out)["dev"] == ["dev", "drift", "in", "1", "resource"]
    assert rows(call.out)["prod"] == ["prod", "no", "drift"]
    assert rows(call.out)["gone"][:3] == ["dev", "not", "compared:"], "its environment is known all the same"
    assert call.out.endswith("no drift on 1, 1 not compared.\n")
    assert "--cluster dev" in call.out, "the commands that settle it name the cluster"

    clusters = fleet.run("drift", "--clusters", "*", "--format", "json").needs(1).json["clusters"]
    assert {name: cluster.get("verdict") for name, cluster in clusters.items()} == {
        "gone": None,
        "dev": "drift",
        "prod": "clean",
    }
    assert (clusters["gone"]["environment"], DEAD in clusters["gone"]["error"]["message"]) == ("dev", True)

    fleet.run("drift", "--clusters", "*", "--format", "markdown", "--out", "drift.md").needs(1)
    written = (fleet.folder / "drift.md").read_text()
    assert written.startswith("## kafkaform drift: 3 clusters\n")
    assert "| `gone` | `dev` | not compared: " in written
    assert f"{prefix}orders" in written
    text = (fleet.folder / "kafkaform.yaml").read_text()
    fleet.write("kafkaform.yaml", "".join(line for line in text.splitlines(True) if "gone" not in line))
    fleet.run("drift", "--clusters", "*").needs(2)


@pytest.mark.parametrize("command", [("doctor", "--rule", "KF301"), ("status", "--kind", "topic")])
def test_doctor_and_status_of_every_cluster(fleet: Project, command: tuple[str, ...]) -> None:
    call = fleet.run(*command, "--clusters", "*").needs(1)
    assert rows(call.out).keys() == {"gone", "dev", "prod"}
    clusters = fleet.run(*command, "--clusters", "*", "--format", "json").needs(1).json["clusters"]
    assert {name for name, cluster in clusters.items() if "error" in cluster} == {"gone"}


def test_import_of_every_cluster_has_a_folder_for_each(fleet: Project, prefix: str) -> None:
    call = fleet.run("import", "--match", f"{prefix}*", "--clusters", "*").needs(1)
    assert rows(call.out)["dev"] == ["dev", "1", "manifest", "in", "1", "file"]
    assert "2 files, 1 not imported.\n" in call.out
    assert "plan clusters/prod --cluster prod`\n" in call.out
    assert not (fleet.folder / "clusters" / "gone").exists()
    for cluster in ("dev", "prod"):
        plan = fleet.run(
            "plan", f"clusters/{cluster}", "--cluster", cluster, "--format", "json", "--detailed-exitcode"
        ).needs(0)
        assert plan.json["summary"]["unchanged"] == 1
    again = fleet.run("import", "--match", f"{prefix}*", "--clusters", "*").needs(1)
    assert "2 clusters" not in again.out
    assert rows(again.out)["dev"] == ["dev", "0", "manifests", "in", "0", "files"]

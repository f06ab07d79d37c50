"""Several real clusters at once: one that fails fails alone."""

import json

import pytest

from kafkaform.cli.session import Session
from kafkaform.cluster.transport import connection
from kafkaform.core.errors import Unreachable
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project
from tests.support.cli.signing import write_keys
from tests.support.clusters.fixtures import MakeAccount

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


def test_set_of_plans_is_applied_as_signed(project: Project) -> None:
    private, public = write_keys(project.folder, "ci")
    save = ("plan", "--clusters", "*", "--out", "p.json", "--sign-key", private, "--sign-for", "apply")
    apply = ("apply", "p.json", "--clusters", "*", "--verify-key", public, "--auto-approve")
    project.run(*save).needs(0)
    older = (project.folder / "p.prod.json").read_bytes()
    project.topic("payments")
    project.run(*save).needs(0)
    own = (project.folder / "p.dev.json").read_bytes()
    # The older plan has a valid signature of its own; the newer one is edited, or is that of another cluster.
    for content in (older, own.replace(b"payments", b"other"), own):
        file = project.folder / "p.prod.json"
        sound = file.read_bytes()
        file.write_bytes(content)
        assert "p.prod.json: not the plan of prod" in project.run(*apply).needs(1).err
        file.write_bytes(sound)
    unchanged = ("plan", "--clusters", "*", "--detailed-exitcode")
    assert project.live() == {}
    assert "prod" in project.run(*unchanged).needs(2).out
    assert "2 clusters of 2 complete" in project.run(*apply).needs(0).out
    project.run(*unchanged).needs(0)


def add_cluster(project: Project, name: str, **client: str) -> None:
    """Another cluster in kafkaform.yaml."""
    text = (project.folder / "kafkaform.yaml").read_text()
    entry = f"  {name}: {{environment: dev, client: {json.dumps(client)}}}\n"
    project.write("kafkaform.yaml", text.replace("clusters:\n", f"clusters:\n{entry}"))


def test_secret_in_cluster_error_is_hidden(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
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

    def repeat_password(session: Session) -> None:
        password = session.client().get("sasl.password")
        raise Unreachable(f"{session.require_cluster().name}: no answer for {password}")

    monkeypatch.setattr(Session, "cluster", repeat_password)
    for output_format in ("text", "json", "markdown"):
        plan = ("plan", "--clusters", "*", "--format", output_format)
        call = project.run(*plan, env={"SECRET": "hunter2hunter2"}).needs(1)
        assert "hunter2" not in call.both
        assert "secret: no answer for" in call.out.replace("`", "")


@pytest.fixture
def fleet(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The two clusters with what is declared for them, and a third one that does not answer."""
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 1.0)
    for cluster in ("dev", "prod"):
        project.apply("--cluster", cluster).needs(0)
    add_cluster(project, "gone", **{"bootstrap.servers": DEAD})
    return project


def test_each_command_reports_every_cluster(fleet: Project, prefix: str) -> None:
    fleet.set_config("orders", "retention.ms", "60000")
    for command in (("drift",), ("doctor", "--rule", "KF301"), ("status", "--kind", "topic")):
        clusters = fleet.run(*command, "--clusters", "*", "--format", "json").needs(1).json["clusters"]
        assert {name: "error" in cluster for name, cluster in clusters.items()} == {
            "dev": False,
            "gone": True,
            "prod": False,
        }
    _, *lines = fleet.run("drift", "--clusters", "*").needs(1).out.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line and line[0] != " "}
    assert (rows["dev"], rows["prod"]) == (["dev", "drift", "in", "1", "resource"], ["prod", "no", "drift"])
    assert rows["gone"][:3] == ["dev", "not", "compared:"], "its environment is known all the same"
    imported = fleet.run("import", "--match", f"{prefix}*", "--clusters", "*").needs(1).out
    assert "2 files, 1 not imported.\n" in imported
    assert not (fleet.folder / "clusters" / "gone").exists()
    for cluster in ("dev", "prod"):
        where = (f"clusters/{cluster}", "--cluster", cluster)
        fleet.run("plan", *where, "--detailed-exitcode").needs(0)
    assert "2 clusters" not in fleet.run("import", "--match", f"{prefix}*", "--clusters", "*").needs(1).out
    text = (fleet.folder / "kafkaform.yaml").read_text()
    fleet.write("kafkaform.yaml", "".join(line for line in text.splitlines(True) if "gone" not in line))
    fleet.run("drift", "--clusters", "*").needs(2)


def test_refused_login_stops_no_other_cluster(project: Project, account: MakeAccount) -> None:
    add_cluster(project, "locked", **{**account().client, "sasl.password": "wrong"})
    _, *rows = project.run("plan", "--clusters", "*").needs(1).out.splitlines()
    assert rows[0].split()[:4] == ["locked", "dev", "not", "planned:"]
    assert "3 clusters: 2 changes on 2, 1 not planned." in rows

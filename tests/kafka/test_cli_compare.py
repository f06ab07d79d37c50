"""`kafkaform compare` between two real clusters, and between two environments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import CreateTopic
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli_helpers import Project
from tests.support.kafka_fixtures import Account, connect, eventually


@pytest.fixture
def project(project: Project, kafka3: DevCluster) -> Project:
    """Two clusters, each with an environment."""
    project.config(
        environments=["dev", "prod"],
        clusters={
            "dev": {"environment": "dev", "client": {"bootstrap.servers": project.servers}},
            "prod": {"environment": "prod", "client": {"bootstrap.servers": kafka3.bootstrap_servers}},
        },
    )
    return project


def create(servers: str, name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> None:
    """A topic made by hand."""
    ref = ResourceRef("Topic", name)
    given = {key.replace("_", "."): value for key, value in configs.items()}
    with connect(servers) as cluster:
        assert cluster.execute([CreateTopic(ref, partitions, replicas, given)]) == [None]
        eventually(lambda: cluster.observe([ref]).resources, lambda found: ref in found)


def test_what_differs_between_two_live_clusters(
    project: Project, kafka: DevCluster, kafka3: DevCluster, prefix: str
) -> None:
    create(kafka.bootstrap_servers, f"{prefix}orders", 3, retention_ms="604800000", segment_ms="3600000")
    create(kafka3.bootstrap_servers, f"{prefix}orders", 6, segment_ms="3600000")
    create(kafka.bootstrap_servers, f"{prefix}new")
    call = project.run("compare", "dev", "prod", "--match", f"{prefix}*", "--format", "json").needs(2)
    found = {one["name"].removeprefix(prefix): one for one in call.json["differences"]}
    assert {name: (one["in_a"], one["in_b"]) for name, one in found.items()} == {
        "new": (True, False),
        "orders": (True, True),
    }
    fields = {field["path"]: field for field in found["orders"]["fields"]}
    assert [*fields] == ["partitions", "config.retention.ms"]
    assert (fields["partitions"]["a"], fields["partitions"]["b"]) == (3, 6)
    retention = fields["config.retention.ms"]
    assert (retention["a"], retention["b"], retention["same_effect"]) == ("604800000", None, True)
    text = project.run("compare", "dev", "prod", "--match", f"{prefix}*").needs(2).out
    assert "default 7d  same effective value" in text
    assert "Different: 1 only in dev, 1 differs" in text
    markdown = project.run("compare", "dev", "prod", "--match", f"{prefix}*", "--format", "markdown").needs(2)
    assert f"| `Topic/{prefix}orders` | `partitions` | `3` | `6` |" in markdown.out


def test_two_clusters_that_are_alike(
    project: Project, kafka: DevCluster, kafka3: DevCluster, prefix: str
) -> None:
    for servers in (kafka.bootstrap_servers, kafka3.bootstrap_servers):
        create(servers, f"{prefix}orders", 3, retention_ms="1000")
    call = project.run("compare", "dev", "prod", "--match", f"{prefix}*").needs(0)
    assert call.out == "The same: 1 resource.\n"
    other = project.run("compare", "dev", "prod", "--match", f"{prefix}*", "--kind", "group").needs(0)
    assert other.out == "The same: 0 resources.\n"


def test_promotion_shows_what_the_manifests_do_not_explain(project: Project, prefix: str) -> None:
    project.topic("orders", overrides={"prod": {"partitions": 4}})
    project.topic("only-dev", overrides={"prod": {"state": "absent"}})
    for cluster in ("dev", "prod"):
        project.apply("--cluster", cluster).needs(0)
    project.topic("fresh")
    project.apply("--cluster", "dev").needs(0)
    asked = ("compare", "dev", "prod", "--match", f"{prefix}*", "--format", "json")
    found = {d["name"].removeprefix(prefix): d for d in project.run(*asked).needs(2).json["differences"]}
    assert {name: (d["as_declared"], d["remark"]) for name, d in found.items()} == {
        "fresh": (False, "also declared for prod, but not there yet"),
        "only-dev": (True, None),
        "orders": (True, None),
    }
    project.apply("--cluster", "prod").needs(0)
    call = project.run("compare", "dev", "prod", "--match", f"{prefix}*").needs(0)
    assert "Different as declared: 1 only in dev, 1 differs, 2 of these as declared, 1 the same." in call.out
    project.run("compare", "dev", "prod", "--match", f"{prefix}*", "--no-manifests").needs(2)


def test_two_environments_without_any_cluster(project: Project, prefix: str) -> None:
    project.config(environments=["dev", "prod"], clusters={})
    project.topic("orders", overrides={"prod": {"partitions": 4, "retention": "7d"}})
    project.topic("same")
    call = project.run("compare", "dev", "prod", "--environments").needs(2)
    assert [line.split() for line in call.out.splitlines()[1:3]] == [
        [f"Topic/{prefix}orders", "partitions", "1", "4"],
        ["retention.ms", "(unset)", "7d"],
    ]
    assert "Different: 1 differs, 1 the same." in call.out
    project.run("compare", "dev", "prod", "--environments", "--match", f"{prefix}same").needs(0)
    call = project.run("compare", "dev", "prd", "--environments").needs(64)
    assert "there is no environment 'prd'" in call.err


def test_wrong_usage(project: Project) -> None:
    assert "'dev' is compared with itself" in project.run("compare", "dev", "dev").needs(64).err
    call = project.run("compare", "dev", "prd").needs(64)
    assert "there is no cluster 'prd'" in call.err
    assert "did you mean 'prod'?" in call.err


def test_the_cluster_that_does_not_answer_is_named(
    project: Project, kafka_acl: DevCluster, kafka: DevCluster
) -> None:
    strange = {
        "bootstrap.servers": kafka_acl.sasl_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "nobody",
        "sasl.password": "wrong",
    }
    known = {"bootstrap.servers": kafka.bootstrap_servers}
    project.config(clusters={"dev": {"client": known}, "strange": {"client": strange}})
    call = project.run("compare", "dev", "strange", "--no-manifests").needs(1)
    assert call.said.startswith("Error: strange: ")


def test_what_an_account_may_not_see_is_not_said_to_be_missing(
    account: Callable[..., Account], kafka: DevCluster, kafka_acl: DevCluster, prefix: str, tmp_path: Path
) -> None:
    for servers in (kafka.bootstrap_servers, kafka_acl.bootstrap_servers):
        for name in ("seen", "hidden"):
            create(servers, f"{prefix}{name}")
    user = account(f"TOPIC:{prefix}seen:DESCRIBE", f"TOPIC:{prefix}seen:DESCRIBE_CONFIGS")
    project = Project(tmp_path, kafka.bootstrap_servers, prefix)
    client = {"bootstrap.servers": kafka_acl.sasl_bootstrap_servers, **user.properties}
    project.config(
        clusters={
            "open": {"client": {"bootstrap.servers": kafka.bootstrap_servers}},
            "closed": {"client": client},
        }
    )
    asked = ("compare", "open", "closed", "--match", f"{prefix}*", "--kind", "topic", "--format", "json")
    found = project.run(*asked).needs(1).json
    assert [one["name"] for one in found["unknown"]] == [f"{prefix}hidden"]
    assert found["unknown"][0]["reason"].startswith("closed: ")
    assert (found["differences"], found["same"]) == ([], 1)
    assert not found["inherited"]

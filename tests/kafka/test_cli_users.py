"""Users on a broker with a SCRAM listener: set, logged in with, compared, rotated and removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kafkaform.core.model import ResourceRef
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.user.operations import RemoveCredentials, SetCredentials
from tests.support.cli.project import Call, Project, login_project, manifest
from tests.support.clusters.fixtures import Account, connect

ADMIN = ("CLUSTER:kafka-cluster:ALL", "TOPIC:__kafkaform*:ALL", "GROUP:__kafkaform*:ALL")
FIRST, SECOND = "first-s3cr3t-of-checkout", "second-s3cr3t-of-checkout"
KEPT = {"KAFKAFORM_AUDIT": "true", "KAFKAFORM_LOCK": "true"}
PATH = "scram.SCRAM-SHA-512"


@pytest.fixture
def name(kafka_acl: DevCluster, prefix: str) -> Iterator[str]:
    """The name of a user of this test, which is gone afterwards."""
    yield f"{prefix}checkout"
    with connect(kafka_acl.bootstrap_servers) as cluster:
        mine = [ref for ref in cluster.observe((), kinds=["User"]).inventory if ref.name.startswith(prefix)]
        for ref, user in cluster.observe(mine).resources.items():
            assert cluster.execute([RemoveCredentials(ref, dict.fromkeys(user.state))]) == [None]


@pytest.fixture
def project(tmp_path: Path, account: Callable[..., Account], prefix: str) -> Project:
    """A project of an account that may manage users, on the listener with SASL."""
    return login_project(tmp_path, account(*ADMIN), prefix, manifests=["topics"])


def declare(project: Project, name: str, *mechanisms: str, iterations: int = 4096, **more: object) -> None:
    scram = [
        {"mechanism": mechanism, "iterations": iterations, "password": "${env:CHECKOUT}"}
        for mechanism in mechanisms or ("SCRAM-SHA-512",)
    ]
    project.write("topics/user.yaml", manifest(name, {"scram": scram, **more}, kind="User"))


def set_by_hand(kafka: DevCluster, name: str, password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BY_HAND", password)
    operation = SetCredentials(ResourceRef("User", name), {PATH: "iterations=4096,password=${env:BY_HAND}"})
    with connect(kafka.bootstrap_servers) as cluster:
        assert cluster.execute([operation]) == [None]


def can_log_in(kafka: DevCluster, name: str, password: str, mechanism: str = "SCRAM-SHA-512") -> bool:
    """Return whether librdkafka, a client that is not ours, can log in."""
    errors: list[object] = []
    client = AdminClient(
        {
            "bootstrap.servers": kafka.sasl_bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": password,
            "error_cb": errors.append,
        }
    )
    try:
        client.list_topics(timeout=3)
    except KafkaException:
        client.poll(1)
        assert "invalid credentials" in str(errors)
        return False
    return True


def run(project: Project, *arguments: object, password: str | None = None) -> Call:
    return project.run(*arguments, env=KEPT | ({} if password is None else {"CHECKOUT": password}))


def test_a_user_logs_in_and_a_new_password_locks_the_old_one_out(
    kafka_acl: DevCluster, project: Project, name: str
) -> None:
    declare(project, name)
    assert "1 created. Verified" in run(project, "apply", "--auto-approve", password=FIRST).needs(0).out
    assert can_log_in(kafka_acl, name, FIRST)
    run(project, "plan", "--detailed-exitcode", password=FIRST).needs(0)
    declare(project, name, iterations=8192)
    assert "password same" in run(project, "plan", password=FIRST).needs(0).out
    run(project, "apply", "--auto-approve", password=FIRST).needs(0)
    assert can_log_in(kafka_acl, name, FIRST)

    held = run(project, "plan", "--format", "json", password=SECOND).needs(1).json["changes"][0]
    assert (held["status"], held["fields"][0]["hazard"]) == ("needs_consent", "password-change")
    run(project, "apply", "--auto-approve", password=SECOND).needs(1)
    assert can_log_in(kafka_acl, name, FIRST)
    allow = f"User/{name}:password-change"
    run(project, "apply", "--auto-approve", "--allow", allow, password=SECOND).needs(0)
    assert not can_log_in(kafka_acl, name, FIRST)
    assert can_log_in(kafka_acl, name, SECOND)
    run(project, "plan", "--detailed-exitcode", password=SECOND).needs(0)


def test_a_password_that_was_changed_by_hand_is_drift(
    kafka_acl: DevCluster, project: Project, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(project, name)
    run(project, "apply", "--auto-approve", password=FIRST).needs(0)
    run(project, "drift", password=FIRST).needs(0)
    set_by_hand(kafka_acl, name, SECOND, monkeypatch)
    (drifted,) = run(project, "drift", "--format", "json", password=FIRST).needs(2).json["resources"]
    assert [field["path"] for field in drifted["fields"]] == [PATH]
    assert drifted["fields"][0]["live"] == "iterations=4096,password=changed"
    # Without the password, nobody can tell: no drift, no change, and a note that says why.
    for command in (("drift",), ("plan", "--detailed-exitcode")):
        call = run(project, *command).needs(0)
        assert "the environment variable CHECKOUT is not set" in call.words
    assert "spec.scram" in run(project, "drift", "--adopt", password=FIRST).both

"""Users on a broker with a SCRAM listener: set, logged in with, compared, rotated and removed."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.protocol import Cluster
from kafkaform.cluster.schema_registry import open_registry
from kafkaform.cluster.services import Services
from kafkaform.config.client_properties import to_librdkafka, to_transport
from kafkaform.core.model import ResourceRef
from kafkaform.core.values import replace
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.user.operations import RemoveCredentials, SetCredentials
from tests.support.cli.project import Call, Project, login_project, manifest
from tests.support.clusters.fixtures import MakeAccount, connect
from tests.support.kinds import ENVIRONMENT, KIND_CASES, KindCase, KindJourney, prepare_project
from tests.support.schema_registry import run_registry

ADMIN = ("CLUSTER:kafka-cluster:ALL", "TOPIC:__kafkaform*:ALL", "GROUP:__kafkaform*:ALL")
FIRST, SECOND = "first-s3cr3t-of-checkout", "second-s3cr3t-of-checkout"
KEPT = {"KAFKAFORM_AUDIT": "true", "KAFKAFORM_LOCK": "true"}
PATH = "scram.SCRAM-SHA-512"


@pytest.fixture
def name(prefix: str) -> str:
    """The name of a user of this test."""
    return f"{prefix}checkout"


@pytest.fixture
def project(tmp_path: Path, account: MakeAccount, prefix: str) -> Project:
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
    properties: dict[str, Any] = {
        "bootstrap.servers": kafka.sasl_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
        "error_cb": errors.append,
    }
    client = AdminClient(properties)
    for _ in range(30):
        try:
            client.list_topics(timeout=0.3)
        except KafkaException:
            client.poll(0)
            if errors:
                assert "invalid credentials" in str(errors)
                return False
        else:
            return True
    raise AssertionError("no answer")


def run(project: Project, *arguments: object, password: str | None = None) -> Call:
    return project.run(*arguments, env=KEPT | ({} if password is None else {"CHECKOUT": password}))


def test_password_change_invalidates_old_password(kafka_acl: DevCluster, project: Project, name: str) -> None:
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


def test_applying_account_keeps_own_login(
    kafka_acl: DevCluster, tmp_path: Path, prefix: str, account: MakeAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = account(*ADMIN)
    user = admin.properties["sasl.username"]
    set_by_hand(kafka_acl, user, FIRST, monkeypatch)
    scram = {**admin.properties, "sasl.mechanism": "SCRAM-SHA-512", "sasl.password": FIRST}
    project = login_project(tmp_path, replace(admin, properties=scram), prefix, manifests=["topics"])
    declare(project, user)
    run(project, "plan", "--detailed-exitcode", password=FIRST).needs(0)
    command = ("apply", "--auto-approve", "--allow", "destructive")
    assert f"{user} is the account that applies" in run(project, *command, password=SECOND).needs(1).words
    declare(project, user, state="absent")
    run(project, *command, password=SECOND).needs(1)
    assert can_log_in(kafka_acl, user, FIRST)
    with connect(kafka_acl.bootstrap_servers) as cluster:
        assert cluster.execute([RemoveCredentials(ResourceRef("User", user), {PATH: None})]) == [None]


def test_no_output_contains_password_or_derived_secret(
    kafka_acl: DevCluster, project: Project, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in a report, plan file, record, log or error, of a run that succeeds or fails."""
    declare(project, name)
    outputs = []

    def keep(*arguments: object, password: str = FIRST) -> None:
        outputs.append(run(project, "--debug", *arguments, password=password).both)

    def plan_digest(password: str) -> str:
        # A process of its own writes its log, with each request, to stderr.
        call = project.process("--debug", "plan", "--out", "plan.json", env={"CHECKOUT": password})
        outputs.append(call.both)
        saved = (project.folder / "plan.json").read_text()
        outputs.append(saved)
        return str(json.loads(saved)["digest"])

    plan_digest(FIRST)
    keep("apply", "plan.json", "--auto-approve")
    set_by_hand(kafka_acl, name, "what-an-operator-set", monkeypatch)
    # The same plan for two passwords: nothing in it is derived from them.
    assert plan_digest(FIRST) == plan_digest(SECOND)
    keep("apply", "plan.json", "--auto-approve", password=SECOND)
    keep("apply", "--auto-approve", "--allow", f"User/{name}:password-change", password=SECOND)
    # With --debug, the last one has a traceback: there is no such format.
    for format_ in ("text", "markdown", "json", "sarif", "github", "odd"):
        keep("plan", "--format", format_)
    assert "Traceback" in outputs[-1]
    for format_ in ("text", "markdown", "json", "prometheus"):
        keep("drift", "--format", format_)
    keep("history", "--format", "json")
    with connect(kafka_acl.bootstrap_servers) as cluster:
        outputs += cluster.read_audit()
    assert len(outputs) > 15
    assert all("${env:CHECKOUT}" in text for text in outputs[:2])
    assert any("the SCRAM-SHA-512 login of" in text for text in outputs)
    for password in (FIRST, SECOND):
        raw = password.encode()
        derived = [password, raw.hex(), base64.b64encode(raw).decode().rstrip("=")]
        derived += [getattr(hashlib, name_)(raw).hexdigest() for name_ in ("md5", "sha1", "sha256", "sha512")]
        found = [(secret, text) for secret in derived for text in outputs if secret in text]
        assert found == []


RIGHTS = ("CLUSTER:kafka-cluster:ALL", "TOPIC:*:ALL", "GROUP:*:ALL")


@pytest.fixture
def cluster(kafka_acl: DevCluster) -> Iterator[Cluster]:
    """The cluster of a super user."""
    with connect(kafka_acl.bootstrap_servers) as cluster:
        yield cluster


KAFKA_CASES = [case for case in KIND_CASES if case.service == "brokers"]
(SUBJECT,) = (case for case in KIND_CASES if case.service == "schema registry")


@pytest.mark.parametrize("case", KAFKA_CASES, ids=lambda case: case.kind)
def test_kind_journey_on_kafka(
    case: KindCase,
    cluster: Cluster,
    tmp_path: Path,
    account: MakeAccount,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    login = account(*RIGHTS)
    project = prepare_project(Project(tmp_path, login.servers, prefix), client=login.client)
    KindJourney(case, project, cluster).take()


def test_subject_journey_with_registry(
    kafka_acl: DevCluster, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with run_registry(tmp_path / "registry") as url:
        client = {"bootstrap.servers": kafka_acl.bootstrap_servers, "schema.registry.url": url}
        project = prepare_project(Project(tmp_path, kafka_acl.bootstrap_servers, prefix), client=client)
        services = Services({SUBJECT.kind: lambda: open_registry(client)})
        with KafkaCluster(to_librdkafka(client), lambda: to_transport(client), services=services) as cluster:
            KindJourney(SUBJECT, project, cluster).take()

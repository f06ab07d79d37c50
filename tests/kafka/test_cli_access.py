"""Access as code on a broker with an authorizer: planned, applied, found when it drifts, and taken away."""

import random
import subprocess
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import product
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AclOperation

from kafkaform.core.acls import ALL_OPERATIONS, CLUSTER_NAME, Acl
from kafkaform.core.acls import ResourceType as Protected
from kafkaform.core.model import ResourceRef
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.access.operations import GrantAccess, RevokeAccess
from tests.support.applications.processes import run_application
from tests.support.cli.project import Project, manifest
from tests.support.clusters.fixtures import (
    TIMEOUT_S,
    Account,
    MakeAccount,
    admin_client,
    connect,
    eventually,
    start_guarded,
)
from tests.support.clusters.group_clients import read_numbers, write_numbers

REFUSALS = ("GroupAuthorizationException", "TopicAuthorizationException")


@pytest.fixture
def project(kafka_acl: DevCluster, tmp_path: Path, prefix: str) -> Project:
    """A project on the cluster with accounts."""
    made = Project(tmp_path, kafka_acl.bootstrap_servers, prefix)
    authorizer = {"superUsers": ["User:ANONYMOUS"], "allowEveryoneIfNoAclFound": False}
    client = {"bootstrap.servers": kafka_acl.bootstrap_servers}
    made.config(clusters={"acl": {"client": client, "authorizer": authorizer, "lock": False}}, ignore=["*"])
    return made


def declare(project: Project, name: str, **spec: object) -> None:
    project.write(f"topics/{name}.yaml", manifest(name, spec, kind="Access"))


def can_produce(
    account: Account, topic: str, *, idempotent: bool = False, transaction: str = ""
) -> str | None:
    """Return the error of a record, or a transaction, that an account writes; None if it was written."""
    errors: list[KafkaError | None] = []
    options = {"transactional.id": transaction} if transaction else {"enable.idempotence": idempotent}
    producer = Producer({**account.client, **options})
    try:
        if transaction:
            producer.init_transactions(TIMEOUT_S)
            producer.begin_transaction()
        producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
        if transaction:
            producer.commit_transaction(TIMEOUT_S)
    except KafkaException as error:  # the client knows by then that it may not
        return str(error.args[0].name())
    assert producer.flush(TIMEOUT_S) == 0
    return None if errors[0] is None else errors[0].name()


def can_consume(account: Account, topic: str, group: str, protocol: str) -> str | None:
    """Return the error of a group's member that an account is; None if it gets a record."""
    properties = {
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer({**account.client, **properties})
    try:
        consumer.subscribe([topic])
        message = eventually(lambda: consumer.poll(1.0), lambda polled: polled is not None)
        error = message.error() if message is not None else None
        return None if error is None else error.name()
    except KafkaException as error_:
        return str(error_.args[0].name())
    finally:
        consumer.close()


def test_application_has_declared_access_only(project: Project, account: MakeAccount, prefix: str) -> None:
    writer, reader = account(), account()
    project.topic("orders")
    project.topic("secret")
    rights = {"produces": [f"{prefix}orders"], "transactional": [{"prefix": f"{prefix}tx-"}]}
    declare(project, "writer", principals=[writer.principal], **rights)
    consumes = [{"group": f"{prefix}billing", "topics": [{"prefix": f"{prefix}ord"}]}]
    declare(project, "reader", principals=[reader.principal], consumes=consumes)
    project.run("apply", "--auto-approve").needs(0)
    assert project.run("plan", "--detailed-exitcode").needs(0)
    assert can_produce(writer, f"{prefix}orders", idempotent=True) is None
    assert can_produce(writer, f"{prefix}secret") == "TOPIC_AUTHORIZATION_FAILED"
    assert can_produce(writer, f"{prefix}orders", transaction=f"{prefix}tx-1") is None
    refused = can_produce(writer, f"{prefix}orders", transaction=f"{prefix}other")
    assert refused == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    for protocol in ("classic", "consumer"):
        refused = can_consume(reader, f"{prefix}orders", f"{prefix}other", protocol)
        assert refused == "GROUP_AUTHORIZATION_FAILED"
        # A group of one protocol is turned into one of the other when its last member has left.
        assert can_consume(reader, f"{prefix}orders", f"{prefix}billing", protocol) is None
    assert can_produce(reader, f"{prefix}orders") == "TOPIC_AUTHORIZATION_FAILED"
    # A line that leaves the manifest takes the right away, once somebody consents.
    rights["produces"] = [f"{prefix}secret"]
    declare(project, "writer", principals=[writer.principal], **rights)
    held = project.run("plan", "--format", "json").needs(1).json["changes"]
    assert [(change["name"], change["status"]) for change in held] == [(writer.principal, "needs_consent")]
    project.run("apply", "--auto-approve").needs(1)
    assert can_produce(writer, f"{prefix}orders") is None
    consent = f"Access/{writer.principal}:access-removal"
    project.run("apply", "--auto-approve", "--allow", consent).needs(0)
    assert can_produce(writer, f"{prefix}orders") == "TOPIC_AUTHORIZATION_FAILED"
    assert can_produce(writer, f"{prefix}secret") is None


def test_closed_predecessor_refuses_producers_until_it_is_deleted(
    project: Project, account: MakeAccount, prefix: str
) -> None:
    writer, reader = account(), account()
    denial = Acl(Protected.TOPIC, f"{prefix}old", False, "User:*", "*", "Write", is_allowed=False)

    def list_denials() -> list[Acl]:
        with connect(project.servers) as cluster:
            return [acl for acl in cluster.access().acls if acl.name == denial.name and not acl.is_allowed]

    def declare_group(topic: str) -> str:
        return project.group("g", topics=[topic], offsets={"initial": "earliest"})

    old = project.topic("old", partitions=2)
    group = declare_group(old)
    durations: dict[str, Any] = {"quietPeriod": "1s", "recoveryWindow": "1s"}
    topics = [old, project.topic("new", succeeds=old, **durations)]
    declare(project, "writer", principals=[writer.principal], produces=topics)
    consumes = [{"group": group, "topics": topics}]
    declare(project, "reader", principals=[reader.principal], consumes=consumes)
    project.run("apply", "--auto-approve").needs(0)
    write_numbers(project.servers, old, range(20))
    new = project.topic("new", succeeds=old, closeWrites=True, **durations)
    declare_group(new)
    held = project.run("plan").needs(1)
    assert f"which {writer.principal} may do now; super users keep it" in held.words
    project.run("apply", "--auto-approve", "--allow", "Access/User:*:access-removal").needs(0)
    assert list_denials() == [denial]
    eventually(lambda: can_produce(writer, old), lambda error: error == "TOPIC_AUTHORIZATION_FAILED")
    assert can_produce(writer, new) is None
    (succession,) = project.run("succession", "--format", "json").json["successions"]
    assert f"{old} is closed to producers, except for super users" in succession["notes"]
    assert succession["writers"] == []
    read_numbers(reader.servers, group, old, 20, **reader.properties)
    stages = (("apply", "--auto-approve"), ("succession",))  # an apply in the quiet period moves no group
    eventually(lambda: [project.run(*stage).code for stage in stages], lambda codes: codes == [0, 0])
    project.topic("old", state="absent")
    project.run("plan").needs(1)
    assert list_denials() == [denial]
    consent = ("--allow", f"Topic/{old}:delete")
    eventually(lambda: project.run("apply", "--auto-approve", *consent).code, lambda code: code == 0)
    assert list_denials() == []
    project.run("plan", "--detailed-exitcode").needs(0)


def test_every_acl_that_brokers_keep_is_read_and_removed(kafka_acl: DevCluster, prefix: str) -> None:
    """Every type of resource with every operation, odd hosts, and principals without a name or a type."""
    principals = [f"User:{prefix}{name}" for name in ("every", "odd", "lost")] + ["User:", ":"]
    grid = {
        Acl(kind, CLUSTER_NAME if kind is Protected.CLUSTER else f"{prefix}x", *arguments)
        for kind in Protected
        for arguments in product((True, False), [principals[0]], ["*"], ALL_OPERATIONS, (True, False))
    }
    odd = {
        Acl(Protected.TOPIC, f"{prefix}x", False, principal, host, "Read", True)
        for principal, hosts in zip(
            principals, ([], ["", " ", '""', "from", "10.0.0.0/8"], [""], ["*"], ["*"]), strict=True
        )
        for host in hosts
    }
    with connect(kafka_acl.bootstrap_servers) as cluster:

        def read_acls() -> set[Acl]:
            return {acl for acl in cluster.access().acls if acl.principal in principals}

        def revoke(acls: Iterable[Acl]) -> None:
            operations = [
                RevokeAccess(
                    ResourceRef("Access", name), deleted=tuple(a for a in acls if a.principal == name)
                )
                for name in principals
            ]
            assert not any(cluster.execute(operations))

        given = [
            GrantAccess(ResourceRef("Access", name), tuple(a for a in grid | odd if a.principal == name))
            for name in principals
        ]
        try:
            assert not any(cluster.execute(given)), "a broker keeps all of them"
            eventually(read_acls, lambda acls: acls == grid | odd)
        finally:
            revoke(grid | odd)
            eventually(read_acls, lambda acls: not acls)


def test_missing_rights_are_named_with_remedy(account: MakeAccount, tmp_path: Path, prefix: str) -> None:
    blind, reader = account(), account("CLUSTER:kafka-cluster:DESCRIBE")
    for each, missing, created in ((blind, "Describe", 0), (reader, "Alter", 1)):
        project = Project(tmp_path / missing, each.servers, prefix)
        authorizer: dict[str, object] = {"allowEveryoneIfNoAclFound": False}
        project.config(clusters={"acl": {"client": each.client, "authorizer": authorizer}})
        declare(project, "a", principals=["User:a"], produces=[f"{prefix}a"])
        summary = project.run("plan", "--format", "json").needs(1 - created).json["summary"]
        assert summary["create"] == created, "what an account may not see is not planned to be created"
        words = project.run("apply", "--auto-approve").needs(1).words
        assert f"it lacks {missing} on the cluster" in words
        assert f"--operation {missing} --cluster" in words
    # Brokers do not show super.users: what kafkaform.yaml says of it is outdated where they refuse something.
    project = Project(tmp_path / "Describe", blind.servers, prefix)
    authorizer["superUsers"] = [blind.principal]
    project.config(clusters={"acl": {"client": blind.client, "authorizer": authorizer}})
    words = project.run("plan").needs(1).words
    assert f"{blind.principal} is a super user in kafkaform.yaml, but not for the brokers" in words


@contextmanager
def producing(account: Account, topic: str) -> Iterator[list[str]]:
    """Write records as an account meanwhile; gives the errors of those that were refused."""
    errors: list[str] = []
    ended = Event()

    def report(error: KafkaError | None, _: object) -> None:
        if error is not None:
            errors.append(error.name())

    def write() -> None:
        producer = Producer(account.client)
        while not ended.wait(0.005):
            producer.produce(topic, b"x", on_delivery=report)
            producer.poll(0)
        assert producer.flush(TIMEOUT_S) == 0

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            yield errors
        finally:
            ended.set()
            writing.result(2 * TIMEOUT_S)


@pytest.mark.nightly("forty applies are killed, each at another moment")
def test_killed_access_apply_stops_no_producer(project: Project, account: MakeAccount, prefix: str) -> None:
    """Every apply grants one topic, takes away another, and lifts one denial for the next.

    Only t0 exists: a missing topic with a similar name would be a finding if more than its number differed.
    """
    application = account()
    principal = application.principal
    arguments = ("apply", "--auto-approve", "--allow", "destructive")

    def move_on(number: int) -> None:
        denied = {
            "resource": "topic",
            "name": f"{prefix}t{100 + number}",
            "operations": ["All"],
            "permission": "deny",
        }
        produces = [f"{prefix}t0", f"{prefix}t{200 + number}"]
        declare(project, "writer", principals=[principal], produces=produces, acls=[denied])

    def apply() -> float:
        begun = time.monotonic()
        project.process(*arguments).needs(0)
        project.run("plan", "--detailed-exitcode").needs(0)
        return time.monotonic() - begun

    project.topic("t0")
    move_on(0)
    taken = apply()
    killed, chance = 0, random.Random(1)
    with producing(application, f"{prefix}t0") as errors:
        for number in range(1, 41):
            move_on(number)
            with project.start(*arguments) as process:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(chance.uniform(0.1, 1.0) * taken)
                killed += process.poll() is None
                process.kill()
            topics = (f"{prefix}t0", f"{prefix}t{199 + number}", f"{prefix}t{200 + number}")
            kept, old, new = (not project.run("can", principal, "write", topic).code for topic in topics)
            assert kept
            assert old or new, "it can write to neither the old topic nor the new one"
            taken = apply()
            assert project.run("can", principal, "write", f"{prefix}t{200 + number}").needs(0)
            assert project.run("can", principal, "write", f"{prefix}t{199 + number}").needs(2)
    assert errors == []
    assert killed >= 20, "too few were killed to show anything"


def test_first_acl_is_held_back_until_consent(tmp_path: Path) -> None:
    properties = {"allow.everyone.if.no.acl.found": "true", "super.users": "User:ANONYMOUS"}
    users = ["ui", "stranger"]
    plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.password": "b"}
    with start_guarded(1, heap_mb=256, sasl_users=dict.fromkeys(users, "b"), properties=properties) as kafka:

        def count_writable() -> list[int]:
            return [len(list_writable(kafka, {**plain, "sasl.username": user})) for user in users]

        project = Project(tmp_path, kafka.bootstrap_servers, "")
        authorizer = {"superUsers": ["User:ANONYMOUS"], "allowEveryoneIfNoAclFound": True}
        client = {"bootstrap.servers": kafka.bootstrap_servers}
        project.config(clusters={"open": {"client": client, "authorizer": authorizer}})
        for name in ("orders.v1", "orders.v2", "payments.v1"):
            project.topic(name)
        project.run("apply", "--auto-approve").needs(0)
        declare(project, "ui", principals=["User:ui"], produces=[{"prefix": "orders."}])
        (change,) = project.run("plan", "--format", "json").needs(1).json["changes"]
        assert (change["status"], change["hazard"]) == ("needs_consent", "closes-access")
        assert "it closes orders.v1, orders.v2" in change["risk_reason"]
        before = count_writable()
        project.run("apply", "--auto-approve", "--allow", "Access/User:ui:closes-access").needs(0)
        after = eventually(count_writable, lambda counts: counts[1] < before[1])
        assert after == [before[0], before[1] - 2]


def list_writable(kafka: DevCluster, properties: dict[str, str]) -> list[str]:
    """List the topics to which an account may write, by the operations that the broker names for each."""
    admin = admin_client(kafka.sasl_bootstrap_servers, **properties)
    names = [*admin.list_topics(timeout=TIMEOUT_S).topics]
    described = admin.describe_topics(
        TopicCollection(names), include_authorized_operations=True, request_timeout=TIMEOUT_S
    )
    operations = {name: future.result(TIMEOUT_S).authorized_operations for name, future in described.items()}
    return [name for name, allowed in operations.items() if AclOperation.WRITE in (allowed or ())]


def application(
    account: Account, folder: Path, *topics: str, **properties: str
) -> AbstractContextManager[subprocess.Popen[str]]:
    """An application of an account: see Application.java."""
    login = account.write_java_properties(folder)
    return run_application(login, *topics, bootstrap_servers=account.servers, **properties)


def list_refusals(account: Account, folder: Path, *topics: str, **properties: str) -> set[str]:
    """The refusals with which an application ends by itself."""
    with application(account, folder, *topics, **properties) as process:
        assert process.stdout is not None
        return {line.strip() for line in process.stdout} & {*REFUSALS}


def produce(servers: str, topic: str, values: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0


def read_counts(servers: str, topic: str, expected: dict[str, str]) -> None:
    """Wait until the committed records of a topic say this."""
    properties = {"group.id": f"{topic}.check", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": servers, **properties})
    counts: dict[str, str] = {}

    def poll() -> dict[str, str]:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            counts[(message.key() or b"").decode()] = (message.value() or b"").decode()
        return counts

    consumer.subscribe([topic])
    eventually(poll, lambda read: read == expected)
    consumer.close()


@pytest.mark.nightly("a Java program is compiled and run twice")
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_streams_application_has_declared_access_only(
    project: Project, account: MakeAccount, prefix: str, protocol: str
) -> None:
    enricher = account()
    for name in ("orders", "enriched", "secret"):
        project.topic(name)
    streams = {
        "applicationId": f"{prefix}enricher",
        "reads": [f"{prefix}orders"],
        "writes": [f"{prefix}enriched"],
    }
    declare(project, "enricher", principals=[enricher.principal], streams=streams)
    project.run("apply", "--auto-approve").needs(0)
    produce(project.servers, f"{prefix}orders", "abacab")
    properties = {
        "application_id": f"{prefix}enricher",
        "group_protocol": protocol,
        "processing_guarantee": "exactly_once_v2",
        "auto_offset_reset": "earliest",
        "state_dir": f"{project.folder}/state",
    }
    with application(
        enricher, project.folder, f"{prefix}orders", f"{prefix}enriched", **properties
    ) as process:
        read_counts(project.servers, f"{prefix}enriched", {"a": "3", "b": "2", "c": "1"})
        assert process.poll() is None
    second = {**properties, "application_id": f"{prefix}other"}
    refusals = list_refusals(enricher, project.folder, f"{prefix}orders", f"{prefix}enriched", **second)
    assert refusals, "it was not refused another group"
    assert can_produce(enricher, f"{prefix}secret") == "TOPIC_AUTHORIZATION_FAILED"
    assert project.run("plan", "--detailed-exitcode").needs(0)


@pytest.mark.nightly("a Java program is compiled and run twice")
def test_share_member_has_declared_access_only(project: Project, account: MakeAccount, prefix: str) -> None:
    auditor = account()
    project.topic("orders")
    earliest = {"share.auto.offset.reset": "earliest"}
    group = project.group("audit", protocol="share", topics=[f"{prefix}orders"], config=earliest)
    declare(project, "audit", principals=[auditor.principal], shareGroups=[{"group": group}])
    project.run("apply", "--auto-approve").needs(0)
    produce(project.servers, f"{prefix}orders", "abc")
    with application(auditor, project.folder, f"{prefix}orders", group_id=group) as process:
        assert process.stdout is not None
        assert {process.stdout.readline().strip() for _ in range(3)} == {*"abc"}
    refusals = list_refusals(auditor, project.folder, f"{prefix}orders", group_id=f"{prefix}other")
    assert refusals == {"GroupAuthorizationException"}
    assert can_produce(auditor, f"{prefix}orders") == "TOPIC_AUTHORIZATION_FAILED"


def test_transactional_client_has_declared_access(
    project: Project, account: MakeAccount, prefix: str
) -> None:
    copier = account()
    for name in ("orders", "copies"):
        project.topic(name)
    consumes = [{"group": f"{prefix}copier", "topics": [f"{prefix}orders"]}]
    declare(
        project,
        "copier",
        principals=[copier.principal],
        produces=[f"{prefix}copies"],
        consumes=consumes,
        transactional=[{"prefix": f"{prefix}copier-"}],
    )
    project.run("apply", "--auto-approve").needs(0)
    produce(project.servers, f"{prefix}orders", "a")
    group = {"group.id": f"{prefix}copier", "auto.offset.reset": "earliest"}
    consumer = Consumer({**copier.client, **group, "enable.auto.commit": False})
    consumer.subscribe([f"{prefix}orders"])
    message = eventually(lambda: consumer.poll(1.0), lambda polled: polled is not None)
    assert message is not None
    producer = Producer({**copier.client, "transactional.id": f"{prefix}copier-1"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(f"{prefix}copies", message.value(), key="a")
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), TIMEOUT_S
    )
    producer.commit_transaction(TIMEOUT_S)
    consumer.close()
    read_counts(project.servers, f"{prefix}copies", {"a": "a"})
    refused = can_produce(copier, f"{prefix}copies", transaction=f"{prefix}other")
    assert refused == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"

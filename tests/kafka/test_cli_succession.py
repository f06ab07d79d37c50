"""A succession on a real Kafka: fewer partitions, every record read once, and in order per key."""

import re
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Producer

from kafkaform.cluster.kafka import writer
from kafkaform.cluster.wire.group_messages import OFFSET_DELETE
from kafkaform.cluster.wire.messages import DELETE_TOPICS
from kafkaform.core.values import replace
from kafkaform.resources import group_ref, topic_ref
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets
from kafkaform.resources.topic.operations import DeleteOffsets
from tests.support.applications.processes import run_application
from tests.support.cli.kills import AUDITED, Kill, run_killed_apply
from tests.support.cli.project import Call, Project
from tests.support.clusters.fixtures import TIMEOUT_S, bring_back, connect, eventually, start_guarded
from tests.support.clusters.group_clients import (
    KEYS,
    check_order,
    commit,
    produce,
    read_numbers,
    running,
    write_numbers,
)
from tests.support.clusters.topics import delete_topic, make_topic

QUIET = "2s"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_succession_keeps_key_order_for_consumers(project: Project, protocol: str) -> None:
    old = project.topic("old", partitions=6)
    group = project.group("g", topics=[old], protocol=protocol, offsets={"initial": "earliest"})
    assert project.apply("topics").code == 0
    write_numbers(project.servers, old, range(200))
    numbers = read_numbers(project.servers, group, old, 80, protocol)
    new = project.topic("new", partitions=2, succeeds=old, quietPeriod=QUIET)
    project.group("g", topics=[new], protocol=protocol, offsets={"initial": "earliest"})
    assert project.apply("topics").code == 0
    # Producers have moved; the group has not read all of the predecessor, and nobody reads it.
    write_numbers(project.servers, new, range(200, 300))
    assert [group["stage"] for group in follow(project, 1)] == ["stopped"]
    numbers += read_numbers(project.servers, group, old, 120, protocol)
    eventually(lambda: follow(project), lambda groups: [group["stage"] for group in groups] == ["ready"])
    assert project.apply("topics").code == 0
    # auto.offset.reset is an error here, so that it starts at the committed offset.
    numbers += read_numbers(project.servers, group, new, 100, protocol)
    check_order(numbers, range(300))
    assert [group["stage"] for group in follow(project, 0)] == ["moved"]
    # A producer that stayed behind is seen.
    write_numbers(project.servers, old, range(300, 301))
    assert [group["stage"] for group in follow(project, 1)] == ["moved early"]
    read_numbers(project.servers, group, old, 1, protocol)
    project.topic("old", state="absent")
    consent = ("--allow", f"Topic/{old}:delete")
    refused = project.run("plan", "topics", *consent)
    assert (refused.code, "KF120" in refused.out) == (1, True)
    project.topic("new", partitions=2, succeeds=old, quietPeriod=QUIET, recoveryWindow=QUIET)
    eventually(lambda: project.apply("topics", *consent).code, lambda code: code == 0)
    assert follow(project, 0) == []


@contextmanager
def running_producer(servers: str, topic: str) -> Iterator[tuple[list[str], Counter[str]]]:
    """A producer that writes numbers all the time, to the last of a list of topics; and how many to each."""
    topics, written, stop = [topic], Counter[str](), Event()

    def write() -> None:
        while not stop.wait(0.01):
            target = topics[-1]
            write_numbers(servers, target, [written.total()])
            written[target] += 1

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            yield topics, written
        finally:
            stop.set()
            writing.result()


def test_succession_with_running_producer_loses_no_record(project: Project) -> None:
    servers, old = project.servers, project.topic("old", partitions=6)
    group = project.group("g", topics=[old], offsets={"initial": "earliest"})
    project.apply("topics").needs(0)
    with running_producer(servers, old) as (topics, written):
        numbers = read_numbers(servers, group, old, 40)
        new = project.topic("new", partitions=2, succeeds=old, quietPeriod=QUIET)
        project.group("g", topics=[new], offsets={"initial": "earliest"})
        project.apply("topics").needs(0)
        assert [each["stage"] for each in follow(project, 1)] == ["stopped"]
        topics.append(new)
        eventually(lambda: written[new], lambda count: count > 0)
        numbers += read_numbers(servers, group, old, written[old] - len(numbers))
        eventually(lambda: follow(project), lambda groups: [each["stage"] for each in groups] == ["ready"])
        project.apply("topics").needs(0)
        numbers += read_numbers(servers, group, new, written[new])
    numbers += read_numbers(servers, group, new, written.total() - len(numbers))
    check_order(numbers, range(written.total()))
    assert [each["stage"] for each in follow(project, 0)] == ["moved"]


def test_closing_is_refused_without_authorizer(project: Project) -> None:
    old = project.topic("old")
    project.apply("topics").needs(0)
    project.topic("new", succeeds=old, closeWrites=True)
    (refused,) = project.run("plan", "topics", "--format", "json").needs(1).json["changes"][1:]
    assert (refused["name"], refused["status"]) == ("User:*", "refused")
    assert "authorizer.class.name is not set" in refused["reason"]


def write_in_transaction(producer: Producer, topic: str, numbers: Sequence[int]) -> None:
    """Write numbered records in a transaction that stays open."""
    producer.begin_transaction()
    for number in numbers:
        producer.produce(topic, str(number), str(number % KEYS))
    assert producer.flush(TIMEOUT_S) == 0


def test_open_transaction_holds_group(project: Project) -> None:
    old = project.topic("old", partitions=3)
    group = project.group("g", topics=[old], offsets={"initial": "earliest"})
    project.apply("topics").needs(0)
    producer = Producer({"bootstrap.servers": project.servers, "transactional.id": f"{project.prefix}writer"})
    producer.init_transactions(TIMEOUT_S)
    for start in (0, 20):
        write_in_transaction(producer, old, range(start, start + 20))
        producer.commit_transaction(TIMEOUT_S)
    write_in_transaction(producer, old, range(40, 60))
    numbers = read_numbers(project.servers, group, old, 40)
    new = project.topic("new", partitions=2, succeeds=old, quietPeriod=QUIET)
    project.group("g", topics=[new], offsets={"initial": "earliest"})
    project.apply("topics").needs(0)
    held = project.run("plan", "topics").needs(0)
    (why,) = re.findall(rf"the group does not start on {new} yet: (.*?) hint:", held.words)
    assert "transaction" in why
    producer.commit_transaction(TIMEOUT_S)
    write_in_transaction(producer, new, range(60, 80))
    producer.commit_transaction(TIMEOUT_S)
    numbers += read_numbers(project.servers, group, old, 20)
    # The offset after the last record is before the marker that ends the transaction: a member passes it.
    assert [each["stage"] for each in follow(project, 1)] == ["stopped"]
    with running(project.servers, group, [old], enable_auto_commit=True, auto_commit_interval_ms=100):
        eventually(lambda: follow(project), lambda groups: [each["stage"] for each in groups] == ["ready"])
    project.apply("topics").needs(0)
    numbers += read_numbers(project.servers, group, new, 20)
    check_order(numbers, range(80))
    assert [each["stage"] for each in follow(project, 0)] == ["moved"]


def test_successor_is_succeeded(project: Project) -> None:
    """The tombstone of the first topic is applied with the second succession."""
    past_ms = time.time_ns() // 1_000_000 - 3_600_000
    servers, numbers = project.servers, list[int]()
    group, v1 = f"{project.prefix}g", project.topic("v1", partitions=4)

    def declare(topic: str, **spec: Any) -> str:
        name = project.topic(topic, **spec)
        project.group("g", topics=[name], offsets={"initial": "earliest"})
        return name

    declare("v1", partitions=4)
    project.apply("topics").needs(0)
    write_numbers(servers, v1, range(20), at_ms=past_ms)
    v2 = declare("v2", partitions=2, succeeds=v1, recoveryWindow="10m")
    project.apply("topics").needs(0)
    numbers += read_numbers(servers, group, v1, 20)
    project.apply("topics").needs(0)
    write_numbers(servers, v2, range(20, 40), at_ms=past_ms)
    project.topic("v1", state="absent")
    v3 = declare("v3", partitions=1, succeeds=v2)
    consent = ("--allow", f"Topic/{v1}:delete")
    project.apply("topics", *consent).needs(0)
    assert project.live().keys() == {"v2", "v3"}
    numbers += read_numbers(servers, group, v2, 20)
    project.apply("topics").needs(0)
    write_numbers(servers, v3, range(40, 60))
    numbers += read_numbers(servers, group, v3, 20)
    check_order(numbers, range(60))
    project.run("plan", "topics", "--detailed-exitcode").needs(0)


@pytest.mark.nightly("a Java program is compiled and run twice")
def test_streams_application_moves(project: Project) -> None:
    """It stays a member of its group for a session after it was stopped."""
    servers, out = project.servers, project.topic("out")
    old = project.topic("old", partitions=6)
    group = project.group("g", topics=[old], offsets={"initial": "earliest"})
    project.apply("topics").needs(0)
    reader = f"{project.prefix}reader"
    commit(servers, reader, {(out, 0): 0})
    properties = {
        "bootstrap_servers": servers,
        "application_id": group,
        "auto_offset_reset": "none",
        "commit_interval_ms": "100",
        "session_timeout_ms": "6000",
        "state_dir": f"{project.folder}/state",
    }
    file = project.write("client.properties", "")
    write_numbers(servers, old, range(100))
    with run_application(file, old, out, "copy", **properties) as application:
        numbers = read_numbers(servers, reader, out, 100)
        new = project.topic("new", partitions=2, succeeds=old, quietPeriod=QUIET)
        project.group("g", topics=[new], offsets={"initial": "earliest"})
        project.apply("topics").needs(0)
        write_numbers(servers, new, range(100, 150))
        eventually(lambda: follow(project), lambda groups: [each["stage"] for each in groups] == ["ready"])
        project.apply("topics").needs(0)
        assert [each["stage"] for each in follow(project, 2)] == ["ready"]
        application.communicate(timeout=TIMEOUT_S)
    with connect(servers) as cluster:
        eventually(lambda: cluster.groups([group]).groups[group].members, lambda members: not members)
    project.apply("topics").needs(0)
    assert [each["stage"] for each in follow(project, 0)] == ["moved"]
    with run_application(file, new, out, "copy", **properties):
        numbers += read_numbers(servers, reader, out, 50)
    check_order(numbers, range(150))


def follow(project: Project, code: int | None = None) -> list[dict[str, Any]]:
    """Return the groups of the project's succession; its exit code is this one."""
    project.config()
    call = project.run("succession", "--format", "json")
    assert code in (None, call.code), call.out + call.err
    (succession,) = call.json["successions"]
    return list(succession["groups"])


def run_apply(project: Project, *arguments: object) -> Call:
    return project.run("apply", *arguments, "--auto-approve", "--no-lock", env=AUDITED)


def read_id(project: Project, name: str) -> str:
    with connect(project.servers) as cluster:
        return eventually(lambda: cluster.topic_ids([name]), bool)[name]


def read_offsets(project: Project, group: str) -> dict[tuple[str, int], int]:
    with connect(project.servers) as cluster:
        return cluster.groups([group]).groups[group].committed


def write_topic(project: Project, **spec: object) -> str:
    """Write the manifest of a topic, with consent if it is to be recreated."""
    consent = {"annotations": {"kafkaform/allow": f"recreate of {spec.get('recreate')}: TICKET-1"}}
    return project.topic("orders", metadata=consent if "recreate" in spec else None, **spec)


@pytest.fixture
def orders(project: Project) -> str:
    """A topic of three partitions with records, all of which a group has read."""
    name = write_topic(project, partitions=3)
    project.group("g", protocol="consumer", topics=[name], offsets={"initial": "latest"})
    project.topic("quiet")
    run_apply(project).needs(0)
    return name


@pytest.mark.parametrize("step", ["DeleteTopic", "CreateTopic", "CommitInitialOffsets"])
def test_killed_recreation_is_continued(project: Project, orders: str, step: str) -> None:
    uid = read_id(project, orders)
    write_topic(project, partitions=1, recreate=uid)
    run_killed_apply(project, Kill(step), "topics").needs(-signal.SIGKILL)
    assert ("orders" in project.live()) is (step != "CreateTopic")
    run_apply(project, "topics").needs(0)
    assert project.live()["orders"]["partitions"] == 1
    assert read_id(project, orders) != uid
    assert read_offsets(project, f"{project.prefix}g") == {(orders, 0): 0}
    assert "No changes" in project.run("plan").needs(0).out


def test_recreation_is_refused_where_offsets_cannot_be_deleted(
    project: Project, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = replace(OFFSET_DELETE, key=10_000)  # as services that do not have the request
    monkeypatch.setattr(writer, "_ONLY_OFFERED", {DeleteOffsets: missing})
    uid = read_id(project, orders)
    write_topic(project, partitions=1, recreate=uid)
    assert "does not support OffsetDelete" in project.run("plan").needs(1).words
    run_apply(project).needs(1)
    assert read_id(project, orders) == uid


def test_topic_is_recreated_where_topics_are_deleted_by_name_only(
    project: Project, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "DELETE_TOPICS", replace(DELETE_TOPICS, key=10_000))
    uid = read_id(project, orders)
    write_topic(project, partitions=1, recreate=uid)
    run_apply(project).needs(0)
    assert project.live()["orders"]["partitions"] == 1
    assert read_id(project, orders) != uid
    assert read_offsets(project, f"{project.prefix}g") == {(orders, 0): 0}


@pytest.mark.nightly("a cluster of its own, whose groups have one coordinator each")
def test_offsets_survive_topic_deletion_while_coordinator_is_down() -> None:
    """The reason why a recreation deletes them first: the next topic of the name would be read from there."""
    properties = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "3"}
    with (
        start_guarded(3, heap_mb=256, properties=properties) as kafka,
        connect(kafka.bootstrap_servers) as cluster,
    ):
        name = make_topic(cluster, "orders", replicas=3)
        produce(kafka.bootstrap_servers, name, {0: 9})
        groups = [f"g{number}" for number in range(6)]
        commits = [CommitInitialOffsets(group_ref(group), {name: "latest"}) for group in groups]
        assert {*cluster.execute(commits)} == {None}
        coordinators = {group: cluster.groups([group]).groups[group].coordinator for group in groups}
        down = next(node for node in coordinators.values() if node not in {None, 1})
        assert down is not None
        kafka.stop_node(down)
        delete_topic(kafka.bootstrap_servers, name)
        bring_back(kafka, down)
        make_topic(cluster, name, replicas=3)
        affected = [group for group, node in coordinators.items() if node == down]
        kept = eventually(lambda: cluster.groups(affected).groups, lambda found: len(found) == len(affected))
        assert [found.committed for found in kept.values()] == [{(name, 0): 9}] * len(affected)
        # What a recreation does before it deletes the topic.
        assert cluster.execute([DeleteOffsets(topic_ref(name))]) == [None]
        assert not any(found.committed for found in cluster.groups(affected).groups.values())

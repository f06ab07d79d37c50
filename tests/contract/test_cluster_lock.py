"""The lock of a cluster: one holder at a time, and no request without a proof that it is still held."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer

from kafkaform import executor
from kafkaform.cluster import lock_membership
from kafkaform.cluster.kafka import KafkaCluster
from kafkaform.cluster.lock_membership import INSTANCE_ID
from kafkaform.cluster.memory import MemoryCluster
from kafkaform.cluster.protocol import Cluster
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.errors import ClusterError, LockHeld, LockLost, PermissionDenied, RequestRejected
from kafkaform.lock import NAME, Guard, Holder, lost
from kafkaform.model import ResourceRef
from kafkaform.operations import (
    AddPartitions,
    AlterConfigs,
    CommitInitialOffsets,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    Operation,
    ResetOffsets,
)
from kafkaform.outcome import Result
from tests.support.kafka_fixtures import TIMEOUT_S, Account, admin_client, connect, eventually, guarded
from tests.support.lock_process import LockProcess, remove_holder
from tests.support.scenes import Watched, declared, plan_for, topic

ALICE = Holder("alice@ci-3", "apply of plan 12ab", 4711)
BOB = Holder("bob@laptop", "apply of manifests")
CONFIG = "consumer.session.timeout.ms"


@pytest.fixture(params=["memory", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    if request.param == "kafka":
        return cast("KafkaCluster", request.getfixturevalue("real_cluster"))
    return MemoryCluster()


def hold(
    cluster: Cluster, holder: Holder, timeout_s: float = 0.0, said: list[str] | None = None
) -> AbstractContextManager[Guard]:
    return cluster.lock(holder, timeout_s=timeout_s, tell=([] if said is None else said).append)


def group(name: str) -> ResourceRef:
    return ResourceRef("ConsumerGroup", name)


class Budget:
    """A guard that lets so many requests through."""

    def __init__(self, requests: int) -> None:
        self.left = requests

    def __call__(self) -> None:
        if not self.left:
            raise lost("a test took it")
        self.left -= 1


# --- holding it ------------------------------------------------------------------------------------


def test_a_holder_can_prove_it_as_often_as_it_likes(cluster: Cluster) -> None:
    with hold(cluster, ALICE) as guard:
        for _ in range(20):
            guard()


def test_a_second_one_is_told_who_holds_it(cluster: Cluster) -> None:
    with hold(cluster, ALICE) as guard:
        with pytest.raises(LockHeld) as caught, hold(cluster, BOB):
            raise AssertionError
        assert "held by alice@ci-3 (apply of plan 12ab, process 4711) since " in caught.value.message
        guard()


def test_each_step_is_a_line_of_the_log(real_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kafkaform.cluster")
    with hold(real_cluster, ALICE) as guard:
        with pytest.raises(LockHeld), hold(real_cluster, BOB):
            raise AssertionError
        guard()
    steps = [line.partition(" after ")[0] for line in caplog.messages if line.startswith("lock: ")]
    assert steps == ["lock: acquired", "lock: held by another", "lock: left", "lock: proven", "lock: left"]


def test_who_waits_is_told_who_holds_it_and_gets_it(cluster: Cluster) -> None:
    said: list[str] = []
    first = hold(cluster, ALICE)
    first.__enter__()
    timer = threading.Timer(1.5, first.__exit__, (None, None, None))
    timer.start()
    with hold(cluster, BOB, TIMEOUT_S, said) as guard:
        guard()
    timer.join()
    (line,) = said
    assert line.startswith("the lock of the cluster is held by alice@ci-3 (apply of plan 12ab, process 4711)")
    assert line.endswith("; waiting up to 30s")


def test_it_is_free_again_afterwards(cluster: Cluster) -> None:
    for holder in (ALICE, BOB, ALICE):
        with hold(cluster, holder) as guard:
            guard()
    with pytest.raises(ZeroDivisionError), hold(cluster, ALICE):
        raise ZeroDivisionError
    with hold(cluster, BOB) as guard:
        guard()


def test_nothing_is_proven_once_it_was_given_back(cluster: Cluster) -> None:
    with hold(cluster, ALICE) as guard:
        guard()
    for _ in range(2):
        with pytest.raises(LockLost, match="lost the lock"):
            guard()
    with hold(cluster, ALICE) as another:
        with pytest.raises(LockLost):
            guard()
        another()


# --- a proof before each request -------------------------------------------------------------------


def created(cluster: Cluster, name: str) -> ResourceRef:
    """A new topic, once it can be seen."""
    ref = topic(name)
    assert cluster.execute([CreateTopic(ref, 1, 1, {})]) == [None]
    eventually(lambda: cluster.observe([ref]).resources, lambda found: ref in found)
    eventually(lambda: cluster.partition_counts([name]), bool)
    return ref


@pytest.fixture
def scene(cluster: Cluster, prefix: str) -> Callable[[str], list[Operation]]:
    """Makes operations of a sort that can be carried out; the sort says how many requests they take."""
    read = f"{prefix}read"
    start = {read: "earliest"}

    def topics(*names: str) -> list[ResourceRef]:
        return [created(cluster, prefix + name) for name in names]

    def groups(*names: str) -> list[ResourceRef]:
        refs = [group(prefix + name) for name in names]
        topics("read")
        assert cluster.execute([CommitInitialOffsets(ref, start) for ref in refs]) == [None] * len(refs)
        return refs

    def uid(ref: ResourceRef) -> str | None:
        return cluster.observe([ref]).resources[ref].uid

    def mixed() -> list[Operation]:
        (ref,) = topics("b")
        alteration = AlterConfigs(ref, {"retention.ms": "1000"})
        return [DeleteTopic(ref, uid(ref)), CreateTopic(topic(f"{prefix}a"), 1, 1, {}), alteration]

    def first() -> list[Operation]:
        topics("read")
        return [CommitInitialOffsets(group(prefix + name), start) for name in "abc"]

    makers: dict[str, Callable[[], list[Operation]]] = {
        "creates: 1": lambda: [CreateTopic(topic(prefix + name), 1, 1, {}) for name in "abc"],
        "configs: 1": lambda: [AlterConfigs(ref, {"retention.ms": "1000"}) for ref in topics(*"ab")],
        "partitions: 1": lambda: [AddPartitions(ref, 1, 3) for ref in topics(*"ab")],
        "first offsets: 3": first,
        "resets: 2": lambda: [ResetOffsets(ref, {(read, 0): 0}) for ref in groups(*"ab")],
        "groups deleted: 3": lambda: [DeleteGroup(ref) for ref in groups(*"abc")],
        "topics deleted: 1": lambda: [DeleteTopic(ref, uid(ref)) for ref in topics(*"ab")],
        "several sorts: 3": mixed,
    }
    return lambda sort: makers[sort]()


SORTS = [
    "creates: 1",
    "configs: 1",
    "partitions: 1",
    "first offsets: 3",
    "resets: 2",
    "groups deleted: 3",
    "topics deleted: 1",
    "several sorts: 3",
]


@pytest.mark.parametrize("sort", SORTS)
def test_each_request_has_a_proof_of_its_own(
    cluster: Cluster, scene: Callable[[str], list[Operation]], sort: str
) -> None:
    operations = scene(sort)
    guard = Budget(100)
    assert cluster.execute(operations, guard) == [None] * len(operations)
    assert 100 - guard.left == int(sort.rpartition(" ")[2])


@pytest.mark.parametrize("sort", SORTS)
def test_without_a_proof_nothing_is_sent(
    cluster: Cluster, scene: Callable[[str], list[Operation]], sort: str
) -> None:
    operations = scene(sort)
    refused = cluster.execute(operations, Budget(0))
    assert [type(outcome) for outcome in refused] == [LockLost] * len(operations)
    # What was carried out could not be carried out again: topics exist, partition counts are not raised.
    guard = Budget(100)
    assert cluster.execute(operations, guard) == [None] * len(operations)


@pytest.mark.parametrize("sort", ["first offsets: 3", "groups deleted: 3"])
def test_what_was_sent_before_the_loss_keeps_its_outcome(
    cluster: Cluster, scene: Callable[[str], list[Operation]], prefix: str, sort: str
) -> None:
    operations = scene(sort)
    outcomes = cluster.execute(operations, Budget(2))
    assert outcomes[:2] == [None, None]
    assert isinstance(outcomes[2], LockLost)
    known = cluster.groups([f"{prefix}{name}" for name in "abc"]).groups.keys()
    assert known == ({f"{prefix}a", f"{prefix}b"} if sort.startswith("first") else {f"{prefix}c"})


def test_the_sorts_before_the_loss_keep_their_outcome(
    cluster: Cluster, scene: Callable[[str], list[Operation]], prefix: str
) -> None:
    deletion, creation, alteration = cluster.execute(scene("several sorts: 3"), Budget(2))
    assert isinstance(deletion, LockLost)
    assert (creation, alteration) == (None, None)
    assert topic(f"{prefix}b") in cluster.observe([topic(f"{prefix}b")]).inventory


def test_checking_takes_no_proof_and_an_impossible_request_neither(cluster: Cluster, prefix: str) -> None:
    twice = [CreateTopic(topic(f"{prefix}a"), 1, 1, {})] * 2
    outcomes = cluster.execute([replace(one) for one in twice], Budget(0))
    assert [isinstance(one, RequestRejected) for one in outcomes] == [True, True]
    assert cluster.execute([], Budget(0)) == []


def test_each_retry_of_one_operation_alone_has_its_proof(real_cluster: KafkaCluster, prefix: str) -> None:
    """librdkafka refuses to send a batch with a number that Kafka has no room for: then each goes alone."""

    def creates(*names: str) -> list[Operation]:
        counts = zip(names, (1, 100_001, 1), strict=True)
        return [CreateTopic(topic(prefix + name), count, 1, {}) for name, count in counts]

    guard = Budget(100)
    outcomes = real_cluster.execute(creates(*"abc"), guard)
    assert [outcome is None for outcome in outcomes] == [True, False, True]
    assert 100 - guard.left == 4
    outcomes = real_cluster.execute(creates(*"def"), Budget(2))
    assert outcomes[0] is None
    assert [type(outcome) for outcome in outcomes[1:]] == [LockLost, LockLost]


def test_a_group_that_is_deleted_without_its_configs_is_not_said_to_be_untouched(
    real_cluster: KafkaCluster, prefix: str
) -> None:
    ref, read = group(f"{prefix}a"), f"{prefix}read"
    created(real_cluster, read)
    before: list[Operation] = [
        CommitInitialOffsets(ref, {read: "earliest"}),
        AlterConfigs(ref, {CONFIG: "50000"}),
    ]
    assert real_cluster.execute(before) == [None, None]
    (outcome,) = real_cluster.execute([DeleteGroup(ref, (CONFIG,))], Budget(1))
    assert type(outcome) is ClusterError
    assert outcome.message.startswith("the group is gone, its configs are not: this apply lost the lock")
    assert real_cluster.execute([DeleteGroup(ref, (CONFIG,))]) == [None]


# --- a real Kafka: who is at the other end ---------------------------------------------------------


def test_what_an_earlier_holder_said_is_not_told_of_the_present_one(
    kafka: DevCluster, real_cluster: KafkaCluster
) -> None:
    with hold(real_cluster, ALICE):
        pass
    with stranger(kafka.bootstrap_servers), pytest.raises(LockHeld) as caught, hold(real_cluster, BOB):
        raise AssertionError
    assert "held by client other-tool at 127.0.0.1;" in f"{caught.value.message};"
    assert "alice" not in caught.value.message


class stranger:  # noqa: N801 - used as a context
    """Somebody else's consumer that has taken the place of the lock's holder, and says nothing of itself."""

    def __init__(self, servers: str) -> None:
        properties: dict[str, Any] = {
            "bootstrap.servers": servers,
            "client.id": "other-tool",
            "group.id": NAME,
            "group.protocol": "consumer",
            "group.instance.id": INSTANCE_ID,
        }
        self._consumer = Consumer(properties)

    def __enter__(self) -> None:
        assigned: list[object] = []
        self._consumer.subscribe([NAME], on_assign=lambda _, partitions: assigned.extend(partitions))
        eventually(lambda: self._consumer.poll(0.01), lambda _: bool(assigned))

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def test_who_was_removed_never_holds_it_again(kafka: DevCluster, real_cluster: KafkaCluster) -> None:
    with hold(real_cluster, ALICE) as guard:
        guard()
        remove_holder(kafka.bootstrap_servers)
        with pytest.raises(LockLost):
            guard()
        with hold(real_cluster, BOB) as another:
            another()
        # Nobody has it now: it is free, and yet it is not the first one's.
        with pytest.raises(LockLost):
            guard()
        with hold(real_cluster, BOB) as another:
            another()


def test_an_apply_whose_lock_is_taken_away_stops_where_it_is(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    created(real_cluster, f"{prefix}old")
    plan = plan_for(real_cluster, declared(f"{prefix}new"), declared(f"{prefix}old", 2))
    watched = Watched(real_cluster)

    def taken(_: object) -> None:
        if len(watched.requests) == 1:
            remove_holder(kafka.bootstrap_servers)

    watched.after = taken
    with hold(real_cluster, ALICE) as guard:
        report = executor.apply(plan, watched, guard=guard)
    results = {one.planned.ref.name.removeprefix(prefix): one.result for one in report.results}
    assert results == {"new": Result.APPLIED, "old": Result.NOT_TRIED}
    assert real_cluster.partition_counts([f"{prefix}old"]) == {f"{prefix}old": 1}


def test_nothing_is_written_to_the_terminal(
    real_cluster: KafkaCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    """librdkafka calls it a fatal error that somebody else is a member."""
    with hold(real_cluster, ALICE), pytest.raises(LockHeld), hold(real_cluster, BOB):
        raise AssertionError
    assert capfd.readouterr() == ("", "")


def test_the_topic_is_made_anew_and_its_deletion_loses_the_lock(
    kafka: DevCluster, real_cluster: KafkaCluster
) -> None:
    admin = admin_client(kafka.bootstrap_servers)
    with hold(real_cluster, ALICE) as guard:
        guard()
        admin.delete_topics([NAME])[NAME].result(TIMEOUT_S)
        eventually(lambda: is_lost(guard), bool)
        with pytest.raises(LockLost):
            guard()
    with hold(real_cluster, BOB, TIMEOUT_S) as guard:
        guard()
    partitions = admin.list_topics(timeout=TIMEOUT_S).topics[NAME].partitions
    assert [len(each.replicas) for each in partitions.values()] == [1]


def is_lost(guard: Guard) -> bool:
    try:
        guard()
    except LockLost:
        return True
    return False


def test_a_proof_that_took_too_long_is_none(
    real_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the process was frozen after the broker had answered, and somebody else has the lock by now."""
    with hold(real_cluster, ALICE) as guard:
        guard()
        monkeypatch.setattr(lock_membership, "FRESH_S", 0.0)
        monkeypatch.setattr(lock_membership, "PROOF_TIMEOUT_S", 0.2)
        with pytest.raises(LockLost, match=r"too late|does not answer"):
            guard()
        monkeypatch.undo()
        with pytest.raises(LockLost):
            guard()
        with hold(real_cluster, BOB) as another:
            another()


@pytest.mark.parametrize("after_s", [0.001, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.2])
def test_ctrl_c_leaves_nobody_with_the_lock(real_cluster: KafkaCluster, after_s: float) -> None:
    """Also if it comes while the coordinator is asked: who leaves then is made a member all the same."""
    real_cluster.facts()

    def interrupted() -> None:
        threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT)).start()
        with hold(real_cluster, ALICE) as guard:
            while True:
                guard()

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with hold(real_cluster, BOB) as guard:
        guard()


def test_ctrl_c_ends_the_waiting(kafka: DevCluster, real_cluster: KafkaCluster) -> None:
    with hold(real_cluster, ALICE) as guard, LockProcess(kafka.bootstrap_servers, "bob", 600) as waiting:
        assert "held by alice@ci-3" in waiting.said()
        waiting.process.send_signal(signal.SIGINT)
        assert waiting.process.wait(TIMEOUT_S) != 0
        guard()


def test_a_broken_off_proof_is_none_and_so_are_those_after_it(
    real_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hold(real_cluster, ALICE) as guard:
        guard()

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(lock_membership.Membership, "_poll", interrupted)
        with pytest.raises(KeyboardInterrupt):
            guard()
        monkeypatch.undo()
        with pytest.raises(LockLost, match="the proof was broken off"):
            guard()


# --- a real Kafka: brokers that go and come --------------------------------------------------------


def test_a_coordinator_that_moves_does_not_lose_the_lock(kafka3: DevCluster) -> None:
    with connect(kafka3.bootstrap_servers) as cluster, hold(cluster, ALICE, TIMEOUT_S) as guard:
        guard()
        admin = admin_client(kafka3.bootstrap_servers)
        described = admin.describe_consumer_groups([NAME])[NAME].result(TIMEOUT_S)
        replicas = admin.list_topics(timeout=TIMEOUT_S).topics[NAME].partitions[0].replicas
        assert len(replicas) == 3
        kafka3.stop_node(described.coordinator.id)
        try:
            for _ in range(5):
                guard()
        finally:
            kafka3.start_node(described.coordinator.id)
        guard()


def test_a_broker_that_restarts_does_not_lose_the_lock_and_one_that_stays_away_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        guarded(1, heap_mb=256) as kafka,
        connect(kafka.bootstrap_servers) as cluster,
        hold(cluster, ALICE, TIMEOUT_S) as guard,
    ):
        guard()
        kafka.stop_node(1)
        kafka.start_node(1)
        guard()
        kafka.stop_node(1)
        monkeypatch.setattr(lock_membership, "PROOF_TIMEOUT_S", 0.5)
        monkeypatch.setattr(lock_membership, "GIVE_UP_S", 0.5)
        with pytest.raises(LockLost, match="the coordinator of the lock does not answer"):
            guard()


# --- a real Kafka: who may have it -----------------------------------------------------------------


def test_brokers_without_the_protocol_are_told_of() -> None:
    properties = {"group.coordinator.rebalance.protocols": "classic"}
    with (
        guarded(1, heap_mb=256, properties=properties) as kafka,
        connect(kafka.bootstrap_servers) as cluster,
        pytest.raises(RequestRejected) as caught,
        hold(cluster, ALICE),
    ):
        raise AssertionError
    assert caught.value.code == "UNSUPPORTED_VERSION"
    assert "do not have the group protocol that the lock needs" in caught.value.message
    helps(caught.value, "Kafka has it from 4.0 on", "group.coordinator.rebalance.protocols")


@pytest.fixture
def lock_topic(kafka_acl: DevCluster) -> None:
    """The topic of the lock, made by whoever runs the cluster."""
    with connect(kafka_acl.bootstrap_servers) as cluster, hold(cluster, ALICE, TIMEOUT_S):
        pass


ALL = (f"TOPIC:{NAME}:READ", f"GROUP:{NAME}:READ")


@pytest.mark.usefixtures("lock_topic")
def test_read_on_the_topic_and_the_group_is_enough(account: Callable[..., Account]) -> None:
    with hold(account(*ALL).cluster, ALICE) as guard:
        guard()


@pytest.mark.usefixtures("lock_topic")
@pytest.mark.parametrize(
    "grants",
    [
        (f"TOPIC:{NAME}:READ",),
        (f"TOPIC:{NAME}:READ", f"GROUP:{NAME}:DESCRIBE"),
        (f"TOPIC:{NAME}:DESCRIBE", f"GROUP:{NAME}:READ"),
    ],
    ids=["no group", "group described", "topic described"],
)
def test_the_rights_that_are_missing_are_named(
    account: Callable[..., Account], grants: Sequence[str]
) -> None:
    with pytest.raises(PermissionDenied) as caught, hold(account(*grants).cluster, ALICE):
        raise AssertionError
    assert "may not use the lock" in caught.value.message
    helps(caught.value, f"grant Read on the topic and on the group {NAME}")


@pytest.mark.parametrize("grants", [(), (f"TOPIC:{NAME}:DESCRIBE",)], ids=["not visible", "not there"])
def test_an_account_that_cannot_make_the_topic_is_told_so(
    kafka_acl: DevCluster, account: Callable[..., Account], grants: Sequence[str]
) -> None:
    remove_lock_topic(kafka_acl.bootstrap_servers)
    with pytest.raises(PermissionDenied) as caught, hold(account(*grants).cluster, ALICE):
        raise AssertionError
    assert f"the topic of the lock, {NAME}, is not there, or not visible" in caught.value.message
    helps(caught.value, "let somebody create it (1 partition)")


def test_an_account_that_may_make_the_topic_makes_it(
    kafka_acl: DevCluster, account: Callable[..., Account]
) -> None:
    remove_lock_topic(kafka_acl.bootstrap_servers)
    with hold(account(*ALL, f"TOPIC:{NAME}:CREATE").cluster, ALICE) as guard:
        guard()


def remove_lock_topic(servers: str) -> None:
    admin = admin_client(servers)
    if NAME in admin.list_topics(timeout=TIMEOUT_S).topics:
        admin.delete_topics([NAME])[NAME].result(TIMEOUT_S)
        eventually(lambda: admin.list_topics(timeout=TIMEOUT_S).topics, lambda topics: NAME not in topics)


def helps(error: ClusterError, *words: str) -> None:
    assert error.hint is not None
    for word in (*words, "--no-lock", "`lock: false`"):
        assert word in error.hint

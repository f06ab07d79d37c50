"""The lock on a real Kafka: who is at the other end, who may have it, and holders that are frozen or killed.

Most of it is on brokers of this file alone: one has the group coordinator of Kafka 4, and one that of 3.9.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence

import psutil
import pytest

from kafkaform.cluster.kafka import lock_membership
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.kafka.lock_coordinator import Coordinator
from kafkaform.cluster.kafka.lock_membership import Membership
from kafkaform.core import lock
from kafkaform.core.errors import ClusterError, LockHeld, LockLost, PermissionDenied
from kafkaform.core.lock import NAME, Guard
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.devcluster.releases import KAFKA_VERSION
from tests.support.clusters.fixtures import (
    TIMEOUT_S,
    MakeAccount,
    acl_cluster,
    admin_client,
    connect,
    eventually,
    start_guarded,
)
from tests.support.lock.process import ALICE, BOB, LockProcess, hold, member_count, remove_holder
from tests.support.plans.scenes import topic

SESSION_S = 9
"""How long a holder may be silent here: longer than a proof counts (FRESH_S), as a busy machine pauses."""
HEARTBEAT_S = 1
"""How often it tells that it is alive."""
EARLIER = "3.9.1"
"""A version of Kafka with the group coordinator before KIP-848."""


@pytest.fixture(
    scope="module",
    params=[KAFKA_VERSION, pytest.param(EARLIER, marks=pytest.mark.nightly("the earlier coordinator"))],
)
def broker(request: pytest.FixtureRequest) -> Iterator[DevCluster]:
    with start_guarded(1, heap_mb=256, kafka_version=request.param) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def short_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "SESSION_S", SESSION_S)


@pytest.fixture
def cluster(broker: DevCluster) -> Iterator[KafkaCluster]:
    with connect(broker.bootstrap_servers) as real:
        yield real


def test_removed_holder_never_holds_the_lock_again(broker: DevCluster, cluster: KafkaCluster) -> None:
    with hold(cluster, ALICE) as guard:
        guard()
        remove_holder(broker.bootstrap_servers)
        with pytest.raises(LockLost):
            guard()
        with hold(cluster, BOB) as another:
            another()
        # Nobody has it now: it is free, and yet it is not the first one's.
        with pytest.raises(LockLost):
            guard()
        with hold(cluster, BOB) as another:
            another()


def test_lock_writes_nothing_to_terminal(cluster: KafkaCluster, capfd: pytest.CaptureFixture[str]) -> None:
    with hold(cluster, ALICE), pytest.raises(LockHeld), hold(cluster, BOB):
        raise AssertionError
    assert capfd.readouterr() == ("", "")


def test_deletion_of_lock_topic_loses_lock(
    broker: DevCluster, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = admin_client(broker.bootstrap_servers)
    with hold(cluster, ALICE) as guard:
        guard()
        admin.delete_topics([NAME])[NAME].result(TIMEOUT_S)
        monkeypatch.setattr(lock_membership, "PROOF_TIMEOUT_S", 0.5)  # a broker may not know a new topic yet
        eventually(lambda: is_lost(guard), bool)
        with pytest.raises(LockLost):
            guard()
    monkeypatch.undo()
    with hold(cluster, BOB, TIMEOUT_S) as guard:
        guard()
    partitions = admin.list_topics(timeout=TIMEOUT_S).topics[NAME].partitions
    assert [len(each.replicas) for each in partitions.values()] == [1]


def is_lost(guard: Guard) -> bool:
    try:
        guard()
    except LockLost:
        return True
    return False


def test_late_proof_loses_the_lock(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the process was frozen after the broker had answered, and somebody else has the lock by now."""
    with hold(cluster, ALICE) as guard:
        guard()
        monkeypatch.setattr(lock_membership, "FRESH_S", 0.0)
        monkeypatch.setattr(lock_membership, "PROOF_TIMEOUT_S", 0.2)
        with pytest.raises(LockLost, match=r"too late|not respond"):
            guard()
        monkeypatch.undo()
        with pytest.raises(LockLost):
            guard()
        with hold(cluster, BOB) as another:
            another()


# An interrupt can come between the making of a socket and the line that keeps it, which is closed when freed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("after_s", [0.001, 0.02, 0.04, 0.07, 0.2])
def test_ctrl_c_while_acquiring_frees_the_lock(cluster: KafkaCluster, after_s: float) -> None:
    """Also if it comes while the coordinator is asked: who leaves then is made a member all the same."""
    cluster.facts()

    def interrupt() -> None:
        timer = threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            with hold(cluster, ALICE) as guard:
                until = time.monotonic() + TIMEOUT_S
                while time.monotonic() < until:
                    guard()
            raise AssertionError("the signal did not arrive")
        finally:
            timer.cancel()  # a signal that comes late would end all tests

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    with hold(cluster, BOB) as guard:
        guard()


def test_ctrl_c_while_holding_releases_lock(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Coordinator) -> None:
        monkeypatch.undo()
        self.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(Coordinator, "close", interrupt)
    with pytest.raises(KeyboardInterrupt), hold(cluster, ALICE):
        raise AssertionError
    with hold(cluster, BOB) as guard:
        guard()


def test_interrupted_proof_loses_the_lock(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with hold(cluster, ALICE) as guard:
        guard()

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Membership, "_commit_as", interrupt)
        with pytest.raises(KeyboardInterrupt):
            guard()
        monkeypatch.undo()
        with pytest.raises(LockLost, match="broken off"):
            guard()


def test_frozen_or_killed_holder_sends_no_further_changes(
    broker: DevCluster, cluster: KafkaCluster, prefix: str
) -> None:
    servers = broker.bootstrap_servers
    with LockProcess(servers, "frozen") as frozen:
        frozen.await_lock()
        frozen.process.send_signal(signal.SIGSTOP)
        time.sleep(HEARTBEAT_S)  # only for a moment: it holds it still
        frozen.process.send_signal(signal.SIGCONT)
        assert frozen.send_line("prove") == "proven"
        assert frozen.send_line(f"apply {prefix}before") == "applied"
        with LockProcess(servers, "killed", TIMEOUT_S) as following:
            assert "held by frozen (a test" in following.read_line()
            frozen.process.send_signal(signal.SIGSTOP)
            following.await_lock()
            assert following.send_line(f"apply {prefix}next") == "applied"
            frozen.process.send_signal(signal.SIGCONT)
            assert frozen.send_line(f"apply {prefix}after") == "not_tried"
            assert frozen.send_line("prove").startswith("lost ")
            frozen.end()
            assert following.send_line("prove") == "proven"
            assert following.send_line(f"apply {prefix}last") == "applied"
            with LockProcess(servers, "third", TIMEOUT_S) as third:
                assert "held by killed (a test" in third.read_line()
                following.process.kill()
                third.await_lock()
                assert third.send_line(f"apply {prefix}third") == "applied"
                # Its client finds out by itself that it was removed, and may not become the holder unseen.
                remove_holder(servers)
                time.sleep(HEARTBEAT_S + 1)
                assert third.send_line("prove").startswith("lost ")
                third.end()
    seen = cluster.observe([], kinds=["Topic"]).inventory
    assert topic(f"{prefix}third") in seen
    assert topic(f"{prefix}after") not in seen


@pytest.mark.parametrize(
    "broker",
    [
        KAFKA_VERSION,
        pytest.param(EARLIER, marks=pytest.mark.nightly("nightly/ has the order of more writes")),
    ],
    indirect=True,
)
def test_frozen_holder_completes_one_request_at_most(broker: DevCluster, prefix: str) -> None:
    """The one that is past its proof."""
    admin = admin_client(broker.bootstrap_servers)

    def names() -> set[str]:
        return {name for name in admin.list_topics(timeout=TIMEOUT_S).topics if name.startswith(prefix)}

    def members() -> int:
        return member_count(broker.bootstrap_servers)

    with LockProcess(broker.bootstrap_servers, "frozen") as frozen:
        frozen.await_lock()
        assert frozen.send_line(f"flood {prefix}") == "flooding"
        eventually(names, lambda found: len(found) >= 3)
        frozen.process.send_signal(signal.SIGSTOP)
        eventually(members, lambda count: count == 0)
        before = names()
        frozen.process.send_signal(signal.SIGCONT)
        assert "lost the lock" in frozen.read_line()
        frozen.end()
        with LockProcess(broker.bootstrap_servers, "next", TIMEOUT_S) as following:
            following.await_lock()
            assert following.send_line(f"apply {prefix}sentinel") == "applied"
            following.end()
        after = eventually(names, lambda found: f"{prefix}sentinel" in found)
        assert len(after - before - {f"{prefix}sentinel"}) in {0, 1}


def test_lock_survives_restart_but_not_silence(broker: DevCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "SESSION_S", 45)  # time for the restart, however busy the machine is
    soon = {"reconnect.backoff.max.ms": "500"}
    with connect(broker.bootstrap_servers, **soon) as real, hold(real, ALICE, TIMEOUT_S) as guard:
        guard()
        broker.stop_node(1)
        broker.start_node(1)
        guard()
        (node,) = broker.status().nodes
        assert node.pid is not None
        os.kill(node.pid, signal.SIGSTOP)
        process = psutil.Process(node.pid)
        try:
            eventually(process.status, lambda status: status == psutil.STATUS_STOPPED)
            monkeypatch.setattr(lock_membership, "PROOF_TIMEOUT_S", 0.5)
            monkeypatch.setattr(lock_membership, "GIVE_UP_S", 0.5)
            with pytest.raises(LockLost, match="does not respond"):
                guard()
        finally:
            os.kill(node.pid, signal.SIGCONT)


@pytest.fixture(
    scope="module",
    params=[KAFKA_VERSION, pytest.param(EARLIER, marks=pytest.mark.nightly("the rights are the same ones"))],
)
def kafka_acl(request: pytest.FixtureRequest) -> DevCluster:
    version: str = request.param
    return acl_cluster(version)


ALL = (f"TOPIC:{NAME}:READ", f"GROUP:{NAME}:READ")


@pytest.mark.parametrize("grants", [(), (f"TOPIC:{NAME}:DESCRIBE",)], ids=["not visible", "not there"])
def test_missing_lock_topic_without_create_right_is_reported(
    kafka_acl: DevCluster, account: MakeAccount, grants: Sequence[str]
) -> None:
    remove_lock_topic(kafka_acl.bootstrap_servers)
    with pytest.raises(PermissionDenied) as caught, hold(account(*grants).cluster, ALICE):
        raise AssertionError
    assert f"the lock, {NAME}, does not exist" in caught.value.message
    helps(caught.value, "have it created (1 partition)")


def test_account_with_create_right_creates_lock_topic(kafka_acl: DevCluster, account: MakeAccount) -> None:
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

"""The lock of a cluster: one holder at a time, and no request without a proof that it is still held."""

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.protocol import Cluster
from kafkaform.core.errors import ClusterError, LockHeld, LockLost, RequestRejected
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.core.values import replace
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets, DeleteGroup, ResetOffsets
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteTopic
from tests.support.clusters.fixtures import TIMEOUT_S
from tests.support.clusters.topics import make_topic
from tests.support.lock.process import ALICE, BOB, hold
from tests.support.plans.moves import LimitedGuard
from tests.support.plans.scenes import group, topic

CONFIG = "consumer.session.timeout.ms"


def test_lock_conflict_names_holder(cluster: Cluster) -> None:
    with hold(cluster, ALICE) as guard:
        with pytest.raises(LockHeld) as caught, hold(cluster, BOB):
            raise AssertionError
        assert "held by alice@ci-3 (apply of plan 12ab, process 4711) since " in caught.value.message
        for _ in range(20):  # it can be proven as often as the holder likes
            guard()


def test_waiting_lock_reports_holder_and_acquires(cluster: Cluster) -> None:
    messages: list[str] = []
    with ExitStack() as first:
        first.enter_context(hold(cluster, ALICE))

        def tell(line: str) -> None:
            messages.append(line)
            first.close()

        with cluster.lock(BOB, timeout_s=TIMEOUT_S, tell=tell) as guard:
            guard()
    (line,) = messages
    assert line.startswith("the lock of the cluster is held by alice@ci-3 (")
    assert line.endswith(f"; waiting up to {TIMEOUT_S:.0f}s")


def test_released_lock_invalidates_guard(cluster: Cluster) -> None:
    with pytest.raises(ZeroDivisionError), hold(cluster, BOB):
        raise ZeroDivisionError
    with hold(cluster, ALICE) as guard:
        guard()
    for _ in range(2):
        with pytest.raises(LockLost, match="lost the lock"):
            guard()
    with hold(cluster, ALICE) as another:
        with pytest.raises(LockLost):
            guard()
        another()
    with hold(cluster, BOB) as guard:
        guard()


@pytest.fixture
def scene(cluster: Cluster, prefix: str) -> Callable[[str], list[Operation]]:
    """Makes operations of a sort that can be carried out; the sort says how many requests they take."""
    read = f"{prefix}read"
    start = {read: "earliest"}

    def topics(*names: str) -> list[ResourceRef]:
        return [topic(make_topic(cluster, prefix + name)) for name in names]

    def groups(*names: str) -> list[ResourceRef]:
        refs = [group(prefix + name) for name in names]
        topics("read")
        assert cluster.execute([CommitInitialOffsets(ref, start) for ref in refs]) == [None] * len(refs)
        return refs

    def uid(ref: ResourceRef) -> str | None:
        return cluster.observe([ref]).resources[ref].uid

    def build_batch() -> list[Operation]:
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
        "several sorts: 3": build_batch,
    }
    return lambda sort: makers[sort]()


@pytest.mark.parametrize(
    "sort",
    [
        *("creates: 1", "configs: 1", "partitions: 1", "first offsets: 3", "resets: 2"),
        *("groups deleted: 3", "topics deleted: 1", "several sorts: 3"),
    ],
)
def test_requests_without_lock_proof_are_not_sent(
    cluster: Cluster, scene: Callable[[str], list[Operation]], sort: str
) -> None:
    operations = scene(sort)
    refused = cluster.execute(operations, LimitedGuard(0))
    assert [type(outcome) for outcome in refused] == [LockLost] * len(operations)
    # What was carried out could not be carried out again: topics exist, partition counts are not raised.
    guard = LimitedGuard(100)
    assert cluster.execute(operations, guard) == [None] * len(operations)
    assert guard.asked == int(sort.rpartition(" ")[2])


@pytest.mark.parametrize("sort", ["first offsets: 3", "groups deleted: 3"])
def test_operations_before_lock_loss_keep_outcomes(
    cluster: Cluster, scene: Callable[[str], list[Operation]], prefix: str, sort: str
) -> None:
    operations = scene(sort)
    outcomes = cluster.execute(operations, LimitedGuard(2))
    assert outcomes[:2] == [None, None]
    assert isinstance(outcomes[2], LockLost)
    known = cluster.groups([f"{prefix}{name}" for name in "abc"]).groups.keys()
    assert known == ({f"{prefix}a", f"{prefix}b"} if sort.startswith("first") else {f"{prefix}c"})


def test_operation_kinds_before_lock_loss_keep_outcomes(
    cluster: Cluster, scene: Callable[[str], list[Operation]], prefix: str
) -> None:
    deletion, creation, alteration = cluster.execute(scene("several sorts: 3"), LimitedGuard(2))
    assert isinstance(deletion, LockLost)
    assert (creation, alteration) == (None, None)
    assert topic(f"{prefix}b") in cluster.observe([topic(f"{prefix}b")]).inventory


def test_invalid_request_needs_no_lock_proof(cluster: Cluster, prefix: str) -> None:
    twice = [CreateTopic(topic(f"{prefix}a"), 1, 1, {})] * 2
    outcomes = cluster.execute([replace(item) for item in twice], LimitedGuard(0))
    assert [isinstance(outcome, RequestRejected) for outcome in outcomes] == [True, True]
    assert cluster.execute([], LimitedGuard(0)) == []


def test_individual_retries_need_lock_proof(real_cluster: KafkaCluster, prefix: str) -> None:
    """A batch with a number that the protocol has no room for cannot be sent: then each goes alone."""

    def creates(*names: str) -> list[Operation]:
        factors = zip(names, (1, 40_000, 1), strict=True)
        return [CreateTopic(topic(prefix + name), 1, factor, {}) for name, factor in factors]

    guard = LimitedGuard(100)
    outcomes = real_cluster.execute(creates(*"abc"), guard)
    assert [outcome is None for outcome in outcomes] == [True, False, True]
    assert guard.asked == 4
    outcomes = real_cluster.execute(creates(*"def"), LimitedGuard(2))
    assert outcomes[0] is None
    assert [type(outcome) for outcome in outcomes[1:]] == [LockLost, LockLost]


def test_group_deleted_without_its_configs_is_reported(real_cluster: KafkaCluster, prefix: str) -> None:
    ref, read = group(f"{prefix}a"), f"{prefix}read"
    make_topic(real_cluster, read)
    before: list[Operation] = [
        CommitInitialOffsets(ref, {read: "earliest"}),
        AlterConfigs(ref, {CONFIG: "50000"}),
    ]
    assert real_cluster.execute(before) == [None, None]
    (outcome,) = real_cluster.execute([DeleteGroup(ref, (CONFIG,))], LimitedGuard(1))
    assert type(outcome) is ClusterError
    assert outcome.message.startswith("the group was deleted, but")
    assert real_cluster.execute([DeleteGroup(ref, (CONFIG,))]) == [None]

"""What a test can make the cluster in memory do; what every cluster does is in the contract tests."""

from __future__ import annotations

from collections import Counter

import pytest

from kafkaform.core.errors import OutcomeUnknown, PermissionDenied, RequestRejected
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import AlterConfigs
from kafkaform.core.partitions import LogSpan
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets, ResetOffsets
from kafkaform.resources.groups import Group
from kafkaform.resources.replicas.moves import Rates, Throttles
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteTopic
from tests.support.memory_cluster.memory import MemoryCluster

A, B = ResourceRef("Topic", "a"), ResourceRef("Topic", "b")
G = ResourceRef("ConsumerGroup", "g")
UNANSWERED = OutcomeUnknown("no answer within 60 s")


@pytest.fixture
def cluster() -> MemoryCluster:
    """Two topics in three racks."""
    cluster = MemoryCluster()
    assert cluster.execute([CreateTopic(A, 3, 2, {}), CreateTopic(B, 1, 1, {})]) == [None, None]
    cluster.executed.clear()
    return cluster


def test_reads_lag_behind_every_change(cluster: MemoryCluster) -> None:
    cluster.lag(2)
    for total in (4, 5):
        before = cluster.observe([A]).resources[A].state["partitions"]
        cluster.execute([AddPartitions(A, total - 1, total)])
        seen = [cluster.observe([A]).resources[A].state["partitions"] for _ in range(3)]
        assert seen == [before, before, total]


def test_a_hidden_topic_is_invisible_and_cannot_be_changed(cluster: MemoryCluster) -> None:
    cluster.hide(A)
    observation = cluster.observe([A, B], also=lambda _: True)
    assert observation.resources.keys() == observation.inventory == {B}
    assert observation.invisible.keys() == {A}
    assert isinstance(cluster.validate([AlterConfigs(A, {"retention.ms": "1"})])[0], PermissionDenied)


def test_a_denied_change_is_neither_checked_nor_made(cluster: MemoryCluster) -> None:
    cluster.deny(lambda ref: ref == A)
    changes = [AlterConfigs(A, {"nonsense": "1"}), AlterConfigs(B, {"retention.ms": "1"})]
    for outcomes in (cluster.validate(changes), cluster.execute(changes)):
        assert isinstance(outcomes[0], PermissionDenied)
        assert outcomes[1] is None
    assert cluster.observe([A]).resources.keys() == {A}
    cluster.deny()
    assert isinstance(cluster.execute([changes[1]])[0], PermissionDenied)


def test_a_failure_hits_the_next_operation_once(cluster: MemoryCluster) -> None:
    cluster.fail_next(UNANSWERED)
    change = AlterConfigs(A, {"retention.ms": "1"})
    assert cluster.validate([change]) == [None]
    assert cluster.execute([change]) == [UNANSWERED]
    assert cluster.executed == []
    assert cluster.execute([change]) == [None]
    assert cluster.executed == [change]


def test_a_failure_can_wait_for_a_resource_and_hide_that_it_went_well(cluster: MemoryCluster) -> None:
    cluster.fail_next(UNANSWERED, B, carried_out=True)
    changes = [AddPartitions(A, 3, 4), AddPartitions(B, 1, 2)]
    assert cluster.execute(changes) == [None, UNANSWERED]
    assert cluster.executed == changes
    assert cluster.observe([B]).resources[B].state["partitions"] == 2


def test_a_reassignment_takes_the_readings_of_the_layout_that_it_is_told_to(cluster: MemoryCluster) -> None:
    cluster.fill(B, 900)
    (held,) = cluster.layout().topics["b"]
    target = tuple(broker for broker in (1, 2, 3) if broker not in held.replicas)
    cluster.pace(3)
    assert cluster.reassign({("b", 0): target}) == {("b", 0): None}
    seen = []
    for _ in range(4):
        sizes = cluster.replica_sizes([("b", 0)])
        seen.append((sizes[("b", 0, target[0])], bool(cluster.layout().reassigning)))
    assert seen == [(0, True), (300, True), (600, True), (900, False)]
    assert cluster.layout().topics["b"][0].replicas == target
    assert cluster.replica_sizes([("b", 0)]) == dict.fromkeys([("b", 0, b) for b in target], 900)


def test_a_new_replica_on_a_broker_that_is_down_waits_for_it(cluster: MemoryCluster) -> None:
    (held,) = cluster.layout().topics["b"]
    first, second = (broker for broker in (1, 2, 3) if broker not in held.replicas)
    cluster.pace(1)
    cluster.stop_broker(second)
    cluster.reassign({("b", 0): (*held.replicas, first, second)})
    cluster.advance(5)
    layout = cluster.layout()
    assert layout.reassigning is not None
    assert layout.reassigning["b", 0].adding == {first, second}
    assert layout.topics["b"][0].isr == (*held.replicas, first)
    cluster.start_broker(second)
    cluster.advance()
    assert cluster.layout().topics["b"][0].isr == (*held.replicas, first, second)
    assert not cluster.layout().reassigning


def test_the_layout_lags_behind_what_the_controllers_know(cluster: MemoryCluster) -> None:
    (held,) = cluster.layout().topics["b"]
    new = next(broker for broker in (1, 2, 3) if broker not in held.replicas)
    cluster.pace(1)
    cluster.lag(1)
    cluster.reassign({("b", 0): (new,)})
    seen = [cluster.layout() for _ in range(3)]
    assert [layout.topics["b"][0].replicas for layout in seen] == [
        held.replicas,
        (new, *held.replicas),
        (new,),
    ]
    assert [bool(layout.reassigning) for layout in seen] == [True, False, False]


def test_moves_and_throttles_can_be_denied_and_fail(cluster: MemoryCluster) -> None:
    throttles = Throttles({1: Rates(1)})
    cluster.fail_next(UNANSWERED, B, carried_out=True)
    assert cluster.reassign({("b", 0): (1, 2, 3)}) == {("b", 0): UNANSWERED}
    assert cluster.layout().topics["b"][0].replicas == (1, 2, 3)
    cluster.fail_next(UNANSWERED)
    with pytest.raises(OutcomeUnknown):
        cluster.set_throttles(throttles)
    assert not cluster.throttles([])
    cluster.deny(lambda ref: ref.kind == "Cluster")
    assert isinstance(cluster.reassign({("b", 0): (1,)})["b", 0], PermissionDenied)
    assert isinstance(cluster.elect_leaders([("b", 0)])["b", 0], PermissionDenied)
    with pytest.raises(PermissionDenied):
        cluster.set_throttles(throttles)


def test_executed_holds_what_was_carried_out_and_nothing_else(cluster: MemoryCluster) -> None:
    (uid,) = (observed.uid for observed in cluster.observe([B]).resources.values())
    refused, done, gone = AddPartitions(A, 3, 2), AlterConfigs(A, {"retention.ms": "1"}), DeleteTopic(B, uid)
    cluster.validate([refused, done, gone])
    assert cluster.executed == []
    cluster.execute([gone, refused, done])
    assert cluster.executed == [done, gone]


# --- groups ----------------------------------------------------------------------------------------


def seen(cluster: MemoryCluster, name: str = "g") -> Group:
    return cluster.groups([name]).groups[name]


def test_members_join_and_leave_behind_everybodys_back(cluster: MemoryCluster) -> None:
    cluster.commit("g", {("a", 0): 2})
    cluster.write("a", 0, 5)
    cluster.join("g", ["a"], members=5, protocol="consumer")
    active = seen(cluster)
    assert (active.protocol, active.state, active.assignor) == ("consumer", "Stable", "uniform")
    assert [sorted(member.assignment) for member in active.members] == [
        [("a", 0)],
        [("a", 1)],
        [("a", 2)],
        [],
        [],
    ]
    assert [p.lag for p in active.positions] == [3, None, None]
    cluster.leave("g")
    left = seen(cluster)
    assert (left.active, left.protocol, left.committed) == (False, "consumer", {("a", 0): 2})
    assert cluster.executed == []


def test_a_hidden_group_is_invisible_and_cannot_be_changed(cluster: MemoryCluster) -> None:
    cluster.commit("g", {("a", 0): 0})
    cluster.commit("other", {("a", 0): 0})
    cluster.hide(G)
    observation = cluster.observe([G])
    assert observation.inventory == {ResourceRef("ConsumerGroup", "other")}
    assert "Group authorization" in observation.invisible[G]
    assert cluster.groups().groups.keys() == {"other"}
    reading = cluster.groups(["g"])
    assert not reading.groups
    assert reading.denied.keys() == {"g"}
    (outcome,) = cluster.execute([ResetOffsets(G, {("a", 0): 0})])
    assert isinstance(outcome, PermissionDenied)


def test_the_logs_of_a_hidden_topic_cannot_be_read(cluster: MemoryCluster) -> None:
    cluster.commit("g", {("a", 0): 0, ("b", 0): 0})
    cluster.hide(A)
    assert cluster.partition_counts(["a", "b"]) == {"b": 1}
    assert cluster.log_spans([("a", 0), ("b", 0)]).keys() == {("b", 0)}
    assert {p.topic for p in cluster.health().partitions} == {"b"}
    (outcome,) = cluster.execute([CommitInitialOffsets(G, {"a": "latest"})])
    assert isinstance(outcome, RequestRejected)
    assert outcome.code == "UNKNOWN_TOPIC_OR_PART"


def test_a_log_is_written_and_expires_within_its_ends(cluster: MemoryCluster) -> None:
    cluster.write("a", 1, 5)
    cluster.expire("a", 1, 5)
    assert cluster.log_spans([("a", 1)], at_ms=0) == {("a", 1): LogSpan(5, 5, 5)}
    for start in (4, 6):
        with pytest.raises(ValueError, match="not within the log"):
            cluster.expire("a", 1, start)
    with pytest.raises(ValueError, match="0 records"):
        cluster.write("a", 1, 0)
    for topic, partition in (("a", 3), ("nowhere", 0)):
        with pytest.raises(KeyError):
            cluster.write(topic, partition)


# --- brokers ---------------------------------------------------------------------------------------


def placements(cluster: MemoryCluster, name: str) -> list[tuple[int | None, tuple[int, ...]]]:
    return [(p.leader, p.isr) for p in cluster.health().partitions if p.topic == name]


def test_leaders_are_spread_over_the_brokers_that_there_are() -> None:
    # Leaders are spread over the brokers.
    cluster = MemoryCluster()
    cluster.execute([CreateTopic(ResourceRef("Topic", f"t{n}"), 1, 3, {}) for n in range(6)])
    cluster.execute([AddPartitions(ResourceRef("Topic", "t0"), 1, 4)])
    assert Counter(p.leader for p in cluster.health().partitions) == {1: 3, 2: 3, 3: 3}
    # No broker answers for a cluster without any.
    cluster = MemoryCluster()
    for broker in (1, 2, 3):
        cluster.stop_broker(broker)
    assert cluster.health().controller is None
    assert cluster.health().brokers == ()


def test_a_stopped_broker_leads_nothing_and_falls_out_of_sync() -> None:
    cluster = MemoryCluster()
    cluster.execute([CreateTopic(A, 3, 2, {})])
    before = placements(cluster, "a")
    first = before[0][0]
    assert first is not None
    cluster.stop_broker(first)
    health = cluster.health()
    assert first not in {broker.id for broker in health.brokers} | {health.controller}
    assert health.brokers == cluster.facts().brokers
    assert len(health.partitions) == 3
    for partition in health.partitions:
        assert first not in {partition.leader, *partition.isr}
        assert len(partition.replicas) == 2
    assert sorted(len(partition.isr) for partition in health.partitions) == [1, 1, 2]
    cluster.start_broker(first)
    assert placements(cluster, "a") == before


def test_a_partition_without_a_running_replica_is_offline() -> None:
    cluster = MemoryCluster()
    cluster.execute([CreateTopic(A, 1, 2, {}), CreateTopic(B, 3, 1, {})])
    cluster.write("a", 0, 5)
    ((leader, (_, follower)),) = placements(cluster, "a")
    assert leader is not None
    for broker in (leader, follower):
        cluster.stop_broker(broker)
    assert placements(cluster, "a") == [(None, (follower,))]
    assert cluster.log_spans([("a", 0)]) == {}
    cluster.commit("g", {("a", 0): 3})
    assert [(p.end, p.lag) for p in seen(cluster).positions] == [(None, None)]
    assert "the log of a " in seen(cluster).unread
    assert [p[0] for p in placements(cluster, "b")].count(None) == 2
    cluster.start_broker(follower)
    assert placements(cluster, "a") == [(follower, (follower,))]
    assert cluster.log_spans([("a", 0)]) == {("a", 0): LogSpan(0, 5)}


def test_partitions_without_a_leader_are_named_and_the_others_committed() -> None:
    cluster = MemoryCluster()
    cluster.execute([CreateTopic(A, 3, 1, {})])
    offline = next(p for p in cluster.health().partitions if p.partition == 1)
    assert offline.leader is not None
    cluster.stop_broker(offline.leader)
    commit = CommitInitialOffsets(G, {"a": "latest"})
    (outcome,) = cluster.execute([commit])
    assert isinstance(outcome, RequestRejected)
    assert outcome.code == "LEADER_NOT_AVAILABLE"
    assert "a:1" in outcome.message
    assert "a:0" not in outcome.message
    assert seen(cluster).committed == {("a", 0): 0, ("a", 2): 0}
    cluster.start_broker(offline.leader)
    assert cluster.execute([commit]) == [None]
    assert seen(cluster).committed == {("a", 0): 0, ("a", 1): 0, ("a", 2): 0}


def test_a_group_about_to_have_members_is_active(cluster: MemoryCluster) -> None:
    cluster.join("g", members=[], state="PreparingRebalance")
    (refusal,) = cluster.execute([ResetOffsets(G, {("a", 0): 0})])
    assert isinstance(refusal, RequestRejected)
    assert refusal.code == "NON_EMPTY_GROUP"


@pytest.mark.parametrize(
    ("protocol", "protocol_type", "assignor"),
    [
        ("classic", "consumer", "range"),
        ("consumer", "consumer", "uniform"),
        ("share", "share", "simple"),
        ("streams", "streams", ""),
    ],
)
def test_groups_are_of_every_protocol(
    cluster: MemoryCluster, protocol: str, protocol_type: str, assignor: str
) -> None:
    cluster.join("g", ["a"], protocol=protocol)
    told = seen(cluster)
    assert (told.protocol, told.protocol_type, told.assignor) == (protocol, protocol_type, assignor)


def test_reads_of_groups_lag_behind_changes_too(cluster: MemoryCluster) -> None:
    cluster.lag(1)
    cluster.execute([AlterConfigs(G, {"consumer.session.timeout.ms": "50000"})])
    assert [G in cluster.observe([G]).resources for _ in range(2)] == [False, True]


def test_records_go_with_their_topic(cluster: MemoryCluster) -> None:
    cluster.write("b", 0, 5)
    (uid,) = (observed.uid for observed in cluster.observe([B]).resources.values())
    cluster.execute([DeleteTopic(B, uid)])
    cluster.execute([CreateTopic(B, 1, 1, {})])
    assert cluster.log_spans([("b", 0)]) == {("b", 0): LogSpan(0, 0)}

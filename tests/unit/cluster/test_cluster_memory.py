"""Tests of the faults of the cluster in memory; its common behaviour is in the contract tests."""

from __future__ import annotations

import pytest

from kafkaform.core.errors import OutcomeUnknown, PermissionDenied
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import AlterConfigs
from kafkaform.resources.consumer_group.operations import ResetOffsets
from kafkaform.resources.groups import Group
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


def test_hidden_topic_is_invisible_and_cannot_be_changed(cluster: MemoryCluster) -> None:
    cluster.hide(A)
    observation = cluster.observe([A, B], also=lambda _: True)
    assert observation.resources.keys() == observation.inventory == {B}
    assert observation.invisible.keys() == {A}
    assert isinstance(cluster.validate([AlterConfigs(A, {"retention.ms": "1"})])[0], PermissionDenied)


def test_denied_change_is_neither_checked_nor_carried_out(cluster: MemoryCluster) -> None:
    cluster.deny(lambda ref: ref == A)
    changes = [AlterConfigs(A, {"nonsense": "1"}), AlterConfigs(B, {"retention.ms": "1"})]
    for outcomes in (cluster.validate(changes), cluster.execute(changes)):
        assert isinstance(outcomes[0], PermissionDenied)
        assert outcomes[1] is None
    assert cluster.observe([A]).resources.keys() == {A}
    cluster.deny()
    assert isinstance(cluster.execute([changes[1]])[0], PermissionDenied)


def test_failure_hits_the_next_operation_once(cluster: MemoryCluster) -> None:
    cluster.fail_next(UNANSWERED)
    change = AlterConfigs(A, {"retention.ms": "1"})
    assert cluster.validate([change]) == [None]
    assert cluster.execute([change]) == [UNANSWERED]
    assert cluster.executed == []
    assert cluster.execute([change]) == [None]
    assert cluster.executed == [change]


def test_failure_may_hide_a_carried_out_operation(cluster: MemoryCluster) -> None:
    cluster.fail_next(UNANSWERED, B, carried_out=True)
    changes = [AddPartitions(A, 3, 4), AddPartitions(B, 1, 2)]
    assert cluster.execute(changes) == [None, UNANSWERED]
    assert cluster.executed == changes
    assert cluster.observe([B]).resources[B].state["partitions"] == 2


def test_reassignment_takes_its_number_of_readings(cluster: MemoryCluster) -> None:
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


def test_layout_lags_behind_what_the_controllers_know(cluster: MemoryCluster) -> None:
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


def test_executed_holds_what_was_carried_out_and_nothing_else(cluster: MemoryCluster) -> None:
    (uid,) = (observed.uid for observed in cluster.observe([B]).resources.values())
    refused, done, gone = AddPartitions(A, 3, 2), AlterConfigs(A, {"retention.ms": "1"}), DeleteTopic(B, uid)
    cluster.validate([refused, done, gone])
    assert cluster.executed == []
    cluster.execute([gone, refused, done])
    assert cluster.executed == [done, gone]


# --- groups ----------------------------------------------------------------------------------------


def read_group(cluster: MemoryCluster, name: str = "g") -> Group:
    return cluster.groups([name]).groups[name]


def test_members_join_and_leave_behind_everybodys_back(cluster: MemoryCluster) -> None:
    cluster.commit("g", {("a", 0): 2})
    cluster.write("a", 0, 5)
    cluster.join("g", ["a"], members=5, protocol="consumer")
    active = read_group(cluster)
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
    left = read_group(cluster)
    assert (left.active, left.protocol, left.committed) == (False, "consumer", {("a", 0): 2})
    assert cluster.executed == []


def test_hidden_group_is_invisible_and_cannot_be_changed(cluster: MemoryCluster) -> None:
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

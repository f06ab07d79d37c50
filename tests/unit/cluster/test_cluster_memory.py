"""Faults of the cluster in memory that other tests would not notice; see the contract tests for the rest."""

from __future__ import annotations

import pytest

from kafkaform.core.errors import PermissionDenied
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import AlterConfigs
from kafkaform.resources.consumer_group.operations import ResetOffsets
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.memory_cluster.memory import MemoryCluster

A, B = ResourceRef("Topic", "a"), ResourceRef("Topic", "b")
G = ResourceRef("ConsumerGroup", "g")


@pytest.fixture
def cluster() -> MemoryCluster:
    """Two topics in three racks."""
    cluster = MemoryCluster()
    assert cluster.execute([CreateTopic(A, 3, 2, {}), CreateTopic(B, 1, 1, {})]) == [None, None]
    return cluster


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


def test_layout_lags_behind_reassignment(cluster: MemoryCluster) -> None:
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

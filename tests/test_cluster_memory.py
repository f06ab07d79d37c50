"""What a test can make the cluster in memory do; what every cluster does is in the contract tests."""

from __future__ import annotations

import pytest

from kafkaform.cluster.memory import MemoryCluster
from kafkaform.errors import OutcomeUnknown, PermissionDenied
from kafkaform.model import Broker, ResourceRef
from kafkaform.operations import AddPartitions, AlterConfigs, CreateTopic, DeleteTopic

A, B = ResourceRef("Topic", "a"), ResourceRef("Topic", "b")
UNANSWERED = OutcomeUnknown("no answer within 60 s")


@pytest.fixture
def cluster() -> MemoryCluster:
    """Two topics in three racks."""
    cluster = MemoryCluster()
    assert cluster.execute([CreateTopic(A, 3, 2, {}), CreateTopic(B, 1, 1, {})]) == [None, None]
    cluster.executed.clear()
    return cluster


def test_brokers_and_defaults_can_be_chosen() -> None:
    cluster = MemoryCluster("prod", (Broker(7, "r"),), {"retention.ms": "1000"})
    facts = cluster.facts()
    assert (facts.cluster_id, facts.brokers) == ("prod", (Broker(7, "r"),))
    assert facts.defaults is not None
    assert facts.defaults["retention.ms"] == "1000"
    assert facts.defaults["segment.ms"] == "604800000"
    cluster.execute([CreateTopic(A, 1, 1, {})])
    assert cluster.observe([A]).resources[A].effective["config.retention.ms"] == "1000"


def test_reads_lag_behind_every_change(cluster: MemoryCluster) -> None:
    cluster.lag(2)
    for total in (4, 5):
        before = cluster.observe([A]).resources[A].state["partitions"]
        cluster.execute([AddPartitions(A, total - 1, total)])
        seen = [cluster.observe([A]).resources[A].state["partitions"] for _ in range(3)]
        assert seen == [before, before, total]


def test_changes_in_quick_succession_become_visible_together(cluster: MemoryCluster) -> None:
    cluster.lag(2)
    cluster.execute([AddPartitions(A, 3, 4)])
    cluster.execute([AddPartitions(A, 4, 5)])
    assert [cluster.observe([A]).resources[A].state["partitions"] for _ in range(3)] == [3, 3, 5]


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


def test_partitions_may_have_different_replica_counts(cluster: MemoryCluster) -> None:
    cluster.reassign(A, [1, 3, 2])
    assert cluster.observe([A]).resources[A].state["replicationFactor"] == "1-3"
    cluster.reassign(A, [3, 3, 3])
    assert cluster.observe([A]).resources[A].state["replicationFactor"] == 3


def test_executed_holds_what_was_carried_out_and_nothing_else(cluster: MemoryCluster) -> None:
    (uid,) = (observed.uid for observed in cluster.observe([B]).resources.values())
    refused, done, gone = AddPartitions(A, 3, 2), AlterConfigs(A, {"retention.ms": "1"}), DeleteTopic(B, uid)
    cluster.validate([refused, done, gone])
    assert cluster.executed == []
    cluster.execute([gone, refused, done])
    assert cluster.executed == [done, gone]

"""A plan after which writes with acks=all would stop is refused."""

from __future__ import annotations

from kafkaform.config.settings import Settings
from kafkaform.core.model import Desired, Status
from kafkaform.core.plans import PlannedChange
from kafkaform.plan.planning import Request, build_plan
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import create_topic, declare_topic


def plan_change(memory: MemoryCluster, desired: Desired) -> PlannedChange:
    (change,) = build_plan(Request([desired]), memory, Settings(rules={"KF109": "off"}), None).changes
    return change


def test_fewer_replicas_than_min_isr_are_refused(memory: MemoryCluster) -> None:
    create_topic(memory, "a", 2, 3, min_insync_replicas="2")
    change = plan_change(memory, declare_topic("a", 2, 1, min_insync_replicas="2"))
    assert (change.status, str(change.reason).partition(" ")[0]) == (Status.REFUSED, "KF409:")
    assert "min.insync.replicas: 1" in str(change.remedy)
    meant = {"min-isr-cut from 2": "meant", "replication-factor-cut from 3": "meant"}
    lowered = plan_change(memory, declare_topic("a", 2, 1, min_insync_replicas="1", allow=meant))
    assert lowered.status is Status.PLANNED


def test_min_isr_is_not_raised_while_a_broker_is_down(memory: MemoryCluster) -> None:
    create_topic(memory, "a", 3, 2)
    memory.stop_broker(3)
    change = plan_change(memory, declare_topic("a", 3, 2, min_insync_replicas="2"))
    assert (change.status, str(change.reason).partition(" ")[0]) == (Status.REFUSED, "KF409:")
    memory.start_broker(3)
    assert plan_change(memory, declare_topic("a", 3, 2, min_insync_replicas="2")).status is Status.PLANNED

"""A plan after which writes with acks=all would stop, and its neighbours after which they go on."""

from __future__ import annotations

import pytest

from kafkaform.config.settings import Settings
from kafkaform.core.model import Desired, Facts, FieldChange, FieldValue, Status, Update
from kafkaform.core.partitions import Broker, PartitionState
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.core.values import replace
from kafkaform.plan.planning import Request, build_plan
from kafkaform.resources.replicas.facts import ReplicaFacts
from kafkaform.resources.replicas.layout import Layout, Reassignment
from kafkaform.rules import RuleContext, Stage, check
from tests.support.golden import wording
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.rules import only
from tests.support.plans.scenes import declared, made, topic

A = topic("a")
BROKERS = tuple(Broker(number) for number in (1, 2, 3))
MIN_ISR = "config.min.insync.replicas"


def field(path: str, before: FieldValue, after: FieldValue) -> FieldChange:
    return FieldChange(path, before, after, before, after)


def findings(
    desired: Desired,
    *fields: FieldChange,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    running: Reassignment | None = None,
    status: Status = Status.PLANNED,
) -> list[str]:
    """What KF409 says of a change of a topic of one partition."""
    states = (PartitionState("a", 0, 1, replicas, isr),)
    layout = Layout(BROKERS, {"a": states}, {} if running is None else {("a", 0): running})
    changes = (PlannedChange(Update(A, "id", fields), status),)
    scene = RuleContext(
        (desired,),
        Facts("c", config_defaults={"Topic": {}}).add_part(ReplicaFacts(layout=layout)),
        changes=changes,
    )
    return [found.message for found in check(scene, only("KF409"), (Stage.CHANGES,))]


TWO_OF_THREE = declared("a", 1, 3, min_insync_replicas="2")
LOWER = field("replicationFactor", 3, 2)
RAISE = field(MIN_ISR, "1", "2")


@pytest.mark.parametrize(
    ("desired", "fields"),
    [
        (declared("a", 1, 1, min_insync_replicas="2"), (field("replicationFactor", 3, 1),)),
        (declared("a", 1, 2, min_insync_replicas="3"), (field(MIN_ISR, "1", "3"),)),
    ],
)
def test_more_in_sync_than_there_are(desired: Desired, fields: tuple[FieldChange, ...]) -> None:
    assert findings(desired, *fields) == [wording]


def test_writes_stop_where_fewer_are_in_sync_than_required() -> None:
    assert findings(TWO_OF_THREE, RAISE, isr=(1,)) == [wording]
    assert findings(TWO_OF_THREE, RAISE, isr=(1, 3)) == []
    # Replicas that the plan adds count.
    add = field("placement", "1", "1:2:3")
    raised = (field("replicationFactor", 1, 3), add, RAISE)
    assert findings(TWO_OF_THREE, *raised, isr=(1,), replicas=(1,)) == []
    joined = Reassignment((1, 2, 3), frozenset({2, 3}), frozenset())
    assert findings(TWO_OF_THREE, *raised, isr=(1,), replicas=(1, 2, 3), running=joined) == []
    # A replica goes without which too few are in sync.
    both = declared("a", 1, 2, min_insync_replicas="2")
    drop = (LOWER, field("placement", "1:2:3", "1:2"))
    assert len(findings(both, *drop, isr=(1, 3))) == 1
    assert findings(both, *drop, isr=(1, 2)) == []
    assert findings(both, LOWER, field("placement", "1:2:3", "1:3"), isr=(1, 3)) == []


def test_what_is_no_news_or_not_about_replicas_is_left_alone() -> None:
    assert findings(TWO_OF_THREE, field("placement", "1:2:3", "1:3:2"), isr=(1,)) == []
    assert findings(TWO_OF_THREE, RAISE, isr=(1,), status=Status.REFUSED) == []
    assert findings(TWO_OF_THREE, field("config.retention.ms", "1", "2"), isr=(1,)) == []
    deferred = replace(RAISE, deferred="later")
    assert findings(TWO_OF_THREE, deferred, isr=(1,)) == []


def planned(memory: MemoryCluster, desired: Desired) -> Plan:
    return build_plan(Request([desired]), memory, Settings(rules={"KF109": "off"}), None)


def test_a_plan_that_would_stop_writes_is_refused_until_brokers_are_back() -> None:
    # Such a plan is refused.
    memory = MemoryCluster()
    made(memory, "a", 2, 3, min_insync_replicas="2")
    plan = planned(memory, declared("a", 2, 1, min_insync_replicas="2"))
    (change,) = plan.changes
    assert (change.status, change.reason, change.remedy) == (Status.REFUSED, wording, wording)
    meant = {"min-isr-cut from 2": "meant", "replication-factor-cut from 3": "meant"}
    lowered = planned(memory, declared("a", 2, 1, min_insync_replicas="1", allow=meant))
    assert lowered.changes[0].status is Status.PLANNED
    # A raise while a broker is down is refused.
    memory = MemoryCluster()
    made(memory, "a", 3, 2)
    memory.stop_broker(3)
    plan = planned(memory, declared("a", 3, 2, min_insync_replicas="2"))
    (change,) = plan.changes
    assert (change.status, change.reason) == (Status.REFUSED, wording)
    memory.start_broker(3)
    again = planned(memory, declared("a", 3, 2, min_insync_replicas="2"))
    assert again.changes[0].status is Status.PLANNED

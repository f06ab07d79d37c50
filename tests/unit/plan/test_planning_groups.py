"""Plans and applies of groups beside the topics they read, on a cluster in memory."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.cluster.protocol import Cluster
from kafkaform.config.settings import Settings
from kafkaform.core.apply_result import Result
from kafkaform.core.errors import Unreachable
from kafkaform.core.model import Create, Desired, Intent, Status, Update
from kafkaform.core.plans import Plan
from kafkaform.plan.planning import Request, build_plan
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.moves import fail, override
from tests.support.plans.scenes import (
    QUIET,
    FakeClock,
    create_topic,
    declare_reader,
    declare_topic,
    group_ref,
)

GROUP = group_ref()


def declare_absent_group() -> Desired:
    return Desired(GROUP, None, Intent(allow={"delete": "TICKET-1"}))


def plan_for(cluster: Cluster, *desired: Desired, **settings: Any) -> Plan:
    return build_plan(Request(desired), cluster, Settings(**{"rules": QUIET, **settings}), None)


def carry_out(plan: Plan, cluster: Cluster) -> dict[str, Result]:
    report = apply(plan, cluster, ApplyOptions(clock=FakeClock().clock))
    return {result.planned.ref.name: result.result for result in report.results}


def read_committed(cluster: Cluster) -> dict[tuple[str, int], int]:
    return cluster.groups(["g"]).groups["g"].committed


def list_codes(plan: Plan) -> set[str]:
    return {note.code for note in plan.diagnostics}


def test_group_starts_in_topics_of_own_plan(memory: MemoryCluster) -> None:
    create_topic(memory, "grown", partitions=1)
    memory.write("grown", 0, 7)
    group = declare_reader("grown", "new", start="latest")
    desired = [declare_topic("grown", 4), declare_topic("new", 2), group]
    plan = plan_for(memory, *desired)
    assert [type(change.change) for change in plan.changes] == [Update, Create, Create]
    assert set(carry_out(plan, memory).values()) == {Result.APPLIED}
    nothing = dict.fromkeys([*(("grown", n) for n in range(4)), ("new", 0), ("new", 1)], 0)
    assert read_committed(memory) == {**nothing, ("grown", 0): 7}
    assert plan_for(memory, *desired).changes == ()


def test_existing_offset_is_never_moved(memory: MemoryCluster) -> None:
    create_topic(memory, "a", partitions=2)
    memory.write("a", 0, 9)
    memory.commit("g", {("a", 0): 5})
    plan = plan_for(memory, declare_topic("a", 2), declare_reader("a", start="latest"))
    assert plan.changes == ()
    assert "KF406" in list_codes(plan)
    assert read_committed(memory) == {("a", 0): 5}


def test_deletion_of_a_group_needs_consent(memory: MemoryCluster) -> None:
    memory.commit("g", {})
    (change,) = plan_for(memory, Desired(GROUP, None)).changes
    assert change.status is Status.NEEDS_CONSENT


def test_consumer_using_assign_is_noted(memory: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    create_topic(memory, "a")
    memory.commit("g", {("a", 0): 5})
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        memory.commit("g", {("a", 0): 6})

    monkeypatch.setattr("kafkaform.plan.measuring.time.sleep", sleep)
    plan = plan_for(memory, declare_topic("a"), declare_absent_group())
    assert "KF407" in list_codes(plan)
    assert len(naps) == 1


def test_plan_does_not_need_groups(memory: MemoryCluster) -> None:
    create_topic(memory, "a")
    plan = plan_for(override(memory, groups=fail(Unreachable("no answer"))), declare_topic("a", 6))
    assert [change.status for change in plan.changes] == [Status.PLANNED]
    assert "KF419" in list_codes(plan)

"""Plans and applies of groups beside the topics they read, on a cluster in memory."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.cluster.protocol import Cluster
from kafkaform.config.settings import Settings
from kafkaform.core.apply_result import Result
from kafkaform.core.errors import RequestRejected, Unreachable
from kafkaform.core.model import Create, Delete, Desired, Intent, ResourceRef, Severity, Status, Update
from kafkaform.core.plans import Plan
from kafkaform.plan.planning import Request, build_plan
from kafkaform.resources.consent import Grant
from kafkaform.resources.name_globs import NameGlobs
from kafkaform.rules.catalogue import ProjectLimits
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.moves import fail, override
from tests.support.plans.scenes import (
    DAY,
    QUIET,
    WEEK,
    FakeClock,
    Watched,
    create_topic,
    declare_reader,
    declare_topic,
    group_ref,
    topic,
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


def test_first_offsets_in_missing_topic_are_refused(memory: MemoryCluster) -> None:
    create_topic(memory, "there")
    group = declare_reader("there", "new", "thre", consumer_session_timeout_ms="45000")
    plan = plan_for(memory, declare_topic("new"), group)
    change = next(change for change in plan.changes if change.ref == GROUP)
    assert change.status is Status.REFUSED
    assert "in thre: it does not exist, and no manifest that was read declares it" in str(change.reason)
    (note,) = (note for note in plan.diagnostics if note.code == "KF215")
    assert (note.severity, note.suggestion) == (Severity.ERROR, "did you mean 'there'?")
    assert carry_out(plan, memory) == {"new": Result.APPLIED, "g": Result.REFUSED}
    assert memory.groups(["g"]).groups == {}


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


def test_topics_are_verified_before_offsets_are_committed(memory: MemoryCluster) -> None:
    """Partitions that a broker has not heard of yet would get none."""
    create_topic(memory, "grown", partitions=1)
    memory.lag(3)
    watched = Watched(memory)
    plan = plan_for(watched, declare_topic("grown", 4), declare_topic("new"), declare_reader("grown", "new"))
    order: list[str] = []
    watched.before = lambda operations: order.append(type(operations[0]).__name__)
    watched.reading = lambda: order.append("read")
    carry_out(plan, watched)
    start = order.index("CommitInitialOffsets")
    assert {"CreateTopic", "AddPartitions"} <= set(order[:start])
    assert order[order.index("AddPartitions") + 1 : start].count("read") >= 3
    counts = (("grown", 4), ("new", 3))
    assert set(read_committed(memory)) == {(name, n) for name, count in counts for n in range(count)}


def test_existing_offset_is_never_moved(memory: MemoryCluster) -> None:
    create_topic(memory, "a", partitions=2)
    memory.write("a", 0, 9)
    memory.commit("g", {("a", 0): 5})
    plan = plan_for(memory, declare_topic("a", 2), declare_reader("a", start="latest"))
    assert plan.changes == ()
    assert "KF406" in list_codes(plan)
    assert read_committed(memory) == {("a", 0): 5}


def test_group_with_members_gets_no_first_offsets(memory: MemoryCluster) -> None:
    create_topic(memory, "a")
    memory.join("g", ["a"])
    plan = plan_for(memory, declare_topic("a"), declare_reader("a", consumer_session_timeout_ms="50000"))
    (change,) = plan.changes
    assert isinstance(change.change, Update)
    assert [field.path for field in change.change.fields] == ["config.consumer.session.timeout.ms"]
    assert carry_out(plan, memory) == {"g": Result.APPLIED}


def test_members_joined_since_plan_prevent_first_offsets(memory: MemoryCluster) -> None:
    create_topic(memory, "a")
    plan = plan_for(memory, declare_topic("a"), declare_reader("a"))
    memory.join("g", ["a"])
    assert carry_out(plan, memory) == {"g": Result.MOVED}
    assert read_committed(memory) == {}


def test_failed_topic_creation_fails_group(memory: MemoryCluster) -> None:
    desired = (declare_topic("new"), declare_reader("new"))
    plan = plan_for(memory, *desired)
    memory.fail_next(RequestRejected("no", code="POLICY_VIOLATION"), topic("new"))
    report = apply(plan, memory, ApplyOptions(clock=FakeClock().clock))
    assert [result.result for result in report.results] == [Result.FAILED, Result.FAILED]
    assert "new" in next(each for each in report.results if each.planned.ref == GROUP).message
    assert carry_out(plan_for(memory, *desired), memory) == {"new": Result.APPLIED, "g": Result.APPLIED}


def test_group_with_members_is_not_deleted(memory: MemoryCluster) -> None:
    create_topic(memory, "a")
    memory.join("g", ["a"])
    (change,) = plan_for(memory, declare_topic("a"), declare_absent_group()).changes
    assert change.status is Status.REFUSED
    assert "member" in (change.reason or "")


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


def test_plan_without_group_deletion_does_not_wait(
    memory: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(memory, "a")
    monkeypatch.setattr("kafkaform.plan.measuring.time.sleep", fail(AssertionError("it waited")))
    plan_for(memory, declare_topic("a", 6), declare_reader("a"))
    plan_for(memory, declare_absent_group())


def test_pruning_does_not_delete_groups(memory: MemoryCluster) -> None:
    memory.commit("g", {})
    desired = Desired(ResourceRef("ConsumerGroup", "h"), {})
    request = Request([desired], prune=True, allow=(Grant.parse("destructive"),))
    plan = build_plan(request, memory, Settings(owns=NameGlobs(("*",)), rules=QUIET), None)
    assert plan.unmanaged == (GROUP,)
    assert [change.ref.name for change in plan.changes if isinstance(change.change, Delete)] == []


def test_groups_are_read_only_if_needed(memory: MemoryCluster) -> None:
    create_topic(memory, "a", retention_ms=WEEK)
    deaf = override(memory, groups=fail(AssertionError("groups were asked for")))
    plan_for(deaf, declare_topic("a", retention_ms=DAY), declare_topic("new"))


def test_plan_does_not_need_groups(memory: MemoryCluster) -> None:
    create_topic(memory, "a")
    plan = plan_for(override(memory, groups=fail(Unreachable("no answer"))), declare_topic("a", 6))
    assert [change.status for change in plan.changes] == [Status.PLANNED]
    assert "KF419" in list_codes(plan)


def test_risky_changes_beyond_blast_radius_are_refused(memory: MemoryCluster) -> None:
    names = [f"t{number:02}" for number in range(12)]
    for name in names:
        create_topic(memory, name, retention_ms=WEEK)
    cut = [declare_topic(name, retention_ms=DAY, allow={"retention-cut": "T-1"}) for name in names[:5]]
    desired = [*cut, *(declare_topic(name, 6, retention_ms=WEEK) for name in names[5:])]
    create_topic(memory, "other", 3)
    refused = plan_for(memory, *desired, declare_topic("other", 2)).select_by_status(Status.REFUSED)
    # What cannot be done keeps its own reason.
    assert [change.ref.name for change in refused if "KF404" not in (change.reason or "")] == ["other"]
    plan = plan_for(memory, *desired)
    assert {change.ref.name for change in plan.select_by_status(Status.REFUSED)} == set(names[:5])
    assert {change.ref.name for change in plan.select_by_status(Status.PLANNED)} == set(names[5:])
    wider = plan_for(memory, *desired, limits=ProjectLimits(blast_radius=0.5))
    assert wider.select_by_status(Status.REFUSED) == ()
    warned = plan_for(memory, *desired, rules={**QUIET, "KF404": "warning"})
    assert warned.select_by_status(Status.REFUSED) == ()
    assert "KF404" in list_codes(warned)


def test_group_starts_in_a_topic_whose_change_failed(memory: MemoryCluster) -> None:
    create_topic(memory, "a")
    plan = plan_for(memory, declare_topic("a", 6), declare_reader("a"))
    memory.fail_next(RequestRejected("no (POLICY_VIOLATION)", code="POLICY_VIOLATION"), topic("a"))
    assert carry_out(plan, memory) == {"a": Result.FAILED, "g": Result.APPLIED}

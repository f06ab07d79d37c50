"""Successions on a cluster in memory: groups wait, and the predecessor stays, until its records are read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

import pytest

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.audit.entries import SuccessionStep
from kafkaform.core.acl_fields import write_path
from kafkaform.core.acls import Acl, ResourceType
from kafkaform.core.authorizer import AccessReading, AuthorizerSettings
from kafkaform.core.errors import ClusterError, NotOffered, Unreachable
from kafkaform.core.model import Desired, Intent, Location, ResourceRef, Severity, Status
from kafkaform.core.plans import Plan
from kafkaform.core.transactions import ProducerReading
from kafkaform.core.values import replace
from kafkaform.inspect.drift import DriftVerdict
from kafkaform.inspect.health_check import Examination
from kafkaform.inspect.successions import add_writers, read_successions
from kafkaform.report.history import render_history
from kafkaform.report.plan import render_plan
from kafkaform.resources.groups import Group, Position
from kafkaform.resources.succession import (
    GroupStage,
    Predecessor,
    Succession,
    SuccessionFacts,
    SuccessionVerdict,
)
from spark_validation.durations import parse_duration
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import entries_of, recorded_apply
from tests.support.plans.drift import drift_in
from tests.support.plans.scenes import (
    FakeClock,
    absent,
    create_topic,
    declare_reader,
    declare_topic,
    judge_saved,
    plan_for,
    topic,
)


def declare_successor(name: str, before: str) -> Desired:
    return replace(declare_topic(name, 1), intent=Intent(keyed=False, spec={"succeeds": before}))


SUCCESSOR = declare_successor("new", "old")
NEXT = declare_successor("next", "new")
GROUP = declare_reader("new")
READ_ALL = {("old", 0): 10, ("old", 1): 0}


@pytest.fixture
def cluster(memory: MemoryCluster) -> MemoryCluster:
    """A predecessor of two partitions with ten records of 1970, of which a group has read four."""
    create_topic(memory, "old", 2)
    create_topic(memory, "new", 1)
    memory.write("old", 0, 10)
    memory.commit("g", {("old", 0): 4})
    return memory


def plan(cluster: MemoryCluster) -> Plan:
    return plan_for(cluster, declare_topic("old", 2), SUCCESSOR, GROUP)


def follow(cluster: MemoryCluster) -> Succession:
    (succession,) = read_successions(cluster, [SUCCESSOR, GROUP], {"new": "old"}, pause=lambda _: None)
    return succession


def carry_out(cluster: MemoryCluster, *desired: Desired) -> list[str]:
    """Plan and apply manifests; returns the resources that changed."""
    plan = plan_for(cluster, *desired)
    assert apply(plan, cluster, ApplyOptions(clock=FakeClock().clock)).complete
    return [str(change.ref) for change in plan.changes]


def write_now(cluster: MemoryCluster, producer: int | None = None) -> None:
    cluster.write("old", 1, 1, time.time_ns() // 1_000_000, producer)


def test_group_starts_on_successor_after_end_of_predecessor(cluster: MemoryCluster) -> None:
    assert plan(cluster).changes == ()
    text = render_plan(plan(cluster), width=200).plain
    assert "the group does not start on new yet: 6 records of old are left to read" in text
    cluster.commit("g", READ_ALL)
    (change,) = plan(cluster).changes
    assert (str(change.ref), change.status) == ("ConsumerGroup/g", Status.PLANNED)


def test_group_waits_for_quiet_predecessor(cluster: MemoryCluster) -> None:
    write_now(cluster)
    cluster.commit("g", {("old", 0): 10, ("old", 1): 1})
    assert plan(cluster).changes == ()
    with cluster.transaction("new"):
        assert plan(cluster).changes == ()


def test_group_waits_for_open_transaction(cluster: MemoryCluster) -> None:
    cluster.commit("g", {("old", 0): 11, ("old", 1): 0})
    with cluster.transaction("old", 0):
        cluster.write("old", 0, 1)
        assert plan(cluster).changes == ()
        assert "transaction 'tx' (producer 1, epoch 0)" in follow(cluster).notes[0]


def test_group_waits_if_predecessor_is_not_read(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.commit("g", READ_ALL)

    def fail(*_: object, **__: object) -> Mapping[object, object]:
        raise Unreachable("no leader answers")

    monkeypatch.setattr(cluster, "log_spans", fail)
    assert plan(cluster).changes == ()


def test_new_group_does_not_wait(memory: MemoryCluster) -> None:
    create_topic(memory, "old", 2)
    memory.write("old", 0, 10)
    create_topic(memory, "new", 1)
    assert [str(change.ref) for change in plan(memory).changes] == ["ConsumerGroup/g"]


@pytest.mark.parametrize(
    ("committed", "written_ago", "status"),
    [
        ({("old", 0): 4}, None, Status.REFUSED),
        (READ_ALL, None, Status.PLANNED),
        ({("old", 0): 10, ("old", 1): 1}, "6d", Status.REFUSED),
        ({("old", 0): 10, ("old", 1): 1}, "8d", Status.PLANNED),
    ],
    ids=("unread", "over", "in the recovery window", "after it"),
)
def test_predecessor_is_deleted_after_succession(
    cluster: MemoryCluster, committed: Mapping[tuple[str, int], int], written_ago: str | None, status: Status
) -> None:
    if written_ago is not None:
        cluster.write("old", 1, 1, time.time_ns() // 1_000_000 - parse_duration(written_ago))
    cluster.commit("g", {**committed, ("new", 0): 0})
    changes = plan_for(cluster, absent("old"), SUCCESSOR, GROUP).changes
    assert [(change.ref, change.status) for change in changes] == [(topic("old"), status)]


@pytest.mark.parametrize(
    ("committed", "joined", "stage", "verdict"),
    [
        ({("old", 0): 4}, None, GroupStage.STOPPED, SuccessionVerdict.STUCK),
        ({("old", 0): 4}, "old", GroupStage.READING, SuccessionVerdict.UNDER_WAY),
        (READ_ALL, None, GroupStage.READY, SuccessionVerdict.UNDER_WAY),
        (READ_ALL, "old", GroupStage.READY, SuccessionVerdict.UNDER_WAY),
        ({**READ_ALL, ("new", 0): 0}, None, GroupStage.MOVED, SuccessionVerdict.OVER),
        ({("old", 0): 4, ("new", 0): 0}, None, GroupStage.MOVED_EARLY, SuccessionVerdict.STUCK),
    ],
)
def test_stage_of_group_follows_offsets_and_members(
    cluster: MemoryCluster,
    committed: Mapping[tuple[str, int], int],
    joined: str | None,
    stage: GroupStage,
    verdict: SuccessionVerdict,
) -> None:
    cluster.commit("g", committed)
    if joined is not None:
        cluster.join("g", [joined])
    succession = follow(cluster)
    assert ([group.stage for group in succession.groups], succession.verdict) == ([stage], verdict)


def test_late_producer_holds_succession(cluster: MemoryCluster) -> None:
    cluster.commit("g", {**READ_ALL, ("new", 0): 0})
    write_now(cluster)
    (group,) = follow(cluster).groups
    assert (group.stage, group.remaining) == (GroupStage.MOVED_EARLY, 1)


def test_producers_of_late_records_are_named(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.write("old", 0, 1, producer=3)  # long ago
    assert follow(cluster).notes == []
    write_now(cluster)
    assert "only idempotent and transactional ones" in follow(cluster).notes[0]
    write_now(cluster, producer=4)
    succession = follow(cluster)
    assert succession.notes[0].endswith("in partition 1, from producer 4, epoch 0")
    assert succession.predecessor is not None
    assert [(p.id, p.partition, p.sequence) for p in succession.predecessor.producers] == [(4, ("old", 1), 0)]
    monkeypatch.setattr(cluster, "producers", lambda _: ProducerReading((), "no broker offers it"))
    assert follow(cluster).notes[0].endswith("no broker offers it")


def test_undeclared_group_is_named(cluster: MemoryCluster) -> None:
    cluster.commit("other", READ_ALL)
    stages = {group.name: group.stage for group in follow(cluster).groups}
    assert stages == {"g": GroupStage.STOPPED, "other": GroupStage.UNDECLARED}


def test_deleted_predecessor_ends_succession(memory: MemoryCluster) -> None:
    create_topic(memory, "new", 1)
    succession = follow(memory)
    assert succession.verdict is SuccessionVerdict.OVER
    assert "is gone" in succession.notes[0]


@pytest.mark.parametrize("change", ["start", "deletion"])
def test_saved_succession_is_refused_after_new_records(cluster: MemoryCluster, change: str) -> None:
    cluster.commit("g", READ_ALL)
    saved = plan(cluster) if change == "start" else plan_for(cluster, absent("old"), SUCCESSOR)
    assert [planned.status for planned in saved.changes] == [Status.PLANNED]
    write_now(cluster)
    judged = judge_saved(saved, cluster, intents={SUCCESSOR.ref: SUCCESSOR.intent}).plan
    assert ["KF120" in str(planned.reason) for planned in judged.changes] == [True]


def test_succession_under_way_is_noted_and_no_drift(cluster: MemoryCluster) -> None:
    drift = drift_in(cluster, declare_topic("old", 2), SUCCESSOR, GROUP)
    assert (drift.verdict, [note.code for note in drift.notes]) == (DriftVerdict.CLEAN, ["KF218"])


@pytest.mark.parametrize(("joined", "severity"), [(None, Severity.WARNING), ("old", Severity.INFO)])
def test_doctor_has_one_line_of_a_succession(
    cluster: MemoryCluster, joined: str | None, severity: Severity, monkeypatch: pytest.MonkeyPatch
) -> None:
    if joined is not None:
        cluster.join("g", [joined])
    monkeypatch.setattr(time, "sleep", pytest.fail)
    examination = Examination((declare_topic("old", 2), SUCCESSOR, GROUP), only=frozenset({"KF314"}))
    (finding,) = examination.examine(cluster).findings
    assert (finding.code, finding.severity) == ("KF314", severity)
    assert "g is" in finding.message


def test_doctor_counts_nothing_as_over_that_it_cannot_read(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Mapping[object, object]:
        raise Unreachable("no leader answers")

    cluster.commit("g", {**READ_ALL, ("new", 0): 0})
    examination = Examination((declare_topic("old", 2), SUCCESSOR, GROUP))
    monkeypatch.setattr(cluster, "groups", fail)
    assert "under way" in str([f.message for f in examination.examine(cluster).findings])
    monkeypatch.setattr(cluster, "observe", fail)
    assert "under way" in str([f.message for f in examination.examine(cluster).findings])


def test_principals_that_may_write_are_named_with_their_manifests(cluster: MemoryCluster) -> None:
    def allow(principal: str, name: str, operation: str = "Write", *, is_prefix: bool = False) -> Acl:
        return Acl(ResourceType.TOPIC, name, is_prefix, principal, "*", operation, is_allowed=True)

    location = Location("access.yaml", 7)
    paths = [write_path(allow("User:a", "old")), write_path(allow("User:a", "new"))]
    access = Desired(ResourceRef("Access", "User:a"), dict.fromkeys(paths, "granted"), location=location)
    live = (
        allow("User:a", "old"),
        allow("User:b", "o", "All", is_prefix=True),
        allow("User:c", "old", "Read"),
    )
    reading = AccessReading(live, AuthorizerSettings())
    (succession,) = add_writers([follow(cluster)], [access], lambda: reading)
    assert [(each.principal, each.location) for each in succession.writers] == [
        ("User:a", location),
        ("User:b", None),
    ]
    assert succession.writers[1].right == "All on topics that start with o"

    def fail(error: ClusterError) -> AccessReading:
        raise error

    for error, notes in ((NotOffered("ACLs"), 0), (Unreachable("no answer"), 1)):
        (succession,) = add_writers([follow(cluster)], [access], partial(fail, error))
        assert (succession.writers, len(succession.notes)) == ((), notes)


def test_record_has_each_step(cluster: MemoryCluster) -> None:
    cluster.commit("g", READ_ALL)
    run, _ = recorded_apply(plan(cluster), cluster)
    entry = entries_of(cluster, run)["g"]
    assert entry.successions == (SuccessionStep("old", "new", "first offsets"),)
    page = render_history([entry], 0, verbose=False)
    assert "succession: first offsets, new succeeds old" in page.plain
    run, _ = recorded_apply(plan_for(cluster, absent("old"), SUCCESSOR, GROUP), cluster)
    (step,) = entries_of(cluster, run)["old"].successions
    assert step.step == "predecessor deleted"


def test_second_succession_begins_after_first(cluster: MemoryCluster) -> None:
    """The tombstone of the first predecessor, and `succeeds` of the second, may stay meanwhile."""
    cluster.commit("g", {**READ_ALL, ("new", 0): 0})
    manifests = absent("old"), SUCCESSOR, NEXT, declare_reader("next")
    cluster.write("new", 0, 5)
    assert carry_out(cluster, *manifests) == ["Topic/next", "Topic/old"]
    assert carry_out(cluster, *manifests) == []
    cluster.commit("g", {("new", 0): 5})
    assert carry_out(cluster, *manifests) == ["ConsumerGroup/g"]
    assert carry_out(cluster, absent("old"), absent("new"), *manifests[2:]) == ["Topic/new"]
    assert cluster.groups(["g"]).groups["g"].committed == {("next", 0): 0}


@pytest.mark.parametrize("last", ["next", "last"])
def test_group_does_not_skip_a_succession(cluster: MemoryCluster, last: str) -> None:
    create_topic(cluster, "next", 1)
    create_topic(cluster, "last", 1)
    cluster.commit("g", READ_ALL)
    successors = SUCCESSOR, NEXT, declare_successor("last", "next")
    plan = plan_for(cluster, declare_topic("old", 2), *successors, declare_reader(last))
    assert plan.changes == ()
    (note,) = (note for note in plan.diagnostics if note.code == "KF218")
    assert "it reads old, and has not moved to" in note.message


def test_later_succession_waits_for_earlier_groups(cluster: MemoryCluster) -> None:
    create_topic(cluster, "next", 1)
    cluster.commit("g", READ_ALL)
    desired = [SUCCESSOR, NEXT, declare_reader("next")]
    _, later = read_successions(cluster, desired, {"new": "old", "next": "new"})
    assert later.verdict is SuccessionVerdict.UNDER_WAY
    assert later.notes == ["keep new: g has not moved from old yet"]
    cluster.commit("g", {("new", 0): 0, ("next", 0): 0})
    _, later = read_successions(cluster, desired, {"new": "old", "next": "new"})
    assert later.verdict is SuccessionVerdict.OVER


def test_group_outside_a_circle_of_successors_does_not_wait() -> None:
    circle = {"a": "b", "b": "c", "c": "a"}
    facts = SuccessionFacts({name: Predecessor(before, name) for name, before in circle.items()})
    assert facts.find_waits(Group("g", "classic", "Empty", positions=(Position("other", 0, 4),))) == {}


def test_succession_is_not_over_if_a_declared_group_is_hidden(cluster: MemoryCluster) -> None:
    cluster.hide(GROUP.ref)
    succession = follow(cluster)
    assert succession.verdict is SuccessionVerdict.UNDER_WAY
    assert "some groups may be missing" in succession.notes[0]

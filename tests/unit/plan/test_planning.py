"""Making a plan: which cluster, what rules and brokers say, groups beside their topics, and prices."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.audit.journal import open_journal
from kafkaform.cli.plan import exit_code
from kafkaform.cluster.protocol import Cluster
from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.settings import AuditSettings, ClusterSettings, Costs, Settings
from kafkaform.core.errors import (
    ClusterError,
    KafkaformError,
    NotOffered,
    OutcomeUnknown,
    PermissionDenied,
    Unreachable,
)
from kafkaform.core.model import (
    Create,
    Delete,
    Desired,
    Intent,
    Observation,
    ResourceRef,
    Severity,
    Status,
    Update,
)
from kafkaform.core.operations import Operation
from kafkaform.core.plans import AffectedConsumer, CostChange
from kafkaform.core.rights import Right
from kafkaform.core.values import replace
from kafkaform.plan import validation
from kafkaform.plan.conclusion import narrow
from kafkaform.plan.plan_file import plan_from_json, plan_to_json
from kafkaform.plan.planning import Request, build_plan, make_plan
from kafkaform.plan.summary import describe_cost
from kafkaform.report.plan import render_plan, render_plan_markdown
from kafkaform.resources.topic.operations import CreateTopic, DeleteTopic
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import ALICE, HEADER, recorded_apply
from tests.support.plans.moves import fail, override
from tests.support.plans.scenes import (
    DAY,
    QUIET,
    WEEK,
    FakeClock,
    Watched,
    absent,
    create_topic,
    declare_reader,
    declare_topic,
    group_ref,
    list_statuses,
    plan_for,
    save_plan,
    topic,
)


def test_another_cluster_is_refused_before_a_reading(memory: MemoryCluster) -> None:
    watched, target = Watched(memory), ClusterSettings("prod", ClientProperties(), cluster_id="other")
    with pytest.raises(KafkaformError, match="id memory, but other is configured") as error:
        build_plan(Request([declare_topic("a")]), watched, Settings(), target)
    assert error.value.hint
    assert (watched.readings, watched.checks, watched.requests) == ([], [], [])


def test_rule_error_refuses_resource(memory: MemoryCluster) -> None:
    create_topic(memory, "bad", 3, 3)
    wrong = declare_topic("bad", 6, 3, min_insync_replicas="4")
    watched = Watched(memory)
    plan = plan_for(watched, wrong, declare_topic("good"))
    assert list_statuses(plan) == {"bad": Status.REFUSED, "good": Status.PLANNED}
    (bad, _) = plan.changes
    assert str(bad.reason).startswith("KF109: ")
    assert bad.remedy == plan.diagnostics[0].suggestion
    assert [d.code for d in plan.diagnostics] == ["KF109"]
    assert {operation.ref.name for batch in watched.checks for operation in batch} == {"good"}
    warned = build_plan(Request([wrong]), MemoryCluster(), Settings(rules={"KF109": "warning"}), None)
    assert list_statuses(warned) == {"bad": Status.PLANNED}
    assert [d.severity for d in warned.diagnostics] == [Severity.WARNING]


def test_operation_rejected_by_brokers_is_refused(memory: MemoryCluster) -> None:
    for name in ("cut", "old"):
        create_topic(memory, name, retention_ms=WEEK)
    cut = declare_topic("cut", retention_ms=DAY, nonsense_key="1")
    grown = declare_topic("old", 6, retention_ms=WEEK, nonsense_key="1")
    plan = plan_for(memory, declare_topic("a", 3, 9), declare_topic("b"), cut, grown)
    refused = dict.fromkeys(("a", "cut", "old"), Status.REFUSED)
    assert list_statuses(plan) == {**refused, "b": Status.PLANNED}
    reasons = {change.ref.name: change.reason for change in plan.changes}
    assert "(INVALID_REPLICATION_FACTOR)" in (reasons["a"] or "")
    assert "nonsense.key" in (reasons["old"] or "")
    assert plan.broker_validated


def hide_until(memory: MemoryCluster, ref: ResourceRef, shown_at: int) -> Watched:
    """Return a cluster that shows a topic, of which it knows, only from some reading on."""
    readings = count(1)

    def hide(read: Callable[..., Observation]) -> Callable[..., Observation]:
        def observe(*arguments: Any, **options: Any) -> Observation:
            found = read(*arguments, **options)
            if next(readings) >= shown_at:
                return found
            resources = {key: live for key, live in found.resources.items() if key != ref}
            return replace(found, resources=resources, inventory=found.inventory - {ref})

        return observe

    return override(memory, observe=hide(memory.observe), observe_fields=hide(memory.observe_fields))


@pytest.mark.parametrize(("shown_at", "shown"), [(4, True), (99, False)])
def test_topic_being_created_is_read_again(
    memory: MemoryCluster, shown_at: int, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(validation, "time", SimpleNamespace(monotonic=clock.clock.now, sleep=clock.sleep))
    create_topic(memory, "new", 3)
    messages: list[str] = []
    cluster = hide_until(memory, topic("new"), shown_at)
    request = Request((declare_topic("new", 6), declare_topic("mine", 1)), inventory=())
    plan = build_plan(request, cluster, Settings(rules=QUIET), None, tell=messages.append)
    assert [(change.ref.name, type(change.change), change.status) for change in plan.changes] == [
        ("mine", Create, Status.PLANNED),
        *([("new", Update, Status.PLANNED)] if shown else []),
    ]
    findings = [finding for finding in plan.diagnostics if finding.ref == topic("new")]
    assert [finding.code for finding in findings] == ([] if shown else ["KF410"])
    assert all("is being created" in finding.message for finding in findings)
    assert plan.unknown == (() if shown else (topic("new"),))
    (note,) = messages
    assert "1 new topic" in note
    assert (clock.naps[:2], max(clock.naps) <= 2) == ([0.25, 0.375], True)
    assert (sum(clock.naps) >= validation.SHOWN_TIMEOUT_S) is not shown
    assert exit_code(plan, detailed=False, strict=True) == (0 if shown else 1)


def test_missing_alter_right_is_noted_as_optional(memory: MemoryCluster) -> None:
    def lack_right(operation: Operation) -> ClusterError:
        right = Right("AlterConfigs", "topic", operation.ref.name)
        return PermissionDenied(f"it lacks {right.operation} on {right.name}", right=right)

    cluster = override(memory, validate=lambda operations: [*map(lack_right, operations)])
    plan = plan_for(cluster, declare_topic("a"), declare_topic("b"), declare_topic("c"))
    assert list_statuses(plan) == dict.fromkeys("abc", Status.PLANNED)
    (note,) = plan.diagnostics
    assert note.code == "KF414"
    assert "3 of 3 operations: it lacks AlterConfigs on a, and on b, c" in note.message
    assert "an account that only plans does not need it" in str(note.suggestion)
    assert "--operation AlterConfigs --topic a" in str(note.suggestion)


@pytest.mark.parametrize("error", [OutcomeUnknown("no answer in time"), Unreachable("connection lost")])
def test_missing_validation_response_is_not_refusal(memory: MemoryCluster, error: ClusterError) -> None:
    objecting = override(memory, validate=lambda operations: [error] * len(operations))
    for names in ("a", "ab"):
        plan = plan_for(objecting, *map(declare_topic, names))
        assert (list_statuses(plan), plan.broker_validated) == (dict.fromkeys(names, Status.PLANNED), False)
        assert [d.code for d in plan.diagnostics] == ["KF414"]


def test_operation_that_no_broker_offers_is_refused(memory: MemoryCluster) -> None:
    objection = NotOffered("topics")
    objecting = override(memory, validate=lambda operations: [objection] * len(operations))
    (change,) = plan_for(objecting, declare_topic("a")).changes
    assert (change.status, change.reason) == (Status.REFUSED, objection.message)


def test_plan_does_not_need_sizes(memory: MemoryCluster) -> None:
    create_topic(memory, "cut", retention_ms=WEEK)
    blind = override(memory, sizes=fail(PermissionDenied("not yours")))
    plan = plan_for(blind, declare_topic("cut", retention_ms=DAY))
    assert list_statuses(plan) == {"cut": Status.NEEDS_CONSENT}
    assert plan.broker_validated
    notes = [(d.code, d.message) for d in plan.diagnostics]
    assert ("KF416", "could not read the sizes of topics: not yours") in notes


def test_unreadable_data_is_not_judged_as_empty(memory: MemoryCluster) -> None:
    create_topic(memory, "gone", 3)
    (planned,) = plan_for(override(memory, sizes=fail(Unreachable("no answer"))), absent("gone")).changes
    assert isinstance(planned.change, Delete)
    assert planned.change.assessment.data_unread
    assert "at least 0 B; 3 of 3 partitions could not be read" in planned.change.assessment.reason


def read_committed(cluster: Cluster) -> dict[tuple[str, int], int]:
    return cluster.groups(["g"]).groups["g"].committed


def test_group_starts_in_topics_of_own_plan(memory: MemoryCluster) -> None:
    create_topic(memory, "grown", partitions=1)
    memory.write("grown", 0, 7)
    group = declare_reader("grown", "new", start="latest")
    desired = [declare_topic("grown", 4), declare_topic("new", 2), group]
    plan = plan_for(memory, *desired)
    assert [type(change.change) for change in plan.changes] == [Update, Create, Create]
    assert apply(plan, memory, ApplyOptions(clock=FakeClock().clock)).complete
    nothing = dict.fromkeys([*(("grown", n) for n in range(4)), ("new", 0), ("new", 1)], 0)
    assert read_committed(memory) == {**nothing, ("grown", 0): 7}
    assert plan_for(memory, *desired).changes == ()


def test_existing_offset_is_never_moved(memory: MemoryCluster) -> None:
    create_topic(memory, "a", partitions=2)
    memory.write("a", 0, 9)
    memory.commit("g", {("a", 0): 5})
    plan = plan_for(memory, declare_topic("a", 2), declare_reader("a", start="latest"))
    assert plan.changes == ()
    assert "KF406" in {note.code for note in plan.diagnostics}
    assert read_committed(memory) == {("a", 0): 5}


def test_deletion_of_a_group_needs_consent(memory: MemoryCluster) -> None:
    memory.commit("g", {})
    (change,) = build_plan(Request([Desired(group_ref(), None)]), memory, Settings(), None).changes
    assert change.status is Status.NEEDS_CONSENT


def test_consumer_using_assign_is_noted(memory: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    lines: list[str] = []
    create_topic(memory, "a")
    for name in "ghij":
        memory.commit(name, {("a", 0): 5})
    memory.commit("idle", {})

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        memory.commit("g", {("a", 0): 5 + len(naps)})

    def delete_groups(*names: str, reading: bool = False) -> set[str]:
        desired = [declare_topic("a"), *(Desired(group_ref(name), None) for name in names)]
        request = Request(desired, reading=reading)
        plan = build_plan(request, memory, Settings(rules=QUIET), None, tell=lines.append)
        return {note.code for note in plan.diagnostics}

    monkeypatch.setattr("kafkaform.plan.measuring.time.sleep", sleep)
    assert "KF407" in delete_groups(*"ghi", "idle")
    assert "KF407" in delete_groups(*"ghij")
    assert [re.findall(r"\b[g-j]\b|idle|…", line) for line in lines] == [[*"ghi"], [*"ghi…"]]
    delete_groups("g", reading=True)
    delete_groups("idle")
    assert len(naps) == 2


@pytest.mark.parametrize(
    ("desired", "dropped", "read"),
    [
        ([declare_topic("a", 6)], [], True),
        (
            [declare_topic("a", retention_ms="6048000000"), declare_topic("new"), Desired(group_ref(), None)],
            [],
            False,
        ),
        ([], [topic("a")], True),
        ([], [topic("gone"), group_ref()], False),
    ],
)
def test_groups_and_sizes_are_read_where_they_matter(
    memory: MemoryCluster, desired: list[Desired], dropped: list[ResourceRef], read: bool
) -> None:
    create_topic(memory, "a")
    memory.commit("g", {})
    watched = Watched(memory)
    result = make_plan(Request(desired, dropped=frozenset(dropped)), watched, Settings(rules=QUIET), None)
    assert bool(result.context.groups) is read
    assert len(watched.weighed) == (topic("a") in dropped)


AUDITED = ClusterSettings("dev", ClientProperties())


def test_recent_offsets_on_record_need_consent(memory: MemoryCluster) -> None:
    create_topic(memory, "a")
    assert plan_for(override(memory, read_audit=fail(Unreachable("no"))), target=AUDITED).diagnostics == ()
    first = plan_for(memory, declare_topic("a"), declare_reader("a"), target=AUDITED)
    assert recorded_apply(first, memory)[1].complete
    del memory._contents.groups["g"]
    again = declare_topic("a", 4), declare_reader("a")
    assert list_statuses(plan_for(memory, *again, target=AUDITED))["g"] is Status.NEEDS_CONSENT
    assert recorded_apply(plan_for(memory, absent("a")), memory)[1].complete
    create_topic(memory, "a")
    assert list_statuses(plan_for(memory, *again, target=AUDITED))["g"] is Status.PLANNED


@pytest.mark.parametrize(
    ("recreated", "minutes", "status"),
    [(False, 70, Status.NEEDS_CONSENT), (False, 50, Status.PLANNED), (True, 70, Status.PLANNED)],
)
def test_offsets_of_killed_apply_need_consent_after_an_hour(
    memory: MemoryCluster, recreated: bool, minutes: int, status: Status
) -> None:
    uid = create_topic(memory, "a")
    desired = declare_topic("a")
    if recreated:
        desired = replace(desired, intent=Intent(keyed=False, spec={"recreate": uid}))
    plan = plan_for(memory, desired, declare_reader("a"), allow="destructive")
    journal = open_journal(memory, AuditSettings(), plan, HEADER, "sha256:0", ALICE)
    journal._clock = lambda: datetime.now(UTC) - timedelta(minutes=minutes)
    journal.intend(plan.changes)
    if recreated:
        memory.execute([DeleteTopic(topic("a"), uid)])
        create_topic(memory, "a")
    assert list_statuses(plan_for(memory, desired, declare_reader("a"), target=AUDITED))["g"] is status


def test_plan_does_not_need_groups(memory: MemoryCluster) -> None:
    create_topic(memory, "a")
    plan = plan_for(override(memory, groups=fail(Unreachable("no answer"))), declare_topic("a", 6))
    assert [change.status for change in plan.changes] == [Status.PLANNED]
    assert "KF419" in {note.code for note in plan.diagnostics}


def test_plan_names_teams_and_affected_consumers(memory: MemoryCluster) -> None:
    def declare_team(desired: Desired, name: str, team: str, *topics: str) -> Desired:
        intent = Intent(labels={"team": team}, spec={"topics": list(topics)})
        return replace(desired, ref=ResourceRef(desired.ref.kind, name), intent=intent)

    create_topic(memory, "same")
    group = Desired(group_ref(), {})
    desired = [
        declare_team(declare_topic("", min_insync_replicas="4"), "changes", "checkout"),
        declare_team(declare_topic(""), "same", "platform"),
        declare_team(group, "both", "analytics", "same", "changes"),
        declare_team(group, "none", "platform", "same"),
        declare_team(replace(group, state=None), "gone", "platform", "changes"),
    ]
    plan = build_plan(Request(desired), memory, Settings(rules={"KF109": "warning"}), None)
    assert [(str(change.ref), change.team) for change in plan.changes] == [("Topic/changes", "checkout")]
    assert plan.readers == (AffectedConsumer(group_ref("both"), ("changes",), "analytics"),)
    assert save_plan(plan).readers == plan.readers
    assert narrow(plan, ["Topic/other"]).readers == ()
    about = {(found.code, str(found.ref)) for found in plan.diagnostics}
    assert {("KF109", "Topic/changes"), ("KF420", "ConsumerGroup/both")} <= about
    assert save_plan(plan).diagnostics == plan.diagnostics
    part = narrow(plan, ["ConsumerGroup/both"])
    assert {str(found.ref) for found in part.diagnostics} == {"ConsumerGroup/both"}


def test_risky_changes_beyond_blast_radius_are_refused(memory: MemoryCluster) -> None:
    names = [f"t{number:02}" for number in range(12)]
    for name in names:
        create_topic(memory, name, retention_ms=WEEK)
    cut = [declare_topic(name, retention_ms=DAY, allow={"retention-cut": "T-1"}) for name in names[:5]]
    desired = [*cut, *(declare_topic(name, 6, retention_ms=WEEK) for name in names[5:])]
    create_topic(memory, "other", 3)
    watched = Watched(memory)
    plan = plan_for(watched, *desired, declare_topic("other", 2), target=AUDITED)
    refused = plan.select_by_status(Status.REFUSED)
    # What cannot be done keeps its own reason.
    expected = {**dict.fromkeys(names[:5], True), "other": False}
    assert {change.ref.name: "KF404" in (change.reason or "") for change in refused} == expected
    assert [{live.ref.name for live in weighed} for weighed in watched.weighed] == [{*expected}]


GB = 10**9
TARGET = ClusterSettings("prod", ClientProperties({}), costs=Costs("EUR", 0.5, 0.25))


def price(*desired: Desired) -> CostChange:
    with MemoryCluster() as cluster:
        cluster.execute([CreateTopic(topic("t"), 4, 3, {})])
        cluster.fill(topic("t"), 4 * GB)
        plan = plan_for(cluster, *desired, target=TARGET, prune="t")
    assert plan.cost is not None
    return plan.cost


@pytest.mark.parametrize(
    ("desired", "per_month", "replicas", "added", "uncounted"),
    [
        # 12 replicas of 0.25, and 12 GB of 0.5.
        ((), "-9.00", -12, -12 * GB, 0),
        ((declare_topic("t", 4, 3),), "0.00", 0, 0, 0),
        ((declare_topic("t", 8, 3),), "3.00", 12, 0, 0),
        ((declare_topic("t", 4, 2),), "-3.00", -4, -4 * GB, 0),
        ((declare_topic("t", 4, 3, retention_bytes=str(GB // 2)),), "-3.00", 0, -6 * GB, 0),
        ((declare_topic("t", 4, 3, retention_ms="1000"),), "0.00", 0, 0, 1),
        ((declare_topic("t", 4, 3), declare_topic("new", 6, 3)), "4.50", 18, 0, 1),
    ],
)
def test_plan_is_priced_by_replicas_and_live_sizes(
    desired: tuple[Desired, ...], per_month: str, replicas: int, added: int, uncounted: int
) -> None:
    cost = price(*desired)
    assert (cost.per_month, cost.replicas, cost.bytes) == (per_month, replicas, added)
    assert len(cost.uncounted) == uncounted


def test_cost_is_in_every_report_and_saved_plan() -> None:
    with MemoryCluster() as cluster:
        plan = plan_for(cluster, declare_topic("new", 6, 3), target=TARGET)
        unpriced = plan_for(cluster, target=replace(TARGET, costs=None))
    line = "Costs 4.50 EUR a month (18 more replicas); not counted: the data of 1 new topic"
    assert plan.cost is not None
    assert describe_cost(plan.cost) == line
    assert line in render_plan(plan, HEADER).plain
    assert line in render_plan_markdown(plan, HEADER)
    assert plan_from_json(plan_to_json(plan, HEADER), "plan.json")[0].cost == plan.cost
    assert unpriced.cost is None

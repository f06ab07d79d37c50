"""Making a plan, and judging a saved one again: what rules, brokers, measured skew and the cluster say."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest
from syrupy.assertion import SnapshotAssertion

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
    SkewReportError,
    Unreachable,
)
from kafkaform.core.model import (
    SAFE,
    Change,
    Create,
    Delete,
    Desired,
    Diagnostic,
    Intent,
    Observation,
    ResourceRef,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Update,
)
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.core.plans import AffectedConsumer, Plan, PlannedChange
from kafkaform.core.rights import Right
from kafkaform.core.values import replace
from kafkaform.plan import validation
from kafkaform.plan.conclusion import narrow
from kafkaform.plan.plan_file import plan_from_json, plan_to_json
from kafkaform.plan.planning import Request, build_plan, make_plan
from kafkaform.plan.policy import Policy
from kafkaform.plan.summary import describe_cost
from kafkaform.report.plan import render_plan, render_plan_markdown
from kafkaform.resources import KINDS
from kafkaform.resources.consent import Grant
from kafkaform.resources.topic.operations import DeleteTopic
from kafkaform.resources.values import fields_of
from kafkaform.rules.catalogue import ProjectLimits
from spark_validation.results import Estimate, TopicResult
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
    judge_by,
    judge_saved,
    list_statuses,
    plan_for,
    save_plan,
    topic,
)
from tests.support.skew.scenes import (
    FINE,
    SURE,
    UNSURE,
    build_result,
    declare_policy,
    empty,
    hot,
    report,
    what_if,
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


@pytest.mark.parametrize(
    ("error", "status", "codes"),
    [
        (OutcomeUnknown("no answer in time"), Status.PLANNED, ["KF414"]),
        (Unreachable("connection lost"), Status.PLANNED, ["KF414"]),
        (NotOffered("topics"), Status.REFUSED, []),
    ],
)
def test_missing_validation_is_refusal_if_not_offered(
    memory: MemoryCluster, error: ClusterError, status: Status, codes: list[str]
) -> None:
    objecting = override(memory, validate=lambda operations: [error] * len(operations))
    for names in ("a", "ab"):
        plan = plan_for(objecting, *map(declare_topic, names))
        assert (list_statuses(plan), plan.broker_validated) == (dict.fromkeys(names, status), not codes)
        assert [d.code for d in plan.diagnostics] == codes
        assert {change.reason for change in plan.changes} == {None if codes else error.message}


@pytest.mark.parametrize(
    ("unread", "desired", "status", "code"),
    [
        ("sizes", declare_topic("a", retention_ms=DAY), Status.NEEDS_CONSENT, "KF416"),
        ("groups", declare_topic("a", 6), Status.PLANNED, "KF419"),
    ],
)
def test_plan_does_not_need_sizes_and_groups(
    memory: MemoryCluster, unread: str, desired: Desired, status: Status, code: str
) -> None:
    create_topic(memory, "a")
    plan = plan_for(override(memory, **{unread: fail(PermissionDenied("not yours"))}), desired)
    assert (list_statuses(plan), plan.broker_validated) == ({"a": status}, True)
    assert ["not yours" in found.message for found in plan.diagnostics if found.code == code] == [True]


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


def test_deletion_of_used_group_is_noted(memory: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert list_statuses(plan) == dict.fromkeys(names, Status.NEEDS_CONSENT)
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


@pytest.mark.parametrize(
    ("desired", "price", "uncounted"),
    [
        # 12 replicas of 0.25, and 12 GB of 0.5.
        ((), ("-9.00", -12, -12 * GB), 0),
        ((declare_topic("t", 4, 3),), ("0.00", 0, 0), 0),
        ((declare_topic("t", 8, 3),), ("3.00", 12, 0), 0),
        ((declare_topic("t", 4, 2),), ("-3.00", -4, -4 * GB), 0),
        ((declare_topic("t", 4, 3, retention_bytes=str(GB // 2)),), ("-3.00", 0, -6 * GB), 0),
        ((declare_topic("t", 4, 3, retention_ms="1000"),), ("0.00", 0, 0), 1),
        ((declare_topic("t", 4, 3), declare_topic("new", 6, 3)), ("4.50", 18, 0), 1),
    ],
)
def test_plan_is_priced_by_replicas_and_live_sizes(
    memory: MemoryCluster, desired: tuple[Desired, ...], price: tuple[str, int, int], uncounted: int
) -> None:
    create_topic(memory, "t", 4, 3)
    memory.fill(topic("t"), 4 * GB)
    cost = plan_for(memory, *desired, target=TARGET, prune="t").cost
    assert cost is not None
    assert (cost.per_month, cost.replicas, cost.bytes) == price
    assert len(cost.uncounted) == uncounted


def test_cost_is_in_every_report_and_saved_plan(memory: MemoryCluster) -> None:
    plan = plan_for(memory, declare_topic("new", 6, 3), target=TARGET)
    unpriced = plan_for(memory, target=replace(TARGET, costs=None))
    line = "Costs 4.50 EUR a month (18 more replicas); not counted: the data of 1 new topic"
    assert plan.cost is not None
    assert describe_cost(plan.cost) == line
    assert line in render_plan(plan, HEADER).plain
    assert line in render_plan_markdown(plan, HEADER)
    assert plan_from_json(plan_to_json(plan, HEADER), "plan.json")[0].cost == plan.cost
    assert unpriced.cost is None


def judge_again(plan: Plan, cluster: Cluster, *grants: str, **asked: Any) -> Plan:
    options: dict[str, Any] = {"settings": Settings(rules=QUIET), **asked}
    return judge_saved(plan, cluster, allow=tuple(map(Grant.parse, grants)), **options).plan


def find_change(plan: Plan) -> PlannedChange:
    (change,) = plan.changes
    return change


def claim_risk(plan: Plan, claimed: RiskAssessment = SAFE) -> Plan:
    """Return the plan, edited by hand: all of it has this risk and is to be done."""
    planned = find_change(plan)
    change: Change = planned.change
    if isinstance(change, Update):
        change = replace(change, fields=tuple(replace(field, assessment=claimed) for field in change.fields))
    else:
        change = replace(change, assessment=claimed)
    planned = replace(planned, change=change, status=Status.PLANNED, reason=None)
    return save_plan(replace(plan, changes=(planned,), consents=()))


CUT = declare_topic("t", retention_ms=DAY)
ELECTION = RiskAssessment(Risk.DESTRUCTIVE, "unclean-election")


@pytest.mark.parametrize(("wanted", "claimed"), [(absent("t"), SAFE), (CUT, SAFE), (CUT, ELECTION)])
def test_loss_beyond_plan_is_refused(memory: MemoryCluster, wanted: Desired, claimed: RiskAssessment) -> None:
    create_topic(memory, "t", retention_ms=WEEK)
    plan = claim_risk(plan_for(memory, wanted), claimed)
    assert find_change(plan).status is Status.PLANNED
    change = find_change(judge_again(plan, memory))
    assert change.status is Status.REFUSED
    assert "is destructive" in str(change.reason)
    assert f"and {claimed.risk.label}" in str(change.reason)
    assert KINDS["Topic"].operations(change.change) == KINDS["Topic"].operations(find_change(plan).change)


def test_cut_that_became_destructive_is_refused(memory: MemoryCluster) -> None:
    create_topic(memory, "t", retention_ms=WEEK, cleanup_policy="compact")
    plan = save_plan(plan_for(memory, declare_topic("t", retention_ms=DAY, cleanup_policy="compact")))
    assert find_change(plan).change.fields[0].assessment == SAFE  # type: ignore[union-attr]
    assert memory.execute([AlterConfigs(topic("t"), {"cleanup.policy": "delete"}, ())]) == [None]
    change = find_change(judge_again(plan, memory))
    assert change.status is Status.REFUSED
    assert "now, as cleanup.policy is delete and segment.ms is 7d, and safe in the plan" in str(change.reason)
    assert str(change.reason).endswith("(the topic holds no data)")
    assert "--allow Topic/t:retention-cut" in str(change.remedy)
    assert find_change(judge_again(plan, memory, "Topic/t:retention-cut")).status is Status.PLANNED
    assert find_change(judge_again(plan, memory, "Topic/t:cleanup-policy")).status is Status.REFUSED


def test_riskier_change_needs_a_new_plan(memory: MemoryCluster) -> None:
    create_topic(memory, "t", 2)
    plan = save_plan(plan_for(memory, declare_topic("t", 5)))
    assert find_change(plan).keyed is False
    change = find_change(judge_again(plan, memory, intents={topic("t"): Intent(keyed=True)}))
    assert (change.status, change.remedy) == (Status.REFUSED, "make a new plan, and review it")
    # A plan that does not say it is taken for the worst.
    silent = replace(plan, changes=(replace(find_change(plan), keyed=None),))
    assert find_change(judge_again(silent, memory)).status is Status.REFUSED
    # No other hazard of a disruptive change needs consent.
    waits = plan_for(memory, declare_topic("t", 2, flush_ms="5"))
    assert find_change(waits).change.fields[0].assessment.hazard == "flush-interval"  # type: ignore[union-attr]
    claimed = claim_risk(waits, RiskAssessment(Risk.DISRUPTIVE, "replica-move"))
    assert find_change(judge_again(claimed, memory)).status is Status.PLANNED


@pytest.mark.parametrize(("days", "status"), [(1, Status.REFUSED), (60, Status.PLANNED)])
def test_consent_of_plan_covers_planned_value_only(memory: MemoryCluster, days: int, status: Status) -> None:
    create_topic(memory, "t")
    wanted = declare_topic("t", retention_ms=str(days * int(DAY)))
    plan = save_plan(plan_for(memory, wanted, allow="Topic/t:retention-cut"))
    assert find_change(judge_again(plan, memory)).status is Status.PLANNED
    month = str(30 * int(DAY))
    facts, observed = memory.facts(), memory.observe([topic("t")])
    facts = replace(
        facts, config_defaults={"Topic": {**facts.config_defaults["Topic"], "retention.ms": month}}
    )
    live = observed.resources[topic("t")]
    live = replace(live, effective={**live.effective, "config.retention.ms": month})
    now = find_change(judge_by(plan, replace(observed, resources={topic("t"): live}), facts, Policy()))
    assert now.status is status
    risen = "retention.ms in force before the change is 30d now, and 7d in the plan"
    assert (risen in str(now.reason)) is (status is Status.REFUSED)


def test_current_settings_apply_to_saved_plan(memory: MemoryCluster) -> None:
    for name in ("cut", "gone"):
        create_topic(memory, name, retention_ms=WEEK)
    cuts = plan_for(memory, declare_topic("cut", retention_ms=DAY), absent("gone"), allow="destructive")
    plan = save_plan(cuts)
    assert {c.status for c in judge_again(plan, memory).changes} == {Status.PLANNED}
    settings = Settings(protected=("g*",), rules=QUIET)
    cut, gone = judge_again(plan, memory, "destructive", settings=settings).changes
    assert (cut.status, gone.status) == (Status.PLANNED, Status.REFUSED)
    assert gone.reason == "its name is protected in kafkaform.yaml"
    manifests = {topic("gone"): Intent(deletion_protection=True)}
    _, gone = judge_again(plan, memory, intents=manifests).changes
    assert gone.reason == "spec.deletionProtection is true"
    cut, gone = judge_again(plan, memory, settings=Settings(rules={**QUIET, "KF403": "error"})).changes
    assert (cut.status, gone.status) == (Status.REFUSED, Status.PLANNED)
    assert str(cut.reason).startswith("KF403:")


def test_blast_radius_applies_to_whole_plan_only(memory: MemoryCluster) -> None:
    names = [f"t{number:02}" for number in range(12)]
    for name in names:
        create_topic(memory, name, retention_ms=WEEK)
    desired = [declare_topic(name, retention_ms=DAY if n < 6 else WEEK) for n, name in enumerate(names)]
    wide = Settings(rules=QUIET, limits=ProjectLimits(blast_radius=0.5))
    request = Request(desired, allow=(Grant.parse("destructive"),))
    plan = save_plan(build_plan(request, memory, wide, None))
    assert {c.status for c in judge_again(plan, memory, settings=wide).changes} == {Status.PLANNED}
    held = judge_again(plan, memory)
    assert {c.status for c in held.changes} == {Status.REFUSED}
    assert (held.changes[0].reason or "").startswith("KF404: 6 of 12 topics (50 %)")
    part = save_plan(build_plan(replace(request, subset=True), memory, Settings(rules=QUIET), None))
    assert part.subset
    assert {c.status for c in judge_again(part, memory).changes} == {Status.PLANNED}
    assert [narrow(plan, [glob]).subset for glob in ("Topic/t00", "*")] == [True, False]
    assert narrow(part, ["*"]).subset


CONSENTED = "retention-cut from 7d"
UNREAD = "unread-data from 7d"


def declare_cut(*allow: str) -> Desired:
    desired = declare_topic("a", 3, retention_ms=DAY)
    return replace(desired, intent=Intent(allow=dict.fromkeys(allow, "T-1")))


def list_missing_consents(plan: Plan) -> tuple[Status, tuple[str, ...]]:
    change = find_change(plan)
    return change.status, change.missing


def test_unread_data_consent_does_not_cover_readable_data() -> None:
    memory = MemoryCluster()
    create_topic(memory, "a", retention_ms=WEEK)
    memory.fill(topic("a"), 3_000)
    whole = plan_for(memory, declare_cut(CONSENTED))
    assert list_missing_consents(whole) == (Status.PLANNED, ())
    memory.stop_broker(2)
    waiting = (Status.NEEDS_CONSENT, ("unread-data",))
    assert list_missing_consents(plan_for(memory, declare_cut(CONSENTED))) == waiting
    assert list_missing_consents(plan_for(memory, declare_cut(), allow="Topic/a:retention-cut")) == waiting
    part = plan_for(memory, declare_cut(CONSENTED, UNREAD))
    assert list_missing_consents(part) == (Status.PLANNED, ())
    assert {found.code for found in part.diagnostics} & {"KF417"} == set()
    (field,) = cast("Update", find_change(part).change).fields
    assert "1 of 3 partitions could not be read (broker 2 does not answer)" in field.assessment.reason
    assert str(field.assessment.remedy).startswith("start broker 2, then plan again")
    assert list_missing_consents(judge_again(save_plan(whole), memory)) == waiting
    assert list_missing_consents(judge_again(save_plan(part), memory)) == (Status.PLANNED, ())
    memory.start_broker(2)
    cut_waits = (Status.NEEDS_CONSENT, ("retention-cut",))
    assert list_missing_consents(judge_again(save_plan(part), memory)) == cut_waits
    assert list_missing_consents(plan_for(memory, declare_cut(UNREAD))) == cut_waits


@pytest.fixture
def measured(memory: MemoryCluster) -> MemoryCluster:
    """A topic `a` of 3 partitions."""
    create_topic(memory, "a", 3)
    return memory


def plan_topic(cluster: MemoryCluster, desired: Desired, *results: TopicResult) -> Plan:
    request = Request([desired], skew=report(*results))
    return build_plan(request, cluster, Settings(rules={**QUIET, "KF401": "off"}), None)


def grow(*, limit: float | None = None, **policy: Any) -> Desired:
    """Declare that topic `a` goes from 3 to 6 partitions."""
    limited: Any = {} if limit is None else {"maxPartitionRatio": limit}
    return declare_policy(partitions=6, **limited, **policy)


def read_reason(plan: Plan) -> str:
    change = find_change(plan).change
    (field,) = [item for item in fields_of(change) if item.path == "partitions"]
    return field.assessment.reason


def list_skew_findings(plan: Plan) -> list[Diagnostic]:
    return [diagnostic for diagnostic in plan.diagnostics if diagnostic.code.startswith("KF5")]


def list_codes(plan: Plan) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity.value) for finding in list_skew_findings(plan)]


def test_increase_has_predicted_moves_and_ratio(measured: MemoryCluster, snapshot: SnapshotAssertion) -> None:
    result = build_result(ratio=FINE, what_ifs=[what_if(6, Estimate(1.4, 1.35, 1.47)), what_if(9, SURE)])
    plan = plan_topic(measured, grow(), result)
    assert read_reason(plan) == snapshot
    assert find_change(plan).status is Status.PLANNED
    assert list_codes(plan) == []


def test_hot_key_is_named_as_indivisible(measured: MemoryCluster) -> None:
    keys = [hot("a", Estimate(0.3, 0.28, 0.32))]
    result = build_result(diagnosis="hot_keys", hot_keys=keys, what_ifs=[what_if(6, SURE)])
    undivided = "one key has 30 % (28 to 32 %), which no partition count divides"
    assert undivided in read_reason(plan_topic(measured, grow(), result))
    even = replace(result, causes=build_result().causes)
    assert "no partition count divides" not in read_reason(plan_topic(measured, grow(), even))


def test_safe_increase_has_prediction_as_info(measured: MemoryCluster) -> None:
    plan = plan_topic(measured, grow(keyed=False), build_result(what_ifs=[what_if(6, FINE)]))
    change = find_change(plan).change
    assert fields_of(change)[0].assessment.risk is Risk.SAFE
    assert read_reason(plan).startswith("as measured, 48.2 % of the sampled keys")
    assert list_codes(plan) == [("KF508", "info")]
    assert list_skew_findings(plan)[0].message == f"a goes from 3 to 6 partitions: {read_reason(plan)}"


WITHHELD = "30 % of the records with a key are on partitions that no known partitioner chose."
COMMAND = "`kafkaform skew a --what-if 6`"


@pytest.mark.parametrize(
    ("results", "missing", "suggestion"),
    [
        ([], "is not in the skew report", COMMAND),
        ([build_result("b", what_ifs=[what_if(6, FINE)])], "is not in the skew report", COMMAND),
        ([empty()], "is not in the skew report", COMMAND),
        ([build_result(what_ifs=[what_if(9, FINE)])], "was not measured for 6", COMMAND),
        (
            [replace(build_result(), what_if_withheld=WITHHELD)],
            f"no prediction holds for it: {WITHHELD.removesuffix('.')}",
            None,
        ),
    ],
)
def test_missing_prediction_suggests_command(
    measured: MemoryCluster, results: list[TopicResult], missing: str, suggestion: str | None
) -> None:
    plan = plan_topic(measured, grow(limit=1.0), *results)
    assert "as measured" not in read_reason(plan)
    (first,) = [finding for finding in list_skew_findings(plan) if finding.code == "KF507"]
    assert (first.severity, first.suggestion) == (Severity.WARNING, suggestion)
    assert missing in first.message
    assert find_change(plan).status is Status.PLANNED


LIMIT = 2.0


@pytest.mark.parametrize(
    ("now", "then", "status", "said"),
    [
        (FINE, SURE, Status.REFUSED, [("KF506", "error")]),
        (FINE, UNSURE, Status.PLANNED, [("KF506", "warning")]),
        (FINE, FINE, Status.PLANNED, []),
        (FINE, Estimate(2.1, 2.0, 2.2), Status.PLANNED, [("KF506", "warning")]),
        (FINE, Estimate(1.8, 1.7, 2.0), Status.PLANNED, []),
        # Beyond the limit already: worse is refused, better is let through with a warning.
        (SURE, Estimate(3.4, 3.1, 3.7), Status.REFUSED, [("KF506", "error"), ("KF501", "warning")]),
        (Estimate.exact(4.0), SURE, Status.PLANNED, [("KF506", "warning"), ("KF501", "warning")]),
        (Estimate.exact(2.4), SURE, Status.REFUSED, [("KF506", "error"), ("KF501", "warning")]),
    ],
)
def test_increase_certainly_breaking_policy_is_refused(
    measured: MemoryCluster, now: Estimate, then: Estimate, status: Status, said: list[tuple[str, str]]
) -> None:
    plan = plan_topic(measured, grow(limit=LIMIT), build_result(ratio=now, what_ifs=[what_if(6, then)]))
    assert (find_change(plan).status, list_codes(plan)) == (status, said)


def test_refusal_suggests_splitting_of_a_hot_key(measured: MemoryCluster) -> None:
    keys = [hot("a", Estimate(0.3, 0.28, 0.32))]
    what_ifs = [what_if(6, SURE), what_if(8, Estimate.exact(2.5))]
    result = build_result(diagnosis="hot_keys", hot_keys=keys, what_ifs=what_ifs)
    change = find_change(plan_topic(measured, grow(limit=LIMIT), result))
    assert "split the hot key first: no partition count divides it" in str(change.remedy)
    even = build_result(what_ifs=[what_if(6, SURE)])
    change = find_change(plan_topic(measured, grow(limit=LIMIT), even))
    assert "kafkaform skew a --what-if" in (change.remedy or "")


def test_increase_is_judged_despite_changed_partition_count(measured: MemoryCluster) -> None:
    result = build_result(partitions=2, what_ifs=[what_if(6, SURE)])
    assert find_change(plan_topic(measured, grow(limit=LIMIT), result)).status is Status.REFUSED


def test_report_of_another_or_no_cluster_is_refused_or_noted(measured: MemoryCluster) -> None:
    request = Request([declare_policy()], skew=report(build_result(), cluster_id="other"))
    with pytest.raises(SkewReportError, match="the skew report is of cluster other, not of memory"):
        build_plan(request, measured, Settings(), None)
    request = Request([declare_policy()], skew=report(build_result(), cluster_id=None))
    assert list_codes(build_plan(request, measured, Settings(rules=QUIET), None)) == [("KF509", "info")]

"""Making a plan: which cluster, what the rules say, and what the brokers say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.cli.plan import exit_code
from kafkaform.config import client_properties
from kafkaform.config.settings import ClusterSettings, Settings
from kafkaform.core.errors import (
    ClusterError,
    KafkaformError,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
    Unreachable,
)
from kafkaform.core.model import (
    Create,
    DataSize,
    Delete,
    Desired,
    Facts,
    Intent,
    Observation,
    Observed,
    ResourceRef,
    Severity,
    State,
    Status,
    Update,
)
from kafkaform.core.operations import MAX_WEIGHT, Operation
from kafkaform.core.plans import AffectedConsumer, Plan
from kafkaform.core.rights import Right, grant
from kafkaform.core.values import replace
from kafkaform.plan import planning, validation
from kafkaform.plan.conclusion import narrow
from kafkaform.plan.difference import Diff, Proposal, diff
from kafkaform.plan.plan_file import plan_from_json, plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.planning import Request, build_plan
from kafkaform.plan.risk_assessment import judge
from kafkaform.resources.consent import Grant
from kafkaform.resources.name_globs import NameGlobs
from kafkaform.resources.replicas.facts import ReplicaFacts
from kafkaform.resources.topic.operations import DeleteTopic
from tests.support.golden import wording
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import (
    DAY,
    QUIET,
    WEEK,
    Watched,
    absent,
    declared,
    judge_saved,
    made,
    plan_for,
    topic,
)


def target(cluster_id: str | None = None, *forbid: str) -> ClusterSettings:
    properties, problems = client_properties.parse({"bootstrap.servers": "k:9092"}, lambda _: None)
    assert not problems
    return ClusterSettings("prod", properties, cluster_id=cluster_id, forbid=forbid)


def statuses(plan: Plan) -> dict[str, Status]:
    return {change.ref.name: change.status for change in plan.changes}


def reasons(plan: Plan) -> dict[str, str | None]:
    return {change.ref.name: change.reason for change in plan.changes}


def test_what_differs_is_found_once_and_judged_with_all_that_is_known(
    memory: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(memory, "cut", retention_ms=WEEK)
    made(memory, "moved", 2)
    diffs: list[Facts] = []
    judged: list[Facts] = []

    def compared(desired: Iterable[Desired], observation: Observation, facts: Facts, **more: Any) -> Diff:
        diffs.append(facts)
        return diff(desired, observation, facts, **more)

    def noted(proposals: Iterable[Proposal], observation: Observation, facts: Facts) -> tuple[Proposal, ...]:
        judged.append(facts)
        return judge(proposals, observation, facts)

    monkeypatch.setattr(planning, "diff", compared)
    monkeypatch.setattr(planning, "judge", noted)
    rules = {**QUIET, "KF403": "error"}
    desired = [declared("cut", retention_ms=DAY), declared("moved", 2, 3)]
    plan = build_plan(Request(desired), memory, Settings(rules=rules), None)
    assert statuses(plan) == {"cut": Status.REFUSED, "moved": Status.PLANNED}
    assert [facts.get(ReplicaFacts).placements.keys() for facts in diffs] == [{topic("moved")}]
    (facts,) = judged
    assert facts.sizes == {topic("cut"): DataSize(0, 3), topic("moved"): DataSize(0, 2)}
    assert facts.get(ReplicaFacts).partition_sizes == {("moved", 0): 0, ("moved", 1): 0}


# --- which cluster ---------------------------------------------------------------------------------


def test_another_cluster_is_refused_before_anything_is_read(memory: MemoryCluster) -> None:
    watched = Watched(memory)
    with pytest.raises(KafkaformError, check=lambda error: str(error) == wording) as raised:
        build_plan(Request([declared("a")]), watched, Settings(), target("other"))
    assert raised.value.hint
    assert (watched.readings, watched.checks, watched.requests) == ([], [], [])


@pytest.mark.parametrize("expected", ["memory", None])
def test_the_expected_cluster_is_planned_for(memory: MemoryCluster, expected: str | None) -> None:
    plan = build_plan(Request([declared("a")]), memory, Settings(), target(expected))
    assert statuses(plan) == {"a": Status.PLANNED}
    assert plan.cluster_id == "memory"


def test_a_plan_changes_nothing(memory: MemoryCluster) -> None:
    made(memory, "doomed")
    before = list(memory.executed)
    watched = Watched(memory)
    plan_for(watched, declared("new"), absent("doomed"))
    assert memory.executed == before
    assert watched.requests == []
    assert len(watched.readings) == 1


# --- rules and policy ------------------------------------------------------------------------------


def test_a_rule_that_is_an_error_refuses_its_resource(memory: MemoryCluster) -> None:
    made(memory, "bad", 3, 3)
    wrong = declared("bad", 6, 3, min_insync_replicas="4")
    watched = Watched(memory)
    plan = plan_for(watched, wrong, declared("good"))
    assert statuses(plan) == {"bad": Status.REFUSED, "good": Status.PLANNED}
    (bad, _) = plan.changes
    assert (bad.reason, bad.remedy) == (wording, wording)
    assert [d.code for d in plan.diagnostics] == ["KF109"]
    assert {operation.ref.name for batch in watched.checks for operation in batch} == {"good"}


def test_a_refusal_does_not_make_the_layout_unknown(memory: MemoryCluster) -> None:
    made(memory, "a", 6, 1)
    (planned,) = plan_for(memory, declared("a", 3, 3)).changes
    assert planned.status is Status.REFUSED
    assert isinstance(planned.change, Update)
    reasons = {field.path: field.deferred for field in planned.change.fields}
    assert reasons["replicationFactor"] == wording


def test_a_rule_that_is_a_warning_does_not(memory: MemoryCluster) -> None:
    wrong = declared("bad", 6, 3, min_insync_replicas="4")
    plan = build_plan(Request([wrong]), memory, Settings(rules={"KF109": "warning"}), None)
    assert statuses(plan) == {"bad": Status.PLANNED}
    assert [d.severity for d in plan.diagnostics] == [Severity.WARNING]


def test_what_a_cluster_forbids_is_refused(memory: MemoryCluster) -> None:
    for name in "ab":
        made(memory, name, retention_ms=WEEK)
    meant = declared("a", retention_ms=DAY, allow={"retention-cut": "meant"})
    plan = build_plan(
        Request([meant, declared("b", 6, retention_ms=WEEK)]), memory, Settings(), target(None, "retention-*")
    )
    assert statuses(plan) == {"a": Status.REFUSED, "b": Status.PLANNED}
    assert reasons(plan)["a"] == wording


@given(
    st.permutations(
        [
            declared("a b"),
            declared("b.c", 3, 3),
            declared("b_c"),
            declared("d", 3, 3, min_insync_replicas="3"),
        ]
    )
)
def test_the_order_of_manifests_does_not_matter(desired: list[Desired]) -> None:
    plan = plan_for(MemoryCluster(), *desired)
    assert plan == plan_for(MemoryCluster(), *sorted(desired, key=lambda d: d.ref))
    assert [d.code for d in plan.diagnostics] == ["KF101", "KF102", "KF102", "KF109", "KF109"]


# --- what the brokers say --------------------------------------------------------------------------


def test_an_objection_of_the_brokers_is_a_refusal_in_their_words(memory: MemoryCluster) -> None:
    made(memory, "old")
    plan = plan_for(memory, declared("a", 3, 9), declared("b"), declared("old", 6, nonsense_key="1"))
    assert statuses(plan) == {"a": Status.REFUSED, "b": Status.PLANNED, "old": Status.REFUSED}
    said = reasons(plan)
    assert "replication factor 9" in (said["a"] or "")
    assert "(INVALID_REPLICATION_FACTOR)" in (said["a"] or "")
    assert "nonsense.key" in (said["old"] or "")
    assert plan.broker_validated


@dataclass
class Creating(Watched):
    """A cluster that knows of topics that it shows only from some reading on."""

    new: frozenset[ResourceRef] = frozenset()
    shown_at: int = 0

    def observe(self, *arguments: Any, **options: Any) -> Observation:
        return self._hide(super().observe(*arguments, **options))

    def observe_fields(self, fields: Mapping[ResourceRef, State]) -> Observation:
        return self._hide(super().observe_fields(fields))

    def _hide(self, found: Observation) -> Observation:
        if len(self.readings) >= self.shown_at:
            return found
        resources = {ref: live for ref, live in found.resources.items() if ref not in self.new}
        return replace(found, resources=resources, inventory=found.inventory - self.new)


@pytest.mark.parametrize(("shown_at", "shown"), [(4, True), (99, False)])
def test_what_the_brokers_are_creating_is_read_again_and_never_refused(
    memory: MemoryCluster, shown_at: int, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "_MIN_PAUSE_S", 0.0)
    monkeypatch.setattr(validation, "SHOWN_TIMEOUT_S", 600.0 if shown else 0.0)
    made(memory, "new", 3)
    told: list[str] = []
    cluster = Creating(memory, new=frozenset({topic("new")}), shown_at=shown_at)
    request = Request((declared("new", 6), declared("mine", 1)), inventory=())
    plan = build_plan(request, cluster, Settings(rules=QUIET), None, tell=told.append)
    assert [(one.ref.name, type(one.change), one.status) for one in plan.changes] == [
        ("mine", Create, Status.PLANNED),
        *([("new", Update, Status.PLANNED)] if shown else []),
    ]
    assert [
        (one.code, one.message, one.suggestion) for one in plan.diagnostics if one.ref == topic("new")
    ] == ([] if shown else [("KF410", wording, wording)])
    assert (plan.unknown, told) == (() if shown else (topic("new"),), [wording])
    assert exit_code(plan, detailed=False, strict=True) == (0 if shown else 1)


def test_what_still_needs_consent_is_validated_too(memory: MemoryCluster) -> None:
    made(memory, "a", retention_ms=WEEK)
    assert statuses(plan_for(memory, declared("a", retention_ms=DAY))) == {"a": Status.NEEDS_CONSENT}
    plan = plan_for(memory, declared("a", retention_ms=DAY, nonsense_key="1"))
    assert statuses(plan) == {"a": Status.REFUSED}


def test_an_account_that_may_not_alter_still_gets_its_plan(memory: MemoryCluster) -> None:
    made(memory, "a")
    memory.deny(lambda ref: ref == topic("a"))
    plan = plan_for(memory, declared("a", 6, retention_ms=WEEK), declared("b"))
    assert statuses(plan) == {"a": Status.PLANNED, "b": Status.PLANNED}
    assert not plan.broker_validated
    (note,) = plan.diagnostics
    assert (note.code, note.severity, note.message) == ("KF414", Severity.INFO, wording)


class Objecting(Watched):
    """Answers every validation with one error."""

    error: ClusterError

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        return [self.error] * len(operations)


def test_an_account_that_only_plans_is_not_told_to_get_the_right_to_change(memory: MemoryCluster) -> None:
    denying = Objecting(memory)
    right = Right("AlterConfigs", "topic", "a")
    denying.error = PermissionDenied("it lacks AlterConfigs", hint=f"grant it: {grant(right)}", right=right)
    (note,) = plan_for(denying, declared("a")).diagnostics
    assert (note.code, note.suggestion) == ("KF414", wording)


@pytest.mark.parametrize("error", [OutcomeUnknown("no answer in time"), Unreachable("connection lost")])
def test_no_answer_is_no_objection(memory: MemoryCluster, error: ClusterError) -> None:
    silent = Objecting(memory)
    silent.error = error
    plan = plan_for(silent, declared("a"))
    assert statuses(plan) == {"a": Status.PLANNED}
    assert not plan.broker_validated
    assert [d.code for d in plan.diagnostics] == ["KF414"]
    silent.error = RequestRejected("no", code="POLICY_VIOLATION", hint="ask")
    (change,) = plan_for(silent, declared("a")).changes
    assert (change.status, change.reason, change.remedy) == (Status.REFUSED, wording, "ask")


def test_validation_is_cut_into_what_a_controller_takes(memory: MemoryCluster) -> None:
    watched = Watched(memory)
    plan = plan_for(watched, *(declared(f"t{n:03}", 100) for n in range(200)))
    assert set(statuses(plan).values()) == {Status.PLANNED}
    assert len(watched.checks) == 5
    assert all(sum(operation.weight for operation in batch) <= MAX_WEIGHT for batch in watched.checks)


def test_deletions_are_not_held_up_by_the_brokers(memory: MemoryCluster) -> None:
    made(memory, "a")
    watched = Watched(memory)
    plan = plan_for(watched, absent("a"))
    assert statuses(plan) == {"a": Status.PLANNED}
    assert plan.broker_validated
    assert all(isinstance(operation, DeleteTopic) for batch in watched.checks for operation in batch)


def test_what_cannot_be_seen_is_neither_created_nor_changed(memory: MemoryCluster) -> None:
    memory.hide(topic("a"))
    plan = plan_for(memory, declared("a"), declared("b"))
    assert statuses(plan) == {"b": Status.PLANNED}
    assert plan.unknown == (topic("a"),)
    assert [(d.code, d.severity) for d in plan.diagnostics] == [("KF410", Severity.ERROR)]


# --- how much data it is about ---------------------------------------------------------------------


def test_sizes_are_asked_for_once_and_only_where_data_is_at_risk(memory: MemoryCluster) -> None:
    for name in ("cut", "doomed", "more", "same"):
        made(memory, name, retention_ms=WEEK)
    memory.fill(topic("cut"), 3 * 2**30)
    watched = Watched(memory)
    desired = [declared("cut", retention_ms=DAY), absent("doomed"), declared("same", retention_ms=WEEK)]
    plan = plan_for(watched, *desired, declared("more", 6, retention_ms=WEEK), declared("new"))
    assert [[observed.ref.name for observed in asked] for asked in watched.weighed] == [["cut", "doomed"]]
    cut = plan.changes[0].change
    assert isinstance(cut, Update)
    assert "the topic holds 3" in cut.fields[0].assessment.reason
    safe = Watched(memory)
    plan_for(safe, declared("more", 6, retention_ms=WEEK), declared("new"))
    assert safe.weighed == []


def test_a_plan_stands_without_sizes(memory: MemoryCluster) -> None:
    made(memory, "cut", retention_ms=WEEK)

    class Blind(Watched):
        def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, DataSize]:
            raise PermissionDenied(f"not for {len(resources)} of yours")

    plan = plan_for(Blind(memory), declared("cut", retention_ms=DAY))
    assert statuses(plan) == {"cut": Status.NEEDS_CONSENT}
    assert plan.broker_validated
    assert ("KF416", "could not read the sizes of topics: not for 1 of yours") in [
        (d.code, d.message) for d in plan.diagnostics
    ]


def test_data_whose_size_nobody_answers_for_is_not_taken_for_none(memory: MemoryCluster) -> None:
    made(memory, "gone", 3)

    class Silent(Watched):
        def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, DataSize]:
            raise Unreachable(f"no answer for {len(resources)}")

    (change,) = plan_for(Silent(memory), absent("gone")).changes
    assert isinstance(change.change, Delete)
    assert change.change.assessment.data_unread
    assert "3 of 3 partitions could not be read" in change.change.assessment.reason


# --- what nobody declares --------------------------------------------------------------------------


def test_pruning_stays_inside_what_is_owned(memory: MemoryCluster) -> None:
    for name in ("mine.a", "mine.b", "other", "__internal", "mine.kept"):
        made(memory, name)
    settings = Settings(owns=NameGlobs(("mine.*",)), protected=("*.kept",))
    grants = (Grant("*", "delete"),)
    plan = build_plan(Request([declared("mine.a")], prune=True, allow=grants), memory, settings, None)
    assert statuses(plan) == {"mine.b": Status.PLANNED}
    assert plan.unmanaged == (topic("mine.kept"), topic("other"))
    needs = build_plan(Request([declared("mine.a")], prune=True), memory, settings, None)
    assert statuses(needs) == {"mine.b": Status.NEEDS_CONSENT}
    left = build_plan(Request([declared("mine.a")]), memory, settings, None)
    assert left.changes == ()
    assert [ref.name for ref in left.unmanaged] == ["mine.b", "mine.kept", "other"]


def test_a_subset_says_nothing_of_the_rest_and_prunes_nothing(memory: MemoryCluster) -> None:
    for name in ("mine.a", "mine.b"):
        made(memory, name)
    request = Request([declared("mine.a", 6)], subset=True, prune=True, allow=(Grant("*", "*"),))
    plan = build_plan(request, memory, Settings(owns=NameGlobs(("*",))), None)
    assert statuses(plan) == {"mine.a": Status.PLANNED}
    assert plan.unmanaged == ()


# --- saved plans -----------------------------------------------------------------------------------


def saved(plan: Plan) -> Plan:
    header = PlanHeader("0.1.0", None, None, None, "2025-06-01T12:00:00Z")
    return plan_from_json(plan_to_json(plan, header), "plan.json")[0]


def again(memory: MemoryCluster, plan: Plan, *grants: Grant) -> Plan:
    """A saved plan as it is taken when it is applied, with consents that are given then."""
    return judge_saved(plan, memory, allow=grants).plan


def cut(memory: MemoryCluster) -> Plan:
    """Two cuts without consent, of which one topic has two, beside a refusal."""
    for name in ("one", "two", "no"):
        made(memory, name, retention_ms=WEEK)
    return saved(
        plan_for(
            memory,
            declared("one", retention_ms=DAY),
            declared("two", retention_ms=DAY, cleanup_policy="compact"),
            declared("no", 1, retention_ms=DAY),
        )
    )


def test_consent_can_be_given_when_a_saved_plan_is_applied(memory: MemoryCluster) -> None:
    plan = cut(memory)
    held = {"no": Status.REFUSED, "one": Status.NEEDS_CONSENT, "two": Status.NEEDS_CONSENT}
    assert statuses(plan) == held
    assert statuses(again(memory, plan)) == held
    some = again(memory, plan, Grant("Topic/*", "retention-cut"))
    assert statuses(some) == {**held, "one": Status.PLANNED}
    assert ("Topic/one", "retention-cut", "--allow") in [
        (c.resource, c.hazard, c.reason) for c in some.consents
    ]
    everything = again(memory, plan, Grant("*", "*"))
    assert statuses(everything) == {"no": Status.REFUSED, "one": Status.PLANNED, "two": Status.PLANNED}
    assert all(change.reason is None for change in everything.select_by_status(Status.PLANNED))


def test_a_consent_in_the_plan_counts_with_those_given_later(memory: MemoryCluster) -> None:
    made(memory, "a", retention_ms=WEEK)
    half = declared(
        "a", retention_ms=DAY, cleanup_policy="compact", allow={"retention-cut from 7d": "TICKET-1"}
    )
    plan = saved(plan_for(memory, half))
    assert statuses(plan) == {"a": Status.NEEDS_CONSENT}
    whole = again(memory, plan, Grant.parse("Topic/a:cleanup-policy"))
    assert statuses(whole) == {"a": Status.PLANNED}
    assert {c.hazard: c.reason for c in whole.consents} == {
        "retention-cut": "TICKET-1",
        "cleanup-policy": "--allow",
    }


def test_a_saved_plan_can_be_narrowed(memory: MemoryCluster) -> None:
    plan = saved(plan_for(memory, *(declared(name) for name in ("a.1", "a.2", "b.1"))))
    assert list(statuses(narrow(plan, ["Topic/a.*"]))) == ["a.1", "a.2"]
    assert list(statuses(narrow(plan, ["Topic/b.1", "*/a.1"]))) == ["a.1", "b.1"]
    assert narrow(plan, ["topic/*"]).changes == ()
    assert narrow(plan, ["*"]) == plan
    assert replace(narrow(plan, ["Topic/a.*"]), changes=()) == replace(plan, changes=(), subset=True)


# --- what a plan knows of its findings and of whom it concerns ----------------------------------------


def owned(desired: Desired, team: str) -> Desired:
    return replace(desired, intent=replace(desired.intent, labels={"team": team}))


def reading(group: str, team: str, *topics: str) -> Desired:
    intent = Intent(labels={"team": team}, spec={"topics": list(topics)})
    return Desired(ResourceRef("ConsumerGroup", group), {}, intent)


def test_every_finding_keeps_its_resource(memory: MemoryCluster) -> None:
    desired = [
        declared("a", retention_ms=DAY),
        declared("b", min_insync_replicas="4"),
        reading("g", "t", "a"),
    ]
    plan = build_plan(Request(desired), memory, Settings(), None)
    about = {(found.code, str(found.ref)) for found in plan.diagnostics}
    assert {("KF111", "Topic/a"), ("KF109", "Topic/b"), ("KF420", "ConsumerGroup/g")} <= about
    assert saved(plan).diagnostics == plan.diagnostics


def test_a_narrowed_plan_has_the_findings_of_its_resources(memory: MemoryCluster) -> None:
    desired = [declared("a", retention_ms=DAY), declared("b", retention_ms=DAY)]
    plan = narrow(build_plan(Request(desired), memory, Settings(), None), ["Topic/a"])
    assert {str(found.ref) for found in plan.diagnostics} == {"Topic/a"}


def test_a_plan_names_who_owns_what_changes_and_who_reads_it(memory: MemoryCluster) -> None:
    made(memory, "same", 3, 1)
    desired = [
        owned(declared("changes", retention_ms=WEEK), "checkout"),
        owned(declared("same"), "platform"),
        reading("both", "analytics", "same", "changes"),
        reading("none", "platform", "same"),
    ]
    plan = build_plan(Request(desired), memory, Settings(rules=QUIET), None)
    assert [(str(change.ref), change.team) for change in plan.changes] == [("Topic/changes", "checkout")]
    both = ResourceRef("ConsumerGroup", "both")
    assert plan.readers == (AffectedConsumer(both, ("changes",), "analytics"),)
    assert saved(plan).readers == plan.readers
    assert narrow(plan, ["Topic/other"]).readers == ()


def test_brokers_that_answer_too_few_checks_are_not_believed(memory: MemoryCluster) -> None:
    class Short(Watched):
        def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
            return self.cluster.validate(operations)[1:]

    with pytest.raises(ValueError, match="shorter"):
        plan_for(Short(memory), declared("a"), declared("b"))

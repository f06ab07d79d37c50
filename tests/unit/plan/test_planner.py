"""The planner: what it plans, what it refuses, and the traps that other tools fell into."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.core.model import (
    Create,
    Delete,
    Desired,
    Diagnostic,
    Facts,
    FieldValue,
    Intent,
    Location,
    Observation,
    Observed,
    Recreate,
    ResourceRef,
    Risk,
    Severity,
    State,
    Status,
    Undeclared,
    Update,
    risk_of,
)
from kafkaform.core.operations import AlterConfigs
from kafkaform.core.partitions import Broker
from kafkaform.core.plans import Plan, PlannedChange, UndeclaredConfig
from kafkaform.core.values import replace
from kafkaform.plan.conclusion import narrow
from kafkaform.plan.difference import SavedPlan, diff_saved
from kafkaform.plan.planning import plan_from
from kafkaform.plan.policy import Policy
from kafkaform.resources import KINDS
from kafkaform.resources.consent import Grant
from kafkaform.resources.name_globs import NameGlobs
from kafkaform.resources.replicas.operations import AlterConfigsInSync
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteTopic
from kafkaform.resources.values import fields_of
from tests.support.plans.risk import render_catalogue
from tests.support.plans.rules import PathAsLocation
from tests.support.plans.scenes import judge_by

DAY = 86_400_000
DEFAULTS: dict[str, str | None] = {
    "cleanup.policy": "delete",
    "retention.ms": str(7 * DAY),
    "retention.bytes": "-1",
    "min.insync.replicas": "1",
    "min.cleanable.dirty.ratio": "0.5",
    "segment.ms": str(7 * DAY),
    "unclean.leader.election.enable": "false",
    "max.message.bytes": "1048588",
    "compression.type": "producer",
}
FACTS = Facts("cluster", (Broker(1), Broker(2), Broker(3)), {"Topic": DEFAULTS})
PLACE = Location("t.yaml", 3, 1)

Values = dict[str, FieldValue]


def ref(name: str = "t") -> ResourceRef:
    return ResourceRef("Topic", name)


def full(values: Values) -> State:
    """One replica of one partition, and configs by their names."""
    counts = {"partitions": 1, "replicationFactor": 1}
    return {
        path if path in counts else f"config.{path}": value for path, value in {**counts, **values}.items()
    }


def declare(values: Values | None = None, name: str = "t", **intent: Any) -> Desired:
    return Desired(ref(name), full(values or {}), Intent(**intent), PLACE)


def tombstone(name: str = "t", **intent: Any) -> Desired:
    return Desired(ref(name), None, Intent(**intent), PLACE)


def live(values: Values | None = None, name: str = "t", *, internal: bool = False) -> Observed:
    own = full(values or {})
    inherited = {f"config.{key}": value for key, value in DEFAULTS.items()}
    return Observed(ref(name), f"id-{name}", own, {**inherited, **own}, internal)


def build_reading(*topics: Observed, **more: Any) -> Observation:
    resources = {topic.ref: topic for topic in topics}
    return Observation(resources, frozenset(resources) | more.pop("inventory", frozenset()), **more)


def build_plan(desired: Iterable[Desired], *topics: Observed, facts: Facts = FACTS, **policy: Any) -> Plan:
    return plan_from(desired, build_reading(*topics), facts, Policy(**policy))


def plan_change(desired: Desired, *topics: Observed, facts: Facts = FACTS, **policy: Any) -> PlannedChange:
    (change,) = build_plan([desired], *topics, facts=facts, **policy).changes
    return change


def judge_again(plan: Plan, *topics: Observed, facts: Facts = FACTS, **policy: Any) -> Plan:
    return judge_by(plan, build_reading(*topics), facts, Policy(**policy))


def plan_update(desired: Desired, *topics: Observed, **policy: Any) -> Update:
    change = plan_change(desired, *topics, **policy).change
    assert isinstance(change, Update)
    return change


def list_operations(plan: Plan) -> list[object]:
    return [
        operation
        for planned in plan.select_by_status(Status.PLANNED)
        for operation in KINDS[planned.ref.kind].operations(planned.change)
    ]


def test_missing_topic_is_created_with_declared_fields() -> None:
    change = plan_change(declare({"retention.ms": "1", "partitions": 3, "compression.type": None}))
    state: State = {"partitions": 3, "replicationFactor": 1, "config.retention.ms": "1"}
    assert change == PlannedChange(Create(ref(), state), Status.PLANNED, PLACE)
    assert isinstance(change.change, Create)
    assert list(change.change.state) == list(state)
    assert KINDS["Topic"].operations(change.change) == (CreateTopic(ref(), 3, 1, {"retention.ms": "1"}),)


def test_update_lists_different_fields_in_order() -> None:
    desired = declare({"partitions": 2, "segment.ms": "5", "compression.type": None}, keyed=False)
    change = plan_update(desired, live({"compression.type": "zstd", "segment.ms": "9"}))
    assert change.uid == "id-t"
    assert [(f.path, f.before, f.after, f.effective_before, f.effective_after) for f in change.fields] == [
        ("partitions", 1, 2, 1, 2),
        ("config.compression.type", "zstd", None, "zstd", "producer"),
        ("config.segment.ms", "9", "5", "9", "5"),
    ]
    assert KINDS["Topic"].operations(change) == (
        AlterConfigs(ref(), {"segment.ms": "5"}, ("compression.type",)),
        AddPartitions(ref(), 1, 2),
    )


def test_delete_needs_consent() -> None:
    change = plan_change(tombstone(), live())
    assert isinstance(change.change, Delete)
    assert (change.status, change.missing) == (Status.NEEDS_CONSENT, ("delete",))
    allowed = plan_change(tombstone(allow={"delete of id-t": "unused"}), live())
    assert allowed.status is Status.PLANNED
    for second in ("delete", "delete of id-u", "delete from id-t"):  # of a topic that was there before
        assert plan_change(tombstone(allow={second: "unused"}), live()).status is Status.NEEDS_CONSENT
    assert KINDS["Topic"].operations(allowed.change) == (DeleteTopic(ref(), "id-t"),)


def test_deletion_without_id_needs_second_consent() -> None:
    """A topic without an id may have been made again under its name."""
    nameless, both = replace(live(), uid=None), {"delete": "unused", "delete-by-name": "no ids here"}
    change = plan_change(tombstone(), nameless)
    assert (change.status, change.missing) == (Status.NEEDS_CONSENT, ("delete", "delete-by-name"))
    allowed = plan_change(tombstone(allow=both), nameless)
    assert allowed.status is Status.PLANNED
    assert KINDS["Topic"].operations(allowed.change) == (DeleteTopic(ref(), None),)
    for hazard in both:
        half = plan_change(tombstone(allow={hazard: "unused"}), nameless)
        assert half.status is Status.NEEDS_CONSENT
        refused = plan_change(tombstone(allow=both), nameless, forbid=(hazard,))
        assert (refused.status, refused.reason) == (Status.REFUSED, f"{hazard} is forbidden on this cluster")


def test_resource_in_declared_state_is_unchanged() -> None:
    assert build_plan([declare(), tombstone("u")], live()) == Plan("cluster", unchanged=2)


@pytest.mark.parametrize(
    ("key", "declared", "found"),
    [
        ("min.cleanable.dirty.ratio", "0.5", "0.50"),
        ("segment.ms", "60000", "060000"),
        ("cleanup.policy", "delete", "delete "),
        ("cleanup.policy", "compact,delete", "delete,compact"),
        ("unclean.leader.election.enable", "true", "TRUE"),
        ("compression.type", None, None),
        ("confluent.x", "a", " a"),
    ],
)
def test_equivalent_config_spelling_is_no_change(key: str, declared: str | None, found: str | None) -> None:
    values: Values = {} if found is None else {key: found}
    plan = build_plan([declare({key: declared})], live(values))
    assert (plan.changes, plan.unchanged) == ((), 1)


def test_values_are_compared_exactly_and_a_declared_default_is_safe() -> None:
    ratio = "min.cleanable.dirty.ratio"
    (field,) = plan_update(declare({ratio: "0.501"}), live({ratio: "0.50"})).fields
    assert (field.before, field.after) == ("0.50", "0.501")
    pinned = plan_change(declare({"retention.ms": str(7 * DAY)}), live())
    assert (pinned.status, risk_of(pinned.change).label) == (Status.PLANNED, "safe")


@pytest.mark.parametrize(
    ("own", "declared", "status"),
    [
        (None, DAY, Status.NEEDS_CONSENT),  # the default of 7d is cut
        (None, 8 * DAY, Status.PLANNED),
        (30 * DAY, None, Status.NEEDS_CONSENT),  # a reset to the default of 7d
        (DAY, None, Status.PLANNED),
        (30 * DAY, -1, Status.PLANNED),
        (-1, 30 * DAY, Status.NEEDS_CONSENT),
        (-1, None, Status.NEEDS_CONSENT),
    ],
)
def test_retention_cut_is_judged_by_effective_value(
    own: int | None, declared: int | None, status: Status
) -> None:
    desired = declare({"retention.ms": None if declared is None else str(declared)})
    observed = live({} if own is None else {"retention.ms": str(own)})
    assert plan_change(desired, observed).status is status


@pytest.mark.parametrize(
    ("config", "status"), [("retention.ms", Status.NEEDS_CONSENT), ("segment.ms", Status.PLANNED)]
)
def test_unknown_default_is_judged_as_worst_case(config: str, status: Status) -> None:
    change = plan_change(declare({config: None}), live({config: "1"}), facts=Facts("cluster"))
    assert change.status is status


def test_retention_of_compacted_topic_is_not_cut() -> None:
    observed = live({"cleanup.policy": "compact", "retention.ms": str(9 * DAY)})
    change = plan_change(declare({"cleanup.policy": "compact", "retention.ms": "1"}), observed)
    assert change.status is Status.PLANNED


def test_partition_decrease_refuses_whole_update() -> None:
    desired = declare(
        {"partitions": 6, "retention.ms": "1", "segment.ms": "5"}, allow={"retention-cut from 7d": "yes"}
    )
    plan = build_plan([desired, declare({"segment.ms": "5"}, "u")], live({"partitions": 12}), live(name="u"))
    first, second = plan.changes
    assert first.status is Status.REFUSED
    assert first.reason is not None
    assert "cannot remove partitions" in first.reason
    assert "kafkaform new topic" in str(first.remedy)
    assert [f.path for f in fields_of(first.change)] == [
        "partitions",
        "config.retention.ms",
        "config.segment.ms",
    ]
    assert second.status is Status.PLANNED
    assert list_operations(plan) == [AlterConfigs(ref("u"), {"segment.ms": "5"})]
    assert plan.consents == ()


def test_consent_does_not_override_rule_or_impossible_change() -> None:
    desired = declare({"partitions": 1}, allow={"partition-decrease": "please"})
    change = plan_change(desired, live({"partitions": 2}), allow=(Grant("*", "*"),))
    assert change.status is Status.REFUSED
    rule = Diagnostic("KF109", Severity.ERROR, "does not fit", PLACE, "mend it")
    change = plan_change(declare(), blocked={ref(): (rule,)})
    assert (change.status, change.reason, change.remedy) == (Status.REFUSED, "KF109: does not fit", "mend it")


def test_brake_refuses_disruptive_and_destructive_changes() -> None:
    brake = Diagnostic("KF404", Severity.ERROR, "too much at once", None, "take smaller steps")
    changed: dict[str, Values] = {
        "disruptive": {"partitions": 2},
        "destructive": {"retention.ms": DAY},
        "safe": {"retention.ms": 14 * DAY},
    }
    desired = [*(declare(values, name) for name, values in changed.items()), declare(name="new")]
    plan = build_plan(desired, *(live(name=name) for name in changed), brake=brake)
    refusal = (Status.REFUSED, "KF404: too much at once", "take smaller steps")
    assert {change.ref.name: (change.status, change.reason, change.remedy) for change in plan.changes} == {
        **dict.fromkeys(("disruptive", "destructive"), refusal),
        **dict.fromkeys(("safe", "new"), (Status.PLANNED, None, None)),
    }


TWO_HAZARDS: Values = {"retention.ms": "1", "unclean.leader.election.enable": "true"}


def test_consent_covers_only_named_hazard() -> None:
    assert plan_change(declare(TWO_HAZARDS), live()).missing == ("retention-cut", "unclean-election")
    half = build_plan([declare(TWO_HAZARDS, allow={"retention-cut from 7d": "T-1"})], live())
    assert [(c.status, c.missing) for c in half.changes] == [(Status.NEEDS_CONSENT, ("unclean-election",))]
    assert list_operations(half) == []


def test_consents_keep_their_reasons() -> None:
    desired = declare(TWO_HAZARDS, allow={"retention-cut from 7d": "hold ended", "delete": "not needed here"})
    plan = build_plan([desired], live(), allow=(Grant.parse("destructive"),))
    assert [(c.resource, c.hazard, c.reason) for c in plan.consents] == [
        ("Topic/t", "retention-cut", "hold ended"),
        ("Topic/t", "unclean-election", "--allow"),
    ]
    # A later grant adds to the consent of the manifest, and to no refusal.
    granted = judge_again(build_plan([desired], live()), live(), allow=(Grant.parse("destructive"),))
    assert (granted.changes, granted.consents) == (plan.changes, plan.consents)
    two = live({"partitions": 2})
    refused = build_plan([declare({"partitions": 1})], two)
    assert judge_again(refused, two, allow=(Grant.parse("destructive"),)) == refused


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ("Topic/t:retention-cut", Status.NEEDS_CONSENT),
        ("Topic/t:retention-cut Topic/t:unclean-election", Status.PLANNED),
        ("Topic/*:*-cut */t:unclean-*", Status.PLANNED),
        ("destructive", Status.PLANNED),
    ],
)
def test_consent_option_covers_matching_hazards(flags: str, status: Status) -> None:
    grants = tuple(map(Grant.parse, flags.split()))
    assert plan_change(declare(TWO_HAZARDS), live(), allow=grants).status is status
    # The same flags at the time of the apply have same effective value on a saved plan.
    saved = build_plan([declare(TWO_HAZARDS)], live())
    assert judge_again(saved, live(), allow=grants) == build_plan(
        [declare(TWO_HAZARDS)], live(), allow=grants
    )


def test_forbidden_hazard_overrides_consent() -> None:
    # Forbid beats consent.
    desired = declare({"retention.ms": "1"}, allow={"retention-cut from 7d": "yes"})
    change = plan_change(desired, live(), allow=(Grant("*", "*"),), forbid=("retention-*",))
    assert change.status is Status.REFUSED
    assert "retention-cut is forbidden" in str(change.reason)
    # A disruptive change needs no consent, but can be forbidden.
    partitions = declare({"partitions": 2})
    assert plan_change(partitions, live()).status is Status.PLANNED
    assert plan_change(partitions, live(), forbid=("partition-increase",)).status is Status.REFUSED
    assert plan_change(partitions, live(), forbid=("partition-increase-compacted",)).status is Status.PLANNED
    desired = declare({"partitions": 1, "retention.ms": "1"})
    change = plan_change(desired, live({"partitions": 2}), forbid=("*",))
    assert "cannot remove partitions" in str(change.reason)


def test_replication_factor_change_without_layout_is_refused() -> None:
    # A plan with only a replication factor difference is not empty.
    plan = build_plan([declare({"replicationFactor": 3})], live())
    (change,) = plan.changes
    assert plan.unchanged == 0
    assert change.status is Status.REFUSED
    assert "the layout of the cluster could not be read" in str(change.reason)
    assert list_operations(plan) == []
    mixed = plan_update(declare({"replicationFactor": 3}), live({"replicationFactor": "2-3"}))
    assert [(f.before, f.after) for f in mixed.fields] == [("2-3", 3)]


def test_deferred_replication_factor_does_not_hold_back_other_fields() -> None:
    desired = declare({"replicationFactor": 3, "segment.ms": "5"})
    plan = build_plan([desired], live())
    assert plan.changes[0].status is Status.PLANNED
    assert {f.path: f.deferred is not None for f in plan_update(desired, live()).fields} == {
        "replicationFactor": True,
        "config.segment.ms": False,
    }
    assert list_operations(plan) == [AlterConfigs(ref(), {"segment.ms": "5"})]
    # Nor does it where it is forbidden: nobody is going to carry it out.
    assert build_plan([desired], live(), forbid=("replication-factor",)).changes == plan.changes


@pytest.mark.parametrize(("present", "deferred"), [(1, True), (2, False), ("1-3", True), ("2-3", False)])
def test_min_isr_waits_for_the_replicas(present: FieldValue, deferred: bool) -> None:
    desired = declare({"replicationFactor": 3, "min.insync.replicas": "2", "segment.ms": "5"})
    plan = build_plan([desired], live({"replicationFactor": present}))
    late = [] if deferred else [AlterConfigsInSync(ref(), {"min.insync.replicas": "2"}, least_in_sync=2)]
    assert list_operations(plan) == [AlterConfigs(ref(), {"segment.ms": "5"}), *late]


EXTRA: Values = {"retention.ms": str(30 * DAY), "segment.ms": "5"}
THROTTLE: Values = {
    "leader.replication.throttled.replicas": "*",
    "follower.replication.throttled.replicas": "0:1",
}


def test_undeclared_configs_are_reported_or_kept() -> None:
    plan = build_plan([declare({"segment.ms": "5"})], live({**EXTRA, **THROTTLE}))
    undeclared = UndeclaredConfig(ref(), "config.retention.ms", str(30 * DAY))
    assert plan == Plan("cluster", unchanged=1, undeclared=(undeclared,))
    plan = build_plan([declare({"partitions": 2})], live(EXTRA))
    assert [u.path for u in plan.undeclared] == ["config.retention.ms", "config.segment.ms"]
    assert [f.path for f in plan_update(declare({"partitions": 2}), live(EXTRA)).fields] == ["partitions"]
    plan = build_plan([declare(undeclared=Undeclared.KEEP)], live({**EXTRA, **THROTTLE}))
    assert plan == Plan("cluster", unchanged=1)


@pytest.mark.parametrize("undeclared", Undeclared)
def test_undeclared_counts_are_ignored(undeclared: Undeclared) -> None:
    unsaid = replace(declare(undeclared=undeclared), state={"partitions": 1})
    assert build_plan([unsaid], live()) == Plan("cluster", unchanged=1)


def test_undeclared_configs_are_reset_with_risk_except_throttles() -> None:
    change = plan_change(declare(undeclared=Undeclared.RESET), live({**EXTRA, **THROTTLE}))
    assert change.status is Status.NEEDS_CONSENT
    paths = ["config.retention.ms", "config.segment.ms"]
    assert [(f.path, f.after) for f in fields_of(change.change)] == [(path, None) for path in paths]
    for undeclared in Undeclared:
        unset = plan_update(declare({"segment.ms": None}, undeclared=undeclared), live({"segment.ms": "5"}))
        assert [(f.path, f.after) for f in unset.fields] == [("config.segment.ms", None)]
    assert build_plan([declare(dict.fromkeys(THROTTLE))], live(THROTTLE)) == Plan("cluster", unchanged=1)


@pytest.mark.parametrize("known", [True, False])
def test_reset_config_is_judged_by_default_value(known: bool) -> None:
    own: Values = {"cleanup.policy": "compact", "min.compaction.lag.ms": "604800000", "preallocate": "true"}
    defaults = {**DEFAULTS, "min.compaction.lag.ms": "0", "preallocate": "false"}
    facts = replace(FACTS, config_defaults={"Topic": defaults} if known else {})
    desired = declare({"cleanup.policy": "compact"}, undeclared=Undeclared.RESET)
    change = plan_change(desired, live(own), facts=facts)
    assert change.missing == ("compaction-lag-cut",)
    lag, harmless = fields_of(change.change)
    assert ("from 7d to 0:" in lag.assessment.reason) is known
    assert harmless.assessment.risk is Risk.SAFE


ALL: dict[str, Any] = {"owns": NameGlobs(("*",)), "allow": (Grant("*", "*"),)}


def test_only_owned_visible_topics_are_pruned_with_consent() -> None:
    crowd = [live(name=f"x.{i:03}") for i in range(501)]
    plan = build_plan([declare()], live(), *crowd, **ALL)
    assert (plan.changes, plan.unmanaged) == ((), tuple(topic.ref for topic in crowd))
    own = [live(name=name) for name in ("__kafkaform_lock", "__kafkaform_audit")]
    assert build_plan([], *own, prune=True, **ALL) == Plan("cluster")
    assert build_plan([], live(), prune=True).changes == ()
    allow = (Grant.parse("Topic/t:delete"),)
    consented = build_plan([], live(), prune=True, owns=NameGlobs(("t",)), allow=allow)
    assert list_operations(consented) == [DeleteTopic(ref(), "id-t")]
    observation = build_reading(inventory=frozenset({ref("x")}))
    plan = plan_from([], observation, FACTS, Policy(prune=True, owns=NameGlobs(("*",))))
    assert (plan.changes, plan.unmanaged) == ((), (ref("x"),))


def test_declared_ignored_or_protected_topic_is_changed() -> None:
    internal = declare({"segment.ms": "5"}, "_schemas")
    assert plan_change(internal, live(name="_schemas"), ignore=NameGlobs(("_*",))).status is Status.PLANNED
    desired = declare({"segment.ms": "5"}, deletion_protection=True)
    assert plan_change(desired, live(), protected=("t",)).status is Status.PLANNED


@pytest.mark.parametrize(
    ("desired", "uid", "changes", "codes"),
    [
        (declare, "id-t", [Recreate], []),
        (declare, None, [], ["KF445"]),
        (tombstone, "id-t", [Delete], []),
        (tombstone, None, [Delete], []),
    ],
)
def test_recreation_needs_topic_ids(
    desired: Any, uid: str | None, changes: list[type], codes: list[str]
) -> None:
    plan = build_plan([desired(spec={"recreate": "id-t"})], replace(live(), uid=uid))
    assert [type(planned.change) for planned in plan.changes] == changes
    assert [found.code for found in plan.diagnostics] == codes


def test_pruning_deletes_owned_topics_only() -> None:
    topics = [live(name=n) for n in ("a.1", "a.2", "a.audit", "b.1", "a-ignored")]
    group = Observed(ResourceRef("ConsumerGroup", "a.g"), None, {})
    topics += [live(name="a.internal", internal=True), group]
    globs: dict[str, Any] = {"owns": NameGlobs(("a*",)), "ignore": NameGlobs(("*-ignored",))}
    plan = build_plan([declare(name="a.2")], *topics, prune=True, protected=("*.audit",), **globs)
    assert [(c.ref.name, c.status, c.location) for c in plan.changes] == [("a.1", Status.NEEDS_CONSENT, None)]
    # What is protected stays listed, and is no refused change, which would fail every apply.
    assert [r.name for r in plan.unmanaged] == ["a.audit", "a.internal", "b.1", "a.g"]
    assert plan.unchanged == 1


@pytest.mark.parametrize(
    ("intent", "internal", "policy", "reason"),
    [
        ({"deletion_protection": True}, False, {}, "spec.deletionProtection is true"),
        ({}, False, {"protected": ("t*",)}, "protected in kafkaform.yaml"),
        ({}, True, {}, "internal to Kafka"),
        ({}, False, {"forbid": ("delete",)}, "delete is forbidden"),
    ],
)
def test_protected_or_internal_topic_is_not_deleted(
    intent: Any, internal: bool, policy: Any, reason: str
) -> None:
    observed = live(internal=internal)
    change = plan_change(tombstone(**intent), observed, allow=(Grant("*", "*"),), **policy)
    assert change.status is Status.REFUSED
    assert reason in str(change.reason)


@pytest.mark.parametrize("desired", [declare(), tombstone(), declare({"partitions": 9})])
def test_invisible_topic_is_never_created(desired: Desired) -> None:
    observation = build_reading(invisible={ref(): "not authorised"})
    plan = plan_from([desired, declare(name="u")], observation, FACTS)
    assert [c.ref.name for c in plan.changes] == ["u"]
    assert plan.unknown == (ref(),)
    (found,) = plan.diagnostics
    assert (found.code, found.severity, found.location) == ("KF410", Severity.ERROR, PLACE)
    assert "Topic/t is not visible to this account: not authorised" in found.message


def test_invisible_topics_are_sorted() -> None:
    names = ("c", "a", "b")
    observation = build_reading(invisible={ref(name): "not authorised" for name in names})
    plan = plan_from([declare(name=name) for name in names], observation, FACTS)
    assert plan.unknown == (ref("a"), ref("b"), ref("c"))
    assert [d.message[:7] for d in plan.diagnostics] == ["Topic/a", "Topic/b", "Topic/c"]


def test_diagnostics_are_sorted_by_severity_and_location() -> None:
    warning = Diagnostic("KF2", Severity.WARNING, "w")
    error, info = Diagnostic("KF9", Severity.ERROR, "e"), Diagnostic("KF1", Severity.INFO, "i")
    notes = (warning, error, replace(warning, location=Location("b", 2)), info)
    plans = [plan_from([], Observation({}, diagnostics=order), FACTS) for order in (notes, notes[::-1])]
    assert plans[0] == plans[1]
    assert [d.code for d in plans[0].diagnostics] == ["KF9", "KF2", "KF2", "KF1"]


def test_plan_is_narrowed_by_globs_of_kind_and_name() -> None:
    plan = build_plan([declare(name=n) for n in ("a.1", "a.2", "b.1")])
    assert [c.ref.name for c in narrow(plan, ["Topic/a.*"]).changes] == ["a.1", "a.2"]
    assert narrow(plan, ["topic/*", "a.1"]).changes == ()
    assert narrow(plan, ["Topic/a.*"]).subset
    assert not narrow(plan, ["*"]).subset
    assert narrow(replace(plan, subset=True), ["*"]).subset  # it was a part of all before


def list_idle_consents(desired: Desired, *topics: Observed) -> list[Diagnostic]:
    findings = build_plan([desired], *topics).diagnostics
    assert {finding.code for finding in findings} <= {"KF417"}
    return [*findings]


CUT: Values = {"retention.ms": "5"}
IDLE: dict[str, tuple[Desired, Values, Severity]] = {
    "for what is done": (declare(CUT, allow={"retention-cut from 9ms": "T-1"}), CUT, Severity.INFO),
    "for another kind": (declare(allow={"offset-recommit": "meant"}), {}, Severity.WARNING),
    "for any value": (declare(CUT, allow={"retention-cut": "hold ended"}), {}, Severity.WARNING),
    "for any value, beside one for this": (
        declare(CUT, allow={"retention-cut": "T-1", "retention-cut from 9ms": "T-2"}),
        {"retention.ms": "9"},
        Severity.WARNING,
    ),
    "for another value": (
        declare(CUT, allow={"retention-cut from 7d": "T-1"}),
        {"retention.ms": str(30 * DAY)},
        Severity.WARNING,
    ),
    "for any topic of the name": (tombstone(allow={"delete": "unused"}), {}, Severity.WARNING),
}


@pytest.mark.parametrize(("desired", "values", "severity"), IDLE.values(), ids=IDLE)
def test_idle_consent_is_reported(desired: Desired, values: Values, severity: Severity) -> None:
    (finding,) = list_idle_consents(desired, live(values))
    assert finding.severity is severity


def test_idle_consent_messages_match_golden(golden: SnapshotAssertion) -> None:
    messages = {}
    for name, (desired, values, _) in IDLE.items():
        (finding,) = list_idle_consents(desired, live(values))
        messages[name] = f"{finding.message} ({finding.suggestion})"
    assert render_catalogue(messages) == golden(name="idle_consents.txt")


def test_suggested_consents_name_each_value_once() -> None:
    """Also where two fields have one scope, and where another line covers the change already."""
    cuts: Values = {"retention.ms": "5", "retention.bytes": "5"}
    unlimited = live({"retention.ms": "-1", "retention.bytes": "-1"})
    (finding,) = list_idle_consents(declare(cuts, allow={"retention-cut": "T-1"}), unlimited)
    assert str(finding.suggestion).count("retention-cut from") == 1
    kept = {"retention-cut": "T-1", "retention-cut from 3d": "T-2"}
    for finding in list_idle_consents(declare(cuts, allow=kept), unlimited):
        assert "retention-cut from 3d: T-2" in str(finding.suggestion)
    desired, values, _ = IDLE["for any value, beside one for this"]
    (finding,) = list_idle_consents(desired, live(values))
    assert "retention-cut from" not in str(finding.suggestion)


def test_used_consent_is_not_idle() -> None:
    cut = declare(CUT, allow={"retention-cut from 9ms": "hold ended"})
    assert list_idle_consents(cut, live({"retention.ms": "9"})) == []
    assert list_idle_consents(tombstone(allow={"delete of id-t": "unused"})) == []


WEEK, MONTH = str(7 * DAY), str(30 * DAY)


@pytest.mark.parametrize("value", ["7d", WEEK, f"0{WEEK}", "168h"])
def test_consent_applies_to_named_value_only(value: str) -> None:
    cut = declare({"retention.ms": str(DAY)}, allow={f"retention-cut from {value}": "T-1"})
    assert plan_change(cut, live({"retention.ms": WEEK})).status is Status.PLANNED
    assert plan_change(cut, live()).status is Status.PLANNED, "the value in force may be the default"
    # Somebody has raised it since: that nobody consented to.
    assert plan_change(cut, live({"retention.ms": MONTH})).status is Status.NEEDS_CONSENT


@pytest.mark.parametrize("value", [WEEK, MONTH])
def test_consents_may_name_value_per_cluster(value: str) -> None:
    allow = {"retention-cut from 30d": "prod", "retention-cut from 7d": "dev"}
    cut = declare({"retention.ms": str(DAY)}, allow=allow)
    assert plan_change(cut, live({"retention.ms": value})).status is Status.PLANNED
    assert list_idle_consents(cut, live({"retention.ms": value})) == []


def test_each_field_of_hazard_needs_consent() -> None:
    cut = declare({"retention.ms": str(DAY)}, allow={"retention-cut": "hold ended"})
    assert plan_change(cut, live()).status is Status.NEEDS_CONSENT, "it names no value"
    both: Values = {"retention.ms": str(DAY), "retention.bytes": str(2**30)}
    there = live({"retention.bytes": str(2**40)})
    half = declare(both, allow={"retention-cut from 7d": "T-1"})
    assert plan_change(half, there).missing == ("retention-cut",)
    whole = declare(both, allow={"retention-cut from 7d": "T-1", "retention-cut from 1 TiB": "T-2"})
    plan = build_plan([whole], there)
    assert [change.status for change in plan.changes] == [Status.PLANNED]
    assert [consent.reason for consent in plan.consents] == ["T-2; T-1"]


@pytest.mark.parametrize(
    ("count", "status"), [("6", Status.PLANNED), ("3", Status.NEEDS_CONSENT), ("x", Status.NEEDS_CONSENT)]
)
def test_consent_may_be_for_a_count(count: str, status: Status) -> None:
    allow = {f"partition-increase-compacted from {count}": "T-1"}
    extra = declare({"partitions": 12, "cleanup.policy": "compact"}, allow=allow)
    assert plan_change(extra, live({"partitions": 6, "cleanup.policy": "compact"})).status is status


def test_only_updates_have_keyed() -> None:
    desired = [declare({"partitions": 2}, keyed=True), declare(name="new", keyed=True)]
    assert {c.ref.name: c.keyed for c in build_plan(desired, live()).changes} == {"t": True, "new": None}
    saved = build_plan(desired[:1], live())
    assert judge_again(saved, live()) == saved


def test_saved_plan_keeps_consents_of_applied_changes() -> None:
    cut: Values = {"retention.ms": "1"}
    desired = [declare(cut, name, allow={"retention-cut from 7d": name}) for name in ("t", "u")]
    plan = build_plan(desired, live(), live(name="u"))
    assert [c.reason for c in judge_again(plan, live(cut), live(name="u")).consents] == ["t", "u"]
    done = build_reading(live(cut), live(cut, "u"))
    assert diff_saved(SavedPlan(plan, {}), done, FACTS) == ()


@pytest.mark.parametrize(("layer", "place"), [("", PLACE), ("profile/events", Location("kafkaform.yaml", 9))])
def test_change_from_profile_is_located_in_profile(layer: str, place: Location) -> None:
    class InLayer(PathAsLocation):
        def __call__(self, _path: str) -> Location:
            return Location("kafkaform.yaml", 9)

        def find_layer(self, _path: str) -> str:
            return layer

    planned = plan_change(replace(declare({"segment.ms": "5"}), locations=InLayer()), live())
    assert (planned.layer, planned.location) == (layer, place)

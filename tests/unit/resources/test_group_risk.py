"""Every hazard of a group, what stands against a change, and how plans word both."""

from collections.abc import Mapping

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.core import kafka_configs
from kafkaform.core.model import (
    SAFE,
    Change,
    Create,
    Delete,
    Desired,
    Facts,
    FieldChange,
    FieldValue,
    Intent,
    Observation,
    Observed,
    ResourceRef,
    Risk,
    RiskAssessment,
    Setting,
    Update,
)
from kafkaform.core.plans import Plan
from kafkaform.plan.planning import plan_from
from kafkaform.report.plan import render_plan
from kafkaform.resources import GROUP
from kafkaform.resources.base import RecordFacts, UpdateContext
from kafkaform.resources.consumer_group.fields import observed_state
from kafkaform.resources.consumer_group.risk import _BY_NAME, HARMLESS, HAZARDS, judge, judge_create
from kafkaform.resources.groups import Group, Member, Position
from tests.support.plans.risk import (
    find_unreadable_misuse,
    judge_deletion,
    render_assessments,
    render_catalogue,
)

REF = ResourceRef("ConsumerGroup", "checkout")
DEFAULTS = {name: key.default for name, key in kafka_configs.group_configs().items()}
FACTS = Facts("c", config_defaults={REF.kind: DEFAULTS})
TIMEOUT = "consumer.session.timeout.ms"
RISKS = dict.fromkeys(HAZARDS, Risk.DISRUPTIVE) | {
    "": Risk.SAFE,
    "delete": Risk.DESTRUCTIVE,
    "offset-reset": Risk.DESTRUCTIVE,
}

Values = Mapping[str, FieldValue]


def judge_config(
    name: str, before: FieldValue, after: FieldValue, others: Mapping[str, FieldValue] = {}
) -> RiskAssessment:
    """Judge a change of a config; `others` are in force, too."""
    remaining = {f"config.{key}": value for key, value in others.items()}
    path = f"config.{name}"
    context = UpdateContext(REF, {path: before, **remaining}, {path: after, **remaining}, Intent(), FACTS)
    return judge(path, context)


def judge_reset(before: FieldValue, after: FieldValue) -> RiskAssessment:
    path = "offsets.orders.v1:3"
    return judge(path, UpdateContext(REF, {path: before}, {path: after}, Intent(), FACTS))


def build_group(*members: str, protocol: str = "consumer", state: str = "", **offsets: int) -> Group:
    positions = tuple(Position(t, number, number) for t, count in offsets.items() for number in range(count))
    state = state or ("Stable" if members else "Empty")
    return Group("checkout", protocol, state, members=tuple(map(Member, members)), positions=positions)


def build_observed(group: Group | None, configs: Mapping[str, str] = {}) -> Observed:
    effective = {f"config.{name}": value for name, value in {**DEFAULTS, **configs}.items()}
    return Observed(REF, None, observed_state(group, configs), effective, live=group)


def judge_group_deletion(
    group: Group | None, configs: Mapping[str, str] = {}, facts: Facts = FACTS
) -> RiskAssessment:
    return judge_deletion(build_observed(group, configs), facts)


SESSIONS = [f"{protocol}.session.timeout.ms" for protocol in ("consumer", "share", "streams")]
HEARTBEATS = [f"{protocol}.heartbeat.interval.ms" for protocol in ("consumer", "share", "streams")]
LOCKED = {"share.record.lock.duration.ms": "30000"}
LONG_SESSIONS = dict.fromkeys(SESSIONS, "45000")

# A config, its value before and after, and the hazard, or none; other configs that are in force.
CASES: list[tuple[str, FieldValue, FieldValue, str, Values]] = [
    *((name, "60000", "45000", "session-timeout-cut", {}) for name in SESSIONS),
    *((name, "60000", None, "session-timeout-cut", {}) for name in SESSIONS),
    *((name, "45000", "60000", "", {}) for name in SESSIONS),
    # Three heartbeats fit into a session.
    *((name, "5000", "15001", "heartbeat-raise", LONG_SESSIONS) for name in HEARTBEATS),
    *((name, "5000", "15000", "", LONG_SESSIONS) for name in HEARTBEATS),
    *((name, "20000", "19000", "", LONG_SESSIONS) for name in HEARTBEATS),
    *((name, "5000", None, "heartbeat-raise", LONG_SESSIONS) for name in HEARTBEATS),
    *((name, "5000", "6000", "heartbeat-raise", {}) for name in HEARTBEATS),  # the session is not known
    # share groups
    ("share.isolation.level", "read_committed", "read_uncommitted", "isolation-level", {}),
    ("share.isolation.level", "read_uncommitted", "read_committed", "", {}),
    ("share.renew.acknowledge.enable", "true", "false", "lock-renewal-off", LOCKED),
    ("share.renew.acknowledge.enable", "false", "true", "", {}),
    ("share.auto.offset.reset", "none", "earliest", "offset-reset-policy", {}),
    ("share.auto.offset.reset", "none", "latest", "offset-reset-policy", {}),
    ("share.auto.offset.reset", "none", "by_duration:PT6H", "offset-reset-policy", {}),
    ("share.auto.offset.reset", "none", None, "offset-reset-policy", {}),
    ("share.record.lock.duration.ms", "30000", "15000", "lock-duration-cut", {}),
    ("share.record.lock.duration.ms", None, "15000", "lock-duration-cut", {}),
    ("share.record.lock.duration.ms", "15000", "30000", "", {}),
    ("share.delivery.count.limit", "5", "3", "delivery-limit-cut", {}),
    ("share.delivery.count.limit", None, "3", "delivery-limit-cut", {}),
    ("share.delivery.count.limit", "3", "5", "", {}),
    ("share.partition.max.record.locks", "2000", "200", "lock-limit-cut", {}),
    ("share.partition.max.record.locks", None, "200", "lock-limit-cut", {}),
    ("share.partition.max.record.locks", "200", "2000", "", {}),
    # streams groups
    ("streams.num.standby.replicas", "2", "1", "standby-replicas", {}),
    ("streams.num.standby.replicas", "0", "1", "standby-replicas", {}),
    ("confluent.x", None, "1", "unknown-config", {}),
]


@pytest.mark.parametrize(
    ("name", "before", "after", "hazard", "others"), CASES, ids=[f"{n} {b} to {a}" for n, b, a, *_ in CASES]
)
def test_config_change_has_risk_and_hazard(
    name: str, before: FieldValue, after: FieldValue, hazard: str, others: Values
) -> None:
    assessment = judge_config(name, before, after, others)
    assert (assessment.risk, assessment.hazard) == (RISKS[hazard], hazard)


def test_every_group_config_is_judged_or_harmless_for_a_reason() -> None:
    assert _BY_NAME.keys() | HARMLESS.keys() == kafka_configs.group_configs().keys()
    assert not _BY_NAME.keys() & HARMLESS.keys()
    assert all(HARMLESS.values())


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_harmless_config_is_safe(name: str) -> None:
    for before, after in (("5000", "6000"), ("6000", "5000"), (None, "1")):
        assert judge_config(name, before, after) == SAFE


def test_unclassified_config_is_disruptive(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "share.assignment.interval.ms"
    monkeypatch.delitem(HARMLESS, name)
    assessment = judge_config(name, "5000", "6000")
    assert (assessment.risk, assessment.hazard) == (Risk.DISRUPTIVE, "unknown-config")


RESETS = [judge_reset(0, 1_234_567), judge_reset(1_234_567, 1_234_566), judge_reset(5000, 0)]
EIGHT_TOPICS = build_group(t0=1, t1=1, t2=1, t3=1, t4=1, t5=1, t6=1, t7=1)
EARLIEST = {"share.auto.offset.reset": "earliest"}
DELETIONS = {
    "offsets and a config": judge_group_deletion(build_group(orders=3, payments=1), {TIMEOUT: "50000"}),
    "configs": judge_group_deletion(None, {TIMEOUT: "1", "consumer.heartbeat.interval.ms": "2"}),
    "share group with a start": judge_group_deletion(build_group(protocol="share"), EARLIEST),
    "share group with offsets": judge_group_deletion(build_group(protocol="share", orders=1)),
    "unread default": judge_group_deletion(build_group(protocol="share"), EARLIEST, Facts("c")),
    "many topics": judge_group_deletion(EIGHT_TOPICS),
    "nothing of its own": judge_group_deletion(build_group()),
}


def test_hazard_reasons_match_golden(golden: SnapshotAssertion) -> None:
    gone = Facts("c").add_part(
        RecordFacts({REF: {"offsets.orders": Setting("earliest", "2026-11-03", "a", None, "r")}})
    )
    assessments = [
        judge_config(name, before, after, remaining) for name, before, after, _, remaining in CASES
    ]
    assessments += [*RESETS, judge_reset(None, 1200)]
    assessments += [*DELETIONS.values(), judge_create(REF, {"offsets.orders": "earliest"}, gone)]
    assert {assessment.hazard for assessment in assessments} - {""} == HAZARDS
    # Each config from and to a value that this account may not read.
    unread = [judge_config(name, None, after, companions) for name, _, after, _, companions in CASES]
    unread += [judge_config(name, before, None) for name, before, *_ in CASES]
    assert find_unreadable_misuse(assessments + unread) == []
    assert render_assessments(assessments) == golden(name="hazards.txt")


def build_plan(state: Values | None, live: Observed | None, intent: Intent | None = None) -> Plan:
    desired = Desired(REF, state, intent or Intent())
    return plan_from([desired], Observation({REF: live} if live else {}), FACTS)


INITIAL = Update(REF, None, (FieldChange("offsets.orders", None, "earliest"),))
RESET = Update(REF, None, (FieldChange("offsets.orders:0", 5, 0),))
CREATION, DELETION = Create(REF, {"offsets.orders": "latest"}), Delete(REF, None, {}, SAFE)
OBSTACLES: dict[str, tuple[Change, Group]] = {
    "reset of a group in use": (RESET, build_group("m1")),
    "start of a group in use": (INITIAL, build_group("m1")),
    "creation of a group in use": (CREATION, build_group("m1")),
    "deletion of a group in use": (DELETION, build_group("m1", "m2")),
    "reset of a group that rebalances": (RESET, build_group(state="PreparingRebalance")),
    "start of a share group": (INITIAL, build_group(protocol="share")),
    "reset of a share group": (RESET, build_group(protocol="share")),
}


def test_obstacle_messages_match_golden(golden: SnapshotAssertion) -> None:
    messages = {
        name: str(GROUP.find_obstacle(change, build_observed(group)))
        for name, (change, group) in OBSTACLES.items()
    }
    assert render_catalogue(messages) == golden(name="obstacles.txt")


def test_group_plans_match_golden(golden: SnapshotAssertion) -> None:
    start: Values = {f"config.{TIMEOUT}": "50000", "offsets.orders": "earliest"}
    deletion = build_plan(None, build_observed(build_group(orders=2), {TIMEOUT: "50000"}))
    text = render_plan(build_plan(start, None)).plain + render_plan(deletion).plain
    assert text == golden(name="plans.txt")

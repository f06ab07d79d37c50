"""Every hazard of a group, what stands against a change, and how plans word both."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkaform.core import kafka_configs
from kafkaform.core.model import (
    SAFE,
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
    Status,
    Undeclared,
    Update,
)
from kafkaform.core.plans import Plan
from kafkaform.plan.difference import diff_update
from kafkaform.plan.planning import plan_from, plan_of
from kafkaform.plan.policy import Policy
from kafkaform.report.plan import render_plan, render_plan_markdown
from kafkaform.resources import GROUP, KINDS
from kafkaform.resources.base import RecordFacts, UpdateContext, field_order
from kafkaform.resources.consumer_group.fields import observed_state
from kafkaform.resources.consumer_group.risk import _BY_NAME, HARMLESS, HAZARDS, judge, judge_create
from kafkaform.resources.groups import Group, Member, Position
from tests.support.golden import wording
from tests.support.kinds import judge_deletion

REF = ResourceRef("ConsumerGroup", "checkout")
KIND = KINDS["ConsumerGroup"]
DEFAULTS = {name: key.default for name, key in kafka_configs.group_configs().items()}
FACTS = Facts("c", config_defaults={REF.kind: DEFAULTS})


def judged(name: str, before: FieldValue, after: FieldValue, **others: FieldValue) -> RiskAssessment:
    """The judgement of a config's change; `others` are in force too, with underscores for dots."""
    rest = {f"config.{key.replace('_', '.')}": value for key, value in others.items()}
    path = f"config.{name}"
    context = UpdateContext(REF, {path: before, **rest}, {path: after, **rest}, Intent(), FACTS)
    return judge(path, context)


def moved(before: FieldValue, after: FieldValue) -> RiskAssessment:
    path = "offsets.orders.v1:3"
    return judge(path, UpdateContext(REF, {path: before}, {path: after}, Intent(), FACTS))


# --- offsets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"), [(0, 1_234_567), (1_234_567, 1_234_566), (5000, 0), (None, 1200)]
)
def test_a_reset_says_how_many_records_are_skipped_or_read_again(
    before: FieldValue, after: FieldValue
) -> None:
    assert moved(before, after) == RiskAssessment(Risk.DESTRUCTIVE, "offset-reset", wording)


def test_a_first_offset_is_safe() -> None:
    path = "offsets.orders.v1"
    assert judge(path, UpdateContext(REF, {}, {path: "latest"}, Intent(), FACTS)) == SAFE


# --- configs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["consumer", "share", "streams"])
def test_a_shorter_session(protocol: str) -> None:
    name = f"{protocol}.session.timeout.ms"
    found = judged(name, "60000", "45000")
    assert (found.risk, found.hazard, found.reason) == (Risk.DISRUPTIVE, "session-timeout-cut", wording)
    assert judged(name, "45000", "60000") == SAFE
    assert judged(name, "60000", None).reason == wording


@pytest.mark.parametrize("protocol", ["consumer", "share", "streams"])
def test_heartbeats_that_are_too_rare_for_the_session(protocol: str) -> None:
    name, session = f"{protocol}.heartbeat.interval.ms", f"{protocol}_session_timeout_ms"
    found = judged(name, "5000", "15001", **{session: "45000"})
    assert (found.risk, found.hazard, found.reason) == (Risk.DISRUPTIVE, "heartbeat-raise", wording)
    assert judged(name, "5000", "15000", **{session: "45000"}) == SAFE
    assert judged(name, "20000", "19000", **{session: "45000"}) == SAFE
    assert judged(name, "5000", "6000").hazard == "heartbeat-raise"  # the session timeout is not known
    assert judged(name, "5000", None, **{session: "45000"}).hazard == "heartbeat-raise"


def test_uncommitted_reads_and_locks_that_cannot_be_renewed_are_judged() -> None:
    # Reading uncommitted records.
    name = "share.isolation.level"
    found = judged(name, "read_committed", "read_uncommitted")
    assert (found.risk, found.hazard) == (Risk.DISRUPTIVE, "isolation-level")
    assert "from read_committed to read_uncommitted" in found.reason
    assert judged(name, "read_uncommitted", "read_committed") == SAFE
    assert judged(name, None, "read_uncommitted").hazard == "isolation-level"
    # Locks that can no longer be renewed.
    name = "share.renew.acknowledge.enable"
    found = judged(name, "true", "false", share_record_lock_duration_ms="30000")
    assert (found.risk, found.hazard, found.reason) == (Risk.DISRUPTIVE, "lock-renewal-off", wording)
    assert judged(name, "false", "true") == SAFE


@pytest.mark.parametrize("after", ["earliest", "latest", "by_duration:PT6H", None])
def test_where_a_share_group_reads_new_partitions_from(after: str | None) -> None:
    found = judged("share.auto.offset.reset", "none", after)
    assert (found.risk, found.hazard, found.reason) == (Risk.DISRUPTIVE, "offset-reset-policy", wording)


@pytest.mark.parametrize(("before", "after"), [("2", "1"), ("1", "0"), ("0", "1")])
def test_standby_replicas_are_judged_by_the_change_of_their_number(before: str, after: str) -> None:
    found = judged("streams.num.standby.replicas", before, after)
    assert (found.risk, found.hazard, found.reason) == (Risk.DISRUPTIVE, "standby-replicas", wording)


@pytest.mark.parametrize(
    ("name", "more", "less", "hazard", "words"),
    [
        ("share.record.lock.duration.ms", "30000", "15000", "lock-duration-cut", "within 15s (was 30s)"),
        ("share.delivery.count.limit", "5", "3", "delivery-limit-cut", "delivered 3 times (was 5)"),
        ("share.partition.max.record.locks", "2000", "200", "lock-limit-cut", "200 records"),
    ],
)
def test_a_lower_limit_of_a_share_group(name: str, more: str, less: str, hazard: str, words: str) -> None:
    found = judged(name, more, less)
    assert (found.risk, found.hazard) == (Risk.DISRUPTIVE, hazard)
    assert words in found.reason
    assert judged(name, less, more) == SAFE
    assert judged(name, None, less).hazard == hazard


def test_every_group_config_is_judged_or_harmless_for_a_reason() -> None:
    assert judged("confluent.x", None, "1").hazard == "unknown-config"
    assert _BY_NAME.keys() | HARMLESS.keys() == kafka_configs.group_configs().keys()
    assert not _BY_NAME.keys() & HARMLESS.keys()
    assert all(HARMLESS.values())


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_harmless_configs_are_safe(name: str) -> None:
    assert judged(name, "5000", "6000") == judged(name, "6000", "5000") == judged(name, None, "1") == SAFE


def test_a_config_that_nobody_classified_is_not_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "share.assignment.interval.ms"
    monkeypatch.delitem(HARMLESS, name)
    found = judged(name, "5000", "6000")
    assert (found.risk, found.hazard, found.reason) == (Risk.DISRUPTIVE, "unknown-config", wording)


# --- deletion ----------------------------------------------------------------------------------------


def live(*members: str, protocol: str = "consumer", state: str = "", **offsets: tuple[int, ...]) -> Group:
    """A group with these members, and these committed offsets by topic, partition by partition."""
    positions = tuple(
        Position(topic, partition, offset)
        for topic, committed in offsets.items()
        for partition, offset in enumerate(committed)
    )
    state = state or ("Stable" if members else "Empty")
    return Group("checkout", protocol, state, members=tuple(map(Member, members)), positions=positions)


def observed(group: Group | None, **configs: str) -> Observed:
    own = {name.replace("_", "."): value for name, value in configs.items()}
    effective = {f"config.{name}": value for name, value in {**DEFAULTS, **own}.items()}
    return Observed(REF, None, observed_state(group, own), effective, live=group)


def deletion(group: Group | None, facts: Facts = FACTS, **configs: str) -> RiskAssessment:
    return judge_deletion(observed(group, **configs), facts)


def test_a_deletion_says_what_goes_and_where_members_start_then() -> None:
    found = deletion(live(orders=(1, 2, 3), payments=(4,)), consumer_session_timeout_ms="50000")
    assert (found.risk, found.hazard, found.reason) == (Risk.DESTRUCTIVE, "delete", wording)
    assert str(found.remedy) == wording
    found = deletion(None, consumer_session_timeout_ms="1", consumer_heartbeat_interval_ms="2")
    assert found.reason == wording
    assert found.remedy is None
    # A share group starts again by the clusters default.
    found = deletion(live(protocol="share"), share_auto_offset_reset="earliest")
    assert found.reason == wording
    without_configs = deletion(live(protocol="share", orders=(1,)))
    assert (without_configs.reason, without_configs.remedy) == (wording, wording)
    unread = deletion(live(protocol="share"), Facts("c"), share_auto_offset_reset="earliest")
    assert unread.reason == wording
    positions = tuple(Position(f"t{n}", 0, n) for n in range(8))
    found = deletion(Group("checkout", "consumer", "Empty", positions=positions))
    assert "8 committed offsets in t0 (1 partition), " in found.reason
    assert "t4 (1 partition) and 3 more topics:" in found.reason
    assert deletion(live()).reason == wording


def test_the_list_of_hazards_is_complete() -> None:
    changes = [("1", "2"), ("2", "1"), ("read_committed", "read_uncommitted"), ("true", "false")]
    assessments = [judged(name, *pair) for name in (*DEFAULTS, "confluent.x") for pair in changes]
    gone = Facts("c").add_part(
        RecordFacts({REF: {"offsets.orders": Setting("earliest", "2026-11-03", "a", None, "r")}})
    )
    anew = judge_create(REF, {"offsets.orders": "earliest"}, gone)
    found = {assessment.hazard for assessment in (*assessments, moved(1, 2), deletion(live()), anew)}
    assert found - {""} == HAZARDS


def test_offsets_and_configs_are_compared_by_what_they_mean() -> None:
    assert KIND.field("offsets.orders.v1").equal("committed", "6h ago")
    assert KIND.field("offsets.orders.v1").equal("earliest", "committed")
    assert not KIND.field("offsets.orders.v1").equal(None, "earliest")
    assert not KIND.field("offsets.orders.v1").equal("latest", "earliest")
    assert KIND.field("offsets.orders.v1:0").equal(5, 5)
    assert not KIND.field("offsets.orders.v1:0").equal(5, 6)
    assert not KIND.field("offsets.orders.v1:0").equal("committed", 6)
    assert KIND.field("config.consumer.session.timeout.ms").equal("050000", "50000")
    assert not KIND.field("config.consumer.session.timeout.ms").equal(None, "45000")
    path = "config.consumer.session.timeout.ms"
    assert KIND.field(path).default(FACTS) == "45000"
    assert KIND.field(path).default(Facts("c")) is None
    assert KIND.field("offsets.orders.v1").default(FACTS) is None
    paths = ["offsets.a:10", "offsets.a:9", "offsets.a", "config.share.isolation.level"]
    assert sorted(paths, key=field_order(KIND)) == paths[::-1]


# --- what a plan makes of it -------------------------------------------------------------------------


def planned(state: Mapping[str, FieldValue] | None, seen: Observed | None, **intent: object) -> Plan:
    desired = Desired(REF, state, Intent(**intent))  # type: ignore[arg-type]
    return plan_from([desired], Observation({REF: seen} if seen else {}), FACTS)


START = {"config.consumer.session.timeout.ms": "50000", "offsets.orders": "earliest"}


def test_only_missing_offsets_of_a_group_are_created() -> None:
    (planned_change,) = planned(START, None).changes
    assert planned_change.change == Create(REF, START)
    plan = planned({"config.consumer.session.timeout.ms": None}, None)
    assert (plan.changes, plan.unchanged) == ((), 1)
    plan = planned(START, observed(live(orders=(7,)), consumer_session_timeout_ms="50000"))
    assert plan.changes == ()


def test_only_a_group_without_members_gets_offsets() -> None:
    # A group without members gets the offsets that it lacks.
    seen = observed(live(payments=(7,)), consumer_session_timeout_ms="50000")
    (change,) = planned(START, seen).changes
    assert isinstance(change.change, Update)
    assert [(f.path, f.before, f.after, f.assessment) for f in change.change.fields] == [
        ("offsets.orders", None, "earliest", SAFE)
    ]
    (change,) = planned(START, observed(live("m1"))).changes
    assert change.status is Status.PLANNED
    assert isinstance(change.change, Update)
    assert [field.path for field in change.change.fields] == ["config.consumer.session.timeout.ms"]


def test_configs_that_no_manifest_mentions_are_settled_and_offsets_are_not() -> None:
    seen = observed(live(orders=(7,)), consumer_session_timeout_ms="50000")
    reported = planned({}, seen)
    assert [one.path for one in reported.undeclared] == ["config.consumer.session.timeout.ms"]
    (change,) = planned({}, seen, undeclared=Undeclared.RESET).changes
    assert isinstance(change.change, Update)
    (field,) = change.change.fields
    assert (field.after, field.effective_after) == (None, "45000")
    assert field.assessment.hazard == "session-timeout-cut"


def test_no_consent_deletes_what_is_in_use_or_protected() -> None:
    (change,) = planned(None, observed(live("m1", "m2"), x="1"), allow={"delete": "T-1"}).changes
    assert change.status is Status.REFUSED
    assert (change.reason, change.remedy) == (wording, "stop its members first")
    change = planned(None, observed(live()), deletion_protection=True, allow={"delete": "x"}).changes[0]
    assert (change.status, change.reason) == (Status.REFUSED, "spec.deletionProtection is true")


@pytest.mark.parametrize(
    ("allow", "status"), [({}, Status.NEEDS_CONSENT), ({"delete": "T-1"}, Status.PLANNED)]
)
def test_a_group_without_members_is_deleted_with_consent(allow: dict[str, str], status: Status) -> None:
    (change,) = planned(None, observed(live(orders=(1,))), allow=allow).changes
    assert change.status is status


# --- what stands against a change --------------------------------------------------------------------

INITIAL = Update(REF, None, (FieldChange("offsets.orders", None, "earliest"),))
RESET = Update(REF, None, (FieldChange("offsets.orders:0", 5, 0),))
CONFIG = Update(REF, None, (FieldChange("config.consumer.session.timeout.ms", None, "50000"),))


@pytest.mark.parametrize(
    "change", [RESET, INITIAL, Create(REF, {"offsets.orders": "latest"}), Delete(REF, None, {}, SAFE)]
)
def test_members_stand_against_offsets_and_deletion(change: Create | Update | Delete) -> None:
    obstacle = GROUP.find_obstacle(change, observed(live("m1")))
    assert obstacle is not None
    assert obstacle[0] == wording
    assert GROUP.find_obstacle(change, observed(live())) is None
    assert GROUP.find_obstacle(change, observed(None)) is None


def test_members_stand_against_offsets_and_not_against_configs() -> None:
    obstacle = GROUP.find_obstacle(RESET, observed(live(state="PreparingRebalance")))
    assert obstacle is not None
    assert obstacle[0].startswith("it is PreparingRebalance")
    assert GROUP.find_obstacle(CONFIG, observed(live("m1"))) is None
    assert (
        GROUP.find_obstacle(Create(REF, {"config.share.isolation.level": "x"}), observed(live("m1"))) is None
    )
    for change in (INITIAL, RESET):
        obstacle = GROUP.find_obstacle(change, observed(live(protocol="share")))
        assert obstacle is not None
        assert "share group" in obstacle[0]


# --- how it reads ------------------------------------------------------------------------------------


def test_creations_and_deletions_read_well() -> None:
    text = render_plan(planned(START, None)).plain
    assert "+ ConsumerGroup/checkout" in text
    assert "consumer.session.timeout.ms  50s (50000)" in text
    assert "offsets.orders               earliest" in text
    # A deletion reads well.
    plan = planned(None, observed(live(orders=(1, 2)), consumer_session_timeout_ms="50000"))
    text = render_plan(plan).plain
    assert "destructive: delete" in text
    assert text == wording
    assert "ConsumerGroup/checkout:delete" in text


def test_a_reset_reads_well_in_the_order_of_partitions() -> None:
    seen = observed(live(orders=tuple(range(100, 112))))
    target = {f"offsets.orders:{n}": 0 if n else 5000 for n in range(12)}
    observation = Observation({REF: seen})
    difference = diff_update(Desired(REF, target), target, observation, FACTS)
    plan = plan_of(difference, observation, FACTS, Policy())
    assert [change.status for change in plan.changes] == [Status.NEEDS_CONSENT]
    lines = [" ".join(line.split()) for line in render_plan(plan).plain.splitlines()]
    first = lines.index("offsets.orders:0 100 → 5000 destructive: offset-reset")
    assert lines[first + 1] == wording
    assert lines[first + 2] == wording
    assert lines[first + 3] == "why: 101 records read again"
    assert lines.index("offsets.orders:10 110 → 0 destructive: offset-reset") > first + 18
    assert "offsets.orders:10" in render_plan_markdown(plan)

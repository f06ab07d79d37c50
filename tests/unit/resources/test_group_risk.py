"""Every hazard of a group, what stands against a change, and how plans word both."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkaform.core import kafka_configs
from kafkaform.core.groups import Group, Member, Position, observed_state
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
    Plan,
    ResourceRef,
    Risk,
    RiskAssessment,
    Setting,
    Status,
    Undeclared,
    Update,
)
from kafkaform.plan.planner import diff_update, plan_from, plan_of
from kafkaform.plan.policy import Policy
from kafkaform.report.markdown import render_markdown
from kafkaform.report.text import render_plan
from kafkaform.resources import KINDS
from kafkaform.resources.base import UpdateContext
from kafkaform.resources.consumer_group import ConsumerGroupKind
from kafkaform.resources.consumer_group.risk import (
    _BY_NAME,
    HARMLESS,
    HAZARDS,
    GroupFacts,
    judge,
    judge_create,
)

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
    ("before", "after", "reason"),
    [
        (0, 1_234_567, "1,234,567 records skipped: no member reads them"),
        (1_234_567, 1_234_566, "1 record read again"),
        (5000, 0, "5,000 records read again"),
        (None, 1200, "it has no offset here, and starts at offset 1,200"),
    ],
)
def test_a_reset_says_how_many_records_are_skipped_or_read_again(
    before: FieldValue, after: FieldValue, reason: str
) -> None:
    assert moved(before, after) == RiskAssessment(Risk.DESTRUCTIVE, "offset-reset", reason)


def test_a_first_offset_is_safe() -> None:
    path = "offsets.orders.v1"
    assert judge(path, UpdateContext(REF, {}, {path: "latest"}, Intent(), FACTS)) == SAFE


# --- configs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["consumer", "share", "streams"])
def test_a_shorter_session(protocol: str) -> None:
    name = f"{protocol}.session.timeout.ms"
    found = judged(name, "60000", "45000")
    assert (found.risk, found.hazard) == (Risk.DISRUPTIVE, "session-timeout-cut")
    assert "sends no heartbeat for 45s (was 1m)" in found.reason
    assert judged(name, "45000", "60000") == SAFE
    assert "a value this account may not read" in judged(name, "60000", None).reason


@pytest.mark.parametrize("protocol", ["consumer", "share", "streams"])
def test_heartbeats_that_are_too_rare_for_the_session(protocol: str) -> None:
    name, session = f"{protocol}.heartbeat.interval.ms", f"{protocol}_session_timeout_ms"
    found = judged(name, "5000", "15001", **{session: "45000"})
    assert (found.risk, found.hazard) == (Risk.DISRUPTIVE, "heartbeat-raise")
    assert "are removed after 45s without: fewer than 3 heartbeats fit" in found.reason
    assert judged(name, "5000", "15000", **{session: "45000"}) == SAFE
    assert judged(name, "20000", "19000", **{session: "45000"}) == SAFE
    assert judged(name, "5000", "6000").hazard == "heartbeat-raise"  # the session timeout is not known
    assert judged(name, "5000", None, **{session: "45000"}).hazard == "heartbeat-raise"


def test_reading_uncommitted_records() -> None:
    name = "share.isolation.level"
    found = judged(name, "read_committed", "read_uncommitted")
    assert (found.risk, found.hazard) == (Risk.DISRUPTIVE, "isolation-level")
    assert "from read_committed to read_uncommitted" in found.reason
    assert judged(name, "read_uncommitted", "read_committed") == SAFE
    assert judged(name, None, "read_uncommitted").hazard == "isolation-level"


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("earliest", "from the first record that it still has"),
        ("latest", "from its end, and what came before is skipped"),
        ("by_duration:PT6H", "from PT6H back"),
        (None, "from a value this account may not read"),
    ],
)
def test_where_a_share_group_reads_new_partitions_from(after: str | None, words: str) -> None:
    found = judged("share.auto.offset.reset", "none", after)
    assert (found.risk, found.hazard) == (Risk.DISRUPTIVE, "offset-reset-policy")
    assert words in found.reason


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("2", "1", "go from 2 to 1: fewer members can take over"),
        ("1", "0", "go from 1 to 0: a task whose member fails is restored from its changelog"),
        ("0", "1", "go from 0 to 1: members read the changelogs of more tasks"),
    ],
)
def test_standby_replicas(before: str, after: str, words: str) -> None:
    found = judged("streams.num.standby.replicas", before, after)
    assert (found.risk, found.hazard) == (Risk.DISRUPTIVE, "standby-replicas")
    assert words in found.reason


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


def test_locks_that_can_no_longer_be_renewed() -> None:
    name = "share.renew.acknowledge.enable"
    found = judged(name, "true", "false", share_record_lock_duration_ms="30000")
    assert (found.risk, found.hazard) == (Risk.DISRUPTIVE, "lock-renewal-off")
    assert "that is processed for longer than 30s" in found.reason
    assert judged(name, "false", "true") == SAFE


def test_a_config_that_kafka_does_not_know() -> None:
    assert judged("confluent.x", None, "1").hazard == "unknown-config"


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_harmless_configs_are_safe(name: str) -> None:
    assert judged(name, "5000", "6000") == judged(name, "6000", "5000") == judged(name, None, "1") == SAFE


def test_every_group_config_of_kafka_is_judged_or_harmless_for_a_reason() -> None:
    assert _BY_NAME.keys() | HARMLESS.keys() == kafka_configs.group_configs().keys()
    assert not _BY_NAME.keys() & HARMLESS.keys()
    assert all(HARMLESS.values())


def test_a_config_that_nobody_classified_is_not_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "share.assignment.interval.ms"
    monkeypatch.delitem(HARMLESS, name)
    found = judged(name, "5000", "6000")
    assert (found.risk, found.hazard) == (Risk.DISRUPTIVE, "unknown-config")
    assert found.reason == f"this version of kafkaform does not know what a change of {name} does"


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
    return ConsumerGroupKind().judge_delete(observed(group, **configs), facts)


def test_a_deletion_says_which_offsets_and_configs_go_and_where_members_start_then() -> None:
    found = deletion(live(orders=(1, 2, 3), payments=(4,)), consumer_session_timeout_ms="50000")
    assert (found.risk, found.hazard) == (Risk.DESTRUCTIVE, "delete")
    assert found.reason == (
        "deletes 4 committed offsets in orders (3 partitions), payments (1 partition) "
        "and config consumer.session.timeout.ms: a consumer that returns starts by its auto.offset.reset, "
        "so latest skips what it has not read, and earliest reads all of it again"
    )
    assert "kafkaform reset checkout --to current --export checkout.csv" in str(found.remedy)


def test_a_deletion_of_configs_alone_keeps_no_offsets() -> None:
    found = deletion(None, consumer_session_timeout_ms="1", consumer_heartbeat_interval_ms="2")
    assert found.reason == (
        "deletes configs consumer.heartbeat.interval.ms, consumer.session.timeout.ms: "
        "members that return have the cluster's defaults"
    )
    assert found.remedy is None


def test_a_share_group_starts_again_by_the_clusters_default() -> None:
    found = deletion(live(protocol="share"), share_auto_offset_reset="earliest")
    assert "by share.auto.offset.reset, which is then latest" in found.reason
    without_configs = deletion(live(protocol="share", orders=(1,)))
    assert "by share.auto.offset.reset, which is then latest" in without_configs.reason
    assert without_configs.remedy == (
        "note its start offsets first: "
        "kafka-share-groups.sh --bootstrap-server HOST:PORT --describe --offsets --group checkout"
    )
    unread = deletion(live(protocol="share"), Facts("c"), share_auto_offset_reset="earliest")
    assert "which is then a value this account may not read" in unread.reason


def test_of_many_topics_the_first_are_named() -> None:
    positions = tuple(Position(f"t{n}", 0, n) for n in range(8))
    found = deletion(Group("checkout", "consumer", "Empty", positions=positions))
    assert "8 committed offsets in t0 (1 partition), " in found.reason
    assert "t4 (1 partition) and 3 more topics:" in found.reason


def test_an_empty_group_is_still_a_deletion() -> None:
    assert deletion(live()).reason.startswith("deletes the group, which has neither offsets nor configs")


def test_the_list_of_hazards_is_complete() -> None:
    changes = [("1", "2"), ("2", "1"), ("read_committed", "read_uncommitted"), ("true", "false")]
    assessments = [judged(name, *pair) for name in (*DEFAULTS, "confluent.x") for pair in changes]
    gone = GroupFacts({REF: {"offsets.orders": Setting("earliest", "2026-11-03", "a", None, "r")}}).beside(
        Facts("c")
    )
    anew = judge_create(REF, {"offsets.orders": "earliest"}, gone)
    found = {assessment.hazard for assessment in (*assessments, moved(1, 2), deletion(live()), anew)}
    assert found - {""} == HAZARDS


# --- what is compared --------------------------------------------------------------------------------


def test_a_committed_offset_is_where_any_start_was_meant_to_lead() -> None:
    assert KIND.equal("offsets.orders.v1", "committed", "6h ago")
    assert KIND.equal("offsets.orders.v1", "earliest", "committed")
    assert not KIND.equal("offsets.orders.v1", None, "earliest")
    assert not KIND.equal("offsets.orders.v1", "latest", "earliest")


def test_offsets_of_partitions_are_numbers() -> None:
    assert KIND.equal("offsets.orders.v1:0", 5, 5)
    assert not KIND.equal("offsets.orders.v1:0", 5, 6)
    assert not KIND.equal("offsets.orders.v1:0", "committed", 6)


def test_configs_compare_by_kafkas_type() -> None:
    assert KIND.equal("config.consumer.session.timeout.ms", "050000", "50000")
    assert not KIND.equal("config.consumer.session.timeout.ms", None, "45000")


def test_the_default_is_the_clusters() -> None:
    path = "config.consumer.session.timeout.ms"
    assert KIND.default(path, FACTS) == "45000"
    assert KIND.default(path, Facts("c")) is None
    assert KIND.default("offsets.orders.v1", FACTS) is None


def test_fields_are_in_order_of_partition_number() -> None:
    paths = ["offsets.a:10", "offsets.a:9", "offsets.a", "config.share.isolation.level"]
    assert sorted(paths, key=KIND.field_order) == paths[::-1]


# --- what a plan makes of it -------------------------------------------------------------------------


def planned(state: Mapping[str, FieldValue] | None, seen: Observed | None, **intent: object) -> Plan:
    desired = Desired(REF, state, Intent(**intent))  # type: ignore[arg-type]
    return plan_from([desired], Observation({REF: seen} if seen else {}), FACTS)


START = {"config.consumer.session.timeout.ms": "50000", "offsets.orders": "earliest"}


def test_a_group_that_is_not_there_is_created() -> None:
    (planned_change,) = planned(START, None).changes
    assert planned_change.change == Create(REF, START)


def test_nothing_is_created_of_a_group_of_which_brokers_hold_nothing() -> None:
    plan = planned({"config.consumer.session.timeout.ms": None}, None)
    assert (plan.changes, plan.unchanged) == ((), 1)


def test_an_offset_that_is_there_is_never_moved() -> None:
    plan = planned(START, observed(live(orders=(7,)), consumer_session_timeout_ms="50000"))
    assert plan.changes == ()


def test_a_group_without_members_gets_the_offsets_that_it_lacks() -> None:
    seen = observed(live(payments=(7,)), consumer_session_timeout_ms="50000")
    (change,) = planned(START, seen).changes
    assert isinstance(change.change, Update)
    assert [(f.path, f.before, f.after, f.assessment) for f in change.change.fields] == [
        ("offsets.orders", None, "earliest", SAFE)
    ]


def test_a_group_with_members_is_not_given_offsets_and_gets_its_configs() -> None:
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


def test_a_group_with_members_is_not_deleted_whatever_the_consent() -> None:
    (change,) = planned(None, observed(live("m1", "m2"), x="1"), allow={"delete": "T-1"}).changes
    assert change.status is Status.REFUSED
    assert (change.reason, change.remedy) == (
        "it has 2 members, and Kafka does not delete a group in use",
        "stop its members first",
    )


@pytest.mark.parametrize(
    ("allow", "status"), [({}, Status.NEEDS_CONSENT), ({"delete": "T-1"}, Status.PLANNED)]
)
def test_a_group_without_members_is_deleted_with_consent(allow: dict[str, str], status: Status) -> None:
    (change,) = planned(None, observed(live(orders=(1,))), allow=allow).changes
    assert change.status is status


def test_deletion_protection() -> None:
    change = planned(None, observed(live()), deletion_protection=True, allow={"delete": "x"}).changes[0]
    assert (change.status, change.reason) == (Status.REFUSED, "spec.deletionProtection is true")


# --- what stands against a change --------------------------------------------------------------------

INITIAL = Update(REF, None, (FieldChange("offsets.orders", None, "earliest"),))
RESET = Update(REF, None, (FieldChange("offsets.orders:0", 5, 0),))
CONFIG = Update(REF, None, (FieldChange("config.consumer.session.timeout.ms", None, "50000"),))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (RESET, "it has 1 member, and Kafka does not change the offsets of a group in use"),
        (INITIAL, "it has 1 member by now: members start by their own auto.offset.reset"),
        (Create(REF, {"offsets.orders": "latest"}), "it has 1 member by now: members start by"),
        (Delete(REF, None, {}, SAFE), "it has 1 member, and Kafka does not delete a group in use"),
    ],
)
def test_members_stand_against_offsets_and_deletion(change: Create | Update | Delete, reason: str) -> None:
    obstacle = KIND.obstacle(change, observed(live("m1")))
    assert obstacle is not None
    assert obstacle[0].startswith(reason)
    assert KIND.obstacle(change, observed(live())) is None
    assert KIND.obstacle(change, observed(None)) is None


def test_a_group_that_is_rebalancing_is_in_use() -> None:
    obstacle = KIND.obstacle(RESET, observed(live(state="PreparingRebalance")))
    assert obstacle is not None
    assert obstacle[0].startswith("it is PreparingRebalance")


def test_members_do_not_stand_against_configs() -> None:
    assert KIND.obstacle(CONFIG, observed(live("m1"))) is None
    assert KIND.obstacle(Create(REF, {"config.share.isolation.level": "x"}), observed(live("m1"))) is None


def test_a_live_share_group_has_no_offsets_to_commit() -> None:
    for change in (INITIAL, RESET):
        obstacle = KIND.obstacle(change, observed(live(protocol="share")))
        assert obstacle is not None
        assert "share group" in obstacle[0]


# --- how it reads ------------------------------------------------------------------------------------


def test_a_creation_reads_well() -> None:
    text = render_plan(planned(START, None)).plain
    assert "+ ConsumerGroup/checkout" in text
    assert "consumer.session.timeout.ms  50s (50000)" in text
    assert "offsets.orders               earliest" in text


def test_a_reset_reads_well_in_the_order_of_partitions() -> None:
    seen = observed(live(orders=tuple(range(100, 112))))
    target = {f"offsets.orders:{n}": 0 if n else 5000 for n in range(12)}
    observation = Observation({REF: seen})
    difference = diff_update(Desired(REF, target), target, observation, FACTS)
    plan = plan_of(difference, observation, FACTS, Policy())
    assert [change.status for change in plan.changes] == [Status.NEEDS_CONSENT]
    lines = [" ".join(line.split()) for line in render_plan(plan).plain.splitlines()]
    first = lines.index("offsets.orders:0 100 → 5000 destructive: offset-reset")
    assert lines[first + 1] == "4,900 records skipped: no member reads them"
    assert lines[first + 2] == "offsets.orders:1 101 → 0 destructive: offset-reset"
    assert lines[first + 3] == "101 records read again"
    assert lines.index("offsets.orders:10 110 → 0 destructive: offset-reset") > first + 18
    assert "offsets.orders:10" in render_markdown(plan)


def test_a_deletion_reads_well() -> None:
    plan = planned(None, observed(live(orders=(1, 2)), consumer_session_timeout_ms="50000"))
    text = render_plan(plan).plain
    assert "destructive: delete" in text
    assert "deletes 2 committed offsets in orders (2 partitions)" in text
    assert "ConsumerGroup/checkout:delete" in text

"""The rules about groups: for each a manifest that trips it and one that does not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kafkaform import rules
from kafkaform.config.manifests.loader import Context, load
from kafkaform.core import kafka_configs
from kafkaform.core.model import Desired, Facts, Intent, Location, Observed, ResourceRef, Severity
from kafkaform.resources.groups import PROTOCOLS, Group, Member
from kafkaform.rules import Finding, RuleContext, Stage
from tests.support.golden import wording
from tests.support.plans.scenes import absent, declared, topic
from tests.support.plans.scenes import group_ref as ref

HOUR, DAY = 3_600_000, 86_400_000
ORDERS = declared("orders", 12)


def group(*, protocol: str | None = "classic", topics: tuple[str, ...] = ("orders",), **spec: Any) -> Desired:
    """A group as its kind hands it to rules."""
    said = {} if protocol is None else {"protocol": protocol}
    return Desired(ref(), {}, Intent(spec={"topics": list(topics), **said, **spec}))


def found(code: str, *desired: Desired, **scene: Any) -> list[Finding]:
    return list(rules.RULES[code].check(RuleContext(desired, **scene)))


def only(code: str, *desired: Desired, **scene: Any) -> Finding:
    (finding,) = found(code, *desired, **scene)
    return finding


def severity(code: str, finding: Finding) -> Severity:
    return finding.severity or rules.RULES[code].severity


def live_group(protocol: str = "classic", members: int = 0, *, instances: bool = False, **more: Any) -> Group:
    made = tuple(Member(str(n), instance_id=f"i{n}" if instances else None) for n in range(members))
    return Group("g", protocol, more.pop("state", "Stable" if members else "Empty"), members=made, **more)


def lives(live: Group | None) -> dict[ResourceRef, Observed]:
    return {ref(): Observed(ref(), None, {}, live=live)}


GROUP_CODES = [f"KF2{n:02}" for n in range(1, 17)]


@pytest.mark.parametrize("code", GROUP_CODES)
def test_a_group_that_says_nothing_but_its_topic_is_only_told_of_its_assignor(code: str) -> None:
    assert [f.path for f in found(code, ORDERS, group())] == (["protocol"] if code == "KF204" else [])


@pytest.mark.parametrize("code", GROUP_CODES)
def test_a_tombstone_trips_nothing(code: str) -> None:
    spec = {"members": {"expected": 99}, "topics": ["?"], "client": {"group.remote.assignor": "range"}}
    assert (
        found(code, Desired(ref(), None, Intent(spec=spec)), subset=False, live=lives(live_group("share")))
        == []
    )


@pytest.mark.parametrize("code", GROUP_CODES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_rule_fails_on_a_group_that_says_nothing(code: str, protocol: str) -> None:
    bare = Desired(ref(), {}, Intent(spec={"protocol": protocol}))
    assert [f.path for f in found(code, bare)] == (
        ["protocol"] if (code, protocol) == ("KF204", "classic") else []
    )
    assert not found(code, Desired(ref(), {})) or code == "KF204"


# --- KF201 -----------------------------------------------------------------------------------------


def test_members_beyond_the_partitions_that_they_share_are_idle() -> None:
    # Members beyond the partitions are counted.
    finding = only("KF201", ORDERS, group(members={"expected": 14}))
    assert (finding.message, finding.path) == (wording, "members.expected")
    assert severity("KF201", finding) is Severity.WARNING
    finding = only("KF201", ORDERS, group(members={"expected": 12, "max": 13}))
    assert (finding.path, finding.message) == ("members.max", wording)
    assert found("KF201", ORDERS, group(members={"expected": 12, "max": 12})) == []
    findings = found("KF201", ORDERS, group(members={"expected": 13, "max": 20}))
    assert [f.path for f in findings] == ["members.expected", "members.max"]
    # Partitions of all topics count unless the assignor deals out each topic.
    more = declared("returns", 4)
    spec: dict[str, Any] = {"topics": ("orders", "returns"), "members": {"expected": 14}}
    assert found("KF201", ORDERS, more, group(**spec, client=cooperative())) == []
    assert found("KF201", ORDERS, more, group(protocol="consumer", **spec)) == []
    finding = only("KF201", ORDERS, more, group(**spec))  # range, which Java clients have by default
    assert finding.message == wording
    ranged = group(protocol="consumer", client={"group.remote.assignor": "range"}, **spec)
    assert len(found("KF201", ORDERS, more, ranged)) == 1
    both = group(topics=("orders", "unknown"), members={"expected": 99})
    assert found("KF201", ORDERS, both) == []
    assert found("KF201", absent("orders"), group(members={"expected": 99})) == []
    live = {topic("orders"): Observed(topic("orders"), "id", {"partitions": 3})}
    assert found("KF201", group(members={"expected": 3}), live=live) == []
    assert "1 is idle" in only("KF201", group(members={"expected": 4}), live=live).message


def cooperative(**more: str) -> dict[str, str]:
    return {"partition.assignment.strategy": "cooperative-sticky", **more}


@pytest.mark.parametrize("code", ["KF201", "KF202"])
@pytest.mark.parametrize("protocol", ["share", "streams"])
def test_members_that_share_partitions_may_be_more(code: str, protocol: str) -> None:
    for members in (5, 99):
        assert found(code, ORDERS, group(protocol=protocol, members={"expected": members})) == []


# --- KF202 -----------------------------------------------------------------------------------------


def test_members_should_divide_the_partitions_that_they_share() -> None:
    # Members that do not divide the partitions.
    finding = only("KF202", ORDERS, group(members={"expected": 5}))
    assert (finding.message, finding.suggestion, finding.path) == (wording, wording, "members.expected")
    assert severity("KF202", finding) is Severity.INFO
    # The number of members that is suggested is even.
    for partitions in (5, 7, 9, 12, 17, 60):
        for members in range(2, partitions):
            for finding in found(
                "KF202", declared("orders", partitions), group(members={"expected": members})
            ):
                words = (finding.suggestion or "").partition(" members,")[0].split()
                for better in (int(word) for word in words if word.isdigit()):
                    assert partitions % better == 0 or better == members
    # Range gives the rest of each topic to the same members.
    topics = [declared(f"t{n}", 3) for n in range(4)]
    names = tuple(t.ref.name for t in topics)
    finding = only("KF202", *topics, group(topics=names, members={"expected": 2}))
    assert (finding.message, finding.suggestion) == (wording, wording)
    assert found("KF202", *topics, group(topics=names, members={"expected": 2}, client=cooperative())) == []


@pytest.mark.parametrize("members", [1, 2, 3, 4, 6, 12, 13])
def test_members_that_divide_the_partitions(members: int) -> None:
    assert found("KF202", ORDERS, group(members={"expected": members})) == []


# --- KF203 -----------------------------------------------------------------------------------------


def slow(each: int, protocol: str = "classic", **more: Any) -> Desired:
    return group(protocol=protocol, processing={"maxTimePerRecord": each}, **more)


def test_a_batch_has_to_fit_into_the_poll_interval() -> None:
    # A batch that takes as long as the poll interval.
    client = {"max.poll.records": "1500", "max.poll.interval.ms": "300000"}
    finding = only("KF203", slow(200, client=client))
    assert (finding.message, finding.suggestion) == (wording, wording)
    assert finding.path == "client.max.poll.records"
    assert severity("KF203", finding) is Severity.WARNING
    assert found("KF203", slow(200, client={**client, "max.poll.records": "1499"})) == []
    assert found("KF203", slow(599)) == []
    assert only("KF203", slow(600)).path == "processing.maxTimePerRecord"
    assert only("KF203", slow(300, "streams")).message.startswith("max.poll.records 1000 x 300ms")
    assert found("KF203", slow(300)) == []
    finding = only("KF203", slow(300_000))
    assert finding.suggestion == wording
    # A share group has until its locks end.
    finding = only("KF203", slow(60, "share"))
    assert finding.message == wording
    assert found("KF203", slow(60, "share", config={"share.record.lock.duration.ms": "30001"})) == []
    defaults = Facts("c", config_defaults={"ConsumerGroup": {"share.record.lock.duration.ms": "60000"}})
    assert found("KF203", slow(60, "share"), facts=defaults) == []


@pytest.mark.parametrize("each", [600, 601, 7_001, 299_999])
def test_the_suggested_batch_is_the_largest_that_fits(each: int) -> None:
    suggestion = only("KF203", slow(each)).suggestion or ""
    fitting = int(suggestion.removeprefix("write `client: {max.poll.records: ").removesuffix("}` or less"))
    assert found("KF203", slow(each, client={"max.poll.records": str(fitting)})) == []
    assert found("KF203", slow(each, client={"max.poll.records": str(fitting + 1)})) != []


# --- KF204 -----------------------------------------------------------------------------------------


def assigned(strategy: str, protocol: str = "classic") -> Desired:
    return group(protocol=protocol, client={"partition.assignment.strategy": strategy})


@pytest.mark.parametrize(
    "strategy",
    [
        "range",
        "roundrobin",
        "range,roundrobin",
        "cooperative-sticky,range",
        "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    ],
)
def test_assignors_that_stop_all_members(strategy: str) -> None:
    finding = only("KF204", assigned(strategy))
    assert (finding.message, finding.path) == (wording, "client.partition.assignment.strategy")
    assert severity("KF204", finding) is Severity.INFO


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "com.example.Own"])
def test_assignors_that_need_not(strategy: str) -> None:
    assert found("KF204", assigned(strategy)) == []


def test_assignors_that_stop_all_members_are_named_with_the_way_out() -> None:
    finding = only("KF204", group())
    assert "is range by default" in finding.message
    assert finding.suggestion == wording
    assert only("KF204", assigned("roundrobin,range")).suggestion == wording


@pytest.mark.parametrize("protocol", ["consumer", "share", "streams"])
def test_only_classic_groups_have_assignors_of_their_own(protocol: str) -> None:
    assert found("KF204", assigned("range", protocol)) == []


# --- KF205 -----------------------------------------------------------------------------------------

FIXED = {"expected": 6, "max": 6}


def test_a_group_of_fixed_size_should_have_static_members() -> None:
    finding = only("KF205", group(members=FIXED))
    assert finding.message == wording
    assert (finding.path, severity("KF205", finding)) == ("members.expected", Severity.INFO)
    assert only("KF205", group(members=FIXED, protocol="consumer"))
    assert found("KF205", group(members=FIXED), live=lives(live_group(members=6, instances=True))) == []
    assert found("KF205", group(members=FIXED), groups={"g": live_group(members=6, instances=True)}) == []
    assert only("KF205", group(members=FIXED), live=lives(live_group(members=6)))
    assert only("KF205", group(members=FIXED), live=lives(live_group()))
    # One id for all members shuts them out.
    shared = group(members={"expected": 6}, client={"group.instance.id": "worker"})
    finding = only("KF205", shared)
    assert finding.message == wording
    assert (finding.path, finding.severity) == ("client.group.instance.id", Severity.WARNING)
    for text in ("worker-{pod}", "<pod>", "%i", "$POD"):
        assert found("KF205", group(members=FIXED, client={"group.instance.id": text})) == []
    assert found("KF205", group(members={"expected": 1}, client={"group.instance.id": "worker"})) == []


@pytest.mark.parametrize(
    "members", [{"expected": 6}, {"max": 6}, {"expected": 6, "max": 7}, {"expected": 1, "max": 1}]
)
def test_groups_that_grow_or_have_one_member_need_no_static_members(members: dict[str, int]) -> None:
    assert found("KF205", group(members=members)) == []


@pytest.mark.parametrize("protocol", ["share", "streams"])
def test_protocols_without_static_members(protocol: str) -> None:
    assert found("KF205", group(members=FIXED, protocol=protocol)) == []


# --- KF206 -----------------------------------------------------------------------------------------


def beating(protocol: str, session: int | None, beat: int | None) -> Desired:
    section, prefix = ("client", "") if protocol == "classic" else ("config", f"{protocol}.")
    names = {f"{prefix}session.timeout.ms": session, f"{prefix}heartbeat.interval.ms": beat}
    spec: dict[str, Any] = {section: {n: str(v) for n, v in names.items() if v is not None}}
    return group(protocol=protocol, **spec)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_three_heartbeats_fit_into_a_session(protocol: str) -> None:
    assert found("KF206", beating(protocol, 9000, 3000)) == []
    finding = only("KF206", beating(protocol, 8999, 3000))
    section, prefix = ("client", "") if protocol == "classic" else ("config", f"{protocol}.")
    assert (finding.message, finding.suggestion) == (wording, wording)
    assert finding.path == f"{section}.{prefix}session.timeout.ms"
    assert severity("KF206", finding) is Severity.WARNING


def test_defaults_count_and_settings_of_other_protocols_do_not() -> None:
    # The default of the other setting counts.
    assert found("KF206", beating("classic", None, 15_000)) == []
    assert only("KF206", beating("classic", None, 15_001)).path == "client.heartbeat.interval.ms"
    assert found("KF206", beating("consumer", None, 15_000)) == []
    assert only("KF206", beating("consumer", None, 15_001)).path == "config.consumer.heartbeat.interval.ms"
    short = Facts("c", config_defaults={"ConsumerGroup": {"consumer.session.timeout.ms": "30000"}})
    assert only("KF206", beating("consumer", None, 10_001), facts=short)
    assert found("KF206", beating("consumer", None, 10_000), facts=short) == []
    assert found("KF206", group(protocol="consumer", client={"session.timeout.ms": "1"})) == []
    assert found("KF206", group(config={"consumer.session.timeout.ms": "1"})) == []


# --- KF207 -----------------------------------------------------------------------------------------


def test_idle_fetches_are_counted_from_five_hundred_a_second_on() -> None:
    # Idle fetches are counted.
    many = declared("orders", 600)
    finding = only("KF207", many, group(members={"expected": 50}), brokers=6)
    assert (finding.message, finding.suggestion) == (wording, wording)
    assert (finding.path, severity("KF207", finding)) == ("members.expected", Severity.INFO)
    better = group(members={"expected": 50}, client={"fetch.max.wait.ms": "1000"})
    assert found("KF207", many, better, brokers=6) == []
    many = declared("orders", 600)
    assert found("KF207", many, group(members={"expected": 49}), brokers=5) == []
    assert "are 500 fetch" in only("KF207", many, group(members={"expected": 50}), brokers=5).message
    assert found("KF207", declared("orders", 60), group(members={"expected": 1000}), brokers=3) == []
    finding = only("KF207", declared("orders", 500), group(members={"expected": 250}), brokers=6)
    assert "250 members x 2 brokers" in finding.message


def test_unknown_brokers_and_shorter_waits_are_said() -> None:
    finding = only("KF207", declared("orders", 500), group(members={"expected": 250}))
    assert finding.message == wording
    # A shorter wait costs more and a longer one was thought about.
    many = declared("orders", 600)
    short = group(members={"expected": 10}, client={"fetch.max.wait.ms": "100"})
    assert only("KF207", many, short, brokers=6).path == "client.fetch.max.wait.ms"
    longer = group(members={"expected": 600}, client={"fetch.max.wait.ms": "501"})
    assert found("KF207", many, longer, brokers=6) == []


# --- KF208 -----------------------------------------------------------------------------------------


def test_records_that_expire_while_the_group_is_down_are_told() -> None:
    # Records that expire while the group is down.
    kept = declared("orders", retention_ms=str(2 * DAY))
    finding = only("KF208", kept, group(downtime={"max": 2 * DAY + 1}))
    assert (finding.message, finding.suggestion) == (wording, wording)
    assert (finding.path, severity("KF208", finding)) == ("downtime.max", Severity.WARNING)
    assert found("KF208", kept, group(downtime={"max": 2 * DAY}, lag={"maxTime": 2 * DAY})) == []
    assert only("KF208", kept, group(lag={"maxTime": 3 * DAY})).path == "lag.maxTime"
    week = group(downtime={"max": 8 * DAY})
    assert "for 7d (Kafka's own default)" in only("KF208", ORDERS, week).message
    longer = Facts("c", config_defaults={"Topic": {"retention.ms": str(9 * DAY), "cleanup.policy": "delete"}})
    assert found("KF208", ORDERS, week, facts=longer) == []

    # A live topic has its own retention.
    def live(retention: str, policy: str = "delete") -> Mapping[ResourceRef, Observed]:
        effective = {"config.retention.ms": retention, "config.cleanup.policy": policy}
        return {topic("orders"): Observed(topic("orders"), "id", {"partitions": 1}, effective)}

    down = group(downtime={"max": 2 * HOUR})
    finding = only("KF208", down, live=live(str(HOUR)))
    assert "orders keeps records for 1h" in finding.message
    assert finding.suggestion == wording
    assert found("KF208", down, live=live(str(2 * HOUR))) == []
    assert found("KF208", down, live=live("-1")) == []
    assert found("KF208", down, live=live(str(HOUR), "compact")) == []


@pytest.mark.parametrize("configs", [{"retention_ms": "-1"}, {"cleanup_policy": "compact"}])
def test_topics_that_keep_their_records(configs: dict[str, str]) -> None:
    assert found("KF208", declared("orders", **configs), group(downtime={"max": 99 * DAY})) == []  # type: ignore[arg-type]


# --- KF209 -----------------------------------------------------------------------------------------


def delivering(delivery: str, protocol: str = "classic", **client: str) -> Desired:
    settings = {name.replace("_", "."): value for name, value in client.items()}
    return group(protocol=protocol, guarantees={"delivery": delivery}, client=settings)


def test_automatic_commits_meet_no_guarantee() -> None:
    # Automatic commits meet no guarantee.
    once = delivering("at-least-once", enable_auto_commit="true")
    finding = only("KF209", once)
    assert finding.message == wording
    assert (finding.path, severity("KF209", finding)) == ("client.enable.auto.commit", Severity.WARNING)
    finding = only("KF209", delivering("at-least-once"))
    assert (finding.message, finding.path) == (wording, "guarantees.delivery")
    assert only("KF209", delivering("at-most-once")).severity is Severity.INFO
    assert "delivers at least once" in only("KF209", delivering("exactly-once", "share")).message
    assert found("KF209", delivering("at-least-once", "share")) == []
    assert found("KF209", delivering("exactly-once", "streams")) == []


@pytest.mark.parametrize("delivery", ["at-most-once", "at-least-once"])
def test_own_commits_meet_both(delivery: str) -> None:
    assert found("KF209", delivering(delivery, enable_auto_commit="false")) == []


def test_exactly_once_needs_own_commits_and_committed_reads() -> None:
    exactly = "exactly-once"
    findings = found("KF209", delivering(exactly))
    assert [f.path for f in findings] == ["guarantees.delivery"] * 2
    finding = only(
        "KF209", delivering(exactly, enable_auto_commit="false", isolation_level="read_uncommitted")
    )
    assert (finding.path, finding.suggestion) == (
        "client.isolation.level",
        "write `client: {isolation.level: read_committed}`",
    )
    finding = only("KF209", delivering(exactly, enable_auto_commit="true", isolation_level="read_committed"))
    assert finding.path == "client.enable.auto.commit"
    assert (
        found("KF209", delivering(exactly, enable_auto_commit="false", isolation_level="read_committed"))
        == []
    )


def test_topics_that_no_manifest_declares_are_told_with_what_is_known() -> None:
    finding = only("KF210", ORDERS, group(topics=("orders", "oders")))
    assert (finding.message, finding.suggestion) == ("no manifest declares oders", "did you mean 'orders'?")
    assert (finding.path, severity("KF210", finding)) == ("topics", Severity.WARNING)
    # What the cluster knows is said.
    online: dict[str, Any] = {"facts": Facts("c"), "inventory": frozenset({topic("oders")})}
    finding = only("KF210", ORDERS, group(topics=("oders",)), **online)
    assert (finding.message, finding.suggestion) == (wording, wording)
    finding = only("KF210", ORDERS, group(topics=("ordres",)), **online)
    assert finding.message == wording
    # A part of the manifests does not tell.
    online = {"facts": Facts("c"), "inventory": frozenset({topic("orders")}), "subset": True}
    assert found("KF210", group(), **online) == []
    assert severity("KF210", only("KF210", group(topics=("x",)), **online)) is Severity.WARNING
    finding = only("KF210", group(), subset=True)
    assert (finding.severity, finding.message) == (Severity.INFO, wording)
    finding = only("KF210", absent("orders"), group())
    assert finding.message == wording


# --- KF211 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "name"),
    [
        ("consumer", "partition.assignment.strategy"),
        ("consumer", "session.timeout.ms"),
        ("consumer", "heartbeat.interval.ms"),
        ("classic", "group.remote.assignor"),
        ("classic", "share.acknowledgement.mode"),
        ("share", "auto.offset.reset"),
        ("share", "isolation.level"),
    ],
)
def test_settings_with_which_a_client_does_not_start(protocol: str, name: str) -> None:
    finding = only("KF211", group(protocol=protocol, client={name: "1", "max.poll.records": "5"}))
    assert (finding.message, finding.path) == (wording, f"client.{name}")
    assert severity("KF211", finding) is Severity.ERROR
    assert not rules.RULES["KF211"].waivable
    other = "classic" if protocol != "classic" else "consumer"
    if not name.startswith("share."):
        assert found("KF211", group(protocol=other, client={name: "1"})) == []


def test_what_to_declare_instead_exists() -> None:
    known = {f"client.{n}" for n in kafka_configs.consumer_configs()}
    known |= {f"config.{n}" for n in kafka_configs.group_configs()}
    for protocol in PROTOCOLS:
        client = dict.fromkeys(kafka_configs.refused_by_client(protocol), "1")
        for finding in found("KF211", group(protocol=protocol, client=client)):
            words = (finding.suggestion or "").replace(",", " ").split()
            assert {word for word in words if word.startswith(("client.", "config."))} <= known


# --- KF212 -----------------------------------------------------------------------------------------


def starting(initial: str, reset: str | None = None, protocol: str = "classic") -> Desired:
    client = {} if reset is None else {"auto.offset.reset": reset}
    return group(protocol=protocol, offsets={"initial": initial}, client=client)


def test_partitions_that_are_added_later_should_start_as_the_first() -> None:
    # Partitions that are added later start elsewhere.
    finding = only("KF212", starting("earliest", "latest"))
    assert (finding.message, finding.suggestion) == (wording, wording)
    assert (finding.path, severity("KF212", finding)) == ("client.auto.offset.reset", Severity.WARNING)
    finding = only("KF212", starting("6h ago"))
    assert (finding.message, finding.path) == (wording, "offsets.initial")
    assert "make the clients fail" in only("KF212", starting("latest", "none")).message
    assert only("KF212", starting("latest", "earliest")).severity is Severity.INFO
    assert only("KF212", starting("earliest", "by_duration:P1D")).severity is Severity.INFO
    assert found("KF212", starting("earliest", protocol="streams")) == []
    assert only("KF212", starting("earliest", "latest", "streams"))


@pytest.mark.parametrize(
    ("initial", "reset"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("latest", None),
        ("6h ago", "earliest"),
        ("6h ago", "by_duration:PT6H"),
        ("2026-11-01T00:00:00Z", "earliest"),
    ],
)
def test_starts_that_agree(initial: str, reset: str | None) -> None:
    assert found("KF212", starting(initial, reset)) == []


# --- KF213 -----------------------------------------------------------------------------------------


def test_a_live_group_of_another_protocol_is_told_with_the_way_out() -> None:
    # A live group of another protocol.
    finding = only("KF213", group(protocol="consumer"), live=lives(live_group("classic", 3)))
    assert (finding.message, finding.suggestion) == (wording, wording)
    assert (finding.path, severity("KF213", finding)) == ("protocol", Severity.WARNING)
    assert rules.RULES["KF213"].stage is Stage.LIVE
    assert "with 1 member" in only("KF213", group(), live=lives(live_group("consumer", 1))).message
    # What to do about a group that cannot be converted.
    finding = only("KF213", group(), live=lives(live_group("share")))
    assert (finding.message, finding.suggestion) == (wording, wording)
    finding = only("KF213", group(protocol="streams"), live=lives(live_group("consumer", 2)))
    assert finding.suggestion == wording
    finding = only("KF213", group(protocol="streams"), live=lives(live_group("classic", 2)))
    assert finding.suggestion == wording


@pytest.mark.parametrize(
    "live",
    [
        None,
        live_group("classic"),
        live_group("classic", protocol_type="consumer"),
        live_group("classic", state="Dead"),
        live_group("consumer", 2),
    ],
)
def test_groups_whose_protocol_says_nothing_or_is_right(live: Group | None) -> None:
    assert found("KF213", group(protocol="consumer"), live=lives(live)) == []
    assert found("KF213", group(protocol="consumer")) == []


@pytest.mark.parametrize(
    ("live", "declared", "trips"),
    [
        ("classic", "consumer", False),
        ("classic", "streams", False),
        ("consumer", "classic", False),
        ("streams", "classic", False),
        ("consumer", "streams", True),
        ("streams", "consumer", True),
        ("share", "classic", True),
        ("share", "consumer", True),
        ("classic", "share", True),
    ],
)
def test_an_empty_group_counts_where_it_does_not_give_way(live: str, declared: str, trips: bool) -> None:
    assert bool(found("KF213", group(protocol=declared), live=lives(live_group(live)))) is trips
    assert found("KF213", group(protocol=declared), live=lives(live_group(live, 1)))


def test_configs_of_other_protocols_have_no_effect() -> None:
    # A config of another protocol.
    config = {"consumer.session.timeout.ms": "50000"}
    finding = only("KF214", group(config=config))
    assert (finding.message, finding.suggestion) == (wording, wording)
    assert finding.path == "config.consumer.session.timeout.ms"
    assert severity("KF214", finding) is Severity.WARNING
    assert only("KF214", group(protocol="share", config=config)).suggestion == wording
    assert only("KF214", group(config={"streams.num.standby.replicas": "1"})).suggestion == wording
    # Each protocol has its own configs.
    for name in kafka_configs.group_configs():
        own = name.partition(".")[0]
        for protocol in PROTOCOLS:
            trips = found("KF214", group(protocol=protocol, config={name: "1"}))
            assert bool(trips) is (protocol != own)
    assert found("KF214", group(config={"confluent.own": "1"})) == []


MANIFEST = """\
apiVersion: kafkaform/v1
kind: ConsumerGroup
metadata:
  name: checkout
  annotations: {kafkaform/waive.KF203: "a nightly batch", kafkaform/waive.KF210: "another team's"}
spec:
  topics: [orders]
  protocol: consumer
  client:
    max.poll.records: 2000
    max.poll.interval.ms: 5m
    session.timeout.ms: 30s
  processing:
    maxTimePerRecord: 200ms
  offsets:
    initial: earliest
"""


def test_findings_of_a_manifest_have_their_lines_and_waivers(tmp_path: Path) -> None:
    file = tmp_path / "g.yaml"
    file.write_text(MANIFEST, "utf-8")
    scene = RuleContext(tuple(load([file], Context())))
    shown = {d.code: (d.location, d.severity, d.waived) for d in rules.check(scene, {})}
    assert shown == {
        "KF203": (Location(str(file), 10, 5), Severity.INFO, "a nightly batch"),
        "KF210": (Location(str(file), 7, 3), Severity.INFO, "another team's"),
        "KF211": (Location(str(file), 12, 5), Severity.ERROR, None),
        "KF212": (Location(str(file), 16, 5), Severity.WARNING, None),
    }


# --- KF216 -----------------------------------------------------------------------------------------


def on_brokers(*protocols: str) -> Facts:
    return Facts("id", group_protocols=frozenset({"classic", *protocols}))


@pytest.mark.parametrize(
    ("protocol", "offered", "since"),
    [("consumer", (), "4.0"), ("share", ("consumer",), "4.1"), ("streams", ("consumer", "share"), "4.2")],
)
def test_a_protocol_that_the_brokers_do_not_offer(
    protocol: str, offered: tuple[str, ...], since: str
) -> None:
    declared_group = group(protocol=protocol, config={"consumer.session.timeout.ms": "50000"})
    finding = only("KF216", declared_group, facts=on_brokers(*offered))
    text = f"this cluster does not support the {protocol} protocol: it came with Kafka {since}"
    assert (finding.message, finding.path) == (text, "protocol")
    assert severity("KF216", finding) is Severity.ERROR
    assert found("KF216", declared_group, facts=on_brokers(*offered, protocol, "consumer")) == []
    assert found("KF216", declared_group) == []
    assert found("KF216", declared_group, facts=Facts("id")) == [], "nobody said what they offer"


def test_configs_of_groups_that_the_brokers_do_not_offer() -> None:
    finding = only("KF216", group(config={"consumer.session.timeout.ms": "50000"}), facts=on_brokers())
    assert (finding.message, finding.path) == (wording, "config")
    assert found("KF216", group(), facts=on_brokers()) == []

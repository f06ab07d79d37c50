"""Each rule about health on a cluster that trips it, and on one that does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafkaform import rules
from kafkaform.core.health import Health, LogDir, Quorum, ThrottleConfigs, Voter
from kafkaform.core.model import (
    Desired,
    Diagnostic,
    FieldValue,
    Intent,
    Location,
    Observed,
    ResourceRef,
    Severity,
)
from kafkaform.core.partitions import Broker, PartitionState
from kafkaform.core.transactions import GRACE_MS, OpenTransaction
from kafkaform.core.values import replace
from kafkaform.resources.groups import Group, Member, Position
from kafkaform.rules import RuleContext, Stage
from kafkaform.rules.catalogue import ProjectLimits
from kafkaform.rules.health import CRITICAL
from tests.support.golden import wording
from tests.support.plans.rules import PathAsLocation
from tests.support.plans.scenes import absent, declared, topic

QUORUM = Quorum(11, (Voter(11, 0), Voter(12, 3, 300), Voter(13, 0, 500)))


def cluster(*partitions: PartitionState, brokers: int = 3, **changes: Any) -> Health:
    """A cluster in good health, with some partitions."""
    sound = Health(1, tuple(Broker(number) for number in range(1, brokers + 1)), partitions, quorum=QUORUM)
    return replace(sound, **changes)


def part(
    number: int, leader: int | None, *isr: int, name: str = "a", replicas: str = "123"
) -> PartitionState:
    """A partition of topic a on brokers 1, 2 and 3."""
    return PartitionState(name, number, leader, tuple(map(int, replicas)), isr or tuple(map(int, replicas)))


def found(scene: RuleContext, severities: Mapping[str, str] | None = None) -> list[Diagnostic]:
    return list(rules.check(scene, severities or {}, (Stage.HEALTH,)))


def messages(health: Health, code: str, **more: Any) -> list[str]:
    return [one.message for one in found(RuleContext((), health=health, **more)) if one.code == code]


SOUND = cluster(part(0, 1), part(1, 2, replicas="231"), part(2, 3, replicas="312"))


def test_only_an_unhealthy_cluster_that_was_read_trips_a_rule() -> None:
    assert found(RuleContext((), brokers=3, health=SOUND)) == []
    assert found(RuleContext((), brokers=3, health=Health(1, SOUND.brokers))) == []
    assert found(RuleContext((), brokers=3)) == []
    assert rules.RULES.keys() > CRITICAL
    assert {rules.RULES[code].severity for code in CRITICAL} == {Severity.ERROR}


@pytest.mark.parametrize("code", sorted(code for code, r in rules.RULES.items() if r.stage is Stage.HEALTH))
def test_a_rule_about_the_whole_cluster_cannot_be_waived_by_a_manifest(code: str) -> None:
    assert rules.RULES[code].waivable is (code in {"KF306", "KF307"})


# --- KF301 -----------------------------------------------------------------------------------------


def test_no_controller_and_how_many_more_may_fail() -> None:
    (message,) = messages(cluster(quorum=Quorum(None)), "KF301")
    assert message.startswith("no active controller answers")
    assert len(messages(cluster(quorum=None, controller=None), "KF301")) == 1
    assert messages(cluster(quorum=None), "KF301") == []
    voters = (Voter(1, 0), *(Voter(number, 0, 5) for number in range(2, 5)), Voter(5, None))
    (message,) = messages(cluster(quorum=Quorum(1, voters)), "KF301")
    assert message.endswith("1 more may fail")


@pytest.mark.parametrize(
    ("voter", "why"),
    [
        (Voter(13, 0, 9_999), None),
        (Voter(13, 0, 10_000), "13 has not fetched for 10s"),
        (Voter(13, 0, 125_400), "13 has not fetched for 2m 5s"),
        (Voter(13, 9_999, 5), None),
        (Voter(13, 10_000, 5), "13 is 10,000 records behind"),
        (Voter(13, 0, None), None),
        (Voter(13, None, None), "13 has not fetched since 11 was elected"),
    ],
)
def test_a_voter_is_out_of_sync(voter: Voter, why: str | None) -> None:
    told = messages(cluster(quorum=Quorum(11, (*QUORUM.voters[:2], voter))), "KF301")
    assert told == ([f"1 of 3 controller voters is out of sync ({why}): no more may fail"] if why else [])


def test_fewer_brokers_than_declared() -> None:
    health = cluster(part(0, 1), brokers=2)
    assert messages(health, "KF302", brokers=3) == [wording]
    assert messages(health, "KF302", brokers=2) == []
    assert messages(health, "KF302") == []


def test_under_replicated_partitions_name_the_brokers_to_look_at() -> None:
    # Under replicated partitions name the brokers that are missing.
    health = cluster(*(part(n, 1, 1, 2) for n in range(6)), part(0, 2, 2, 3, name="b"), brokers=2)
    (finding,) = [one for one in found(RuleContext((), health=health)) if one.code == "KF303"]
    assert finding.message == wording
    assert finding.suggestion is not None
    assert finding.suggestion.startswith("start broker 3,")
    (finding,) = [
        one for one in found(RuleContext((), health=cluster(part(0, 1, 1, 2)))) if one.code == "KF303"
    ]
    assert finding.suggestion == wording
    moving = cluster(part(0, 1, 1, 2), reassigning={("a", 0): (3,)})
    assert messages(moving, "KF303") == []
    assert len(messages(replace(moving, reassigning={("a", 0): (4,)}), "KF303")) == 1
    assert len(messages(replace(moving, reassigning=None), "KF303")) == 1


def test_offline_partitions_name_the_brokers_that_have_them() -> None:
    # Offline partitions name the brokers that were in sync last.
    health = cluster(part(0, None, 3), part(1, None, 3), part(2, 1, 1, 2, 3), brokers=2)
    (finding,) = [one for one in found(RuleContext((), health=health)) if one.code == "KF304"]
    assert (finding.message, finding.suggestion) == (wording, wording)
    assert messages(health, "KF303") == []
    (finding,) = [
        one for one in found(RuleContext((), health=cluster(part(0, None, 3)))) if one.code == "KF304"
    ]
    assert finding.suggestion == wording


def test_partitions_under_min_isr_stop_writes() -> None:
    health = cluster(part(0, 1, 1), part(1, 1, 1, 2), min_insync_replicas={"a": 2})
    assert messages(health, "KF305") == [wording]
    assert messages(replace(health, min_insync_replicas={"a": 1}), "KF305") == []
    assert messages(replace(health, min_insync_replicas={}), "KF305") == []
    assert messages(cluster(part(0, 1, replicas="1"), min_insync_replicas={"a": 2}), "KF305") == []


# --- KF306 -----------------------------------------------------------------------------------------

EFFECTIVE = {"config.retention.ms": "604800000", "config.min.insync.replicas": "2"}


def live(
    name: str, effective: Mapping[str, FieldValue] = EFFECTIVE, own: Mapping[str, FieldValue] | None = None
) -> RuleContext:
    state: dict[str, FieldValue] = {"partitions": 3, "replicationFactor": 3, **(own or {})}
    observed = Observed(topic(name), "id", state, {**effective, **(own or {})})
    return RuleContext((), live={topic(name): observed})


class LineOfLength(PathAsLocation):
    """Each field in a line of its own."""

    def __call__(self, path: str) -> Location:
        return Location("a.yaml", len(path))


def test_fields_that_are_not_as_declared_are_one_finding() -> None:
    # A topic that is not as declared is one finding that names the fields.
    wanted = replace(declared("a", 6, 3, retention_ms="86400000"), locations=LineOfLength())
    (finding,) = found(replace(live("a"), desired=(wanted,)))
    assert (finding.code, finding.severity, finding.message) == ("KF306", Severity.WARNING, wording)
    assert finding.location == Location("a.yaml", len("partitions"))
    wanted = declared("a", 3, 3, retention_ms="0604800000", min_insync_replicas="2")
    assert found(replace(live("a"), desired=(wanted,))) == []
    # An own value that is to be unset differs.
    wanted = declared("a", 3, 3, retention_ms=None)
    assert found(replace(live("a"), desired=(wanted,))) == []
    own = live("a", own={"config.retention.ms": "1000"})
    (finding,) = found(replace(own, desired=(wanted,)))
    assert finding.message == wording
    assert found(replace(live("a"), desired=(declared("a", 3, 3, cleanup_policy="compact"),))) == []


def test_a_missing_topic_is_told_and_a_manifest_can_waive_it() -> None:
    (finding,) = found(replace(live("other"), desired=(declared("a"), absent("b"))))
    assert (finding.code, finding.message) == ("KF306", wording)
    wanted = replace(declared("a", 6, 3), intent=Intent(waivers={"KF306": "moving, TICKET-1"}))
    (finding,) = found(replace(live("a"), desired=(wanted,)))
    assert (finding.severity, finding.waived) == (Severity.INFO, "moving, TICKET-1")


# --- KF307 -----------------------------------------------------------------------------------------


def group(
    members: int, partitions: int, lag: int = 0, *, state: str = "Stable", protocol: str = "classic"
) -> Group:
    shares = [
        frozenset((("a", n),)) if n < partitions else frozenset[tuple[str, int]]() for n in range(members)
    ]
    return Group(
        "g",
        protocol,
        state,
        members=tuple(
            Member(f"id-{n}", f"client-{n}", instance_id=f"pod-{n}" if n % 2 else None, assignment=share)
            for n, share in enumerate(shares)
        ),
        positions=tuple(
            Position("a", n, 100, 0, 100 + (lag if n == 0 else 0)) for n in range(max(partitions, 1))
        ),
    )


def wants(expected: int | None = None, lag: int | None = None) -> Desired:
    spec: dict[str, object] = {}
    if expected is not None:
        spec["members"] = {"expected": expected}
    if lag is not None:
        spec["lag"] = {"maxRecords": lag}
    return Desired(ResourceRef("ConsumerGroup", "g"), {}, Intent(spec=spec))


def of_group(wanted: Desired | None, seen: Group | None) -> list[tuple[str, Severity, str]]:
    scene = RuleContext((wanted,) if wanted else (), groups={"g": seen} if seen else {})
    return [(one.code, one.severity, one.message) for one in found(scene)]


def test_lag_and_missing_members_are_judged_by_the_manifest() -> None:
    # Lag above the declared limit.
    assert of_group(wants(lag=50), group(1, 2, lag=51)) == [("KF307", Severity.WARNING, wording)]
    assert of_group(wants(lag=50), group(1, 2, lag=50)) == []
    assert of_group(wants(lag=50), None) == []
    assert of_group(wants(), group(1, 2, lag=9**9)) == []
    assert of_group(None, group(1, 2, lag=9**9)) == []
    # A group that is empty though members are expected.
    empty = group(0, 0, state="Empty")
    assert [message for _, _, message in of_group(wants(expected=2), empty)] == [wording]
    assert [message for _, _, message in of_group(wants(expected=1), None)] == [wording]
    assert of_group(wants(expected=0), empty) == []
    assert of_group(wants(), empty) == []
    assert of_group(None, empty) == []
    assert of_group(wants(expected=6), group(1, 1)) == []
    fresh = replace(group(0, 0, state="Empty"), never_joined=True)
    assert of_group(wants(expected=2), fresh) == [("KF307", Severity.INFO, wording)]
    assert of_group(wants(), fresh) == []


def test_members_without_partitions_are_idle_unless_they_wait_or_share() -> None:
    message = "g has 4 members, 2 of them idle (client-2, pod-3), for 2 partitions"
    assert of_group(wants(), group(4, 2)) == [("KF307", Severity.WARNING, message)]
    assert of_group(None, group(4, 2)) == [("KF307", Severity.INFO, message)]
    assert of_group(wants(), group(2, 2)) == []
    assert of_group(wants(), group(4, 0, state="PreparingRebalance")) == []
    assert of_group(wants(), group(4, 2, protocol="share")) == []
    # Members without partitions beside enough partitions read other topics.
    busy = group(2, 1)
    both = frozenset({("a", 0), ("a", 1)})
    assert (
        of_group(wants(), replace(busy, members=(replace(busy.members[0], assignment=both), busy.members[1])))
        == []
    )


# --- KF308 -----------------------------------------------------------------------------------------


def leaders(*counts: int) -> Health:
    """Partitions with one replica, so many on each broker."""
    placed = [broker for broker, number in enumerate(counts, 1) for _ in range(number)]
    parts = [part(n, broker, replicas=str(broker)) for n, broker in enumerate(placed)]
    return cluster(*parts, brokers=len(counts))


def test_uneven_and_unpreferred_leaders_are_told() -> None:
    assert messages(leaders(14, 8, 8), "KF308") == [wording]
    assert messages(leaders(13, 9, 8), "KF308") == []
    assert messages(leaders(14, 8, 8), "KF308", limits=ProjectLimits(leader_imbalance=40)) == []
    assert len(messages(leaders(30, 0, 0), "KF308")) == 1
    assert messages(leaders(3, 0, 0), "KF308") == []
    assert messages(leaders(), "KF308") == []
    assert messages(cluster(part(0, 2), part(1, 3), part(2, 1)), "KF308") == [wording]
    assert messages(cluster(part(0, 2, 2, 3)), "KF308") == []
    assert messages(cluster(part(0, 2, replicas="423")), "KF308") == []
    assert messages(cluster(part(0, None, 1)), "KF308") == []


def test_a_running_reassignment() -> None:
    moving = {("b", 0): (4, 5), ("a", 1): (4,), ("a", 0): ()}
    assert messages(replace(SOUND, reassigning=moving), "KF309") == [wording]
    assert messages(replace(SOUND, reassigning={("a", 0): ()}), "KF309") == [wording]
    assert messages(SOUND, "KF309") == messages(replace(SOUND, reassigning=None), "KF309") == []


LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def test_throttles_without_a_reassignment_are_told_with_what_removes_them() -> None:
    rates = [ThrottleConfigs("brokers", str(n), {"leader.replication.throttled.rate": "300"}) for n in (1, 2)]
    throttles = (
        ThrottleConfigs("topics", "a", {LISTS[0]: "*", LISTS[1]: ""}),
        ThrottleConfigs("topics", "b", {LISTS[0]: "", LISTS[1]: ""}),
        *[ThrottleConfigs("topics", f"c-{number:02}", {LISTS[1]: ""}) for number in range(51)],
        *rates,
        ThrottleConfigs("brokers", "", rates[0].values),
    )
    scene = RuleContext((), health=replace(SOUND, throttles=throttles))
    assert [(one.severity, one.code) for one in found(scene)] == [
        (Severity.WARNING, "KF313"),
        *[(Severity.INFO, "KF313")] * 4,
    ]
    assert "--entity-default --delete-config leader" in str([one.suggestion for one in found(scene)])
    assert [f"{one.message}\n{one.suggestion}" for one in found(scene)] == wording
    for running in ({("b", 0): (4,)}, None):
        assert messages(replace(SOUND, throttles=throttles, reassigning=running), "KF313") == []


GIB = 1 << 30


def test_full_and_offline_volumes_are_told() -> None:
    full, enough = LogDir(2, "/data/b", 1000 * GIB, 99 * GIB), LogDir(2, "/data/a", 1000 * GIB, 100 * GIB)
    assert messages(replace(SOUND, log_dirs=(enough, full)), "KF310") == [wording]
    assert messages(replace(SOUND, log_dirs=(LogDir(3, "/data", None),)), "KF310") == [wording]
    assert messages(SOUND, "KF310") == []
    assert messages(replace(SOUND, log_dirs=(LogDir(1, "/data", 0, 0),)), "KF310") == []


# --- KF311 -----------------------------------------------------------------------------------------

HANGING = OpenTransaction(("a", 0), 5, 9, 3 * 60_000, 60_000, (4, 1), "tx", coordinated=True)


def of_transactions(*transactions: OpenTransaction) -> list[tuple[str, str | None]]:
    scene = RuleContext((), health=replace(SOUND, transactions=transactions))
    return [(one.message, one.suggestion) for one in found(scene) if one.code == "KF311"]


def test_a_transaction_beyond_its_timeout_is_told_with_what_ends_it() -> None:
    ((message, suggestion),) = of_transactions(HANGING)
    assert message == wording
    assert suggestion == wording
    for age_ms in (0, 60_000, 60_000 + GRACE_MS - 1):
        assert of_transactions(replace(HANGING, age_ms=age_ms)) == []
    assert len(of_transactions(replace(HANGING, age_ms=60_000 + GRACE_MS))) == 1


def test_a_transaction_in_many_partitions_is_one_finding() -> None:
    several = [replace(HANGING, partition=("a", number), start=number) for number in range(100)]
    ((message, suggestion),) = of_transactions(*several, replace(HANGING, age_ms=0))
    assert "a:0 from offset 0, a:1 from offset 1" in message
    assert message.count("from offset") < 10
    assert suggestion is not None
    assert suggestion == wording
    assert suggestion.endswith(" --partition 0 --start-offset 0`")
    assert len(of_transactions(HANGING, replace(HANGING, producer=(5, 0)))) == 2


def test_what_could_not_be_read_of_a_transaction_is_not_made_up() -> None:
    lost = replace(HANGING, coordinated=False, transactional_id=None, age_ms=20 * 60_000)
    ((message, _),) = of_transactions(lost)
    assert message == wording
    ((message, suggestion),) = of_transactions(replace(lost, producer=None, unknown="denied"))
    assert message == wording
    assert suggestion is not None
    assert "abort" not in suggestion
    assert "describe-producers --topic a --partition 0" in suggestion

"""Each rule about health on a cluster that trips it, and on one that does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kafkaform import rules
from kafkaform.core.groups import Group, Member, Position
from kafkaform.core.health import Health, LogDir, Quorum, Voter
from kafkaform.core.layout import Broker, PartitionState
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
from kafkaform.core.transactions import GRACE_MS, OpenTransaction
from kafkaform.rules import RuleContext, Stage
from kafkaform.rules.catalogue import ProjectLimits
from kafkaform.rules.health import CRITICAL
from tests.support.rule_scenes import PathAsPlace
from tests.support.scenes import absent, declared, topic

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


def test_a_sound_cluster_trips_nothing() -> None:
    assert found(RuleContext((), brokers=3, health=SOUND)) == []
    assert found(RuleContext((), brokers=3, health=Health(1, SOUND.brokers))) == []


def test_without_a_reading_nothing_is_said_of_brokers() -> None:
    assert found(RuleContext((), brokers=3)) == []


@pytest.mark.parametrize("code", sorted(code for code, r in rules.RULES.items() if r.stage is Stage.HEALTH))
def test_a_rule_about_the_whole_cluster_cannot_be_waived_by_a_manifest(code: str) -> None:
    assert rules.RULES[code].waivable is (code in {"KF306", "KF307"})


def test_what_is_critical_is_an_error() -> None:
    assert rules.RULES.keys() > CRITICAL
    assert {rules.RULES[code].severity for code in CRITICAL} == {Severity.ERROR}


# --- KF301 -----------------------------------------------------------------------------------------


def test_no_active_controller() -> None:
    (message,) = messages(cluster(quorum=Quorum(None)), "KF301")
    assert message.startswith("no active controller answers")
    assert len(messages(cluster(quorum=None, controller=None), "KF301")) == 1
    assert messages(cluster(quorum=None), "KF301") == []


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


def test_how_many_more_controllers_may_fail() -> None:
    voters = (Voter(1, 0), *(Voter(number, 0, 5) for number in range(2, 5)), Voter(5, None))
    (message,) = messages(cluster(quorum=Quorum(1, voters)), "KF301")
    assert message.endswith("1 more may fail")


# --- KF302 -----------------------------------------------------------------------------------------


def test_fewer_brokers_than_declared() -> None:
    health = cluster(part(0, 1), brokers=2)
    assert messages(health, "KF302", brokers=3) == [
        "2 brokers live of at least 3: 1 missing (replicas are assigned to 3, not live)"
    ]
    assert messages(health, "KF302", brokers=2) == []
    assert messages(health, "KF302") == []


# --- KF303 -----------------------------------------------------------------------------------------


def test_under_replicated_partitions_name_the_brokers_that_are_missing() -> None:
    health = cluster(*(part(n, 1, 1, 2) for n in range(6)), part(0, 2, 2, 3, name="b"), brokers=2)
    (finding,) = [one for one in found(RuleContext((), health=health)) if one.code == "KF303"]
    assert finding.message == (
        "7 partitions of 2 topics are under-replicated: broker 3 is missing from 6 and is not live, "
        "broker 1 is missing from 1 (a-0, a-1, a-2, a-3, a-4 and 2 more)"
    )
    assert finding.suggestion is not None
    assert finding.suggestion.startswith("start broker 3,")


def test_a_live_broker_that_does_not_keep_up_is_not_to_be_started() -> None:
    (finding,) = [
        one for one in found(RuleContext((), health=cluster(part(0, 1, 1, 2)))) if one.code == "KF303"
    ]
    assert finding.suggestion == "check whether broker 3 keeps up: disk, network and log"


def test_replicas_that_a_reassignment_adds_may_be_catching_up() -> None:
    moving = cluster(part(0, 1, 1, 2), reassigning={("a", 0): (3,)})
    assert messages(moving, "KF303") == []
    assert len(messages(replace(moving, reassigning={("a", 0): (4,)}), "KF303")) == 1
    assert len(messages(replace(moving, reassigning=None), "KF303")) == 1


# --- KF304 -----------------------------------------------------------------------------------------


def test_offline_partitions_name_the_brokers_that_were_in_sync_last() -> None:
    health = cluster(part(0, None, 3), part(1, None, 3), part(2, 1, 1, 2, 3), brokers=2)
    (finding,) = [one for one in found(RuleContext((), health=health)) if one.code == "KF304"]
    assert finding.message == (
        "2 partitions of 1 topic are offline, not readable or writable: broker 3 (not live) has 2 (a-0, a-1)"
    )
    assert finding.suggestion == "start broker 3: it has an in-sync replica"
    assert messages(health, "KF303") == []


def test_an_offline_partition_on_a_live_broker_has_lost_its_disk() -> None:
    (finding,) = [
        one for one in found(RuleContext((), health=cluster(part(0, None, 3)))) if one.code == "KF304"
    ]
    assert finding.suggestion == "look for failed disks in the logs of these brokers"


# --- KF305 -----------------------------------------------------------------------------------------


def test_partitions_under_min_isr() -> None:
    health = cluster(part(0, 1, 1), part(1, 1, 1, 2), min_insync_replicas={"a": 2})
    assert messages(health, "KF305") == [
        (
            "1 partition of 1 topic is under min.insync.replicas, writes with acks=all are refused: "
            "broker 2 is missing from 1, broker 3 is missing from 1 (a-0)"
        )
    ]
    assert messages(replace(health, min_insync_replicas={"a": 1}), "KF305") == []
    assert messages(replace(health, min_insync_replicas={}), "KF305") == []


def test_brokers_ask_for_no_more_replicas_than_there_are() -> None:
    assert messages(cluster(part(0, 1, replicas="1"), min_insync_replicas={"a": 2}), "KF305") == []


# --- KF306 -----------------------------------------------------------------------------------------

EFFECTIVE = {"config.retention.ms": "604800000", "config.min.insync.replicas": "2"}


def live(
    name: str, effective: Mapping[str, FieldValue] = EFFECTIVE, own: Mapping[str, FieldValue] | None = None
) -> RuleContext:
    state: dict[str, FieldValue] = {"partitions": 3, "replicationFactor": 3, **(own or {})}
    observed = Observed(topic(name), "id", state, {**effective, **(own or {})})
    return RuleContext((), live={topic(name): observed})


class LineOfLength(PathAsPlace):
    """Each field in a line of its own."""

    def __call__(self, path: str) -> Location:
        return Location("a.yaml", len(path))


def test_a_topic_that_is_not_as_declared_is_one_finding_that_names_the_fields() -> None:
    wanted = replace(declared("a", 6, 3, retention_ms="86400000"), places=LineOfLength())
    (finding,) = found(replace(live("a"), desired=(wanted,)))
    assert (finding.code, finding.severity) == ("KF306", Severity.WARNING)
    assert finding.message == (
        "a is not as declared: partitions is 3, declared 6; retention.ms is 7d, declared 1d"
    )
    assert finding.location == Location("a.yaml", len("partitions"))


def test_a_value_in_force_by_default_is_as_good_as_an_own_one() -> None:
    wanted = declared("a", 3, 3, retention_ms="0604800000", min_insync_replicas="2")
    assert found(replace(live("a"), desired=(wanted,))) == []


def test_an_own_value_that_is_to_be_unset_differs() -> None:
    wanted = declared("a", 3, 3, retention_ms=None)
    assert found(replace(live("a"), desired=(wanted,))) == []
    own = live("a", own={"config.retention.ms": "1000"})
    (finding,) = found(replace(own, desired=(wanted,)))
    assert finding.message == "a is not as declared: retention.ms is 1s, declared unset"


def test_other_configs_are_for_the_plan() -> None:
    assert found(replace(live("a"), desired=(declared("a", 3, 3, cleanup_policy="compact"),))) == []


def test_a_declared_topic_that_does_not_exist() -> None:
    (finding,) = found(replace(live("other"), desired=(declared("a"), absent("b"))))
    assert (finding.code, finding.message) == ("KF306", "a is declared but does not exist")


def test_a_manifest_can_waive_what_is_about_its_own_topic() -> None:
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


def test_lag_above_the_declared_limit() -> None:
    assert of_group(wants(lag=50), group(1, 2, lag=51)) == [
        ("KF307", Severity.WARNING, "g lags 51 records behind, 50 records are allowed (most in a-0: 51)")
    ]
    assert of_group(wants(lag=50), group(1, 2, lag=50)) == []
    assert of_group(wants(lag=50), None) == []
    assert of_group(wants(), group(1, 2, lag=9**9)) == []
    assert of_group(None, group(1, 2, lag=9**9)) == []


def test_a_group_that_is_empty_though_members_are_expected() -> None:
    empty = group(0, 0, state="Empty")
    assert [message for _, _, message in of_group(wants(expected=2), empty)] == [
        "g is empty, though its manifest expects 2 members"
    ]
    assert [message for _, _, message in of_group(wants(expected=1), None)] == [
        "g does not exist, though its manifest expects 1 member"
    ]
    assert of_group(wants(expected=0), empty) == []
    assert of_group(wants(), empty) == []
    assert of_group(None, empty) == []
    assert of_group(wants(expected=6), group(1, 1)) == []


def test_a_group_that_no_member_ever_joined_is_a_note() -> None:
    fresh = replace(group(0, 0, state="Empty"), never_joined=True)
    assert of_group(wants(expected=2), fresh) == [
        ("KF307", Severity.INFO, "g has not had a member yet; its manifest expects 2 members")
    ]
    assert of_group(wants(), fresh) == []


def test_members_above_the_partitions_are_named() -> None:
    message = "g has 4 members, 2 of them idle: 2 partitions are shared by 2 (client-2, pod-3)"
    assert of_group(wants(), group(4, 2)) == [("KF307", Severity.WARNING, message)]
    assert of_group(None, group(4, 2)) == [("KF307", Severity.INFO, message)]
    assert of_group(wants(), group(2, 2)) == []


def test_nobody_is_idle_while_a_group_rebalances_or_shares_partitions() -> None:
    assert of_group(wants(), group(4, 0, state="PreparingRebalance")) == []
    assert of_group(wants(), group(4, 2, protocol="share")) == []


def test_members_without_partitions_beside_enough_partitions_read_other_topics() -> None:
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


def test_uneven_leaders() -> None:
    assert messages(leaders(14, 8, 8), "KF308") == [
        "leaders are uneven over 3 brokers: broker 1 leads 14, the mean is 10.0"
    ]
    assert messages(leaders(13, 9, 8), "KF308") == []
    assert messages(leaders(14, 8, 8), "KF308", limits=ProjectLimits(leader_imbalance=40)) == []
    assert len(messages(leaders(30, 0, 0), "KF308")) == 1


def test_a_small_cluster_is_never_even() -> None:
    assert messages(leaders(3, 0, 0), "KF308") == []
    assert messages(leaders(), "KF308") == []


def test_preferred_leaders_that_do_not_lead() -> None:
    assert messages(cluster(part(0, 2), part(1, 3), part(2, 1)), "KF308") == [
        "the preferred leader of 2 partitions is in sync but does not lead: broker 1 in 2"
    ]


def test_a_preferred_leader_that_cannot_lead_is_no_news() -> None:
    assert messages(cluster(part(0, 2, 2, 3)), "KF308") == []
    assert messages(cluster(part(0, 2, replicas="423")), "KF308") == []
    assert messages(cluster(part(0, None, 1)), "KF308") == []


# --- KF309 -----------------------------------------------------------------------------------------


def test_a_running_reassignment() -> None:
    moving = {("b", 0): (4, 5), ("a", 1): (4,), ("a", 0): ()}
    assert messages(replace(SOUND, reassigning=moving), "KF309") == [
        "a reassignment of 3 partitions of 2 topics is running, adding replicas on brokers 4, 5 (a, b)"
    ]
    assert messages(replace(SOUND, reassigning={("a", 0): ()}), "KF309") == [
        "a reassignment of 1 partition of 1 topic is running (a)"
    ]
    assert messages(SOUND, "KF309") == messages(replace(SOUND, reassigning=None), "KF309") == []


# --- KF310 -----------------------------------------------------------------------------------------

GIB = 1 << 30


def test_a_volume_that_is_nearly_full_is_told_with_what_is_left() -> None:
    full, enough = LogDir(2, "/data/b", 1000 * GIB, 99 * GIB), LogDir(2, "/data/a", 1000 * GIB, 100 * GIB)
    assert messages(replace(SOUND, log_dirs=(enough, full)), "KF310") == [
        "the volume of log directory /data/b of broker 2 is nearly full: 99.0 GiB (9.9%) of 1000.0 GiB free"
    ]


def test_a_log_directory_that_is_offline_is_told_as_such() -> None:
    assert messages(replace(SOUND, log_dirs=(LogDir(3, "/data", None),)), "KF310") == [
        "log directory /data of broker 3 is offline"
    ]


def test_brokers_that_tell_of_no_volume_trip_nothing() -> None:
    assert messages(SOUND, "KF310") == []
    assert messages(replace(SOUND, log_dirs=(LogDir(1, "/data", 0, 0),)), "KF310") == []


# --- KF311 -----------------------------------------------------------------------------------------

HANGING = OpenTransaction(("a", 0), 5, 9, 3 * 60_000, 60_000, (4, 1), "tx", coordinated=True)


def of_transactions(*transactions: OpenTransaction) -> list[tuple[str, str | None]]:
    scene = RuleContext((), health=replace(SOUND, transactions=transactions))
    return [(one.message, one.suggestion) for one in found(scene) if one.code == "KF311"]


def test_a_transaction_that_is_open_beyond_its_timeout_is_named_with_what_ends_it() -> None:
    ((message, suggestion),) = of_transactions(HANGING)
    assert message == (
        "transaction 'tx' (producer 4, epoch 1) is hanging in a:0 from offset 5 (open for 3 minutes, its "
        "timeout is 1m): read_committed consumers get no record from there on"
    )
    assert suggestion == (
        "stop its producer, then abort it: kafka-transactions.sh --bootstrap-server HOST:PORT abort "
        "--topic a --partition 0 --start-offset 5"
    )


def test_a_transaction_that_will_still_be_aborted_trips_nothing() -> None:
    for age_ms in (0, 60_000, 60_000 + GRACE_MS - 1):
        assert of_transactions(replace(HANGING, age_ms=age_ms)) == []
    assert len(of_transactions(replace(HANGING, age_ms=60_000 + GRACE_MS))) == 1


def test_a_transaction_in_many_partitions_is_one_finding() -> None:
    several = [replace(HANGING, partition=("a", number), start=number) for number in range(100)]
    ((message, suggestion),) = of_transactions(*several, replace(HANGING, age_ms=0))
    assert "a:0 from offset 0, a:1 from offset 1" in message
    assert message.count("from offset") < 10
    assert suggestion is not None
    assert suggestion.startswith(
        "stop its producer, then abort it in each of the 100 partitions, as in: kafka-"
    )
    assert suggestion.endswith(" --partition 0 --start-offset 0")
    assert len(of_transactions(HANGING, replace(HANGING, producer=(5, 0)))) == 2


def test_what_could_not_be_read_of_a_transaction_is_not_made_up() -> None:
    lost = replace(HANGING, coordinated=False, transactional_id=None, age_ms=20 * 60_000)
    ((message, _),) = of_transactions(lost)
    assert message.startswith(
        "transaction (producer 4, epoch 1) is hanging in a:0 from offset 5 (no coordinator has it open, and "
        "its last record is 20 minutes old)"
    )
    ((message, suggestion),) = of_transactions(replace(lost, producer=None, unknown="denied"))
    assert message.startswith("a transaction is hanging in a:0 from offset 5 (open for more than 1m; its ")
    assert "its producer could not be read: denied" in message
    assert suggestion is not None
    assert "abort" not in suggestion
    assert "describe-producers --topic a --partition 0" in suggestion

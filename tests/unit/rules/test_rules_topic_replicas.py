"""The rules about replicas: KF108, KF109, KF113."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaform.core.model import Facts, Undeclared
from kafkaform.rules import RuleContext
from tests.support.rule_scenes import Said, living, observed, said, silent
from tests.support.scenes import absent, declared

# --- KF108: the replication factor -----------------------------------------------------------------


def test_one_replica_outside_of_development() -> None:
    assert said("KF108", RuleContext((declared("a"),), environment="prod")) == [
        Said(
            "a",
            "warning",
            "replicationFactor is 1: the loss of one disk loses data",
            "write replicationFactor: 3",
            "replicationFactor",
        )
    ]


@pytest.mark.parametrize("environment", ["dev", "development", "local", "test", "Dev"])
def test_one_replica_in_development(environment: str) -> None:
    assert silent("KF108", RuleContext((declared("a"),), environment=environment, brokers=3))


@pytest.mark.parametrize(("brokers", "trips"), [(None, False), (0, False), (1, False), (2, True), (3, True)])
def test_without_an_environment_a_second_broker_says_that_it_is_not_development(
    brokers: int | None, trips: bool
) -> None:
    assert silent("KF108", RuleContext((declared("a"),), brokers=brokers)) is not trips


@pytest.mark.parametrize(
    ("brokers", "remedy"),
    [
        (1, "add two brokers, and write replicationFactor: 3"),
        (2, "write replicationFactor: 2, or add a broker and write replicationFactor: 3"),
        (3, "write replicationFactor: 3"),
        (None, "write replicationFactor: 3"),
    ],
)
def test_the_remedy_is_possible_with_the_brokers_there_are(brokers: int | None, remedy: str) -> None:
    (found,) = said("KF108", RuleContext((declared("a"),), environment="prod", brokers=brokers))
    assert found.suggestion == remedy


@pytest.mark.parametrize(
    ("replicas", "message", "remedy"),
    [
        (
            2,
            "2: if a majority of 2 must be in sync, no broker may fail; with 3 replicas and 2 in sync, 1 may",
            "write replicationFactor: 3",
        ),
        (
            4,
            "4: if a majority of 3 must be in sync, 1 broker may fail; with 3 replicas and 2 in sync, 1 may",
            "write replicationFactor: 3",
        ),
        (
            6,
            "6: if a majority of 4 must be in sync, 2 brokers may fail; with 5 replicas and 3 in sync, 2 may",
            "write replicationFactor: 5",
        ),
    ],
)
def test_an_even_number_of_replicas(replicas: int, message: str, remedy: str) -> None:
    assert said("KF108", RuleContext((declared("a", 3, replicas),))) == [
        Said("a", "info", f"replicationFactor is {message}", remedy, "replicationFactor")
    ]


def test_an_even_number_of_replicas_is_noted_where_there_are_brokers_for_an_odd_one() -> None:
    for replicas, brokers in ((2, 3), (4, 4)):
        scene = RuleContext((declared("a", 3, replicas),), brokers=brokers)
        assert [(str(one), one.suggestion) for one in said("KF108", scene)] == [
            ("a info", "write replicationFactor: 3")
        ]


@pytest.mark.parametrize(("replicas", "brokers"), [(3, 3), (3, None), (5, 9), (2, 2)])
def test_replication_factors_that_are_as_good_as_can_be(replicas: int, brokers: int | None) -> None:
    assert silent("KF108", RuleContext((declared("a", 3, replicas),), environment="prod", brokers=brokers))


@pytest.mark.parametrize(
    ("replicas", "brokers", "message"),
    [
        (4, 3, "replicationFactor is 4, but there are 3 brokers"),
        (3, 1, "replicationFactor is 3, but there is 1 broker"),
    ],
)
def test_more_replicas_than_brokers(replicas: int, brokers: int, message: str) -> None:
    for environment in (None, "dev", "prod"):
        scene = RuleContext((declared("a", 3, replicas),), environment=environment, brokers=brokers)
        assert said("KF108", scene) == [
            Said("a", "error", message, f"write replicationFactor: {brokers} or less", "replicationFactor")
        ]


def test_a_broker_that_is_down_does_not_make_a_live_topic_impossible() -> None:
    desired = (declared("a", 3, 3),)
    assert silent("KF108", RuleContext(desired, brokers=2, live=living(observed("a", 3, 3))))
    for present in (1, "2-3"):
        scene = RuleContext(desired, brokers=2, live=living(observed("a", 3, present)))
        assert [str(one) for one in said("KF108", scene)] == ["a error"]


def test_a_tombstone_needs_no_replicas() -> None:
    assert silent("KF108", RuleContext((absent("a"),), environment="prod", brokers=3))


# --- KF109: min.insync.replicas --------------------------------------------------------------------


def facts(**given: str) -> Facts:
    defaults = {name.replace("_", "."): value for name, value in given.items()}
    return Facts("c", config_defaults={"Topic": defaults})


@pytest.mark.parametrize(
    ("replicas", "least", "trips"),
    [
        (1, "1", []),
        (2, "1", []),
        (3, "2", []),
        (5, "3", []),
        (1, "2", ["a error"]),
        (3, "4", ["a error"]),
        (2, "2", ["a warning"]),
        (3, "3", ["a warning"]),
        (3, "1", ["a warning"]),
    ],
)
def test_min_insync_replicas_against_replicas(replicas: int, least: str, trips: list[str]) -> None:
    unsaid = (declared("a", 3, replicas),)
    default = facts(min_insync_replicas=least)
    own = observed("a", 3, replicas, min_insync_replicas=least)
    for scene in (
        RuleContext((declared("a", 3, replicas, min_insync_replicas=least),)),
        RuleContext(unsaid, default),
        RuleContext((declared("a", 3, replicas, min_insync_replicas=None),), default),
    ):
        assert [str(one) for one in said("KF109", scene)] == trips
    for scene in (
        RuleContext(unsaid, live=living(own)),
        RuleContext(unsaid, facts(min_insync_replicas=str(replicas + 1)), live=living(own)),
        RuleContext(unsaid, live=living(observed("a", 3, replicas, inherited=least))),
    ):
        # What is so already is no reason to refuse other changes.
        assert [str(one) for one in said("KF109", scene)] == [
            one.replace("error", "warning") for one in trips
        ]
    others = observed("a", 3, replicas + 1, min_insync_replicas=least)
    scene = RuleContext(unsaid, live=living(others))
    assert [str(one) for one in said("KF109", scene)] == trips, "the plan lowers the replication factor"
    assert silent("KF109", RuleContext(unsaid))


@pytest.mark.parametrize(
    ("least", "message", "more"),
    [
        ("4", "4, replicationFactor is 3: that many replicas can never be in sync", 5),
        ("3", "3, replicationFactor is 3: no broker may fail without stopping writes", 4),
        ("1", "1, replicationFactor is 3: an acknowledged write may be on one broker only", None),
    ],
)
def test_the_figures_and_values_that_fit_are_told(least: str, message: str, more: int | None) -> None:
    (found,) = said("KF109", RuleContext((declared("a", 3, 3, min_insync_replicas=least),)))
    assert found.message == f"min.insync.replicas is {message}"
    lower = "config: {min.insync.replicas: 2}"
    raised = f"write replicationFactor: {more}, or {lower} if the topic's data may be lost"
    assert found.suggestion == (raised if more else f"write {lower}")
    assert found.path == "config.min.insync.replicas"
    assert silent("KF109", RuleContext((declared("a", 3, 3, min_insync_replicas="2"),)))
    if more:
        assert silent("KF109", RuleContext((declared("a", 3, more, min_insync_replicas=least),)))


def test_more_replicas_than_brokers_are_not_advised() -> None:
    (found,) = said("KF109", RuleContext((declared("a", 3, 3, min_insync_replicas="3"),), brokers=3))
    assert found.suggestion == (
        "write config: {min.insync.replicas: 2} (there are 3 brokers, too few for 4 replicas)"
    )


def test_who_says_an_undeclared_value_is_told() -> None:
    desired = (declared("a", 3, 3),)
    (found,) = said("KF109", RuleContext(desired, facts(min_insync_replicas="1")))
    assert found.message.startswith(
        "min.insync.replicas is 1 (the cluster's default), replicationFactor is 3"
    )
    (found,) = said("KF109", RuleContext(desired, live=living(observed("a", min_insync_replicas="4"))))
    assert found.message.startswith("min.insync.replicas is 4 (set on the live topic), replicationFactor")


def test_a_declared_value_counts_more_than_a_live_one_and_the_default() -> None:
    live = living(observed("a", min_insync_replicas="4"))
    desired = declared("a", 3, 3, min_insync_replicas="2")
    assert silent("KF109", RuleContext((desired,), facts(min_insync_replicas="3"), live=live))


@pytest.mark.parametrize(
    ("undeclared", "trips"),
    [(Undeclared.REPORT, ["a warning"]), (Undeclared.KEEP, ["a warning"]), (Undeclared.RESET, [])],
)
def test_a_live_value_counts_unless_the_apply_resets_it(undeclared: Undeclared, trips: list[str]) -> None:
    live = living(observed("a", inherited="2", min_insync_replicas="4"))
    desired = (declared("a", 3, 3, undeclared=undeclared),)
    scene = RuleContext(desired, facts(min_insync_replicas="2"), live=live)
    assert [str(one) for one in said("KF109", scene)] == trips


def test_an_own_value_that_is_taken_away_leaves_a_default_that_is_not_known() -> None:
    live = living(observed("a", min_insync_replicas="4"))
    for desired in (
        declared("a", 3, 3, min_insync_replicas=None),
        declared("a", 3, 3, undeclared=Undeclared.RESET),
    ):
        assert silent("KF109", RuleContext((desired,), live=live))


def test_a_tombstone_has_no_replicas() -> None:
    assert silent("KF109", RuleContext((absent("a"),), facts(min_insync_replicas="2")))


# --- KF113: unclean elections ----------------------------------------------------------------------


def test_unclean_elections_are_warned_of() -> None:
    assert said("KF113", RuleContext((declared("a", 3, 3, unclean_leader_election_enable="true"),))) == [
        Said(
            "a",
            "warning",
            "unclean.leader.election.enable is true: "
            "a replica that is behind may become leader, and acknowledged records are lost",
            "write config: {unclean.leader.election.enable: false}",
            "config.unclean.leader.election.enable",
        )
    ]


def test_a_cluster_that_elects_uncleanly_unless_the_topic_says_otherwise() -> None:
    cluster = facts(unclean_leader_election_enable="true")
    (found,) = said("KF113", RuleContext((declared("a", 3, 3),), cluster))
    assert "is true (the cluster's default): " in found.message
    assert silent(
        "KF113", RuleContext((declared("a", 3, 3, unclean_leader_election_enable="false"),), cluster)
    )
    assert silent("KF113", RuleContext((declared("a", 3, 3),), facts(unclean_leader_election_enable="false")))
    assert silent("KF113", RuleContext((declared("a", 3, 3),)))


def test_one_replica_has_no_other_to_elect_but_a_declaration_outlives_it() -> None:
    cluster = facts(unclean_leader_election_enable="true")
    assert silent("KF113", RuleContext((declared("a", 3, 1),), cluster))
    assert not silent("KF113", RuleContext((declared("a", 3, 1, unclean_leader_election_enable="true"),)))


def test_a_risk_that_is_meant_is_waived() -> None:
    desired = declared("a", 3, 3, unclean_leader_election_enable="true")
    meant = replace(desired, intent=replace(desired.intent, waivers={"KF113": "metrics"}))
    assert [one.severity for one in said("KF113", RuleContext((meant,)))] == ["info"]

"""The rules about replicas: KF108, KF109, KF113."""

from __future__ import annotations

import pytest

from kafkaform.core.model import Undeclared
from kafkaform.core.values import replace
from kafkaform.rules import RuleContext
from tests.support.golden import wording
from tests.support.plans.rules import Said, facts, living, observed, said, silent
from tests.support.plans.scenes import absent, declared

# --- KF108: the replication factor -----------------------------------------------------------------


def test_the_replication_factor_has_to_suit_the_brokers_that_there_are() -> None:
    assert said("KF108", RuleContext((declared("a"),), environment="prod")) == [
        Said("a", "warning", wording, "write `replicationFactor: 3`", "replicationFactor")
    ]
    # An even number of replicas is noted where there are brokers for an odd one.
    for replicas, brokers in ((2, 3), (4, 4)):
        scene = RuleContext((declared("a", 3, replicas),), brokers=brokers)
        assert [(str(one), one.suggestion) for one in said("KF108", scene)] == [
            ("a info", "write `replicationFactor: 3`")
        ]
    # A broker that is down does not make a live topic impossible.
    desired = (declared("a", 3, 3),)
    assert silent("KF108", RuleContext(desired, brokers=2, live=living(observed("a", 3, 3))))
    for present in (1, "2-3"):
        scene = RuleContext(desired, brokers=2, live=living(observed("a", 3, present)))
        assert [str(one) for one in said("KF108", scene)] == ["a error"]
    assert silent("KF108", RuleContext((absent("a"),), environment="prod", brokers=3))


@pytest.mark.parametrize("environment", ["dev", "development", "local", "test", "Dev"])
def test_one_replica_in_development(environment: str) -> None:
    assert silent("KF108", RuleContext((declared("a"),), environment=environment, brokers=3))


@pytest.mark.parametrize(("brokers", "trips"), [(None, False), (0, False), (1, False), (2, True), (3, True)])
def test_without_an_environment_a_second_broker_says_that_it_is_not_development(
    brokers: int | None, trips: bool
) -> None:
    assert silent("KF108", RuleContext((declared("a"),), brokers=brokers)) is not trips


@pytest.mark.parametrize("brokers", [1, 2, 3, None])
def test_the_remedy_is_possible_with_the_brokers_there_are(brokers: int | None) -> None:
    (found,) = said("KF108", RuleContext((declared("a"),), environment="prod", brokers=brokers))
    assert found.suggestion == wording


@pytest.mark.parametrize(
    ("replicas", "remedy"),
    [
        (2, "write `replicationFactor: 3`"),
        (4, "write `replicationFactor: 3`"),
        (6, "write `replicationFactor: 5`"),
    ],
)
def test_an_even_number_of_replicas(replicas: int, remedy: str) -> None:
    assert said("KF108", RuleContext((declared("a", 3, replicas),))) == [
        Said("a", "info", wording, remedy, "replicationFactor")
    ]


@pytest.mark.parametrize(("replicas", "brokers"), [(3, 3), (3, None), (5, 9), (2, 2)])
def test_replication_factors_that_are_as_good_as_can_be(replicas: int, brokers: int | None) -> None:
    assert silent("KF108", RuleContext((declared("a", 3, replicas),), environment="prod", brokers=brokers))


@pytest.mark.parametrize(("replicas", "brokers"), [(4, 3), (3, 1)])
def test_more_replicas_than_brokers(replicas: int, brokers: int) -> None:
    for environment in (None, "dev", "prod"):
        scene = RuleContext((declared("a", 3, replicas),), environment=environment, brokers=brokers)
        assert said("KF108", scene) == [
            Said("a", "error", wording, f"write `replicationFactor: {brokers}` or less", "replicationFactor")
        ]


# --- KF109: min.insync.replicas --------------------------------------------------------------------


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


@pytest.mark.parametrize(("least", "more"), [("4", 5), ("3", 4), ("1", None)])
def test_the_figures_and_values_that_fit_are_told(least: str, more: int | None) -> None:
    (found,) = said("KF109", RuleContext((declared("a", 3, 3, min_insync_replicas=least),)))
    assert found.message == wording
    lower = "`config: {min.insync.replicas: 2}`"
    raised = f"write `replicationFactor: {more}`, or {lower} if the topic's data may be lost"
    assert found.suggestion == (raised if more else f"write {lower}")
    assert found.path == "config.min.insync.replicas"
    assert silent("KF109", RuleContext((declared("a", 3, 3, min_insync_replicas="2"),)))
    if more:
        assert silent("KF109", RuleContext((declared("a", 3, more, min_insync_replicas=least),)))


def test_remedies_of_min_isr_fit_the_brokers_and_name_their_source() -> None:
    (found,) = said("KF109", RuleContext((declared("a", 3, 3, min_insync_replicas="3"),), brokers=3))
    assert found.suggestion == wording
    # Who says an undeclared value is told.
    desired = (declared("a", 3, 3),)
    (found,) = said("KF109", RuleContext(desired, facts(min_insync_replicas="1")))
    assert found.message == wording
    (found,) = said("KF109", RuleContext(desired, live=living(observed("a", min_insync_replicas="4"))))
    assert found.message == wording


def test_what_is_declared_counts_more_than_live_values_and_defaults() -> None:
    live = living(observed("a", min_insync_replicas="4"))
    desired = declared("a", 3, 3, min_insync_replicas="2")
    assert silent("KF109", RuleContext((desired,), facts(min_insync_replicas="3"), live=live))
    # An own value that is taken away leaves a default that is not known.
    live = living(observed("a", min_insync_replicas="4"))
    for desired in (
        declared("a", 3, 3, min_insync_replicas=None),
        declared("a", 3, 3, undeclared=Undeclared.RESET),
    ):
        assert silent("KF109", RuleContext((desired,), live=live))
    assert silent("KF109", RuleContext((absent("a"),), facts(min_insync_replicas="2")))


@pytest.mark.parametrize(
    ("undeclared", "trips"),
    [(Undeclared.REPORT, ["a warning"]), (Undeclared.KEEP, ["a warning"]), (Undeclared.RESET, [])],
)
def test_a_live_value_counts_unless_the_apply_resets_it(undeclared: Undeclared, trips: list[str]) -> None:
    live = living(observed("a", inherited="2", min_insync_replicas="4"))
    desired = (declared("a", 3, 3, undeclared=undeclared),)
    scene = RuleContext(desired, facts(min_insync_replicas="2"), live=live)
    assert [str(one) for one in said("KF109", scene)] == trips


def test_unclean_elections_are_warned_of_where_there_is_another_replica() -> None:
    assert said("KF113", RuleContext((declared("a", 3, 3, unclean_leader_election_enable="true"),))) == [
        Said("a", "warning", wording, wording, "config.unclean.leader.election.enable")
    ]
    # A cluster that elects uncleanly unless the topic says otherwise.
    cluster = facts(unclean_leader_election_enable="true")
    (found,) = said("KF113", RuleContext((declared("a", 3, 3),), cluster))
    assert found.message == wording
    assert silent(
        "KF113", RuleContext((declared("a", 3, 3, unclean_leader_election_enable="false"),), cluster)
    )
    assert silent("KF113", RuleContext((declared("a", 3, 3),), facts(unclean_leader_election_enable="false")))
    assert silent("KF113", RuleContext((declared("a", 3, 3),)))
    cluster = facts(unclean_leader_election_enable="true")
    assert silent("KF113", RuleContext((declared("a", 3, 1),), cluster))
    assert not silent("KF113", RuleContext((declared("a", 3, 1, unclean_leader_election_enable="true"),)))
    desired = declared("a", 3, 3, unclean_leader_election_enable="true")
    meant = replace(desired, intent=replace(desired.intent, waivers={"KF113": "metrics"}))
    assert [one.severity for one in said("KF113", RuleContext((meant,)))] == ["info"]

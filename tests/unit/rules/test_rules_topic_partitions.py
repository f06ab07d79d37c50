"""The rules about partition counts: KF104 to KF107, and KF114."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaform.core.model import Desired, Facts, Severity
from kafkaform.rules import RuleContext
from kafkaform.rules.catalogue import ProjectLimits
from kafkaform.rules.topic_partitions import EVEN_COUNTS
from tests.support.rule_scenes import Said, diagnostics, group, living, observed, said, silent
from tests.support.scenes import absent, declared

# --- KF104: divisors -------------------------------------------------------------------------------


def advised(partitions: int, brokers: int | None = None, live: int | None = None) -> int | None:
    """The count that the rule names on a cluster for a partition count; None if it says nothing."""
    resources = living(observed("a", live)) if live is not None else {}
    context = RuleContext((declared("a", partitions),), Facts("c"), brokers=brokers, live=resources)
    found = said("KF104", context)
    return (
        int((found[0].suggestion or "").removeprefix("write partitions: ").split(",")[0]) if found else None
    )


def test_a_count_with_few_divisors() -> None:
    assert said("KF104", RuleContext((declared("a", 10),))) == [
        Said(
            "a",
            "info",
            "10 partitions divide evenly only among 1, 2, 5 or 10 members: 10 has 4 divisors, 12 has 6",
            "write partitions: 12, which 1, 2, 3, 4, 6 or 12 members share evenly",
            "partitions",
        )
    ]


@pytest.mark.parametrize(
    ("partitions", "better"),
    [(5, 6), (7, 8), (9, 12), (10, 12), (14, 12), (25, 24), (50, 48), (100, 120), (200, 180), (359, 360)],
)
def test_the_nearest_count_with_many_divisors_is_named(partitions: int, better: int | None) -> None:
    assert advised(partitions) == better


@pytest.mark.parametrize(
    "partitions", [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 30, 32, 36, 48, 60, 64, 128, 360, 361, 1000]
)
def test_counts_with_many_divisors_and_powers_of_two(partitions: int) -> None:
    assert advised(partitions) is None


def test_what_is_named_never_trips() -> None:
    assert [count for count in EVEN_COUNTS if advised(count) is not None] == []


def test_a_count_that_the_brokers_divide_is_preferred() -> None:
    assert advised(7) == 8
    assert advised(7, brokers=3) == 6
    assert advised(15, brokers=4) == 12


def test_evenness_over_brokers_is_not_given_up() -> None:
    assert advised(10, brokers=5) is None
    assert advised(25, brokers=5) == 30
    assert advised(10, brokers=0) == 12


def test_offline_no_decrease_is_named_as_the_topic_may_be_live() -> None:
    (found,) = said("KF104", RuleContext((declared("a", 25),)))
    assert (found.suggestion or "").startswith("write partitions: 30")
    (found,) = said("KF105", RuleContext((declared("a", 10),), brokers=3))
    assert found.suggestion == "write partitions: 12"


def test_no_decrease_of_a_live_topic_is_named() -> None:
    assert advised(25, live=25) == 30
    assert advised(25, live=12) == 24
    assert advised(50, live=50) == 60
    assert advised(10, live=12) == 12


def test_a_waiver_is_shown_with_its_reason() -> None:
    desired = declared("a", 10)
    waived = replace(desired, intent=replace(desired.intent, waivers={"KF104": "joined with b"}))
    ((ref, found),) = diagnostics(RuleContext((waived,)), "KF104")
    assert ref == desired.ref
    assert (found.severity, found.waived) == (Severity.INFO, "joined with b")
    ((_, loud),) = diagnostics(RuleContext((desired,)), "KF104", {"KF104": "error"})
    assert (loud.severity, loud.waived) == (Severity.ERROR, None)


# --- KF105: leaders --------------------------------------------------------------------------------


def test_partitions_that_the_brokers_do_not_divide() -> None:
    assert said("KF105", RuleContext((declared("a", 10),), Facts("c"), brokers=3)) == [
        Said(
            "a",
            "info",
            "10 partitions over 3 brokers: 1 of them leads 4, the others 3",
            "write partitions: 9, or partitions: 12",
            "partitions",
        )
    ]


def test_who_leads_how_many_is_counted() -> None:
    (found,) = said("KF105", RuleContext((declared("a", 11),), brokers=3))
    assert found.message == "11 partitions over 3 brokers: 2 of them lead 4, the other 3"


def test_a_live_topic_can_only_grow() -> None:
    for present, remedy in ((9, "write partitions: 9, or partitions: 12"), (10, "write partitions: 12")):
        scene = RuleContext((declared("a", 10),), Facts("c"), brokers=3, live=living(observed("a", present)))
        assert [found.suggestion for found in said("KF105", scene)] == [remedy]


@pytest.mark.parametrize(
    ("partitions", "brokers", "trips"),
    [
        (3, 3, False),
        (12, 3, False),
        (4, 3, True),
        (1, 3, False),  # fewer than brokers
        (2, 3, False),
        (29, 3, True),
        (31, 3, False),  # ten leaders or more on each broker
        (7, 1, False),
        (7, 0, False),
        (7, None, False),
    ],
)
def test_when_leaders_are_uneven(partitions: int, brokers: int | None, trips: bool) -> None:
    assert silent("KF105", RuleContext((declared("a", partitions),), brokers=brokers)) is not trips


# --- KF106 and KF114: the project's totals ---------------------------------------------------------


def test_more_partitions_than_the_project_allows() -> None:
    desired = [declared("c", 20), declared("b", 60), declared("a", 20), declared("d", 1)]
    assert said("KF106", RuleContext(tuple(desired), limits=ProjectLimits(partitions=100))) == [
        Said(
            None,
            "warning",
            "the 4 declared topics have 101 partitions; the limit is 100",
            "use fewer in the largest topics (b (60), a (20), c (20)), "
            "or raise limits.partitions in kafkaform.yaml",
            None,
        )
    ]
    assert silent("KF106", RuleContext(tuple(desired), limits=ProjectLimits(partitions=101)))
    assert silent("KF106", RuleContext((*desired[:3], absent("d")), limits=ProjectLimits(partitions=100)))


def test_a_hundred_thousand_partitions_are_the_limit_where_nobody_says_another() -> None:
    desired = declared("a", 60_000), declared("b", 40_000)
    assert silent("KF106", RuleContext(desired))
    (found,) = said("KF106", RuleContext((*desired, declared("c", 1))))
    assert found.message == "the 3 declared topics have 100,001 partitions; the limit is 100,000"


def test_a_part_of_the_manifests_says_nothing_of_the_total() -> None:
    desired = declared("a", 60), declared("b", 60)
    for limit in (100, 60):
        assert silent("KF106", RuleContext(desired, limits=ProjectLimits(partitions=limit), subset=True))


@pytest.mark.parametrize("subset", [False, True])
def test_one_topic_above_the_limit_of_all(subset: bool) -> None:
    scene = RuleContext(
        (declared("a", 1500), declared("b")), limits=ProjectLimits(partitions=1499), subset=subset
    )
    assert said("KF106", scene) == [
        Said(
            "a",
            "warning",
            "a has 1,500 partitions; the limit of all topics together is 1,499",
            "use fewer partitions, or raise limits.partitions in kafkaform.yaml",
            "partitions",
        )
    ]


def test_very_many_partitions_are_told_with_what_they_cost() -> None:
    advice = "use only as many as its consumers and its throughput need: partitions can be added later"
    cost = "a has 20,000 partitions: 60,000 replicas, which keep 180,000 files open at least"
    desired = (declared("a", 20_000, 3),)
    assert said("KF116", RuleContext(desired)) == [Said("a", "warning", cost, advice, "partitions")]
    each = ", up to 60,000 on each of 3 brokers"
    each += "; if one fails, up to 6,667 partitions need another leader at once"
    assert said("KF116", RuleContext(desired, brokers=3)) == [
        Said("a", "warning", cost + each, advice, "partitions")
    ]
    assert silent("KF116", RuleContext((declared("a", 1_000, 3),)))


def test_more_topics_than_the_project_allows() -> None:
    desired = tuple(declared(f"a{number}") for number in range(3001))
    assert said("KF114", RuleContext(desired)) == [
        Said(
            None,
            "warning",
            "3,001 topics are declared; the limit is 3,000",
            "merge topics with the same structure into one, with a key, "
            "or raise limits.topics in kafkaform.yaml",
            None,
        )
    ]
    assert silent("KF114", RuleContext(desired[1:]))
    assert silent("KF114", RuleContext(desired, limits=ProjectLimits(topics=3001)))
    assert silent("KF114", RuleContext(desired, subset=True))
    assert silent("KF114", RuleContext((*desired[1:], absent("gone"), group("readers"))))


# --- KF107: one partition for many members ---------------------------------------------------------


def test_one_partition_for_a_group_of_several() -> None:
    assert said("KF107", RuleContext((declared("a", 1), group("g", expected=2, max=6)))) == [
        Said(
            "a",
            "warning",
            "a has 1 partition, and group g up to 6 members: one of them reads all of it",
            "write partitions: 6 or more, or declare one member",
            "partitions",
        )
    ]


def test_every_group_is_told_once() -> None:
    groups = group("g", ["b", "a", "a"], expected=2), group("h", expected=4), group("i", expected=1)
    found = said("KF107", RuleContext((declared("a", 1), *groups)))
    assert [one.message for one in found] == [
        "a has 1 partition, and group g up to 2 members: one of them reads all of it",
        "a has 1 partition, and group h up to 4 members: one of them reads all of it",
    ]


@pytest.mark.parametrize(
    "reader",
    [
        group("g", expected=1, max=1),
        group("g", expected=1),
        group("g"),
        group("g", ["other"], expected=6),
        group("g", protocol="share", expected=6),
        group("g", tombstone=True, expected=6),
        replace(group("g"), intent=replace(group("g").intent, spec={})),
    ],
)
def test_groups_that_one_partition_is_enough_for(reader: Desired) -> None:
    assert silent("KF107", RuleContext((declared("a", 1), reader)))


def test_topics_with_more_partitions_are_not_single() -> None:
    assert silent("KF107", RuleContext((declared("a", 2), group("g", expected=6))))
    assert silent("KF107", RuleContext((absent("a"), group("g", expected=6))))

"""The rules about partition counts: KF104 to KF107, and KF114."""

from __future__ import annotations

import pytest

from kafkaform.core.model import Desired, Facts, Severity
from kafkaform.core.values import replace
from kafkaform.rules import RuleContext
from kafkaform.rules.catalogue import ProjectLimits
from kafkaform.rules.topic_partitions import EVEN_COUNTS
from tests.support.golden import wording
from tests.support.plans.rules import Said, diagnostics, group, living, observed, said, silent
from tests.support.plans.scenes import absent, declared

# --- KF104: divisors -------------------------------------------------------------------------------


def advised(partitions: int, brokers: int | None = None, live: int | None = None) -> int | None:
    """The count that the rule names on a cluster for a partition count; None if it says nothing."""
    resources = living(observed("a", live)) if live is not None else {}
    context = RuleContext((declared("a", partitions),), Facts("c"), brokers=brokers, live=resources)
    found = said("KF104", context)
    return (
        int((found[0].suggestion or "").removeprefix("write `partitions: ").split("`")[0]) if found else None
    )


def test_a_count_with_more_divisors_is_named_that_brokers_share_evenly() -> None:
    assert said("KF104", RuleContext((declared("a", 10),))) == [
        Said("a", "info", wording, wording, "partitions")
    ]
    assert [count for count in EVEN_COUNTS if advised(count) is not None] == []
    assert advised(7) == 8
    assert advised(7, brokers=3) == 6
    assert advised(15, brokers=4) == 12
    assert advised(10, brokers=5) is None
    assert advised(25, brokers=5) == 30
    assert advised(10, brokers=0) == 12


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


def test_no_decrease_of_a_live_topic_is_named() -> None:
    (found,) = said("KF104", RuleContext((declared("a", 25),)))
    assert (found.suggestion or "").startswith("write `partitions: 30`")
    (found,) = said("KF105", RuleContext((declared("a", 10),), brokers=3))
    assert found.suggestion == "write `partitions: 12`"
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


def test_partitions_that_brokers_do_not_divide_are_told() -> None:
    assert said("KF105", RuleContext((declared("a", 10),), Facts("c"), brokers=3)) == [
        Said("a", "info", wording, "write `partitions: 9`, or `partitions: 12`", "partitions")
    ]
    (found,) = said("KF105", RuleContext((declared("a", 11),), brokers=3))
    assert found.message == wording
    for present, remedy in (
        (9, "write `partitions: 9`, or `partitions: 12`"),
        (10, "write `partitions: 12`"),
    ):
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


def test_partitions_of_all_topics_have_a_limit() -> None:
    # More partitions than the project allows.
    desired = [declared("c", 20), declared("b", 60), declared("a", 20), declared("d", 1)]
    assert said("KF106", RuleContext(tuple(desired), limits=ProjectLimits(partitions=100))) == [
        Said(None, "warning", wording, wording, None)
    ]
    assert silent("KF106", RuleContext(tuple(desired), limits=ProjectLimits(partitions=101)))
    assert silent("KF106", RuleContext((*desired[:3], absent("d")), limits=ProjectLimits(partitions=100)))
    many = declared("a", 60_000), declared("b", 40_000)
    assert silent("KF106", RuleContext(many))
    (found,) = said("KF106", RuleContext((*many, declared("c", 1))))
    assert found.message == wording
    part = declared("a", 60), declared("b", 60)
    for limit in (100, 60):
        assert silent("KF106", RuleContext(part, limits=ProjectLimits(partitions=limit), subset=True))


@pytest.mark.parametrize("subset", [False, True])
def test_one_topic_above_the_limit_of_all(subset: bool) -> None:
    scene = RuleContext(
        (declared("a", 1500), declared("b")), limits=ProjectLimits(partitions=1499), subset=subset
    )
    assert said("KF106", scene) == [Said("a", "warning", wording, wording, "partitions")]


def test_very_many_partitions_and_topics_are_told() -> None:
    # Very many partitions are told with what they cost.
    desired = (declared("a", 20_000, 3),)
    assert said("KF116", RuleContext(desired)) == [Said("a", "warning", wording, wording, "partitions")]
    assert said("KF116", RuleContext(desired, brokers=3)) == [
        Said("a", "warning", wording, wording, "partitions")
    ]
    assert silent("KF116", RuleContext((declared("a", 1_000, 3),)))
    # More topics than the project allows.
    topics = tuple(declared(f"a{number}") for number in range(3001))
    assert said("KF114", RuleContext(topics)) == [Said(None, "warning", wording, wording, None)]
    assert silent("KF114", RuleContext(topics[1:]))
    assert silent("KF114", RuleContext(topics, limits=ProjectLimits(topics=3001)))
    assert silent("KF114", RuleContext(topics, subset=True))
    assert silent("KF114", RuleContext((*topics[1:], absent("gone"), group("readers"))))


# --- KF107: one partition for many members ---------------------------------------------------------


def test_one_partition_for_a_group_of_several_is_told_once_a_group() -> None:
    assert said("KF107", RuleContext((declared("a", 1), group("g", expected=2, max=6)))) == [
        Said("a", "warning", wording, wording, "partitions")
    ]
    groups = group("g", ["b", "a", "a"], expected=2), group("h", expected=4), group("i", expected=1)
    found = said("KF107", RuleContext((declared("a", 1), *groups)))
    assert [one.message for one in found] == wording
    assert silent("KF107", RuleContext((declared("a", 2), group("g", expected=6))))
    assert silent("KF107", RuleContext((absent("a"), group("g", expected=6))))


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

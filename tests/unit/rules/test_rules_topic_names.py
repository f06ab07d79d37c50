"""The rules about names of topics: KF101, KF102, KF103."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaform.core.model import Desired, Facts, ResourceRef
from kafkaform.rules import RULES, RuleContext
from kafkaform.rules.catalogue import ProjectLimits
from tests.support.rule_scenes import Said, diagnostics, said, silent
from tests.support.scenes import absent, declared, topic

NAMES = ProjectLimits(topic_name=r"[a-z]+(\.[a-z]+)*\.v[0-9]+")


# --- KF101: legal names ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "a\n", "x" * 250])
def test_illegal_names(name: str) -> None:
    (found,) = said("KF101", RuleContext((declared(name),)))
    assert (found.name, found.severity, found.path) == (name, "error", "metadata.name")


@pytest.mark.parametrize("name", ["a", "...", "orders.v1", "A_b-9", "x" * 249])
def test_legal_names(name: str) -> None:
    assert silent("KF101", RuleContext((declared(name),)))


def test_a_long_name_is_shown_in_short() -> None:
    (found,) = said("KF101", RuleContext((declared("x" * 5000),)))
    assert "(5000 characters)" in found.message
    assert len(found.message) < 120


def waived(code: str, *names: str) -> tuple[Desired, ...]:
    return tuple(
        replace(one, intent=replace(one.intent, waivers={code: "we like it"})) for one in map(declared, names)
    )


def test_a_name_that_brokers_refuse_cannot_be_waived() -> None:
    assert not RULES["KF101"].waivable
    ((_, found),) = diagnostics(RuleContext(waived("KF101", "a b")), "KF101")
    assert (found.severity.value, found.waived) == ("error", None)


@pytest.mark.parametrize(("live", "severity"), [((), "error"), (("a.b",), "error"), (("a.b", "a_b"), "info")])
def test_names_that_collide_can_be_waived_only_if_both_exist(live: tuple[str, ...], severity: str) -> None:
    there = frozenset(map(topic, live))
    context = RuleContext(waived("KF102", "a.b", "a_b"), Facts("c"), there)
    found = [one for _, one in diagnostics(context, "KF102")]
    assert [one.severity.value for one in found] == [severity] * 2
    assert all((one.waived is None) == (severity == "error") for one in found)
    offline = [one for _, one in diagnostics(RuleContext(waived("KF102", "a.b", "a_b")), "KF102")]
    assert {one.severity.value for one in offline} == {"info"}, "offline, it is not known that they do not"


def test_topics_that_exist_with_names_that_collide_are_a_warning() -> None:
    live = frozenset(map(topic, ("a.b", "a_b")))
    (found,) = said("KF102", RuleContext((declared("a.b"),), Facts("c"), live))
    assert (found.severity, found.message) == (
        "warning",
        "a.b and a_b differ only in '.' and '_': their metrics have the same names",
    )


# --- KF102: names that collide ---------------------------------------------------------------------


def test_names_that_collide_within_the_manifests() -> None:
    found = said("KF102", RuleContext((declared("a.b"), declared("a_b"), declared("a-b"))))
    assert [(one.name, one.severity, one.path) for one in found] == [
        ("a.b", "error", "metadata.name"),
        ("a_b", "error", "metadata.name"),
    ]


def test_a_name_that_collides_with_a_live_topic() -> None:
    live = frozenset(map(topic, ("a_b.c", "other")))
    assert said("KF102", RuleContext((declared("a.b.c"),), inventory=live)) == [
        Said(
            "a.b.c",
            "error",
            "a.b.c and a_b.c differ only in '.' and '_': Kafka does not allow both",
            "rename one of them",
            "metadata.name",
        )
    ]


def test_only_topics_collide() -> None:
    assert silent(
        "KF102", RuleContext((declared("a.b"),), inventory=frozenset({ResourceRef("ConsumerGroup", "a_b")}))
    )


def test_a_topic_that_is_live_does_not_collide_with_itself() -> None:
    assert silent("KF102", RuleContext((declared("a.b"),), inventory=frozenset({topic("a.b")})))


def test_a_tombstone_collides_only_while_its_topic_lives() -> None:
    desired = (declared("a.b"), absent("a_b"))
    assert silent("KF102", RuleContext(desired))
    (found,) = said("KF102", RuleContext(desired, inventory=frozenset({topic("a_b")})))
    assert (found.name, found.suggestion) == ("a.b", "plan again once the old one is deleted")


# --- KF103: the project's pattern ------------------------------------------------------------------


def test_a_name_that_does_not_match_the_pattern() -> None:
    assert said("KF103", RuleContext((declared("Orders"),), limits=NAMES)) == [
        Said(
            "Orders",
            "warning",
            r"Orders does not match the pattern of topic names, [a-z]+(\.[a-z]+)*\.v[0-9]+",
            "choose a name that matches, while the topic is not in use yet",
            "metadata.name",
        )
    ]


@pytest.mark.parametrize("name", ["orders.v1-old", "x-orders.v1", "orders.v1\n"])
def test_the_whole_name_has_to_match(name: str) -> None:
    assert not silent("KF103", RuleContext((declared(name),), limits=NAMES))


def test_names_that_match_tombstones_and_projects_without_a_pattern() -> None:
    assert silent("KF103", RuleContext((declared("orders.v1"), declared("a.b.v12")), limits=NAMES))
    assert silent("KF103", RuleContext((absent("Orders"),), limits=NAMES))
    assert silent("KF103", RuleContext((declared("Orders"),)))

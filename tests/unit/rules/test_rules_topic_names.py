"""The rules about names of topics: KF101, KF102, KF103."""

from __future__ import annotations

import pytest

from kafkaform.core.model import Desired, Facts, ResourceRef
from kafkaform.core.values import replace
from kafkaform.rules import RULES, RuleContext
from kafkaform.rules.catalogue import ProjectLimits
from tests.support.golden import wording
from tests.support.plans.rules import Said, diagnostics, said, silent
from tests.support.plans.scenes import absent, declared, topic

NAMES = ProjectLimits(topic_name=r"[a-z]+(\.[a-z]+)*\.v[0-9]+")


# --- KF101: legal names ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "a\n", "x" * 250])
def test_illegal_names(name: str) -> None:
    (found,) = said("KF101", RuleContext((declared(name),)))
    assert (found.name, found.severity, found.path) == (name, "error", "metadata.name")


@pytest.mark.parametrize("name", ["a", "...", "orders.v1", "A_b-9", "x" * 249])
def test_legal_names(name: str) -> None:
    assert silent("KF101", RuleContext((declared(name),)))


def test_illegal_and_colliding_names_are_told_in_short_and_not_waived() -> None:
    (found,) = said("KF101", RuleContext((declared("x" * 5000),)))
    assert "(5000 characters)" in found.message
    assert len(found.message) < 120
    assert not RULES["KF101"].waivable
    ((_, refused),) = diagnostics(RuleContext(waived("KF101", "a b")), "KF101")
    assert (refused.severity.value, refused.waived) == ("error", None)
    live = frozenset(map(topic, ("a.b", "a_b")))
    (found,) = said("KF102", RuleContext((declared("a.b"),), Facts("c"), live))
    assert (found.severity, found.message) == ("warning", wording)


def waived(code: str, *names: str) -> tuple[Desired, ...]:
    return tuple(
        replace(one, intent=replace(one.intent, waivers={code: "we like it"})) for one in map(declared, names)
    )


@pytest.mark.parametrize(("live", "severity"), [((), "error"), (("a.b",), "error"), (("a.b", "a_b"), "info")])
def test_names_that_collide_can_be_waived_only_if_both_exist(live: tuple[str, ...], severity: str) -> None:
    there = frozenset(map(topic, live))
    context = RuleContext(waived("KF102", "a.b", "a_b"), Facts("c"), there)
    found = [one for _, one in diagnostics(context, "KF102")]
    assert [one.severity.value for one in found] == [severity] * 2
    assert all((one.waived is None) == (severity == "error") for one in found)
    offline = [one for _, one in diagnostics(RuleContext(waived("KF102", "a.b", "a_b")), "KF102")]
    assert {one.severity.value for one in offline} == {"info"}, "offline, it is not known that they do not"


def test_names_collide_with_other_topics_that_are_there() -> None:
    # Names that collide within the manifests.
    found = said("KF102", RuleContext((declared("a.b"), declared("a_b"), declared("a-b"))))
    assert [(one.name, one.severity, one.path) for one in found] == [
        ("a.b", "error", "metadata.name"),
        ("a_b", "error", "metadata.name"),
    ]
    live = frozenset(map(topic, ("a_b.c", "other")))
    assert said("KF102", RuleContext((declared("a.b.c"),), inventory=live)) == [
        Said("a.b.c", "error", wording, "rename one of them", "metadata.name")
    ]
    assert silent(
        "KF102", RuleContext((declared("a.b"),), inventory=frozenset({ResourceRef("ConsumerGroup", "a_b")}))
    )
    assert silent("KF102", RuleContext((declared("a.b"),), inventory=frozenset({topic("a.b")})))
    desired = (declared("a.b"), absent("a_b"))
    assert silent("KF102", RuleContext(desired))
    (late,) = said("KF102", RuleContext(desired, inventory=frozenset({topic("a_b")})))
    assert (late.name, late.suggestion) == ("a.b", wording)


# --- KF103: the project's pattern ------------------------------------------------------------------


def test_names_have_to_match_the_pattern_of_the_project() -> None:
    assert said("KF103", RuleContext((declared("Orders"),), limits=NAMES)) == [
        Said("Orders", "warning", wording, wording, "metadata.name")
    ]
    assert silent("KF103", RuleContext((declared("orders.v1"), declared("a.b.v12")), limits=NAMES))
    assert silent("KF103", RuleContext((absent("Orders"),), limits=NAMES))
    assert silent("KF103", RuleContext((declared("Orders"),)))


@pytest.mark.parametrize("name", ["orders.v1-old", "x-orders.v1", "orders.v1\n"])
def test_the_whole_name_has_to_match(name: str) -> None:
    assert not silent("KF103", RuleContext((declared(name),), limits=NAMES))

"""Each rule on a manifest that it is about and on one that it is not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import kafkaform
from kafkaform import rules
from kafkaform.model import Desired, Diagnostic, Facts, Location, ResourceRef, Severity
from kafkaform.rules.catalogue import Finding, rule
from tests.scenes import absent, declared, topic

PLACE = Location("topics/a.yaml", 3)


def found(
    *desired: Desired,
    live: tuple[str, ...] = (),
    default: str | None = None,
    severities: dict[str, str] | None = None,
) -> list[tuple[str, Diagnostic]]:
    facts = None if default is None else Facts("c", defaults={"min.insync.replicas": default})
    scene = rules.Scene(desired, facts, frozenset(map(topic, live)))
    return [(ref.name, finding) for ref, finding in rules.check(scene, severities or {}) if ref]


def tripped(
    *desired: Desired, live: tuple[str, ...] = (), default: str | None = None
) -> list[tuple[str, str]]:
    return [
        (name, f"{finding.code} {finding.severity}")
        for name, finding in found(*desired, live=live, default=default)
    ]


# --- KF101 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "a\n", "x" * 250])
def test_illegal_names(name: str) -> None:
    assert tripped(declared(name)) == [(name, "KF101 error")]


@pytest.mark.parametrize("name", ["a", "...", "orders.v1", "A_b-9", "x" * 249])
def test_legal_names(name: str) -> None:
    assert tripped(declared(name)) == []


def test_a_long_name_is_shown_in_short() -> None:
    ((_, finding),) = found(declared("x" * 5000))
    assert "(5000 characters)" in finding.message
    assert len(finding.message) < 120


# --- KF102 -----------------------------------------------------------------------------------------


def test_names_that_collide_within_the_manifests() -> None:
    assert tripped(declared("a.b"), declared("a_b"), declared("a-b")) == [
        ("a.b", "KF102 error"),
        ("a_b", "KF102 error"),
    ]


def test_a_name_that_collides_with_a_live_topic() -> None:
    ((name, finding),) = found(declared("a.b.c"), live=("a_b.c", "a.b.c", "other"))
    assert name == "a.b.c"
    assert finding.message == "a.b.c and a_b.c differ only in '.' and '_': Kafka does not allow both"
    assert finding.suggestion == "rename one of them"


def test_only_topics_collide() -> None:
    scene = rules.Scene((declared("a.b"),), None, frozenset({ResourceRef("ConsumerGroup", "a_b")}))
    assert list(rules.check(scene, {})) == []


def test_a_topic_that_is_live_does_not_collide_with_itself() -> None:
    assert tripped(declared("a.b"), live=("a.b",)) == []


def test_a_tombstone_collides_only_while_its_topic_lives() -> None:
    assert tripped(declared("a.b"), absent("a_b")) == []
    ((name, finding),) = found(declared("a.b"), absent("a_b"), live=("a_b",))
    assert (name, finding.suggestion) == ("a.b", "plan again once the old one is deleted")


# --- KF109 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "least", "trips"),
    [
        (1, "1", None),
        (2, "1", None),
        (3, "2", None),
        (5, "3", None),
        (1, "2", "KF109 error"),
        (3, "4", "KF109 error"),
        (2, "2", "KF109 warning"),
        (3, "3", "KF109 warning"),
        (3, "1", "KF109 warning"),
    ],
)
def test_min_insync_replicas_against_replicas(replicas: int, least: str, trips: str | None) -> None:
    expected = [("a", trips)] if trips else []
    assert tripped(declared("a", 3, replicas, min_insync_replicas=least)) == expected
    assert tripped(declared("a", 3, replicas), default=least) == expected
    assert tripped(declared("a", 3, replicas, min_insync_replicas=None), default=least) == expected
    assert tripped(declared("a", 3, replicas)) == []


def test_an_own_value_counts_more_than_the_default() -> None:
    assert tripped(declared("a", 3, 3, min_insync_replicas="2"), default="3") == []


def test_a_tombstone_has_no_replicas() -> None:
    assert tripped(absent("a"), default="2") == []


def test_the_suggestion_is_a_value_that_fits() -> None:
    for replicas, least in [(3, "4"), (1, "2"), (3, "3"), (3, "1")]:
        ((_, finding),) = found(declared("a", 3, replicas, min_insync_replicas=least))
        assert finding.suggestion is not None
        better = finding.suggestion.removeprefix("set it to ")
        assert tripped(declared("a", 3, replicas, min_insync_replicas=better)) == []


# --- severities ------------------------------------------------------------------------------------


def test_severities_can_be_chosen_and_rules_switched_off() -> None:
    both = replace(declared("a b", 3, 3, min_insync_replicas="3"), location=PLACE)
    severities = {"KF101": "info", "KF109": "error"}
    assert [(f.code, f.severity, f.location) for _, f in found(both, severities=severities)] == [
        ("KF101", Severity.INFO, PLACE),
        ("KF109", Severity.ERROR, PLACE),
    ]
    assert [f.code for _, f in found(both, severities={"KF101": "off"})] == ["KF109"]
    assert found(both, severities={"KF101": "off", "KF109": "off"}) == []


# --- the catalogue ---------------------------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(rules.entries()))
def test_every_code_is_explained(code: str) -> None:
    entry = rules.entries()[code]
    assert entry.code == code
    first, empty, *rest = entry.explanation.split("\n")
    assert entry.summary == first
    assert first.endswith(".")
    assert not re.search(r"[.!?] ", first)
    assert empty == ""
    assert len(" ".join(rest)) > 60


def test_codes_are_unique() -> None:
    assert not rules.RULES.keys() & rules.NOTES.keys()
    for code in rules.RULES:
        with pytest.raises(ValueError, match=f"{code} is taken"):
            rule(code, Severity.INFO)(lambda _: list[Finding]())


def test_every_code_that_is_emitted_is_in_the_catalogue_and_the_other_way_round() -> None:
    sources = Path(kafkaform.__file__).parent.rglob("*.py")
    used = {code for path in sources for code in re.findall(r'"(KF\d{3})"', path.read_text("utf-8"))}
    assert used == rules.entries().keys()

"""The catalogue of rules: what every rule has to keep to, and how severities are chosen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kafkaform
from kafkaform import rules
from kafkaform.core.model import Desired, Diagnostic, Location, Severity
from kafkaform.core.values import replace
from kafkaform.rules.catalogue import Finding, rule
from tests.support.plans.scenes import declare_topic

PLACE = Location("topics/a.yaml", 3)


def check_topic(desired: Desired, severities: dict[str, str]) -> list[Diagnostic]:
    return list(rules.check(rules.RuleContext((desired,)), severities))


def test_configured_severities_apply_to_rules() -> None:
    both = replace(declare_topic("a b", 3, 3, min_insync_replicas="3"), location=PLACE)
    severities = {"KF101": "info", "KF109": "error"}
    assert [(f.code, f.severity, f.location) for f in check_topic(both, severities)] == [
        ("KF101", Severity.INFO, PLACE),
        ("KF109", Severity.ERROR, PLACE),
    ]
    assert [f.code for f in check_topic(both, {"KF101": "off"})] == ["KF109"]
    assert check_topic(both, {"KF101": "off", "KF109": "off"}) == []


@pytest.mark.parametrize("code", sorted(rules.list_entries()))
def test_every_code_is_explained(code: str) -> None:
    entry = rules.list_entries()[code]
    assert entry.code == code
    first, empty, *remaining = entry.explanation.split("\n")
    assert entry.summary == first
    assert first.endswith(".")
    assert not re.search(r"[.!?] ", first)
    assert empty == ""
    assert len(" ".join(remaining)) > 60


def test_every_code_is_unique_and_used() -> None:
    assert not rules.RULES.keys() & rules.NOTES.keys()
    for code in rules.RULES:
        with pytest.raises(ValueError, match=f"{code} is already used"):
            rule(code, Severity.INFO)(lambda _: list[Finding]())
    sources = Path(kafkaform.__file__).parent.rglob("*.py")
    used = {code for path in sources for code in re.findall(r'"(KF\d{3})"', path.read_text("utf-8"))}
    assert used == rules.list_entries().keys()
    sources = Path(kafkaform.__file__).parent.rglob("*.py")
    used = {code for source in sources for code in re.findall(r"\bKF[0-9]{3}\b", source.read_text("utf-8"))}
    assert used <= rules.list_entries().keys()

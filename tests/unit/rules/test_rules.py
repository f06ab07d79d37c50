"""The catalogue of rules: what every rule has to keep to, and how severities are chosen."""

import re
from pathlib import Path

import pytest

import kafkaform
from kafkaform import rules
from kafkaform.core.model import Desired, Diagnostic, Location, Severity
from kafkaform.core.values import replace
from kafkaform.rules import Stage
from kafkaform.rules.catalogue import Finding, rule
from kafkaform.rules.health import CRITICAL
from tests.support.plans.rules import check_rule, scene
from tests.support.plans.scenes import declare_topic
from tests.unit.rules.rows.groups import members, slow

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


def test_critical_rules_are_errors() -> None:
    assert {rules.RULES[code].severity for code in CRITICAL} == {Severity.ERROR}


def test_what_brokers_refuse_and_most_findings_about_health_cannot_be_waived() -> None:
    unwaivable = {code for code, rule in rules.RULES.items() if not rule.waivable}
    of_health = {code for code, rule in rules.RULES.items() if rule.stage is Stage.HEALTH}
    assert of_health - unwaivable == {"KF306", "KF307", "KF314", "KF315"}
    assert unwaivable - of_health == {"KF101", "KF120", "KF211", "KF215", "KF409", "KF611"}


@pytest.mark.parametrize("partitions", [5, 7, 9, 12, 17, 60])
def test_suggested_numbers_of_members_divide_the_partitions(partitions: int) -> None:
    for number in range(2, partitions):
        for finding in check_rule("KF202", scene(declare_topic("orders", partitions), members(number))):
            suggested = str(finding.suggestion).partition(" members,")[0]
            for better in map(int, re.findall(r"\d+", suggested)):
                assert partitions % better == 0 or better == number


@pytest.mark.parametrize("each", [600, 601, 7_001, 299_999])
def test_suggested_batch_is_the_largest_that_fits(each: int) -> None:
    (finding,) = check_rule("KF203", slow(each))
    (fitting,) = map(int, re.findall(r"max\.poll\.records: (\d+)", str(finding.suggestion)))
    assert not check_rule("KF203", slow(each, client={"max.poll.records": str(fitting)}))
    assert check_rule("KF203", slow(each, client={"max.poll.records": str(fitting + 1)}))

"""The catalogue of rules, how severities are chosen, and rules on manifests and measurements as they are."""

import re
from pathlib import Path

import pytest

import kafkaform
from kafkaform import rules
from kafkaform.config.manifests.loader import load_all
from kafkaform.config.settings import read_settings
from kafkaform.core.model import Desired, Diagnostic, Facts, Location, Severity
from kafkaform.core.values import replace
from kafkaform.rules import RuleContext, Stage
from kafkaform.rules.catalogue import Finding, rule
from kafkaform.rules.health import CRITICAL
from spark_validation.results import Estimate, NewestPart
from tests.support.cli.project import ROOT
from tests.support.plans.rules import check_rule, scene, select_rule
from tests.support.plans.scenes import declare_topic
from tests.support.skew.scenes import FINE, SURE, build_result, declare_policy
from tests.support.skew.scenes import scene as measured_scene
from tests.unit.rules.rows.groups import members, slow
from tests.unit.rules.rows.topics import build_partitions

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


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_example_manifests_have_no_findings(environment: str) -> None:
    settings = read_settings(ROOT / "kafkaform.yaml")
    (desired,) = load_all(settings.manifests, [settings.build_context(environment)])
    for brokers in (None, 1 if environment == "dev" else 3):
        scene = RuleContext(tuple(desired), environment=environment, brokers=brokers)
        assert [item for item in rules.check(scene, select_rule("KF1")) if item.waived is None] == []


def suggest_partitions(count: int, brokers: int | None = None, live: int | None = None) -> int | None:
    """Return the count that KF104 names on a cluster in the place of another; None if it is quiet."""
    context = replace(build_partitions(count, brokers, live), facts=Facts("c"))
    numbers = [
        int(re.findall(r"partitions: (\d+)", str(finding.suggestion))[0])
        for finding in check_rule("KF104", context)
    ]
    return numbers[0] if numbers else None


@pytest.mark.parametrize(
    ("partitions", "better"),
    [(5, 6), (7, 8), (9, 12), (10, 12), (14, 12), (25, 24), (50, 48), (100, 120), (200, 180), (359, 360)],
)
def test_nearest_count_with_many_divisors_is_suggested(partitions: int, better: int) -> None:
    assert suggest_partitions(partitions) == better


@pytest.mark.parametrize(
    ("partitions", "brokers", "better"), [(7, 3, 6), (15, 4, 12), (10, 5, None), (25, 5, 30), (10, 0, 12)]
)
def test_suggested_count_spreads_over_brokers(partitions: int, brokers: int, better: int | None) -> None:
    assert suggest_partitions(partitions, brokers=brokers) == better


@pytest.mark.parametrize(
    ("partitions", "live", "better"), [(25, 25, 30), (25, 12, 24), (50, 50, 60), (10, 12, 12)]
)
def test_no_decrease_of_a_live_topic_is_suggested(partitions: int, live: int, better: int) -> None:
    assert suggest_partitions(partitions, live=live) == better


@pytest.mark.parametrize(
    ("of", "ratio", "newest", "severity"),
    [
        ("period", FINE, SURE, "warning"),
        ("now", FINE, SURE, "error"),
        ("period", SURE, FINE, "error"),
        ("now", SURE, FINE, "warning"),
        ("now", FINE, FINE, None),
    ],
)
def test_policy_judges_its_period(of: str, ratio: Estimate, newest: Estimate, severity: str | None) -> None:
    share = Estimate.exact(1 / 3)
    part = NewestPart(0, 1, (share,) * 3, (share,) * 3, newest, newest)
    result = replace(build_result(ratio=ratio), now=part)
    policy = declare_policy(maxPartitionRatio=2.0, of=of)
    findings = list(rules.check(measured_scene(policy, result), {}, (Stage.SKEW,)))
    severities = {finding.severity.value for finding in findings}
    assert max(severities, key=["warning", "error"].index, default=None) == severity
    assert not severities or "warning" in severities, "the two disagree"
    second = "period" if of == "now" else "now"
    doubts = [finding.suggestion for finding in findings if finding.severity is Severity.WARNING]
    assert all(f"write `skew: {{of: {second}}}` " in str(hint) for hint in doubts)

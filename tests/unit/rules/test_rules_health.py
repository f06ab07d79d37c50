"""Tests of the parts that rules of health share, and of the places of findings about topics."""

from __future__ import annotations

from kafkaform import rules
from kafkaform.core.model import Location, Severity
from kafkaform.core.values import replace
from kafkaform.rules import Stage
from kafkaform.rules.health import CRITICAL
from tests.support.plans.rules import PathAsLocation
from tests.support.plans.scenes import declare_topic
from tests.unit.rules.rows.health import build_comparison


def test_critical_rules_are_errors() -> None:
    assert {rules.RULES[code].severity for code in CRITICAL} == {Severity.ERROR}


def test_rules_about_the_whole_cluster_cannot_be_waived() -> None:
    waivable = {code for code, rule in rules.RULES.items() if rule.stage is Stage.HEALTH and rule.waivable}
    assert waivable == {"KF306", "KF307", "KF314", "KF315"}


class LengthAsLine(PathAsLocation):
    """The locations of a manifest whose fields are on lines by the lengths of their paths."""

    def __call__(self, path: str) -> Location:
        return Location("a.yaml", len(path))


def test_finding_about_two_fields_points_to_the_first() -> None:
    desired = replace(declare_topic("a", 6, 3, retention_ms="86400000"), locations=LengthAsLine())
    (finding,) = rules.check(build_comparison(desired), {}, (Stage.HEALTH,))
    assert finding.location == Location("a.yaml", len("partitions"))

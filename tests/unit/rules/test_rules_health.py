"""Tests of the parts that rules of health share, and of the places of findings about topics."""

from __future__ import annotations

from kafkaform import rules
from kafkaform.core.model import Severity
from kafkaform.rules import Stage
from kafkaform.rules.health import CRITICAL


def test_critical_rules_are_errors() -> None:
    assert {rules.RULES[code].severity for code in CRITICAL} == {Severity.ERROR}


def test_rules_about_the_whole_cluster_cannot_be_waived() -> None:
    waivable = {code for code, rule in rules.RULES.items() if rule.stage is Stage.HEALTH and rule.waivable}
    assert waivable == {"KF306", "KF307", "KF314", "KF315"}

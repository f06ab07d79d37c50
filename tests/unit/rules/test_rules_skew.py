"""Skew policies: which rules run, severities and waivers, and how environments merge their limits."""

import pytest

from kafkaform import rules
from kafkaform.core.model import Severity
from kafkaform.core.values import replace
from kafkaform.rules import Stage
from spark_validation.results import Estimate, NewestPart
from tests.support.skew.scenes import FINE, SURE, build_result, declare_policy, scene


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
def test_policy_judges_period_or_current_records(
    of: str, ratio: Estimate, newest: Estimate, severity: str | None
) -> None:
    share = Estimate.exact(1 / 3)
    part = NewestPart(0, 1, (share,) * 3, (share,) * 3, newest, newest)
    result = replace(build_result(ratio=ratio), now=part)
    policy = declare_policy(maxPartitionRatio=2.0, of=of)
    findings = list(rules.check(scene(policy, result), {}, (Stage.SKEW,)))
    severities = {finding.severity.value for finding in findings}
    assert max(severities, key=["warning", "error"].index, default=None) == severity
    assert not severities or "warning" in severities, "the two disagree"
    second = "period" if of == "now" else "now"
    doubts = [finding.suggestion for finding in findings if finding.severity is Severity.WARNING]
    assert all(f"write `skew: {{of: {second}}}` " in str(hint) for hint in doubts)

"""Skew policies: which rules run, severities and waivers, and how environments merge their limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaform import rules
from kafkaform.config.manifests.loader import Context, load
from kafkaform.core.model import Severity
from kafkaform.core.values import replace
from kafkaform.resources.base import Layer
from kafkaform.resources.skew import limits_of
from kafkaform.rules import Stage
from spark_validation.results import Estimate, NewestPart, SkewLimits
from tests.support.skew.scenes import FINE, SURE, build_result, declare_policy, scene

ORDERS = """\
apiVersion: kafkaform/v1
kind: Topic
metadata: {name: orders}
spec:
  partitions: 3
  replicationFactor: 1
  skew:
    maxPartitionRatio: 2.0
    maxKeyShare: 0.05
  overrides:
    dev: {skew: {}}
    prod:
      skew:
        maxPartitionRatio: 1.5
        by: bytes
"""


@pytest.mark.parametrize(
    ("environment", "expected", "line"),
    [("dev", SkewLimits(2.0, 0.05, 9), 8), ("prod", SkewLimits(1.5, 0.05, 9, "bytes"), 14)],
)
def test_policy_layers_are_merged_per_limit(
    tmp_path: Path, environment: str, expected: SkewLimits, line: int
) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(ORDERS)
    defaults: dict[str, tuple[Layer, ...]] = {
        "Topic": ({"skew": {"minDistinctKeys": 9, "maxPartitionRatio": 9.0}},)
    }
    (topic,) = load([file], Context(("dev", "prod"), environment, defaults))
    assert limits_of(topic.intent) == expected
    (finding,) = rules.check(scene(topic, build_result("orders", ratio=SURE)), {}, (Stage.SKEW,))
    assert (finding.code, finding.severity) == ("KF501", Severity.ERROR)
    assert finding.location is not None
    assert (finding.location.file, finding.location.line) == (str(file), line)


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

"""The topic rules on manifests as people write them, and values that several contexts decide."""

import re

import pytest

from kafkaform import rules
from kafkaform.config.manifests.loader import load_all
from kafkaform.config.settings import read_settings
from kafkaform.core.model import Facts
from kafkaform.core.values import replace
from kafkaform.rules import RuleContext
from tests.support.cli.project import ROOT
from tests.support.plans.rules import check_rule, select_rule
from tests.unit.rules.rows.topics import build_partitions

ENVIRONMENTS = ("dev", "prod")


@pytest.mark.parametrize("environment", ENVIRONMENTS)
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

"""The topic rules on manifests as people write them, and values that several contexts decide."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkaform import rules
from kafkaform.config.manifests.loader import Context, load, load_all
from kafkaform.config.settings import read_settings
from kafkaform.core import kafka_configs
from kafkaform.core.model import Diagnostic, Facts
from kafkaform.core.values import replace
from kafkaform.rules import RuleContext
from kafkaform.rules.catalogue import ProjectLimits
from tests.support.cli.project import ROOT
from tests.support.plans.rules import (
    build_observed,
    check_rule,
    describe_findings,
    facts,
    living,
    scene,
    select_rule,
)
from tests.support.plans.scenes import declare_topic
from tests.unit.rules.rows.topics import build_config, build_partitions

ENVIRONMENTS = ("dev", "prod")

ORDERS = """\
apiVersion: kafkaform/v1
kind: Topic
metadata:
  name: orders
  annotations:
    kafkaform/waive.KF113: "clicks may be lost, TICKET-7"
spec:
  partitions: 10
  replicationFactor: 1
  retention: {time: 1d}
  config:
    min.insync.replicas: 2
    unclean.leader.election.enable: true
  keyed: false
  overrides:
    dev: {partitions: 3, retention: 7d, config: {min.insync.replicas: 1}}
    prod:
      replicationFactor: 4
      config:
        cleanup.policy: [compact, delete]
"""


def check_file(
    file: Path, environment: str | None, brokers: int | None = None, limits: ProjectLimits | None = None
) -> list[Diagnostic]:
    desired = load([file], Context(ENVIRONMENTS, environment))
    context = RuleContext(
        tuple(desired), environment=environment, brokers=brokers, limits=limits or ProjectLimits()
    )
    return list(rules.check(context, select_rule("KF1")))


def list_lines(diagnostics: list[Diagnostic]) -> dict[str, tuple[str, int]]:
    """The severity and the line of each finding, by code."""
    return {
        diagnostic.code: (diagnostic.severity.value, diagnostic.location.line if diagnostic.location else 0)
        for diagnostic in diagnostics
    }


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    file = tmp_path / "orders.yaml"
    file.write_text(ORDERS)
    return file


def test_environment_is_judged_by_own_values(orders: Path) -> None:
    assert list_lines(check_file(orders, "dev")) == {"KF113": ("info", 13)}
    assert list_lines(check_file(orders, "prod")) == {
        "KF104": ("info", 8),
        "KF108": ("info", 18),
        "KF111": ("warning", 10),
        "KF112": ("warning", 14),
        "KF113": ("info", 13),
    }


def test_brokers_and_limits_add_findings(orders: Path) -> None:
    limits = ProjectLimits(topic_name=r"[a-z]+\.v[0-9]+", recovery_window_ms=3 * 86_400_000)
    assert list_lines(check_file(orders, "prod", brokers=3, limits=limits)) == {
        "KF103": ("warning", 4),
        "KF104": ("info", 8),
        "KF105": ("info", 8),
        "KF108": ("error", 18),
        "KF110": ("warning", 10),
        "KF111": ("warning", 10),
        "KF112": ("warning", 14),
        "KF113": ("info", 13),
    }


def test_waived_finding_has_reason(orders: Path) -> None:
    (first,) = check_file(orders, "dev")
    assert (first.code, first.waived) == ("KF113", "clicks may be lost, TICKET-7")


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


@pytest.mark.parametrize(
    ("replicas", "value", "severity"),
    [
        (1, "1", None),
        (2, "1", None),
        (3, "2", None),
        (5, "3", None),
        (1, "2", "error"),
        (3, "4", "error"),
        (2, "2", "warning"),
        (3, "3", "warning"),
        (3, "1", "warning"),
    ],
)
def test_min_isr_is_judged_from_manifest_default_and_live_value(
    replicas: int, value: str, severity: str | None
) -> None:
    unset = declare_topic("a", 3, replicas)
    default = facts(min_insync_replicas=value)
    live = build_observed("a", 3, replicas, min_insync_replicas=value)
    new = f"a {severity} config.min.insync.replicas" if severity else None
    for context in (
        scene(declare_topic("a", 3, replicas, min_insync_replicas=value)),
        scene(unset, facts=default),
        scene(declare_topic("a", 3, replicas, min_insync_replicas=None), facts=default),
        # The plan lowers the replication factor.
        scene(unset, live=living(build_observed("a", 3, replicas + 1, min_insync_replicas=value))),
    ):
        assert describe_findings(check_rule("KF109", context)) == ([new] if new else [])
    for context in (
        scene(unset, live=living(live)),
        scene(unset, facts=facts(min_insync_replicas=str(replicas + 1)), live=living(live)),
        scene(unset, live=living(build_observed("a", 3, replicas, inherited=value))),
    ):
        # What is so already is no reason to refuse other changes.
        old = [new.replace("error", "warning")] if new else []
        assert describe_findings(check_rule("KF109", context)) == old
    assert not check_rule("KF109", scene(unset))


def test_deprecated_config_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict(kafka_configs.topic_configs())
    known["flush.ms"] = replace(known["flush.ms"], deprecated=True)
    monkeypatch.setattr(kafka_configs, "topic_configs", lambda: known)
    (finding,) = check_rule("KF115", build_config("flush.ms", "1000"))
    assert describe_findings([finding]) == ["a warning config.flush.ms"]
    assert "deprecated" in finding.message

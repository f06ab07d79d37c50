"""The topic rules on manifests as people write them, in each environment, with the lines they point at."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaform import rules
from kafkaform.config.manifests.loader import Context, load, load_all
from kafkaform.config.settings import read_settings
from kafkaform.core.model import Diagnostic
from kafkaform.rules import RuleContext
from kafkaform.rules.catalogue import ProjectLimits
from tests.support.cli.project import ROOT
from tests.support.plans.rules import only

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


def found(
    file: Path, environment: str | None, brokers: int | None = None, limits: ProjectLimits | None = None
) -> list[Diagnostic]:
    desired = load([file], Context(ENVIRONMENTS, environment))
    scene = RuleContext(
        tuple(desired), environment=environment, brokers=brokers, limits=limits or ProjectLimits()
    )
    return list(rules.check(scene, only("KF1")))


def lines(diagnostics: list[Diagnostic]) -> dict[str, tuple[str, int]]:
    """The severity and the line of each finding, by code."""
    return {one.code: (one.severity.value, one.location.line if one.location else 0) for one in diagnostics}


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    file = tmp_path / "orders.yaml"
    file.write_text(ORDERS)
    return file


def test_each_environment_is_judged_by_its_own_values(orders: Path) -> None:
    assert lines(found(orders, "dev")) == {"KF113": ("info", 13)}
    assert lines(found(orders, "prod")) == {
        "KF104": ("info", 8),
        "KF108": ("info", 18),
        "KF111": ("warning", 10),
        "KF112": ("warning", 14),
        "KF113": ("info", 13),
    }


def test_what_the_cluster_is_like_adds_to_it(orders: Path) -> None:
    limits = ProjectLimits(topic_name=r"[a-z]+\.v[0-9]+", recovery_window_ms=3 * 86_400_000)
    assert lines(found(orders, "prod", brokers=3, limits=limits)) == {
        "KF103": ("warning", 4),
        "KF104": ("info", 8),
        "KF105": ("info", 8),
        "KF108": ("error", 18),
        "KF110": ("warning", 10),
        "KF111": ("warning", 10),
        "KF112": ("warning", 14),
        "KF113": ("info", 13),
    }


def test_the_reason_of_a_waiver_is_shown(orders: Path) -> None:
    (one,) = found(orders, "dev")
    assert (one.code, one.waived) == ("KF113", "clicks may be lost, TICKET-7")


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_reviewer_finds_nothing_to_say_about_the_example_set(environment: str) -> None:
    settings = read_settings(ROOT / "kafkaform.yaml")
    (desired,) = load_all(settings.manifests, [settings.build_context(environment)])
    for brokers in (None, 1 if environment == "dev" else 3):
        scene = RuleContext(tuple(desired), environment=environment, brokers=brokers)
        assert [one for one in rules.check(scene, only("KF1")) if one.waived is None] == []

"""Plans of several clusters at once: side by side, within the limits of a comment, and printable."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from kafkaform.cli.fleet import combine_exit_codes, plan_path
from kafkaform.cli.output import render
from kafkaform.core.errors import UsageError
from kafkaform.core.plans import Plan
from kafkaform.report.fleet import (
    ClusterReport,
    FailedCluster,
    fleet_sentence,
    fleet_to_json,
    fleet_to_markdown,
    render_fleet,
)
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import HEADER
from tests.support.plans.scenes import declare_topic, plan_for


def plan_of(count: int) -> Plan:
    with MemoryCluster() as cluster:
        return plan_for(cluster, *(declare_topic(f"orders.{n:04d}") for n in range(count)))


def build_cluster_report(name: str, plan: Plan, output_format: str = "text") -> ClusterReport:
    return ClusterReport(name, "prod", plan, partial(render, "plan", output_format, plan, header=HEADER))


def test_worst_exit_code_wins() -> None:
    assert [combine_exit_codes(codes) for codes in ([0, 2, 0], [2, 1, 0], [0, 0])] == [2, 1, 0]


def test_fleet_plan_files_are_named_by_cluster() -> None:
    assert plan_path(Path("out/plan.json"), "prod eu") == Path("out/plan.prod eu.json")
    with pytest.raises(UsageError, match="cannot be part"):
        plan_path(Path("plan.json"), "../../etc")


def test_fleet_markdown_stays_within_comment_limit() -> None:
    clusters, big, small = 14, plan_of(400), plan_of(1)
    members = [build_cluster_report(f"c{n}", big if n % 2 else small, "markdown") for n in range(clusters)]
    text = fleet_to_markdown(members)
    assert len(text) <= 65_536
    shown = text.count("### Changes")
    assert shown + text.count("report left out: too long") == clusters
    assert shown >= clusters // 2


def test_fleet_output_is_printable_and_counts_held_back() -> None:
    # What came from outside is printable.
    failed = FailedCluster("c\x1b[2J", "e\x1b", "no\x1b[31m answer", "h\x07", ("p\x1b",))
    text = render_fleet([failed]).plain
    assert "\x1b" not in text
    assert "\x07" not in text
    assert json.loads(fleet_to_json([failed]))["clusters"]["c\x1b[2J"]["error"]["problems"] == ["p\x1b"]
    assert "\x1b" not in fleet_to_json([failed]) + fleet_to_markdown([failed])
    with MemoryCluster() as cluster:
        plan_ = plan_for(cluster, declare_topic("a", replicas=9))
    assert fleet_sentence([build_cluster_report("a", plan_)]) == "1 cluster: 1 change on 1 (1 held back)."

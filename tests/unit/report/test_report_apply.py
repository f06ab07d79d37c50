"""Tests of the report of an apply, for a reader in the middle of the night and for programs."""

from __future__ import annotations

import json
import re

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.core.apply_result import ApplyReport, ResourceResult, Result
from kafkaform.core.model import Create, Delete, ResourceRef, Risk, RiskAssessment, Status
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.report.apply import apply_to_json, describe, render_apply
from kafkaform.resources.replicas.operations import Reassign
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteTopic
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.applies import NO
from tests.support.plans.scenes import WEEK, FakeClock, absent, create_topic, declare_topic, plan_for, topic

A = topic("a")


def report_of(plan: Plan, memory: MemoryCluster) -> ApplyReport:
    return apply(plan, memory, ApplyOptions(clock=FakeClock().clock))


# --- text ------------------------------------------------------------------------------------------


def test_success_matches_golden(memory: MemoryCluster, golden: SnapshotAssertion) -> None:
    for name in ("changed", "doomed"):
        create_topic(memory, name)
    plan = plan_for(
        memory, declare_topic("new"), declare_topic("changed", 6, retention_ms=WEEK), absent("doomed")
    )
    reports = [
        report_of(plan, memory),
        report_of(plan, memory),
        ApplyReport(()),
        ApplyReport((), interrupted=True),
    ]
    assert "\n\n".join(render_apply(report).plain for report in reports) == golden(name="success.txt")


def test_many_safe_results_are_summarized_and_failures_listed() -> None:
    memory = MemoryCluster()
    names = [f"t{i:03}" for i in range(700)]
    plan = plan_for(memory, *map(declare_topic, names))
    for name in names[:300]:
        create_topic(memory, name)
    failing = names[400:650]
    for name in failing:
        memory.fail_next(NO, topic(name))
    report = report_of(plan, memory)
    lines = render_apply(report, width=80).plain.split("\n")
    heads = [line for line in lines if line.startswith(("  + ", "  = ", "  ! "))]
    assert heads == [
        "  + 150 topics  created: 3 partitions, 1 replica each",
        "  = 200 topics  already exists",
        "  ! 250 topics  create FAILED",
    ]
    shown = [name for line in lines for name in re.findall(r"\bt[0-9]{3}(?=, |,?$)", line)]
    assert shown == [*names[300:400], *names[650:], *names[:200], *failing]
    assert "  … 100 more already done: topics t200 to t299 (--verbose lists them)" in lines
    verbose = render_apply(report, verbose=True).plain
    assert sum(line.startswith(("  + ", "  = ", "  ! ")) for line in verbose.split("\n")) == len(names)
    assert "…" not in verbose


def test_untried_creations_are_summarized_and_deletions_listed() -> None:
    lost = RiskAssessment(Risk.DESTRUCTIVE, "delete", "all records are lost")
    doomed = [f"z{i:03}" for i in range(250)]
    changes: list[Create | Delete] = [
        *(Create(topic(f"t{i:03}"), {"partitions": 3}) for i in range(300)),
        *(Delete(topic(name), "id", {}, lost) for name in doomed),
    ]
    planned = [PlannedChange(change, Status.PLANNED) for change in changes]
    results = tuple(ResourceResult(each, Result.NOT_TRIED, "stopped") for each in planned)
    lines = render_apply(ApplyReport(results, interrupted=True)).plain.split("\n")
    assert "  … 100 more not tried: topics t200 to t299 (--verbose lists them)" in lines
    title = lines.index("  ! 250 topics  delete not tried")
    assert lines[title + 1].strip().split(", ") == doomed
    assert lines[-1].startswith("Interrupted: 550 not tried.")


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (CreateTopic(A, 1, 3, {}), "1 partition, 3 replicas each"),
        (CreateTopic(A, 1200, 1, {}), "1,200 partitions, 1 replica each"),
        (
            AlterConfigs(A, {"retention.ms": "-1"}, ("flush.ms",)),
            "flush.ms = (unset), retention.ms = unlimited (-1)",
        ),
        (AlterConfigs(A, {"vendor.key": "a\nb\x1b"}), r"vendor.key = a\nb\x1b"),
        (AddPartitions(A, 6, 12), "partitions 6 → 12"),
        (DeleteTopic(A, "id"), "everything"),
        (Reassign(A, {0: (1,), 3: (2,)}, {0: (1, 2, 3), 3: (2, 1)}), "2 partitions: 3 replicas added"),
        (Reassign(A, {0: (1, 2)}, {0: (1, 3)}), "1 partition: replica moves from broker 2 to 3"),
        (Reassign(A, {0: (1, 2)}, {0: (1,)}), "1 partition: replica dropped from broker 2"),
        (Reassign(A, {0: (1, 2)}, {0: (2, 1)}), "1 partition: a different preferred leader"),
    ],
)
def test_operations_are_described(operation: Operation, words: str) -> None:
    assert describe(operation) == words


# --- hostile text ----------------------------------------------------------------------------------


def test_invisible_resource_makes_apply_incomplete() -> None:
    report = ApplyReport((), unknown=(ResourceRef("Topic", "hidden"),))
    assert not report.complete
    assert json.loads(apply_to_json(report))["unknown"] == [{"kind": "Topic", "name": "hidden"}]
    assert "1 not visible. Not complete." in render_apply(report).plain

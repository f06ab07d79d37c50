"""Tests of the report of an apply, for a reader in the middle of the night and for programs."""

from __future__ import annotations

import json
import re

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.core.apply_result import ApplyReport, ResourceResult, Result
from kafkaform.core.model import Create, Delete, ResourceRef, Risk, RiskAssessment, Status
from kafkaform.core.plans import PlannedChange
from kafkaform.report.apply import apply_to_json, render_apply
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.applies import NO
from tests.support.plans.scenes import FakeClock, create_topic, declare_topic, plan_for, topic

# --- text ------------------------------------------------------------------------------------------


def test_many_safe_results_are_summarized_and_failures_listed() -> None:
    memory = MemoryCluster()
    names = [f"t{i:03}" for i in range(700)]
    plan = plan_for(memory, *map(declare_topic, names))
    for name in names[:300]:
        create_topic(memory, name)
    failing = names[400:650]
    for name in failing:
        memory.fail_next(NO, topic(name))
    report = apply(plan, memory, ApplyOptions(clock=FakeClock().clock))
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


# --- hostile text ----------------------------------------------------------------------------------


def test_invisible_resource_makes_apply_incomplete() -> None:
    report = ApplyReport((), unknown=(ResourceRef("Topic", "hidden"),))
    assert not report.complete
    assert json.loads(apply_to_json(report))["unknown"] == [{"kind": "Topic", "name": "hidden"}]
    assert "1 not visible. Not complete." in render_apply(report).plain

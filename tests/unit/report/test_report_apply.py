"""Tests of the report of an apply, for a reader in the middle of the night and for programs."""

from __future__ import annotations

import re

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.report.apply import render_apply
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


# --- hostile text ----------------------------------------------------------------------------------

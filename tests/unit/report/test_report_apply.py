"""Tests of the report of an apply, for a reader in the middle of the night and for programs."""

from __future__ import annotations

import json
import re
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.core.apply_result import ApplyReport, ResourceResult, Result
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.core.plans import Plan
from kafkaform.core.printable import is_plain
from kafkaform.plan.summary import word_consent_count
from kafkaform.report.apply import apply_to_json, describe, render_apply, summarise_apply
from kafkaform.resources.replicas.operations import Reassign
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteTopic
from tests.support.builds import builds
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans import strategies
from tests.support.plans.applies import NO
from tests.support.plans.scenes import (
    DAY,
    WEEK,
    FakeClock,
    Watched,
    absent,
    create_topic,
    declare_topic,
    plan_for,
    topic,
)

A = topic("a")


def report_of(plan: Plan, memory: MemoryCluster) -> ApplyReport:
    return apply(plan, memory, ApplyOptions(clock=FakeClock().clock))


def lines_of(report: ApplyReport) -> list[str]:
    return render_apply(report).plain.split("\n")


# --- text ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 3])
def test_summary_counts_consents(memory: MemoryCluster, number: int) -> None:
    for name in "abc"[:number]:
        create_topic(memory, name, retention_ms=WEEK)
    report = report_of(
        plan_for(memory, *(declare_topic(n, retention_ms=DAY) for n in "abc"[:number])), memory
    )
    assert word_consent_count(number) in summarise_apply(report)


def test_lines_fit_a_terminal(memory: MemoryCluster) -> None:
    create_topic(memory, "a")
    changed = declare_topic("a", segment_ms=DAY, retention_ms=DAY, max_message_bytes="2000000")
    report = report_of(plan_for(memory, declare_topic("t" * 60), changed), memory)
    assert max(map(len, render_apply(report, width=80).plain.split("\n"))) <= 80


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


def test_applied_and_not_tried_results_are_summarized() -> None:
    memory = MemoryCluster()
    names = [f"t{i:04}" for i in range(3_000)]
    doomed = [f"z{i:03}" for i in range(250)]
    kept = [f"kept{i:03}" for i in range(750)]  # or the deletions were too large a share of the cluster
    for name in [*doomed, *kept]:
        create_topic(memory, name)
    plan = plan_for(memory, *map(declare_topic, [*names, *kept]), *map(absent, doomed))
    stop = Event()
    watched = Watched(memory, after=lambda _: stop.set())
    report = apply(plan, watched, ApplyOptions(stop=stop, clock=FakeClock().clock))
    created = sum(result.result is Result.APPLIED for result in report.results)
    assert 201 < created < 2_799
    lines = lines_of(report)
    extra = next(number for number, line in enumerate(lines) if "more created" in line)
    assert lines[extra] == (
        f"  … {created - 200:,} more created: topics t0200 to t{created - 1:04} (--verbose lists them)"
    )
    extra = next(number for number, line in enumerate(lines) if "more not tried" in line)
    assert lines[extra : extra + 2] == [
        f"  … {2_800 - created:,} more not tried: topics t{created + 200:04} to t2999 (--verbose lists them)",
        "      stopped before it was applied",
    ]
    title = lines.index("  ! 250 topics  delete not tried")
    assert lines[title + 1].strip().split(", ") == doomed
    assert lines[-1].startswith(f"Interrupted: {created:,} created, {3_250 - created:,} not tried.")


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


def operations() -> st.SearchStrategy[Operation]:
    text = strategies.hostile_text()
    ref = strategies.refs()
    return st.one_of(
        builds(CreateTopic, ref, st.integers(1, 9), st.integers(1, 9), st.just({})),
        builds(AlterConfigs, ref, st.dictionaries(text, text, max_size=2), st.just(("x",))),
        builds(AddPartitions, ref, st.integers(1, 9), st.integers(1, 9)),
        builds(DeleteTopic, ref, st.none()),
    )


def reports() -> st.SearchStrategy[ApplyReport]:
    item = builds(
        ResourceResult,
        strategies.planned_changes(),
        st.sampled_from(Result),
        strategies.hostile_text(),
        st.none() | strategies.hostile_text(),
        st.lists(operations(), max_size=2).map(tuple),
        st.lists(operations(), max_size=2).map(tuple),
        st.lists(operations(), max_size=2).map(tuple),
        st.lists(strategies.field_changes(), max_size=2).map(tuple),
    )
    return builds(ApplyReport, st.lists(item, max_size=4).map(tuple), st.booleans())


@given(reports())
def test_foreign_text_is_printable(report: ApplyReport) -> None:
    for text in (render_apply(report).plain, render_apply(report, verbose=True).plain):
        assert all(is_plain(char) for line in text.split("\n") for char in line)
    heads = sum(line.startswith(("  + ", "  ~ ", "  - ", "  = ", "  ! ")) for line in text.split("\n"))
    assert heads == len(report.results)


@given(reports())
def test_json_counts_add_up(report: ApplyReport) -> None:
    data = json.loads(apply_to_json(report))
    assert sum(data["summary"].values()) == len(report.results) == len(data["results"])
    assert data["complete"] is report.complete
    for value, result in zip(data["results"], report.results, strict=True):
        assert (value["name"], value["result"]) == (result.planned.ref.name, result.result)
    fine = {"applied", "already_done"}
    assert report.complete == (
        not report.interrupted
        and all(item["result"] in fine and not item["not_carried_out"] for item in data["results"])
    )


def test_invisible_resource_makes_apply_incomplete() -> None:
    report = ApplyReport((), unknown=(ResourceRef("Topic", "hidden"),))
    assert not report.complete
    assert json.loads(apply_to_json(report))["unknown"] == [{"kind": "Topic", "name": "hidden"}]
    assert "1 not visible. Not complete." in render_apply(report).plain

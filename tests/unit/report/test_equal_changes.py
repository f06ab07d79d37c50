"""Equal changes of many resources: said once, with every resource by name."""

import re

import pytest

from kafkaform.config.settings import Settings
from kafkaform.core.model import Desired, Location
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from kafkaform.plan.planning import Request, build_plan
from kafkaform.report.equal_changes import equal_changes
from kafkaform.report.plan import render_plan, render_plan_markdown
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import HEADER
from tests.support.plans.scenes import DAY, QUIET, WEEK, absent, create_topic, declare_topic, topic

SCREEN = 24
SCENES = ("create", "cut", "decrease", "delete", "increase")


def build_desired(scene: str, name: str) -> Desired:
    match scene:
        case "create":
            desired = declare_topic(f"new-{name}", 6, retention_ms=WEEK)
        case "cut":
            desired = declare_topic(name, 6, retention_ms=DAY)
        case "decrease":
            desired = declare_topic(name, 3, retention_ms=WEEK)
        case "delete":
            desired = absent(name)
        case _:
            desired = declare_topic(name, 12, retention_ms=WEEK)
    desired = replace(desired, location=Location(f"topics/{name}.yaml"))
    return replace(desired, intent=replace(desired.intent, keyed=None))


def scene_of(scene: str, number: int) -> Plan:
    """A plan that does the same to some topics, among four times as many that stay."""
    memory = MemoryCluster()
    names = [f"orders-{i:03}" for i in range(number)]
    kept = [f"kept-{i:04}" for i in range(number * 4)]
    for name in names:
        create_topic(memory, name, 6, retention_ms=WEEK)
    for name in kept:
        create_topic(memory, name)
    desired = [*(build_desired(scene, name) for name in names), *map(declare_topic, kept)]
    settings = Settings(rules={**QUIET, "KF401": "off"})
    return build_plan(Request(desired), memory, settings, None)


@pytest.mark.parametrize("number", [1, 2, 20])
@pytest.mark.parametrize("scene", SCENES)
def test_equal_changes_are_grouped_with_every_name(scene: str, number: int) -> None:
    plan = scene_of(scene, number)
    text, markdown = render_plan(plan, width=80).plain, render_plan_markdown(plan)
    for planned in plan.changes:
        assert re.search(rf"\b{planned.ref.name}\b", text)
        assert f"`{planned.ref}`" in markdown
    assert scene == "create" or "…" not in text
    (entry,) = equal_changes(plan.changes)
    assert len(entry.changes) == number
    for reason in {change.reason for change in plan.changes if change.reason}:
        assert " ".join(text.split()).count(reason) <= 1
    if number == 20:
        assert max(map(len, text.splitlines())) <= 80
        assert max(len(text.splitlines()), len(markdown.splitlines())) <= SCREEN


def test_different_changes_of_field_are_grouped_with_values(memory: MemoryCluster) -> None:
    desired = []
    for i in range(20):
        name = f"orders-{i:03}"
        create_topic(memory, name, 6, retention_ms=WEEK)
        memory.fill(topic(name), (i + 1) << 20)
        wanted = declare_topic(name, 7 + i, retention_ms=WEEK)
        desired.append(replace(wanted, intent=replace(wanted.intent, keyed=None)))
    settings = Settings(rules={**QUIET, "KF401": "off", "KF404": "off"})
    plan = build_plan(Request(desired), memory, settings, None)
    text = render_plan(plan, HEADER, width=80).plain
    assert len(text.splitlines()) <= 60
    assert "orders-000 (6 → 7, 85.7 %, 1.0 MiB)" in text
    assert "orders-019 (6 → 26, 92.3 %, 20.0 MiB)" in text
    assert text.count("disruptive: partition-increase") == 1
    assert "… of keys move to another partition (if records have keys)" in text
    markdown = render_plan_markdown(plan, HEADER)
    assert "`Topic/orders-019` (6 → 26, 92.3 %, 20.0 MiB)" in markdown
    assert "`partitions: as listed`" in markdown
    verbose = render_plan(plan, HEADER, verbose=True).plain
    assert verbose.count("disruptive: partition-increase") == 20

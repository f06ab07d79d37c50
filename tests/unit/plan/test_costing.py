"""Tests of the price of a plan: what is counted, and what is not."""

from __future__ import annotations

import pytest

from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.settings import ClusterSettings, Costs
from kafkaform.core.model import Desired
from kafkaform.core.plans import CostChange
from kafkaform.core.values import replace
from kafkaform.plan.plan_file import plan_from_json, plan_to_json
from kafkaform.plan.summary import describe_cost
from kafkaform.report.plan import render_plan, render_plan_markdown
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import HEADER
from tests.support.plans.scenes import declare_topic, plan_for, topic

GB = 10**9
TARGET = ClusterSettings("prod", ClientProperties({}), costs=Costs("EUR", 0.5, 0.25))


def price(*desired: Desired) -> CostChange:
    with MemoryCluster() as cluster:
        cluster.execute([CreateTopic(topic("t"), 4, 3, {})])
        cluster.fill(topic("t"), 4 * GB)
        plan = plan_for(cluster, *desired, target=TARGET, prune="t")
    assert plan.cost is not None
    return plan.cost


@pytest.mark.parametrize(
    ("desired", "per_month", "replicas", "added", "uncounted"),
    [
        # 12 replicas of 0.25, and 12 GB of 0.5.
        ((), "-9.00", -12, -12 * GB, 0),
        ((declare_topic("t", 4, 3),), "0.00", 0, 0, 0),
        ((declare_topic("t", 8, 3),), "3.00", 12, 0, 0),
        ((declare_topic("t", 4, 2),), "-3.00", -4, -4 * GB, 0),
        ((declare_topic("t", 4, 3, retention_bytes=str(GB // 2)),), "-3.00", 0, -6 * GB, 0),
        ((declare_topic("t", 4, 3, retention_ms="1000"),), "0.00", 0, 0, 1),
        ((declare_topic("t", 4, 3), declare_topic("new", 6, 3)), "4.50", 18, 0, 1),
    ],
)
def test_plan_is_priced_by_replicas_and_live_sizes(
    desired: tuple[Desired, ...], per_month: str, replicas: int, added: int, uncounted: int
) -> None:
    cost = price(*desired)
    assert (cost.per_month, cost.replicas, cost.bytes) == (per_month, replicas, added)
    assert len(cost.uncounted) == uncounted


def test_cost_is_in_every_report_and_saved_plan() -> None:
    with MemoryCluster() as cluster:
        plan = plan_for(cluster, declare_topic("new", 6, 3), target=TARGET)
        unpriced = plan_for(cluster, target=replace(TARGET, costs=None))
    line = "Costs 4.50 EUR a month (18 more replicas); not counted: the data of 1 new topic"
    assert plan.cost is not None
    assert describe_cost(plan.cost) == line
    assert line in render_plan(plan, HEADER).plain
    assert line in render_plan_markdown(plan, HEADER)
    assert plan_from_json(plan_to_json(plan, HEADER), "plan.json")[0].cost == plan.cost
    assert unpriced.cost is None

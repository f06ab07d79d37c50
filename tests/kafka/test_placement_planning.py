"""Where replicas are to be, in plans for a cluster of three racks, and what stands against it."""

from __future__ import annotations

from kafkaform.apply.executor import apply
from kafkaform.core.apply_result import Result
from kafkaform.core.model import Status, Update
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.replicas.layout import parse_assignment
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.clusters.fixtures import connect, eventually
from tests.support.plans.scenes import declare_placement, declared, plan_for, topic


def test_placements_are_carried_out_as_planned(kafka3: DevCluster, prefix: str) -> None:
    with connect(kafka3.bootstrap_servers) as cluster:
        names = [f"{prefix}{letter}" for letter in "abc"]
        made_by_hand = [
            CreateTopic(topic(names[0]), 2, 1, {}, ((1,), (2,))),
            CreateTopic(topic(names[1]), 2, 3, {}, ((1, 2, 3), (2, 3, 1))),
            CreateTopic(topic(names[2]), 2, 2, {}, ((1, 2), (2, 3))),
        ]
        assert cluster.execute(made_by_hand) == [None] * 3
        eventually(lambda: len(cluster.layout().topics.keys() & {*names}), lambda there: there == 3)
        desired = (
            declared(names[0], 3, 3, min_insync_replicas="2"),
            declared(names[1], 4, 2),
            declare_placement(declared(names[2], 2, 2), "static", "2:1,3:1"),
        )
        plan = plan_for(cluster, *desired)
        assert plan.broker_validated
        assert [planned.status for planned in plan.changes] == [Status.PLANNED] * 3
        report = apply(plan, cluster)
        assert [(one.result, one.message) for one in report.results] == [(Result.APPLIED, "")] * 3
        assert plan_for(cluster, *desired).changes == ()
        layout = cluster.layout()
        for planned in plan.changes:
            assert isinstance(planned.change, Update)
            (placement,) = (f for f in planned.change.fields if f.path == "placement")
            assert layout.assignment(planned.ref.name) == parse_assignment(str(placement.after))

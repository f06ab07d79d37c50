"""Topics whose retention is cut."""

from __future__ import annotations

from kafkaform.cluster.protocol import Cluster
from kafkaform.config.settings import Settings
from kafkaform.core.model import Desired, Diagnostic, ResourceRef, Update
from kafkaform.plan.planning import Request, build_plan
from kafkaform.resources.topic.operations import CreateTopic

DAY_MS = 86_400_000
SAFE = ResourceRef("Topic", "safe")


def plan_cuts(cluster: Cluster, *refs: ResourceRef) -> tuple[dict[str, str], tuple[Diagnostic, ...]]:
    """Plan cuts of retention, but for topic `safe`; return their reasons, and the diagnostics."""
    days = {ref: 4 if ref == SAFE else 1 for ref in refs}
    desired = [
        Desired(
            ref, {"partitions": 2, "replicationFactor": 1, "config.retention.ms": str(DAY_MS * days[ref])}
        )
        for ref in refs
    ]
    plan = build_plan(Request(desired), cluster, Settings(), None)
    return {
        change.ref.name: change.change.fields[0].assessment.reason
        for change in plan.changes
        if isinstance(change.change, Update)
    }, plan.diagnostics


def create_topics(cluster: Cluster, *refs: ResourceRef) -> None:
    configs = {"retention.ms": str(3 * DAY_MS)}
    assert cluster.execute([CreateTopic(ref, 2, 1, configs) for ref in refs]) == [None] * len(refs)

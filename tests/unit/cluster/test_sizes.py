"""How much data a risky change is about: read for those topics alone, and told in the reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafkaform.cluster.protocol import Cluster
from kafkaform.config.settings import Settings
from kafkaform.core.errors import PermissionDenied
from kafkaform.core.model import DataSize, Desired, Diagnostic, Observed, ResourceRef, Update
from kafkaform.plan.planning import Request, build_plan
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.memory_cluster.memory import MemoryCluster

DAY_MS = 86_400_000
FULL, EMPTY, SAFE = (ResourceRef("Topic", name) for name in ("full", "empty", "safe"))


def planned(cluster: Cluster, *refs: ResourceRef) -> tuple[dict[str, str], tuple[Diagnostic, ...]]:
    """The reasons of cutting retention, which topic `safe` is spared, and what else the plan says."""
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


def create(cluster: Cluster, *refs: ResourceRef) -> None:
    configs = {"retention.ms": str(3 * DAY_MS)}
    assert cluster.execute([CreateTopic(ref, 2, 1, configs) for ref in refs]) == [None] * len(refs)


class Asked(MemoryCluster):
    """Remembers whose sizes were asked for, or denies them."""

    denied = False

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[set[ResourceRef]] = []

    def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, DataSize]:
        self.asked.append({one.ref for one in resources})
        if self.denied:
            raise PermissionDenied("not for you")
        return super().sizes(resources)


def test_reasons_say_how_much_data_it_is_about() -> None:
    cluster = Asked()
    create(cluster, FULL, EMPTY, SAFE)
    cluster.fill(FULL, 1_395_864_371)
    reasons, _ = planned(cluster, FULL, EMPTY, SAFE)
    assert reasons["full"].endswith("(the topic holds 1.3 GiB)")
    assert reasons["empty"].endswith("(the topic holds no data)")
    assert reasons["safe"] == ""
    assert cluster.asked == [{FULL, EMPTY}]


def test_a_plan_needs_no_sizes_without_risk_and_stands_without_them() -> None:
    cluster = Asked()
    create(cluster, SAFE)
    planned(cluster, SAFE)
    assert cluster.asked == []
    # A plan stands without sizes.
    cluster = Asked()
    cluster.denied = True
    create(cluster, FULL)
    reasons, diagnostics = planned(cluster, FULL)
    assert "holds" not in reasons["full"]
    (found,) = (one for one in diagnostics if one.code == "KF416")
    assert found.message.endswith("not for you")

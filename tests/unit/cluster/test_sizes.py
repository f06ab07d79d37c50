"""Tests of the data size in the reason of a risky change, which is read for those topics alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafkaform.core.errors import PermissionDenied
from kafkaform.core.model import DataSize, Observed, ResourceRef
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.sizes import SAFE, create_topics, plan_cuts

FULL, EMPTY = (ResourceRef("Topic", name) for name in ("full", "empty"))


class Asked(MemoryCluster):
    """Remembers whose sizes were asked for, or denies them."""

    denied = False

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[set[ResourceRef]] = []

    def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, DataSize]:
        self.asked.append({resource.ref for resource in resources})
        if self.denied:
            raise PermissionDenied("not for you")
        return super().sizes(resources)


def test_reasons_report_how_much_data_it_is_about() -> None:
    cluster = Asked()
    create_topics(cluster, FULL, EMPTY, SAFE)
    cluster.fill(FULL, 1_395_864_371)
    reasons, _ = plan_cuts(cluster, FULL, EMPTY, SAFE)
    assert reasons["full"].endswith("(the topic holds 1.3 GiB)")
    assert reasons["empty"].endswith("(the topic holds no data)")
    assert reasons["safe"] == ""
    assert cluster.asked == [{FULL, EMPTY}]


def test_safe_plan_reads_no_sizes() -> None:
    cluster = Asked()
    create_topics(cluster, SAFE)
    plan_cuts(cluster, SAFE)
    assert cluster.asked == []
    # A plan stands without sizes.
    cluster = Asked()
    cluster.denied = True
    create_topics(cluster, FULL)
    reasons, diagnostics = plan_cuts(cluster, FULL)
    assert "holds" not in reasons["full"]
    (found,) = (diagnostic for diagnostic in diagnostics if diagnostic.code == "KF416")
    assert found.message.endswith("not for you")

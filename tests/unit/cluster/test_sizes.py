"""Tests of the data size in the reason of a risky change, which is read for those topics alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from kafkaform.core.errors import ClusterError, PermissionDenied, Unreachable
from kafkaform.core.model import DataSize, Observed, ResourceRef
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.sizes import SAFE, create_topics, plan_cuts

FULL, EMPTY = (ResourceRef("Topic", name) for name in ("full", "empty"))


class Asked(MemoryCluster):
    """Remembers whose sizes were asked for, or denies them."""

    error: ClusterError | None = None

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[set[ResourceRef]] = []

    def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, DataSize]:
        self.asked.append({resource.ref for resource in resources})
        if self.error is not None:
            raise self.error
        return super().sizes(resources)


def test_retention_reasons_include_data_size() -> None:
    cluster = Asked()
    create_topics(cluster, FULL, EMPTY, SAFE)
    cluster.fill(FULL, 1_395_864_371)
    reasons, _ = plan_cuts(cluster, FULL, EMPTY, SAFE)
    assert reasons["full"].endswith("(the topic holds 1.3 GiB)")
    assert reasons["empty"].endswith("(the topic holds no data)")
    assert reasons["safe"] == ""
    assert cluster.asked == [{FULL, EMPTY}]


@pytest.mark.parametrize(("error", "sized"), [(PermissionDenied("none"), False), (Unreachable("none"), True)])
def test_plan_stands_without_sizes(error: ClusterError, sized: bool) -> None:
    cluster = Asked()
    cluster.error = error
    create_topics(cluster, FULL)
    reasons, diagnostics = plan_cuts(cluster, FULL)
    assert ("holds at least 0 B;" in reasons["full"], "holds" in reasons["full"]) == (sized, sized)
    assert [found.message[-4:] for found in diagnostics if found.code == "KF416"] == ["none"]

"""First offsets that were committed before and are gone: not committed again without a word."""

from __future__ import annotations

import pytest

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.core.apply_result import Result
from kafkaform.core.model import Status
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.plan import measuring
from tests.support.clusters.fixtures import eventually
from tests.support.clusters.group_clients import produce
from tests.support.clusters.topics import delete_group, make_topic
from tests.support.plans.audit import recorded_apply
from tests.unit.audit.test_audit_recommits import HAZARD, committed, group, plan_for, status_of


@pytest.fixture(autouse=True)
def no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "WATCH_S", 0.0)


def test_a_real_group_that_is_gone(kafka: DevCluster, real_cluster: KafkaCluster, prefix: str) -> None:
    """Deleted behind kafkaform's back, which leaves what an expiry does."""
    name, read = f"{prefix}g", f"{prefix}orders"
    make_topic(real_cluster, read)
    produce(kafka.bootstrap_servers, read, {0: 3})
    wanted = group(read, name=name, start="latest")
    committed(real_cluster, wanted)
    delete_group(kafka.bootstrap_servers, name)
    plan = eventually(lambda: plan_for(real_cluster, wanted), lambda plan: bool(plan.changes))
    assert status_of(plan, name) is Status.NEEDS_CONSENT
    _, report = recorded_apply(plan, real_cluster)
    assert [one.result for one in report.results] == [Result.NEEDS_CONSENT]
    meant = plan_for(real_cluster, wanted, allow=f"ConsumerGroup/{name}:{HAZARD}")
    _, report = recorded_apply(meant, real_cluster)
    assert report.complete

"""Applying: what is done in which order, what is left alone, and what is said about it."""

from __future__ import annotations

from threading import Event

import pytest

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.protocol import Cluster
from kafkaform.core.apply_result import ApplyReport, Result
from kafkaform.core.plans import Plan
from tests.support.plans.scenes import FakeClock, Watched, declared, plan_for


@pytest.fixture
def time() -> FakeClock:
    return FakeClock()


def carry_out(plan: Plan, cluster: Cluster, time: FakeClock, stop: Event | None = None) -> ApplyReport:
    return apply(plan, cluster, ApplyOptions(clock=time.clock, stop=stop or Event()))


def results(report: ApplyReport) -> dict[str, Result]:
    return {one.planned.ref.name: one.result for one in report.results}


# --- a real Kafka; what loads it most comes last -----------------------------------------------------


@pytest.mark.nightly("12,000 partitions; unit/apply/test_executor.py counts requests and readings")
def test_a_thousand_topics_of_twelve_partitions(
    real_cluster: KafkaCluster, prefix: str, time: FakeClock
) -> None:
    desired = [declared(f"{prefix}{number:04}", 12) for number in range(1000)]
    watched = Watched(real_cluster)
    plan = plan_for(watched, *desired)
    report = apply(plan, watched)
    assert report.complete
    assert set(results(report).values()) == {Result.APPLIED}
    assert (len(watched.checks), len(watched.requests)) == (3, 3)
    # Nothing is asked about one topic alone: a few readings of all of them, however long the broker takes.
    lonely = [refs for refs in watched.readings if len(refs) == 1]
    assert len(lonely) <= 3
    assert len(watched.readings) < 40
    again = carry_out(plan, watched, time)
    assert again.complete
    assert set(results(again).values()) == {Result.ALREADY}
    assert (len(watched.requests), time.naps) == (3, [])

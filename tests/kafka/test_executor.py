"""Applying: what is done in which order, what is left alone, and what is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

import pytest

from kafkaform.apply.executor import apply
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.protocol import Cluster
from kafkaform.core.apply_result import ApplyReport, Result
from kafkaform.core.model import Plan
from kafkaform.core.operations import AlterConfigs, CreateTopic, Operation
from tests.support.kafka_fixtures import eventually
from tests.support.scenes import (
    DAY,
    WEEK,
    FakeClock,
    Watched,
    absent,
    declared,
    plan_for,
    state_of,
    topic,
)


@pytest.fixture
def time() -> FakeClock:
    return FakeClock()


def carry_out(plan: Plan, cluster: Cluster, time: FakeClock, stop: Event | None = None) -> ApplyReport:
    return apply(plan, cluster, clock=time.clock, stop=stop)


def results(report: ApplyReport) -> dict[str, Result]:
    return {one.planned.ref.name: one.result for one in report.results}


# --- a real Kafka; what loads it most comes last -----------------------------------------------------


def test_all_sorts_of_changes_on_a_real_kafka(real_cluster: KafkaCluster, prefix: str) -> None:
    names = {name: f"{prefix}{name}" for name in ("changed", "doomed", "moved", "new", "taken")}
    before = [
        declared(names["changed"], segment_ms=DAY),
        declared(names["doomed"]),
        declared(names["moved"], retention_ms=WEEK),
    ]
    assert apply(plan_for(real_cluster, *before), real_cluster).complete
    desired = [
        declared(names["changed"], 6, retention_ms="1209600000", segment_ms=None),
        absent(names["doomed"]),
        declared(names["moved"], 6, retention_ms="1209600000"),
        declared(names["new"], cleanup_policy="compact,delete"),
        declared(names["taken"]),
    ]
    plan = plan_for(real_cluster, *desired)
    by_hand = AlterConfigs(topic(names["moved"]), {"retention.ms": "1000"})
    assert real_cluster.execute([by_hand]) == [None]
    eventually(
        lambda: state_of(real_cluster, names["moved"]),
        lambda s: s is not None and s["retention.ms"] == "1000",
    )

    def meanwhile(batch: Sequence[Operation]) -> None:
        if isinstance(batch[0], CreateTopic):
            assert real_cluster.execute([CreateTopic(topic(names["taken"]), 1, 1, {})]) == [None]

    report = apply(plan, Watched(real_cluster, before=meanwhile))
    assert results(report) == {
        names["changed"]: Result.APPLIED,
        names["doomed"]: Result.APPLIED,
        names["moved"]: Result.MOVED,
        names["new"]: Result.APPLIED,
        names["taken"]: Result.MOVED,
    }
    states = {name: state_of(real_cluster, full) for name, full in names.items()}
    assert states == {
        "changed": {"partitions": 6, "replicationFactor": 1, "retention.ms": "1209600000"},
        "doomed": None,
        "moved": {"partitions": 3, "replicationFactor": 1, "retention.ms": "1000"},
        "new": {"partitions": 3, "replicationFactor": 1, "cleanup.policy": "compact,delete"},
        "taken": {"partitions": 1, "replicationFactor": 1},
    }


def test_another_topic_of_the_same_name_is_left_alone_on_a_real_kafka(
    real_cluster: KafkaCluster, prefix: str
) -> None:
    names = [f"{prefix}{name}" for name in ("changed", "doomed")]
    assert apply(plan_for(real_cluster, *map(declared, names)), real_cluster).complete
    plan = plan_for(real_cluster, declared(names[0], 6, retention_ms=WEEK), absent(names[1]))
    assert apply(plan_for(real_cluster, *map(absent, names)), real_cluster).complete
    assert apply(plan_for(real_cluster, *map(declared, names)), real_cluster).complete
    report = apply(plan, real_cluster)
    assert set(results(report).values()) == {Result.MOVED}
    assert all(state_of(real_cluster, name) == {"partitions": 3, "replicationFactor": 1} for name in names)


@pytest.mark.nightly("12,000 partitions; unit/apply/test_executor.py counts requests and readings")
def test_a_thousand_topics_of_twelve_partitions_on_a_real_kafka(
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

"""Tests of the data size in the reason of a risky change, which is read for those topics alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from confluent_kafka import Producer

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.transport.connection import Connection
from kafkaform.core.model import DataSize, ResourceRef
from kafkaform.devcluster.cluster import DevCluster
from tests.support.clusters.fixtures import eventually
from tests.support.plans.sizes import create_topics, plan_cuts


def test_sizes_on_a_real_broker(kafka: DevCluster, real_cluster: KafkaCluster, prefix: str) -> None:
    full, empty = ResourceRef("Topic", f"{prefix}.full"), ResourceRef("Topic", f"{prefix}.empty")
    create_topics(real_cluster, full, empty)
    eventually(lambda: real_cluster.observe([full, empty]).resources, lambda seen: len(seen) == 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for partition in (0, 1):
        producer.produce(full.name, value=b"x" * 300_000, partition=partition)
    assert producer.flush(30) == 0

    topics = real_cluster.observe([full, empty]).resources.values()
    sizes = eventually(
        lambda: real_cluster.sizes(topics), lambda found: full in found and found[full].bytes > 600_000
    )
    assert sizes[full].bytes < 620_000  # both partitions, and hardly more than the records
    assert sizes[empty] == DataSize(0, 2)
    reasons, _ = plan_cuts(real_cluster, full, empty)
    assert re.search(r"\(the topic holds 58[6-9][.][0-9] KiB\)$", reasons[full.name])


def test_topic_not_opened_yet_holds_nothing(
    real_cluster: KafkaCluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For about a second after its creation, log directories lack some of its partitions."""
    ref = ResourceRef("Topic", f"{prefix}.new")
    create_topics(real_cluster, ref)
    (topic,) = eventually(lambda: real_cluster.observe([ref]).resources.values(), bool)
    send_to_each = Connection.send_to_each

    def count_requests(connection: Connection, *arguments: Any) -> Any:
        answers: Any = send_to_each(connection, *arguments)
        for answer in answers.values():
            for folder in answer["results"]:
                folder["topics"] = []
        return answers

    monkeypatch.setattr(Connection, "send_to_each", count_requests)
    assert real_cluster.sizes([topic]) == {ref: DataSize(0, 2)}

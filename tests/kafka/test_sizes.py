"""Tests of the data size in the reason of a risky change, which is read for those topics alone."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.transport.connection import Connection
from kafkaform.core.model import DataSize, ResourceRef
from tests.support.clusters.fixtures import eventually
from tests.support.plans.sizes import create_topics


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

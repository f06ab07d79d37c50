"""Reading ahead gives what reading gives, once; what goes wrong is told where it is asked for."""

from collections.abc import Sequence
from threading import current_thread, main_thread

import pytest

from kafkaform.cluster.kafka.acls import read_access
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.kafka.responses import TopicResponses
from kafkaform.cluster.kafka.topic_sources import TopicRequests
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.large_responses import Configs
from kafkaform.core.authorizer import AccessReading
from kafkaform.core.model import ResourceRef
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.clusters.fixtures import connect, eventually


def test_expected_topics_are_read_once(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [ResourceRef("Topic", f"{prefix}{number:03}") for number in range(30)]
    creates = [CreateTopic(ref, 1, 1, {"retention.ms": str(n)}) for n, ref in enumerate(refs)]
    assert real_cluster.execute(creates) == [None] * len(refs)
    absent, group = ResourceRef("Topic", f"{prefix}absent"), ResourceRef("ConsumerGroup", f"{prefix}group")
    read = eventually(lambda: real_cluster.observe(refs), lambda seen: seen.resources.keys() == set(refs))
    asked: list[tuple[bool, list[str]]] = []
    plainly = TopicRequests.configs

    def watch(source: TopicRequests, names: Sequence[str]) -> TopicResponses[Configs]:
        asked.append((current_thread() is main_thread(), list(names)))
        return plainly(source, names)

    monkeypatch.setattr(TopicRequests, "configs", watch)
    monkeypatch.setattr("kafkaform.cluster.kafka.prefetch.BATCH", 10)
    with connect(kafka.bootstrap_servers) as cluster:
        expect = cluster.prefetch()
        for ref in (*refs[:25], absent, group):
            expect(ref)
        seen = cluster.observe([*refs, absent])
        assert seen.resources == read.resources
        assert {name for main, names in asked if not main for name in names} == {r.name for r in refs[:25]}
        later = [name for main, names in asked if main for name in names]
        assert sorted(later) == sorted(ref.name for ref in (*refs[25:], absent))
        asked.clear()
        assert cluster.observe(refs).resources == read.resources
        assert sorted(name for _, names in asked for name in names) == [ref.name for ref in refs]


def test_acls_are_prefetched_once(kafka_acl: DevCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ref, second = ResourceRef("Access", "User:nobody"), ResourceRef("Topic", "none")
    early: list[str] = []

    def watch(connection: Connection) -> AccessReading:
        early.append(current_thread().name)
        return read_access(connection)

    monkeypatch.setattr("kafkaform.cluster.kafka.prefetch.read_access", watch)
    with connect(kafka_acl.bootstrap_servers) as cluster:
        expect = cluster.prefetch()
        for expected in (second, ref, ref):
            expect(expected)
        read = cluster.observe([ref])
        assert early == ["kafkaform-prefetch-access"]
        assert read.inventory == cluster.observe([ref]).inventory
        assert len(early) == 1

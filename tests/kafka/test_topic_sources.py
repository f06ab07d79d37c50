"""Reading topics: our own connections must say exactly what librdkafka says."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.kafka.responses import TopicSource
from kafkaform.cluster.kafka.topic_sources import TopicRequests
from kafkaform.cluster.transport.connection import Connection
from kafkaform.config.client_properties import to_librdkafka, to_transport
from kafkaform.core.model import ResourceRef
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.clusters.admin_source import AdminSource
from tests.support.clusters.fixtures import Account, eventually
from tests.support.plans.scenes import VARIED


@pytest.fixture
def connection(kafka: DevCluster) -> Iterator[Connection]:
    given = {"bootstrap.servers": kafka.bootstrap_servers}
    connection = Connection(to_librdkafka(given), lambda: to_transport(given))
    yield connection
    connection.close()


def test_topic_sources_agree(connection: Connection, real_cluster: KafkaCluster, prefix: str) -> None:
    # More distinct blocks of configs than are kept at hand, each twice and apart from one another.
    varied = [*VARIED, *({"segment.bytes": str(1 << 20 | n)} for n in range(20))] * 2
    creates = [
        CreateTopic(ResourceRef("Topic", f"{prefix}.{n}"), 1 + n % 3, 1, configs)
        for n, configs in enumerate(varied)
    ]
    assert real_cluster.execute(creates) == [None] * len(creates)
    names = [*(c.ref.name for c in creates), f"{prefix}.nobody"]
    swift, plain = TopicRequests(connection), AdminSource(connection)

    answers = eventually(lambda: everything(plain, names), lambda said: said[4] == ([names[-1]], [names[-1]]))
    assert len(answers[1]) == len(answers[2]) == len(creates)  # type: ignore[arg-type]
    assert everything(swift, names) == answers


def test_partial_observation_with_few_rights_matches_full(
    account: Callable[..., Account], prefix: str
) -> None:
    owner = account(f"TOPIC:{prefix}*:ALL")
    refs = [ResourceRef("Topic", f"{prefix}.{name}") for name in ("seen", "unseen", "undescribed", "unread")]
    creates = [CreateTopic(ref, 1, 1, {"retention.ms": "1000"}) for ref in refs]
    assert owner.cluster.execute(creates) == [None] * 4
    few = account(
        f"TOPIC:{refs[0].name}:DESCRIBE",
        f"TOPIC:{refs[0].name}:DESCRIBE_CONFIGS",
        f"TOPIC:{refs[2].name}:DESCRIBE_CONFIGS",
        f"TOPIC:{refs[3].name}:DESCRIBE",
    ).cluster
    whole = eventually(lambda: few.observe(refs), lambda o: o.resources.keys() == {refs[0]})
    assert whole.invisible.keys() == set(refs[1:])
    observed = few.observe_fields({key: {"config.retention.ms": None} for key in refs})
    assert (observed.resources.keys(), observed.invisible.keys()) == (
        whole.resources.keys(),
        whole.invisible.keys(),
    )
    assert observed.resources[refs[0]].state == whole.resources[refs[0]].state
    # Who asks for no config needs no right to read any.
    observed = few.observe_fields({key: {"partitions": None} for key in refs})
    assert (set(observed.resources), set(observed.invisible)) == ({refs[0], refs[3]}, {refs[1], refs[2]})


def everything(source: TopicSource, names: list[str]) -> tuple[object, ...]:
    configs, descriptions = source.configs(names), source.descriptions(names)
    return (
        {name for name in source.names() if name in names},
        {name: (dict(c.own), dict(c.effective)) for name, c in configs.found.items()},
        {name: (d.uid, d.internal, dict(d.replicas)) for name, d in descriptions.found.items()},
        {name: type(error) for name, error in {**configs.denied, **descriptions.denied}.items()},
        (sorted(configs.missing), sorted(descriptions.missing)),
    )

"""The two ways of reading topics: our own connections must say exactly what librdkafka says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafkaform.cluster.kafka.answers import TopicSource
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.kafka.topic_sources import AdminReader, WireReader
from kafkaform.cluster.kafka.topics import topic_source
from kafkaform.cluster.kafka.writer import submit
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire import large_answers
from kafkaform.config.client_properties import to_librdkafka, to_transport
from kafkaform.config.client_properties.transport import TransportSettings
from kafkaform.core.errors import KafkaformError, NotOffered
from kafkaform.core.lock import unguarded
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import CreateTopic
from kafkaform.devcluster.cluster import DevCluster
from tests.support.certificates import self_signed
from tests.support.kafka_fixtures import Account, eventually, guarded
from tests.support.scenes import VARIED


@pytest.fixture
def connection(kafka: DevCluster) -> Iterator[Connection]:
    given = {"bootstrap.servers": kafka.bootstrap_servers}
    connection = Connection(to_librdkafka(given), lambda: to_transport(given))
    yield connection
    connection.close()


def test_many_requests_are_answered_in_order(
    connection: Connection, real_cluster: KafkaCluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request asks for CHUNK topics; more than IN_FLIGHT of them wait for their turn."""
    names = [f"{prefix}{number:02}" for number in range(24)]
    values = dict(zip(names, map(str, range(24)), strict=True))
    topics = [CreateTopic(ResourceRef("Topic", n), 1, 1, {"retention.ms": v}) for n, v in values.items()]
    assert real_cluster.execute(topics) == [None] * len(topics)
    monkeypatch.setattr("kafkaform.cluster.kafka.topic_sources.CHUNK", 2)
    found = eventually(lambda: WireReader(connection).configs(names).found, lambda f: f.keys() == set(names))
    assert {name: configs.own["retention.ms"] for name, configs in found.items()} == values


def test_both_say_the_same(connection: Connection, real_cluster: KafkaCluster, prefix: str) -> None:
    # More distinct blocks of configs than are kept at hand, each twice and apart from one another.
    varied = [*VARIED, *({"segment.bytes": str(1 << 20 | n)} for n in range(20))] * 2
    creates = [
        CreateTopic(ResourceRef("Topic", f"{prefix}.{n}"), 1 + n % 3, 1, configs)
        for n, configs in enumerate(varied)
    ]
    assert real_cluster.execute(creates) == [None] * len(creates)
    names = [*(c.ref.name for c in creates), f"{prefix}.nobody"]
    swift, plain = WireReader(connection), AdminReader(connection)
    assert WireReader.usable(connection)

    told = eventually(lambda: everything(plain, names), lambda said: said[4] == ([names[-1]], [names[-1]]))
    assert len(told[1]) == len(told[2]) == len(creates)  # type: ignore[arg-type]
    assert everything(swift, names) == told


def test_both_say_the_same_over_sasl_with_few_rights(account: Callable[..., Account], prefix: str) -> None:
    owner = account(f"TOPIC:{prefix}*:ALL")
    names = [f"{prefix}.seen", f"{prefix}.unseen", f"{prefix}.undescribed"]
    creates = [CreateTopic(ResourceRef("Topic", name), 1, 1, {}) for name in names]
    assert owner.cluster.execute(creates) == [None] * 3
    few = account(
        f"TOPIC:{names[0]}:DESCRIBE",
        f"TOPIC:{names[0]}:DESCRIBE_CONFIGS",
        f"TOPIC:{names[2]}:DESCRIBE_CONFIGS",
    )
    connection = few.cluster._connection
    plain = eventually(lambda: everything(AdminReader(connection), names), lambda said: said[0] == {names[0]})
    assert set(plain[3]) == set(names[1:])  # type: ignore[call-overload]
    assert everything(WireReader(connection), names) == plain


def test_the_same_is_said_of_some_fields_with_few_rights(
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
    told = few.observe_fields(dict.fromkeys(refs, ("config.retention.ms",)))
    assert (told.resources.keys(), told.invisible.keys()) == (whole.resources.keys(), whole.invisible.keys())
    assert told.resources[refs[0]].state == whole.resources[refs[0]].state
    # Who asks for no config needs no right to read any.
    told = few.observe_fields(dict.fromkeys(refs, ("partitions",)))
    assert (set(told.resources), set(told.invisible)) == ({refs[0], refs[3]}, {refs[1], refs[2]})


def test_some_fields_are_read_where_only_librdkafka_can_log_in(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    ref, missing = ResourceRef("Topic", f"{prefix}a"), ResourceRef("Topic", f"{prefix}missing")
    assert real_cluster.execute([CreateTopic(ref, 2, 1, {"retention.ms": "1000"})]) == [None]

    def refuse() -> TransportSettings:
        raise KafkaformError("this login is not possible")

    with KafkaCluster({"bootstrap.servers": kafka.bootstrap_servers}, refuse) as cluster:
        fields = {ref: ["config.retention.ms"], missing: ["partitions"]}
        seen = eventually(lambda: cluster.observe_fields(fields), lambda o: ref in o.resources)
    assert seen.resources[ref].state["config.retention.ms"] == "1000"
    assert missing not in seen.inventory


def test_connections_that_cannot_log_in_are_not_used(kafka: DevCluster) -> None:
    def refuse() -> TransportSettings:
        raise KafkaformError("this login is not possible")

    connection = Connection({"bootstrap.servers": kafka.bootstrap_servers}, refuse)
    assert isinstance(topic_source(connection), AdminReader)


def test_versions_that_brokers_do_not_speak(connection: Connection) -> None:
    assert isinstance(topic_source(connection), WireReader)
    assert connection.offers(large_answers.METADATA)
    assert not connection.offers(replace(large_answers.METADATA, versions=(999, 999)))
    unknown = replace(large_answers.METADATA, key=29_999, name="Nothing")
    assert not connection.offers(unknown)
    with pytest.raises(NotOffered, match=r"this cluster does not offer Nothing$"):
        connection.ask(unknown, [None])


def everything(source: TopicSource, names: list[str]) -> tuple[object, ...]:
    configs, descriptions = source.configs(names), source.descriptions(names)
    return (
        {name for name in source.names() if name in names},
        {name: (dict(c.own), dict(c.effective)) for name, c in configs.found.items()},
        {name: (d.uid, d.internal, dict(d.replicas)) for name, d in descriptions.found.items()},
        {name: type(error) for name, error in {**configs.denied, **descriptions.denied}.items()},
        (sorted(configs.missing), sorted(descriptions.missing)),
    )


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[Connection]:
    """A broker of its own that takes logins by TLS alone."""
    self_signed(tmp_path)
    chain, key = (tmp_path / name for name in ("certificate.pem", "key.pem"))
    (tmp_path / "store.pem").write_text(key.read_text() + chain.read_text())
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL",
        "listener.name.sasl.ssl.keystore.type": "PEM",
        "listener.name.sasl.ssl.keystore.location": str(tmp_path / "store.pem"),
        "allow.everyone.if.no.acl.found": "true",
    }
    with guarded(1, heap_mb=256, sasl_users={"somebody": "secret"}, properties=properties) as kafka:
        given = {
            "bootstrap.servers": kafka.sasl_bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "somebody",
            "sasl.password": "secret",
            "ssl.ca.location": str(chain),
        }
        connection = Connection(to_librdkafka(given), lambda: to_transport(given))
        yield connection
        connection.close()


@pytest.mark.nightly("a broker more: every day shows TLS (test_brokers) and SASL (above), each by itself")
def test_both_say_the_same_over_tls_and_sasl(tls: Connection) -> None:
    names = [f"topic.{n}" for n in range(len(VARIED))]
    creates = [
        CreateTopic(ResourceRef("Topic", name), 2, 1, configs)
        for name, configs in zip(names, VARIED, strict=True)
    ]
    assert submit(tls, creates, unguarded) == [None] * len(creates)
    source = topic_source(tls)
    assert isinstance(source, WireReader)
    told = eventually(lambda: everything(AdminReader(tls), names), lambda said: said[4] == ([], []))
    assert len(told[1]) == len(told[2]) == len(names)  # type: ignore[arg-type]
    assert everything(source, names) == told

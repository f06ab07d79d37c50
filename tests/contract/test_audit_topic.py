"""The audit topic: what every cluster promises, and what is so of a real one."""

import json
import threading
from collections.abc import Callable
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kafkaform.audit.trail import read_record, read_trail
from kafkaform.cluster.audit_layout import AUDIT_TOPIC, make_audit_topic_creation
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.protocol import Cluster
from kafkaform.config.settings import AuditSettings
from kafkaform.core.errors import AuditError, PermissionDenied
from kafkaform.core.model import Observed
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.clusters.fixtures import TIMEOUT_S, Account, admin_client, connect, eventually
from tests.support.memory_cluster.memory import MemoryCluster


@pytest.fixture(params=["memory", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Either cluster; neither has an audit topic yet."""
    if request.param == "memory":
        return MemoryCluster()
    real = cast("KafkaCluster", request.getfixturevalue("real_cluster"))
    delete_topic(request.getfixturevalue("kafka"))
    return real


def delete_topic(kafka: DevCluster) -> None:
    admin = admin_client(kafka.bootstrap_servers)

    def present(_: object = None) -> bool:
        return AUDIT_TOPIC.name in admin.list_topics(timeout=TIMEOUT_S).topics

    if present():
        admin.delete_topics([AUDIT_TOPIC.name])[AUDIT_TOPIC.name].result(TIMEOUT_S)
        eventually(present, lambda there: not there)


def observe_topic(cluster: Cluster) -> Observed:
    seen = eventually(lambda: cluster.observe([AUDIT_TOPIC]).resources, lambda found: AUDIT_TOPIC in found)
    return seen[AUDIT_TOPIC]


def line(name: str, size: int = 0) -> str:
    return json.dumps({"kind": "Topic", "name": name, "filling": "x" * size})


def test_missing_audit_topic_reads_as_empty_and_is_not_created(cluster: Cluster) -> None:
    assert list(cluster.read_audit()) == []
    assert AUDIT_TOPIC not in cluster.observe([AUDIT_TOPIC], kinds=["Topic"]).inventory


def test_audit_lines_are_read_in_written_order(cluster: Cluster) -> None:
    first, second = [line(f"a{n}") for n in range(50)], [line(f"b{n}") for n in range(50)]
    cluster.append_audit(first)
    assert list(cluster.read_audit()) == first
    cluster.append_audit(second)
    assert list(cluster.read_audit()) == [*first, *second]


def test_audit_topic_keeps_lines_of_900_kb_forever(cluster: Cluster) -> None:
    large = [line("a", 899_900), line("b", 899_900), line("c", 899_900)]
    cluster.append_audit(large)
    assert list(cluster.read_audit()) == large
    observed = observe_topic(cluster)
    assert observed.state["partitions"] == 1
    own = {path: value for path, value in observed.state.items() if path.startswith("config.")}
    assert own["config.cleanup.policy"] == "delete"
    assert own["config.retention.ms"] == own["config.retention.bytes"] == "-1"


@pytest.mark.parametrize(
    ("brokers", "replicas", "in_sync"), [(1, 1, "1"), (2, 2, "1"), (3, 3, "2"), (9, 3, "2")]
)
def test_audit_topic_replication_depends_on_broker_count(brokers: int, replicas: int, in_sync: str) -> None:
    made = make_audit_topic_creation(brokers)
    assert isinstance(made, CreateTopic)
    assert made.replication_factor == replicas
    assert made.configs["min.insync.replicas"] == in_sync


def test_audit_topic_on_three_brokers_has_three_replicas(kafka3: DevCluster) -> None:
    with connect(kafka3.bootstrap_servers) as cluster:
        cluster.append_audit([line("a")])
        observed = observe_topic(cluster)
    assert observed.state["replicationFactor"] == 3
    assert observed.state["config.min.insync.replicas"] == "2"


def test_concurrent_first_audit_writes_are_all_kept(kafka: DevCluster) -> None:
    """All of them find no topic, and make it."""
    delete_topic(kafka)

    def write(name: str) -> None:
        with connect(kafka.bootstrap_servers) as cluster:
            for part in range(3):
                cluster.append_audit([line(f"{name}-{part}-{n}") for n in range(20)])

    writers = [threading.Thread(target=write, args=[f"w{n}"]) for n in range(6)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    with connect(kafka.bootstrap_servers) as cluster:
        names = [json.loads(text)["name"] for text in cluster.read_audit()]
    assert sorted(names) == sorted(
        f"w{w}-{part}-{n}" for w in range(6) for part in range(3) for n in range(20)
    )
    for writer in range(6):
        own = [name for name in names if name.startswith(f"w{writer}-")]
        assert own == [f"w{writer}-{part}-{n}" for part in range(3) for n in range(20)]


def test_audit_messages_are_keyed_by_resource(kafka: DevCluster, real_cluster: KafkaCluster) -> None:
    delete_topic(kafka)
    real_cluster.append_audit([line("orders")])
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "t-audit"})
    consumer.assign([TopicPartition(AUDIT_TOPIC.name, 0, 0)])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None
    assert message.key() == b"Topic/orders"


def test_begin_audit_does_not_create_topic(kafka: DevCluster, real_cluster: KafkaCluster) -> None:
    delete_topic(kafka)
    real_cluster.begin_audit()
    assert AUDIT_TOPIC not in real_cluster.observe([], kinds=["Topic"]).inventory
    real_cluster.append_audit([line("a")])
    assert list(real_cluster.read_audit()) == [line("a")]


def test_foreign_audit_records_do_not_break_reading(kafka: DevCluster, real_cluster: KafkaCluster) -> None:
    """Bytes that are no text, messages without a value, a marker at the end, and an open transaction."""
    delete_topic(kafka)
    real_cluster.append_audit([line("a")])
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "t-audit"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(AUDIT_TOPIC.name, b"\xff\xfe\x00")
    producer.produce(AUDIT_TOPIC.name, None, b"key")
    producer.commit_transaction(TIMEOUT_S)
    assert len(real_cluster.read_audit()) == 3
    producer.begin_transaction()
    producer.produce(AUDIT_TOPIC.name, b"\x1b[2J")
    producer.flush(TIMEOUT_S)
    real_cluster.append_audit([line("b")])
    try:
        lines = list(real_cluster.read_audit())
        assert len(lines) == 5
        assert [lines[0], lines[-1]] == [line("a"), line("b")]
        log = read_record(real_cluster, AuditSettings())
        assert log.entries == ()
        (problem,) = log.problems
        assert f"{AUDIT_TOPIC.name}: skipped record 1 and 4 more" in problem
    finally:
        producer.abort_transaction(TIMEOUT_S)
        delete_topic(kafka)


@pytest.fixture
def kept(kafka_acl: DevCluster) -> None:
    with connect(kafka_acl.bootstrap_servers) as cluster:

        def append() -> bool:
            try:
                cluster.append_audit([line("a")])
            except PermissionDenied:  # who may do everything is refused while a broker reads its first ACLs
                return False
            return True

        eventually(append, bool)


@pytest.mark.usefixtures("kept")
def test_audit_needs_only_topic_write_and_read(account: Callable[..., Account]) -> None:
    """And no right on any group: none is used."""
    writer, reader = account(f"TOPIC:{AUDIT_TOPIC.name}:WRITE"), account(f"TOPIC:{AUDIT_TOPIC.name}:READ")
    writer.cluster.append_audit([line("written")])
    assert line("written") in reader.cluster.read_audit()


@pytest.mark.parametrize("right", [None, "READ"])
@pytest.mark.usefixtures("kept")
def test_account_without_audit_write_is_refused(account: Callable[..., Account], right: str | None) -> None:
    grants = [f"TOPIC:{AUDIT_TOPIC.name}:{right}"] if right else []
    with pytest.raises(PermissionDenied):
        account(*grants).cluster.append_audit([line("a")])


@pytest.mark.usefixtures("kept")
def test_append_audit_reports_early_refusal(account: Callable[..., Account]) -> None:
    """The producer asks for its id when an apply begins: by the time of the first line it may be refused."""
    cluster = account(f"TOPIC:{AUDIT_TOPIC.name}:READ").cluster
    cluster.begin_audit()
    producer = cluster._audit_topic._producer

    def is_refused() -> bool:
        try:
            producer.produce(AUDIT_TOPIC.name, b"too early")
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError._FATAL)
        return False

    eventually(is_refused, bool)
    with pytest.raises(PermissionDenied):
        cluster.append_audit([line("a")])


@pytest.mark.parametrize("right", [None, "WRITE"])
@pytest.mark.usefixtures("kept")
def test_account_without_audit_read_gets_hint(account: Callable[..., Account], right: str | None) -> None:
    grants = [f"TOPIC:{AUDIT_TOPIC.name}:{right}"] if right else []
    cluster = account(*grants).cluster
    with pytest.raises(PermissionDenied):
        cluster.read_audit()
    with pytest.raises(AuditError, match=f"{AUDIT_TOPIC.name} cannot be read: ") as raised:
        read_trail(cluster, AuditSettings(), "any")
    assert raised.value.hint is not None
    assert f"grant Read on the topic {AUDIT_TOPIC.name}" in raised.value.hint

"""Transactions that producers leave open on a real broker, and that its coordinator does not abort."""

import logging
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from kafkaform.cluster.kafka import transactions
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.messages import DESCRIBE_PRODUCERS
from kafkaform.core import transactions as core
from kafkaform.core.transactions import DEFAULT_MAX_TIMEOUT_MS, GRACE_MS, OpenTransaction
from kafkaform.core.values import replace
from kafkaform.devcluster.cluster import DevCluster
from tests.support.clusters.fixtures import TIMEOUT_S, MakeAccount, connect, eventually
from tests.support.clusters.group_clients import produce
from tests.support.clusters.topics import make_topic

MINUTE_MS = 60_000


@contextmanager
def leave_open_transaction(
    servers: str, name: str, *, timeout_ms: int = MINUTE_MS, age_ms: int = 0
) -> Iterator[None]:
    """A transaction with two records in each of two partitions, whose producer does nothing more.

    Args:
        servers: The cluster.
        name: The topic, and the transactional id.
        timeout_ms: The transaction's timeout.
        age_ms: The age of its records.
    """
    options = {"bootstrap.servers": servers, "transactional.id": name, "transaction.timeout.ms": timeout_ms}
    producer = Producer({**options, "logger": logging.getLogger("tests.librdkafka")})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    written_ms = time.time_ns() // 1_000_000 - age_ms
    for number in (0, 0, 1, 1):
        producer.produce(name, b"x", partition=number, timestamp=written_ms)
    assert producer.flush(TIMEOUT_S) == 0
    try:
        yield
    finally:  # a producer of the same id aborts what its predecessor has left
        Producer({**options, "logger": logging.getLogger("tests.librdkafka")}).init_transactions(TIMEOUT_S)


def list_open_transactions(cluster: KafkaCluster, name: str) -> list[OpenTransaction]:
    reading = cluster.open_transactions([(name, number) for number in range(3)])
    assert reading.unread == ""
    return list(reading.transactions)


@pytest.fixture
def topic(servers: str, real_cluster: KafkaCluster, prefix: str) -> str:
    """A topic of two partitions with five records in the first."""
    name = f"{prefix}a"
    make_topic(real_cluster, name, 2)
    produce(servers, name, {0: 5})
    return name


def test_open_transaction_beyond_timeout_is_hanging(
    servers: str, real_cluster: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leave_open_transaction(servers, topic, timeout_ms=1_000):
        found = eventually(
            lambda: list_open_transactions(real_cluster, topic), lambda some: some[0].age_ms > 1_000
        )
        assert [(t.partition[1], t.start, t.end) for t in found] == [(0, 5, 7), (1, 0, 2)]
        assert {(t.transactional_id, t.timeout_ms, t.coordinated, t.unknown) for t in found} == {
            (topic, 1_000, True, "")
        }
        assert not any(t.is_hanging for t in found)  # its coordinator has a minute left
        monkeypatch.setattr(core, "GRACE_MS", 0)
        assert all(t.is_hanging for t in found)
    assert eventually(lambda: list_open_transactions(real_cluster, topic), lambda some: not some) == []


def test_producers_are_read_for_open_transactions_only(
    servers: str, real_cluster: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("no transaction is open")

    with monkeypatch.context() as patch:
        patch.setattr(transactions, "_read_producers", refuse)
        patch.setattr(transactions, "_read_coordinated", refuse)
        assert list_open_transactions(real_cluster, topic) == []
        with (
            leave_open_transaction(servers, topic),
            pytest.raises(AssertionError, match="no transaction is open"),
        ):
            list_open_transactions(real_cluster, topic)


def test_producers_are_unread_if_brokers_do_not_list_them(
    real_cluster: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = replace(DESCRIBE_PRODUCERS, key=10_000)  # as brokers before Kafka 2.8
    monkeypatch.setattr(transactions, "DESCRIBE_PRODUCERS", missing)
    reading = real_cluster.producers([(topic, 0), (topic, 1)])
    assert reading.producers == ()
    assert "does not support DescribeProducers" in reading.unread


@pytest.mark.parametrize("age_ms", [DEFAULT_MAX_TIMEOUT_MS, DEFAULT_MAX_TIMEOUT_MS + GRACE_MS])
@pytest.mark.parametrize("missing", ["LIST_TRANSACTIONS", "DESCRIBE_PRODUCERS"])
def test_transaction_age_falls_back_to_record_times(
    servers: str,
    real_cluster: KafkaCluster,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    age_ms: int,
) -> None:
    request = getattr(transactions, missing)
    monkeypatch.setattr(
        transactions, missing, replace(request, key=10_000)
    )  # as brokers before Kafka 2.8, 3.0
    with leave_open_transaction(servers, topic, age_ms=age_ms):
        found = list_open_transactions(real_cluster, topic)
        assert [(t.partition[1], t.start, t.end) for t in found] == [(0, 5, 7), (1, 0, 2)]
        # Partition 0 begins with records that are young, none of which is the transaction's.
        is_old = age_ms > DEFAULT_MAX_TIMEOUT_MS
        for transaction in found:
            assert (transaction.coordinated, transaction.transactional_id) == (False, None)
            assert transaction.timeout_ms == DEFAULT_MAX_TIMEOUT_MS
            if missing == "LIST_TRANSACTIONS":
                assert (transaction.producer is not None, transaction.unknown) == (True, "")
                assert transaction.is_hanging == is_old
            else:
                assert transaction.producer is None
                assert transaction.unknown.endswith("DescribeProducers")
        assert found[1].is_hanging == is_old


def test_transaction_details_need_rights(kafka_acl: DevCluster, account: MakeAccount, prefix: str) -> None:
    name = f"{prefix}a"
    with connect(kafka_acl.bootstrap_servers) as owner:
        make_topic(owner, name, 2)
    sees = account(f"TOPIC:{prefix}*:DESCRIBE").cluster
    reads = account(f"TOPIC:{prefix}*:DESCRIBE", f"TOPIC:{prefix}*:READ").cluster
    knows = account(
        *(f"TOPIC:{prefix}*:{right}" for right in ("DESCRIBE", "READ")),
        f"TRANSACTIONAL_ID:{prefix}*:DESCRIBE",
    ).cluster
    with leave_open_transaction(kafka_acl.bootstrap_servers, name, age_ms=20 * MINUTE_MS):
        (first, _) = list_open_transactions(sees, name)
        assert (first.start, first.end, first.producer, first.is_hanging) == (0, 2, None, True)
        assert first.unknown.endswith(f"Read on topic {name}")
        (first, _) = list_open_transactions(reads, name)
        assert (first.producer is not None, first.transactional_id, first.is_hanging) == (True, None, True)
        assert 20 * MINUTE_MS <= first.age_ms < 30 * MINUTE_MS
        # Records may have any time: whoever sees the coordinator's knows that it has just begun.
        (first, _) = list_open_transactions(knows, name)
        assert (first.transactional_id, first.is_hanging) == (name, False)


def test_transaction_unknown_to_coordinator_is_hanging(
    servers: str, real_cluster: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose records came late, which all leaders appended before Kafka 3.6 (KIP-890)."""
    read = transactions._read_coordinated

    def forget_partitions(connection: Connection, producers: Collection[int]) -> Any:
        known, failure = read(connection, producers)
        return {key: replace(each, partitions=frozenset()) for key, each in known.items()}, failure

    monkeypatch.setattr(transactions, "_read_coordinated", forget_partitions)
    with leave_open_transaction(servers, topic, age_ms=17 * MINUTE_MS):
        transaction, _ = list_open_transactions(real_cluster, topic)
    assert (transaction.partition, transaction.start, transaction.end) == ((topic, 0), 5, 7)
    assert (transaction.transactional_id, transaction.coordinated) == (topic, False)
    assert transaction.timeout_ms == DEFAULT_MAX_TIMEOUT_MS
    assert 17 * MINUTE_MS <= transaction.age_ms < 30 * MINUTE_MS
    assert transaction.is_hanging
    assert not replace(transaction, age_ms=DEFAULT_MAX_TIMEOUT_MS).is_hanging

"""Spark's clients of Kafka at real brokers: offsets, refusals, and the rights that reading takes."""

import time
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkaform.devcluster.cluster import DevCluster
from kafkaform.inspect.arrivals import mark_transactional, read_arrivals
from kafkaform.inspect.skew_input import choose
from spark_validation import kafka_client
from spark_validation.errors import ReadingFailed
from spark_validation.kafka_client import GROUP_ID, HARMLESS, OffsetReader, make_client, make_reading_error
from tests.support.clusters.fixtures import TIMEOUT_S, MakeAccount
from tests.support.skew.producers import fill_topic

RECORDS = 900
PARTITIONS = 3
BEGIN = int(time.time() * 1000) - 3_600_000


def test_spans_match_other_clients(servers: str, prefix: str, real_cluster: Any) -> None:
    topic, missing = f"{prefix}a", f"{prefix}none"
    fill_topic(servers, topic, RECORDS, BEGIN)
    admin = OffsetReader({"bootstrap.servers": servers})
    theirs = real_cluster.log_spans([(topic, number) for number in range(PARTITIONS)])
    spans, failed = admin.spans([topic, missing])
    assert [(topic, span.partition, span.start, span.end) for span in spans.pop(topic)] == [
        (*pair, span.start, span.end) for pair, span in theirs.items()
    ]
    assert spans == {}
    assert failed.keys() == {missing}
    assert f"topic {missing} does not exist" in failed[missing].message
    assert missing not in real_cluster.observe([], lambda _: True).inventory, "asking creates none"
    asked = [(topic, number) for number in range(PARTITIONS)]
    for time_ms in (0, BEGIN, BEGIN + RECORDS - 60, BEGIN + 2_000_000):
        times = dict.fromkeys(asked, time_ms)
        records = real_cluster.offsets_at(times)
        assert admin.find_offsets(times) == {
            partition: (record.offset, record.time_ms) for partition, record in records.items()
        }
    assert admin.find_offsets({}) == {}
    last = {place: span.end - 5 for place, span in theirs.items()}
    read = admin.read_records({**last, (missing, 0): 0})
    assert {place: [offset for offset, _ in records] for place, records in read.items()} == {
        place: [*range(offset, offset + 5)] for place, offset in last.items()
    }, "up to the end of the log, and without what cannot be read"
    assert admin.topic_ids([topic, missing]).keys() == {topic}
    assert admin.configs([topic])[topic]["cleanup.policy"] == "delete"
    assert admin.cluster_id() == real_cluster.facts().cluster_id


def test_spans_end_before_an_open_transaction(servers: str, prefix: str) -> None:
    topic = f"{prefix}a"
    fill_topic(servers, topic, RECORDS, BEGIN)
    writer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    writer.init_transactions(TIMEOUT_S)
    writer.begin_transaction()
    writer.produce(topic, b"v", key=b"open", partition=0)
    assert writer.flush(TIMEOUT_S) == 0
    spans, _ = OffsetReader({"bootstrap.servers": servers}).spans([topic])
    assert sum(span.records for span in spans[topic]) == RECORDS
    writer.abort_transaction(TIMEOUT_S)


def read(kafka: Mapping[str, str], topic: str, records: int, patience_s: float = TIMEOUT_S) -> int:
    """Read so many records, as the reader does: of partitions that nobody assigns; raises ReadingFailed."""
    consumer, problems = make_client(Consumer, kafka, {"group.id": GROUP_ID, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        found, deadline = 0, time.monotonic() + patience_s
        while found < records and time.monotonic() < deadline:
            messages = consumer.consume(records - found, 1.0)
            problems.check(topic)
            for message in messages:
                error = message.error()
                if error is None:
                    found += 1
                elif error.code() not in HARMLESS:
                    raise make_reading_error(error, topic)
        return found
    finally:
        consumer.close()


@pytest.fixture
def topic(kafka_acl: DevCluster, prefix: str) -> str:
    """A topic with records, where accounts log in."""
    fill_topic(kafka_acl.bootstrap_servers, f"{prefix}a", RECORDS, BEGIN)
    return f"{prefix}a"


def test_reading_needs_no_group_right(account: MakeAccount, topic: str) -> None:
    kafka = account(f"TOPIC:{topic}:READ").client
    admin = OffsetReader(kafka)
    spans, failed = admin.spans([topic])
    assert (sum(span.records for span in spans[topic]), failed) == (RECORDS, {})
    # Where it commits offsets, it reads once, and then no more.
    for offset in range(5):
        places = {(topic, number): offset for number in range(PARTITIONS)}
        assert admin.read_records(places, 1).keys() == places.keys()
        time.sleep(0.2)
    assert read(kafka, topic, RECORDS) == RECORDS
    assert read(kafka, topic, RECORDS + 1, 3.0) == RECORDS, (
        "nor is there an error when nothing is left to read"
    )


def test_topic_with_unreadable_configs_counts_as_unread(account: MakeAccount, topic: str) -> None:
    rights = [f"TOPIC:{topic}:{right}" for right in ("DESCRIBE", "READ")]
    sees = choose(account(*rights).cluster, [topic], (), ())
    assert (sees.unread, sees.compacted, dict(sees.retention_bytes)) == (frozenset({topic}), frozenset(), {})
    assert (dict(sees.topics), dict(sees.failed)) == ({topic: PARTITIONS}, {})
    assert choose(account(*rights).cluster, [f"{topic}*"], (), ()).unread == {topic}
    knows = choose(account(*rights, f"TOPIC:{topic}:DESCRIBE_CONFIGS").cluster, [topic], (), ())
    assert (knows.unread, dict(knows.retention_bytes)) == (frozenset(), {topic: -1})


def test_transactions_are_visible_with_read_right_only(account: MakeAccount, topic: str) -> None:
    cluster = account(f"TOPIC:{topic}:DESCRIBE").cluster
    assert cluster.transactional([(topic, 0)]) == {}
    (found,) = read_arrivals(cluster, {topic: PARTITIONS}, int(time.time() * 1000))
    assert mark_transactional(cluster, [found], [topic])[0].transactional is None
    reader = account(f"TOPIC:{topic}:DESCRIBE", f"TOPIC:{topic}:READ").cluster
    assert mark_transactional(reader, [found], [topic])[0].transactional is False


def test_refused_reading_has_reason_without_password(
    account: MakeAccount, topic: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = account(f"TOPIC:{topic}:DESCRIBE").client
    wrong = {**blind, "sasl.password": "wrong-hunter2"}
    for kafka, message in (
        (blind, f"this account may not read topic {topic}"),
        (wrong, "the broker rejected the credentials"),
        ({**blind, "security.protocol": "NONE"}, "the client properties are not accepted"),
    ):
        with pytest.raises(ReadingFailed, match=message) as raised:
            read(kafka, topic, 1)
        assert "\n" not in raised.value.message
        assert "hunter2" not in raised.value.message
        assert raised.value.hint
    foreign = f"{prefix}b"
    _, failed = OffsetReader(blind).spans([foreign])
    assert foreign in failed[foreign].message
    monkeypatch.setattr(kafka_client, "RESPONSE_TIMEOUT_S", 120.0)
    began = time.monotonic()
    with pytest.raises(ReadingFailed, match="rejected the credentials"):
        OffsetReader(wrong).cluster_id()
    assert time.monotonic() - began < 60, "a wrong password is no reason to wait"

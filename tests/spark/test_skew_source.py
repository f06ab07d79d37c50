"""Tests of reading a real Kafka's logs, also where offsets have gaps."""

import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.inspect.skew_input import read_logs
from spark_validation import kafka_source
from spark_validation.kafka_source import RangeReader
from spark_validation.windows import SamplePlan, Span, plan_windows
from tests.support.clusters.fixtures import TIMEOUT_S, eventually
from tests.support.clusters.topics import delete_records
from tests.support.skew.producers import Key, busy_cleaner, create_topic, messages, name_keys, producer, send

Read: TypeAlias = Counter[tuple[int, int, Key, str]]
"""Records and their bytes, by partition, replicate and key."""

LARGE: dict[str, Any] = {"message.max.bytes": 3 * 2**20}


class Topic:
    """A topic on a real Kafka, as Spark and as a plain consumer read it."""

    def __init__(self, name: str, partitions: int, kafka: DevCluster, cluster: KafkaCluster) -> None:
        self.name = name
        self.partitions = partitions
        self.servers = kafka.bootstrap_servers
        self._cluster = cluster

    def spans(self) -> list[Span]:
        logs = read_logs(self._cluster, {self.name: self.partitions}, time.time_ns() // 1_000_000).logs[
            self.name
        ]
        return [Span(log.partition, log.kept_from, log.end, log.log_bytes) for log in logs]

    def offsets(self) -> int:
        return sum(span.records for span in self.spans())

    def send(self, keys: list[Key]) -> None:
        send(self.servers, self.name, keys)

    def read(self, plan: SamplePlan, tasks: int = 2) -> Read:
        reader = RangeReader([self.name], [plan.replicates], {"bootstrap.servers": self.servers})
        found: Read = Counter()
        for ranges in kafka_source.divide_into_tasks([plan], tasks):
            for _, table in reader.read(ranges):
                for row in table.to_pylist():
                    partition, replicate = divmod(row["cell"], plan.replicates)
                    assert row["first"] <= row["last"]
                    found[partition, replicate, row["key"], "records"] += row["records"]
                    found[partition, replicate, row["key"], "bytes"] += row["bytes"]
        assert reader.failures == {}
        return found

    def read_expected(self, plan: SamplePlan) -> Read:
        """Return the records that a consumer finds in the windows of a plan."""
        replicates = {
            (window.partition, offset): window.replicate
            for window in plan.windows
            for offset in range(window.start, window.end)
        }
        found: Read = Counter()
        for message in messages(self.servers, self.name, self.partitions):
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            if (where := (partition, offset or 0)) in replicates:
                key, value = message.key(), message.value()
                place = partition, replicates[where], key
                found[*place, "records"] += 1
                found[*place, "bytes"] += len(key or b"") + len(value or b"")
        return found


def total(read: Read) -> int:
    return sum(count for (*_, unit), count in read.items() if unit == "records")


Make: TypeAlias = "Callable[..., Topic]"


@pytest.fixture
def topic(kafka: DevCluster, real_cluster: KafkaCluster, prefix: str) -> Make:
    def make(partitions: int, **config: str) -> Topic:
        name = f"{prefix}{uuid.uuid4().hex[:6]}"
        create_topic(kafka.bootstrap_servers, name, partitions, **config)
        return Topic(name, partitions, kafka, real_cluster)

    return make


def whole(spans: list[Span]) -> SamplePlan:
    plan = plan_windows(spans, records=10**9, seed=1)
    assert plan.full
    return plan


def plan_sample(spans: list[Span], share: float = 0.5) -> SamplePlan:
    plan = plan_windows(spans, records=int(sum(span.records for span in spans) * share), seed=1)
    assert not plan.full
    return plan


def test_each_record_is_read_once_in_own_replicate(topic: Make) -> None:
    made = topic(3)
    made.send([*name_keys(range(3_000)), *[None] * 300, b""])
    for plan in (whole(made.spans()), plan_sample(made.spans())):
        read = made.read(plan)
        assert read == made.read_expected(plan)
        assert total(read) == plan.records


def test_compacted_records_are_not_read(topic: Make) -> None:
    made = topic(2, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001")
    made.send(name_keys(number % 400 for number in range(4_000)))
    made.send(name_keys(range(400, 3_000)))

    def survivors() -> Read:
        # The segment that is written to is not compacted: another record ends it, a while after its first.
        made.send(name_keys([1, 2, 3, 4]))
        return made.read_expected(whole(made.spans()))

    with busy_cleaner(made.servers):
        eventually(survivors, lambda found: total(found) < 3_500)
    offsets = made.offsets()
    for plan in (whole(made.spans()), plan_sample(made.spans())):
        read = made.read(plan)
        assert read == made.read_expected(plan)
        assert 0 < total(read) < plan.records
    assert made.offsets() == offsets > 6_600


def test_only_committed_records_are_read(topic: Make) -> None:
    made = topic(2)
    client = producer(made.servers, **{"transactional.id": made.name})
    client.init_transactions(TIMEOUT_S)

    def transaction(keys: list[Key]) -> None:
        client.begin_transaction()
        for key in keys:
            client.produce(made.name, b"value", key)
        assert client.flush(TIMEOUT_S) == 0

    for number in range(10):
        transaction(name_keys(range(number * 400, number * 400 + 400)))
        client.commit_transaction(TIMEOUT_S)
    transaction([b"aborted-%d" % number for number in range(500)])
    client.abort_transaction(TIMEOUT_S)
    transaction(name_keys(range(4_000, 4_400)))
    client.commit_transaction(TIMEOUT_S)
    transaction([b"aborted-%d" % number for number in range(500)])
    client.abort_transaction(TIMEOUT_S)
    # Now the logs end with aborted records and a marker.
    offsets = made.offsets()
    assert offsets == 4_400 + 1_000 + 13 * 2
    transaction([b"open-%d" % number for number in range(500)])
    assert made.offsets() == offsets
    plans = [whole(made.spans()), plan_sample(made.spans()), plan_sample(made.spans(), 0.2)]
    reads = [made.read(plan) for plan in plans]
    assert reads == [made.read_expected(plan) for plan in plans]
    assert total(reads[0]) == 4_400
    assert {key for _, _, key, _ in reads[0]} == {*name_keys(range(4_400))}
    client.abort_transaction(TIMEOUT_S)


def test_records_deleted_before_are_outside_spans(topic: Make) -> None:
    made = topic(2)
    made.send(name_keys(range(4_000)))
    delete_before(made, 0, 1_500)
    spans = made.spans()
    assert (spans[0].start, spans[1].start) == (1_500, 0)
    for plan in (whole(spans), plan_sample(spans)):
        read = made.read(plan)
        assert read == made.read_expected(plan)
        assert total(read) == plan.records


@pytest.mark.parametrize("emptied", [False, True])
def test_records_deleted_during_reading_are_missing(topic: Make, emptied: bool) -> None:
    made = topic(2)
    made.send(name_keys(range(4_000)))
    plans = [whole(made.spans()), plan_sample(made.spans())]
    start = made.spans()[0].end if emptied else 1_100
    delete_before(made, 0, start)
    for plan in plans:
        read = made.read(plan)
        assert read == made.read_expected(plan)
        lost = sum(max(0, min(w.end, start) - w.start) for w in plan.windows if w.partition == 0)
        assert lost > 0
        assert total(read) == plan.records - lost


def delete_before(topic: Topic, partition: int, offset: int) -> None:
    delete_records(topic.servers, {(topic.name, partition): offset})


def test_empty_partitions_are_skipped(topic: Make) -> None:
    made = topic(7)
    made.send([b"one key"] * 3_000)
    spans = made.spans()
    assert sorted(span.records for span in spans) == [0] * 6 + [3_000]
    for plan in (whole(spans), plan_sample(spans)):
        assert total(made.read(plan)) == plan.records


def test_topic_of_120_partitions_is_sampled_by_one_consumer(topic: Make) -> None:
    made = topic(120)
    made.send(name_keys(range(30_000)))
    plan = plan_windows(made.spans(), records=5_000, seed=1)
    assert len(plan.windows) == 480
    assert len(kafka_source.divide_into_tasks([plan], 1)) == 1
    assert made.read(plan, tasks=1) == made.read_expected(plan)


def test_groups_are_flushed_at_limit(topic: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if none of the last records is left to be passed on."""
    monkeypatch.setattr(kafka_source, "MAX_HELD_GROUPS", 0)
    monkeypatch.setattr(kafka_source, "_BATCH", 1)
    monkeypatch.setattr(kafka_source, "_GROUPED", 1)
    made = topic(3)
    made.send(name_keys(range(1_000)))
    plan = whole(made.spans())
    assert made.read(plan, tasks=1) == made.read_expected(plan)


def test_large_records_and_tombstones_are_measured(topic: Make) -> None:
    made = topic(2, max_message_bytes=str(3 * 2**20))
    client = producer(made.servers, **LARGE)
    for number in range(10):
        client.produce(made.name, bytes(2 * 2**20), b"large-%d" % number)
    for number in range(1_000):
        client.produce(made.name, None, b"gone-%d" % number)
    assert client.flush(TIMEOUT_S) == 0
    for plan in (whole(made.spans()), plan_sample(made.spans())):
        assert made.read(plan) == made.read_expected(plan)
    sizes = {
        key: count for (_, _, key, unit), count in made.read(whole(made.spans())).items() if unit == "bytes"
    }
    assert sizes[b"large-1"] == 2 * 2**20 + len(b"large-1")
    assert sizes[b"gone-1"] == len(b"gone-1")

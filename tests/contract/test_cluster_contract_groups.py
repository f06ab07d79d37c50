"""Contract tests of groups and logs, run in memory and on a real Kafka."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition

from kafkaform.cluster.kafka import offset_writer
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.protocol import Cluster
from kafkaform.core import kafka_configs
from kafkaform.core.model import DataSize, Observed, State
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.core.partitions import LogSpan, TimedOffset
from kafkaform.core.transactions import ProducerReading, TransactionReading
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets, DeleteGroup, ResetOffsets
from kafkaform.resources.groups import get_group
from kafkaform.resources.topic.operations import AddPartitions, DeleteOffsets, DeleteTopic
from tests.support.clusters.contract import (
    alter,
    carry_out,
    create_topics,
    list_codes,
    new_topic,
    wait_for_resource,
    wait_until_gone,
)
from tests.support.clusters.fixtures import TIMEOUT_S, admin_client, eventually
from tests.support.clusters.group_clients import join_members
from tests.support.clusters.topics import delete_records
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import group, topic

KIND = "ConsumerGroup"
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ONE, TWO, THREE = 1_000_000_000_000, 1_100_000_000_000, 1_200_000_000_000
"""Times long ago, in milliseconds since 1970."""
PROTOCOLS = ("classic", "consumer")


class MemoryTraffic:
    """The effects of producers, consumers and retention on a cluster in memory."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.write = cluster.write
        self.expire = cluster.expire
        self.commit = cluster.commit

    @contextmanager
    def transaction(self, topic: str, partition: int, records: int) -> Iterator[None]:
        """Write records of a transaction that is open meanwhile, and committed at the end."""
        with self._cluster.transaction(topic, partition, transactional_id=topic):
            self._cluster.write(topic, partition, records, ONE)
            yield

    @contextmanager
    def reading(self, group: str, topic: str, members: int = 1, protocol: str = "classic") -> Iterator[None]:
        """Let members join, get their partitions, and commit nothing."""
        self._cluster.join(group, [topic], members, protocol=protocol)
        yield
        self._cluster.leave(group)


class KafkaTraffic:
    """The same on a real cluster."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._client: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "logger": logging.getLogger("tests.librdkafka"),
        }
        self._admin = admin_client(bootstrap_servers)

    def write(
        self, topic: str, partition: int, records: int, timestamp_ms: int, producer: int | None = None
    ) -> None:
        client = Producer({**self._client, "enable.idempotence": producer is not None})
        for _ in range(records):
            client.produce(topic, b"x", partition=partition, timestamp=timestamp_ms)
        assert client.flush(TIMEOUT_S) == 0

    @contextmanager
    def transaction(self, topic: str, partition: int, records: int) -> Iterator[None]:
        producer = Producer({**self._client, "transactional.id": topic})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(topic, b"x", partition=partition, timestamp=ONE)
        assert producer.flush(TIMEOUT_S) == 0
        yield
        producer.commit_transaction(TIMEOUT_S)

    def expire(self, topic: str, partition: int, start: int) -> None:
        delete_records(self._client["bootstrap.servers"], {(topic, partition): start})

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        places = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, places)]
        for future in self._admin.alter_consumer_group_offsets(asked).values():
            assert all(place.error is None for place in future.result(TIMEOUT_S).topic_partitions)

    @contextmanager
    def reading(self, group: str, topic: str, members: int = 1, protocol: str = "classic") -> Iterator[None]:
        with join_members(self._client["bootstrap.servers"], group, topic, protocol, members=members):
            yield


Traffic = MemoryTraffic | KafkaTraffic


@pytest.fixture
def real_cluster(real_cluster: KafkaCluster, prefix: str) -> Iterator[KafkaCluster]:
    """The real cluster, without the groups of this test afterwards."""
    yield real_cluster
    left = real_cluster.observe([], lambda ref: ref.name.startswith(prefix), kinds=[KIND]).resources
    carry_out(real_cluster, *(build_deletion(observed) for observed in left.values()))


@pytest.fixture
def traffic(cluster: Cluster, request: pytest.FixtureRequest) -> Traffic:
    if isinstance(cluster, MemoryCluster):
        return MemoryTraffic(cluster)
    kafka = cast("DevCluster", request.getfixturevalue("kafka"))
    return KafkaTraffic(kafka.bootstrap_servers)


def build_deletion(observed: Observed) -> DeleteGroup:
    own = [path.removeprefix("config.") for path in observed.state if path.startswith("config.")]
    return DeleteGroup(observed.ref, tuple(own))


def read_offsets(cluster: Cluster, name: str) -> dict[tuple[str, int], int]:
    return cluster.groups([name]).groups[name].committed


def is_unknown(cluster: Cluster, name: str) -> bool:
    reading = cluster.groups([name])
    return not reading.groups and not reading.denied


def write_logs(cluster: Cluster, traffic: Traffic, name: str, *ends: int) -> None:
    """Create a topic whose partitions hold so many records, none of which expires."""
    create_topics(cluster, new_topic(name, len(ends), retention_ms="-1"))
    for partition, end in enumerate(ends):
        if end:
            traffic.write(name, partition, end, ONE)


def test_inventory_has_the_chosen_kinds(cluster: Cluster, prefix: str) -> None:
    (observed,) = create_topics(cluster, new_topic(f"{prefix}a"))
    carry_out(cluster, alter(group(f"{prefix}a"), consumer_session_timeout_ms="50000"))
    wait_for_resource(cluster, group(f"{prefix}a"), {f"config.{SESSION}": "50000"})
    same = group(f"{prefix}a")
    for observation in (cluster.observe([observed.ref]), cluster.observe([], kinds=["Topic"])):
        assert observed.ref in observation.inventory
        assert same not in observation.inventory
    for observation in (cluster.observe([same]), cluster.observe([], kinds=[KIND])):
        assert same in observation.inventory
        assert observed.ref not in observation.inventory
    assert {observed.ref, same} <= cluster.observe([same], kinds=["Topic"]).inventory
    assert not cluster.observe([]).inventory


def test_named_or_selected_groups_are_read_in_detail(cluster: Cluster, prefix: str) -> None:
    a, b, c = (group(prefix + name) for name in "abc")
    carry_out(cluster, *(alter(ref, consumer_session_timeout_ms="50000") for ref in (a, b, c)))
    wait_for_resource(cluster, c, {f"config.{SESSION}": "50000"})
    observation = cluster.observe([a], lambda ref: ref == c)
    assert {ref for ref in observation.resources if ref.name.startswith(prefix)} == {a, c}
    assert {a, b, c} <= observation.inventory
    missing = group(f"{prefix}missing")
    assert missing not in {*cluster.observe([missing]).inventory, *cluster.observe([missing]).invisible}
    assert is_unknown(cluster, missing.name)


def test_group_config_change_keeps_other_configs(cluster: Cluster, prefix: str) -> None:
    carry_out(
        cluster,
        alter(
            group(f"{prefix}a"), consumer_session_timeout_ms="50000", consumer_heartbeat_interval_ms="6000"
        ),
    )
    wait_for_resource(
        cluster, group(f"{prefix}a"), {f"config.{SESSION}": "50000", f"config.{HEARTBEAT}": "6000"}
    )
    carry_out(cluster, alter(group(f"{prefix}a"), SESSION, streams_num_standby_replicas="1"))
    wanted = {f"config.{HEARTBEAT}": "6000", "config.streams.num.standby.replicas": "1"}
    observed = wait_for_resource(cluster, group(f"{prefix}a"), wanted)
    assert observed.effective[f"config.{SESSION}"] == "45000"
    assert observed.effective[f"config.{HEARTBEAT}"] == "6000"
    carry_out(cluster, alter(group(f"{prefix}a"), HEARTBEAT, "streams.num.standby.replicas"))
    wait_until_gone(cluster, group(f"{prefix}a"))


def test_group_with_configs_only_has_no_live_state(cluster: Cluster, prefix: str) -> None:
    defaults = cluster.facts().config_defaults["ConsumerGroup"]
    assert defaults.keys() == kafka_configs.group_configs().keys()
    carry_out(cluster, alter(group(f"{prefix}a"), consumer_session_timeout_ms="50000"))
    observed = wait_for_resource(cluster, group(f"{prefix}a"), {f"config.{SESSION}": "50000"})
    inherited = {f"config.{name}": value for name, value in defaults.items()}
    assert observed.effective == {**inherited, f"config.{SESSION}": "50000"}
    assert (observed.live, observed.uid) == (None, None)
    assert is_unknown(cluster, f"{prefix}a")


BROKER_FORMS = [
    (SESSION, " 0050000 ", "50000"),
    (SESSION, "45000", "45000"),
    ("share.renew.acknowledge.enable", "TRUE", "true"),
    ("share.auto.offset.reset", "by_duration:PT1H", "by_duration:PT1H"),
    ("share.isolation.level", " read_committed", "read_committed"),
]


def test_group_configs_are_observed_in_broker_form(cluster: Cluster, prefix: str) -> None:
    for number, (config, given, shown) in enumerate(BROKER_FORMS):
        carry_out(cluster, AlterConfigs(group(f"{prefix}{number}"), {config: given}))
        wait_for_resource(cluster, group(f"{prefix}{number}"), {f"config.{config}": shown})


REFUSED = {
    "unknown": ("nonsense", "1"),
    "a topic's": ("retention.ms", "1000"),
    "people's units": (SESSION, "50s"),
    "no number": (SESSION, ""),
    "not one of the choices": ("share.isolation.level", "READ_COMMITTED"),
    "no place to start": ("share.auto.offset.reset", "Earliest"),
}


def test_invalid_group_config_refuses_whole_operation(cluster: Cluster, prefix: str) -> None:
    operations = [
        AlterConfigs(group(f"{prefix}{number}"), {name: value, "share.session.timeout.ms": "46000"})
        for number, (name, value) in enumerate(REFUSED.values())
    ]
    fine = AlterConfigs(group(f"{prefix}fine"), {"share.session.timeout.ms": "46000"})
    outcomes = cluster.execute([*operations, fine])
    assert dict(zip(REFUSED, list_codes(outcomes[:-1]), strict=True)) == dict.fromkeys(
        REFUSED, "INVALID_CONFIG"
    )
    assert outcomes[-1] is None
    wait_for_resource(cluster, group(f"{prefix}fine"), {"config.share.session.timeout.ms": "46000"})
    assert not {o.ref for o in operations} & cluster.observe([], kinds=[KIND]).inventory


def test_group_validation_matches_execution_and_changes_nothing(cluster: Cluster, prefix: str) -> None:
    operations: list[Operation] = [
        alter(group(f"{prefix}a"), consumer_session_timeout_ms="50000"),
        alter(group(f"{prefix}b"), nonsense="1"),
        CommitInitialOffsets(group(f"{prefix}c"), {f"{prefix}nowhere": "earliest"}),
        ResetOffsets(group(f"{prefix}d"), {(f"{prefix}nowhere", 0): 5}),
        DeleteGroup(group(f"{prefix}e")),
    ]
    assert list_codes(cluster.validate(operations)) == [None, "INVALID_CONFIG", None, None, None]
    carry_out(cluster, alter(group(f"{prefix}sentinel"), consumer_session_timeout_ms="50000"))
    wait_for_resource(cluster, group(f"{prefix}sentinel"), {f"config.{SESSION}": "50000"})
    there = cluster.observe([], kinds=[KIND]).inventory
    assert {ref for ref in there if ref.name.startswith(prefix)} == {group(f"{prefix}sentinel")}


STARTS = [
    ("earliest", 2, 2),
    ("latest", 12, 12),
    ("2001-09-09T01:46:40Z", 2, 2),
    ("2001-09-09T01:46:40.001Z", 5, 5),
    ("2004-11-09T11:33:20Z", 5, 5),
    ("2008-01-10T21:20:00Z", 9, 5),
    ("2008-01-10T21:20:00.001Z", 12, 5),
    ("1970-01-01T00:00:00Z", 2, 2),
    ("2999-01-01T00:00:00Z", 12, 12),
    ("2h ago", 12, 5),
    ("30m ago", 12, 9),
    ("99999d ago", 2, 2),
]
"""Where groups start, and the offsets in a log of three times long ago, and in one of ONE and late times.

Both logs begin at 2.
"""


def test_initial_offsets_stay_within_log(cluster: Cluster, traffic: Traffic, prefix: str) -> None:
    old, late, now = f"{prefix}a", f"{prefix}b", time.time_ns() // 1_000_000
    for name, times in ((old, (TWO, THREE)), (late, (now - 3_600_000, now))):
        write_logs(cluster, traffic, name, 5)
        for at_ms, records in zip(times, (4, 3), strict=True):
            traffic.write(name, 0, records, at_ms)
        traffic.expire(name, 0, 2)
    for number, (start, of_old, of_late) in enumerate(STARTS):
        reader = f"{prefix}{number}"
        carry_out(cluster, CommitInitialOffsets(group(reader), {old: start, late: start}))
        assert read_offsets(cluster, reader) == {(old, 0): of_old, (late, 0): of_late}, start


def test_group_with_offsets_only_is_empty(cluster: Cluster, traffic: Traffic, prefix: str) -> None:
    a, b, name = f"{prefix}a", f"{prefix}b", f"{prefix}g"
    write_logs(cluster, traffic, a, 5, 0)
    write_logs(cluster, traffic, b, 7)
    carry_out(cluster, CommitInitialOffsets(group(name), {a: "latest", b: "earliest"}))
    carry_out(cluster, alter(group(name), consumer_session_timeout_ms="50000"))
    observed = wait_for_resource(
        cluster,
        group(name),
        {
            f"config.{SESSION}": "50000",
            f"offsets.{a}": "committed",
            f"offsets.{a}:0": 5,
            f"offsets.{a}:1": 0,
            f"offsets.{b}": "committed",
            f"offsets.{b}:0": 0,
        },
    )
    known = get_group(observed)
    assert known is not None
    assert (known.state, known.protocol) == ("Empty", "classic")
    assert not known.active
    assert not known.members
    assert not known.unread
    assert known.topics == {a, b}


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_initial_offsets_keep_committed_ones(
    cluster: Cluster, traffic: Traffic, prefix: str, start: str
) -> None:
    name, second = f"{prefix}a", f"{prefix}b"
    write_logs(cluster, traffic, name, 5)
    write_logs(cluster, traffic, second, 6)
    traffic.commit(name, {(name, 0): 3})
    carry_out(cluster, AddPartitions(topic(name), 1, 2))
    eventually(lambda: cluster.partition_counts([name]), lambda counts: counts == {name: 2})
    carry_out(cluster, CommitInitialOffsets(group(name), {name: start, second: start}))
    first = 6 if start == "latest" else 0
    assert read_offsets(cluster, name) == {(name, 0): 3, (name, 1): 0, (second, 0): first}


def test_initial_offsets_in_missing_topic_are_refused(
    cluster: Cluster, traffic: Traffic, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_writer, "SETTLE_TIMEOUT_S", 0.3)
    name, missing = f"{prefix}a", f"{prefix}missing"
    write_logs(cluster, traffic, name, 5)
    operation = CommitInitialOffsets(group(name), {name: "latest", missing: "earliest"})
    (refusal,) = cluster.execute([operation])
    assert list_codes([refusal]) == ["UNKNOWN_TOPIC_OR_PART"]
    assert refusal is not None
    assert missing in refusal.message
    assert is_unknown(cluster, name)
    assert topic(missing) not in cluster.observe([], kinds=["Topic"]).inventory


def test_offset_reset_keeps_other_offsets(cluster: Cluster, traffic: Traffic, prefix: str) -> None:
    name = f"{prefix}a"
    write_logs(cluster, traffic, name, 9, 9, 9, 9)
    traffic.expire(name, 0, 4)
    traffic.commit(name, {(name, 0): 6, (name, 1): 6, (name, 3): 6})
    carry_out(cluster, ResetOffsets(group(name), {(name, 0): 4, (name, 1): 9, (name, 2): 5}))
    assert read_offsets(cluster, name) == {(name, 0): 4, (name, 1): 9, (name, 2): 5, (name, 3): 6}
    carry_out(cluster, ResetOffsets(group(f"{prefix}new"), {(name, 0): 4}))
    assert read_offsets(cluster, f"{prefix}new") == {(name, 0): 4}


def test_offset_reset_outside_log_is_refused_whole(cluster: Cluster, traffic: Traffic, prefix: str) -> None:
    name = f"{prefix}a"
    write_logs(cluster, traffic, name, 9, 0)
    traffic.expire(name, 0, 4)
    before = {(name, 0): 6, (name, 1): 0}
    traffic.commit(name, before)
    for partition, offset in ((0, 3), (0, 10), (0, -1), (1, 1), (2, 0)):
        wanted = {(name, 0): 5, (name, 1): 0} | {(name, partition): offset}
        (refusal,) = cluster.execute([ResetOffsets(group(name), wanted)])
        assert list_codes([refusal]) == ["OFFSET_OUT_OF_RANGE"]
        assert f"{name}:{partition}" in str(refusal)
    assert read_offsets(cluster, name) == before


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_active_group_is_not_changed(cluster: Cluster, traffic: Traffic, prefix: str, protocol: str) -> None:
    name, second = f"{prefix}a", f"{prefix}b"
    write_logs(cluster, traffic, name, 9)
    write_logs(cluster, traffic, second, 9)
    traffic.commit(name, {(name, 0): 4})
    carry_out(cluster, alter(group(name), consumer_session_timeout_ms="50000"))
    operations: list[Operation] = [
        CommitInitialOffsets(group(name), {second: "latest"}),
        ResetOffsets(group(name), {(name, 0): 2}),
        DeleteGroup(group(name), configs=(SESSION,)),
    ]
    with traffic.reading(name, name, protocol=protocol):
        for operation in operations:
            (refusal,) = cluster.execute([operation])
            assert list_codes([refusal]) == ["NON_EMPTY_GROUP"]
        seen = cluster.groups([name]).groups[name]
        assert (seen.protocol, seen.state, seen.active) == (protocol, "Stable", True)
        assert seen.committed == {(name, 0): 4}
    eventually(lambda: cluster.groups([name]).groups[name].active, lambda active: not active)
    assert cluster.groups([name]).groups[name].protocol == protocol
    for operation in operations[:2]:
        carry_out(cluster, operation)
    state: State = {f"config.{SESSION}": "50000", f"offsets.{name}": "committed", f"offsets.{name}:0": 2}
    wait_for_resource(
        cluster, group(name), {**state, f"offsets.{second}": "committed", f"offsets.{second}:0": 9}
    )
    carry_out(cluster, operations[2])
    wait_until_gone(cluster, group(name))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_and_lag_are_read(cluster: Cluster, traffic: Traffic, prefix: str, protocol: str) -> None:
    name, second = f"{prefix}a", f"{prefix}b"
    write_logs(cluster, traffic, name, 9, 5)
    write_logs(cluster, traffic, second, 20, 0)
    traffic.expire(name, 0, 2)
    # Brokers take a commit beyond the end of the log; lag is never negative.
    traffic.commit(name, {(name, 0): 4, (second, 0): 7, (second, 1): 100})
    with traffic.reading(name, name, members=3, protocol=protocol):
        seen = cluster.groups([name]).groups[name]
    assert seen.name == name
    assert len({member.id for member in seen.members}) == 3
    assert sorted(sorted(member.assignment) for member in seen.members) == [[], [(name, 0)], [(name, 1)]]
    assert len(seen.idle_members) == 1
    assert all(member.host and member.client_id for member in seen.members)
    assert seen.assignor == {"classic": "range", "consumer": "uniform"}[protocol]
    assert (seen.protocol_type, seen.unread) == ("consumer", "")
    assert [(p.topic, p.partition, p.committed, p.start, p.end, p.lag) for p in seen.positions] == [
        *((name, 0, 4, 2, 9, 5), (name, 1, None, 0, 5, None)),
        *((second, 0, 7, 0, 20, 13), (second, 1, 100, 0, 0, 0)),
    ]
    assert seen.lag == 18


def test_groups_are_read_by_name_or_all(cluster: Cluster, traffic: Traffic, prefix: str) -> None:
    a, b = f"{prefix}a", f"{prefix}b"
    write_logs(cluster, traffic, a, 1)
    for name in (a, b):
        traffic.commit(name, {(a, 0): 1})
    assert cluster.groups([b, f"{prefix}missing", ""]).groups.keys() == {b}
    assert {name for name in cluster.groups().groups if name.startswith(prefix)} == {a, b}
    assert cluster.groups([]).groups == {}


def test_group_deletion_keeps_configs_not_listed(cluster: Cluster, traffic: Traffic, prefix: str) -> None:
    name = f"{prefix}a"
    write_logs(cluster, traffic, name, 9)
    traffic.commit(name, {(name, 0): 4})
    configs = {"consumer_session_timeout_ms": "50000", "consumer_heartbeat_interval_ms": "6000"}
    carry_out(cluster, alter(group(name), **configs))
    carry_out(cluster, DeleteGroup(group(name), configs=(SESSION,)))
    assert wait_for_resource(cluster, group(name), {f"config.{HEARTBEAT}": "6000"}).live is None
    for _ in range(2):
        carry_out(cluster, DeleteGroup(group(name), configs=(HEARTBEAT,)))
        wait_until_gone(cluster, group(name))
    traffic.commit(name, {(name, 0): 1})
    assert read_offsets(cluster, name) == {(name, 0): 1}


def test_offsets_of_topic_are_deleted_in_idle_groups(cluster: Cluster, traffic: Traffic, prefix: str) -> None:
    name, second, busy = f"{prefix}a", f"{prefix}b", f"{prefix}g2"
    write_logs(cluster, traffic, name, 9, 9)
    write_logs(cluster, traffic, second, 9)
    traffic.commit(f"{prefix}g", {(name, 0): 3, (name, 1): 9, (second, 0): 4})
    with traffic.reading(busy, name):
        eventually(lambda: cluster.groups([busy]), lambda reading: reading.groups[busy].topics == {name})
        (error,) = cluster.execute([DeleteOffsets(topic(name))])
        assert error is not None
        assert f"{name} is read by {busy} (1 member)" in error.message
    eventually(lambda: cluster.groups([busy]), lambda reading: not reading.groups[busy].active)
    carry_out(cluster, DeleteOffsets(topic(name)))
    eventually(lambda: read_offsets(cluster, f"{prefix}g"), lambda offsets: offsets == {(second, 0): 4})
    carry_out(cluster, DeleteOffsets(topic(name)))


def test_topic_deletion_removes_committed_offsets(cluster: Cluster, traffic: Traffic, prefix: str) -> None:
    a, b, name = f"{prefix}a", f"{prefix}b", f"{prefix}g"
    (doomed,) = create_topics(cluster, new_topic(a))
    write_logs(cluster, traffic, b, 9)
    traffic.commit(name, {(a, 0): 0, (b, 0): 4})
    traffic.commit(f"{name}2", {(a, 0): 0})
    carry_out(cluster, DeleteTopic(doomed.ref, doomed.uid))
    wait_until_gone(cluster, topic(a))
    eventually(lambda: read_offsets(cluster, name), lambda offsets: offsets == {(b, 0): 4})
    eventually(lambda: read_offsets(cluster, f"{name}2"), lambda offsets: offsets == {})
    assert wait_for_resource(cluster, group(f"{name}2"), {}).live is not None


def test_mixed_operations_have_individual_outcomes_in_order(
    cluster: Cluster, traffic: Traffic, prefix: str
) -> None:
    name = f"{prefix}a"
    write_logs(cluster, traffic, name, 9)
    for number in (1, 2, 5):
        traffic.commit(f"{prefix}{number}", {(name, 0): 4})
    operations: list[Operation] = [
        ResetOffsets(group(f"{prefix}1"), {(name, 0): 99}),
        ResetOffsets(group(f"{prefix}2"), {(name, 0): 1}),
        CommitInitialOffsets(group(f"{prefix}3"), {name: "latest"}),
        alter(group(f"{prefix}4"), nonsense="1"),
        DeleteGroup(group(f"{prefix}5")),
        DeleteGroup(group(f"{prefix}6")),
        alter(group(f"{prefix}7"), consumer_session_timeout_ms="50000"),
    ]
    expected = ["OFFSET_OUT_OF_RANGE", None, None, "INVALID_CONFIG", None, None, None]
    assert list_codes(cluster.execute(operations)) == expected
    groups = cluster.groups().groups
    there = {key: value.committed[name, 0] for key, value in groups.items() if key.startswith(prefix)}
    assert there == {f"{prefix}1": 4, f"{prefix}2": 1, f"{prefix}3": 9}
    wait_for_resource(cluster, group(f"{prefix}7"), {f"config.{SESSION}": "50000"})


def test_log_spans_and_offsets_by_time_are_read(cluster: Cluster, traffic: Traffic, prefix: str) -> None:
    name = f"{prefix}a"
    write_logs(cluster, traffic, name, 5, 0)
    traffic.write(name, 0, 4, TWO)
    traffic.expire(name, 0, 2)
    here = [(name, 0), (name, 1)]
    asked = [*here, (name, 2), (f"{prefix}missing", 0)]
    assert cluster.log_spans(asked) == {(name, 0): LogSpan(2, 9), (name, 1): LogSpan(0, 0)}
    for at_ms, first in ((0, 2), (ONE, 2), (ONE + 1, 5), (TWO, 5), (TWO + 1, 9)):
        expected = {(name, 0): LogSpan(2, 9, first), (name, 1): LogSpan(0, 0, 0)}
        assert cluster.log_spans(here, at_ms) == expected
    assert cluster.log_spans([]) == {}
    times = (0, ONE + 1, TWO + 1)
    found = [cluster.offsets_at(dict.fromkeys(asked, at_ms)) for at_ms in times]
    assert found == [{(name, 0): TimedOffset(2, ONE)}, {(name, 0): TimedOffset(5, TWO)}, {}]
    assert cluster.offsets_at({}) == {}
    for at_ms in (TWO, ONE, THREE, TWO):  # times need not rise along a log
        traffic.write(name, 1, 2, at_ms)
    unordered = {at_ms: cluster.log_spans([(name, 1)], at_ms)[name, 1].at for at_ms in (ONE, TWO, THREE)}
    assert unordered == {ONE: 0, TWO: 0, THREE: 4}
    assert topic(f"{prefix}missing") not in cluster.observe([], kinds=["Topic"]).inventory


def test_open_transactions_limit_committed_log_spans(cluster: Cluster, traffic: Traffic, prefix: str) -> None:
    name = f"{prefix}a"
    write_logs(cluster, traffic, name, 5, 5)
    asked = [(name, 1), (name, 0), (name, 7), (f"{prefix}missing", 0)]
    assert cluster.open_transactions(asked) == TransactionReading()
    assert cluster.transactional(asked) == {(name, 0): False, (name, 1): False}
    with traffic.transaction(name, 0, 3):
        assert cluster.transactional(asked) == {(name, 0): True, (name, 1): False}
        reading = cluster.open_transactions(asked)
        (transaction,) = reading.transactions
        assert (transaction.partition, transaction.start, transaction.end) == ((name, 0), 5, 8)
        assert (transaction.transactional_id, transaction.coordinated) == (name, True)
        assert transaction.timeout_ms == 60_000
        assert 0 <= transaction.age_ms < 60_000
        assert transaction.producer is not None
        assert not transaction.is_hanging
        assert reading.unread == ""
        assert cluster.open_transactions([(name, 1)]) == TransactionReading()
        here = [(name, 0)]
        assert cluster.log_spans(here) == {(name, 0): LogSpan(0, 8)}
        assert cluster.log_spans(here, committed=True) == {(name, 0): LogSpan(0, 5)}
        assert cluster.log_spans(here, ONE, committed=True) == {(name, 0): LogSpan(0, 5, 0)}
        assert cluster.log_spans(here, TWO, committed=True) == {(name, 0): LogSpan(0, 5, 5)}
    eventually(lambda: cluster.open_transactions(asked), lambda reading: reading == TransactionReading())
    decided = {(name, 0): LogSpan(0, 9)}  # a marker tells that the transaction was committed
    eventually(lambda: cluster.log_spans(here, committed=True), lambda spans: spans == decided)
    assert cluster.transactional(asked) == {(name, 0): True, (name, 1): False}, "its marker is remembered"


def test_idempotent_and_transactional_producers_are_remembered(
    cluster: Cluster, traffic: Traffic, prefix: str
) -> None:
    name = f"{prefix}a"
    write_logs(cluster, traffic, name, 5, 5)
    asked = [(name, 1), (name, 0)]
    assert cluster.producers(asked) == ProducerReading()
    traffic.write(name, 1, 2, TWO, producer=7)
    with traffic.transaction(name, 0, 3):
        reading = cluster.producers(asked)
    assert reading.unread == ""
    assert [(p.partition, p.written_ms, p.sequence, p.transactional_id) for p in reading.producers] == [
        ((name, 0), ONE, 2, name),
        ((name, 1), TWO, 1, None),
    ]
    assert [producer.coordinator is None for producer in reading.producers] == [False, True]


def test_sizes_of_partitions_add_up(cluster: Cluster, traffic: Traffic, prefix: str) -> None:
    name = f"{prefix}a"
    write_logs(cluster, traffic, name, 9, 0)
    if isinstance(cluster, MemoryCluster):
        cluster.fill(topic(name), 101)
    asked = [(name, 0), (name, 1), (name, 2), (f"{prefix}missing", 0)]
    seen = cluster.observe([topic(name)]).resources.values()
    sizes = cluster.partition_sizes(asked)
    assert sizes.keys() == {(name, 0), (name, 1)}
    assert sizes[name, 0] > sizes[name, 1] >= 0
    assert cluster.sizes(seen) == {topic(name): DataSize(sum(sizes.values()), 2)}
    assert topic(f"{prefix}missing") not in cluster.observe([], kinds=["Topic"]).inventory


def test_epoch_ends_ids_and_partition_counts_are_read(
    cluster: Cluster, traffic: Traffic, prefix: str
) -> None:
    """No leader has changed: all records are of its epoch."""
    name = f"{prefix}a"
    write_logs(cluster, traffic, name, 5, 2)
    spans = cluster.log_spans([(name, 0), (name, 1)])
    epochs = {place: span.epoch for place, span in spans.items() if span.epoch is not None}
    assert epochs.keys() == spans.keys()
    assert cluster.epoch_ends({**epochs, (f"{prefix}missing", 0): 0}) == {(name, 0): 5, (name, 1): 2}
    assert cluster.epoch_ends({}) == {}
    (observed,) = cluster.observe([topic(name)]).resources.values()
    assert cluster.topic_ids([name, f"{prefix}missing"]) == {name: observed.uid}
    assert cluster.partition_counts([name, f"{prefix}missing"]) == {name: 2}
    assert cluster.partition_counts([]) == {}
    assert topic(f"{prefix}missing") not in cluster.observe([], kinds=["Topic"]).inventory


def test_healthy_cluster_is_reported(cluster: Cluster, prefix: str) -> None:
    create_topics(cluster, new_topic(f"{prefix}a", 2), new_topic(f"{prefix}b", min_insync_replicas="2"))
    health = cluster.health()
    alive = {broker.id for broker in health.brokers}
    assert health.brokers == cluster.facts().brokers
    assert health.cluster_id == cluster.facts().cluster_id
    assert health.controller is not None
    assert {log_dir.broker for log_dir in health.log_dirs} == alive
    assert all(0 <= log_dir.usable <= (log_dir.total or 0) for log_dir in health.log_dirs)
    mine = [p for p in health.partitions if p.topic.startswith(prefix)]
    assert [(p.topic, p.partition) for p in mine] == [(f"{prefix}a", 0), (f"{prefix}a", 1), (f"{prefix}b", 0)]
    for partition in mine:
        assert partition.leader in alive
        assert partition.leader == partition.replicas[0]
        assert set(partition.isr) == set(partition.replicas) <= alive
    assert health.min_insync_replicas[f"{prefix}a"] == 1
    assert health.min_insync_replicas[f"{prefix}b"] == 2
    assert health.quorum is not None
    assert health.quorum.leader in {voter.id for voter in health.quorum.voters}
    assert health.reassigning == {}
    assert not health.unread

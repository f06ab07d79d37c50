from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from kafkaform.kafka_configs import (
    REASSIGNMENT_KEYS,
    RETIRED_KEYS,
    ConfigType,
    canonical,
    cluster_defaults,
    consumer_configs,
    equal,
    group_configs,
    is_vendor,
    kafka_version,
    observed,
    refused_by_client,
    topic_configs,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

RETENTION = "retention.ms"


def test_what_is_known() -> None:
    topics, groups = topic_configs(), group_configs()
    assert kafka_version() == "4.3.1"
    assert topics.keys() >= REASSIGNMENT_KEYS | {"retention.ms", "cleanup.policy", "remote.storage.enable"}
    assert {name for name, key in topics.items() if key.internal} == {"internal.segment.bytes"}
    assert {"consumer.session.timeout.ms", "share.auto.offset.reset", "streams.num.standby.replicas"} <= set(
        groups
    )
    assert all(name == key.name and key.documentation for name, key in {**topics, **groups}.items())
    assert not RETIRED_KEYS & topics.keys()


def test_limits_of_a_key() -> None:
    topics = topic_configs()
    assert (topics[RETENTION].minimum, topics[RETENTION].maximum) == (-1, None)
    assert topics["compression.gzip.level"].ranges == ((-1, -1), (1, 9))
    assert topics["compression.type"].type is ConfigType.STRING
    assert "zstd" in topics["compression.type"].valid_values
    assert [s.factor for s in topics[RETENTION].synonyms] == [1, 60_000, 3_600_000]


def test_what_is_known_of_consumers() -> None:
    consumers = consumer_configs()
    assert {"group.id", "max.poll.records", "share.acquire.mode", "ssl.keystore.location"} <= consumers.keys()
    assert {name for name, key in consumers.items() if key.internal} == {
        "internal.throw.on.fetch.stable.offset.unsupported"
    }
    assert all(name == key.name for name, key in consumers.items())
    assert all(key.documentation for key in consumers.values() if not key.internal)
    assert consumers["max.poll.records"].default == "500"
    assert consumers["partition.assignment.strategy"].default == (
        "org.apache.kafka.clients.consumer.RangeAssignor,"
        "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    )
    assert consumers["isolation.level"].valid_values == ("read_committed", "read_uncommitted")


def test_every_default_of_a_consumer_is_canonical() -> None:
    for name, key in consumer_configs().items():
        if key.default is not None:
            assert canonical(key, key.default) == key.default, name


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max.poll.interval.ms", "5m", "300000"),
        ("fetch.max.bytes", "5MiB", "5242880"),
        ("group.protocol", "CONSUMER", "consumer"),
        ("security.protocol", "sasl_ssl", "SASL_SSL"),
        ("share.acquire.mode", "record_limit", "RECORD_LIMIT"),
        ("auto.offset.reset", "by_duration:PT6H", "by_duration:PT6H"),
        ("auto.offset.reset", "none", "none"),
        ("partition.assignment.strategy", "range , a.B", "range,a.B"),
        ("sasl.login.refresh.window.factor", "0.50", "0.5"),
    ],
)
def test_values_of_consumer_configs(name: str, text: str, value: str) -> None:
    assert canonical(consumer_configs()[name], text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("auto.offset.reset", "EARLIEST"),
        ("auto.offset.reset", "by_duration:6h"),
        ("group.instance.id", ""),
        ("isolation.level", "READ_COMMITTED"),
        ("group.protocol", "share"),
        ("max.poll.records", "0"),
        ("sasl.login.refresh.window.factor", "0.4"),
    ],
)
def test_values_that_a_consumer_refuses(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: "):
        canonical(consumer_configs()[name], text)


def test_what_clients_refuse() -> None:
    assert refused_by_client("consumer") >= {
        "partition.assignment.strategy",
        "session.timeout.ms",
        "heartbeat.interval.ms",
    }
    assert "group.remote.assignor" in refused_by_client("classic")
    assert {"group.protocol", "auto.offset.reset"} <= refused_by_client("share")
    assert refused_by_client("streams") == frozenset()
    known = consumer_configs().keys()
    assert all(refused_by_client(protocol) <= known for protocol in ("classic", "consumer", "share"))


@pytest.mark.parametrize(
    ("known", "name", "since"),
    [
        (topic_configs, "retention.ms", None),
        (topic_configs, "message.timestamp.before.max.ms", "3.6"),
        (topic_configs, "compression.zstd.level", "3.8"),
        (topic_configs, "remote.log.copy.disable", "3.9"),
        (group_configs, "consumer.session.timeout.ms", "4.0"),
        (group_configs, "share.record.lock.duration.ms", "4.0"),
        (group_configs, "share.isolation.level", "4.1"),
        (group_configs, "streams.num.standby.replicas", "4.1"),
        (group_configs, "share.delivery.count.limit", "4.3"),
        (consumer_configs, "max.poll.records", None),
        (consumer_configs, "group.protocol", "3.7"),
        (consumer_configs, "share.acquire.mode", "4.2"),
    ],
)
def test_since_which_version_a_config_exists(known: Any, name: str, since: str | None) -> None:
    assert known()[name].since == since


def test_knowledge_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        topic_configs()["x"] = topic_configs()[RETENTION]  # type: ignore[index]


@pytest.mark.parametrize(
    "name",
    [
        "confluent.tier.enable",
        "redpanda.remote.write",
        "retention.local.target.bytes",
        "remote.log.msk.disable.policy",
        "warpstream.compression.type.fetch",
        "automq.table.topic.enable",
        "bufstream.archive.kind",
        "diskless.enable",
    ],
)
def test_vendor_keys(name: str) -> None:
    assert is_vendor(name)


def test_no_key_of_kafka_is_a_vendor_key() -> None:
    assert not [name for name in topic_configs() if is_vendor(name)]
    assert not is_vendor("retention.mss")


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        ({}, "604800000"),
        ({"log.retention.hours": "168"}, "604800000"),
        (
            {"log.retention.hours": "168", "log.retention.minutes": None, "log.retention.ms": None},
            "604800000",
        ),
        ({"log.retention.hours": "168", "log.retention.minutes": "90"}, "5400000"),
        ({"log.retention.hours": "168", "log.retention.minutes": "90", "log.retention.ms": "1000"}, "1000"),
        ({"log.retention.hours": "-1"}, "-1"),
        ({"log.retention.ms": "-1", "log.retention.hours": "168"}, "-1"),
    ],
)
def test_first_synonym_that_is_set_wins(broker: dict[str, str | None], expected: str) -> None:
    assert cluster_defaults(broker)[RETENTION] == expected


def test_defaults_are_canonical_and_leave_internal_keys_out() -> None:
    defaults = cluster_defaults(
        {"log.cleanup.policy": "delete, compact", "log.cleaner.min.cleanable.ratio": "0.50"}
    )
    assert defaults["cleanup.policy"] == "compact,delete"
    assert defaults["min.cleanable.dirty.ratio"] == "0.5"
    assert defaults["remote.storage.enable"] == "false"
    assert defaults.keys() == {name for name, key in topic_configs().items() if not key.internal}


class Admin:
    """Configs of a topic of one's own on a real broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.client = AdminClient({"bootstrap.servers": bootstrap_servers})
        self.topic = f"cfg-{uuid.uuid4().hex[:8]}"

    def describe(self, kind: ResourceType, name: str) -> dict[str, Any]:
        resource = ConfigResource(kind, name)
        deadline = time.monotonic() + 60
        while True:
            try:
                described: dict[str, Any] = self.client.describe_configs([resource])[resource].result(20)
            except KafkaException as error:  # a broker with much to do hears of a new topic late
                if error.args[0].name() != "UNKNOWN_TOPIC_OR_PART" or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return described

    def set(self, name: str, value: str, *, validate_only: bool = False) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=[entry])
        answers = self.client.incremental_alter_configs([resource], validate_only=validate_only)
        answers[resource].result(timeout=20)

    def refuses(self, name: str, value: str) -> bool:
        try:
            self.set(name, value, validate_only=True)
        except KafkaException as error:
            return bool(error.args[0].name() == "INVALID_CONFIG")
        return False

    def settled(self, names: Iterable[str]) -> dict[str, str]:
        """The topic's values, once every one of these is its own: reads lag writes."""
        deadline = time.monotonic() + 60
        while True:
            live = self.describe(ResourceType.TOPIC, self.topic)
            if all(live[name].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value for name in names):
                return {name: entry.value for name, entry in live.items()}
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.fixture(scope="module")
def admin(kafka: Any) -> Iterator[Admin]:
    admin = Admin(kafka.bootstrap_servers)
    admin.client.create_topics([NewTopic(admin.topic, 1, 1)])[admin.topic].result(timeout=20)
    yield admin
    admin.client.delete_topics([admin.topic])[admin.topic].result(timeout=20)


@pytest.mark.kafka
def test_defaults_are_those_of_a_real_broker(admin: Admin) -> None:
    live = admin.describe(ResourceType.TOPIC, admin.topic)
    broker = admin.describe(
        ResourceType.BROKER, str(next(iter(admin.client.list_topics(timeout=20).brokers)))
    )
    defaults = cluster_defaults({name: entry.value for name, entry in broker.items()})
    assert {
        name: observed(topic_configs().get(name), entry.value) for name, entry in live.items()
    } == defaults


ACCEPTED = [
    ("cleanup.policy", "delete , compact"),
    ("cleanup.policy", "delete,delete"),
    ("cleanup.policy", ""),
    ("retention.ms", " +007 "),
    ("retention.bytes", "-5"),
    ("local.retention.ms", "-2"),
    ("flush.ms", "9223372036854775807"),
    ("min.cleanable.dirty.ratio", "5e-1"),
    ("min.cleanable.dirty.ratio", ".5"),
    ("min.cleanable.dirty.ratio", "0.10000000000000001"),
    ("min.cleanable.dirty.ratio", "1E-7"),
    ("preallocate", " TRUE "),
    ("compression.type", " gzip "),
    ("compression.gzip.level", "-1"),
    ("leader.replication.throttled.replicas", "1:2, 0:1"),
    ("leader.replication.throttled.replicas", "*"),
]


@pytest.mark.kafka
def test_spellings_that_a_real_broker_takes_are_read_as_it_reads_them(admin: Admin) -> None:
    assert [pair for pair in ACCEPTED if admin.refuses(*pair)] == []
    for name, value in dict(ACCEPTED).items():
        admin.set(name, value)
    live = admin.settled(dict(ACCEPTED).keys())
    for name, value in dict(ACCEPTED).items():
        assert equal(topic_configs()[name], live[name], value), name


@pytest.mark.kafka
@pytest.mark.parametrize("kind", ["below", "at least", "at most", "above"])
def test_limits_are_those_of_a_real_broker(admin: Admin, kind: str) -> None:
    type_limits = {ConfigType.INT: 2**31, ConfigType.LONG: 2**63}
    for name, key in topic_configs().items():
        if key.type not in type_limits or key.internal:
            continue
        least = -type_limits[key.type] if key.minimum is None else key.minimum
        greatest = type_limits[key.type] - 1 if key.maximum is None else key.maximum
        number = {"below": least - 1, "at least": least, "at most": greatest, "above": greatest + 1}[kind]
        assert admin.refuses(name, str(number)) is (kind in {"below", "above"}), name
        if kind in {"below", "above"}:
            with pytest.raises(ValueError, match=kind):
                canonical(key, str(number))
        else:
            assert canonical(key, str(number)) == str(number)


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "DELETE"),
        ("cleanup.policy", "delete,"),
        ("compression.type", "GZIP"),
        ("compression.type", ""),
        ("compression.gzip.level", "0"),
        ("preallocate", "yes"),
        ("retention.ms", ""),
        ("retention.ms", "1_000"),
        ("retention.ms", "1\u00a0"),
        ("leader.replication.throttled.replicas", "a"),
    ],
)
def test_what_is_refused_here_a_real_broker_refuses(admin: Admin, name: str, value: str) -> None:
    assert admin.refuses(name, value)
    with pytest.raises(ValueError, match=f"^{name}: "):
        canonical(topic_configs()[name], value)

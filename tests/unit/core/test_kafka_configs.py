from __future__ import annotations

from typing import Any

import pytest

from kafkaform.core.kafka_configs import (
    REASSIGNMENT_KEYS,
    ConfigType,
    canonical,
    cluster_defaults,
    consumer_configs,
    group_configs,
    is_vendor,
    kafka_version,
    retired_configs,
    topic_configs,
)

RETENTION = "retention.ms"


def test_keys_of_topics_and_groups_are_complete() -> None:
    topics, groups = topic_configs(), group_configs()
    assert kafka_version() == "4.3.1"
    assert topics.keys() >= REASSIGNMENT_KEYS | {"retention.ms", "cleanup.policy", "remote.storage.enable"}
    assert {name for name, key in topics.items() if key.internal} == {"internal.segment.bytes"}
    sessions = {"consumer.session.timeout.ms", "share.auto.offset.reset", "streams.num.standby.replicas"}
    assert groups.keys() >= sessions
    assert all(name == key.name and key.documentation for name, key in {**topics, **groups}.items())


@pytest.mark.parametrize(
    ("kind", "known", "names"),
    [
        ("topics", topic_configs, ("downconversion.enable", "format.version", "timestamp.difference.max.ms")),
        ("consumers", consumer_configs, ("auto.include.jmx.reporter",)),
    ],
)
def test_retired_configs_are_separate(kind: str, known: Any, names: tuple[str, ...]) -> None:
    retired = {name.removeprefix("message."): key.retired for name, key in retired_configs(kind).items()}
    assert retired == dict.fromkeys(names, "4.0")
    assert not retired_configs(kind).keys() & known().keys()


def test_keys_have_limits_and_canonical_defaults() -> None:
    topics = topic_configs()
    assert (topics[RETENTION].minimum, topics[RETENTION].maximum) == (-1, None)
    assert topics["compression.gzip.level"].ranges == ((-1, -1), (1, 9))
    assert topics["compression.type"].type is ConfigType.STRING
    assert "zstd" in topics["compression.type"].valid_values
    assert [s.factor for s in topics[RETENTION].synonyms] == [1, 60_000, 3_600_000]
    for name, key in consumer_configs().items():
        if key.default is not None:
            assert canonical(key, key.default) == key.default, name


def test_consumer_configs_are_complete() -> None:
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
def test_consumer_values_become_canonical(name: str, text: str, value: str) -> None:
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
def test_invalid_consumer_values_are_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: "):
        canonical(consumer_configs()[name], text)


@pytest.mark.parametrize(
    ("known", "name", "since"),
    [
        (topic_configs, "retention.ms", None),
        (group_configs, "consumer.session.timeout.ms", "4.0"),
        (group_configs, "share.delivery.count.limit", "4.3"),
        (consumer_configs, "share.acquire.mode", "4.2"),
    ],
)
def test_config_has_its_first_version(known: Any, name: str, since: str | None) -> None:
    assert known()[name].since == since


def test_defaults_are_immutable_and_canonical() -> None:
    with pytest.raises(TypeError):
        topic_configs()["x"] = topic_configs()[RETENTION]  # type: ignore[index]
    assert not [name for name in (*topic_configs(), "retention.mss") if is_vendor(name)]
    broker = {"log.cleanup.policy": "delete, compact", "log.cleaner.min.cleanable.ratio": "0.50"}
    defaults = cluster_defaults(broker)
    assert (defaults["cleanup.policy"], defaults["min.cleanable.dirty.ratio"]) == ("compact,delete", "0.5")
    assert defaults["remote.storage.enable"] == "false"
    assert defaults.keys() == {name for name, key in topic_configs().items() if not key.internal}


def test_retired_config_has_default_only_if_broker_has() -> None:
    defaults = cluster_defaults({"log.message.timestamp.difference.max.ms": "1000"})
    assert defaults["message.timestamp.difference.max.ms"] == "1000"
    assert "message.format.version" not in defaults


@pytest.mark.parametrize(
    "name",
    [
        *("confluent.tier.enable", "redpanda.remote.write", "retention.local.target.bytes"),
        *("remote.log.msk.disable.policy", "warpstream.compression.type.fetch"),
        *("automq.table.topic.enable", "bufstream.archive.kind", "diskless.enable"),
    ],
)
def test_vendor_keys_are_recognised_by_prefix(name: str) -> None:
    assert is_vendor(name)


@pytest.mark.parametrize(
    ("hours", "minutes", "milliseconds", "expected"),
    [
        (None, None, None, "604800000"),
        ("168", None, None, "604800000"),
        ("168", "90", None, "5400000"),
        ("168", "90", "1000", "1000"),
        ("-1", None, None, "-1"),
        ("168", None, "-1", "-1"),
    ],
)
def test_first_set_synonym_is_default(
    hours: str | None, minutes: str | None, milliseconds: str | None, expected: str
) -> None:
    units = {"hours": hours, "minutes": minutes, "ms": milliseconds}
    broker = {f"log.retention.{unit}": value for unit, value in units.items()}
    set_ones = {name: value for name, value in broker.items() if value is not None}
    for values in (broker, set_ones):
        assert cluster_defaults(values)[RETENTION] == expected

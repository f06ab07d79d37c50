import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from kafkaform.core import kafka_configs
from tests.support.clusters.fixtures import eventually
from tests.support.skew.producers import create_topic


class Admin:
    """Configs of a topic of one's own on a real broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.client = AdminClient({"bootstrap.servers": bootstrap_servers})
        self.topic = f"cfg-{uuid.uuid4().hex[:8]}"

    def describe(self, kind: ResourceType, name: str) -> dict[str, Any]:
        resource = ConfigResource(kind, name)
        described: dict[str, Any] = self.client.describe_configs([resource])[resource].result(20)
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

    def await_settled(self, names: Iterable[str]) -> dict[str, str]:
        """The topic's values, once every one of these is its own: reads lag writes."""
        source = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        live = eventually(
            lambda: self.describe(ResourceType.TOPIC, self.topic),
            lambda live: all(live[name].source == source for name in names),
        )
        return {name: entry.value for name, entry in live.items()}


@pytest.fixture(scope="module")
def admin(kafka: Any) -> Iterator[Admin]:
    admin = Admin(kafka.bootstrap_servers)
    create_topic(kafka.bootstrap_servers, admin.topic, 1)
    yield admin
    admin.client.delete_topics([admin.topic])[admin.topic].result(timeout=20)


def test_topic_config_defaults_match_broker(admin: Admin) -> None:
    live = admin.describe(ResourceType.TOPIC, admin.topic)
    broker = admin.describe(
        ResourceType.BROKER, str(next(iter(admin.client.list_topics(timeout=20).brokers)))
    )
    defaults = kafka_configs.cluster_defaults({name: entry.value for name, entry in broker.items()})
    assert {
        name: kafka_configs.normalise_observed(kafka_configs.topic_configs().get(name), entry.value)
        for name, entry in live.items()
    } == defaults


ACCEPTED = {
    "cleanup.policy": ("delete , compact", "delete,delete", ""),
    "retention.ms": (" +007 ",),
    "retention.bytes": ("-5",),
    "local.retention.ms": ("-2",),
    "flush.ms": ("9223372036854775807",),
    "min.cleanable.dirty.ratio": ("5e-1", ".5", "0.10000000000000001", "1E-7"),
    "preallocate": (" TRUE ",),
    "compression.type": (" gzip ",),
    "compression.gzip.level": ("-1",),
    "leader.replication.throttled.replicas": ("1:2, 0:1", "*"),
}


def test_config_spellings_are_parsed_as_by_brokers(admin: Admin) -> None:
    spellings = [(name, value) for name, values in ACCEPTED.items() for value in values]
    assert [pair for pair in spellings if admin.refuses(*pair)] == []
    for name, value in dict(spellings).items():
        admin.set(name, value)
    live = admin.await_settled(ACCEPTED)
    for name, value in dict(spellings).items():
        assert kafka_configs.equal(kafka_configs.topic_configs()[name], live[name], value), name


@pytest.mark.parametrize("kind", ["below", "at least", "at most", "above"])
def test_config_limits_match_broker(admin: Admin, kind: str) -> None:
    type_limits = {kafka_configs.ConfigType.INT: 2**31, kafka_configs.ConfigType.LONG: 2**63}
    for name, key in kafka_configs.topic_configs().items():
        if key.type not in type_limits or key.internal:
            continue
        least = -type_limits[key.type] if key.minimum is None else key.minimum
        greatest = type_limits[key.type] - 1 if key.maximum is None else key.maximum
        number = {"below": least - 1, "at least": least, "at most": greatest, "above": greatest + 1}[kind]
        assert admin.refuses(name, str(number)) is (kind in {"below", "above"}), name
        end, bound = (0, 0) if kind == "below" else (-1, 1)
        # What an earlier version accepts is no error: KF115 warns of it.
        if (
            key.ranges
            and key.ranges[end][bound] != key.newest_ranges[end][bound]
            and kind in {"below", "above"}
        ):
            assert kafka_configs.canonical(key, str(number)) == str(number)
        elif kind in {"below", "above"}:
            with pytest.raises(ValueError, match=kind):
                kafka_configs.canonical(key, str(number))
        else:
            assert kafka_configs.canonical(key, str(number)) == str(number)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("cleanup.policy", value) for value in ("DELETE", "delete,")),
        *(("compression.type", value) for value in ("GZIP", "")),
        *(("retention.ms", value) for value in ("", "1_000", "1\u00a0")),
        ("compression.gzip.level", "0"),
        ("preallocate", "yes"),
        ("leader.replication.throttled.replicas", "a"),
    ],
)
def test_refused_config_values_are_refused_by_broker(admin: Admin, name: str, value: str) -> None:
    assert admin.refuses(name, value)
    with pytest.raises(ValueError, match=f"^{name}: "):
        kafka_configs.canonical(kafka_configs.topic_configs()[name], value)

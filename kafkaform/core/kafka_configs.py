"""What Kafka knows of topic, group and consumer configs, and what a cluster makes of them.

The knowledge is read out of Kafka's own classes into `data/kafka_configs.json` (by
`scripts/generate_kafka_configs.py`) and loaded when it is first asked for. What can be done with one key
and its values is in `kafkaform.core.config_values`, and can be had from here too.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kafkaform.core.config_values import (
    ConfigKey,
    ConfigType,
    Range,
    Synonym,
    Unit,
    canonical,
    equal,
    human,
    observed,
    readable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "REASSIGNMENT_KEYS",
    "RETIRED_KEYS",
    "VENDOR_PREFIXES",
    "ConfigKey",
    "ConfigType",
    "Range",
    "Synonym",
    "Unit",
    "canonical",
    "cluster_defaults",
    "consumer_configs",
    "equal",
    "group_configs",
    "human",
    "is_vendor",
    "kafka_version",
    "observed",
    "readable",
    "refused_by_client",
    "topic_configs",
]

REASSIGNMENT_KEYS = frozenset(
    {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)
"""Topic configs that belong to a running reassignment, whoever started it, and never to a manifest."""

RETIRED_KEYS = frozenset(
    {"message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms"}
)
"""Topic configs that brokers of Kafka 3.x know and those of 4.x refuse."""

VENDOR_PREFIXES = (
    "automq.",
    "bufstream.",
    "confluent.",
    "inkless.",
    "redpanda.",
    "remote.log.msk.",
    "warpstream.",
)
"""What the topic configs of brokers other than Apache Kafka start with."""

# Aiven's `diskless.enable`; the others are Redpanda's own keys without its prefix.
_VENDOR_KEYS = frozenset(
    {
        "compaction.strategy",
        "diskless.enable",
        "flush.bytes",
        "initial.retention.local.target.bytes",
        "initial.retention.local.target.ms",
        "retention.local.target.bytes",
        "retention.local.target.ms",
        "write.caching",
    }
)


def is_vendor(name: str) -> bool:
    """Whether only a broker other than Apache Kafka can judge this topic config."""
    return name.startswith(VENDOR_PREFIXES) or name in _VENDOR_KEYS


def topic_configs() -> Mapping[str, ConfigKey]:
    """Every topic config of Apache Kafka by name, internal ones included."""
    return _keys("topics")


def group_configs() -> Mapping[str, ConfigKey]:
    """Every dynamic group config of Apache Kafka by name."""
    return _keys("groups")


def consumer_configs() -> Mapping[str, ConfigKey]:
    """Every config of Kafka's Java consumer by name, those of share consumers and internal ones included."""
    return _keys("consumers")


def refused_by_client(protocol: str) -> frozenset[str]:
    """The consumer configs with which a Java client does not start in a group of this protocol.

    Nothing is known of `streams`: Kafka Streams makes its own consumers.
    """
    return frozenset(_data()["refused_consumers"].get(protocol, ()))


def kafka_version() -> str:
    """The version of Apache Kafka that this knowledge is of."""
    return str(_data()["kafka_version"])


def cluster_defaults(broker_configs: Mapping[str, str | None]) -> dict[str, str | None]:
    """The value that a topic without one of its own has, for every topic config, in the topic config's unit.

    Args:
        broker_configs: The effective values of one broker's configs, by name, as DescribeConfigs gives them.
    """
    return {
        name: _inherited(key, broker_configs) for name, key in topic_configs().items() if not key.internal
    }


def _inherited(key: ConfigKey, broker_configs: Mapping[str, str | None]) -> str | None:
    for synonym in key.synonyms:
        value = broker_configs.get(synonym.name)
        if value is not None:
            return observed(key, value if synonym.factor == 1 else _converted(value, synonym.factor))
    return None if key.default is None else observed(key, key.default)


def _converted(value: str, factor: int) -> str:
    # Any negative time means no limit to a broker, which then reports -1, whatever the unit was.
    return str(max(-1, int(value) * factor))


@cache
def _keys(kind: str) -> Mapping[str, ConfigKey]:
    return MappingProxyType({name: _key(name, facts) for name, facts in _data()[kind].items()})


def _key(name: str, facts: Mapping[str, Any]) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=ConfigType(facts["type"]),
        default=facts.get("default"),
        ranges=tuple((least, greatest) for least, greatest in facts.get("ranges", ())),
        valid_values=tuple(facts.get("valid_values", ())),
        empty_allowed=facts.get("empty_allowed", False),
        ignores_case=facts.get("ignores_case", False),
        format=facts.get("format", ""),
        documentation=facts["documentation"],
        importance=facts["importance"],
        internal=facts.get("internal", False),
        deprecated=facts.get("deprecated", False),
        since=facts.get("since"),
        synonyms=tuple(Synonym(**synonym) for synonym in facts.get("synonyms", ())),
    )


@cache
def _data() -> Mapping[str, Any]:
    import json
    from importlib.resources import files  # 16 ms to import

    text = files("kafkaform.core").joinpath("data", "kafka_configs.json").read_text(encoding="utf-8")
    data: Mapping[str, Any] = json.loads(text)
    return data

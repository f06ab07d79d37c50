"""The catalogue of Kafka's topic, group and consumer configs, and a cluster's defaults of them.

`scripts/generate_kafka_configs.py` reads it out of Kafka's own classes into `data/kafka_configs.json`, which
is loaded on first use. The functions for one key and its values are in `kafkaform.core.config_values`, and
are exported here too.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
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
    normalise_observed,
    readable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "ASSIGNMENT",
    "ASSIGNORS",
    "DEFAULT_PROTOCOL",
    "PROTOCOL_PREFIXES",
    "REASSIGNMENT_KEYS",
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
    "find_topic_config",
    "group_configs",
    "human",
    "is_vendor",
    "kafka_version",
    "normalise_observed",
    "readable",
    "refused_by_client",
    "retired_configs",
    "topic_configs",
]

ASSIGNMENT = "partition.assignment.strategy"
ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
"""Kafka's own assignors: the name in a group by Java class."""

# `consumer` is the protocol of KIP-848, but clients have to ask for it, in Kafka 4.x as well.
DEFAULT_PROTOCOL = "classic"
"""The protocol of a group whose members do not set `group.protocol`."""

PROTOCOL_PREFIXES = {"consumer": "consumer.", "share": "share.", "streams": "streams."}
"""The prefix of the GROUP configs of a protocol; a classic group has none."""

# The throttle of KIP-73: a manifest that set one of these could end the throttle of a running reassignment.
REASSIGNMENT_KEYS = frozenset(
    {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)
"""Topic configs that belong to a running reassignment, and never to a manifest."""

VENDOR_PREFIXES = (
    "automq.",
    "bufstream.",
    "confluent.",
    "inkless.",
    "redpanda.",
    "remote.log.msk.",
    "warpstream.",
)
"""The prefixes of topic configs of brokers other than Apache Kafka."""

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
    """Return whether a topic config belongs to a broker other than Apache Kafka."""
    return name.startswith(VENDOR_PREFIXES) or name in _VENDOR_KEYS


def topic_configs() -> Mapping[str, ConfigKey]:
    """Return every topic config of Apache Kafka by name, internal ones included, retired ones not."""
    return _load_keys("topics")


def find_topic_config(name: str) -> ConfigKey | None:
    """Return a topic config of Apache Kafka, which may be a retired one."""
    return topic_configs().get(name) or retired_configs("topics").get(name)


def retired_configs(kind: str) -> Mapping[str, ConfigKey]:
    """Return the configs of `topics` or `consumers` that a supported version has, but not the newest."""
    return _load_keys(kind, retired=True)


def group_configs() -> Mapping[str, ConfigKey]:
    """Return every dynamic group config of Apache Kafka by name."""
    return _load_keys("groups")


def consumer_configs() -> Mapping[str, ConfigKey]:
    """Return every config of Kafka's Java consumer by name, including share consumers' and internal ones."""
    return _load_keys("consumers")


def refused_by_client(protocol: str) -> frozenset[str]:
    """Return the consumer configs that keep a Java client of this protocol from starting.

    There are none for `streams`: Kafka Streams creates its own consumers.
    """
    return frozenset(_load_data()["refused_consumers"].get(protocol, ()))


def kafka_version() -> str:
    """Return the version of Apache Kafka that the catalogue was read from."""
    return str(_load_data()["kafka_version"])


def cluster_defaults(broker_configs: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the cluster's default of every topic config, in the topic config's unit.

    Args:
        broker_configs: The effective configs of one broker, by name, as DescribeConfigs returns them.
    """
    keys = [key for key in topic_configs().values() if not key.internal]
    # A broker has the default of a retired config as long as it has the config.
    for key in retired_configs("topics").values():
        keys += [key] if any(synonym.name in broker_configs for synonym in key.synonyms) else []
    return {key.name: _find_default(key, broker_configs) for key in keys}


def _find_default(key: ConfigKey, broker_configs: Mapping[str, str | None]) -> str | None:
    # Kafka's own order: log.retention.ms before log.retention.minutes before log.retention.hours.
    for synonym in key.synonyms:
        value = broker_configs.get(synonym.name)
        if value is not None:
            if synonym.factor != 1:
                # Brokers treat any negative time as no limit, and report it as -1 in any unit.
                value = str(max(-1, int(value) * synonym.factor))
            return normalise_observed(key, value)
    return None if key.default is None else normalise_observed(key, key.default)


@cache
def _load_keys(kind: str, *, retired: bool = False) -> Mapping[str, ConfigKey]:
    given = _load_data()[kind].items()
    keys = {name: _build_key(name, facts) for name, facts in given if ("retired" in facts) is retired}
    return MappingProxyType(keys)


def _build_key(name: str, facts: Mapping[str, Any]) -> ConfigKey:
    ranges = _parse_ranges(facts.get("ranges", ()))
    return ConfigKey(
        name=name,
        type=ConfigType(facts["type"]),
        default=facts.get("default"),
        ranges=ranges,
        newest_ranges=_parse_ranges(facts["newest_ranges"]) if "newest_ranges" in facts else ranges,
        valid_values=tuple(facts.get("valid_values", ())),
        empty_allowed=facts.get("empty_allowed", False),
        ignores_case=facts.get("ignores_case", False),
        format=facts.get("format", ""),
        documentation=facts["documentation"],
        importance=facts["importance"],
        internal=facts.get("internal", False),
        deprecated=facts.get("deprecated", False),
        since=facts.get("since"),
        retired=facts.get("retired"),
        synonyms=tuple(Synonym(**synonym) for synonym in facts.get("synonyms", ())),
    )


def _parse_ranges(given: Iterable[Sequence[float | None]]) -> tuple[Range, ...]:
    return tuple((least, greatest) for least, greatest in given)


@cache
def _load_data() -> Mapping[str, Any]:
    import json

    # importlib.resources, which finds a file in an archive too, takes 7 ms to import.
    text = (Path(__file__).parent / "data" / "kafka_configs.json").read_text(encoding="utf-8")
    data: Mapping[str, Any] = json.loads(text)
    return data

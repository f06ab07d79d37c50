"""The values of a topic once its manifest is applied, and their sources."""

from __future__ import annotations

from enum import StrEnum
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.model import CONFIG_PREFIX, Desired, FieldValue, Observed, Undeclared, to_integer
from kafkaform.core.values import Value
from kafkaform.core.wording import setting
from kafkaform.resources import PLACED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.rules.catalogue import RuleContext


RETENTION_CHECK_MS = 300_000
"""The interval at which brokers look for expired records (log.retention.check.interval.ms)."""

# Thousands of topics have few different values, and every rule uses them.
KEPT = 4_096
"""The number of cached values."""


class ValueSource(StrEnum):
    """The source of a value, as messages name it."""

    DECLARED = ""
    LIVE = "set on the live topic"
    CLUSTER = "the cluster's default"
    KAFKA = "Kafka's own default"


class ConfigValue(Value):
    """The effective value of a topic config.

    Attributes:
        name: Kafka's name of the config.
        text: The value in its canonical spelling.
        origin: Its source.
    """

    name: str
    text: str
    origin: ValueSource

    @property
    def number(self) -> int | None:
        """The value as a number; None if it is not one."""
        return to_integer(self.text)

    @property
    def declared(self) -> bool:
        """True if the manifest sets it."""
        return self.origin is ValueSource.DECLARED

    @property
    def shown(self) -> str:
        """The value with its unit, and its source unless that is the manifest."""
        return f"{human(self.name, self.text)}{f' ({self.origin.value})' if self.origin.value else ''}"


def topics(context: RuleContext) -> list[Desired]:
    """Return the declared topics, without tombstones."""
    return [topic for topic in context.of_kind(PLACED.name) if topic.state is not None]


def count(topic: Desired, path: str) -> int | None:
    """Return a declared count, such as `partitions`."""
    return to_integer(topic.state.get(path) if topic.state else None)


def live_count(topic: Desired, path: str, context: RuleContext) -> int | None:
    """Return a count of the live topic; None if it does not exist, or partitions differ in it."""
    live = context.live.get(topic.ref)
    return to_integer(live.state.get(path)) if live is not None else None


def find_declared(topic: Desired, name: str) -> ConfigValue | None:
    """Return the value of a config that the manifest, or a default of kafkaform.yaml, sets."""
    value = topic.state.get(CONFIG_PREFIX + name) if topic.state else None
    return None if value is None else _build_value(name, value, ValueSource.DECLARED)


def find_effective(
    topic: Desired, name: str, context: RuleContext, *, kafka: bool = False
) -> ConfigValue | None:
    """Return the effective value of a config once the manifest is applied; None if unknown.

    Args:
        topic: A declared topic.
        name: Kafka's name of the config.
        context: The input of rules.
        kafka: Whether to use Kafka's own default if the cluster's is unknown.
    """
    value = find_declared(topic, name)
    if value is not None or topic.invalid:
        return value
    path, live = CONFIG_PREFIX + name, context.live.get(topic.ref)
    own = live.state.get(path) if live is not None else None
    if own is not None and _is_kept(topic, path):
        return _build_value(name, own, ValueSource.LIVE)
    # A live topic without an own value shows the default, also to an account that may not read the brokers'
    # configs.
    default, origin = _find_cluster_default(name, context, live if own is None else None), ValueSource.CLUSTER
    if default is None and kafka:
        default, origin = _kafka_defaults().get(name), ValueSource.KAFKA
    return None if default is None else _build_value(name, default, origin)


def human(name: str, value: int | str) -> str:
    """Return a value of a config with its unit."""
    return kafka_configs.readable(kafka_configs.find_topic_config(name), str(value))


def rewrite_setting(topic: Desired, name: str, value: object) -> str:
    """Return the setting of another value of a config, in the form that the manifest uses."""
    keys = topic.keys(CONFIG_PREFIX + name) or ("config", name)
    below = ".".join(keys[keys.index("retention") :]) if "retention" in keys else CONFIG_PREFIX + name
    return setting(below, value)


def policies(topic: Desired, context: RuleContext) -> frozenset[str]:
    """Return the effective cleanup policies; Kafka's default, `delete`, if unknown."""
    value = find_effective(topic, "cleanup.policy", context, kafka=True)
    return _split_policies(value.text) if value is not None else frozenset()


def _is_kept(topic: Desired, path: str) -> bool:
    """Return whether an apply leaves an own value of the live topic as it is."""
    undeclared = topic.state is not None and path not in topic.state
    return undeclared and topic.intent.undeclared is not Undeclared.RESET


def _find_cluster_default(name: str, context: RuleContext, inheriting: Observed | None) -> FieldValue:
    """Return the cluster's default, if need be from a live topic without a value of its own."""
    default = context.facts.config_default(PLACED.name, name) if context.facts is not None else None
    if default is not None:
        return default
    return inheriting.effective.get(CONFIG_PREFIX + name) if inheriting is not None else None


@cache
def _kafka_defaults() -> Mapping[str, str | None]:
    return kafka_configs.cluster_defaults({})


# Thousands of topics have the same few values.
@lru_cache(maxsize=KEPT)
def _split_policies(text: str) -> frozenset[str]:
    return frozenset(text.split(",")) - {""}


@lru_cache(maxsize=KEPT)
def _build_value(name: str, value: FieldValue, origin: ValueSource) -> ConfigValue:
    key = kafka_configs.find_topic_config(name)
    return ConfigValue(name, kafka_configs.normalise_observed(key, str(value)), origin)

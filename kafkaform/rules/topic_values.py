"""The values of a topic once its manifest is applied, and their sources."""

from __future__ import annotations

from enum import StrEnum
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.model import CONFIG_PREFIX, FieldValue, Undeclared, to_integer
from kafkaform.core.values import Value
from kafkaform.core.wording import setting
from kafkaform.resources import TOPIC
from kafkaform.rules.catalogue import DeclaredResource, RuleContext, RuleOfEach, cache_result

if TYPE_CHECKING:
    from collections.abc import Mapping


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


class DeclaredTopic(DeclaredResource):
    """A declared topic, without tombstones."""

    @property
    def partitions(self) -> int | None:
        """The declared number of partitions."""
        return self.count("partitions")

    def count(self, path: str) -> int | None:
        """Return a declared count, such as `partitions`."""
        return to_integer((self.desired.state or {}).get(path))

    def live_count(self, path: str) -> int | None:
        """Return a count of the live topic; None if it does not exist, or partitions differ in it."""
        live = self.context.live.get(self.desired.ref)
        return to_integer(live.state.get(path)) if live is not None else None

    def find_declared(self, name: str) -> ConfigValue | None:
        """Return the value of a config that the manifest, or a default of kafkaform.yaml, sets."""
        value = (self.desired.state or {}).get(CONFIG_PREFIX + name)
        return None if value is None else _build_value(name, value, ValueSource.DECLARED)

    def find_effective(self, name: str, *, kafka: bool = False) -> ConfigValue | None:
        """Return the effective value of a config once the manifest is applied; None if unknown.

        Args:
            name: Kafka's name of the config.
            kafka: Whether to use Kafka's own default if the cluster's is unknown.
        """
        value = self.find_declared(name)
        if value is not None or self.desired.invalid:
            return value
        path, live = CONFIG_PREFIX + name, self.context.live.get(self.desired.ref)
        own = live.state.get(path) if live is not None else None
        if own is not None and self._is_kept(path):
            return _build_value(name, own, ValueSource.LIVE)
        facts, origin = self.context.facts, ValueSource.CLUSTER
        default: FieldValue = facts.config_default(TOPIC.name, name) if facts is not None else None
        # A live topic without an own value shows the default, also to an account that may not read the
        # brokers' configs.
        if default is None and live is not None and own is None:
            default = live.effective.get(path)
        if default is None and kafka:
            default, origin = _kafka_defaults().get(name), ValueSource.KAFKA
        return None if default is None else _build_value(name, default, origin)

    def _is_kept(self, path: str) -> bool:
        """Return whether an apply leaves an own value of the live topic as it is."""
        undeclared = path not in (self.desired.state or {})
        return undeclared and self.desired.intent.undeclared is not Undeclared.RESET

    def rewrite(self, name: str, value: object) -> str:
        """Return the setting of another value of a config, in the form that the manifest uses."""
        keys = self.desired.keys(CONFIG_PREFIX + name) or ("config", name)
        below = ".".join(keys[keys.index("retention") :]) if "retention" in keys else CONFIG_PREFIX + name
        return setting(below, value)

    @property
    def policies(self) -> frozenset[str]:
        """The effective cleanup policies; Kafka's default, `delete`, if unknown."""
        value = self.find_effective("cleanup.policy", kafka=True)
        return _split_policies(value.text) if value is not None else frozenset()


@cache_result
def list_topics(context: RuleContext) -> list[DeclaredTopic]:
    """Return the declared topics, without tombstones."""
    return [DeclaredTopic(d, context) for d in context.of_kind(TOPIC.name) if d.state is not None]


topic_rule = RuleOfEach(list_topics)


def human(name: str, value: int | str) -> str:
    """Return a value of a config with its unit."""
    return kafka_configs.readable(kafka_configs.find_topic_config(name), str(value))


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

"""The values that a topic has once its manifest is applied, and where each comes from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.model import CONFIG_PREFIX, Desired, FieldValue, Observed, Undeclared
from kafkaform.core.wording import setting
from kafkaform.resources.topic import TopicKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.rules.catalogue import RuleContext


RETENTION_CHECK_MS = 300_000
"""How often brokers look for records that are past retention (log.retention.check.interval.ms)."""

KEPT = 4_096
"""How many values are kept: thousands of topics have few different ones, and every rule asks anew."""


class ValueSource(StrEnum):
    """Who says a value, as messages put it."""

    DECLARED = ""
    LIVE = "set on the live topic"
    CLUSTER = "the cluster's default"
    KAFKA = "Kafka's own default"


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a topic config that is in force.

    Attributes:
        name: Kafka's name of the config.
        text: The value in its canonical spelling.
        origin: Who says it.
    """

    name: str
    text: str
    origin: ValueSource

    @property
    def number(self) -> int | None:
        """The value as a number; None if it is none."""
        return _number(self.text)

    @property
    def declared(self) -> bool:
        """Whether the manifest says it."""
        return self.origin is ValueSource.DECLARED

    @property
    def shown(self) -> str:
        """The value as people read it, and who says it unless the manifest does."""
        return f"{human(self.name, self.text)}{f' ({self.origin.value})' if self.origin.value else ''}"


def topics(context: RuleContext) -> list[Desired]:
    """The declared topics, without tombstones."""
    return [topic for topic in context.of_kind(TopicKind.name) if topic.state is not None]


def count(topic: Desired, path: str) -> int | None:
    """A declared count, such as `partitions`."""
    return _number(topic.state.get(path) if topic.state else None)


def live_count(topic: Desired, path: str, context: RuleContext) -> int | None:
    """A count that the live topic has; None if there is none, or partitions differ in it."""
    live = context.live.get(topic.ref)
    return _number(live.state.get(path)) if live is not None else None


def declared(topic: Desired, name: str) -> Value | None:
    """The value of a config that the manifest, or a default of kafkaform.yaml, sets."""
    value = topic.state.get(CONFIG_PREFIX + name) if topic.state else None
    return None if value is None else _value(name, value, ValueSource.DECLARED)


def in_force(topic: Desired, name: str, context: RuleContext, *, kafka: bool = False) -> Value | None:
    """The value of a config that is in force once the manifest is applied; None if it is not known.

    Args:
        topic: A declared topic.
        name: Kafka's name of the config.
        context: What is known of the cluster, and of the live topic.
        kafka: Whether to take Kafka's own default where the cluster's is not known.
    """
    said = declared(topic, name)
    if said is not None:
        return said
    path, live = CONFIG_PREFIX + name, context.live.get(topic.ref)
    own = live.state.get(path) if live is not None else None
    if own is not None and _is_kept(topic, path):
        return _value(name, own, ValueSource.LIVE)
    default, origin = _cluster_default(name, context, live if own is None else None), ValueSource.CLUSTER
    if default is None and kafka:
        default, origin = _kafka_defaults().get(name), ValueSource.KAFKA
    return None if default is None else _value(name, default, origin)


def human(name: str, value: int | str) -> str:
    """A value of a config as people read it."""
    return kafka_configs.readable(kafka_configs.topic_configs().get(name), str(value))


def rewritten(topic: Desired, name: str, value: object) -> str:
    """The setting that gives a topic another value of a config, in the place where its manifest has it."""
    keys = topic.keys(CONFIG_PREFIX + name) or ("config", name)
    below = ".".join(keys[keys.index("retention") :]) if "retention" in keys else CONFIG_PREFIX + name
    return setting(below, value)


def policies(topic: Desired, context: RuleContext) -> frozenset[str]:
    """The cleanup policies in force; `delete`, as with nearly all brokers, where nobody says."""
    value = in_force(topic, "cleanup.policy", context, kafka=True)
    return _listed(value.text) if value is not None else frozenset()


def _is_kept(topic: Desired, path: str) -> bool:
    """Whether a value that the live topic has stays: neither undeclared ones are reset, nor this one is."""
    undeclared = topic.state is not None and path not in topic.state
    return undeclared and topic.intent.undeclared is not Undeclared.RESET


def _cluster_default(name: str, context: RuleContext, inheriting: Observed | None) -> FieldValue:
    """The cluster's default, if need be from a live topic that has no value of its own."""
    default = context.facts.config_default(TopicKind.name, name) if context.facts is not None else None
    if default is not None:
        return default
    return inheriting.effective.get(CONFIG_PREFIX + name) if inheriting is not None else None


@cache
def _kafka_defaults() -> Mapping[str, str | None]:
    return kafka_configs.cluster_defaults({})


@lru_cache(maxsize=KEPT)
def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split(",")) - {""}


@lru_cache(maxsize=KEPT)
def _value(name: str, value: FieldValue, origin: ValueSource) -> Value:
    key = kafka_configs.topic_configs().get(name)
    return Value(name, kafka_configs.observed(key, str(value)), origin)


def _number(value: FieldValue) -> int | None:
    try:
        return None if value is None else int(value)
    except ValueError:
        return None

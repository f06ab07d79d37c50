"""A Topic's spec: normal form, and its split into state and intent."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, cast

from kafkaform.core import kafka_configs
from kafkaform.core.model import CONFIG_PREFIX, FieldValue, Intent, State, Undeclared
from kafkaform.core.units import format_duration
from kafkaform.core.wording import nearest, quoted, setting
from kafkaform.resources.base import BAD, Shorthand, canonical_value
from kafkaform.resources.topic.operations import PLACEMENT
from kafkaform.resources.topic.placement import checked_placement, normal_placement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.core.model import Observed
    from kafkaform.resources.base import Layer, ReportProblem

RETENTION = "retention"
_LIMITS = {"time": "retention.ms", "bytes": "retention.bytes"}
"""The Kafka configs that the shorthand `retention:` stands for; by itself it is the time."""
SHORTHANDS = {
    CONFIG_PREFIX + config: Shorthand(RETENTION, field, is_main=field == "time")
    for field, config in _LIMITS.items()
}

COUNTS = ("partitions", "replicationFactor")
_SPEC_FIELDS = {"num.partitions": ("partitions", 1), "default.replication.factor": ("replicationFactor", 1)}
"""Broker configs that are defaults of what is no topic config."""
_PLAIN = ("keyed", "state", "deletionProtection", "undeclared", "skew")


def normalise(layer: Mapping[str, object], report: ReportProblem) -> Layer:
    """Bring a Topic spec that fits the schema into normal form.

    `retention` is folded into `config`, whose values become canonical strings (None: unset).
    """
    normal: Layer = {name: layer[name] for name in _PLAIN if name in layer}
    normal.update({name: int(cast("float", layer[name])) for name in COUNTS if name in layer})
    if PLACEMENT in layer:
        normal[PLACEMENT] = normal_placement(cast("Mapping[str, object]", layer[PLACEMENT]), report)
    given = cast("Mapping[str, object]", layer.get("config", {}))
    config = {
        name: text
        for name, value in given.items()
        if _known(name, value, report)
        and (text := _canonical(name, value, ("config", name), report)) is not BAD
    }
    for name, path, value in _retention(layer.get(RETENTION)):
        if name in given:
            hint = "retention says it already: keep one of the two"
            report(("config", name), f"{name} is given twice", hint, key=True)
        elif (text := _canonical(name, value, path, report)) is not BAD:
            config[name] = text
    if config:
        normal["config"] = config
    return normal


def _retention(value: object) -> Iterator[tuple[str, tuple[str, ...], object]]:
    """What the shorthand says: the config, where it is said, and the value."""
    if isinstance(value, Mapping):
        for field, below in value.items():
            yield _LIMITS[field], (RETENTION, field), below
    elif value is not None:
        yield _LIMITS["time"], (RETENTION,), value


def _known(name: str, value: object, report: ReportProblem) -> bool:
    if name in kafka_configs.REASSIGNMENT_KEYS:
        message = f"{name} belongs to running reassignments and cannot be declared"
        report(("config", name), message, "remove it", key=True)
        return False
    key = kafka_configs.topic_configs().get(name)
    if (key and not key.internal) or name in kafka_configs.RETIRED_KEYS or kafka_configs.is_vendor(name):
        return True
    if name in _broker_configs():
        hint = _of_a_topic(name, value)
        report(("config", name), f"{name} is a config of brokers, not of topics", hint, key=True)
        return False
    near = nearest(name, [key.name for key in kafka_configs.topic_configs().values() if not key.internal])
    hint = f"did you mean {near!r}?" if near else f"Kafka {kafka_configs.kafka_version()} has none like it"
    report(("config", name), f"unknown Kafka config {quoted(name)}", hint, key=True)
    return False


@cache
def _broker_configs() -> Mapping[str, tuple[str, int]]:
    """The topic config that a broker config is the default of, and how many of its units one is."""
    return {
        synonym.name: (f"config.{key.name}", synonym.factor)
        for key in kafka_configs.topic_configs().values()
        for synonym in key.synonyms
        if synonym.name not in kafka_configs.topic_configs()
    } | _SPEC_FIELDS


def _of_a_topic(name: str, value: object) -> str:
    """What a topic's manifest has for a broker config: pasteable, with the value in the topic's unit."""
    path, factor = _broker_configs()[name]
    text = str(value)
    if factor != 1:
        text = format_duration(int(text) * factor) if text.isascii() and text.isdigit() else "7d"
    return f"write {setting(path, text)} in spec"


def _canonical(name: str, value: object, path: tuple[str, ...], report: ReportProblem) -> object:
    return canonical_value(kafka_configs.topic_configs().get(name), name, value, path, report)


def resolve(layer: Layer, report: ReportProblem) -> tuple[State | None, Intent]:
    """Split a merged, normalised Topic spec into the state to reach (None: absent) and the intent."""
    intent = Intent(
        keyed=cast("bool | None", layer.get("keyed")),
        deletion_protection=bool(layer.get("deletionProtection", False)),
        undeclared=Undeclared(cast("str", layer.get("undeclared", Undeclared.REPORT.value))),
        spec=layer,
    )
    if layer.get("state") == "absent":
        return None, intent
    for name in COUNTS:
        if name not in layer:
            hint = f"set it here, or in defaults.Topic.{name} of kafkaform.yaml"
            report((), f"spec.{name} is missing", hint)
    state: dict[str, FieldValue] = {name: cast("int", layer[name]) for name in COUNTS if name in layer}
    placement = cast("Mapping[str, str | None]", layer.get(PLACEMENT, {}))
    if (static := checked_placement(placement, state, report)) is not None:
        state[PLACEMENT] = static
    config = cast("Mapping[str, str | None]", layer.get("config", {}))
    state.update({CONFIG_PREFIX + name: config[name] for name in sorted(config)})
    return state, intent


def written(observed: Observed, config: dict[str, object], left_out: list[str]) -> dict[str, object]:
    """See `Kind.written`: the counts, and the shorthand for what limits a topic."""
    replicas = observed.state["replicationFactor"]
    if isinstance(replicas, str):
        left_out.append(
            f"replicationFactor: partitions have {replicas} replicas; the most of them is written"
        )
        replicas = int(replicas.rpartition("-")[2])
    counts = {"partitions": observed.state["partitions"], "replicationFactor": replicas}
    return {**counts, **_shorthand(config)}


def _shorthand(config: dict[str, object]) -> dict[str, object]:
    """The shorthand for what limits a topic, taken out of its configs; a null stays there."""
    time, size = (config.pop(name) if config.get(name) is not None else None for name in _LIMITS.values())
    if size is None:
        return {} if time is None else {RETENTION: time}
    return {RETENTION: {**({} if time is None else {"time": time}), "bytes": size}}

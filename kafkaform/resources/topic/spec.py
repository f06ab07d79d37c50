"""A Topic's spec: normal form, and its split into state and intent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import cast

from kafkaform.core import kafka_configs
from kafkaform.core.acls import parse_principal
from kafkaform.core.model import CONFIG_PREFIX, FieldValue, Intent, Observed, State, Undeclared
from kafkaform.core.units import format_duration
from kafkaform.core.wording import nearest, quoted, setting
from kafkaform.resources.base import BAD, Layer, ReportProblem, Shorthand, Written, canonical_value
from kafkaform.resources.replicas.facts import PLACEMENT
from kafkaform.resources.replicas.placement import checked_placement, normal_placement
from kafkaform.resources.succession import CLOSE_WRITES, DURATIONS, SUCCEEDS
from spark_validation.durations import parse_duration

RETENTION = "retention"
_LIMITS = {"time": "retention.ms", "bytes": "retention.bytes"}
"""The Kafka configs behind the shorthand `retention:`; a single value is the time."""
SHORTHANDS = {
    CONFIG_PREFIX + config: Shorthand(RETENTION, field, is_main=field == "time")
    for field, config in _LIMITS.items()
}

COUNTS = ("partitions", "replicationFactor")
_SPEC_FIELDS = {"num.partitions": ("partitions", 1), "default.replication.factor": ("replicationFactor", 1)}
"""Broker configs that are defaults of fields other than topic configs."""
ACCESS = "access"
"""The limits of what Access manifests may give: principals and teams by `read` and `write`."""
RECREATE = "recreate"
"""The id of the live topic that is deleted and created again."""
_COPIED_FIELDS = (
    "keyed", "state", "deletionProtection", RECREATE, "undeclared", "skew", ACCESS, SUCCEEDS, CLOSE_WRITES,
)  # fmt: skip


def normalise(layer: Mapping[str, object], report: ReportProblem) -> Layer:
    """Normalise a Topic spec that matches the schema.

    `retention` is merged into `config`, whose values become canonical strings (None: unset).
    """
    normal: Layer = {name: layer[name] for name in _COPIED_FIELDS if name in layer}
    normal.update({name: int(cast("float", layer[name])) for name in COUNTS if name in layer})
    for name in DURATIONS.keys() & layer.keys():
        try:
            normal[name] = parse_duration(str(layer[name]))
        except ValueError as error:
            report((name,), f"{name}: {error}", None)
    if PLACEMENT in layer:
        normal[PLACEMENT] = normal_placement(cast("Mapping[str, object]", layer[PLACEMENT]), report)
    for right, names in cast("Mapping[str, list[str]]", layer.get(ACCESS, {})).items():
        for index, name in enumerate(names):
            try:
                parse_principal(name)
            except ValueError as error:
                report((ACCESS, right, index), str(error), f"or team:{name}, a label of Access manifests")
    given = cast("Mapping[str, object]", layer.get("config", {}))
    config = {
        name: text
        for name, value in given.items()
        if _check_known(name, value, report)
        and (text := _canonical(name, value, ("config", name), report)) is not BAD
    }
    for name, path, value in _expand_retention(layer.get(RETENTION)):
        if name in given:
            hint = "retention already sets it: keep one of the two"
            report(("config", name), f"{name} is set twice", hint, key=True)
        elif (text := _canonical(name, value, path, report)) is not BAD:
            config[name] = text
    if config:
        normal["config"] = config
    return normal


def _expand_retention(value: object) -> Iterator[tuple[str, tuple[str, ...], object]]:
    """Yield the configs of the shorthand: name, path and value."""
    if isinstance(value, Mapping):
        for field, below in value.items():
            yield _LIMITS[field], (RETENTION, field), below
    elif value is not None:
        yield _LIMITS["time"], (RETENTION,), value


def _check_known(name: str, value: object, report: ReportProblem) -> bool:
    if name in kafka_configs.REASSIGNMENT_KEYS:
        message = f"{name} belongs to running reassignments and cannot be declared"
        report(("config", name), message, "remove it", key=True)
        return False
    key = kafka_configs.find_topic_config(name)
    # Retired and vendors' configs are valid on some brokers: a rule reports the former, the brokers
    # validate the latter.
    if (key and not key.internal) or kafka_configs.is_vendor(name):
        return True
    if name in _broker_configs():
        hint = _suggest_topic_config(name, value)
        report(("config", name), f"{name} is a config of brokers, not of topics", hint, key=True)
        return False
    near = nearest(name, [key.name for key in kafka_configs.topic_configs().values() if not key.internal])
    hint = f"did you mean {near!r}?" if near else f"Kafka {kafka_configs.kafka_version()} has no similar one"
    report(("config", name), f"unknown Kafka config {quoted(name)}", hint, key=True)
    return False


@cache
def _broker_configs() -> Mapping[str, tuple[str, int]]:
    """Return the topic config by the broker config that is its default, with the factor of their units."""
    return {
        synonym.name: (f"config.{key.name}", synonym.factor)
        for key in kafka_configs.topic_configs().values()
        for synonym in key.synonyms
        if synonym.name not in kafka_configs.topic_configs()
    } | _SPEC_FIELDS


def _suggest_topic_config(name: str, value: object) -> str:
    """Return a hint with the topic config for a broker config, with the value in its unit."""
    path, factor = _broker_configs()[name]
    text = str(value)
    if factor != 1:
        # `log.retention.hours: 168` becomes `retention.ms: 7d`; a text that is no number gets an example.
        text = format_duration(int(text) * factor) if text.isascii() and text.isdigit() else "7d"
    return f"write {setting(path, text)} in spec"


def _canonical(name: str, value: object, path: tuple[str, ...], report: ReportProblem) -> object:
    return canonical_value(kafka_configs.find_topic_config(name), name, value, path, report)


def resolve(layer: Layer, report: ReportProblem) -> tuple[State | None, Intent]:
    """Split a merged, normalised Topic spec into the desired state (None: absent) and the intent."""
    intent = Intent(
        keyed=cast("bool | None", layer.get("keyed")),
        deletion_protection=bool(layer.get("deletionProtection", False)),
        undeclared=Undeclared(cast("str", layer.get("undeclared", Undeclared.REPORT.value))),
        spec=layer,
    )
    if layer.get(CLOSE_WRITES) and SUCCEEDS not in layer:
        report((CLOSE_WRITES,), "there is no topic to close", f"write {setting(SUCCEEDS, 'TOPIC')}, too")
    if layer.get("state") == "absent":
        return None, intent
    for name in COUNTS:
        if name not in layer:
            hint = f"set it here, or in defaults.Topic.{name} of kafkaform.yaml"
            report((name,), f"spec.{name} is missing", hint)
    state: dict[str, FieldValue] = {name: cast("int", layer[name]) for name in COUNTS if name in layer}
    placement = cast("Mapping[str, str | None]", layer.get(PLACEMENT, {}))
    # Checked here, as a layer may set the counts and another one the placement.
    if (static := checked_placement(placement, state, report)) is not None:
        state[PLACEMENT] = static
    config = cast("Mapping[str, str | None]", layer.get("config", {}))
    state.update({CONFIG_PREFIX + name: config[name] for name in sorted(config)})
    return state, intent


def write(observed: Observed, config: Mapping[str, object], _under: Mapping[str, object]) -> Written:
    """Return the counts, the retention shorthand and the other configs of a live topic."""
    # Manifests of other tools may leave a count to the broker.
    counts = {name: observed.state[name] for name in COUNTS if name in observed.state}
    replicas = counts.get("replicationFactor")
    left_out: tuple[str, ...] = ()
    if isinstance(replicas, str):
        left_out = (f"replicationFactor: partitions have {replicas} replicas; the most of them is written",)
        # A manifest has one number. The most loses nothing; the fewest would drop replicas.
        counts["replicationFactor"] = int(replicas.rpartition("-")[2])
    others = dict(config)
    return Written({**counts, **_move_retention(others), "config": others}, left_out)


def _move_retention(config: dict[str, object]) -> dict[str, object]:
    """Move the retention out of the configs into the shorthand; a null stays there."""
    time, size = (config.pop(name) if config.get(name) is not None else None for name in _LIMITS.values())
    if size is None:
        return {} if time is None else {RETENTION: time}
    return {RETENTION: {**({} if time is None else {"time": time}), "bytes": size}}

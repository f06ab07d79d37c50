"""A Topic's spec: normal form, and its split into state and intent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from kafkaform import kafka_configs
from kafkaform.kinds.base import Layer, Report
from kafkaform.model import CONFIG_PREFIX, FieldValue, Intent, State, Undeclared
from kafkaform.spelling import nearest

RETENTION = {"time": "retention.ms", "bytes": "retention.bytes"}
"""The shorthand `retention:` and the Kafka configs it stands for."""

_COUNTS = ("partitions", "replicationFactor")
_PLAIN = ("keyed", "state", "deletionProtection", "undeclared", "skew")


def normalise(layer: Mapping[str, object], report: Report) -> Layer:
    """Bring a Topic spec that fits the schema into normal form.

    `retention` is folded into `config`, whose values become canonical strings (None: unset).
    """
    normal: Layer = {name: layer[name] for name in _PLAIN if name in layer}
    normal.update({name: int(cast("float", layer[name])) for name in _COUNTS if name in layer})
    config = _config(cast("Mapping[str, object]", layer.get("config") or {}), report)
    for field, value in _retention(layer.get("retention")).items():
        key = RETENTION[field]
        path: tuple[str, ...] = ("retention", field) if isinstance(layer["retention"], Mapping) else ("retention",)
        if key in config:
            report(("config", key), f"{key} is given twice", "retention says it already: keep one of the two")
            continue
        canonical = _value(key, value, path, report)
        if canonical is not _BAD:
            config[key] = cast("str | None", canonical)
    if config:
        normal["config"] = config
    return normal


_BAD = object()


def _retention(value: object) -> Mapping[str, object]:
    if value is None:
        return {}
    return value if isinstance(value, Mapping) else {"time": value}


def _config(config: Mapping[str, object], report: Report) -> dict[str, str | None]:
    normal: dict[str, str | None] = {}
    for name, value in config.items():
        if not _known(name, report):
            continue
        canonical = _value(name, value, ("config", name), report)
        if canonical is not _BAD:
            normal[name] = cast("str | None", canonical)
    return normal


def _known(name: str, report: Report) -> bool:
    if name in kafka_configs.REASSIGNMENT_KEYS:
        report(("config", name), f"{name} belongs to running reassignments and cannot be declared", "remove it")
        return False
    known = [key.name for key in kafka_configs.topic_configs().values() if not key.internal]
    if name in known or name in kafka_configs.RETIRED_KEYS or kafka_configs.is_vendor(name):
        return True
    near = nearest(name, known)
    report(("config", name), f"unknown Kafka config {name!r}", f"did you mean {near!r}?" if near else None)
    return False


def _value(name: str, value: object, path: tuple[str, ...], report: Report) -> object:
    if value is None:
        return None
    text = ",".join(str(item) for item in value) if isinstance(value, list) else str(value)
    try:
        return kafka_configs.canonical(kafka_configs.topic_configs().get(name), text)
    except ValueError as error:
        report(path, str(error), None)
        return _BAD


def resolve(layer: Layer, report: Report) -> tuple[State | None, Intent]:
    """Split a merged, normalised Topic spec into the state to reach (None: absent) and the intent."""
    intent = Intent(
        keyed=cast("bool | None", layer.get("keyed")),
        deletion_protection=bool(layer.get("deletionProtection", False)),
        undeclared=Undeclared(cast("str", layer.get("undeclared", Undeclared.REPORT.value))),
        spec=layer,
    )
    if layer.get("state") == "absent":
        return None, intent
    for name in missing(layer, _COUNTS):
        report((), f"spec.{name} is missing", f"set it here, or in defaults.Topic.{name} of kafkaform.yaml")
    state: dict[str, FieldValue] = {
        name: cast("int", layer[name]) for name in _COUNTS if name in layer
    }
    config = cast("Mapping[str, str | None]", layer.get("config", {}))
    state.update({CONFIG_PREFIX + name: config[name] for name in sorted(config)})
    return state, intent


def missing(layer: Layer, names: Sequence[str]) -> list[str]:
    """The names that a layer does not hold."""
    return [name for name in names if name not in layer]

"""A ClientQuota's spec: its limits and entity, their normal form, and the split into state and intent.

spec["entity"]                        as in the manifest; it must match the name of the resource
spec["config"]["producer_byte_rate"]  str, canonical  "10485760"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from kafkaform.core import kafka_configs
from kafkaform.core.config_values import ConfigKey, ConfigType
from kafkaform.core.errors import Problem
from kafkaform.core.model import CONFIG_PREFIX, Desired, FieldValue, Intent, Observed, State, Undeclared
from kafkaform.core.units import readable_size
from kafkaform.core.wording import nearest, quoted
from kafkaform.resources.base import BAD, Layer, ReportProblem, Written, canonical_value
from kafkaform.resources.client_quota.entity import FIELDS, parse_entity, read_entity, write_entity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkaform.resources.client_quota.entity import QuotaEntity

PRODUCED, CONSUMED = "producer_byte_rate", "consumer_byte_rate"
REQUESTS, MUTATIONS = "request_percentage", "controller_mutation_rate"
CONNECTIONS = "connection_creation_rate"

# Not in the catalogue, which is generated from the classes of topic, group and consumer configs. The
# mutation rate is of KIP-599, the connection rate of KIP-612.
KEYS: Mapping[str, ConfigKey] = {
    key.name: key
    for key in (
        ConfigKey(
            PRODUCED,
            ConfigType.LONG,
            ranges=((0, None),),
            documentation="The bytes that may be produced, per second and broker, such as 10MiB.",
        ),
        ConfigKey(
            CONSUMED,
            ConfigType.LONG,
            ranges=((0, None),),
            documentation="The bytes that may be consumed, per second and broker, such as 20MiB.",
        ),
        ConfigKey(
            REQUESTS,
            ConfigType.DOUBLE,
            ranges=((0, None),),
            documentation="The time that requests may use of a broker's network and I/O threads, in percent "
            "of one thread, such as 200%.",
        ),
        ConfigKey(
            MUTATIONS,
            ConfigType.DOUBLE,
            ranges=((0, None),),
            documentation="The partitions that may be created and deleted per second, by the controller and "
            "so in the whole cluster.",
            since="2.7",
        ),
        ConfigKey(
            CONNECTIONS,
            ConfigType.INT,
            ranges=((0, None),),
            documentation="The connections that an address may open, per second and broker. Only quotas of "
            "an ip have it, and they have no other limit.",
            since="2.7",
        ),
    )
}
"""Kafka's limits by name."""

_COPIED_FIELDS = ("entity", "state", "deletionProtection", "undeclared")
_RATE = re.compile(r"\s*/\s*s\s*\Z")
_PERCENT = re.compile(r"\s*%\s*\Z")
_LONG_MAX = 2**63 - 1


def keys_of(entity: QuotaEntity) -> tuple[str, ...]:
    """Return the limits that an entity can have."""
    return tuple(name for name in KEYS if (name == CONNECTIONS) == entity.is_address)


def limit_text(name: str, value: str, brokers: int = 1) -> str:
    """Format a limit with its unit, and the total of all brokers if each has its own limit.

    Args:
        brokers: The number of brokers; 0 if unknown.
    """
    # Only the controller counts these, so the number of brokers is irrelevant (KIP-599).
    if name == MUTATIONS:
        return f"{_rate(value, 'partition')} in the whole cluster"
    here = f"{_amount(name, float(value))} on each broker"
    return f"{here}, {_amount(name, float(value) * brokers)} on all {brokers:,}" if brokers > 1 else here


def _amount(name: str, number: float) -> str:
    # Fixed notation, as `1e+06` is hard to read; above the largest long, the digits are of no use.
    text = f"{number:.6f}".rstrip("0").rstrip(".") if number < _LONG_MAX else f"{number:.3g}"
    match name:
        case _ if name in {PRODUCED, CONSUMED}:
            size = readable_size(int(number)).partition(" (")[0]
            return f"{size} B/s" if size.isdecimal() else f"{size}/s"
        case _ if name == REQUESTS:
            return f"{text} % of a thread"
        case _:
            return _rate(text, "connection")


def _rate(number: str, noun: str) -> str:
    return f"{number} {noun}{'' if number == '1' else 's'}/s"


def is_limit(name: str, value: FieldValue) -> bool:
    """Return whether a value is None or valid for a known limit."""
    if value is None or name not in KEYS:
        return name in KEYS
    try:
        kafka_configs.canonical(KEYS[name], str(value))
    except ValueError:
        return False
    return True


def are_equal(name: str, a: str, b: str) -> bool:
    """Return whether two values are the same double, as brokers store them."""
    if a == b or name not in KEYS:
        return a == b
    try:
        first, second = (kafka_configs.canonical(KEYS[name], value) for value in (a, b))
    except ValueError:
        return False
    # A double has 53 bits: two longs above 2**53 can be the same limit to a broker.
    return float(first) == float(second)


def value_text(name: str, number: float) -> str:
    """Return the canonical text of a broker's value: a double, which rounds the largest long up by one."""
    # 2**63 - 1 has no double. A broker that was given it returns 2**63, which is not a valid value.
    if number.is_integer():
        whole = int(number)
        return str(_LONG_MAX if whole == _LONG_MAX + 1 else whole)
    return kafka_configs.normalise_observed(KEYS.get(name), repr(number))


def normalise(layer: Mapping[str, object], report: ReportProblem) -> Layer:
    """Normalise a ClientQuota spec that matches the schema, as described for the module."""
    normal: Layer = {name: layer[name] for name in _COPIED_FIELDS if name in layer}
    config = {
        name: value
        for name, given in cast("Mapping[str, object]", layer.get("config", {})).items()
        if _is_known(name, report)
        and (value := canonical_value(KEYS[name], name, _strip_unit(name, given), ("config", name), report))
        is not BAD
    }
    return normal | ({"config": config} if config else {})


def _strip_unit(name: str, given: object) -> object:
    """Return a value without the unit of its limit: `10MiB/s` is 10MiB, `50%` is 50."""
    if not isinstance(given, str):
        return given
    return (_PERCENT if name == REQUESTS else _RATE).sub("", given)


def _is_known(name: str, report: ReportProblem) -> bool:
    if name in KEYS:
        return True
    near = nearest(name, KEYS)
    hint = f"did you mean {near!r}?" if near else f"limits: {', '.join(KEYS)}"
    report(("config", name), f"unknown limit {quoted(name)}", hint, key=True)
    return False


def resolve(layer: Layer, _report: ReportProblem) -> tuple[State | None, Intent]:
    """Split a merged, normalised ClientQuota spec into the desired state (None: absent) and the intent."""
    intent = Intent(
        deletion_protection=bool(layer.get("deletionProtection", False)),
        undeclared=Undeclared(cast("str", layer.get("undeclared", Undeclared.REPORT.value))),
        spec=layer,
    )
    if layer.get("state") == "absent":
        return None, intent
    config = cast("Mapping[str, str | None]", layer.get("config", {}))
    state: dict[str, FieldValue] = {CONFIG_PREFIX + name: config[name] for name in sorted(config)}
    return state, intent


def write(observed: Observed, config: Mapping[str, object], _under: Mapping[str, object]) -> Written:
    """Return the entity and the limits."""
    return Written({"entity": write_entity(parse_entity(observed.ref.name)), "config": config})


def find_problems(desired: Desired) -> Iterator[Problem]:
    """Find problems of a quota as a whole: its name, its entity, and limits of other types of entities."""
    try:
        entity = parse_entity(desired.ref.name)
    except ValueError as error:
        yield Problem(f"metadata.name: {error}", desired.locate("metadata.name"), _name_hint(desired))
        return
    yield from _check_entity(desired, entity)
    if desired.state is None:
        return
    known = keys_of(entity)
    for path in desired.state:
        name = path.removeprefix(CONFIG_PREFIX)
        if name not in known:
            owners = "users and client ids" if entity.is_address else "an ip"
            yield Problem(
                f"{name} is a limit of {owners}, not of {entity.name}",
                desired.locate(path),
                f"limits of {entity.name}: {', '.join(known)}",
            )
    # An entity without limits ceases to exist, so a plan would create it again and again.
    if not any(value is not None for value in desired.state.values()):
        yield Problem(
            f"{entity.name} has no limit, and Kafka keeps no quota without one",
            desired.locate("config"),
            "set a limit in spec.config, or write `state: absent`",
        )


def _check_entity(desired: Desired, entity: QuotaEntity) -> Iterator[Problem]:
    """Find a `spec.entity` that differs from the name."""
    given = cast("Mapping[str, object] | None", desired.intent.spec.get("entity"))
    if given is None:
        return
    location = desired.locate("entity")
    try:
        declared = read_entity(given)
    except ValueError as error:
        yield Problem(f"spec.entity: {error}", location, f"its fields: {', '.join(FIELDS.values())}")
        return
    if declared != entity:
        yield Problem(
            f"spec.entity is {declared.name}, and metadata.name {entity.name}",
            location,
            f"write metadata.name: {declared.name} if the entity is right",
        )


def _name_hint(desired: Desired) -> str | None:
    """Return the hint with the name that matches `spec.entity`."""
    given = cast("Mapping[str, object] | None", desired.intent.spec.get("entity"))
    if given is None:
        return None
    try:
        return f"write metadata.name: {read_entity(given).name}"
    except ValueError as error:
        return str(error)

"""The fields that a policy can ask about, and what it asks of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any

from kafkaform.core.config_values import (
    ConfigKey,
    ConfigType,
    canonical,
    equal,
    human,
    observed,
)
from kafkaform.core.model import CONFIG_PREFIX
from kafkaform.core.schema_files import load_schema
from kafkaform.core.wording import nearest
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kafkaform.core.model import Desired, Facts
    from kafkaform.rules import RuleContext


CLIENT_PREFIX = "client."
LABEL_PREFIX = "labels."

_TYPES = {
    "integer": ConfigType.LONG,
    "number": ConfigType.DOUBLE,
    "boolean": ConfigType.BOOLEAN,
    "string": ConfigType.STRING,
}


def field_key(kind: str, path: str) -> ConfigKey | None:
    """The type of a field, by its path in manifests of a kind; None if there is no such field."""
    if path.startswith(LABEL_PREFIX) and path != LABEL_PREFIX:
        return ConfigKey(path, ConfigType.STRING)
    name = path.removeprefix(CONFIG_PREFIX)
    if name != path and KINDS[kind].is_vendor_config(name):
        return ConfigKey(name, ConfigType.STRING)
    return _fields(kind).get(path)


def field_hint(kind: str, path: str) -> str:
    """What was probably meant by a path that is no field's."""
    near = nearest(path, _fields(kind))
    return f"did you mean {near!r}?" if near else "such as partitions, config.retention.ms or labels.team"


def field_value(desired: Desired, path: str, context: RuleContext) -> tuple[str | None, str]:
    """The value of a field, and whose it is where the manifest does not say: `Kafka's default`, for example.

    None if the manifest does not say, and nobody else does.
    """
    if path.startswith(LABEL_PREFIX):
        return desired.intent.labels.get(path.removeprefix(LABEL_PREFIX)), ""
    own: object = (desired.state or {}).get(path)
    if own is None:
        own = _below(desired.intent.spec, path)
    if own is not None:
        return str(own).lower() if isinstance(own, bool) else str(own), ""
    name = path.removeprefix(CONFIG_PREFIX)
    if path.startswith(CONFIG_PREFIX):
        defaults = _cluster_defaults(desired.ref.kind, context.facts)
        if name in defaults:
            return defaults[name], "the cluster's default"
    key = _fields(desired.ref.kind).get(path)
    owner = "the default of Java consumers" if path.startswith(CLIENT_PREFIX) else "Kafka's default"
    return (key.default, owner) if key is not None else (None, "")


def _cluster_defaults(kind: str, facts: Facts | None) -> Mapping[str, str | None]:
    return facts.config_defaults.get(kind, {}) if facts is not None else {}


def _below(spec: Mapping[str, object], path: str) -> object:
    """A value of a spec in normal form; the keys of `client` have dots of their own."""
    head, _, rest = path.partition(".")
    below = spec.get(head)
    if not rest or below is None:
        return below
    if not isinstance(below, Mapping):
        return None
    return below[rest] if rest in below else _below(below, rest)


@cache
def _fields(kind: str) -> Mapping[str, ConfigKey]:
    schema = load_schema(KINDS[kind].schema)
    configs = KINDS[kind].configs()
    return {
        **dict(_leaves(schema["$defs"]["spec"], schema, "", KINDS[kind].verbatim | _NO_FIELDS)),
        **{CONFIG_PREFIX + name: key for name, key in configs.items() if not key.internal},
        **KINDS[kind].policy_fields(),
    }


_NO_FIELDS = frozenset({"config", "overrides", "state"})
"""What a spec of any kind holds that goes by other names, or is no property of what it describes."""


def _leaves(
    part: Mapping[str, Any], schema: Mapping[str, Any], path: str, left_out: Collection[str] = ()
) -> list[tuple[str, ConfigKey]]:
    """The fields of a spec that hold one value, by their paths; without some of its keys."""
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].removeprefix("#/$defs/")] | part
    found = []
    for name, below in part.get("properties", {}).items():
        if name not in left_out:
            found += _leaves(below, schema, f"{path}.{name}" if path else name)
    if found or not path:
        return found
    choices = tuple(str(choice) for choice in part.get("enum", ()) if choice is not None)
    if choices:
        return [(path, ConfigKey(path, ConfigType.STRING, valid_values=choices))]
    said = part.get("type", [])
    types = {said} if isinstance(said, str) else {*said} - {"null"}
    if types > {"string"}:  # a duration, as text or in milliseconds: the unit of a key is in its name
        return [(path, ConfigKey(f"{path}.ms", ConfigType.LONG))]
    return [(path, ConfigKey(path, _TYPES[one])) for one in types if one in _TYPES]


_WHOLE = frozenset({ConfigType.INT, ConfigType.LONG, ConfigType.SHORT})
_NUMBERS = _WHOLE | {ConfigType.DOUBLE}


@dataclass(frozen=True, slots=True)
class Constraint:
    """Bounds of one field; values are canonical texts.

    Attributes:
        path: The field's path in manifests.
        key: Its type.
        least: The least value.
        greatest: The greatest value.
        multiple_of: What the value is a multiple of.
        one_of: The only values; empty: any.
    """

    path: str
    key: ConfigKey
    least: str | None = None
    greatest: str | None = None
    multiple_of: int | None = None
    one_of: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The field's name in messages."""
        return self.path.removeprefix(CONFIG_PREFIX)

    def shown(self, value: str) -> str:
        """A value as people read it."""
        return human(self.key, value)

    def broken(self, value: str) -> list[str]:
        """What the value must be and is not."""
        value = observed(self.key, value)
        wanted = []
        if self.least is not None and _number(self.key, value) < _number(self.key, self.least):
            wanted.append(f"at least {self.shown(self.least)}")
        if self.greatest is not None and _number(self.key, value) > _number(self.key, self.greatest):
            wanted.append(f"at most {self.shown(self.greatest)}")
        if self.multiple_of is not None and _number(self.key, value) % self.multiple_of:
            wanted.append(f"a multiple of {self.multiple_of}")
        if self.one_of and not any(equal(self.key, value, one) for one in self.one_of):
            wanted.append(self._choice())
        return wanted

    def demands(self) -> list[str]:
        """Everything that it asks for, in words."""
        said = []
        if self.least is not None:
            said.append(f"at least {self.shown(self.least)}")
        if self.greatest is not None:
            said.append(f"at most {self.shown(self.greatest)}")
        if self.multiple_of is not None:
            said.append(f"a multiple of {self.multiple_of}")
        return [*said, self._choice()] if self.one_of else said

    def _choice(self) -> str:
        many = "one of " if len(self.one_of) > 1 else ""
        return many + " | ".join(map(self.shown, self.one_of))


def read_constraint(
    path: str, key: ConfigKey, given: Mapping[str, Any], report: Callable[[str, str], None]
) -> Constraint:
    """Read the bounds of one field; what is wrong is reported, with the name of the bound, and left out."""
    values: dict[str, Any] = {}
    for name, value, error in _values(key, given):
        if error is not None:
            report(name, error)
        else:
            values[name] = value
    constraint = Constraint(
        path, key, values.get("min"), values.get("max"), values.get("multipleOf"), values.get("oneOf", ())
    )
    least, greatest = constraint.least, constraint.greatest
    if least is not None and greatest is not None and _number(key, least) > _number(key, greatest):
        shown = constraint.shown
        report("max", f"max is {shown(greatest)}, below min, which is {shown(least)}: nothing fits")
    impossible = [one for one in constraint.one_of if constraint.broken(one)]
    if constraint.one_of and len(impossible) == len(constraint.one_of):
        report("oneOf", "none of these values fits the other bounds")
    return constraint


def _values(key: ConfigKey, given: Mapping[str, Any]) -> Iterator[tuple[str, Any, str | None]]:
    for name, value in given.items():
        try:
            yield name, _READERS[name](key, value), None
        except ValueError as error:
            yield name, None, str(error)


def _bound(key: ConfigKey, value: str) -> str:
    if key.type not in _NUMBERS:
        raise ValueError(f"{key.name} is not a number: write oneOf")
    return canonical(key, value)


def _multiple(key: ConfigKey, value: str) -> int:
    if key.type not in _WHOLE:
        raise ValueError(f"{key.name} is not a whole number, and so no multiple")
    number = int(canonical(ConfigKey(key.name, ConfigType.LONG), value))
    if number < 1:
        raise ValueError(f"multipleOf must be at least 1, not {number}")
    return number


def _choices(key: ConfigKey, values: list[str]) -> tuple[str, ...]:
    return tuple(canonical(key, value) for value in values)


_READERS: Mapping[str, Callable[[ConfigKey, Any], object]] = {
    "min": _bound,
    "max": _bound,
    "multipleOf": _multiple,
    "oneOf": _choices,
}


def _number(key: ConfigKey, value: str) -> float:
    if value == "-1" and key.can_be_unlimited:
        return inf
    return int(value) if key.type in _WHOLE else float(value)

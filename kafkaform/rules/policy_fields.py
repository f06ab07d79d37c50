"""The fields that policies can use, and the bounds of their values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, partial
from math import inf
from typing import TYPE_CHECKING, Any

from kafkaform.core.config_values import ConfigKey, ConfigType, canonical, equal, human, normalise_observed
from kafkaform.core.model import CONFIG_PREFIX, Desired
from kafkaform.core.schema_files import find_marked, load_schema
from kafkaform.core.values import Value
from kafkaform.core.wording import nearest
from kafkaform.resources import KINDS
from kafkaform.resources.base import Configured, PolicyChecked, PolicyPart, config_keys, list_shorthands

if TYPE_CHECKING:
    from kafkaform.rules import RuleContext

CLIENT_PREFIX = "client."
LABEL_PREFIX = "labels."

_TYPES = {
    "integer": ConfigType.LONG,
    "number": ConfigType.DOUBLE,
    "boolean": ConfigType.BOOLEAN,
    "string": ConfigType.STRING,
}

_NO_FIELDS = frozenset({"config", "overrides", "state"})
"""Keys of any spec that have paths of their own, or do not describe the resource."""
_WHOLE = frozenset({ConfigType.INT, ConfigType.LONG, ConfigType.SHORT})
_NUMBERS = _WHOLE | {ConfigType.DOUBLE}


def field_key(kind: str, path: str) -> ConfigKey | None:
    """Return the type of a field, by its path in manifests of a kind; None if it does not exist."""
    if path.startswith(LABEL_PREFIX) and path != LABEL_PREFIX:
        return ConfigKey(path, ConfigType.STRING)
    name = path.removeprefix(CONFIG_PREFIX)
    if name != path and isinstance(owner := KINDS[kind], Configured) and owner.is_vendor(name):
        return ConfigKey(name, ConfigType.STRING)
    return _list_fields(kind).get(path)


def field_hint(kind: str, path: str) -> str:
    """Return a suggestion for a field that does not exist."""
    near = nearest(path, _list_fields(kind))
    for config, short in list_shorthands(KINDS[kind]).items():
        if path == f"{short.section}.{short.field}" or (short.is_main and path == short.section):
            near = config
    return f"did you mean {near!r}?" if near else "such as partitions, config.retention.ms or labels.team"


def field_value(
    desired: Desired, path: str, context: RuleContext, part: PolicyPart
) -> tuple[str | None, str]:
    """Return the value of a field, and its source if that is not the manifest, such as `Kafka's default`.

    The value is None if the field is not set and has no default. The source of a field of a part is its path.
    """
    if path in part.values:
        return part.values[path], part.path
    if path.startswith(LABEL_PREFIX):
        return desired.intent.labels.get(path.removeprefix(LABEL_PREFIX)), ""
    # Fields of the state first, in canonical spelling; what only rules read is in the spec.
    own: object = (desired.state or {}).get(path)
    if own is None:
        own = _find_value(desired.intent.spec, path)
    if own is not None:
        return str(own).lower() if isinstance(own, bool) else str(own), ""
    name = path.removeprefix(CONFIG_PREFIX)
    if path.startswith(CONFIG_PREFIX) and context.facts is not None:
        defaults = context.facts.config_defaults.get(desired.ref.kind, {})
        if name in defaults:
            return defaults[name], "the cluster's default"
    key = _list_fields(desired.ref.kind).get(path)
    owner = "the default of Java consumers" if path.startswith(CLIENT_PREFIX) else "Kafka's default"
    return (key.default, owner) if key is not None else (None, "")


def _find_value(spec: Mapping[str, object], path: str) -> object:
    """Return a value of a spec in normal form; the keys of `client` contain dots."""
    head, _, tail = path.partition(".")
    below = spec.get(head)
    if not tail or below is None:
        return below
    if not isinstance(below, Mapping):
        return None
    return below[tail] if tail in below else _find_value(below, tail)


@cache
def _list_fields(kind: str) -> Mapping[str, ConfigKey]:
    owner = KINDS[kind]
    schema = load_schema(owner.schema)
    left_out = find_marked(owner.schema, "x-verbatim") | _NO_FIELDS
    return {
        **dict(_list_leaves(schema["$defs"]["spec"], schema, "", left_out)),
        **{CONFIG_PREFIX + name: key for name, key in config_keys(owner).items() if not key.internal},
        **(owner.policy_fields() if isinstance(owner, PolicyChecked) else {}),
    }


def _list_leaves(
    part: Mapping[str, Any], schema: Mapping[str, Any], path: str, left_out: Collection[str] = ()
) -> list[tuple[str, ConfigKey]]:
    """Return the fields of a spec that hold one value, with their paths, except for some keys."""
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].removeprefix("#/$defs/")] | part
    leaves = []
    for name, below in part.get("properties", {}).items():
        if name not in left_out:
            leaves += _list_leaves(below, schema, f"{path}.{name}" if path else name)
    if leaves or not path:
        return leaves
    choices = tuple(str(choice) for choice in part.get("enum", ()) if choice is not None)
    if choices:
        return [(path, ConfigKey(path, ConfigType.STRING, valid_values=choices))]
    declared = part.get("type", [])
    types = {declared} if isinstance(declared, str) else {*declared} - {"null"}
    # Text or a number is a duration. `ConfigKey.unit` goes by the ending of the name, so the key gets one.
    if types > {"string"}:
        return [(path, ConfigKey(f"{path}.ms", ConfigType.LONG))]
    return [(path, ConfigKey(path, _TYPES[name])) for name in types if name in _TYPES]


class Constraint(Value):
    """Bounds of one field; values are canonical texts.

    Attributes:
        path: The field's path in manifests.
        multiple_of: A number of which the value must be a multiple.
        one_of: The valid values; empty: any.
        none_of: Values that are not valid.
    """

    path: str
    key: ConfigKey
    least: str | None = None
    greatest: str | None = None
    multiple_of: int | None = None
    one_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The field's name in messages."""
        return self.path.removeprefix(CONFIG_PREFIX)

    def format(self, value: str) -> str:
        """Return a value with its unit."""
        return human(self.key, value)

    def broken(self, value: str) -> list[str]:
        """Return the bounds that a value breaks, as text."""
        # A default of the brokers may be spelt in another way than a manifest's value.
        value = normalise_observed(self.key, value)
        return [text for text, is_broken in self._list_bounds() if is_broken(value)]

    def demands(self) -> list[str]:
        """Return all bounds as text."""
        return [text for text, _ in self._list_bounds()]

    def _list_bounds(self) -> Iterator[tuple[str, Callable[[str], bool]]]:
        """Yield each bound as text, and the function that returns whether a value breaks it."""
        number, same = partial(_number, self.key), partial(equal, self.key)
        least, greatest, step = self.least, self.greatest, self.multiple_of
        if least is not None:
            yield f"at least {self.format(least)}", lambda value: number(value) < number(least)
        if greatest is not None:
            yield f"at most {self.format(greatest)}", lambda value: number(value) > number(greatest)
        if step is not None:
            yield f"a multiple of {step}", lambda value: number(value) % step != 0
        if self.one_of:
            many = "one of " if len(self.one_of) > 1 else ""
            choices = many + " | ".join(map(self.format, self.one_of))
            yield choices, lambda value: not any(same(value, choice) for choice in self.one_of)
        if self.none_of:
            excluded = "other than " + " | ".join(map(self.format, self.none_of))
            yield excluded, lambda value: any(same(value, choice) for choice in self.none_of)


def read_constraint(
    path: str, key: ConfigKey, given: Mapping[str, Any], report: Callable[[str, str], None]
) -> Constraint:
    """Parse the bounds of one field; report invalid ones with their names, and leave them out."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        try:
            values[name] = _READERS[name](key, value)
        except ValueError as error:
            report(name, str(error))
    constraint = Constraint(
        path,
        key,
        values.get("min"),
        values.get("max"),
        values.get("multipleOf"),
        values.get("in", ()),
        values.get("notIn", ()),
    )
    least, greatest = constraint.least, constraint.greatest
    if least is not None and greatest is not None and _number(key, least) > _number(key, greatest):
        text = constraint.format
        report("max", f"max is {text(greatest)}, below min, which is {text(least)}: no value fits")
    impossible = [choice for choice in constraint.one_of if constraint.broken(choice)]
    if constraint.one_of and len(impossible) == len(constraint.one_of):
        report("in", "none of these values fits the other bounds")
    return constraint


def _parse_bound(key: ConfigKey, value: str) -> str:
    if key.type not in _NUMBERS:
        raise ValueError(f"{key.name} is not a number; use `in: [VALUE]`")
    return canonical(key, value)


def _parse_multiple(key: ConfigKey, value: str) -> int:
    if key.type not in _WHOLE:
        raise ValueError(f"{key.name} is not a whole number, so it cannot have multipleOf")
    number = int(canonical(ConfigKey(key.name, ConfigType.LONG), value))
    if number < 1:
        raise ValueError(f"multipleOf must be at least 1, not {number}")
    return number


def _parse_choices(key: ConfigKey, values: list[str]) -> tuple[str, ...]:
    return tuple(canonical(key, value) for value in values)


_READERS: Mapping[str, Callable[[ConfigKey, Any], object]] = {
    "min": _parse_bound,
    "max": _parse_bound,
    "multipleOf": _parse_multiple,
    "in": _parse_choices,
    "notIn": _parse_choices,
}


def _number(key: ConfigKey, value: str) -> float:
    # No limit is more than any bound, though -1 is less.
    if value == "-1" and key.can_be_unlimited:
        return inf
    return int(value) if key.type in _WHOLE else float(value)

"""What a policy asks of one field."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from kafkaform.core.config_values import ConfigKey, ConfigType, canonical, equal, human, observed
from kafkaform.core.model import CONFIG_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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

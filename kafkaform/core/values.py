"""Immutable values: the bases of the classes that carry data, and copies with other fields.

msgspec's structs are defined, made and compared by C code: a plan imports 180 of these classes, and makes
tens of thousands of objects.
"""

from __future__ import annotations

import dataclasses
from abc import ABCMeta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast, dataclass_transform

import msgspec
from msgspec import field
from msgspec.structs import asdict

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AbstractValue", "HiddenValue", "Value", "asdict", "compare_fields", "field", "replace"]

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value(msgspec.Struct, frozen=True):
    """An immutable value, equal to another one of its class with equal fields."""


class HiddenValue(Value):
    """A value with secrets, which no repr shows."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<hidden>)"


class _AbstractMeta(msgspec.StructMeta, ABCMeta):
    """The metaclass of values with abstract methods."""


class AbstractValue(Value, metaclass=_AbstractMeta):
    """A value with abstract methods, which its subclasses must define."""


def compare_fields(*names: str) -> tuple[Callable[[Any, object], bool], Callable[[Any], int]]:
    """Return `__eq__` and `__hash__` that compare values of a class by only these fields."""
    key = attrgetter(*names)

    def equals(value: object, other: object) -> bool:
        return type(value) is type(other) and key(value) == key(other)

    def compute_hash(value: object) -> int:
        return hash(key(value))

    return equals, compute_hash


def replace(value: _T, /, **changes: Any) -> _T:
    """Return a copy of a value, or of a dataclass, with other values of some fields."""
    if isinstance(value, Value):
        return msgspec.structs.replace(value, **changes)
    return dataclasses.replace(cast("Any", value), **changes)  # type: ignore[no-any-return]

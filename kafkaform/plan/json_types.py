"""Reading JSON that must have one meaning and an exact form, value by value, with the place of what is wrong.

`at` is the place of a value's parent, such as `changes[3]`; the parent of what is at the top is "".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from kafkaform.core.printable import clipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkaform.core.model import FieldValue

_T = TypeVar("_T")
Object: TypeAlias = dict[str, Any]

_LARGEST = 2**63  # no number of Kafka's is larger


class Violation(Exception):  # noqa: N818 - translated by whoever knows what was to be read
    """A value that is not allowed: where, and what is wrong."""


def parse(text: str) -> Any:
    """Parse JSON that all readers take alike: no key twice, no fraction, no number beyond 64 bits.

    Raises:
        json.JSONDecodeError: It is not JSON.
        Violation: A key is there twice.
        ValueError: It has another number.
        RecursionError: It is nested too deeply.
    """
    return json.loads(
        text,
        parse_int=_whole,
        parse_float=_no_fraction,
        parse_constant=_no_fraction,
        object_pairs_hook=_distinct,
    )


def fail(at: str, key: str, message: str) -> NoReturn:
    """Raise a Violation for a member of the object at that place."""
    raise Violation(f"{at}{'.' if at else ''}{key}: {message}")


def members(value: object, at: str, keys: tuple[str, ...], optional: tuple[str, ...] = ()) -> Object:
    """The value as an object with exactly these keys, and perhaps some of the optional ones."""
    if not isinstance(value, dict):
        raise Violation(f"{at}: not an object")
    for key in keys:
        if key not in value:
            fail(at, key, "missing")
    if len(value) > len(keys) and (unknown := value.keys() - {*keys, *optional}):
        raise Violation(f"{at}: unknown key {clipped(min(unknown), 60)!r}")
    return value


def each(parent: Object, key: str, at: str, read: Callable[[object, str], _T]) -> tuple[_T, ...]:
    """The items of an array, each read with its place."""
    items = parent[key]
    if not isinstance(items, list):
        fail(at, key, "not an array")
    prefix = f"{at}.{key}" if at else key
    return tuple(read(item, f"{prefix}[{index}]") for index, item in enumerate(items))


def text_of(parent: Object, key: str, at: str) -> str:
    """A string."""
    value = parent[key]
    if isinstance(value, str):
        return value
    fail(at, key, "not a string")


def optional_text(parent: Object, key: str, at: str, *, least: int = 0) -> str | None:
    """A string of at least so many characters, or null."""
    value = parent[key]
    if value is None or (isinstance(value, str) and len(value) >= least):
        return value
    fail(at, key, "empty" if value == "" else "neither a string nor null")


def count_of(parent: Object, key: str, at: str, *, least: int) -> int:
    """A whole number from `least` on."""
    value = parent[key]
    if type(value) is int and value >= least:
        return value
    fail(at, key, f"not a whole number from {least} on")


def value_of(parent: Object, key: str, at: str) -> FieldValue:
    """The value of a managed field."""
    value = parent[key]
    if value is None or type(value) in (int, str):
        checked: FieldValue = value
        return checked
    fail(at, key, "not a whole number, a string or null")


def one_of(parent: Object, key: str, at: str, allowed: dict[str, _T]) -> _T:
    """What one of the allowed strings stands for."""
    value = parent[key]
    if isinstance(value, str) and value in allowed:
        return allowed[value]
    fail(at, key, f"not one of {', '.join(allowed)}")


def require_null(parent: Object, at: str, keys: tuple[str, ...]) -> None:
    """Raise a Violation unless all of these are null."""
    for key in keys:
        if parent[key] is not None:
            fail(at, key, "must be null here")


def require_unique(names: Iterable[str], at: str, message: str) -> None:
    """Raise a Violation, with the name behind the message, if a name is there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise Violation(f"{at}: {message} {clipped(name, 200)}")
        seen.add(name)


def _distinct(pairs: list[tuple[str, Any]]) -> Object:
    """An object, each of whose keys is there once: of two, readers of JSON differ in which one counts."""
    read = dict(pairs)
    if len(read) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Violation(f"the key {clipped(twice, 60)!r} is there twice")
    return read


def _whole(number: str) -> int:
    value = int(number)
    if abs(value) > _LARGEST:
        raise ValueError(number)
    return value


def _no_fraction(number: str) -> NoReturn:
    raise ValueError(number)

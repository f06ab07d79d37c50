"""One config key of Kafka, and its values: the one spelling of each, what is equal, how people read them.

Two values are equal if Kafka parses them to the same thing, however they are written, so that `0.50` and
`0.5`, or `7d` and `604800000`, are never taken for a change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import ceil, floor, isinf
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.core.units import format_duration, format_size, parse_duration, parse_size, readable_size
from kafkaform.core.wording import did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Range: TypeAlias = tuple[int | float | None, int | float | None]
"""The least and the greatest valid number, both included; None where there is no limit."""


class ConfigType(StrEnum):
    """Kafka's types of configs, by the names that both its ConfigDef and its protocol use."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105 - the name of a type


class Unit(StrEnum):
    """What the number of a config counts."""

    MS = "ms"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker config that a topic's default comes from; one of its units is `factor` of the topic's."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class ConfigKey:
    """One config key; a key that only the live broker knows has just a name and a type.

    Attributes:
        name: Kafka's name of it.
        type: Kafka's type of it.
        default: Kafka's own default, None where it has none.
        ranges: A number must be in one of these; empty allows what the type can hold.
        valid_values: The only valid texts, of the whole or, in a list, of each element; empty allows any.
        empty_allowed: Whether a list that has `valid_values` may be empty.
        ignores_case: Whether Kafka reads `valid_values` in upper and lower case alike.
        format: How Kafka describes a syntax that is neither of these.
        documentation: The first two sentences of Kafka's documentation.
        importance: `high`, `medium` or `low`.
        internal: Whether it is Kafka's own, for tests; DescribeConfigs does not list it.
        deprecated: Whether Kafka says that it is to go.
        since: The minor version of Kafka that it came with, such as `4.1`; None if that was 3.3 or an earlier
            one, or is not known.
        synonyms: Where its default in a cluster comes from; the first that is set on a broker wins.
    """

    name: str
    type: ConfigType
    default: str | None = None
    ranges: tuple[Range, ...] = ()
    valid_values: tuple[str, ...] = ()
    empty_allowed: bool = False
    ignores_case: bool = False
    format: str = ""
    documentation: str = ""
    importance: str = "medium"
    internal: bool = False
    deprecated: bool = False
    since: str | None = None
    synonyms: tuple[Synonym, ...] = ()

    @property
    def unit(self) -> Unit | None:
        """The unit, which Kafka keeps in the name."""
        if self.type not in _TYPE_RANGES:
            return None
        return Unit.MS if self.name.endswith(".ms") else Unit.BYTES if self.name.endswith(".bytes") else None

    @property
    def minimum(self) -> int | None:
        """The least valid whole number."""
        least = self.ranges[0][0] if self.ranges else None
        return None if least is None else ceil(least)

    @property
    def maximum(self) -> int | None:
        """The greatest valid whole number."""
        greatest = self.ranges[-1][1] if self.ranges else None
        return None if greatest is None else floor(greatest)

    @property
    def can_be_unlimited(self) -> bool:
        """Whether -1 means "no limit" here: so for retention by time or size, and nowhere else."""
        return self.name.endswith(("retention.ms", "retention.bytes")) and (
            self.minimum is None or self.minimum < 0
        )


_TYPE_RANGES: Mapping[ConfigType, tuple[int, int]] = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), 2**31 - 1),
    ConfigType.LONG: (-(2**63), 2**63 - 1),
}
_LONG_MAX = str(2**63 - 1)
_UNLIMITED = "unlimited"

# Java trims these and no others; a no-break space stays, and the broker refuses it.
_BLANKS = "".join(map(chr, range(0x21)))
_INTEGER = re.compile(r"[+-]?0{0,99}\d{1,19}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,5})?", re.ASCII)

_KEPT = 4_096
"""How many readings of values are kept: thousands of topics have few different ones."""

_BY_DURATION = r"by_duration:P(?=.)(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d{1,9})?S)?)?"

# Syntaxes that Kafka checks by code of its own, by how it describes them.
_FORMATS: Mapping[str, re.Pattern[str]] = {
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...": re.compile(
        r"\*|(?:\d+:\d+(?:,\d+:\d+)*)?", re.ASCII
    ),
    "[latest, earliest, by_duration:PnDTnHnMn.nS]": re.compile(rf"latest|earliest|{_BY_DURATION}", re.ASCII),
    "[latest, earliest, none, by_duration:PnDTnHnMn.nS]": re.compile(
        rf"latest|earliest|none|{_BY_DURATION}", re.ASCII
    ),
    "non-empty string": re.compile(r".+", re.DOTALL),
}


def canonical(key: ConfigKey | None, text: str) -> str:
    """The one spelling of a value: two texts have the same one if and only if Kafka takes them as equal.

    Human units are read where Kafka counts milliseconds or bytes, and `unlimited` where -1 means that.
    Of a key that is not known (None), the text is only trimmed.

    Raises:
        ValueError: Kafka would refuse the value; the message is one line that starts with the key's name.
    """
    text = text.strip(_BLANKS)
    if key is None:
        return text
    return _read(key, text)


@lru_cache(maxsize=_KEPT)
def _read(key: ConfigKey, text: str) -> str:
    return _READERS[key.type](key, text)


def observed(key: ConfigKey | None, text: str) -> str:
    """The canonical spelling of a value that a broker holds, or the trimmed text if it would refuse it today.

    Brokers keep values that were set before a limit was introduced, or that another Kafka allows.
    """
    try:
        return canonical(key, text)
    except ValueError:
        return text.strip(_BLANKS)


def equal(key: ConfigKey | None, a: str, b: str) -> bool:
    """Whether Kafka takes two values as the same; invalid ones are compared as texts."""
    return a == b or observed(key, a) == observed(key, b)


@lru_cache(maxsize=_KEPT)
def human(key: ConfigKey | None, value: str) -> str:
    """A value as people write it: `7d`, `50 GiB`, `unlimited`; the value itself where no unit fits."""
    if key is None or key.type not in _TYPE_RANGES:
        return value
    if value == _LONG_MAX and key.type is ConfigType.LONG:
        return f"{_UNLIMITED} (Long.MAX)"
    if value == "-1" and key.can_be_unlimited:
        return _UNLIMITED
    unit = key.unit
    if unit is None or not _is_plain(value):
        return value
    return format_duration(int(value)) if unit is Unit.MS else format_size(int(value))


@lru_cache(maxsize=_KEPT)
def readable(key: ConfigKey | None, value: str) -> str:
    """A value as people read it: as `human`, but odd sizes rounded: `1.9 GiB (2073741824)`."""
    sized = key is not None and key.unit is Unit.BYTES and key.type in _TYPE_RANGES and _is_plain(value)
    return readable_size(int(value)) if sized and value != _LONG_MAX else human(key, value)


def _is_plain(text: str) -> bool:
    """Whether it is a whole number, not negative, without anything that could be left out."""
    return text.isdigit() and text.isascii() and len(text) < 20 and (text[0] != "0" or text == "0")


def _boolean(key: ConfigKey, text: str) -> str:
    lower = text.lower()
    if lower not in {"true", "false"}:
        raise ValueError(f"{key.name}: {quoted(text)} is not valid; one of true, false")
    return lower


def _integer(key: ConfigKey, text: str) -> str:
    if _is_plain(text) or _INTEGER.fullmatch(text):
        number = int(text)
    elif _DECIMAL.fullmatch(text) and (whole := _written_out(text)):
        raise ValueError(f"{key.name}: {quoted(text)} is not a whole number; write {whole}")
    else:
        number = _with_unit(key, text)
    _check_range(key, number, text)
    return str(number)


def _written_out(text: str) -> str:
    """`1e3` or `2.0` as a whole number; nothing where it is none, or larger than doubles are exact."""
    number = float(text)
    return str(int(number)) if number.is_integer() and abs(number) <= 2**53 else ""


def _with_unit(key: ConfigKey, text: str) -> int:
    if text == _UNLIMITED and key.can_be_unlimited:
        return -1
    unit = key.unit
    if unit is None:
        raise ValueError(f"{key.name}: {quoted(text)} is not a whole number")
    try:
        return parse_duration(text) if unit is Unit.MS else parse_size(text)
    except ValueError as error:
        raise ValueError(f"{key.name}: {error}") from None


def _double(key: ConfigKey, text: str) -> str:
    number = float(text) if _DECIMAL.fullmatch(text) else None
    if number is None or isinf(number):
        raise ValueError(f"{key.name}: {quoted(text)} is not a number")
    _check_range(key, number, text)
    # Kafka compares the doubles, so their shortest texts are compared here, without exponents.
    if number.is_integer():
        return str(int(number))
    shortest = repr(number)
    if "e" not in shortest:
        return shortest
    from decimal import Decimal

    return f"{Decimal(shortest):f}"


def _string(key: ConfigKey, text: str) -> str:
    if key.ignores_case:
        text = {value.casefold(): value for value in key.valid_values}.get(text.casefold(), text)
    if key.valid_values:
        _check_member(key, text)
    _check_format(key, text)
    return text


def _list(key: ConfigKey, text: str) -> str:
    elements = [element.strip(_BLANKS) for element in text.split(",")] if text else []
    if key.valid_values:
        if not elements and not key.empty_allowed:
            raise ValueError(f"{key.name}: is empty; one or more of {', '.join(key.valid_values)}")
        for element in elements:
            _check_member(key, element)
        # Where the elements are of a fixed choice, Kafka asks which are there, not in what order.
        elements = sorted(set(elements))
    joined = ",".join(elements)
    _check_format(key, joined)
    return joined


def _verbatim(_: ConfigKey, text: str) -> str:
    return text


_READERS: Mapping[ConfigType, Callable[[ConfigKey, str], str]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: _string,
    ConfigType.INT: _integer,
    ConfigType.SHORT: _integer,
    ConfigType.LONG: _integer,
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
    ConfigType.CLASS: _verbatim,
    ConfigType.PASSWORD: _verbatim,
}


def _check_member(key: ConfigKey, text: str) -> None:
    if text not in key.valid_values:
        choices = ", ".join(key.valid_values)
        raise ValueError(
            f"{key.name}: {quoted(text)} is not valid; one of {choices}{did_you_mean(text, key.valid_values)}"
        )


def _check_format(key: ConfigKey, text: str) -> None:
    if key.format and not _FORMATS[key.format].fullmatch(text):
        raise ValueError(f"{key.name}: {quoted(text)} is not of the form {key.format}")


def _check_range(key: ConfigKey, number: float, text: str) -> None:
    ranges: tuple[Range, ...] = key.ranges
    limits = _TYPE_RANGES.get(key.type)
    if limits is not None and not limits[0] <= number <= limits[1]:
        ranges = (limits,)
    elif not ranges or any(
        (least is None or number >= least) and (greatest is None or number <= greatest)
        for least, greatest in ranges
    ):
        return
    shown = text if text == str(number) else f"{quoted(text)} ({number})"
    least, greatest = ranges[0][0], ranges[-1][1]
    if least is not None and number < least:
        raise ValueError(f"{key.name}: {shown} is below the least value {least}")
    if greatest is not None and number > greatest:
        raise ValueError(f"{key.name}: {shown} is above the greatest value {greatest}")
    valid = ", or ".join(f"{low}" if low == high else f"{low} to {high}" for low, high in ranges)
    raise ValueError(f"{key.name}: {shown} is not valid; it must be {valid}")

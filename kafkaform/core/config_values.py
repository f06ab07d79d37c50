"""Kafka's config keys and their values: canonical spelling, equality, and display.

Two values are equal if Kafka parses them to the same thing. So `0.50` and `0.5`, or `7d` and `604800000`, are
not a change.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from math import ceil, floor, isinf
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.core.units import format_duration, format_size, parse_size, readable_size
from kafkaform.core.values import Value
from kafkaform.core.wording import did_you_mean, quoted
from spark_validation.durations import parse_duration

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
    """The unit of a numeric config."""

    MS = "ms"
    BYTES = "bytes"


class Synonym(Value):
    """A broker config that a topic's default comes from.

    Attributes:
        name: The broker config.
        factor: The factor that converts its value into the unit of the topic config: 3,600,000 for hours.
    """

    name: str
    factor: int = 1


# The caches below hash each key. With eq=False it is hashed by identity, not by all of its fields; the
# catalogue has one object for each key.
class ConfigKey(Value, eq=False):
    """One config key. A key that only the live broker reports has no more than a name and a type.

    Attributes:
        default: Kafka's own default; None if there is none.
        ranges: The ranges of numbers that any supported version accepts; empty: any number of the type.
        newest_ranges: Those that the newest version accepts.
        valid_values: The valid texts, or the valid elements of a list; empty: any.
        empty_allowed: Whether a list that has `valid_values` may be empty.
        ignores_case: Whether Kafka ignores the case of `valid_values`.
        format: Kafka's description of any other syntax, a key of `_FORMATS`.
        documentation: The first two sentences of Kafka's documentation.
        importance: `high`, `medium` or `low`.
        internal: Whether it is for Kafka's own tests; DescribeConfigs does not list it.
        deprecated: Whether Kafka has deprecated it.
        since: The minor version of Kafka that introduced it, such as `4.1`; None for 2.8 and earlier, or if
            unknown.
        retired: The minor version of Kafka that removed it; None if the newest has it.
        synonyms: The broker configs that its default comes from; the first that is set wins.
    """

    name: str
    type: ConfigType
    default: str | None = None
    ranges: tuple[Range, ...] = ()
    newest_ranges: tuple[Range, ...] = ()
    valid_values: tuple[str, ...] = ()
    empty_allowed: bool = False
    ignores_case: bool = False
    format: str = ""
    documentation: str = ""
    importance: str = "medium"
    internal: bool = False
    deprecated: bool = False
    since: str | None = None
    retired: str | None = None
    synonyms: tuple[Synonym, ...] = ()

    @property
    def unit(self) -> Unit | None:
        """The unit, which Kafka puts into the name."""
        if self.type not in _TYPE_RANGES:
            return None
        # Kafka has no field for the unit: these endings are the only evidence of it.
        if self.name.endswith(".ms"):
            return Unit.MS
        return Unit.BYTES if self.name.endswith((".bytes", "_byte_rate")) else None

    @property
    def minimum(self) -> int | None:
        """The least whole number that is valid in the newest version."""
        least = self.newest_ranges[0][0] if self.newest_ranges else None
        return None if least is None else ceil(least)

    @property
    def maximum(self) -> int | None:
        """The greatest whole number that is valid in the newest version."""
        greatest = self.newest_ranges[-1][1] if self.newest_ranges else None
        return None if greatest is None else floor(greatest)

    @property
    def can_be_unlimited(self) -> bool:
        """True if -1 means "no limit", as it does for retention by time or size only."""
        # delete.retention.ms has the same ending, but no -1: its least value is 0.
        return self.name.endswith(("retention.ms", "retention.bytes")) and (
            self.minimum is None or self.minimum < 0
        )


_TYPE_RANGES: Mapping[ConfigType, tuple[int, int]] = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), 2**31 - 1),
    ConfigType.LONG: (-(2**63), 2**63 - 1),
}
# The default of flush.ms, flush.messages, max.compaction.lag.ms and message.timestamp.before.max.ms.
_LONG_MAX = str(2**63 - 1)
_UNLIMITED = "unlimited"

# Java's trim() removes these and no others; a no-break space stays, and the broker refuses it.
_BLANKS = "".join(map(chr, range(0x21)))
# Java accepts a sign and any number of leading zeros. The bounds limit the time that int() and float() take,
# as the text of a manifest may be of any length.
_INTEGER = re.compile(r"[+-]?0{0,99}\d{1,19}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,5})?", re.ASCII)

# Thousands of topics have few different values, so the caches below are almost always hit.
_KEPT = 4_096

_BY_DURATION = r"by_duration:P(?=.)(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d{1,9})?S)?)?"

# Syntaxes that Kafka checks by code of its own, by Kafka's description.
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
    """Return the canonical spelling of a value: two values have the same one if and only if they are equal.

    Units such as `7d` are accepted for milliseconds and bytes, and `unlimited` where -1 means that.
    The value of an unknown key (None) is only trimmed.

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


def normalise_observed(key: ConfigKey | None, text: str) -> str:
    """Return the canonical spelling of a broker's value, or the trimmed text if it is not valid.

    Brokers keep values that were set before a limit was introduced, or that another version allows.
    """
    try:
        return canonical(key, text)
    except ValueError:
        return text.strip(_BLANKS)


def equal(key: ConfigKey | None, a: str, b: str) -> bool:
    """Compare two values as Kafka does; invalid ones are compared as text."""
    # Most values are equal as text: that needs no parsing.
    return a == b or normalise_observed(key, a) == normalise_observed(key, b)


@lru_cache(maxsize=_KEPT)
def human(key: ConfigKey | None, value: str) -> str:
    """Return a value with its unit: `7d`, `50 GiB`, `unlimited`; the value itself where no unit fits."""
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
    """Return a value as `human` does, but round odd sizes: `1.9 GiB (2073741824)`."""
    sized = key is not None and key.unit is Unit.BYTES and key.type in _TYPE_RANGES and _is_plain(value)
    return readable_size(int(value)) if sized and value != _LONG_MAX else human(key, value)


def _is_plain(text: str) -> bool:
    """Return whether it is a non-negative whole number without sign or leading zeros."""
    return text.isdigit() and text.isascii() and len(text) < 20 and (text[0] != "0" or text == "0")


def _read_boolean(key: ConfigKey, text: str) -> str:
    lower = text.lower()
    if lower not in {"true", "false"}:
        raise ValueError(f"{key.name}: {quoted(text)} is not valid; one of true, false")
    return lower


def _read_integer(key: ConfigKey, text: str) -> str:
    if _is_plain(text) or _INTEGER.fullmatch(text):
        number = int(text)
    elif _DECIMAL.fullmatch(text) and (whole := _expand_decimal(text)):
        raise ValueError(f"{key.name}: {quoted(text)} is not a whole number; write {whole}")
    else:
        number = _parse_with_unit(key, text)
    _check_range(key, number, text)
    return str(number)


def _expand_decimal(text: str) -> str:
    """Return `1e3` or `2.0` as a whole number; empty if it is not one, or too large for an exact double."""
    # Above 2**53, a double is not exact: the suggestion would be another number than the one written.
    number = float(text)
    return str(int(number)) if number.is_integer() and abs(number) <= 2**53 else ""


def _parse_with_unit(key: ConfigKey, text: str) -> int:
    if text == _UNLIMITED and key.can_be_unlimited:
        return -1
    unit = key.unit
    if unit is None:
        raise ValueError(f"{key.name}: {quoted(text)} is not a whole number")
    try:
        return parse_duration(text) if unit is Unit.MS else parse_size(text)
    except ValueError as error:
        raise ValueError(f"{key.name}: {error}") from None


def _read_double(key: ConfigKey, text: str) -> str:
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


def _read_string(key: ConfigKey, text: str) -> str:
    if key.ignores_case:
        text = {value.casefold(): value for value in key.valid_values}.get(text.casefold(), text)
    if key.valid_values:
        _check_member(key, text)
    _check_format(key, text)
    return text


def _read_list(key: ConfigKey, text: str) -> str:
    elements = [element.strip(_BLANKS) for element in text.split(",")] if text else []
    if key.valid_values:
        if not elements and not key.empty_allowed:
            raise ValueError(f"{key.name}: must not be empty; one or more of {', '.join(key.valid_values)}")
        for element in elements:
            _check_member(key, element)
        # Kafka ignores the order of elements that come from a fixed set.
        elements = sorted(set(elements))
    joined = ",".join(elements)
    _check_format(key, joined)
    return joined


def _keep_text(_: ConfigKey, text: str) -> str:
    return text


_READERS: Mapping[ConfigType, Callable[[ConfigKey, str], str]] = {
    ConfigType.BOOLEAN: _read_boolean,
    ConfigType.STRING: _read_string,
    ConfigType.INT: _read_integer,
    ConfigType.SHORT: _read_integer,
    ConfigType.LONG: _read_integer,
    ConfigType.DOUBLE: _read_double,
    ConfigType.LIST: _read_list,
    ConfigType.CLASS: _keep_text,
    ConfigType.PASSWORD: _keep_text,
}


def _check_member(key: ConfigKey, text: str) -> None:
    if text not in key.valid_values:
        choices = ", ".join(key.valid_values)
        raise ValueError(
            f"{key.name}: {quoted(text)} is not valid; one of {choices}{did_you_mean(text, key.valid_values)}"
        )


def _check_format(key: ConfigKey, text: str) -> None:
    if key.format and not _FORMATS[key.format].fullmatch(text):
        raise ValueError(f"{key.name}: {quoted(text)} does not have the form {key.format}")


def _check_range(key: ConfigKey, number: float, text: str) -> None:
    ranges: tuple[Range, ...] = key.ranges
    limits = _TYPE_RANGES.get(key.type)
    if limits is not None and not limits[0] <= number <= limits[1]:
        ranges = (limits,)
    # compression.gzip.level has two ranges: -1, and 1 to 9.
    elif not ranges or any(
        (least is None or number >= least) and (greatest is None or number <= greatest)
        for least, greatest in ranges
    ):
        return
    shown = text if text == str(number) else f"{quoted(text)} ({number})"
    least, greatest = ranges[0][0], ranges[-1][1]
    if least is not None and number < least:
        raise ValueError(f"{key.name}: {shown} is below the minimum {least}")
    if greatest is not None and number > greatest:
        raise ValueError(f"{key.name}: {shown} is above the maximum {greatest}")
    valid = ", or ".join(f"{low}" if low == high else f"{low} to {high}" for low, high in ranges)
    raise ValueError(f"{key.name}: {shown} is not valid; it must be {valid}")

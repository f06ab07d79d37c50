"""Durations and sizes as people write them (`7d`, `1h30m`, `50GiB`), exact to the millisecond and the byte.

The libraries know the units; the arithmetic is done here on integers, because theirs is on floats: of the
values a Kafka config can hold, those above 2**53 would come out changed.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from kafkaform.core.spelling import nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

_BLANKS = " \t\r\n"
_DURATION_UNITS = ("w", "d", "h", "m", "s", "ms")
_SIZE_UNITS = ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "kB", "B")
_FORMAT_DURATION = ("d", "h", "m", "s", "ms")
_LARGE = 10_000
"""So many of one unit are hard to read."""
_FORMAT_SIZE = ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB")

# No number that Kafka can hold has more digits; without a bound a long one takes quadratic time.
_PLACES = 19
_NUMBER = rf"(?:\d{{1,{_PLACES}}}(?:\.\d{{1,{_PLACES}}})?)"
_LONGEST_AGE_MS = 100_000 * 86_400_000  # so long ago there was a date still
_WHOLE = re.compile(rf"\d{{1,{_PLACES}}}", re.ASCII)
_DURATION = re.compile(rf"(?:{_NUMBER} ?[a-z]+ ?)+", re.ASCII)
_PART = re.compile(rf"({_NUMBER}) ?([a-z]+)", re.ASCII)
_SIZE = re.compile(rf"({_NUMBER}) ?([A-Za-z]+)", re.ASCII)


def parse_duration(text: str) -> int:
    """Read a duration as milliseconds: a bare number of them, or parts from weeks down to `ms`.

    Raises:
        ValueError: It is not a duration, is negative, or is not a whole number of milliseconds.
    """
    text = text.strip(_BLANKS)
    if _WHOLE.fullmatch(text):
        return int(text)
    parts = _PART.findall(text) if _DURATION.fullmatch(text) else []
    sizes = _duration_units()
    units = [unit for _, unit in parts]
    # Each unit once and the largest first: `1m30m` or `5m2h` is more likely a slip than meant.
    if not parts or units != sorted({*units} & {*sizes}, key=_DURATION_UNITS.index):
        raise ValueError(
            f"{quoted(text)} is not a duration; write a number of milliseconds or e.g. 7d, 36h, 90m, 1h30m"
        )
    total = sum(_scaled(number, sizes[unit]) for number, unit in parts)
    return _whole(total, text, "milliseconds")


def parse_age(text: str) -> int:
    """Read how old something may be, as milliseconds: a duration that dates can be reckoned with.

    Raises:
        ValueError: It is not a duration, or longer than a hundred thousand days.
    """
    milliseconds = parse_duration(text)
    if milliseconds > _LONGEST_AGE_MS:
        raise ValueError(f"{quoted(text)} is too long; leave it out for any age")
    return milliseconds


def parse_size(text: str) -> int:
    """Read a size as bytes: a bare number of them, or one with a unit (kB is 1000 bytes, KiB 1024).

    Raises:
        ValueError: It is not a size, is negative or ambiguous, or is not a whole number of bytes.
    """
    text = text.strip(_BLANKS)
    if _WHOLE.fullmatch(text):
        return int(text)
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{quoted(text)} is not a size; write a number of bytes or e.g. 50GiB, 512MiB, 1MB")
    number, unit = match.groups()
    sizes = _size_units()
    if unit == "KB":
        unit = "kB"
    if unit not in sizes:
        raise ValueError(f"{quoted(text)} {_wrong_size_unit(unit)}")
    return _whole(_scaled(number, sizes[unit]), text, "bytes")


def format_duration(milliseconds: int) -> str:
    """Write a duration as people do, exactly: `7d`, `36h`, `90m`, `1500ms`, `20m 34.567s`.

    That is one unit, unless there would be more than two of the next larger one: then each, seconds last.
    """
    sizes = _duration_units()
    for unit, larger in zip(_FORMAT_DURATION, (None, *_FORMAT_DURATION), strict=False):
        if milliseconds > 0 and milliseconds % sizes[unit] == 0:
            if larger is None or milliseconds < 2 * sizes[larger]:
                return f"{milliseconds // sizes[unit]}{unit}"
            break
    parts = []
    for unit in ("d", "h", "m"):
        count, milliseconds = divmod(milliseconds, sizes[unit])
        parts += [f"{count}{unit}"] if count else []
    if milliseconds > 0:
        seconds, rest = divmod(milliseconds, sizes["s"])
        parts.append(f"{seconds}.{rest:03}".rstrip("0").rstrip(".") + "s")
    return " ".join(parts) or "0"


def format_size(size: int) -> str:
    """Write a size in the largest unit that divides it: `50 GiB`, `2 GB`, else plain bytes."""
    unit = _dividing(size)
    return str(size) if unit is None else f"{size // _size_units()[unit]} {unit}"


def readable_size(size: int) -> str:
    """Write a size as `format_size`, or rounded with the bytes behind it: `1.9 GiB (2073741824)`."""
    unit = _dividing(size)
    if size < _LARGE or (unit is not None and size < _LARGE * _size_units()[unit]):
        return format_size(size)
    return f"{rounded_size(size)} ({size})"


@cache
def _duration_units() -> Mapping[str, int]:
    from datetime import timedelta

    from durationpy import from_str

    return {unit: from_str(f"1{unit}") // timedelta(milliseconds=1) for unit in _DURATION_UNITS}


@cache
def _size_units() -> Mapping[str, int]:
    from bitmath import parse_string  # 20 ms to import

    return {unit: int(parse_string(f"1{unit}").bytes) for unit in _SIZE_UNITS}


def rounded_size(size: int) -> str:
    """A size in bytes for people, to one decimal: `1.3 GiB`."""
    from bitmath import NIST, Byte

    return str(Byte(size).best_prefix(NIST).format("{value:.1f} {unit}")) if size else "no data"


@lru_cache(maxsize=1024)
def rounded_duration(milliseconds: int) -> str:
    """A duration for people, without parts that are too small to matter: `36h`, `about 20m 34s`."""
    kept, rest = 0, milliseconds
    for unit in _FORMAT_DURATION:
        size = _duration_units()[unit]
        number, rest = divmod(rest, size)
        if number * size * 1000 >= milliseconds:
            kept += number * size
    return format_duration(kept) if kept == milliseconds else f"about {format_duration(kept)}"


def rounded_down(milliseconds: int) -> int:
    """The part of a duration that is whole in the largest unit of which there are two: 42h of 42h 30m."""
    size = next(
        (size for unit in _FORMAT_DURATION if milliseconds >= 2 * (size := _duration_units()[unit])), 1
    )
    return milliseconds - milliseconds % size


def _scaled(number: str, size: int) -> int:
    """`number` times `size`, as a whole number of units of 10**-_PLACES."""
    whole, _, fraction = number.partition(".")
    scale: int = 10 ** (_PLACES - len(fraction))
    return int(whole + fraction) * size * scale


def _whole(scaled: int, text: str, things: str) -> int:
    one: int = 10**_PLACES
    result, rest = divmod(scaled, one)
    if rest:
        raise ValueError(f"{quoted(text)} is not a whole number of {things}")
    return result


def _wrong_size_unit(unit: str) -> str:
    letter = unit.upper()
    if letter in {"K", "M", "G", "T"}:
        decimal = "kB" if letter == "K" else f"{letter}B"
        return f"is ambiguous; write {decimal} (powers of 1000) or {letter}iB (powers of 1024)"
    meant = nearest(unit, _SIZE_UNITS)
    return (
        f"has no known unit; {f'write {meant}' if meant else 'write B, kB, MB, GB, TB, KiB, MiB, GiB or TiB'}"
    )


def _dividing(size: int) -> str | None:
    """The largest unit that a size is a multiple of; None if it is of none."""
    sizes = _size_units()
    dividing = [unit for unit in _FORMAT_SIZE if size > 0 and size % sizes[unit] == 0]
    return max(dividing, key=sizes.__getitem__, default=None)

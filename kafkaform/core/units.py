"""Parsing and formatting of durations and sizes (`7d`, `1h30m`, `50GiB`), exact to the millisecond and byte.

The arithmetic is on integers: floats would change values of Kafka configs above 2**53.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from kafkaform.core.wording import nearest, quoted
from spark_validation.durations import BLANKS, MILLISECONDS, NUMBER, WHOLE, add_up, parse_duration

if TYPE_CHECKING:
    from kafkaform.core.model import DataSize

_BYTES = {
    "TiB": 2**40,
    "TB": 10**12,
    "GiB": 2**30,
    "GB": 10**9,
    "MiB": 2**20,
    "MB": 10**6,
    "KiB": 2**10,
    "kB": 10**3,
    "B": 1,
}
_SIZE_UNITS = tuple(_BYTES)
# One step is a factor of 1024, up to the largest that a long can hold (8 EiB).
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_FORMAT_DURATION = ("d", "h", "m", "s", "ms")
_LARGE = 10_000
"""From this number of one unit on, a size is hard to read."""
_FORMAT_SIZE = ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB")

_MAX_AGE_MS = 100_000 * 86_400_000  # within the range of datetime
_SIZE = re.compile(rf"({NUMBER}) ?([A-Za-z]+)", re.ASCII)


def parse_age(text: str) -> int:
    """Parse a maximum age into milliseconds: a duration that can be subtracted from today's date.

    Raises:
        ValueError: It is not a duration, or longer than a hundred thousand days.
    """
    milliseconds = parse_duration(text)
    if milliseconds > _MAX_AGE_MS:
        raise ValueError(f"{quoted(text)} is too long; leave it out for any age")
    return milliseconds


def parse_size(text: str) -> int:
    """Parse a size into bytes: a bare number of them, or one with a unit (kB is 1000 bytes, KiB 1024).

    Raises:
        ValueError: It is not a size, is negative or ambiguous, or is not a whole number of bytes.
    """
    text = text.strip(BLANKS)
    if WHOLE.fullmatch(text):
        return int(text)
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{quoted(text)} is not a size; write a number of bytes or e.g. 50GiB, 512MiB, 1MB")
    number, unit = match.groups()
    # A frequent misspelling, and like MB and GB it is a power of 1000.
    if unit == "KB":
        unit = "kB"
    if unit not in _BYTES:
        raise ValueError(f"{quoted(text)} {_wrong_size_unit(unit)}")
    return add_up([(number, _BYTES[unit])], text, "bytes")


def format_duration(milliseconds: int) -> str:
    """Format a duration exactly: `7d`, `36h`, `90m`, `1500ms`, `20m 34.567s`.

    One unit is used, unless the duration is more than two of the next larger one: then all are.
    """
    # From the largest unit down, so that the first one that divides the duration is the shortest text:
    # `36h`, not `2160m`.
    for unit, larger in zip(_FORMAT_DURATION, (None, *_FORMAT_DURATION), strict=False):
        if milliseconds > 0 and milliseconds % MILLISECONDS[unit] == 0:
            if larger is None or milliseconds < 2 * MILLISECONDS[larger]:
                return f"{milliseconds // MILLISECONDS[unit]}{unit}"
            break
    parts = []
    for unit in ("d", "h", "m"):
        count, milliseconds = divmod(milliseconds, MILLISECONDS[unit])
        parts += [f"{count}{unit}"] if count else []
    if milliseconds > 0:
        seconds, milliseconds = divmod(milliseconds, MILLISECONDS["s"])
        parts.append(f"{seconds}.{milliseconds:03}".rstrip("0").rstrip(".") + "s")
    return " ".join(parts) or "0"


def format_size(size: int) -> str:
    """Format a size in the largest unit that divides it: `50 GiB`, `2 GB`, else plain bytes."""
    unit = _largest_divisor(size)
    return str(size) if unit is None else f"{size // _BYTES[unit]} {unit}"


def format_rate(rate: int) -> str:
    """Format bytes per second: `10 MiB/s`, `300000 bytes/s`."""
    number = format_size(rate)
    return f"{number} bytes/s" if number.isdecimal() else f"{number}/s"


def readable_size(size: int) -> str:
    """Format a size as `format_size` does, or rounded and followed by the bytes: `1.9 GiB (2073741824)`."""
    unit = _largest_divisor(size)
    if size < _LARGE or (unit is not None and size < _LARGE * _BYTES[unit]):
        return format_size(size)
    return f"{rounded_size(size)} ({size})"


def rounded_size(size: int) -> str:
    """Format a size with one decimal: `1.3 GiB`."""
    # By the bits: a logarithm of floating point is wrong near powers of 1024.
    power = max(0, min((size.bit_length() - 1) // 10, len(_BINARY) - 1))
    return f"{size / 1024**power:.1f} {_BINARY[power]}" if size else "no data"


@lru_cache(maxsize=1024)
def rounded_duration(milliseconds: int) -> str:
    """Format a duration without the parts below a thousandth of it: `36h`, `about 20m 34s`."""
    rounded, remainder = 0, milliseconds
    for unit in _FORMAT_DURATION:
        size = MILLISECONDS[unit]
        number, remainder = divmod(remainder, size)
        if number * size * 1000 >= milliseconds:
            rounded += number * size
    return format_duration(rounded) if rounded == milliseconds else f"about {format_duration(rounded)}"


def coarse_duration(milliseconds: int) -> str:
    """Format a duration for tables, rounded to the second, minute or hour: `41m`, `3h 20m`."""
    hour, day = MILLISECONDS["h"], MILLISECONDS["d"]
    size = MILLISECONDS["s"] if milliseconds < hour else MILLISECONDS["m"] if milliseconds < day else hour
    return format_duration(max(1, round(milliseconds / size)) * size)


def rounded_down(milliseconds: int) -> int:
    """Round a duration down to the largest unit of which it has at least two: 42h 30m to 42h."""
    size = next((size for unit in _FORMAT_DURATION if milliseconds >= 2 * (size := MILLISECONDS[unit])), 1)
    return milliseconds - milliseconds % size


def word_size(size: DataSize) -> str:
    """Word the amount of data of a topic: `1.2 GiB`, `no data`, `at least 1.2 GiB; …`."""
    if not size.unread:
        return rounded_size(size.bytes)
    return f"at least {rounded_size(size.bytes) if size.bytes else '0 B'}; {size.gap}"


def _wrong_size_unit(unit: str) -> str:
    letter = unit.upper()
    if letter in {"K", "M", "G", "T"}:
        decimal = "kB" if letter == "K" else f"{letter}B"
        return f"is ambiguous; write {decimal} (powers of 1000) or {letter}iB (powers of 1024)"
    guess = nearest(unit, _SIZE_UNITS)
    return (
        f"has no known unit; {f'write {guess}' if guess else 'write B, kB, MB, GB, TB, KiB, MiB, GiB or TiB'}"
    )


def _largest_divisor(size: int) -> str | None:
    """Return the largest unit that divides a size; None if none does."""
    units = [unit for unit in _FORMAT_SIZE if size > 0 and size % _BYTES[unit] == 0]
    return max(units, key=_BYTES.__getitem__, default=None)

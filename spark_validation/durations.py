"""Durations and times as people write them: `1h30m`, `2026-11-01T00:00:00Z`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

MILLISECONDS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
"""The units of durations, from the largest."""
BLANKS = " \t\r\n"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)

# No number in Kafka has more digits; without a limit, int() of a long one takes quadratic time.
_PLACES = 19
NUMBER = rf"(?:\d{{1,{_PLACES}}}(?:\.\d{{1,{_PLACES}}})?)"
"""A pattern of numbers, with or without a fraction."""
WHOLE = re.compile(rf"\d{{1,{_PLACES}}}", re.ASCII)
_DURATION = re.compile(rf"(?:{NUMBER} ?[a-z]+ ?)+", re.ASCII)
_PART = re.compile(rf"({NUMBER}) ?([a-z]+)", re.ASCII)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LAST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MS
_SHOWN = 60


def quoted(text: str) -> str:
    """Quote a user's text for a one-line message: escaped, and cut at 60 characters."""
    # repr escapes control characters, with which a name could rewrite what a terminal shows.
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def parse_duration(text: str) -> int:
    """Parse a duration into milliseconds: a bare number of them, or parts from weeks down to `ms`.

    Raises:
        ValueError: It is not a duration, is negative, or is not a whole number of milliseconds.
    """
    text = text.strip(BLANKS)
    if WHOLE.fullmatch(text):
        return int(text)
    parts = _PART.findall(text) if _DURATION.fullmatch(text) else []
    units = [unit for _, unit in parts]
    # Each unit once, the largest first: `1m30m` or `5m2h` is probably a typing error.
    if not parts or units != [unit for unit in MILLISECONDS if unit in units]:
        raise ValueError(
            f"{quoted(text)} is not a duration; write a number of milliseconds or e.g. 7d, 36h, 90m, 1h30m"
        )
    return add_up([(number, MILLISECONDS[unit]) for number, unit in parts], text, "milliseconds")


def add_up(parts: list[tuple[str, int]], text: str, things: str) -> int:
    """Return the sum of numbers times their units; raises ValueError if it has a fraction."""
    total, scale = 0, int(10**_PLACES)
    for number, unit in parts:
        whole, _, fraction = number.partition(".")
        # Whole numbers throughout: as floats, large sizes with a fraction would be rounded.
        total += int(whole + fraction) * unit * scale // 10 ** len(fraction)
    if total % scale:
        raise ValueError(f"{quoted(text)} is not a whole number of {things}")
    return total // scale


def parse_time(text: str) -> int | None:
    """Parse a time of ISO 8601 into milliseconds since 1970; return None for other text.

    A time needs a zone: without one it would mean another moment on another machine.

    Raises:
        ValueError: It has no zone, or is out of range.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    # A day alone also lacks the time of day, so its message has the whole text to write.
    if moment.tzinfo is None and _DAY.fullmatch(text):
        raise ValueError(f"{quoted(text)} has no time of day and no time zone; write {text}T00:00:00Z (UTC)")
    if moment.tzinfo is None:
        raise ValueError(f"{quoted(text)} has no time zone; end it with Z (UTC) or e.g. +02:00")
    ms = (moment - EPOCH) // MS
    # Kafka reads the times -1 and -2 as the end and the start of the log.
    if not 0 <= ms <= _LAST:
        raise ValueError(f"{quoted(text)} is not between the years 1970 and 9999 (UTC)")
    return ms

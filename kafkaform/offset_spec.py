"""Places in a log as people write them: `earliest`, `latest`, a time, `6h ago`, an offset, `shift-by -10`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from kafkaform.spelling import quoted
from kafkaform.units import format_duration, parse_duration

_AGO = re.compile(r"(.+?)(?:\s+|-)ago")
_SHIFT = re.compile(r"shift-by[ =:]([-+]?[0-9]{1,19})")
_OFFSET = re.compile(r"[0-9]{1,19}")
_ZONED = re.compile(r".*(?:Z|[+-][0-9]{2}:?[0-9]{2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first offset of the log."""

    def __str__(self) -> str:
        return "earliest"


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of the log."""

    def __str__(self) -> str:
        return "latest"


@dataclass(frozen=True, slots=True)
class Current:
    """Where the group stands."""

    def __str__(self) -> str:
        return "current"


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record that is not older than a time, in milliseconds since 1970 (UTC)."""

    ms: int

    def __str__(self) -> str:
        text = (_EPOCH + self.ms * _MS).isoformat(timespec="milliseconds" if self.ms % 1000 else "seconds")
        return text.replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Ago:
    """The first record that is not older than so many milliseconds."""

    ms: int

    def __str__(self) -> str:
        return f"{format_duration(self.ms)} ago"


@dataclass(frozen=True, slots=True)
class AtOffset:
    """An offset."""

    offset: int

    def __str__(self) -> str:
        return str(self.offset)


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """So many records after (before, if negative) where the group stands."""

    records: int

    def __str__(self) -> str:
        return f"shift-by {self.records:+d}"


InitialSpec: TypeAlias = Earliest | Latest | AtTime | Ago
"""Where a group can be told to start."""
OffsetSpec: TypeAlias = InitialSpec | Current | AtOffset | ShiftBy
"""Where a group can be moved to."""


def parse_initial(text: str) -> InitialSpec:
    """Read a place to start from; `str()` of the result is its canonical form.

    Raises:
        ValueError: It is none.
    """
    spec = parse_offset(text) if not _OFFSET.fullmatch(text.strip()) else None
    if isinstance(spec, Earliest | Latest | AtTime | Ago):
        return spec
    raise ValueError(
        f"{quoted(text)} is no place to start; write earliest, latest, a time such as 2026-11-01T00:00:00Z, "
        "or e.g. 6h ago"
    )


def parse_offset(text: str) -> OffsetSpec:
    """Read a place in the log; `str()` of the result is its canonical form.

    A time needs its zone: without one it would mean another moment on another machine.

    Raises:
        ValueError: It is none.
    """
    text = text.strip()
    for plain in (Earliest(), Latest(), Current()):
        if text == str(plain):
            return plain
    if _OFFSET.fullmatch(text):
        return AtOffset(int(text))
    if match := _SHIFT.fullmatch(text):
        return ShiftBy(int(match[1]))
    if match := _AGO.fullmatch(text):
        return Ago(parse_duration(match[1]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{quoted(text)} is no place in a log; write earliest, latest, current, an offset, shift-by -10, "
            "a time such as 2026-11-01T00:00:00Z, or e.g. 6h ago"
        ) from None
    if moment.tzinfo is None or not _ZONED.fullmatch(text):
        raise ValueError(f"{quoted(text)} has no time zone; end it with Z (UTC) or e.g. +02:00")
    return AtTime((moment - _EPOCH) // _MS)


def time_of(spec: OffsetSpec, now_ms: int) -> int | None:
    """The time that a spec asks for, in milliseconds since 1970; None where it asks for none."""
    match spec:
        case AtTime(ms):
            return ms
        case Ago(ms):
            return max(0, now_ms - ms)
        case _:
            return None

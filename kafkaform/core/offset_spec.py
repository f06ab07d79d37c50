"""Offset specifications: `earliest`, `latest`, a time, `6h ago`, an offset, `shift-by -10`."""

from __future__ import annotations

import re
from typing import TypeAlias

from kafkaform.core.units import format_duration
from kafkaform.core.values import Value
from kafkaform.core.wording import quoted
from spark_validation.durations import EPOCH, MS, parse_duration, parse_time

_AGO = re.compile(r"(.+?)(?:\s+|-)ago")
_SHIFT = re.compile(r"shift-by[ =:]([-+]?[0-9]{1,19})")
_OFFSET = re.compile(r"[0-9]{1,19}")
_MAX_LONG = 2**63 - 1
_TIMES = "a time such as 2026-11-01T00:00:00Z, or e.g. 6h ago"


class Earliest(Value):
    """The first offset of the log."""

    def __str__(self) -> str:
        return "earliest"


class Latest(Value):
    """The end of the log."""

    def __str__(self) -> str:
        return "latest"


class CurrentOffset(Value):
    """The group's committed offset."""

    def __str__(self) -> str:
        return "current"


class AbsoluteTime(Value):
    """The first record that is not older than a time, in milliseconds since 1970 (UTC)."""

    ms: int

    def __str__(self) -> str:
        text = (EPOCH + self.ms * MS).isoformat(timespec="milliseconds" if self.ms % 1000 else "seconds")
        return text.replace("+00:00", "Z")


class RelativeTime(Value):
    """The first record that is not older than a number of milliseconds."""

    ms: int

    def __str__(self) -> str:
        return f"{format_duration(self.ms)} ago"


class AtOffset(Value):
    """An offset."""

    offset: int

    def __str__(self) -> str:
        return str(self.offset)


class ShiftBy(Value):
    """The committed offset plus a number of records, which may be negative."""

    records: int

    def __str__(self) -> str:
        return f"shift-by {self.records:+d}"


InitialSpec: TypeAlias = Earliest | Latest | AbsoluteTime | RelativeTime
"""The offsets at which a new group can start."""
OffsetSpec: TypeAlias = InitialSpec | CurrentOffset | AtOffset | ShiftBy
"""The offsets to which a group can be reset."""


def parse_initial(text: str) -> InitialSpec:
    """Parse an initial offset; `str()` of the result is its canonical form.

    Raises:
        ValueError: The text is not a valid initial offset.
    """
    spec = _parse(text.strip())
    if isinstance(spec, Earliest | Latest | AbsoluteTime | RelativeTime):
        return spec
    raise ValueError(f"{quoted(text)} is not a valid initial offset; write earliest, latest, {_TIMES}")


def parse_offset(text: str) -> OffsetSpec:
    """Parse an offset; `str()` of the result is its canonical form.

    Raises:
        ValueError: The text is not a valid offset.
    """
    spec = _parse(text.strip())
    if spec is not None:
        return spec
    raise ValueError(
        f"{quoted(text)} is not a valid offset; write earliest, latest, current, an offset, shift-by -10, "
        f"{_TIMES}"
    )


def _parse(text: str) -> OffsetSpec | None:
    """Parse any offset; return None for other text, raise ValueError for a recognised but impossible one."""
    for plain in (Earliest(), Latest(), CurrentOffset()):
        if text == str(plain):
            return plain
    # Before times: `20261101` is also a date of ISO 8601.
    if _OFFSET.fullmatch(text):
        return AtOffset(_require_long(int(text), text))
    if match := _SHIFT.fullmatch(text):
        return ShiftBy(_require_long(int(match[1]), text))
    if match := _AGO.fullmatch(text):
        return RelativeTime(_require_long(parse_duration(match[1]), text))
    at_ms = parse_time(text)
    return None if at_ms is None else AbsoluteTime(at_ms)


def _require_long(number: int, text: str) -> int:
    if abs(number) > _MAX_LONG:
        raise ValueError(f"{quoted(text)} is more than Kafka can count ({_MAX_LONG})")
    return number


def time_of(spec: OffsetSpec, now_ms: int) -> int | None:
    """Return the time of a spec, in milliseconds since 1970; None if it has none."""
    match spec:
        case AbsoluteTime(ms):
            return ms
        case RelativeTime(ms):
            return max(0, now_ms - ms)
        case _:
            return None

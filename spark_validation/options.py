"""The options that `kafkaform skew` and the job for spark-submit share, as data for both command lines."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_validation.durations import parse_duration, parse_time, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ALL = "all"
RECORDS = 1_000_000
"""The default number of records of a sample."""
MAX_PARTITIONS = 100_000
_MAX_SEED = 2**31 - 1
_MAX_DIGITS = 18


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings of a job: what is read of a topic, and what is reported of it.

    Attributes:
        records: The number of records wanted; more offsets are read where many have no record.
        seed: The seed of the windows' places.
        full: Whether every record is read.
        precision: The wanted half width of the interval of a share, 0 to 1; more records are read where a
            sample does not reach it.
        what_if: The partition counts to predict.
        show_keys: Whether the keys themselves may be reported.
    """

    records: int = RECORDS
    seed: int = 0
    full: bool = False
    precision: float | None = None
    what_if: tuple[int, ...] = ()
    show_keys: bool = False


def build_job(given: Any) -> JobSettings:
    """Build the settings of a job from the values of `OPTIONS` by their names."""
    return JobSettings(
        given.records if isinstance(given.records, int) else RECORDS,
        secrets.randbelow(_MAX_SEED + 1) if given.seed is None else given.seed,
        given.records == ALL,
        given.precision,
        given.what_if or (),
        given.show_keys,
    )


def find_contradictions(given: Any) -> Iterator[str]:
    """Yield why options contradict each other."""
    if given.records == ALL and given.precision is not None:
        yield "--records all is exact and cannot be combined with --precision"
    if given.history_format is not None and given.history is None:
        yield "--history-format needs --history"


def _parse_integer(text: str, least: int, most: int, advice: str) -> int:
    # int() takes quadratic time in the number of digits.
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise ValueError(f"{quoted(text)} is not {advice}")
    if not least <= int(text) <= most:
        raise ValueError(f"{text} is not between {least} and {most}")
    return int(text)


def _parse_records(text: str) -> int | str:
    advice = "a number of records; write e.g. 100000, or all"
    return text if text == ALL else _parse_integer(text, 1, 10**_MAX_DIGITS - 1, advice)


def _parse_precision(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0.0 < share < 1.0:
        raise ValueError(f"{quoted(text)} is not between 0 and 1; write e.g. 0.01")
    return share


def parse_since(text: str) -> int:
    """Parse a duration before now, or a time, into milliseconds since 1970; raises ValueError."""
    now = time.time_ns() // 1_000_000
    # A number alone could be an offset elsewhere (`--to`), and here seconds or milliseconds.
    if text.strip().isdecimal():
        raise ValueError(f"{quoted(text)} has no unit; write e.g. 24h, 90m or 7d")
    try:
        return max(0, now - parse_duration(text))
    except ValueError:
        at_ms = parse_time(text.strip())
    if at_ms is None:
        raise ValueError(f"{quoted(text)} is not a time; write e.g. 24h or 2026-11-01T00:00:00Z")
    if at_ms > now:
        raise ValueError(f"{quoted(text)} is in the future; no record can be newer")
    return at_ms


def _parse_seed(text: str) -> int:
    return _parse_integer(text, 0, _MAX_SEED, f"a seed; write a number from 0 to {_MAX_SEED}")


def _parse_what_if(text: str) -> tuple[int, ...]:
    parts, advice = map(str.strip, text.split(",")), "a partition count; write numbers such as 12,24,48"
    return tuple(sorted({_parse_integer(part, 1, MAX_PARTITIONS, advice) for part in parts}))


class SharedOption(NamedTuple):
    """An option of both command lines; one that is not given is None, a flag False."""

    flag: str
    metavar: str | None  # None for a flag
    help: str
    parse: Callable[[str], object] = str
    """Parses the value; raises ValueError with the reason and what to write."""


SINCE = SharedOption(
    "--since",
    "TIME",
    "Only records of this period (24h), or since this time (2026-11-01T00:00:00Z).",
    parse_since,
)
HISTORY = SharedOption(
    "--history", "PATH", "Keep the results in this folder or table, to compare later ones with them."
)
OPTIONS = (
    SharedOption(
        "--records",
        "N|all",
        f"How many records of each topic to read; all estimates nothing.  [default: {RECORDS}]",
        _parse_records,
    ),
    SharedOption(
        "--precision",
        "HALF-WIDTH",
        "Read more records if half the width of a share's confidence interval exceeds this, such as 0.01.",
        _parse_precision,
    ),
    SINCE,
    SharedOption(
        "--seed", "N", "The seed for the random positions that are read.  [default: random]", _parse_seed
    ),
    SharedOption(
        "--what-if", "N,...", "Also predict these partition counts, such as 12,24,48.", _parse_what_if
    ),
    SharedOption("--show-keys", None, "Show keys in the report. They may be personal data."),
    HISTORY,
)

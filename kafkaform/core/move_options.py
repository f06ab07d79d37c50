"""How replicas are moved, as a project or the command line says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafkaform.core.units import parse_size

GIB = 1024**3
MOST_PARTITIONS = 1_000
"""The most partitions of a batch: a topic's list of throttled replicas has 32,767 bytes at most."""


class WhenBusy(StrEnum):
    """What to do about a reassignment that somebody else has started."""

    WAIT = "wait"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class MoveOptions:
    """How replicas are moved.

    Attributes:
        throttle: The bytes per second that each broker may send, and may receive, for it; None: no limit.
        batch_partitions: How many partitions are moved at a time.
        batch_bytes: How many bytes are copied at a time; a partition that is larger goes alone.
        timeout_s: How long all moves of an apply may take; None: as long as it takes.
        when_busy: What to do about a reassignment that somebody else has started.
    """

    throttle: int | None = 50_000_000
    batch_partitions: int = 50
    batch_bytes: int = 50 * GIB
    timeout_s: float | None = None
    when_busy: WhenBusy = WhenBusy.REFUSE


def parse_rate(text: str) -> int | None:
    """Read a rate as bytes per second: `50MB`, `50MB/s`, or `none` (None).

    Raises:
        ValueError: It is not a rate, or it is 0, with which nothing would ever arrive.
    """
    if text.strip() == "none":
        return None
    rate = parse_size(text.strip().removesuffix("/s"))
    if rate == 0:
        raise ValueError("a rate of 0 lets nothing through; write none for no limit")
    return rate

"""How far moves have come, for whoever watches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """How far the moves of an apply have come.

    Attributes:
        batch: The batch under way, from 1 on.
        batches: How many there are.
        partitions_done: Partitions that are where they are to be.
        partitions: All that are to be moved.
        bytes_done: Bytes that are copied, those of partitions under way included.
        bytes_total: Bytes that are to be copied, as far as sizes are known.
        throttle: The bytes per second that each broker may send and receive; None: no limit.
        stalled: Why nothing has moved for a while; empty if something does.
    """

    batch: int
    batches: int
    partitions_done: int
    partitions: int
    bytes_done: int
    bytes_total: int
    throttle: int | None
    stalled: str = ""


class MoveObserver(Protocol):
    """Is told of moves."""

    def moving(self, progress: MoveProgress) -> None:
        """So far they have come; told about once a second."""

    def told(self, line: str) -> None:
        """One line for a person who waits: what is waited for, and what is odd."""

"""Who has set which throttle: written down before it is set, so that nothing else is ever taken off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.core.throttles import Throttles


@dataclass(frozen=True, slots=True)
class Announcement:
    """Throttles that an apply was about to set.

    Attributes:
        id: What tells it from every other.
        throttles: The throttles: what was not set before.
        at: When (RFC 3339 in UTC).
    """

    id: str
    throttles: Throttles
    at: str = ""


class ThrottleLedger(Protocol):
    """Remembers throttles beyond the death of the process that has set them."""

    @property
    def kept(self) -> bool:
        """Whether it remembers anything."""

    def announce(self, throttles: Throttles) -> Sequence[Announcement]:
        """Note what is about to be set; if this raises a `KafkaformError`, nothing is."""

    def removed(self, announcements: Sequence[Announcement]) -> None:
        """Note that they are set no longer; raises a `KafkaformError` where that cannot be written."""

    def left(self) -> Sequence[Announcement]:
        """What earlier applies announced and never took off; raises a `KafkaformError` if it cannot tell."""


class _NoLedger:
    kept = False

    def announce(self, throttles: Throttles) -> Sequence[Announcement]:
        return (Announcement("", throttles),)

    def removed(self, announcements: Sequence[Announcement]) -> None:
        pass

    def left(self) -> Sequence[Announcement]:
        return ()


NO_LEDGER: ThrottleLedger = _NoLedger()
"""Remembers nothing: throttles of an apply that is killed stay."""

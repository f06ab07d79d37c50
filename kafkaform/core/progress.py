"""Progress messages and the clock of slow steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from kafkaform.core.lazy_dataclass import dataclass

Progress: TypeAlias = Callable[[str], None]
"""Prints one line of text for a waiting user."""


def silent(_line: str) -> None:
    """Discard a progress message."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock, in seconds; tests replace it."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

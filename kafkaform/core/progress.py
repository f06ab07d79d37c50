"""Progress messages and the clock of slow steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from kafkaform.core.values import Value

Progress: TypeAlias = Callable[[str], None]
"""Prints one line of text for a waiting user."""


def silent(_line: str) -> None:
    """Discard a progress message."""


class Clock(Value):
    """The clock, in seconds; tests replace it."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

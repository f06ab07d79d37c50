"""What slow steps need of their caller: to say what they are at, and time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Progress: TypeAlias = Callable[[str], None]
"""Takes one line of text for a person who waits."""


def silent(_line: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Time in seconds, so that tests need not wait."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

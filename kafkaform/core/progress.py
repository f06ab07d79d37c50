"""How slow steps tell their caller what they are at, without knowing where it is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str], None]
"""Takes one line of text for a person who waits."""


def silent(_line: str) -> None:
    """Tell nobody."""

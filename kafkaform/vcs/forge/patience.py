"""How long GitHub is waited for: so long in all, and never without saying what for."""

from __future__ import annotations

from dataclasses import dataclass
from time import sleep
from typing import TYPE_CHECKING

from kafkaform.core.errors import ForgeError

if TYPE_CHECKING:
    from collections.abc import Callable

TOTAL_S = 300.0
"""The longest that one call waits in all: a job is paid by the minute."""
_MOST_TRIES = 6


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why GitHub did not do it this time, though it may the next.

    Attributes:
        reason: In a few words.
        wait_s: How long GitHub asks to wait; None where it does not say.
    """

    reason: str
    wait_s: float | None = None


class Patience:
    """Waits until GitHub can be asked again.

    Args:
        tell: Is told of every wait before it begins.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._left_s = TOTAL_S
        self._tries = 0

    def wait(self, trouble: Trouble) -> None:
        """Wait as long as GitHub asks, or else longer from one time to the next.

        Raises:
            ForgeError: That would be longer than it is worth.
        """
        if trouble.wait_s is None:
            self._tries += 1
            if self._tries >= _MOST_TRIES:
                raise ForgeError(
                    f"GitHub: {trouble.reason}; tried {self._tries} times",
                    hint="run the job again later; githubstatus.com says whether GitHub has a failure",
                )
        delay = 2.0 ** (self._tries - 1) if trouble.wait_s is None else trouble.wait_s
        if delay > self._left_s:
            raise ForgeError(
                f"GitHub: {trouble.reason}; it asks to wait {delay:,.0f} s, which is too long",
                hint="run the job again after that",
            )
        self._left_s -= delay
        self._tell(f"GitHub: {trouble.reason}; trying again in {delay:.0f} s")
        sleep(delay)

"""The parts of publishing that all forges share: retries, and the search before and after a creation."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Literal, TypeVar

from kafkaform.core.errors import ForgeError
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_T = TypeVar("_T")

TOTAL_S = 300.0
"""The longest total wait of one command: CI jobs are paid by the minute."""
# 1 + 2 + 4 + 8 + 16 s of waiting in all.
_MAX_TRIES = 6


class TransientFailure(Value):
    """A failure after which the same request may succeed.

    Attributes:
        reason: The reason in a few words, for messages.
        wait_s: The time that the forge asks to wait; None if it gives none.
    """

    reason: str
    wait_s: float | None = None


class RetryBudget:
    """The time and the tries that one command may spend on transient failures.

    Args:
        report: Called with a message before each wait.
        service: The name of the forge, for messages.
        status_page: The site that shows its incidents, for hints; None if there is none.
    """

    def __init__(self, report: Callable[[str], None], service: str, status_page: str | None = None) -> None:
        self._service = service
        self._hint = f"; {status_page} shows whether {service} has an incident" if status_page else ""
        self._report = report
        self._left_s = TOTAL_S
        self._tries = 0

    def wait(self, failure: TransientFailure) -> None:
        """Wait as long as the forge asks, else with exponential backoff.

        Raises:
            ForgeError: The budget is exhausted.
        """
        if failure.wait_s is None:
            self._tries += 1
            if self._tries >= _MAX_TRIES:
                raise ForgeError(
                    f"{self._service}: {failure.reason}; tried {self._tries} times",
                    hint=f"run the job again later{self._hint}",
                )
        delay = 2.0 ** (self._tries - 1) if failure.wait_s is None else failure.wait_s
        # Waiting for a part of the time would be wasted: the request would fail again.
        if delay > self._left_s:
            raise ForgeError(
                f"{self._service}: {failure.reason}; it asks to wait {delay:,.0f} s, which is too long",
                hint="run the job again after that time",
            )
        self._left_s -= delay
        self._report(f"{self._service}: {failure.reason}; trying again in {delay:.0f} s")
        sleep(delay)


class Publication(Value):
    """A published comment or issue.

    Attributes:
        outcome: The effect of this call.
        url: The page of the comment or issue, or its reference.
    """

    outcome: Literal["created", "updated", "unchanged", "closed"]
    url: str


def find_or_create(
    find: Callable[[], Sequence[_T]], create: Callable[[], _T | None]
) -> tuple[Sequence[_T], bool]:
    """Return all objects, at least one, and whether this call tried to create one.

    The forge is queried after each attempt to create: an attempt whose response got lost may have been
    carried out, and another run may have created one at the same moment. The caller removes duplicates.

    Args:
        find: Returns the existing objects.
        create: Creates one; returns None if it may have failed.
    """
    created: _T | None = None
    tried = False
    while not (existing := find()):
        if created is not None:  # it does not always list a new object at once
            return [created], True
        created = create()
        tried = True
    return existing, tried

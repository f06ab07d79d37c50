"""The lock of a cluster in memory."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from kafkaform.core.lock import Holder, acquired, lost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.core.lock import Guard
    from kafkaform.core.progress import Progress


class MemoryLock:
    """Who holds it is all there is to it; each hold is an object of its own."""

    def __init__(self) -> None:
        self._holder: Holder | None = None

    @contextmanager
    def held(self, holder: Holder, *, timeout_s: float, tell: Progress) -> Iterator[Guard]:
        """See `Cluster.lock`."""
        mine = acquired(partial(self._try, holder), self._occupant, timeout_s=timeout_s, tell=tell)
        try:
            yield partial(self._prove, mine)
        finally:
            if self._holder is mine:
                self._holder = None

    def _try(self, holder: Holder) -> Holder | None:
        if self._holder is not None:
            return None
        self._holder = replace(holder, since=datetime.now(UTC))
        return self._holder

    def _occupant(self) -> Holder:
        return self._holder or Holder("somebody who has not said more yet")

    def _prove(self, mine: Holder) -> None:
        if self._holder is not mine:
            raise lost("its session ended, or it was taken away")

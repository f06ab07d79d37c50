"""The context of each step of moving replicas: the cluster, the options, the time, and when to stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from kafkaform.core.apply_result import RETRY_HINT
from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    LockLost,
    MovesUnfinished,
    NotOffered,
    PermissionDenied,
    RequestRejected,
)
from kafkaform.core.progress import Clock
from kafkaform.core.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kafkaform.apply.moves.throttle_journal import ThrottleJournal
    from kafkaform.cluster.protocol import ReplicaWriter
    from kafkaform.core.lock import Guard
    from kafkaform.resources.replicas.layout import Layout
    from kafkaform.resources.replicas.moves import MoveObserver, MoveOptions

PATIENCE_S = 120.0
"""The seconds that the cluster may not answer while replicas are moved: a broker may be restarting."""
CLEAN_UP_S = 15.0
"""The same for cancelling and cleaning up, for which a person may be waiting.

A dead broker is listed as alive for 9 s (`broker.session.timeout.ms`); a controller is replaced in 4 s.
"""
RETRY_S = 1.0
REMIND_S = 15.0
"""The seconds after which the reason of a wait is repeated."""

FINAL = (PermissionDenied, AuthenticationFailed, LockLost, NotOffered, RequestRejected)
"""Errors that prove that a request was not carried out, and that a retry does not resolve."""

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818 - a wish of somebody, not an accident
    """A stop was requested: no further request is sent."""


@dataclass(slots=True)
class MoveContext:
    """The context of every step of moving replicas.

    Attributes:
        options: The options of moves.
        throttle_journal: The record of throttles.
        observer: Receives progress.
        guard: Called before every request; raises `LockLost` to keep it from being sent.
        stop: Once set, nothing new is begun.
        deadline: The time by which all must be done; None: no limit. Set by the first step.
    """

    cluster: ReplicaWriter
    options: MoveOptions
    throttle_journal: ThrottleJournal
    observer: MoveObserver
    guard: Guard
    stop: Event = field(default_factory=Event)
    clock: Clock = field(default_factory=Clock)
    deadline: float | None = None
    _reminded: dict[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Set the deadline, unless it is set already."""
        if self.deadline is None and self.options.timeout_s is not None:
            self.deadline = self.clock.now() + self.options.timeout_s

    def check(self) -> None:
        """Check that moves may continue.

        Raises:
            Stopped: A stop was requested.
            MovesUnfinished: The deadline has passed.
        """
        if self.stop.is_set():
            raise Stopped
        if self.deadline is not None and self.clock.now() >= self.deadline:
            allowed = format_duration(int((self.options.timeout_s or 0) * 1000))
            raise MovesUnfinished(
                f"not finished within {allowed}",
                hint=f"{RETRY_HINT}; or allow more: `moves: {{timeout: 2h}}` in kafkaform.yaml",
            )

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the deadline; see `check`."""
        self.check()
        if self.deadline is not None:
            seconds = min(seconds, max(0.0, self.deadline - self.clock.now()))
        self.clock.sleep(seconds)
        self.check()

    def tell(self, line: str) -> None:
        """Send a line to the observer."""
        self.observer.show_line(line)

    def remind(self, about: str, line: str) -> None:
        """Send the reason of a wait to the observer, at first and every REMIND_S."""
        now = self.clock.now()
        # Each reason has its own interval, so that a frequent one does not suppress another.
        if about not in self._reminded or now - self._reminded[about] >= REMIND_S:
            self._reminded[about] = now
            self.tell(line)

    def layout(self, topics: Collection[str] | None = None) -> Layout:
        """Read the layout; retry for PATIENCE_S while the cluster does not answer.

        Raises:
            ClusterError: It cannot be read.
            Stopped: See `check`.
        """
        return self.retry(lambda: self.cluster.layout(topics))

    def retry(self, action: Callable[[], T]) -> T:
        """Run an idempotent action; retry for PATIENCE_S while the cluster does not answer.

        Raises:
            ClusterError: The action failed.
            Stopped: See `check`.
        """
        return self._repeat(action, PATIENCE_S, self.pause)

    def retry_after_stop(self, action: Callable[[], T]) -> T:
        """Run an action even after a stop; retry for CLEAN_UP_S while the cluster does not answer.

        Raises:
            ClusterError: The action failed.
        """
        return self._repeat(action, CLEAN_UP_S, self.clock.sleep)

    def _repeat(self, action: Callable[[], T], patience_s: float, pause: Callable[[float], None]) -> T:
        since = self.clock.now()
        while True:
            try:
                return action()
            # An answer is final, also a refusal: only the lack of one is worth another attempt.
            except FINAL:
                raise
            except ClusterError as error:
                if self.clock.now() - since >= patience_s:
                    raise
                self.remind("cluster", f"the cluster does not answer, trying again: {error.message}")
            pause(RETRY_S)

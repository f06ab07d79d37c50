"""The context of each step of moving replicas: the cluster, the options, the time, and when to stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from kafkaform.core.apply_result import AGAIN
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
    from kafkaform.core.layout import Layout
    from kafkaform.core.lock import Guard
    from kafkaform.core.moves import MoveObserver, MoveOptions

PATIENCE_S = 120.0
"""The time in which the cluster may not answer at all while replicas are moved: a broker that restarts is no
reason to give up."""
CLEAN_UP_S = 15.0
"""The same for taking back and cleaning up, for which a person may be waiting.

A broker that died is named as alive for 9 s (`broker.session.timeout.ms`); a controller is replaced in 4 s.
"""
RETRY_S = 1.0
REMIND_S = 15.0
"""The time after which it is said again what is waited for."""

FINAL = (PermissionDenied, AuthenticationFailed, LockLost, NotOffered, RequestRejected)
"""Errors that do not pass by themselves."""

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818 - a wish of somebody, not an accident
    """Somebody wants no further request to be sent."""


@dataclass(slots=True)
class MoveContext:
    """The context of every step.

    Attributes:
        cluster: The cluster.
        options: How replicas are moved.
        throttle_journal: The record of throttles.
        observer: Is told of progress.
        guard: Called before every request; raises `LockLost` to keep it from being sent.
        stop: Once set, nothing new is begun.
        clock: The time.
        deadline: When all must be over; None: never. Set by the first step.
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
        """Let the time that is allowed begin, unless it has begun already."""
        if self.deadline is None and self.options.timeout_s is not None:
            self.deadline = self.clock.now() + self.options.timeout_s

    def check(self) -> None:
        """Go on, or not.

        Raises:
            Stopped: Somebody wants it to stop.
            MovesUnfinished: The time is over.
        """
        if self.stop.is_set():
            raise Stopped
        if self.deadline is not None and self.clock.now() >= self.deadline:
            allowed = format_duration(int((self.options.timeout_s or 0) * 1000))
            raise MovesUnfinished(f"not finished within {allowed}", hint=f"{AGAIN}; or allow more: --timeout")

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the deadline; see `check`."""
        self.check()
        if self.deadline is not None:
            seconds = min(seconds, max(0.0, self.deadline - self.clock.now()))
        self.clock.sleep(seconds)
        self.check()

    def tell(self, line: str) -> None:
        """Tell whoever watches."""
        self.observer.told(line)

    def remind(self, about: str, line: str) -> None:
        """Tell what is waited for, at first and every REMIND_S."""
        now = self.clock.now()
        if about not in self._reminded or now - self._reminded[about] >= REMIND_S:
            self._reminded[about] = now
            self.tell(line)

    def layout(self, topics: Collection[str] | None = None) -> Layout:
        """See `Cluster.layout`; a cluster that does not answer is asked again for PATIENCE_S.

        Raises:
            ClusterError: It cannot be read.
            Stopped: See `check`.
        """
        return self.retry(lambda: self.cluster.layout(topics))

    def retry(self, action: Callable[[], T]) -> T:
        """Do what may be done twice; a cluster that does not answer is asked again for PATIENCE_S.

        Raises:
            ClusterError: It cannot be done.
            Stopped: See `check`.
        """
        return self._repeated(action, PATIENCE_S, self.pause)

    def retry_after_stop(self, action: Callable[[], T]) -> T:
        """Do what must be done even after a stop; tried again for CLEAN_UP_S while nobody answers.

        Raises:
            ClusterError: It cannot be done.
        """
        return self._repeated(action, CLEAN_UP_S, self.clock.sleep)

    def _repeated(self, action: Callable[[], T], patience_s: float, pause: Callable[[float], None]) -> T:
        since = self.clock.now()
        while True:
            try:
                return action()
            except FINAL:
                raise
            except ClusterError as error:
                if self.clock.now() - since >= patience_s:
                    raise
                self.remind("cluster", f"the cluster does not answer, trying again: {error.message}")
            pause(RETRY_S)

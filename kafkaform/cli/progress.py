"""Progress of an apply, and the ways of stopping it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from threading import Event
from typing import TYPE_CHECKING

import click

from kafkaform.apply.change_execution import Observer
from kafkaform.cli.terminal import progress_bar
from kafkaform.core.printable import printable
from kafkaform.core.wording import counted
from kafkaform.report.moves import Pace, amount, describe_idleness, told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from rich.progress import Progress, TaskID

    from kafkaform.core.errors import ClusterError
    from kafkaform.core.moves import MoveProgress
    from kafkaform.core.operations import Operation

_STDERR = 2
_STEPS = 10
_LEAST_STEP = 100
_EVERY_S = 10.0
"""How often a line tells how far moves have come, where there is no bar."""
_WIDE = 110
"""The columns that a bar, the bytes, the partitions and the batch of moves need."""
_STOPPING = "stopping after the current request; a second signal abandons it"


class Watcher(Observer):
    """Shows the progress of an apply."""

    def stopping(self) -> None:
        """Show that a Ctrl-C has been heard; called by a signal handler, in the midst of anything."""


@contextmanager
def progress() -> Iterator[Watcher]:
    """A progress bar on a terminal that moves its cursor, a line now and then elsewhere; both on stderr."""
    bar = progress_bar()
    if bar is None:
        yield _Lines()
        return
    with bar:
        yield _Bar(bar)


class _Bar(Watcher):
    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("Applying", total=None)
        self._moves: TaskID | None = None
        self._pace = Pace()
        self._stalled = ""

    def started(self, operations: int) -> None:
        self._bar.update(self._task, total=operations)

    def finished(self, operation: Operation, error: ClusterError | None) -> None:  # noqa: ARG002
        self._bar.advance(self._task)

    def moving(self, progress: MoveProgress) -> None:
        # Moves that copy nothing are measured in partitions.
        done, total = progress.bytes_done, progress.bytes_total
        if not total:
            done, total = progress.partitions_done, progress.partitions
        said = amount(progress, brief=self._bar.console.width < _WIDE)
        if self._moves is None:
            self._moves = self._bar.add_task("Moving replicas", completed=done, total=total, amount=said)
        self._pace.seen(progress, time.monotonic())
        idle = describe_idleness(self._pace.idle_s) if progress.bytes_total else ""
        self._bar.update(self._moves, completed=done, total=total, amount=said, idle=idle)
        if progress.stalled and progress.stalled != self._stalled:
            self.told(f"no progress for a while: {progress.stalled}")
        self._stalled = progress.stalled

    def told(self, line: str) -> None:
        self._bar.console.print(printable(line), soft_wrap=True, markup=False)

    def verifying(self, resources: int) -> None:
        self._bar.update(self._task, description=f"Verifying {resources}")

    def stopping(self) -> None:
        # A line that is printed past the bar would be wiped out by its next picture. This writes nothing.
        self._bar.update(self._task, note=_STOPPING)


class _Lines(Watcher):
    """About a dozen lines, however many operations there are."""

    def __init__(self) -> None:
        self._total = 0
        self._done = 0
        self._step = 1
        self._verifying = False
        self._pace = Pace()
        self._told_at = 0.0
        self._told = ""

    def started(self, operations: int) -> None:
        self._total = operations
        self._step = max(_LEAST_STEP, operations // _STEPS)
        if operations:
            click.echo(f"applying: {counted(operations, 'operation')}", err=True)

    def finished(self, operation: Operation, error: ClusterError | None) -> None:  # noqa: ARG002
        self._done += 1
        if self._done % self._step == 0 and self._done < self._total:
            click.echo(f"applying: {self._done:,} of {self._total:,}", err=True)

    def moving(self, progress: MoveProgress) -> None:
        now = time.monotonic()
        self._pace.seen(progress, now)
        line = f"moving replicas: {told(progress, self._pace.left_s(progress), self._pace.idle_s)}"
        is_over = progress.partitions_done == progress.partitions
        due = not self._told or is_over or now - self._told_at >= _EVERY_S
        if due and line != self._told:
            self.told(line)
            self._told, self._told_at = line, now

    def told(self, line: str) -> None:
        click.echo(printable(line), err=True)

    def verifying(self, resources: int) -> None:
        if not self._verifying:
            click.echo(f"verifying: reading {counted(resources, 'resource')} again", err=True)
            self._verifying = True

    def stopping(self) -> None:
        # Not click.echo: this may have come in the middle of a write to the same stream.
        with suppress(OSError):
            os.write(_STDERR, f"\n{_STOPPING}\n".encode())


@contextmanager
def interruptible(watcher: Watcher) -> Iterator[Event]:
    """Turn the first Ctrl-C or SIGTERM into "finish the request under way", the second into giving it up."""
    stop = Event()

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        watcher.stopping()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let a SIGTERM end this as Ctrl-C does, so that what is held is given back at once."""

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

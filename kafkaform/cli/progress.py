"""Progress of an apply, and its interruption by signals."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from kafkaform.apply.change_execution import Observer
from kafkaform.cli.terminal import progress_bar
from kafkaform.core.printable import printable
from kafkaform.core.wording import counted
from kafkaform.report.moves import Pace, describe_idleness, format_amount, format_progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event
    from types import FrameType

    from rich.progress import Progress, TaskID

    from kafkaform.core.errors import ClusterError
    from kafkaform.core.operations import Operation
    from kafkaform.resources.replicas.moves import MoveProgress

_STDERR = 2
_STEPS = 10
_MIN_STEP = 100
_EVERY_S = 10.0
"""The interval of lines about the progress of moves, where there is no bar."""
_WIDE = 110
"""The width in columns of a bar with the bytes, partitions and batch of moves."""
_STOPPING = "stopping after the current request; a second signal abandons it"


class Watcher(Observer):
    """An observer that shows the progress of an apply."""

    def stopping(self) -> None:
        """Show that a Ctrl-C was received; called by a signal handler at any point."""


@contextmanager
def progress() -> Iterator[Watcher]:
    """Yield a progress bar on an animated terminal, or occasional lines elsewhere; both on stderr."""
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
        self._bar.update(self._task, total=operations, visible=operations > 0)

    def finished(self, operation: Operation, error: ClusterError | None) -> None:  # noqa: ARG002
        self._bar.advance(self._task)

    def moving(self, progress: MoveProgress) -> None:
        # Moves that copy nothing are measured in partitions.
        done, total = progress.bytes_done, progress.bytes_total
        if not total:
            # A change of the order of replicas copies no byte.
            done, total = progress.partitions_done, progress.partitions
        text = format_amount(progress, brief=self._bar.console.width < _WIDE)
        if self._moves is None:
            self._moves = self._bar.add_task("Moving replicas", completed=done, total=total, amount=text)
        self._pace.add_reading(progress, time.monotonic())
        idle = describe_idleness(self._pace.idle_s) if progress.bytes_total else ""
        self._bar.update(self._moves, completed=done, total=total, amount=text, idle=idle)
        # One line per cause, not per reading.
        if progress.stalled and progress.stalled != self._stalled:
            self.show_line(f"no progress for a while: {progress.stalled}")
        self._stalled = progress.stalled

    def show_line(self, line: str) -> None:
        self._bar.console.print(printable(line), soft_wrap=True, markup=False)

    def verifying(self, resources: int) -> None:
        self._bar.update(self._task, description=f"Verifying {resources}")

    def stopping(self) -> None:
        # A line that is printed past the bar would be overwritten by its next refresh; this prints nothing.
        self._bar.update(self._task, note=_STOPPING)


class _Lines(Watcher):
    """An observer that prints about a dozen lines, however many operations there are."""

    def __init__(self) -> None:
        self._total = 0
        self._done = 0
        self._step = 1
        self._verifying = False
        self._pace = Pace()
        self._printed_at = 0.0
        self._printed = ""

    def started(self, operations: int) -> None:
        self._total = operations
        self._step = max(_MIN_STEP, operations // _STEPS)
        if operations:
            click.echo(f"applying: {counted(operations, 'operation')}", err=True)

    def finished(self, operation: Operation, error: ClusterError | None) -> None:  # noqa: ARG002
        self._done += 1
        if self._done % self._step == 0 and self._done < self._total:
            click.echo(f"applying: {self._done:,} of {self._total:,}", err=True)

    def moving(self, progress: MoveProgress) -> None:
        now = time.monotonic()
        self._pace.add_reading(progress, now)
        line = f"moving replicas: {format_progress(progress, self._pace.left_s(progress), self._pace.idle_s)}"
        is_over = progress.partitions_done == progress.partitions
        # The first and the last line are printed at once, so that also a short move is visible in a log.
        is_due = not self._printed or is_over or now - self._printed_at >= _EVERY_S
        if is_due and line != self._printed:
            self.show_line(line)
            self._printed, self._printed_at = line, now

    def show_line(self, line: str) -> None:
        click.echo(printable(line), err=True)

    def verifying(self, resources: int) -> None:
        # Verification may be repeated until the brokers agree; one line is enough.
        if not self._verifying:
            click.echo(f"verifying: reading {counted(resources, 'resource')} again", err=True)
            self._verifying = True

    def stopping(self) -> None:
        # Not click.echo: the signal may interrupt a write to the same stream.
        with suppress(OSError):
            os.write(_STDERR, f"\n{_STOPPING}\n".encode())


@contextmanager
def interruptible(watcher: Watcher, stop: Event) -> Iterator[None]:
    """Set `stop` at the first Ctrl-C or SIGTERM, and abandon the current request at the second."""

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        # The first signal only sets a flag, which is checked between requests: their outcomes are then all
        # known.
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        watcher.stopping()

    # Python calls handlers between two bytecodes of the main thread, so they may interrupt any line of the
    # apply.
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that the lock is released at once."""

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

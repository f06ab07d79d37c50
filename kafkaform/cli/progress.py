"""Progress of an apply, and the ways of stopping it."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from threading import Event
from typing import TYPE_CHECKING

import click

from kafkaform.cli.terminal import progress_bar
from kafkaform.executor import Observer
from kafkaform.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from rich.progress import Progress

    from kafkaform.errors import ClusterError
    from kafkaform.operations import Operation

_STDERR = 2
_STEPS = 10
_LEAST_STEP = 100


@contextmanager
def progress() -> Iterator[Observer]:
    """A progress bar on a terminal that moves its cursor, a line now and then elsewhere; both on stderr."""
    bar = progress_bar()
    if bar is None:
        yield _Lines()
        return
    with bar:
        yield _Bar(bar)


class _Bar(Observer):
    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("Applying", total=None)

    def started(self, operations: int) -> None:
        self._bar.update(self._task, total=operations)

    def finished(self, operation: Operation, error: ClusterError | None) -> None:  # noqa: ARG002
        self._bar.advance(self._task)

    def verifying(self, resources: int) -> None:
        self._bar.update(self._task, description=f"Verifying {resources}")


class _Lines(Observer):
    """About a dozen lines, however many operations there are."""

    def __init__(self) -> None:
        self._total = 0
        self._done = 0
        self._step = 1
        self._verifying = False

    def started(self, operations: int) -> None:
        self._total = operations
        self._step = max(_LEAST_STEP, operations // _STEPS)
        if operations:
            click.echo(f"applying: {counted(operations, 'operation')}", err=True)

    def finished(self, operation: Operation, error: ClusterError | None) -> None:  # noqa: ARG002
        self._done += 1
        if self._done % self._step == 0 and self._done < self._total:
            click.echo(f"applying: {self._done:,} of {self._total:,}", err=True)

    def verifying(self, resources: int) -> None:
        if not self._verifying:
            click.echo(f"verifying: reading {counted(resources, 'resource')} back", err=True)
            self._verifying = True


@contextmanager
def interruptible() -> Iterator[Event]:
    """Turn the first Ctrl-C or SIGTERM into "finish the request under way", the second into giving it up."""
    stop = Event()

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        # Not click.echo: this may have come in the middle of a write to the same stream.
        with suppress(OSError):
            os.write(_STDERR, b"\nstopping after the request under way; once more gives it up\n")

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

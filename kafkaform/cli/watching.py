"""Showing a reading again and again, until somebody presses Ctrl-C."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from kafkaform.cli.output import print_text
from kafkaform.cli.terminal import is_animated
from kafkaform.core.errors import KafkaformError, UsageError
from kafkaform.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEFAULT_PAUSE_S = 2.0
_LEAST_PAUSE_S = 0.1


def _seconds(_context: click.Context, _option: click.Parameter, given: str | None) -> float | None:
    """The pause between two readings; raises UsageError if it is no number of seconds."""
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not _LEAST_PAUSE_S <= seconds < float("inf"):
        raise UsageError(
            f"--watch {given}: not a number of seconds (at least {_LEAST_PAUSE_S})",
            hint="what is to be watched stands before --watch",
        )
    return seconds


watch_option = click.option(
    "--watch",
    "pause_s",
    is_flag=False,
    flag_value=f"{_DEFAULT_PAUSE_S:g}",
    callback=_seconds,
    metavar="[SECONDS]",
    help=f"Read again every so often, until Ctrl-C.  [default: {_DEFAULT_PAUSE_S:g}]",
)
"""Gives a command the pause that `watch` takes as its argument `pause_s`; None to read once."""


def watch(read: Callable[[], Text], pause_s: float, *, redraw: bool = True) -> None:
    """Show what `read` returns, and read again; returns when somebody presses Ctrl-C.

    A terminal is drawn anew each time; elsewhere texts follow each other. A reading that fails is told and
    tried again, as a cluster that is watched may well be restarting; only the first one must succeed.

    Args:
        read: Makes a reading.
        pause_s: Seconds between two readings.
        redraw: Draw a terminal anew, and write the time above each text; else texts follow each other as
            they are, for programs.

    Raises:
        KafkaformError: The first reading failed.
    """
    try:
        shown = read()
        with _screen(redraw=redraw) as show:
            show(shown, None)
            while True:
                time.sleep(pause_s)
                try:
                    shown = read()
                except KafkaformError as error:
                    show(shown, error)
                else:
                    show(shown, None)
    except KeyboardInterrupt:
        return


@contextmanager
def _screen(*, redraw: bool) -> Iterator[Callable[[Text, KafkaformError | None], None]]:
    """What shows a reading; with an error, the one before it."""
    if not redraw or not is_animated(sys.stdout):
        yield partial(_follow, timed=redraw)
        return
    console = Console(markup=False, highlight=False, emoji=False)
    with Live(console=console, auto_refresh=False) as live:

        def draw(shown: Text, error: KafkaformError | None) -> None:
            text = Text.assemble((f"{_clock()}  Ctrl-C ends\n\n", "dim"), shown)
            if error is not None:
                text.append(f"\n{_failure(error)}", "red")
            live.update(text, refresh=True)

        yield draw


def _follow(shown: Text, error: KafkaformError | None, *, timed: bool) -> None:
    if error is not None:
        click.echo(_failure(error), err=True)
    elif timed:
        click.echo(_clock())
        print_text(shown)
        click.echo()
    else:
        click.echo(shown.plain)


def _failure(error: KafkaformError) -> str:
    return printable(f"not read at {_clock()}: {error.message}")


def _clock() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")

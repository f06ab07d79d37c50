"""The capabilities of the terminal, and progress bars."""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING, Literal, TextIO

import click

from kafkaform.core.printable import wrap_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType
    from rich.progress import Progress

_MIN_WIDTH = 60
_SIGNAL_CHECK_S = 0.1
WIDEST = 120
"""The maximum width of prose, in columns."""


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; a closed stream is None."""
    return stream is not None and stream.isatty()


def read_answer() -> str:
    """Read a line from the terminal; until it is complete, signals are handled within 0.1 s."""
    # Python handles a signal that arrives right before a blocking read only after the read.
    while not select.select([sys.stdin], [], [], _SIGNAL_CHECK_S)[0]:
        pass
    return sys.stdin.readline()


def is_animated(stream: TextIO | None) -> bool:
    """Return whether lines may be redrawn: only on terminals, and not with NO_COLOR or TERM=dumb."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colours(stream: TextIO | None) -> Literal["auto", "standard"] | None:
    """Return rich's colour system for a stream; None for no escape codes at all.

    FORCE_COLOR enables colours without a terminal, as in the log of a CI job; with 0 it disables them.
    NO_COLOR takes precedence. Without either, terminals have colours unless TERM=dumb.
    """
    forced = os.environ.get("FORCE_COLOR", "").lower()
    # NO_COLOR counts if it is not empty, whatever its value (no-color.org).
    if os.environ.get("NO_COLOR") or forced in {"0", "false"}:
        return None
    # `standard` has 16 colours, which logs of CI show.
    if forced:
        return "standard"
    return "auto" if is_animated(stream) else None


def prose_width(stream: TextIO | None) -> int | None:
    """Return the width of prose in columns; None if the stream is no terminal."""
    if not is_terminal(stream):
        return None
    return max(_MIN_WIDTH, min(_columns(), WIDEST))


def echo_prose(text: str, *, err: bool = False) -> None:
    """Print lines, on a terminal each wrapped with an indent."""
    width = prose_width(sys.stderr if err else sys.stdout)
    for line in text.splitlines():
        click.echo(line if width is None else "\n".join(wrap_text(line, width, "    ")), err=err)


def table_width(stream: TextIO | None) -> int | None:
    """Return the width of tables, which is the terminal's; None if the stream is no terminal."""
    return _columns() if is_terminal(stream) else None


def _columns() -> int:
    from shutil import get_terminal_size  # takes 3 ms, with its archive modules

    return get_terminal_size().columns


def tolerate_encoding() -> None:
    """Write characters outside the output's encoding, such as an arrow in Latin-1, as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            # Without it, such a character would end the command with a UnicodeEncodeError.
            reconfigure(errors="backslashreplace")


def progress_bar() -> Progress | None:
    """Return a progress bar with counts and time on stderr; None if that is no animated terminal.

    A task may have three fields with text: `amount`, the amount that is done; `idle`, the time without
    progress; `note`, a line below all tasks.
    """
    if not is_animated(sys.stderr):
        return None
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column
    from rich.text import Text

    class Amount(MofNCompleteColumn):
        """The amount that is done: the field `amount`, if a task has it."""

        def render(self, task: Task) -> Text:
            text = task.fields.get("amount")
            return Text(text, style="progress.download") if text is not None else super().render(task)

    class Remaining(ProgressColumn):
        """The remaining time of tasks with an `amount`; others take only seconds."""

        _remaining = TimeRemainingColumn()

        def render(self, task: Task) -> Text:
            if task.fields.get("amount") is None:
                return Text("")
            if idle := task.fields.get("idle"):
                return Text(idle)
            return Text.assemble(self._remaining.render(task), " left")

    class Noted(Progress):
        """A progress bar with the notes of its tasks below."""

        def get_renderables(self) -> Iterable[RenderableType]:
            yield from super().get_renderables()
            for task in self.tasks:
                if task.fields.get("note"):
                    yield Text(task.fields["note"])

    return Noted(
        TextColumn("{task.description}"),
        BarColumn(),
        Amount(table_column=Column(no_wrap=True)),  # so that the bar makes room, where there is little
        TimeElapsedColumn(),
        Remaining(),
        console=Console(stderr=True, highlight=False),
        transient=True,
    )

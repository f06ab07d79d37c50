"""What the reader's terminal can do."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from rich.console import RenderableType
    from rich.progress import Progress

_NARROWEST = 60
WIDEST = 120
"""The columns at which prose is wrapped where no terminal is narrower."""


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody looks at this stream; a closed one is None."""
    return stream is not None and stream.isatty()


def is_animated(stream: TextIO | None) -> bool:
    """Whether lines may be drawn anew: on terminals only, and never with NO_COLOR or TERM=dumb."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colours(stream: TextIO | None) -> Literal["auto", "standard"] | None:
    """The colours that text may have, in rich's words; None for no escape codes at all.

    FORCE_COLOR asks for colours where no terminal is, as in the log of a CI job; 0 asks for none. NO_COLOR
    beats it. Without either, terminals have colours that are not dumb.
    """
    forced = os.environ.get("FORCE_COLOR", "").lower()
    if os.environ.get("NO_COLOR") or forced in {"0", "false"}:
        return None
    if forced:
        return "standard"
    return "auto" if is_animated(stream) else None


def prose_width(stream: TextIO | None) -> int | None:
    """The width to wrap prose at, or None where no terminal reads it."""
    if not is_terminal(stream):
        return None
    return max(_NARROWEST, min(shutil.get_terminal_size().columns, WIDEST))


def table_width(stream: TextIO | None) -> int | None:
    """The width of a table, all of the terminal's; None where no terminal reads it."""
    return shutil.get_terminal_size().columns if is_terminal(stream) else None


def tolerate_encoding() -> None:
    """Write what the output's encoding cannot hold, such as an arrow in Latin-1, as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors="backslashreplace")


def progress_bar() -> Progress | None:
    """A bar with counts and time on stderr; None where that is no terminal that moves its cursor.

    A task may have three fields: `amount`, how much of it is done, in words; `idle`, since when nothing of it
    was done, in words; `note`, a line below all tasks.
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
        """How much of a task is done: as its field `amount` says it, if it has one."""

        def render(self, task: Task) -> Text:
            said = task.fields.get("amount")
            return Text(said, style="progress.download") if said is not None else super().render(task)

    class Remaining(ProgressColumn):
        """The time that is left, of tasks that are measured: the others are over in seconds."""

        _of_measured = TimeRemainingColumn()

        def render(self, task: Task) -> Text:
            if task.fields.get("amount") is None:
                return Text("")
            if idle := task.fields.get("idle"):
                return Text(idle)
            return Text.assemble(self._of_measured.render(task), " left")

    class Noted(Progress):
        """Tasks, and their notes below them."""

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

"""Reading the logs of the nodes."""

from __future__ import annotations

import re
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LOG_FILE = "broker.log"
_LONGEST = 400
_THROWN = re.compile(r"(Caused by: )?[\w.$]+(Exception|Error)\b(:|$)")
_LOUD = re.compile(r"^\[[^]]*\] (ERROR|FATAL) |^Error[: ]|^Exception in thread")


def begin(path: Path) -> None:
    """Make room for the log of a new start; the one before stays beside it, older ones go."""
    if path.exists():
        path.replace(path.with_name(f"{path.name}.1"))


def tail(path: Path, count: int) -> list[str]:
    """The last lines of a log; none if there is no log yet."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", errors="replace") as log:
        return [line.rstrip("\n") for line in deque(log, maxlen=count)]


def last_words(path: Path) -> str:
    """The line of a log that says best why its process ended: an exception, an error, or the last one."""
    lines = [line.strip() for line in tail(path, 500) if line.strip()]
    for telling in (_THROWN.match, _LOUD.search):
        if found := [line for line in lines if telling(line)]:
            return found[-1][:_LONGEST]
    return lines[-1][:_LONGEST] if lines else "it wrote no log"


def follow(paths: Mapping[str, Path], *, poll_s: float = 0.25) -> Iterator[tuple[str, str]]:
    """Lines as they are added from now on, each with the name of its log; never ends."""
    followed = {name: _Followed(path) for name, path in paths.items()}
    while True:
        quiet = True
        for name, log in followed.items():
            for line in log.new_lines():
                quiet = False
                yield name, line
        if quiet:
            time.sleep(poll_s)


class _Followed:
    """A log that grows, and that a restart of its node replaces."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun = b""
        self._file, self._at = self._current()

    def _current(self) -> tuple[int | None, int]:
        """The identity and the size of the file that is there now."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None, 0
        return found.st_ino, found.st_size

    def new_lines(self) -> list[str]:
        file, size = self._current()
        if file is None:
            return []
        if file != self._file or size < self._at:
            self._file, self._at, self._begun = file, 0, b""
        with self._path.open("rb") as log:
            log.seek(self._at)
            added = log.read()
        self._at += len(added)
        *lines, self._begun = (self._begun + added).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

"""Reading the logs of the nodes."""

from __future__ import annotations

import os
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


class LogReader:
    """Reads whole lines from a log that grows, and that a restart of its node replaces."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._at = 0
        self._begun = b""

    def new_lines(self) -> list[str]:
        """The lines since the last call; at first those from the beginning."""
        try:
            with self._path.open("rb") as log:
                found = os.fstat(log.fileno())
                if found.st_ino != self._file or found.st_size < self._at:
                    self._file, self._at, self._begun = found.st_ino, 0, b""
                log.seek(self._at)
                added = log.read()
        except FileNotFoundError:
            return []
        self._at += len(added)
        *lines, self._begun = (self._begun + added).split(b"\n")
        return [line.decode(errors="replace") for line in lines]


def follow(readers: Mapping[str, LogReader], *, poll_s: float = 0.25) -> Iterator[tuple[str, str]]:
    """New lines as they come, each with the name of its log; never ends."""
    while True:
        quiet = True
        for name, reader in readers.items():
            for line in reader.new_lines():
                quiet = False
                yield name, line
        if quiet:
            time.sleep(poll_s)

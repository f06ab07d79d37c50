"""Repeating a command whenever the files that it reads change."""

from __future__ import annotations

import os
import re
from datetime import datetime
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

import click

from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cli.output import tell
from kafkaform.config.manifests.files import SUFFIXES, read_bytes
from kafkaform.core.errors import KafkaformError
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

PAUSE_S = 0.5
"""The seconds between two looks at the files."""
_NAMED_FILE = re.compile(rb"\bfile: *[\"']?([^\"'\s,}]+)")
"""A file that a manifest names, such as the schema of a subject."""


def repeat_on_change(run: Callable[[], int], list_paths: Callable[[], Iterable[Path]]) -> int:
    """Run now, and again after each change of a file, until Ctrl-C.

    Args:
        run: The command; its errors are printed, and do not end the repetition.
        list_paths: A function that returns the files and folders to watch, called before each run.

    Returns:
        The exit code of the last run.
    """
    code = 1
    error_handler = click.get_current_context().find_object(ErrorHandler) or ErrorHandler()
    try:
        while True:
            paths = [*list_paths()]
            # Taken before the run, so that a change during it is not missed.
            state = _read_state(paths)
            try:
                code = run()
            except KafkaformError as error:
                code = error_handler.tell(error)
            tell(
                f"{datetime.now().astimezone():%H:%M:%S}  watching {counted(len(state), 'file')}; Ctrl-C ends"
            )
            while _read_state(paths) == state:
                sleep(PAUSE_S)
    except KeyboardInterrupt:
        return code


def _read_state(paths: Iterable[Path]) -> Mapping[Path, tuple[int, int]]:
    """Return the time and the size of every file at or below the paths."""
    state: dict[Path, tuple[int, int]] = {}
    for file in _list_files(paths):
        try:
            stat = file.stat()
        except OSError:
            continue  # removed since it was listed, or a link to nothing
        state[file] = stat.st_mtime_ns, stat.st_size
    return state


def _list_files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for folder, below, names in os.walk(path):
            below[:] = [name for name in below if not name.startswith(".")]
            yield from (Path(folder, name) for name in names if Path(name).suffix in SUFFIXES)


def list_named_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that manifests at or below the paths name."""
    for file in _list_files(paths):
        # What cannot be read is a problem of the command that is repeated.
        text = read_bytes(file, []) or b""
        yield from (file.parent / os.fsdecode(name) for name in _NAMED_FILE.findall(text))

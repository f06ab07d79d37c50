"""Finding manifest files, and reading them."""

from __future__ import annotations

import os
import sys
from io import FileIO
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.config.manifests.yaml12 import MAX_BYTES
from kafkaform.core.errors import Problem
from kafkaform.core.model import Location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIXES = frozenset({".yaml", ".yml"})
CONFIG_FILE = "kafkaform.yaml"
"""The configuration file's name: it may lie among manifests and is not one."""
NO_CONFIG_FILE = f"none (no {CONFIG_FILE} found)"
"""What reports say in the place of the configuration file's path, where there is none."""

DASH = Path("-")
"""What stands for stdin on the command line."""
STDIN = Path("<stdin>")
"""The place of stdin among files, and its name in locations; by identity, as a file may have that name."""

_USUAL_BYTES = 64 * 1024
"""What hardly a manifest is larger than."""


def manifest_files(paths: Iterable[Path], problems: list[Problem]) -> list[Path]:
    """All manifest files at or below the paths, each once, sorted; hidden ones are left out.

    A path that does not exist, a folder without any manifest, and what cannot be looked at are problems. So
    is a link in a folder that leads out of it: whoever may add a file there must not have any other file of
    this machine read, and its text shown in an error. A path that is given may be a link itself, or DASH for
    stdin.
    """
    found: dict[str, Path] = {}
    for path in paths:
        try:
            for real, file in _files(path, problems):
                found.setdefault(real, file)
        except OSError as error:
            problems.append(_unreadable(path, error))
    return sorted(found.values(), key=str)


def _files(path: Path, problems: list[Problem]) -> list[tuple[str, Path]]:
    """The real paths of files, and the paths that lead there."""
    if path == DASH:
        return [(str(STDIN), STDIN)]
    if path.is_dir():
        before = len(problems)
        real = realpath(path)
        below = list(_walk(path, real, Path(real), set(), problems))
        if not below and len(problems) == before:
            hint = (
                "write a manifest, or run kafkaform init (an example) or kafkaform import (of a live cluster)"
            )
            problems.append(Problem("no manifests (*.yaml, *.yml) in this folder", Location(str(path)), hint))
        return below
    if not path.exists():
        is_folder = not path.suffix
        hint = "start with kafkaform init, or with kafkaform import, which writes what a live cluster has"
        problems.append(Problem("no such file or folder", Location(str(path)), hint if is_folder else None))
        return []
    return [(realpath(path), path)]


def _walk(
    folder: Path, real: str, root: Path, seen: set[str], problems: list[Problem]
) -> Iterator[tuple[str, Path]]:
    """The manifests below a folder. A link back up leads nowhere new, and one out of the root nowhere.

    Args:
        folder: The folder.
        real: Its real path.
        root: The real path of the one that the walk began in.
        seen: The real paths of the folders that were walked.
        problems: Takes what is wrong.
    """
    if real in seen:
        return
    seen.add(real)
    try:
        # A folder's listing says what is a file, a folder or a link: nothing else is asked about most files.
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        problems.append(_unreadable(folder, error))
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name == CONFIG_FILE:
            continue
        path = folder / entry.name
        listed: os.DirEntry[str] | Path = path if entry.is_symlink() else entry  # of a link, where it leads
        is_folder, is_named = listed.is_dir(), path.suffix in SUFFIXES
        if not (is_folder or is_named):
            continue
        target = f"{real}{os.sep}{entry.name}"
        if entry.is_symlink():
            target = realpath(target)
            if not Path(target).is_relative_to(root):
                problems.append(_leads_out(path))
                continue
        if is_folder:
            yield from _walk(path, target, root, seen, problems)
        elif listed.is_file():
            yield target, path
        else:
            problems.append(Problem("is not a file", Location(str(path)), "remove it, or rename it"))


def _leads_out(link: Path) -> Problem:
    hint = "move the files here, or give their paths on the command line"
    message = "is a link out of the manifests folder: not followed"
    return Problem(message, Location(str(link)), hint)


def read_bytes(path: Path, problems: list[Problem]) -> bytes | None:
    """A file's bytes, or None and a problem; no more than show that it is too large."""
    if path is STDIN:
        # Not text, whose decoding would be the locale's.
        raw = sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin is not None else b""
        if not raw:
            problems.append(Problem("standard input is empty", Location(str(STDIN))))
        return raw or None
    try:
        # Without a buffer, and memory for the largest file, which are two thirds of a small one's 30 µs.
        with FileIO(path) as stream:
            raw = b""
            while len(raw) <= MAX_BYTES and (part := stream.read(_USUAL_BYTES)):
                raw += part  # what is no file, such as a pipe, gives less at a time than it holds
            return raw
    except OSError as error:
        problems.append(_unreadable(path, error))
        return None


def _unreadable(path: Path, error: OSError) -> Problem:
    return Problem(f"cannot be read: {error.strerror or error}", Location(str(path)))

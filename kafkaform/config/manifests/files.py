"""The files of manifests: finding and reading them."""

from __future__ import annotations

import errno
import os
import sys
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.config.manifests.yaml12 import MAX_BYTES
from kafkaform.core.errors import Problem
from kafkaform.core.files import read_file
from kafkaform.core.model import Location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIXES = frozenset({".yaml", ".yml"})
CONFIG_FILE = "kafkaform.yaml"
"""The name of the configuration file, which may be in a folder of manifests but is not one."""
NO_CONFIG_FILE = f"none (no {CONFIG_FILE} found)"
"""The text in reports instead of the path, if there is no configuration file."""

DASH = Path("-")
"""The argument for standard input."""
STDIN = Path("<stdin>")
"""Standard input among files and in locations; compared by identity, as a file may have that name."""


def find_manifest_files(paths: Iterable[Path], problems: list[Problem]) -> list[Path]:
    """Find all manifest files at or below the paths, each once, sorted; hidden ones are ignored.

    A path that does not exist, a folder without a manifest, and an unreadable folder are problems. So is a
    link that points out of its folder: a contributor could otherwise add a link to another file of this
    machine, whose text would appear in an error message. The given paths may be links, or DASH for standard
    input.
    """
    files: dict[str, Path] = {}
    for path in paths:
        try:
            for real, file in _list_files(path, problems):
                files.setdefault(real, file)
        except OSError as error:
            problems.append(_build_read_problem(path, error))
    # File systems list folders in different orders.
    return sorted(files.values(), key=str)


def _list_files(path: Path, problems: list[Problem]) -> list[tuple[str, Path]]:
    """List manifest files as pairs of a real path and the path for messages."""
    # As other tools take it, `-` is standard input even if a file has that name.
    if path == DASH:
        return [(str(STDIN), STDIN)]
    if path.is_dir():
        before = len(problems)
        real = realpath(path)
        below = list(_walk(path, real, Path(real), set(), problems))
        if not below and len(problems) == before:
            hint = "write one, or run `kafkaform init` (an example) or `kafkaform import` (of a live cluster)"
            problems.append(Problem("no manifests (*.yaml, *.yml) in this folder", Location(str(path)), hint))
        return below
    if not path.exists():
        is_folder = not path.suffix
        hint = "start with `kafkaform init` (an example) or `kafkaform import` (of a live cluster)"
        problems.append(Problem("no such file or folder", Location(str(path)), hint if is_folder else None))
        return []
    return [(realpath(path), path)]


def _walk(
    folder: Path, real: str, root: Path, seen: set[str], problems: list[Problem]
) -> Iterator[tuple[str, Path]]:
    """Yield the manifests below a folder; links to folders that were walked or out of the root are skipped.

    Args:
        root: The real path of the folder where the walk began.
        seen: The real paths of the folders that were walked.
        problems: The list that problems are added to.
    """
    # A link to a folder above it would be walked forever.
    if real in seen:
        return
    seen.add(real)
    try:
        # A listing includes the type of each entry, so that most files need no further system call.
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        problems.append(_build_read_problem(folder, error))
        return
    for entry in entries:
        # Hidden files are those of editors and of Git.
        if entry.name.startswith(".") or entry.name == CONFIG_FILE:
            continue
        path = folder / entry.name
        listed: os.DirEntry[str] | Path = path if entry.is_symlink() else entry  # for a link, its target
        is_folder, is_named = listed.is_dir(), path.suffix in SUFFIXES
        if not (is_folder or is_named):
            continue
        target = f"{real}{os.sep}{entry.name}"
        if entry.is_symlink():
            target = realpath(target)
            if not Path(target).is_relative_to(root):
                problems.append(_build_link_problem(path))
                continue
        if is_folder:
            yield from _walk(path, target, root, seen, problems)
        elif listed.is_file():
            yield target, path
        else:
            problems.append(Problem("is not a file", Location(str(path)), "remove it, or rename it"))


def _build_link_problem(link: Path) -> Problem:
    hint = "move the files here, or give their paths on the command line"
    message = "is a link out of the manifests folder: not followed"
    return Problem(message, Location(str(link)), hint)


def read_bytes(path: Path, problems: list[Problem]) -> bytes | None:
    """Read the bytes of a file; None and a problem if it cannot be read."""
    if path is STDIN:
        # As bytes: text would be decoded by the locale.
        raw = sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin is not None else b""
        if not raw:
            problems.append(Problem("standard input is empty", Location(str(STDIN))))
        return raw or None
    try:
        return read_file(path, MAX_BYTES)
    except OSError as error:
        problems.append(_build_read_problem(path, error))
        return None


def _build_read_problem(path: Path, error: OSError) -> Problem:
    hint = "split it" if error.errno == errno.EFBIG else None
    return Problem(f"cannot be read: {error.strerror or error}", Location(str(path)), hint)

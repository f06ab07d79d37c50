"""Finding manifest files, and reading them."""

from __future__ import annotations

from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.errors import Problem
from kafkaform.manifests.yaml12 import MAX_BYTES
from kafkaform.model import Location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIXES = frozenset({".yaml", ".yml"})
CONFIG_FILE = "kafkaform.yaml"
"""The configuration file's name: it may lie among manifests and is not one."""


def manifest_files(paths: Iterable[Path], problems: list[Problem]) -> list[Path]:
    """All manifest files at or below the paths, each once, sorted; hidden ones are left out.

    A path that does not exist, a folder without any manifest, and what cannot be looked at are problems. So
    is a link in a folder that leads out of it: whoever may add a file there must not have any other file of
    this machine read, and its text shown in an error. A path that is given may be a link itself.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        try:
            for file in _files(path, problems):
                found.setdefault(file.resolve(), file)
        except OSError as error:
            problems.append(_unreadable(path, error))
    return sorted(found.values(), key=str)


def _files(path: Path, problems: list[Problem]) -> list[Path]:
    if path.is_dir():
        before = len(problems)
        below = list(_walk(path, path.resolve(), set(), problems))
        if not below and len(problems) == before:
            hint = "write a manifest, or run kafkaform init for a starter set"
            problems.append(Problem("no manifests (*.yaml, *.yml) in this folder", Location(str(path)), hint))
        return below
    if not path.exists():
        problems.append(Problem("no such file or folder", Location(str(path))))
        return []
    return [path]


def _walk(folder: Path, root: Path, seen: set[Path], problems: list[Problem]) -> Iterator[Path]:
    """The manifests below a folder. A link back up leads nowhere new, and one out of the root nowhere.

    Args:
        folder: The folder.
        root: The real path of the one that the walk began in.
        seen: The real paths of the folders that were walked.
        problems: Takes what is wrong.
    """
    if folder.resolve() in seen:
        return
    seen.add(folder.resolve())
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        problems.append(_unreadable(folder, error))
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name == CONFIG_FILE:
            continue
        concerns = entry.suffix in SUFFIXES or entry.is_dir()
        if concerns and entry.is_symlink() and not Path(realpath(entry)).is_relative_to(root):
            problems.append(_leads_out(entry))
        elif entry.is_dir():
            yield from _walk(entry, root, seen, problems)
        elif entry.suffix in SUFFIXES:
            if entry.is_file():
                yield entry
            else:
                problems.append(Problem("is not a file", Location(str(entry)), "remove it, or rename it"))


def _leads_out(link: Path) -> Problem:
    hint = "put the files themselves here, or name them on the command line"
    message = "is a link to outside of the folder of manifests: not followed"
    return Problem(message, Location(str(link)), hint)


def read_bytes(path: Path, problems: list[Problem]) -> bytes | None:
    """A file's bytes, or None and a problem; no more than show that it is too large."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        problems.append(_unreadable(path, error))
        return None


def _unreadable(path: Path, error: OSError) -> Problem:
    return Problem(f"cannot be read: {error.strerror or error}", Location(str(path)))

"""Finding manifest files, and reading them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from kafkaform.errors import Problem
from kafkaform.model import Location

SUFFIXES = frozenset({".yaml", ".yml"})
CONFIG_FILE = "kafkaform.yaml"
"""The configuration file's name: it may lie among manifests and is not one."""


def manifest_files(paths: Iterable[Path], problems: list[Problem]) -> list[Path]:
    """All manifest files at or below the paths, each once, sorted; hidden folders are left out.

    A path that does not exist, and a folder without any manifest, are problems.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if path.is_dir():
            below = [file for file in sorted(_walk(path)) if file.name != CONFIG_FILE]
            if not below:
                hint = "write a manifest, or run kafkaform init for a starter set"
                problems.append(Problem("no manifests (*.yaml, *.yml) in this folder", Location(str(path)), hint))
            found.update({file.resolve(): file for file in below})
        elif path.exists():
            found[path.resolve()] = path
        else:
            problems.append(Problem("no such file or folder", Location(str(path))))
    return sorted(found.values(), key=str)


def _walk(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _walk(entry)
        elif entry.suffix in SUFFIXES:
            yield entry


def read_bytes(path: Path, problems: list[Problem]) -> bytes | None:
    """A file's bytes, or None and a problem."""
    try:
        return path.read_bytes()
    except OSError as error:
        problems.append(Problem(f"cannot be read: {error.strerror or error}", Location(str(path))))
        return None

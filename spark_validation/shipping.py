"""This package as a zip, for executors on other machines."""

from __future__ import annotations

import zipfile
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path

PACKAGE = "spark_validation"


def zipped(folder: Path) -> Path:
    """Write the package's modules into a zip in a folder."""
    target = folder / f"{PACKAGE}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, resources.files(PACKAGE), PACKAGE)
    return target


def _add(archive: zipfile.ZipFile, folder: Traversable, name: str) -> None:
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                _add(archive, entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".py"):
            archive.writestr(f"{name}/{entry.name}", entry.read_bytes())

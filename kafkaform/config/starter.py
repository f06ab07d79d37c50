"""A starter repository: a configuration file, examples of a topic and a group, and schemas for editors."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.core.errors import KafkaformError
from kafkaform.core.lazy_dataclass import dataclass
from kafkaform.core.schema_files import load_schema
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEMPLATES = ("kafkaform.yaml", "topics/example.yaml", "topics/example-group.yaml")
# Copied into the repository, so that editors need no network.
_SCHEMAS = ("config", *(kind.format.schema for kind in KINDS.values()))
GITIGNORE = ".gitignore"
"""The one file that may exist already; it is not changed then."""


@dataclass(frozen=True, slots=True)
class Starter:
    """A written starter repository.

    Attributes:
        files: The files, relative to the folder, in a good order for reading.
        ignore: Lines to add to the existing .gitignore; empty if one was written.
    """

    files: tuple[str, ...]
    ignore: tuple[str, ...] = ()


def write_starter(directory: Path) -> Starter:
    """Write a starter repository into a folder, which is created if it is missing.

    Raises:
        KafkaformError: A file exists already or cannot be written; nothing is left written.
    """
    contents = _read_contents()
    present = [name for name in contents if os.path.lexists(directory / name)]
    ignore: tuple[str, ...] = ()
    if GITIGNORE in present:
        present.remove(GITIGNORE)
        ignore = tuple(line for line in contents.pop(GITIGNORE).splitlines() if not line.startswith("#"))
    if present:
        where = "this folder" if directory == Path() else directory
        raise KafkaformError(
            f"{where} already has {', '.join(present)}; nothing was written",
            hint="give another folder, or move these files away",
        )
    _write_files(directory, contents)
    return Starter(tuple(contents), ignore)


def _read_contents() -> dict[str, str]:
    """Return the text of every file by its name."""
    templates = files("kafkaform").joinpath("templates")
    contents = {name: templates.joinpath(*name.split("/")).read_text("utf-8") for name in _TEMPLATES}
    for name in _SCHEMAS:
        contents[f"schemas/{name}.schema.json"] = (
            json.dumps(load_schema(name), indent=2, ensure_ascii=False) + "\n"
        )
    # In the package it has no dot, as packaging tools would interpret it.
    contents[GITIGNORE] = templates.joinpath("gitignore").read_text("utf-8")
    return contents


def _write_files(directory: Path, contents: Mapping[str, str]) -> None:
    written: list[Path] = []
    path = directory
    try:
        for name, text in contents.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            # Exclusive: a file that was created since the check is not overwritten.
            with path.open("x", encoding="utf-8", newline="\n") as stream:
                written.append(path)
                stream.write(text)
    except OSError as error:
        # Half a starter would make the next run fail with "already has".
        for file in written:
            file.unlink()
        raise KafkaformError(
            f"cannot write {path}: {error.strerror or error}; nothing was written",
            hint="give a folder that you may write to",
        ) from error

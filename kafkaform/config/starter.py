"""A starter repository: a configuration file, two topics and a group, and the schemas that editors read."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.core.errors import KafkaformError
from kafkaform.core.schema_files import load_schema
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEMPLATES = ("kafkaform.yaml", "topics/example.yaml", "topics/example-group.yaml")
# Copied into the repository and committed with it, so that every editor finds them without a network.
_SCHEMAS = ("config", *(kind.schema for kind in KINDS.values()))
GITIGNORE = ".gitignore"
"""The one file that a repository may have already: then it stays as it is."""


@dataclass(frozen=True, slots=True)
class Starter:
    """What was written.

    Attributes:
        files: The files, relative to the folder, in the order in which to read them.
        ignore: Lines that the repository's own .gitignore should have; empty if one was written.
    """

    files: tuple[str, ...]
    ignore: tuple[str, ...] = ()


def write_starter(directory: Path) -> Starter:
    """Write a starter repository into a folder, which is made if it is not there.

    Raises:
        KafkaformError: A file exists already or cannot be written; then nothing was written.
    """
    contents = _contents()
    present = [name for name in contents if os.path.lexists(directory / name)]
    ignore: tuple[str, ...] = ()
    if GITIGNORE in present:
        present.remove(GITIGNORE)
        ignore = tuple(line for line in contents.pop(GITIGNORE).splitlines() if not line.startswith("#"))
    if present:
        where = "this folder" if directory == Path() else directory
        raise KafkaformError(
            f"{where} has {', '.join(present)} already; nothing was written",
            hint="give another folder, or move what is there out of the way",
        )
    _write(directory, contents)
    return Starter(tuple(contents), ignore)


def _contents() -> dict[str, str]:
    """The text of every file by its name."""
    templates = files("kafkaform").joinpath("templates")
    contents = {name: templates.joinpath(*name.split("/")).read_text("utf-8") for name in _TEMPLATES}
    for name in _SCHEMAS:
        contents[f"schemas/{name}.schema.json"] = (
            json.dumps(load_schema(name), indent=2, ensure_ascii=False) + "\n"
        )
    # Without its dot in the package: tools that build and copy packages heed files of that name.
    contents[GITIGNORE] = templates.joinpath("gitignore").read_text("utf-8")
    return contents


def _write(directory: Path, contents: Mapping[str, str]) -> None:
    written: list[Path] = []
    path = directory
    try:
        for name, text in contents.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            # Exclusive: whatever came into being since the check is not overwritten.
            with path.open("x", encoding="utf-8", newline="\n") as stream:
                written.append(path)
                stream.write(text)
    except OSError as error:
        for file in written:
            file.unlink()
        raise KafkaformError(
            f"cannot write {path}: {error.strerror or error}; nothing was written",
            hint="give a folder that you may write to",
        ) from error

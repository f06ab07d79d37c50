"""A starter repository: a configuration file, examples of a topic and a group, and schemas for editors."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.config.manifest_text import MANIFEST_SCHEMA, SCHEMA_MARK, render_schema_line
from kafkaform.config.manifests.files import CONFIG_FILE, find_manifest_files, read_bytes
from kafkaform.config.settings import DEFAULT_MANIFESTS, Settings, read_settings
from kafkaform.core.errors import KafkaformError, Problem
from kafkaform.core.files import write_files
from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FOLDER = "schemas"
_SCHEMA_ID = "urn:kafkaform:"
_TEMPLATES = ("kafkaform.yaml", "topics/example.yaml", "topics/example-group.yaml")
# Copied into the repository, so that editors need no network.
_SCHEMAS = ("config", MANIFEST_SCHEMA)
VSCODE_SETTINGS = ".vscode/settings.json"
GITIGNORE = ".gitignore"
"""The one file that may exist already; it is not changed then."""


class Starter(Value):
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
    templates = files("kafkaform").joinpath("templates")
    contents = {name: templates.joinpath(*name.split("/")).read_text("utf-8") for name in _TEMPLATES}
    contents |= _render_schemas() | {VSCODE_SETTINGS: _render_associations(DEFAULT_MANIFESTS)}
    contents[GITIGNORE] = _read_gitignore()
    present = [name for name in contents if os.path.lexists(directory / name)]
    ignore: tuple[str, ...] = ()
    if GITIGNORE in present:
        present.remove(GITIGNORE)
        ignore = tuple(line for line in contents.pop(GITIGNORE).splitlines() if not line.startswith("#"))
    if present:
        where = "this folder" if directory == Path() else directory
        raise KafkaformError(
            f"{where} already has {', '.join(present)}; nothing was written",
            hint="give another folder, or add --schemas for the help of editors alone",
        )
    _write_files(directory, contents)
    return Starter(tuple(contents), ignore)


def _read_gitignore() -> str:
    # In the package it has no dot, as packaging tools would interpret it.
    return files("kafkaform").joinpath("templates", "gitignore").read_text("utf-8")


def _render_schemas() -> dict[str, str]:
    return {
        f"{_FOLDER}/{name}.schema.json": json.dumps(load_schema(name), indent=2, ensure_ascii=False) + "\n"
        for name in _SCHEMAS
    }


def _render_associations(folders: Iterable[str]) -> str:
    """Return which schema is for which files, as VS Code's YAML extension reads it."""
    # The line in a file is for its first document alone; these patterns are for all of them.
    manifests = [f"{folder}/**/*.{ending}" for folder in folders for ending in ("yaml", "yml")]
    schemas = {
        f"{_FOLDER}/config.schema.json": CONFIG_FILE,
        f"{_FOLDER}/{MANIFEST_SCHEMA}.schema.json": manifests,
    }
    return json.dumps({"yaml.schemas": schemas}, indent=2) + "\n"


def find_schemas(config_file: str | None) -> Path | None:
    """Return the folder of schemas beside the configuration file, as `kafkaform init` writes it; or None."""
    schemas = (Path(config_file).parent if config_file else Path()) / _FOLDER
    return schemas if (schemas / f"{MANIFEST_SCHEMA}.schema.json").exists() else None


def list_missing_support(config_file: str | None) -> dict[Path, str]:
    """Return the texts of the schemas, and of .gitignore, that are missing beside a configuration file.

    Empty if editors find a schema there; existing files are left as they are.
    """
    if config_file is None or find_schemas(config_file) is not None:
        return {}
    contents = _render_schemas() | {GITIGNORE: _read_gitignore()}
    texts = {Path(config_file).parent / name: text for name, text in contents.items()}
    return {path: text for path, text in texts.items() if not os.path.lexists(path)}


class EditorHelp(Value):
    """The files that help editors in a repository.

    Attributes:
        schemas: The schemas that were written or replaced.
        linked: The files that got the line by which editors find their schema.
    """

    schemas: tuple[Path, ...]
    linked: tuple[Path, ...]


def write_schemas(directory: Path) -> EditorHelp:
    """Write the schemas beside a configuration file, and the line that refers to them into its manifests.

    Raises:
        InvalidInput: The configuration file is invalid.
        KafkaformError: There is another file of that name, or a file cannot be written; nothing was changed.
    """
    config = directory / CONFIG_FILE
    settings = read_settings(config) if config.exists() else Settings()
    schemas = {directory / name: text for name, text in _render_schemas().items()}
    for path in schemas:
        if os.path.lexists(path) and _SCHEMA_ID not in path.read_text("utf-8", "replace"):
            raise KafkaformError(
                f"{path} is not a schema of kafkaform; nothing was written", hint="move it away"
            )
    outdated = {
        path: text for path, text in schemas.items() if not path.exists() or path.read_text("utf-8") != text
    }
    linked: dict[Path, str] = {}
    editor = directory / VSCODE_SETTINGS
    if not os.path.lexists(editor):
        home = directory if settings.file else Path()
        outdated[editor] = _render_associations(os.path.relpath(path, home) for path in settings.manifests)
    if config.exists() and SCHEMA_MARK not in (text := config.read_text("utf-8")):
        linked[config] = f"# {SCHEMA_MARK}: $schema={_FOLDER}/config.schema.json\n\n{text}"
    ignored: list[Problem] = []
    folders = [path if settings.file else directory / path for path in settings.manifests]
    for path in find_manifest_files([folder for folder in folders if folder.exists()], ignored):
        raw = read_bytes(path, ignored) or b""
        if SCHEMA_MARK.encode() in raw or path.is_symlink() or not _is_text(raw):
            continue
        line = render_schema_line(path, directory / _FOLDER)
        linked[path] = line.replace("\n", "\r\n" if b"\r\n" in raw else "\n") + raw.decode("utf-8-sig")
    write_files({**outdated, **linked}, overwrite=True)
    return EditorHelp(tuple(outdated), tuple(linked))


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return True


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

"""Replacing the texts of files: all of them or none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.core.errors import KafkaformError
from kafkaform.core.files import beside, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNCHANGED = "no manifest was changed"


@dataclass(frozen=True, slots=True)
class EditedFile:
    """A file with other values in it, not written yet.

    Attributes:
        path: Where it is.
        before: Its text as it was read, with its byte order mark and its line breaks.
        after: The text that it is to have.
    """

    path: Path
    before: str
    after: str


def replace_files(files: Sequence[EditedFile]) -> None:
    """Give files their new texts, each in one step; their modes and owners stay.

    Raises:
        KafkaformError: One has changed since it was read, is a link to elsewhere, or cannot be written: all
            files are as they were then.
    """
    targets = [_target(file) for file in files]
    new: list[Path] = []
    done: list[tuple[Path, str]] = []
    try:
        for file, target in zip(files, targets, strict=True):
            new.append(beside(target, file.after.encode()))
        for file, target, path in zip(files, targets, new, strict=True):
            path.replace(target)
            done.append((target, file.before))
    except OSError as error:
        hint = _put_back(done)
        raise KafkaformError(f"cannot write {file.path}: {error.strerror}", hint=hint) from error
    finally:
        for path in new:
            path.unlink(missing_ok=True)


def _target(file: EditedFile) -> Path:
    """The file to write, links followed; it must hold what was read."""
    try:
        target = file.path.resolve(strict=True)
        now = target.read_bytes()
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise KafkaformError(f"cannot read {file.path}: {reason}", hint=_UNCHANGED) from error
    near = (Path.cwd().resolve(), file.path.parent.resolve())
    if not any(target.is_relative_to(folder) for folder in near):
        message = f"{file.path} is a link to {target}, outside of this folder: it is not written"
        raise KafkaformError(message, hint=f"edit {target} itself; no manifest was changed")
    if now != file.before.encode():
        message = f"{file.path} has changed since it was read: it is not written"
        raise KafkaformError(message, hint="run the command again; no manifest was changed")
    return target


def _put_back(done: Sequence[tuple[Path, str]]) -> str:
    """Give files their old texts again; returns what the user is to know."""
    lost = []
    for target, before in done:
        try:
            replace(target, before.encode())
        except OSError:  # told below: the error that led here is the one to show
            lost.append(str(target))
    return f"these files were changed and cannot be restored: {', '.join(lost)}" if lost else _UNCHANGED

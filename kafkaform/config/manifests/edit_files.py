"""The replacement of the texts of several files: all of them or none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.core.errors import KafkaformError
from kafkaform.core.files import read_file, replace, write_beside
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNCHANGED = "no manifest was changed"


class EditedFile(Value):
    """A file with edited values, not written yet.

    Attributes:
        path: The path of the file.
        before: The text as it was read, with its byte order mark and its line breaks.
        after: The new text.
    """

    path: Path
    before: str
    after: str


def replace_files(files: Sequence[EditedFile]) -> None:
    """Replace the texts of files, each atomically; their modes and owners are kept.

    Raises:
        KafkaformError: A file has changed since it was read, is a link to another folder, or cannot be
            written; the files that were written before are restored.
    """
    targets = [_find_target(file) for file in files]
    new: list[Path] = []
    done: list[tuple[Path, str]] = []
    try:
        # First write all new texts beside the files: a full disk then changes none of them.
        for file, target in zip(files, targets, strict=True):
            new.append(write_beside(target, file.after.encode()))
        for file, target, path in zip(files, targets, new, strict=True):
            path.replace(target)
            done.append((target, file.before))
    except OSError as error:
        hint = _restore(done)
        raise KafkaformError(f"cannot write {file.path}: {error.strerror}", hint=hint) from error
    finally:
        for path in new:
            path.unlink(missing_ok=True)


def _find_target(file: EditedFile) -> Path:
    """Return the file to write, with links followed, after checking that its text has not changed."""
    try:
        target = file.path.resolve(strict=True)
        now = read_file(target)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise KafkaformError(f"cannot read {file.path}: {reason}", hint=_UNCHANGED) from error
    # A link may lead to a file of another project, which the user did not ask to edit.
    near = (Path.cwd().resolve(), file.path.parent.resolve())
    if not any(target.is_relative_to(folder) for folder in near):
        message = f"{file.path} is a link to {target}, which is outside this folder: not written"
        raise KafkaformError(message, hint=f"edit {target} itself; no manifest was changed")
    if now != file.before.encode():
        message = f"{file.path} has changed since it was read: not written"
        raise KafkaformError(message, hint="run the command again; no manifest was changed")
    return target


def _restore(done: Sequence[tuple[Path, str]]) -> str:
    """Restore the old texts of files; return a hint for the user."""
    lost = []
    for target, before in done:
        try:
            replace(target, before.encode())
        except OSError:  # in the hint: the first error is the one to raise
            lost.append(str(target))
    return f"these files were changed and cannot be restored: {', '.join(lost)}" if lost else _UNCHANGED

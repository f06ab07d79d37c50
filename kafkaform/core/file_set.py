"""Writing several files as one: all of them, or none."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.core.errors import KafkaformError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TEMPORARY = ".kafkaform.new"
"""Hidden, so that nothing takes it for a manifest."""


def write_files(files: Mapping[Path, str], *, overwrite: bool = False) -> None:
    """Write files, and make the folders that they need.

    Args:
        files: The text of each, by its path.
        overwrite: Whether a file that exists is replaced; else it stands in the way of all.

    Raises:
        KafkaformError: One cannot be written; then everything is as it was.
    """
    undo: list[Callable[[], object]] = []
    path = Path()
    try:
        for path, text in files.items():
            _make_folder(path.parent, undo)
            if overwrite and path.exists():
                _replace(path.resolve(), text.encode(), undo)
            else:
                # Exclusive: whatever came into being since anybody looked is not overwritten.
                with path.open("xb") as stream:
                    undo.append(path.unlink)
                    stream.write(text.encode())
    except BaseException as error:
        for step in reversed(undo):
            step()
        if not isinstance(error, OSError):
            raise
        raise KafkaformError(
            f"cannot write {path}: {error.strerror or error}; nothing was written",
            hint="give a folder that you may write to",
        ) from error


def _make_folder(folder: Path, undo: list[Callable[[], object]]) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent, undo)
        folder.mkdir()
        undo.append(folder.rmdir)


def _replace(path: Path, content: bytes, undo: list[Callable[[], object]]) -> None:
    before = path.read_bytes()
    temporary = path.with_name(_TEMPORARY)
    try:
        temporary.write_bytes(content)
        temporary.chmod(path.stat().st_mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    undo.append(partial(path.write_bytes, before))

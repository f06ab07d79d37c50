"""Writing files: each whole or not at all, and several as one; one process at a time in a directory."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING

from kafkaform.core.errors import KafkaformError
from kafkaform.core.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


def write_file(path: Path, text: str) -> None:
    """Write a file whole or not at all; links are followed, and the mode and owner of one that exists stay.

    What is no regular file, such as `/dev/stdout` or a pipe, is written to, and never replaced.

    Raises:
        KafkaformError: It cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, "utf-8")
        else:
            replace(path, text.encode())
    except (OSError, RuntimeError) as error:  # before Python 3.13 a loop of links is a RuntimeError
        raise KafkaformError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error


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
                before = path.read_bytes()
                replace(path, text.encode())
                undo.append(partial(path.write_bytes, before))
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


def replace(path: Path, content: bytes) -> None:
    """Give a file its content in one step; links are followed.

    Raises:
        OSError: It cannot be written; then it is as it was.
    """
    target = path.resolve()
    new = beside(target, content)
    try:
        new.replace(target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def beside(target: Path, content: bytes) -> Path:
    """A new file beside another, on the disk, of its owner and mode; hidden: nobody takes it for a manifest.

    Raises:
        OSError: It cannot be written; then it is not there.
    """
    path = target.with_name(f".kafkaform-{os.urandom(6).hex()}.new")
    try:
        with path.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            old = target.stat()
            if os.geteuid() == 0:
                os.chown(path, old.st_uid, old.st_gid)
            path.chmod(S_IMODE(old.st_mode))
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _make_folder(folder: Path, undo: list[Callable[[], object]]) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent, undo)
        folder.mkdir()
        undo.append(folder.rmdir)


@contextmanager
def locked(path: Path, *, progress: Progress = silent) -> Iterator[None]:
    """Hold the lock file at `path`; the system lets go of it when the process ends, however it ends."""
    descriptor = _acquire(path, progress)
    try:
        yield
    finally:
        os.close(descriptor)


def _acquire(path: Path, progress: Progress) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress(f"waiting for another process that is at work in {path.parent}")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_still(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the locked file is the one at `path`: whoever held it before may have removed it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False

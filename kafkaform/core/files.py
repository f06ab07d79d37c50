"""Bounded reading of files, atomic writing of one or several, lock files, and the cache folder."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from stat import S_IMODE, S_ISDIR, S_ISFIFO, S_ISREG
from typing import TYPE_CHECKING

from kafkaform.core.errors import KafkaformError
from kafkaform.core.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


CACHE_VARIABLE = "KAFKAFORM_CACHE"
MAX_FILE_BYTES = 256 * 1024**2
"""In bytes; the plan of ten thousand new topics has less than a tenth of it."""

_USUAL_BYTES = 64 * 1024
"""Few manifests are larger."""


def get_cache_directory() -> Path:
    """Return the directory of downloads: KAFKAFORM_CACHE, or the user's cache folder."""
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own).absolute()
    import platformdirs

    return platformdirs.user_cache_path("kafkaform")


class UnsuitableFileError(OSError):
    """A file is not a regular one, or is too large; the reason is its `strerror`."""


def read_file(path: Path | str, largest: int = MAX_FILE_BYTES, *, pipes: bool = True) -> bytes:
    """Read a regular file, or a pipe that this process was started with, as by `<(command)`.

    Reading anything else could wait forever (a named pipe, a terminal) or never end (/dev/zero).

    Args:
        largest: The number of bytes that it may have at most.
        pipes: Whether to read such a pipe.

    Raises:
        OSError: It cannot be read; an `UnsuitableFileError` if it is another kind of file, or larger.
    """
    # Without O_NONBLOCK, opening a named pipe waits for a process that writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(descriptor)
        if S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if pipes and S_ISFIFO(about.st_mode) and _is_inherited(path):
            os.set_blocking(descriptor, True)
        else:
            require_regular(descriptor, path)
        parts, allowed = [], largest + 1 if about.st_size <= largest else 0
        part_bytes = max(_USUAL_BYTES, about.st_size)
        # A pipe returns less at a time than it has, and the size of a file below /proc is 0.
        while allowed and (part := os.read(descriptor, min(part_bytes, allowed))):
            parts.append(part)
            allowed -= len(part)
    finally:
        os.close(descriptor)
    if not allowed:
        limit = f"{largest >> 20} MiB" if largest >> 20 else f"{largest >> 10} KiB"
        raise UnsuitableFileError(errno.EFBIG, f"larger than {limit}", str(path))
    return b"".join(parts)


def require_regular(descriptor: int, path: Path | str) -> None:
    """Raise an UnsuitableFileError if an open file is not a regular one."""
    if not S_ISREG(os.fstat(descriptor).st_mode):
        raise UnsuitableFileError(errno.EINVAL, "not a regular file", str(path))


def _is_inherited(path: Path | str) -> bool:
    """Return whether a path is that of an open descriptor; on Linux, /dev/fd is a link to /proc/self/fd."""
    return os.path.realpath(path).startswith(("/proc/", "/dev/fd/"))


def write_file(path: Path, text: str) -> None:
    """Write a file atomically; follow links, and keep the mode and owner of an existing file.

    Anything but a regular file, such as `/dev/stdout` or a pipe, is written to, not replaced.

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
    """Write all files or none, and create the folders that they need.

    Args:
        files: The text of each file, by path.
        overwrite: Whether to replace existing files; otherwise one makes the whole call fail.

    Raises:
        KafkaformError: A file cannot be written; all changes have been undone.
    """
    undo: list[Callable[[], object]] = []
    path = Path()
    try:
        for path, text in files.items():
            _make_folder(path.parent, undo)
            if overwrite and path.exists():
                before = read_file(path)
                replace(path, text.encode())
                undo.append(partial(path.write_bytes, before))
            else:
                # Exclusive: a file that was created since the caller looked is not overwritten.
                with path.open("xb") as stream:
                    undo.append(path.unlink)
                    stream.write(text.encode())
    # Ctrl-C between two files must not leave half of them: everything is undone first, and then raised
    # again.
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
    """Replace the content of a file atomically; links are followed.

    Raises:
        OSError: The file cannot be written; it is unchanged.
    """
    target = path.resolve()
    if target.is_symlink():  # a loop of links, for which resolve() raises no error from Python 3.13 on
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    new = write_beside(target, content)
    try:
        # rename() is atomic only within one file system, so the new file is written beside the old one. A
        # reader sees the whole old content or the whole new one.
        new.replace(target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def write_beside(target: Path, content: bytes) -> Path:
    """Write a new file beside another, with its owner and mode, and sync it to disk.

    Its name starts with a dot, so that it is not read as a manifest.

    Raises:
        OSError: The file cannot be written; it has been removed.
    """
    path = target.with_name(f".kafkaform-{os.urandom(6).hex()}.new")
    try:
        with path.open("xb") as stream:
            stream.write(content)
            stream.flush()
            # Otherwise, after a power failure, the renamed file may be empty.
            os.fsync(stream.fileno())
        if target.exists():
            old = target.stat()
            # Only root may give a file to another user. Anybody else already owns the new file, and may not
            # own the old one.
            if os.geteuid() == 0:
                os.chown(path, old.st_uid, old.st_gid)
            path.chmod(S_IMODE(old.st_mode))
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _make_folder(folder: Path, undo: list[Callable[[], object]]) -> None:
    # mkdir(parents=True) would not return which folders it has created, and only those may be removed
    # again.
    if not folder.is_dir():
        _make_folder(folder.parent, undo)
        try:
            folder.mkdir()
        except FileExistsError:  # such as the import of another cluster, at the same time
            if not folder.is_dir():
                raise
        else:
            undo.append(partial(_remove_empty_folder, folder))


def _remove_empty_folder(folder: Path) -> None:
    with suppress(OSError):  # somebody else has put a file into it since
        folder.rmdir()


@contextmanager
def hold_lock(path: Path, *, progress: Progress = silent) -> Iterator[None]:
    """Hold the lock file at `path`; the operating system releases it when the process ends."""
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
                # The first attempt does not block, so that only a process that has to wait prints a
                # message.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress(f"waiting for another process that uses {path.parent}")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_same_file(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_same_file(path: Path, descriptor: int) -> bool:
    """Return whether the locked file is still at `path`: an earlier holder may have removed it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False

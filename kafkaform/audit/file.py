"""A file of JSON lines that keeps the record."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkaform.core.errors import AuditError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def append_to_file(file: Path, lines: Sequence[str]) -> None:
    """Add lines, and wait until they are on the disk; a new file is for its owner alone.

    Raises:
        AuditError: They cannot be written.
    """
    text = "".join(f"{line}\n" for line in lines).encode()
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if _is_torn(descriptor):
                text = b"\n" + text
            while text:
                text = text[os.write(descriptor, text) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise AuditError(
            f"the record in {file} cannot be written: {error.strerror}",
            hint="mend that, or name another file: --audit-file, or audit.file in kafkaform.yaml",
        ) from error


def read_file(file: Path) -> list[str]:
    """The lines of a file; none if it does not exist.

    Raises:
        AuditError: It cannot be read.
    """
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AuditError(f"the record in {file} cannot be read: {error.strerror}") from error
    return [line.decode("utf-8", "replace") for line in raw.split(b"\n") if line.strip()]


def _is_torn(descriptor: int) -> bool:
    """Whether the last line has no end, as after a crash in the midst of writing."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"

"""Reading of files that users name. This package does not import kafkaform, which has a reader of its own."""

from __future__ import annotations

import errno
import os
from stat import S_ISREG
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE_BYTES = 16 * 1024**2
"""In bytes; certificates, tokens, properties and policies are smaller."""


def read_file(path: Path | str) -> bytes:
    """Read a regular file of limited size: a named pipe could wait forever, /dev/zero never ends.

    Raises:
        OSError: It cannot be read, is not a regular file, or is larger.
    """
    # Without O_NONBLOCK, opening a named pipe waits for a process that writes to it.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MAX_FILE_BYTES >> 20} MiB", str(path))
    return content

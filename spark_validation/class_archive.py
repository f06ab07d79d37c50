"""An archive of Spark's classes, which lets its Java start in little more than half of the time.

Java keeps classes as it has them in memory (class-data sharing, JEP 350), for one Java and one class path:
any other ignores the archive. It takes about 160 MB and 20 s to make: once, in the background.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import logging
import os
import stat
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from spark_validation.configuration import SessionSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_SUFFIX = ".jsa"
_FAILED = ".failed"
_SIZE = ".size"
_RETRY_AFTER_S = 86_400
"""The time after which a failed archive is tried again."""
_NICENESS = 10
_ROWS = 20_000
_children: list[subprocess.Popen[bytes]] = []
"""The processes that were started; they outlive this one."""


def archive_file(folder: Path, java_home: Path | None) -> Path:
    """Return the path of the archive for this PySpark and a Java.

    Args:
        folder: Where archives are kept.
        java_home: The Java; None for the one that Spark finds by itself.
    """
    version = metadata.version("pyspark")
    spec = importlib.util.find_spec("pyspark")
    place = spec.origin if spec is not None else ""
    try:
        release = (java_home / "release").read_bytes() if java_home is not None else b""
    except OSError:
        # A Java without this file is known by its path alone.
        release = str(java_home).encode()
    # Java ignores an archive of another class path, so that the place of PySpark is a part of the name.
    digest = hashlib.sha256(b"\0".join([release, str(java_home).encode(), str(place).encode()])).hexdigest()
    return folder / f"pyspark-{version}-{digest[:16]}{_SUFFIX}"


def is_usable(file: Path) -> bool:
    """Return whether an archive is complete, and only this account can have written it.

    Java runs the classes in it. It verifies them, but dies of SIGBUS where a part of the file is missing (JDK
    17).
    """
    try:
        # Who may write to the folder can replace the file.
        states = [file.parent.stat(), file.stat()]
        whole = int(file.with_suffix(_SIZE).read_text(encoding="ascii")) == states[1].st_size
    except (OSError, ValueError):
        return False
    return whole and all(
        state.st_uid == os.geteuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for state in states
    )


def build_in_background(file: Path, java_home: Path | None) -> bool:
    """Make an archive in a process of its own, which outlives this one.

    Returns:
        Whether it was started: not if there is a usable archive, or if making one failed within a day.
    """
    failed = file.with_suffix(_FAILED)
    with contextlib.suppress(FileNotFoundError):
        if time.time() - failed.stat().st_mtime < _RETRY_AFTER_S:
            return False
    if is_usable(file):
        return False
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(file), str(java_home or "")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # A Ctrl-C in the terminal ends the command, and not this.
            start_new_session=True,
        )
    except OSError as error:
        _log.debug("the class archive is not made: %s", error)
        return False
    _children.append(process)
    return True


def make(file: Path, java_home: Path | None) -> bool:
    """Make an archive, or put a new one in its place.

    Args:
        file: The path of `archive_file`.
        java_home: The Java; None for the one that Spark finds by itself.

    Returns:
        Whether it was made; not if another process is making it.

    Raises:
        SkewError: Spark does not run on this machine.
        OSError: The folder cannot be written to.
    """
    from spark_validation.errors import SparkUnavailable
    from spark_validation.session import start

    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _hold_lock(file) as alone:
        if not alone:
            return False
        unfinished = file.with_name(f".{file.name}")
        unfinished.unlink(missing_ok=True)
        with start(SessionSettings("local[2]", java_home=java_home, dump_classes=unfinished)) as spark:
            _exercise(spark)
        # The exit code of Java is not read: only the file shows that the archive was written.
        if not unfinished.exists():
            raise SparkUnavailable(
                "Java did not write the archive of its classes", hint="kafkaform works without it"
            )
        unfinished.chmod(0o600)
        # For a moment there is no archive, rather than one that does not have the size beside it.
        file.unlink(missing_ok=True)
        file.with_suffix(_SIZE).write_text(str(unfinished.stat().st_size), encoding="ascii")
        unfinished.replace(file)
        file.with_suffix(_FAILED).unlink(missing_ok=True)
    return True


@contextlib.contextmanager
def _hold_lock(file: Path) -> Iterator[bool]:
    """Hold the lock on making an archive, which ends with its process; yield whether it was free."""
    with file.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _exercise(spark: SparkSession) -> None:
    """Make Spark load the classes that a measurement needs."""
    from pyspark.sql import functions as F  # noqa: N812 - its customary name

    from spark_validation.key_counts import CountsLayout
    from spark_validation.measure import count_records

    # What a measurement does within Spark, with records that need no broker.
    rows = spark.range(0, _ROWS, 1, 4).select(
        (F.col("id") % 4).cast("int").alias("partition"),
        F.lit(0).alias("replicate"),
        F.col("id").cast("string").cast("binary").alias("key"),
        F.lit(100).cast("long").alias("size"),
        F.col("id").alias("at"),
    )
    layout = CountsLayout(4, 1, (1.0,) * 4, (True,) * 4)
    count_records(rows, layout, count=_ROWS, slots=2)


def main(arguments: list[str]) -> int:
    """Make the archive for `build_in_background`, and leave a file with the error if that fails."""
    from spark_validation.errors import SkewError

    file, java_home = Path(arguments[0]), Path(arguments[1]) if arguments[1] else None
    # The command that started this still measures, on the same processors.
    os.nice(_NICENESS)
    try:
        make(file, java_home)
    except (SkewError, OSError) as error:
        # Nobody sees an error of this process; without the file, the next command tries again.
        with contextlib.suppress(OSError):
            file.with_suffix(_FAILED).write_text(f"{error}\n", encoding="utf-8")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The operating system's side of a node: starting its process, finding it again, ending it."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from kafkaform.core.errors import DevClusterError
from kafkaform.devcluster import logs
from kafkaform.devcluster.configuration import LOGGING_FILE, SERVER_FILE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from kafkaform.devcluster.jars.java import Java

_MAIN_CLASS = "kafka.Kafka"
_KILL_S = 10
_POLL_S = 0.05


class _Detached(subprocess.Popen[bytes]):
    """A process that is meant to outlive this one, so leaving it behind is nothing to warn of."""

    def __del__(self) -> None:
        """Do nothing: `psutil` waits for it where somebody stops it."""


def jvm(java: Java, *, heap_mb: int, full_jit: bool = False) -> list[str]:
    """The beginning of a command that runs a class of Kafka: flags for a quick start on few cores."""
    return [
        str(java.path),
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        *([] if full_jit else ["-XX:TieredStopAtLevel=1"]),
        "-Xshare:auto",
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={LOGGING_FILE}",
    ]


def environment(classpath: Sequence[Path]) -> dict[str, str]:
    """This process's environment with the class path, which would fill the screen as an argument."""
    return {**os.environ, "CLASSPATH": os.pathsep.join(map(str, classpath))}


def launch(
    java: Java, classpath: Sequence[Path], *, directory: Path, heap_mb: int, full_jit: bool, token: str
) -> psutil.Process:
    """Start a node in its directory, in a session of its own, so that a Ctrl-C meant for us spares it."""
    log = directory / logs.LOG_FILE
    logs.begin(log)
    command = [*jvm(java, heap_mb=heap_mb, full_jit=full_jit), _mark(token), _MAIN_CLASS, SERVER_FILE]
    try:
        with log.open("ab") as output:
            started = _Detached(
                command,
                cwd=directory,
                env=environment(classpath),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return psutil.Process(started.pid)
    except (OSError, psutil.Error) as error:
        raise DevClusterError(f"cannot start {java.path} in {directory}: {error}") from error


def find(tokens: Collection[str]) -> Mapping[str, list[psutil.Process]]:
    """The living processes that carry each token (a launcher script may stand before the real one)."""
    found: dict[str, list[psutil.Process]] = {token: [] for token in tokens}
    if not tokens:
        return found
    marks = {_mark(token): token for token in tokens}
    for process in psutil.process_iter():
        try:
            arguments = process.cmdline()
        except psutil.Error:
            continue  # it ended meanwhile, or belongs to somebody else
        if _MAIN_CLASS in arguments:
            for mark in marks.keys() & set(arguments):
                found[marks[mark]].append(process)
    return found


def has_ended(process: psutil.Process) -> bool:
    """Whether a process no longer runs; takes note of its end if it is a child of this one."""
    try:
        with suppress(psutil.TimeoutExpired):
            process.wait(timeout=0)
            return True
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def end(processes: Iterable[psutil.Process], *, grace_s: float) -> None:
    """End processes: politely first, then for good after `grace_s` seconds; 0 skips the politeness.

    Raises:
        DevClusterError: One of them belongs to another account, or does not go.
    """
    remaining = list(processes)
    if grace_s > 0:
        _signal(remaining, kill=False)
        remaining = _await_end(remaining, grace_s)
    _signal(remaining, kill=True)
    if remaining := _await_end(remaining, _KILL_S):
        raise DevClusterError(f"process {remaining[0].pid} does not end", hint="see why with ps")


def _signal(processes: Iterable[psutil.Process], *, kill: bool) -> None:
    for process in processes:
        try:
            process.kill() if kill else process.terminate()
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied as error:
            raise DevClusterError(
                f"process {process.pid} was started by another account", hint="stop it as that account"
            ) from error


def _await_end(processes: list[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    deadline = time.monotonic() + timeout_s
    remaining = [p for p in processes if not has_ended(p)]
    while remaining and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        remaining = [p for p in remaining if not has_ended(p)]
    return remaining


def _mark(token: str) -> str:
    return f"-Dkafkaform.dev.node={token}"

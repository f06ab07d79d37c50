"""The operating system's side of a node.

Its storage is formatted, its process started and ended, its log read.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import time
import uuid
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import javaproperties
import psutil

from kafkaform.core.errors import DevClusterError
from kafkaform.devcluster.configuration import DATA_DIRECTORY, LOGGING_FILE, SERVER_FILE, ZOOKEEPER_FILE

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from pathlib import Path

    from kafkaform.devcluster.jars.java import Java


LOG_FILE = "broker.log"
_LONGEST = 400
_THROWN = re.compile(r"(Caused by: )?[\w.$]+(Exception|Error)\b(:|$)")
_LOUD = re.compile(r"^\[[^]]*\] (ERROR|FATAL) |^Error[: ]|^Exception in thread")


def begin(path: Path) -> None:
    """Make room for the log of a new start; the one before stays beside it, older ones go."""
    if path.exists():
        path.replace(path.with_name(f"{path.name}.1"))


def tail(path: Path, count: int) -> list[str]:
    """The last lines of a log; none if there is no log yet."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", errors="replace") as log:
        return [line.rstrip("\n") for line in deque(log, maxlen=count)]


def last_words(path: Path) -> str:
    """The line of a log that says best why its process ended: an exception, an error, or the last one."""
    lines = [line.strip() for line in tail(path, 500) if line.strip()]
    for telling in (_THROWN.match, _LOUD.search):
        if found := [line for line in lines if telling(line)]:
            return found[-1][:_LONGEST]
    return lines[-1][:_LONGEST] if lines else "it wrote no log"


class NodeLogReader:
    """Reads whole lines from a log that grows, and that a restart of its node replaces."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._at = 0
        self._begun = b""

    def new_lines(self) -> list[str]:
        """The lines since the last call; at first those from the beginning."""
        try:
            with self._path.open("rb") as log:
                found = os.fstat(log.fileno())
                if found.st_ino != self._file or found.st_size < self._at:
                    self._file, self._at, self._begun = found.st_ino, 0, b""
                log.seek(self._at)
                added = log.read()
        except FileNotFoundError:
            return []
        self._at += len(added)
        *lines, self._begun = (self._begun + added).split(b"\n")
        return [line.decode(errors="replace") for line in lines]


def follow(readers: Mapping[str, NodeLogReader], *, poll_s: float = 0.25) -> Iterator[tuple[str, str]]:
    """New lines as they come, each with the name of its log; never ends."""
    while True:
        quiet = True
        for name, reader in readers.items():
            for line in reader.new_lines():
                quiet = False
                yield name, line
        if quiet:
            time.sleep(poll_s)


BROKER = ("kafka.Kafka", SERVER_FILE)
"""The class of a broker, and its argument."""
ZOOKEEPER = ("org.apache.zookeeper.server.ZooKeeperServerMain", ZOOKEEPER_FILE)
"""The same of a ZooKeeper."""
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
    java: Java,
    classpath: Sequence[Path],
    *,
    directory: Path,
    heap_mb: int,
    full_jit: bool,
    token: str,
    program: tuple[str, str] = BROKER,
) -> psutil.Process:
    """Start a node in its directory, in a session of its own, so that a Ctrl-C meant for us spares it."""
    log = directory / LOG_FILE
    begin(log)
    command = [*jvm(java, heap_mb=heap_mb, full_jit=full_jit), _mark(token), *program]
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
        if BROKER[0] in arguments or ZOOKEEPER[0] in arguments:
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
        raise DevClusterError(f"process {remaining[0].pid} does not exit", hint="check its state with ps")


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


FORMAT_LOG = "format.log"
_META = "meta.properties"
_FORMAT_S = 120


def random_id() -> str:
    """An id as Kafka writes them: 128 random bits in 22 characters, the first of which is no dash."""
    while True:
        written = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not written.startswith("-"):
            return written


def format_nodes(
    java: Java,
    classpath: Sequence[Path],
    directories: Mapping[int, Path],
    *,
    cluster_id: str,
    arguments: Sequence[str],
) -> None:
    """Format the storage of new nodes; what an interrupted formatting left is removed before.

    Kafka's tool formats the first node. The others get the same first records and identities of their own:
    a JVM for each would take longer than the cluster's start.

    Args:
        java: Runs Kafka's tool.
        classpath: Kafka's jars.
        directories: The nodes' directories with their properties, by the nodes' ids. The tool formats the
            first, which is of the oldest version: the others know its features.
        cluster_id: The id that all of them get.
        arguments: Further ones for Kafka's tool, such as `--add-scram …` or `--feature …`.

    Raises:
        DevClusterError: Kafka's tool refuses.
    """
    for directory in directories.values():
        if (data := directory / DATA_DIRECTORY).exists():
            shutil.rmtree(data)
    first, *others = directories
    formatted = directories[first] / DATA_DIRECTORY
    _format(java, classpath, directories[first], cluster_id, arguments)
    meta = javaproperties.loads((formatted / _META).read_text(encoding="latin-1"))
    for node_id in others:
        data = directories[node_id] / DATA_DIRECTORY
        shutil.copytree(formatted, data)
        own = {**meta, "node.id": str(node_id)}
        if "directory.id" in own:  # since 3.7
            own["directory.id"] = random_id()
        (data / _META).write_text(javaproperties.dumps(own), encoding="latin-1")


def _format(
    java: Java, classpath: Sequence[Path], directory: Path, cluster_id: str, arguments: Sequence[str]
) -> None:
    log = directory / FORMAT_LOG
    command = [
        *jvm(java, heap_mb=128), "kafka.tools.StorageTool",
        "format", "--cluster-id", cluster_id, "--config", SERVER_FILE, *arguments,
    ]  # fmt: skip
    try:
        with log.open("wb") as output:
            done = subprocess.run(
                command,
                cwd=directory,
                env=environment(classpath),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_FORMAT_S,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise DevClusterError(
            f"formatting the storage took more than {_FORMAT_S} s", hint=f"see {log}"
        ) from error
    if done.returncode != 0:
        raise DevClusterError(f"cannot format the storage: {last_words(log)}", hint=f"see {log}")

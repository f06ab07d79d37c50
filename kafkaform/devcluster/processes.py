"""The processes, the logs and the storage of nodes: launch and end, read and follow, format."""

from __future__ import annotations

import base64
import hashlib
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
from kafkaform.core.files import get_cache_directory
from kafkaform.devcluster.configuration import DATA_DIRECTORY, LOGGING_FILE, SERVER_FILE, ZOOKEEPER_FILE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kafkaform.devcluster.jars.java import Java


LOG_FILE = "broker.log"
FORMAT_LOG = "format.log"
BROKER = ("kafka.Kafka", SERVER_FILE)
"""The main class of a broker, and its argument."""
ZOOKEEPER = ("org.apache.zookeeper.server.ZooKeeperServerMain", ZOOKEEPER_FILE)
"""The main class of a ZooKeeper, and its argument."""
_PROGRAMS = frozenset({BROKER[0], ZOOKEEPER[0], "-jar"})
"""What the command line of a node or of a schema registry has, besides its token."""
_META = "meta.properties"
_FORMAT_S = 120
_KILL_S = 10
_POLL_S = 0.05
_MAX_LINE_LENGTH = 400
_WITHOUT_NOTES = "-Xlog:cds*=off"
"""Java notes each class that it cannot archive, and an archive that does not fit."""
_THROWN = re.compile(r"(Caused by: )?[\w.$]+(Exception|Error)\b(:|$)")
_LOUD = re.compile(r"^\[[^]]*\] (ERROR|FATAL) |^Error[: ]|^Exception in thread")


def rotate_log(path: Path) -> None:
    """Rename the log of the previous start, in place of that of the start before."""
    if path.exists():
        path.replace(path.with_name(f"{path.name}.1"))


def read_tail(path: Path, count: int) -> list[str]:
    """Return the last lines of a log; none if there is no log yet."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", errors="replace") as log:
        return [line.rstrip("\n") for line in deque(log, maxlen=count)]


def find_failure_line(path: Path) -> str:
    """Return the line of a log that best explains a failure: the last exception, error or other line."""
    lines = [line.strip() for line in read_tail(path, 500) if line.strip()]
    for is_failure in (_THROWN.match, _LOUD.search):
        if failures := [line for line in lines if is_failure(line)]:
            return failures[-1][:_MAX_LINE_LENGTH]
    return lines[-1][:_MAX_LINE_LENGTH] if lines else "its log is empty"


class NodeLogReader:
    """A reader of complete lines from a log that grows, and that a restart of its node replaces."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._at = 0
        self._partial = b""

    def read_new_lines(self) -> list[str]:
        """Return the lines since the last call; on the first call, all."""
        try:
            with self._path.open("rb") as log:
                status = os.fstat(log.fileno())
                # A restart renames the log and begins a new one.
                if status.st_ino != self._file or status.st_size < self._at:
                    self._file, self._at, self._partial = status.st_ino, 0, b""
                log.seek(self._at)
                added = log.read()
        except FileNotFoundError:
            return []
        self._at += len(added)
        *lines, self._partial = (self._partial + added).split(b"\n")
        return [line.decode(errors="replace") for line in lines]


def follow_logs(readers: Mapping[str, NodeLogReader], *, poll_s: float = 0.25) -> Iterator[tuple[str, str]]:
    """Yield new lines as they appear, each with the name of its log; never ends."""
    while True:
        quiet = True
        for name, reader in readers.items():
            for line in reader.read_new_lines():
                quiet = False
                yield name, line
        if quiet:
            time.sleep(poll_s)


class _DetachedProcess(subprocess.Popen[bytes]):
    """A process that outlives this one."""

    def __del__(self) -> None:
        """Do nothing, where Popen would warn that the process still runs."""


def build_java_command(java: Java, *, heap_mb: int, full_jit: bool = False) -> list[str]:
    """Return the command that runs a class of Kafka, without the class; its flags make a quick start."""
    return [
        str(java.path),
        f"-Xmx{heap_mb}m",
        # Enough for a small heap; concurrent collectors start more threads.
        "-XX:+UseSerialGC",
        *([] if full_jit else ["-XX:TieredStopAtLevel=1"]),
        "-Xshare:auto",
        # No file for jps in the temporary folder.
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={LOGGING_FILE}",
    ]


def find_class_archive(java: Java, classpath: Sequence[Path]) -> Path | None:
    """Return the archive of Kafka's classes as this Java has loaded them (JEP 350), if a node wrote one.

    With it, a node starts in half of the CPU time (3.8 s instead of 7.3 s with the formatting). Java ignores
    an archive of another version or of other jars.
    """
    archive = _name_class_archive(java, classpath)
    for written in archive.parent.glob(f"{archive.name}.*"):
        with suppress(FileNotFoundError), written.open("rb") as content:  # another process was first
            # Java writes the header last: it is empty until then, and stays so if the node is killed.
            if any(content.read(4)):
                written.replace(archive)
    return archive if archive.exists() else None


def _name_class_archive(java: Java, classpath: Sequence[Path]) -> Path:
    used = "\n".join(map(str, (java.path.resolve(), java.version, *classpath)))
    return get_cache_directory() / f"classes-{hashlib.sha256(used.encode()).hexdigest()[:16]}.jsa"


def _build_archive_options(java: Java, classpath: Sequence[Path], token: str | None) -> list[str]:
    """Return the options that use the archive; where there is none, the node of a token writes it."""
    if archive := find_class_archive(java, classpath):
        return [_WITHOUT_NOTES, f"-XX:SharedArchiveFile={archive}"]
    if token is None:
        return []
    return [_WITHOUT_NOTES, f"-XX:ArchiveClassesAtExit={_name_class_archive(java, classpath)}.{token}"]


def build_environment(classpath: Sequence[Path]) -> dict[str, str]:
    """Return this process's environment with the class path, which is too long for the command line."""
    return {**os.environ, "CLASSPATH": os.pathsep.join(map(str, classpath))}


def launch_node(
    java: Java,
    classpath: Sequence[Path],
    *,
    directory: Path,
    heap_mb: int,
    full_jit: bool,
    token: str,
    program: tuple[str, ...] = BROKER,
    writes_archive: bool = False,
) -> psutil.Process:
    """Start a node in its directory, in a session of its own, so that Ctrl-C does not reach it.

    If `writes_archive`, it writes the archive of classes when it ends by itself, where there is none.
    """
    log = directory / LOG_FILE
    rotate_log(log)
    command = [
        *build_java_command(java, heap_mb=heap_mb, full_jit=full_jit),
        *_build_archive_options(java, classpath, token if writes_archive else None),
        _mark(token),
        *program,
    ]
    try:
        with log.open("ab") as output:
            started = _DetachedProcess(
                command,
                cwd=directory,
                env=build_environment(classpath),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return psutil.Process(started.pid)
    except (OSError, psutil.Error) as error:
        raise DevClusterError(f"cannot start {java.path} in {directory}: {error}") from error


def find_processes(tokens: Collection[str]) -> Mapping[str, list[psutil.Process]]:
    """Find the running processes by the token that they carry; a launcher script precedes its JVM."""
    by_token: dict[str, list[psutil.Process]] = {token: [] for token in tokens}
    if not tokens:
        return by_token
    marks = {_mark(token): token for token in tokens}
    for process in psutil.process_iter():
        try:
            arguments = process.cmdline()
        except psutil.Error:
            continue  # it has ended since, or belongs to another user
        # A shell or an editor may have the token in its arguments, too.
        if not _PROGRAMS.isdisjoint(arguments):
            for mark in marks.keys() & set(arguments):
                by_token[marks[mark]].append(process)
    return by_token


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process has ended; reap it if it is a child of this one."""
    try:
        with suppress(psutil.TimeoutExpired):
            process.wait(timeout=0)
            return True
        # A zombie has ended; its parent, another kafkaform, has not reaped it yet.
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def end_processes(processes: Iterable[psutil.Process], *, grace_s: float) -> None:
    """Terminate processes, and kill them after `grace_s` seconds; 0 kills them at once.

    Raises:
        DevClusterError: One of them belongs to another account, or does not exit.
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


def generate_id() -> str:
    """Generate a random id as Kafka does: 128 bits in 22 characters, the first of which is not a dash."""
    while True:
        generated = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # Kafka's tools would take it for an option.
        if not generated.startswith("-"):
            return generated


def format_nodes(
    java: Java,
    classpath: Sequence[Path],
    directories: Mapping[int, Path],
    *,
    cluster_id: str,
    arguments: Sequence[str],
) -> None:
    """Format the storage of new nodes, after removing the leftovers of an interrupted formatting.

    Kafka's tool formats the first node. The others get a copy with their own ids: a JVM for each would take
    longer than the start of the cluster.

    Args:
        java: The Java that runs Kafka's tool.
        classpath: Kafka's jars.
        directories: The nodes' directories with their properties, by node id. The tool formats the first,
            which must have the oldest version: all others support its features.
        arguments: Additional arguments for Kafka's tool, such as `--add-scram …` or `--feature …`.

    Raises:
        DevClusterError: Kafka's tool failed.
    """
    for directory in directories.values():
        if (data := directory / DATA_DIRECTORY).exists():
            shutil.rmtree(data)
    # Ports and ids are in the properties and in meta.properties only: the storage itself is the same.
    first, *copies = directories
    formatted = directories[first] / DATA_DIRECTORY
    _format(java, classpath, directories[first], cluster_id, arguments)
    meta = javaproperties.loads((formatted / _META).read_text(encoding="latin-1"))
    for node_id in copies:
        data = directories[node_id] / DATA_DIRECTORY
        shutil.copytree(formatted, data)
        own = {**meta, "node.id": str(node_id)}
        if "directory.id" in own:  # since 3.7 (KIP-858)
            own["directory.id"] = generate_id()
        (data / _META).write_text(javaproperties.dumps(own), encoding="latin-1")


def _format(
    java: Java, classpath: Sequence[Path], directory: Path, cluster_id: str, arguments: Sequence[str]
) -> None:
    log = directory / FORMAT_LOG
    command = [
        *build_java_command(java, heap_mb=128), *_build_archive_options(java, classpath, None),
        "kafka.tools.StorageTool", "format", "--cluster-id", cluster_id, "--config", SERVER_FILE, *arguments,
    ]  # fmt: skip
    try:
        with log.open("wb") as output:
            done = subprocess.run(
                command,
                cwd=directory,
                env=build_environment(classpath),
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
        raise DevClusterError(f"cannot format the storage: {find_failure_line(log)}", hint=f"see {log}")

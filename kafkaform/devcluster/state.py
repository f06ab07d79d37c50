"""What a development cluster is, kept in its directory so that another process can find and stop it.

Its TCP ports.

No process id is kept: an id goes stale, and may by then belong to somebody else. Each start of a node
has a random token that stands in the node's command line, and that is written here before the process
exists; whoever carries the token is the node, and nobody else is.
"""

from __future__ import annotations

import json
import random
import shutil
import socket
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kafkaform.core.errors import DevClusterError
from kafkaform.core.files import replace
from kafkaform.core.wording import counted
from kafkaform.devcluster.releases import KAFKA_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


HOST = "127.0.0.1"
_HIGHEST = 65535


# Below the ranges that Linux and macOS hand to outgoing connections, which could take a port in between.
_FREE_RANGE = range(20000, 32000)


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        # As Java does: a port whose last connections are still in TIME_WAIT is free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen(1)
        except OSError:
            return False
    return True


def free_ports(count: int, *, avoid: frozenset[int] = frozenset()) -> tuple[int, ...]:
    """Different free ports, at random, so that clusters started at the same time hardly meet.

    Raises:
        DevClusterError: There are not that many.
    """
    chosen: list[int] = []
    for port in random.sample(_FREE_RANGE, len(_FREE_RANGE)):
        if len(chosen) == count:
            break
        if port not in avoid and is_free(port):
            chosen.append(port)
    if len(chosen) < count:
        raise DevClusterError(
            f"fewer than {count} of the ports {_FREE_RANGE.start}-{_FREE_RANGE.stop - 1} are free",
            hint="stop processes that listen on these ports",
        )
    return tuple(chosen)


def consecutive_ports(first: int, count: int) -> tuple[int, ...]:
    """The ports from `first` on, one a broker.

    Raises:
        DevClusterError: One of them is taken, may not be used by this account, or does not exist.
    """
    ports = tuple(range(first, first + count))
    if first < 1 or ports[-1] > _HIGHEST:
        raise DevClusterError(
            f"{counted(count, 'broker')} from port {first} on would need ports above {_HIGHEST}",
            hint="choose a lower --port",
        )
    for port in ports:
        if not is_free(port):
            raise DevClusterError(
                f"port {port} on {HOST} is in use, or may not be used by this account",
                hint=f"choose another --port, or see who listens: lsof -nP -iTCP:{port} -sTCP:LISTEN",
            )
    return ports


STATE_FILE = "cluster.json"
_FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class DevBroker:
    """One broker and controller.

    Attributes:
        id: From 1 on.
        port: Of the plaintext listener for clients and other brokers.
        controller_port: Of the listener for the controllers' quorum.
        sasl_port: Of the SASL listener, where there is one.
        token: Marks the node's process; None when it was stopped on purpose.
        kafka_version: What it runs, such as `4.3.1`.
    """

    id: int
    port: int
    controller_port: int
    sasl_port: int | None = None
    token: str | None = None
    kafka_version: str = KAFKA_VERSION

    @property
    def name(self) -> str:
        """The name of the node and of its directory."""
        return f"node-{self.id}"

    @property
    def rack(self) -> str:
        """The rack it says it is in: each node has its own."""
        return f"rack-{self.id}"

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"{HOST}:{self.port}"


@dataclass(frozen=True, slots=True)
class ZooKeeper:
    """The ZooKeeper of a cluster whose brokers need one; it runs while one of them does."""

    port: int
    token: str | None = None

    @property
    def name(self) -> str:
        """The name of its directory."""
        return "zookeeper"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster, running or not.

    Attributes:
        cluster_id: The id that it gave itself; empty until brokers with ZooKeeper have done so.
        heap_mb: The heap of each node in MiB.
        formatted: Whether the nodes' storage is ready for a start.
        nodes: Its nodes.
        full_jit: See `DevCluster.start`.
        zookeeper: Beside brokers that need one.
    """

    cluster_id: str
    heap_mb: int
    formatted: bool
    nodes: tuple[DevBroker, ...]
    full_jit: bool = False
    zookeeper: ZooKeeper | None = None


def read(directory: Path) -> ClusterState | None:
    """The cluster that is kept in a directory; None if there is none.

    Raises:
        DevClusterError: The file is damaged, or of another version of this tool.
    """
    path = directory / STATE_FILE
    try:
        return _parse(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DevClusterError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DevClusterError(
            f"{path} is damaged, or was written by another version of kafkaform",
            hint=f"stop its processes by hand, remove {directory}, and start again",
        ) from error


def _parse(content: dict[str, Any]) -> ClusterState:
    if content.pop("format_version") != _FORMAT_VERSION:
        raise ValueError("another format version")
    nodes = tuple(DevBroker(**node) for node in content.pop("nodes"))
    kept = content.pop("zookeeper", None)
    return ClusterState(nodes=nodes, zookeeper=ZooKeeper(**kept) if kept else None, **content)


def write(directory: Path, state: ClusterState) -> None:
    """Replace the kept state in one step."""
    content = json.dumps({"format_version": _FORMAT_VERSION, **asdict(state)}, indent=1)
    replace(directory / STATE_FILE, content.encode())


LOCK_FILE = "lock"
_IGNORE_FILE = ".gitignore"
_IGNORE_ALL = "*\n"


def make(directory: Path) -> None:
    """Make the directory if it is missing; one made here is kept out of Git.

    Raises:
        DevClusterError: It cannot be made.
    """
    try:
        if not directory.exists():
            directory.mkdir(parents=True)
            (directory / _IGNORE_FILE).write_text(_IGNORE_ALL, encoding="utf-8")
        (directory / LOCK_FILE).touch()
    except OSError as error:
        raise DevClusterError(
            f"cannot keep a cluster in {directory}: {error.strerror}", hint="choose another --data"
        ) from error


def refuse_strangers(directory: Path, kept: ClusterState | None, nodes: Sequence[DevBroker]) -> None:
    """Refuse a directory whose parts were not made by a start that is known.

    Raises:
        DevClusterError: There is no kept state, but something stands where a node's files would go.
    """
    for node in nodes:
        if kept is None and (stranger := directory / node.name).exists():
            raise DevClusterError(
                f"{stranger} exists, but {STATE_FILE} beside it does not",
                hint=f"move {stranger} away, or choose another --data",
            )


def clear(directory: Path, members: Sequence[DevBroker | ZooKeeper]) -> None:
    """Remove what a cluster's start has put here, and the directory itself if nothing else is in it."""
    for member in members:
        if (home := directory / member.name).exists():
            shutil.rmtree(home)
    (directory / STATE_FILE).unlink()
    ignore = directory / _IGNORE_FILE
    if ignore.exists() and ignore.read_text(encoding="utf-8") == _IGNORE_ALL:
        ignore.unlink()
    (directory / LOCK_FILE).unlink()
    if not any(directory.iterdir()):
        directory.rmdir()


class DevClusterStatus(StrEnum):
    """The state of a cluster as a whole."""

    RUNNING = "running"
    UNRESPONSIVE = "unresponsive"
    PARTIAL = "partial"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node; `pid` is None when it has no process, and `answers` is whether it serves requests."""

    id: int
    address: str
    rack: str
    kafka_version: str
    pid: int | None
    answers: bool
    log: Path


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """All nodes of a cluster, and how they are together."""

    cluster_id: str
    bootstrap_servers: str
    nodes: tuple[NodeStatus, ...]

    @property
    def health(self) -> DevClusterStatus:
        """Running only if every node has a process and answers."""
        alive = [node for node in self.nodes if node.pid is not None]
        if not alive:
            return DevClusterStatus.STOPPED
        if len(alive) < len(self.nodes):
            return DevClusterStatus.PARTIAL
        return (
            DevClusterStatus.RUNNING if all(node.answers for node in alive) else DevClusterStatus.UNRESPONSIVE
        )

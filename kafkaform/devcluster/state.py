"""What a development cluster is, kept in its directory so that another process can find and stop it.

No process id is kept: an id goes stale, and may by then belong to somebody else. Each start of a node
has a random token that stands in the node's command line, and that is written here before the process
exists; whoever carries the token is the node, and nobody else is.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kafkaform.core.errors import DevClusterError
from kafkaform.core.files import replace
from kafkaform.devcluster.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


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
    """

    id: int
    port: int
    controller_port: int
    sasl_port: int | None = None
    token: str | None = None

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
class ClusterState:
    """A cluster, running or not.

    Attributes:
        cluster_id: The id that it gave itself.
        heap_mb: The heap of each node in MiB.
        formatted: Whether the nodes' storage is ready for a start.
        nodes: Its nodes.
        full_jit: See `DevCluster.start`.
    """

    cluster_id: str
    heap_mb: int
    formatted: bool
    nodes: tuple[DevBroker, ...]
    full_jit: bool = False


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
            f"{path} is damaged, or of another version of kafkaform",
            hint=f"stop what runs there by hand, remove {directory}, and start anew",
        ) from error


def _parse(content: dict[str, Any]) -> ClusterState:
    if content.pop("format_version") != _FORMAT_VERSION:
        raise ValueError("another format version")
    nodes = tuple(DevBroker(**node) for node in content.pop("nodes"))
    return ClusterState(nodes=nodes, **content)


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


def clear(directory: Path, nodes: Sequence[DevBroker]) -> None:
    """Remove what a cluster's start has put here, and the directory itself if nothing else is in it."""
    for node in nodes:
        if (home := directory / node.name).exists():
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

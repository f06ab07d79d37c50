"""The state of a development cluster, stored in its directory so that other processes can find and stop it.

No process id is stored: the operating system may have reused it. Each start of a node has a random token in
its command line, which is stored before the process exists; a process with the token is the node.
"""

from __future__ import annotations

import json
import shutil
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from kafkaform.core.errors import DevClusterError
from kafkaform.core.files import read_file, replace
from kafkaform.core.values import Value
from kafkaform.devcluster.ports import HOST
from kafkaform.devcluster.releases import KAFKA_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


STATE_FILE = "cluster.json"
LOCK_FILE = "lock"
_FORMAT_VERSION = 1
_IGNORE_FILE = ".gitignore"
_IGNORE_ALL = "*\n"


class DevBroker(Value):
    """A node that is both broker and controller.

    Attributes:
        id: The node id, from 1 on.
        port: The port of the plaintext listener for clients and other brokers.
        controller_port: The port of the listener for the quorum of controllers.
        sasl_port: The port of the SASL listener, if there is one.
        token: Marks the process of the node; None after it was stopped on purpose.
        kafka_version: The version of Kafka, such as `4.3.1`.
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
        """The rack of the node; each node has its own."""
        return f"rack-{self.id}"

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"{HOST}:{self.port}"


class ZooKeeper(Value):
    """The ZooKeeper of a cluster whose brokers need one; it runs while one of them runs."""

    port: int
    token: str | None = None

    @property
    def name(self) -> str:
        """The name of its directory."""
        return "zookeeper"


class Registry(Value):
    """The schema registry of a cluster."""

    port: int
    token: str | None = None

    @property
    def name(self) -> str:
        """The name of its directory."""
        return "schema-registry"

    @property
    def url(self) -> str:
        """The address for clients, `schema.registry.url`."""
        return f"http://{HOST}:{self.port}/apis/ccompat/v7"


class ClusterState(Value):
    """A cluster, running or not.

    Attributes:
        cluster_id: The id of the cluster; empty until brokers with ZooKeeper have generated it.
        heap_mb: The heap of each node in MiB.
        formatted: Whether the nodes' storage is ready for a start.
        nodes: The nodes, by id.
        full_jit: As in `ClusterSpec`.
        zookeeper: The ZooKeeper, if the brokers need one.
        acls: As in `ClusterSpec`.
        registry: The schema registry, if it has one.
    """

    cluster_id: str
    heap_mb: int
    formatted: bool
    nodes: tuple[DevBroker, ...]
    full_jit: bool = False
    zookeeper: ZooKeeper | None = None
    acls: bool = False
    registry: Registry | None = None


def read_state(directory: Path) -> ClusterState | None:
    """Read the state of the cluster in a directory; None if there is none.

    Raises:
        DevClusterError: The file is damaged, or from another version of kafkaform.
    """
    path = directory / STATE_FILE
    try:
        return _parse(json.loads(read_file(path)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DevClusterError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DevClusterError(
            f"{path} is damaged, or was written by another version of kafkaform",
            hint=f"stop its processes by hand, remove {directory}, and start again",
        ) from error


def _parse(content: dict[str, Any]) -> ClusterState:
    if content.pop("format_version") != _FORMAT_VERSION:
        raise ValueError("another format version")
    nodes = tuple(DevBroker(**node) for node in content.pop("nodes"))
    zookeeper, registry = content.pop("zookeeper", None), content.pop("registry", None)
    return ClusterState(
        nodes=nodes,
        zookeeper=ZooKeeper(**zookeeper) if zookeeper else None,
        registry=Registry(**registry) if registry else None,
        **content,
    )


def write_state(directory: Path, state: ClusterState) -> None:
    """Replace the stored state atomically."""
    content = json.dumps({"format_version": _FORMAT_VERSION, **msgspec.to_builtins(state)}, indent=1)
    # Other processes read it at any time, without the lock.
    replace(directory / STATE_FILE, content.encode())


def make_directory(directory: Path) -> None:
    """Create the directory if it is missing, with a .gitignore that keeps it out of Git.

    Raises:
        DevClusterError: It cannot be created.
    """
    try:
        if not directory.exists():
            directory.mkdir(parents=True)
            (directory / _IGNORE_FILE).write_text(_IGNORE_ALL, encoding="utf-8")
        (directory / LOCK_FILE).touch()
    except OSError as error:
        raise DevClusterError(
            f"cannot write to {directory}: {error.strerror}", hint="choose another --data"
        ) from error


def refuse_foreign_files(directory: Path, stored: ClusterState | None, nodes: Sequence[DevBroker]) -> None:
    """Refuse a directory that has a node's folder, but no stored state: kafkaform may not have created it.

    Raises:
        DevClusterError: There is such a folder.
    """
    for node in nodes:
        # `down --wipe` removes these folders: they must not be somebody's data.
        if stored is None and (folder := directory / node.name).exists():
            raise DevClusterError(
                f"{folder} exists, but {STATE_FILE} beside it does not",
                hint=f"move {folder} away, or choose another --data",
            )


def remove_folder(directory: Path, member: DevBroker | ZooKeeper | Registry) -> None:
    """Remove the folder of a node, if there is one."""
    if (home := directory / member.name).exists():
        shutil.rmtree(home)


def remove_files(directory: Path, members: Sequence[DevBroker | ZooKeeper | Registry]) -> None:
    """Remove the files that a start created, and the directory itself if it is then empty."""
    for member in members:
        remove_folder(directory, member)
    # After the nodes' folders: if removing them fails, the cluster can still be found and wiped.
    (directory / STATE_FILE).unlink()
    ignore = directory / _IGNORE_FILE
    # Only if nobody has edited it.
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


class NodeStatus(Value):
    """The status of a node; `pid` is None without a process, `responds` is True if it serves requests."""

    id: int
    address: str
    rack: str
    kafka_version: str
    pid: int | None
    responds: bool
    log: Path


class ClusterStatus(Value):
    """The status of a cluster and of its nodes."""

    cluster_id: str
    bootstrap_servers: str
    nodes: tuple[NodeStatus, ...]

    @property
    def health(self) -> DevClusterStatus:
        """RUNNING only if every node has a process and serves requests."""
        alive = [node for node in self.nodes if node.pid is not None]
        if not alive:
            return DevClusterStatus.STOPPED
        if len(alive) < len(self.nodes):
            return DevClusterStatus.PARTIAL
        return (
            DevClusterStatus.RUNNING
            if all(node.responds for node in alive)
            else DevClusterStatus.UNRESPONSIVE
        )

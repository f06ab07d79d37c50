"""What a development cluster is, kept in its directory so that another process can find and stop it.

No process id is kept: an id goes stale, and may by then belong to somebody else. Each start of a node
has a random token that stands in the node's command line, and that is written here before the process
exists; whoever carries the token is the node, and nobody else is.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kafkaform.core.errors import DevClusterError
from kafkaform.core.files import replace
from kafkaform.devcluster.ports import HOST

if TYPE_CHECKING:
    from pathlib import Path

STATE_FILE = "cluster.json"
_FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Node:
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
    nodes: tuple[Node, ...]
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
    nodes = tuple(Node(**node) for node in content.pop("nodes"))
    return ClusterState(nodes=nodes, **content)


def write(directory: Path, state: ClusterState) -> None:
    """Replace the kept state in one step."""
    content = json.dumps({"format_version": _FORMAT_VERSION, **asdict(state)}, indent=1)
    replace(directory / STATE_FILE, content.encode())
